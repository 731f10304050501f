"""What people reported of other stream processors: each test is one report, as a program of windowkit.

Expected values are computed by hand or by plain Python from what the reporter needed. Where a report is of
one case among many, random cases near it are compared with the naive definition as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import windowkit as wk

UTC = ZoneInfo("UTC")


def rows(**columns: Any) -> pa.Table:
    """A batch whose columns are named; integers and strings unless their type is given."""
    return pa.table(columns)


def starts(result: pa.Table, *names: str) -> list[tuple[Any, ...]]:
    """Start and end of each window, and the columns that are named."""
    return [tuple(row[name] for name in ("window_start", "window_end", *names)) for row in result.to_pylist()]


def sessions(times: Iterable[int], gap: int) -> list[tuple[int, int, int]]:
    """Start, end and number of rows of each session, naively."""
    found: list[tuple[int, int, int]] = []
    for time in sorted(times):
        if found and time <= found[-1][1]:
            start, _, count = found.pop()
            found.append((start, time + gap, count + 1))
        else:
            found.append((time, time + gap, 1))
    return found


CALLS = st.lists(
    st.lists(st.integers(0, 60), min_size=1, max_size=4) | st.integers(0, 80).map(lambda at: ("advance", at)),
    max_size=12,
)


# Sessions

VISITS = wk.query(by=[], time="t", windows=wk.session(5), aggs=wk.count().alias("n"))
TIMES = pa.schema({"t": pa.int64()})


@given(batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=5), max_size=10))
def test_early_results_of_sessions_that_merge_are_withdrawn(batches: list[list[int]]) -> None:
    """https://github.com/seznam/euphoria/issues/43: once a session had merged others, consumers of early
    results could not tell which of them it replaced. With retractions, the results so far are the sessions of
    the rows so far."""
    op = VISITS.operator(order="out-of-order", schema=TIMES, emit=wk.emit(wk.rows(1), "retracting"))
    table: Counter[Any] = Counter()
    seen: list[int] = []
    for batch in batches:
        seen += batch
        for *session, weight in starts(op.push(rows(t=batch)), "n", "weight"):
            table[tuple(session)] += weight
        assert +table == Counter(sessions(seen, 5))
        assert not -table


def test_a_late_row_joins_the_session_that_was_emitted() -> None:
    """https://github.com/apache/beam/issues/18677: without lateness, [0, 5) was emitted, and then an
    overlapping [3, 8). Here the second is the whole session, or, where no result may be updated, has the rows
    of the first no more."""
    op = VISITS.operator(order="out-of-order")
    op.push(rows(t=[0]))
    assert starts(op.advance(6), "n") == [(0, 5, 1)]
    op.push(rows(t=[3]))
    assert starts(op.advance(9), "n", "update") == [(0, 8, 2, True)]

    op = VISITS.operator(order="out-of-order", updates=False)
    op.push(rows(t=[0]))
    assert starts(op.advance(6), "n") == [(0, 5, 1)]
    op.push(rows(t=[3]))
    assert starts(op.advance(9), "n") == [(3, 8, 1)]


@example(calls=[("advance", 30), [23, 24, 25, 26]], window=wk.session(5))
@example(calls=[("advance", 30), [23, 24, 25, 26]], window=wk.session(5, at_most=12))
@given(calls=CALLS, window=st.sampled_from([wk.session(5), wk.session(5, at_most=12), wk.tumbling(5)]))
def test_without_updates_each_row_is_in_one_window_or_late(calls: list[Any], window: wk.Window) -> None:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", updates=False, schema=TIMES)
    came, late, counted, reached = 0, 0, 0, -1
    for call in [*calls, None]:
        match call:
            case None:
                result = op.close()
            case "advance", time:
                reached = max(reached, time)
                result = op.advance(reached)
            case _:
                result = op.push(rows(t=call))
                came += len(call)
                # Those of windows that were over, of which sessions are so once a gap has passed.
                ends = [time // 5 * 5 + 5 if window == wk.tumbling(5) else time + 5 for time in call]
                late += sum(end <= reached for end in ends)
        counted += sum(n for *_, n in starts(result, "n"))
    assert (op.late, counted) == (late, came - late)


@given(calls=CALLS, lateness=st.integers(0, 15))
def test_no_late_row_makes_a_merge_fail(calls: list[Any], lateness: int) -> None:
    """https://stackoverflow.com/questions/57334257: a job failed, again and again, when sessions that late
    rows merged ended before the watermark. Whatever comes late, updates that replace what they cover lead to
    the sessions of all rows that were not too late."""
    op = VISITS.operator(order="out-of-order", allowed_lateness=lateness, schema=TIMES)
    table: list[tuple[int, int, int]] = []
    seen: list[int] = []
    results: list[pa.Table] = []
    for call in calls:
        if isinstance(call, tuple):
            results.append(op.advance(max(call[1], -1 if op.watermark is None else op.watermark.as_py())))
        else:
            seen += call
            results.append(op.push(rows(t=call)))
    results.append(op.close())
    for result in results:
        for start, end, count in starts(result, "n"):
            table = [each for each in table if each[1] <= start or each[0] >= end]
            table.append((start, end, count))
    too_late = Counter(op.take_late()["t"].to_pylist())
    assert sorted(table) == sessions((Counter(seen) - too_late).elements(), 5)


def test_rows_that_are_too_late_for_a_session_are_not_put_into_the_next() -> None:
    """https://github.com/hazelcast/hazelcast-jet/issues/747: a late row was counted in the session after its
    own."""
    op = VISITS.operator(order="out-of-order", allowed_lateness=0)
    op.push(rows(t=[1]))
    assert starts(op.advance(20), "n") == [(1, 6, 1)]
    op.push(rows(t=[2, 21]))
    assert starts(op.advance(40), "n") == [(21, 26, 1)]
    assert op.take_late().to_pylist() == [{"t": 2, "late_reason": "too late"}]


def test_the_last_event_of_a_session_ends_it_at_once() -> None:
    """https://github.com/apache/beam/issues/17945: a session with an id and an explicit last event should not
    wait for the gap. A key that is advanced past it is emitted, and forgotten once the stream is there."""
    query = wk.query(by="session", time="t", windows=wk.session(30), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order")
    op.push(rows(session=["x", "y", "x", "y"], t=[1, 2, 5, 6], last=[False, False, True, False]))
    assert op.advance(5 + 30 + 1, key="x").select(["session", "n"]).to_pylist() == [{"session": "x", "n": 2}]
    assert op.advance(6 + 30 + 1).select(["session", "n"]).to_pylist() == [{"session": "y", "n": 2}]
    # A row whose own session is open could still join one that was emitted: it is at most a gap after that.
    op.advance(6 + 30 + 30 + 1)
    assert op.stats().keys == 0


def test_a_session_is_emitted_once_and_in_a_lull() -> None:
    """https://github.com/risingwavelabs/risingwave/issues/20834: the last session of a stream stayed open
    until other rows came. With a heartbeat, time passes without rows."""
    now = 0
    op = wk.query(
        by="customer", time="at", windows=wk.session("5 seconds"), aggs=wk.count().alias("n")
    ).operator(
        order="out-of-order",
        progress=wk.delay("5 seconds", heartbeat="10 seconds"),
        clock=lambda: now,
    )
    at = pa.array([0, 2_000_000, 3_000_000], pa.timestamp("us"))
    assert op.push(rows(customer=["ABCD"] * 3, at=at)).num_rows == 0
    emitted = []
    for _ in range(12):
        now += 2_000_000
        emitted += op.advance()["n"].to_pylist()
    assert emitted == [3]


# Windows without rows


def test_zeros_for_windows_without_rows() -> None:
    """https://github.com/influxdata/kapacitor/issues/1474: days without points had no count of 0, so that a
    mean over days was wrong. A row of nulls for each key and window that is expected makes a window of it,
    and counts nothing."""
    query = wk.query(by="host", time="t", windows=wk.tumbling(10), aggs=[wk.count("x"), wk.sum("x")])
    op = query.operator(order="out-of-order", progress=wk.delay(0))
    schema = pa.schema({"host": pa.string(), "t": pa.int64(), "x": pa.int64()})
    found = []
    for t, x in [(0, None), (3, 1), (10, None), (20, None), (24, 7), (30, None)]:
        result = op.push(pa.table({"host": ["a"], "t": [t], "x": [x]}, schema=schema))
        found += starts(result, "count(x)", "sum(x)")
    assert found == [(0, 10, 1, 1), (10, 20, 0, None), (20, 30, 1, 7)]


def test_silence_is_counted() -> None:
    """https://github.com/influxdata/kapacitor/issues/137: an alert on a count of 0 never came, since without
    events no time passes. In processing time it does, and a row of nulls at each tick has no value to
    count."""
    now = 0
    query = wk.query(
        by=[], time=wk.PROCESSING_TIME, windows=wk.tumbling("10 seconds"), aggs=wk.count("v").alias("n")
    )
    op = query.operator(clock=lambda: now, schema=pa.schema({"v": pa.int64()}))
    alerts = []
    for second in range(0, 50, 2):
        now = second * 1_000_000
        arrived = [1] if second < 14 else []
        result = op.push(rows(v=pa.array([*arrived, None], pa.int64())))
        alerts += [start.second for start, _, n in starts(result, "n") if n == 0]
    assert alerts == [20, 30]


def test_a_rate_over_the_last_seconds_goes_down_when_nothing_comes() -> None:
    """https://github.com/rcoh/angle-grinder/issues/164: counts over the last seconds should fall while a key
    is silent, and the key should be gone then."""
    query = wk.query(by="key", time="t", windows=wk.sliding(5, 1), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order")
    op.push(rows(key=["a", "a", "a", "b"], t=[0, 1, 2, 9]))
    shown = {}
    for now in range(3, 10):
        newest = op.advance(now).filter(pc.field("window_end") == now)
        shown[now] = {row["key"]: row["n"] for row in newest.to_pylist()}
    assert shown == {3: {"a": 3}, 4: {"a": 3}, 5: {"a": 3}, 6: {"a": 2}, 7: {"a": 1}, 8: {}, 9: {}}
    assert op.stats().keys == 1


# Where windows begin


@given(
    time=st.integers(-(10**15), 10**15),
    slide=st.integers(1, 10**6),
    factor=st.fractions(1, 8),
    offset=st.fractions(-1, 1).filter(lambda share: abs(share) < 1),
)
def test_windows_before_1970_and_with_an_offset(
    time: int, slide: int, factor: Fraction, offset: Fraction
) -> None:
    """https://github.com/influxdata/flux/issues/2856 (and FLINK-26334, SPARK-39347): rows before 1970 were
    put into windows that begin after them, where the remainder of a division is negative."""
    size, start = int(slide * factor), int(slide * offset)
    query = wk.query(
        by=[], time="t", windows=wk.sliding(size, slide, start_time=start), aggs=wk.count().alias("n")
    )
    op = query.operator(order="out-of-order")
    op.push(rows(t=[time]))
    last = (time - start) // slide
    expected = [(k * slide + start, k * slide + start + size) for k in range(last - 8, last + 1)]
    expected = [(begin, end) for begin, end in expected if begin <= time < end]
    assert starts(op.close(), "n") == [(begin, end, 1) for begin, end in expected]


def test_windows_that_are_aligned_to_a_moment() -> None:
    """https://github.com/bytewax/bytewax/issues/413: with windows of 1,600 ms every 700 ms, aligned to a
    moment years ago, rows were lost. The offset is the moment's distance from a multiple of the slide."""
    moment = datetime(2023, 1, 1, tzinfo=UTC)
    slide, size = timedelta(milliseconds=700), timedelta(milliseconds=1600)
    aligned = wk.sliding(size, slide, start_time=(moment - datetime(1970, 1, 1, tzinfo=UTC)) % slide)
    query = wk.query(by=[], time="ts", windows=aligned, aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", progress=wk.delay("5 seconds"))
    given = [datetime.fromtimestamp(ms / 1000, UTC) for ms in range(1709315512577, 1709315532577, 530)]
    results = [op.push(rows(ts=pa.array([ts], pa.timestamp("ms", "UTC")))) for ts in given]
    found = [row for result in [*results, op.close()] for row in starts(result, "n")]
    expected = []
    begin = moment + (given[0] - moment) // slide * slide - 3 * slide
    while begin <= given[-1]:
        within = sum(begin <= ts < begin + size for ts in given)
        expected += [(begin, begin + size, within)] if within else []
        begin += slide
    assert found == expected
    assert op.late == 0


@given(days=st.lists(st.dates(date(1890, 1, 1), date(2150, 12, 31)), min_size=1, max_size=6))
def test_months_and_years_are_those_of_the_calendar(days: list[date]) -> None:
    """https://github.com/risingwavelabs/risingwave/issues/19075: windows of a month or a year began on days
    like the 26th of May, as multiples of 30 days."""

    def year(day: date) -> tuple[date, date]:
        return date(day.year, 1, 1), date(day.year + 1, 1, 1)

    def month(day: date) -> tuple[date, date]:
        return day.replace(day=1), (day.replace(day=1) + timedelta(days=32)).replace(day=1)

    for length, window in [("1 year", year), ("1 month", month)]:
        query = wk.query(by=[], time="day", windows=wk.tumbling(length), aggs=wk.count().alias("n"))
        op = query.operator(order="out-of-order")
        op.push(rows(day=pa.array(days, pa.date32())))
        expected = Counter(window(day) for day in days)
        assert starts(op.close(), "n") == sorted((*each, count) for each, count in expected.items())


@given(
    hours=st.lists(st.integers(0, 24 * 6), min_size=1, max_size=8),
    change=st.sampled_from([("Europe/Berlin", 3, 29), ("Europe/Berlin", 10, 23), ("America/New_York", 3, 6)]),
)
def test_days_of_a_zone_in_which_clocks_change(hours: list[int], change: tuple[str, int, int]) -> None:
    """https://github.com/apache/streampipes/issues/1292 and
    https://github.com/matrixorigin/matrixone/pull/27219: days began at one in the morning, and a day of 23
    hours took in an hour of the next."""
    name, month, day = change
    zone = ZoneInfo(name)
    begin = datetime(2026, month, day, tzinfo=zone).astimezone(UTC)
    times = [begin + timedelta(hours=hour) for hour in hours]
    query = wk.query(by=[], time="ts", windows=wk.tumbling("1 day", zone=name), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order")
    op.push(rows(ts=pa.array(times, pa.timestamp("s", "UTC"))))
    expected = Counter(time.astimezone(zone).date() for time in times)
    found = starts(op.close(), "n")
    assert [(start.date(), start.hour, end.date(), end.hour, n) for start, end, n in found] == [
        (each, 0, each + timedelta(days=1), 0, count) for each, count in sorted(expected.items())
    ]


# Late rows


def test_lateness_that_is_shorter_than_a_window() -> None:
    """https://github.com/faust-streaming/faust/issues/118: rows up to ten seconds after the end of a minute
    were to be counted, and the minute processed once, then; an expiry below the size had no such effect. That
    is a delay."""
    query = wk.query(by="id", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.sum("value").alias("sum"))
    op = query.operator(order="out-of-order", progress=wk.delay("10 seconds"))

    def push(second: int, value: int) -> list[int]:
        ts = pa.array([second], pa.timestamp("s"))
        return op.push(rows(id=["a"], ts=ts, value=[value]))["sum"].to_pylist()

    assert push(50, 1) == push(65, 10) == push(59, 2) == push(69, 20) == []
    assert push(70, 40) == [3]
    assert push(58, 4) == []
    assert op.late == 1


@given(
    times=st.lists(st.integers(0, 40), max_size=15),
    slide=st.integers(1, 8),
    overlap=st.integers(0, 12),
    lateness=st.integers(0, 6),
)
def test_a_row_that_is_late_for_some_of_its_windows(
    times: list[int], slide: int, overlap: int, lateness: int
) -> None:
    """https://github.com/hazelcast/hazelcast-jet/pull/675 and https://github.com/numaproj/numaflow/pull/1472:
    a row in several windows, some of which had expired, was lost for the others, or was taken out of windows
    that did not have it."""
    size = slide + overlap
    query = wk.query(by=[], time="t", windows=wk.sliding(size, slide), aggs=wk.sum("t").alias("sum"))
    op = query.operator(order="out-of-order", allowed_lateness=lateness, schema=TIMES)
    found: dict[Any, int] = {}
    expected: dict[tuple[int, int], int] = {}
    watermark = -1
    for number, time in enumerate(times):
        result = op.push(rows(t=[time]))
        for begin in range(time // slide * slide, time - size, -slide):
            if begin + size + lateness > watermark:
                expected[begin, begin + size] = expected.get((begin, begin + size), 0) + time
        found |= {(start, end): total for start, end, total in starts(result, "sum")}
        if number % 3 == 2:
            watermark = max(watermark, time)
            found |= {(start, end): total for start, end, total in starts(op.advance(watermark), "sum")}
    found |= {(start, end): total for start, end, total in starts(op.close(), "sum")}
    assert found == expected


STEPS = st.lists(
    st.lists(st.tuples(st.integers(-12, 6), st.integers(1, 9)), min_size=1, max_size=3),
    min_size=1,
    max_size=12,
)
VALUES = pa.schema({"t": pa.int64(), "v": pa.int64()})


@given(
    steps=STEPS,
    every=st.integers(1, 6),
    times=st.integers(1, 6),
    delay=st.integers(0, 5),
    at=st.integers(0, 12),
)
def test_late_rows_of_cumulative_windows_count_in_the_next(
    steps: list[list[tuple[int, int]]], every: int, times: int, delay: int, at: int
) -> None:
    """https://github.com/apache/flink/pull/17509: whether a late row was counted in the next window of its
    day depended on whether the job had been restored since. It is, as long as there is one."""
    period = every * times
    query = wk.query(
        by=[], time="t", windows=wk.landmark(every, period=period), aggs=wk.sum("v").alias("sum")
    )
    op = query.operator(order="out-of-order", progress=wk.delay(delay), schema=VALUES)
    found, late, watermark = [], [], -(10**9)
    new: dict[tuple[int, int], int] = {}
    for number, step in enumerate(steps):
        batch = [(3 * number + t, v) for t, v in step]
        if number == at:
            op = wk.Operator.restore(op.snapshot(), query)
        found += starts(op.push(pa.table(list(zip(*batch, strict=True)), schema=VALUES)), "sum")
        for t, v in batch:
            start = t // period * period
            end = start + ((max(t, watermark) - start) // every + 1) * every
            if start + period <= watermark:
                late.append(t)
            else:
                new[start, end] = new.get((start, end), 0) + v
        watermark = max(watermark, *(t - delay for t, _ in batch))
    found += starts(op.close(), "sum")
    assert sorted(found) == sorted(
        (start, end, sum(v for (of, until), v in new.items() if of == start and until <= end))
        for start, end in new
    )
    assert op.take_late()["t"].to_pylist() == late


@given(
    steps=STEPS,
    slide=st.integers(1, 6),
    overlap=st.integers(0, 6),
    lateness=st.integers(1, 30),
    trigger=st.sampled_from([None, wk.every(3), wk.rows(2)]),
    later=st.integers(1, 15),
)
def test_updates_that_are_held_back_are_not_lost(
    steps: list[list[tuple[int, int]]], slide: int, overlap: int, lateness: int, trigger: Any, later: int
) -> None:
    """https://github.com/apache/flink/pull/18995: late rows whose updates were to be emitted at intervals
    were lost, as their windows were cleared before."""
    size = slide + overlap
    query = wk.query(
        by=[],
        time="t",
        windows=wk.sliding(size, slide),
        aggs=wk.sum("v").alias("sum"),
        emit=wk.emit(trigger, later=later),
    )
    op = query.operator(order="out-of-order", progress=wk.delay(2), allowed_lateness=lateness, schema=VALUES)
    found: dict[int, int] = {}
    expected: dict[int, int] = {}
    watermark = -(10**9)
    for number, step in enumerate(steps):
        batch = [(3 * number + t, v) for t, v in step]
        result = op.push(pa.table(list(zip(*batch, strict=True)), schema=VALUES))
        found |= {start: total for start, _, total in starts(result, "sum")}
        for t, v in batch:
            for start in range(t // slide * slide, t - size, -slide):
                if start + size + lateness > watermark:
                    expected[start] = expected.get(start, 0) + v
        watermark = max(watermark, *(t - 2 for t, _ in batch))
    found |= {start: total for start, _, total in starts(op.close(), "sum")}
    assert found == expected


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        # Left out at 1,035, from where on the watermark is that of the other.
        ({"idle": "30 seconds"}, {1035: [2, 2, 2], 1045: [2], 1055: [2]}),
        # Half a minute behind the clock.
        ({"heartbeat": "30 seconds"}, {1040: [2], 1050: [2]}),
    ],
)
def test_a_partition_that_never_had_a_record(how: dict[str, str], expected: dict[int, list[int]]) -> None:
    """https://github.com/apache/beam/pull/40176: a partition that had no record since the job began held back
    the others for ever, as its progress began with its first record."""
    now = 1000
    query = wk.query(by=[], time="ts", windows=wk.tumbling("10 seconds"), aggs=wk.count().alias("n"))
    op = query.operator(
        order="out-of-order",
        progress=wk.delay("1 second", source="partition", sources=["a", "b"], **how),
        clock=lambda: now * 1_000_000,
        schema=pa.schema({"ts": pa.timestamp("s"), "partition": pa.string()}),
    )
    emitted = {}
    for now in range(1000, 1060, 5):
        results = [op.advance(), op.push(rows(ts=pa.array([now], pa.timestamp("s")), partition=["a"]))]
        emitted[now] = [n for result in results for n in result["n"].to_pylist()]
    assert {now: counts for now, counts in emitted.items() if counts} == expected
    assert op.late == 0


@given(
    batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=5), min_size=1, max_size=10),
    delay=st.integers(0, 9),
    limit=st.integers(0, 4),
)
def test_no_row_is_dropped_in_silence(batches: list[list[int]], delay: int, limit: int) -> None:
    """https://github.com/risingwavelabs/risingwave/issues/23270: in finance, no row may be lost without
    anyone knowing. Each is in a window, or is returned as late, or is counted where more are late than may be
    held."""
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", progress=wk.delay(delay), late_limit=limit, schema=TIMES)
    emitted = [n for batch in batches for n in op.push(rows(t=batch))["n"].to_pylist()]
    emitted += op.close()["n"].to_pylist()
    late, watermark = [], -(10**9)
    for batch in batches:
        late += [t for t in batch if t // 10 * 10 + 10 <= watermark]
        watermark = max(watermark, max(batch) - delay)
    assert op.take_late()["t"].to_pylist() == late[:limit]
    assert op.stats().late_dropped == len(late[limit:])
    assert sum(emitted) == sum(map(len, batches)) - len(late)


def test_windows_do_not_wait_for_rows_of_their_own_key() -> None:
    """https://github.com/quixio/quix-streams/pull/747: the last window of a key that was seen seldom was not
    emitted before the key came again. There is one watermark for all keys."""
    query = wk.query(by="key", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", progress=wk.delay(2))
    op.push(rows(key=["seldom", "often"], t=[3, 4]))
    result = op.push(rows(key=["often"], t=[12]))
    assert {row["key"]: row["n"] for row in result.to_pylist()} == {"seldom": 1, "often": 1}


def test_results_are_not_late_for_the_next_query() -> None:
    """https://github.com/hazelcast/hazelcast-jet/issues/1685: results of windows were dropped as late by the
    windows that came after them. They are not before the watermark of results so far, which is where the next
    one may be."""
    minutes = wk.query(by="key", time="t", windows=wk.tumbling(60), aggs=wk.count().alias("n"))
    hours = wk.query(by="key", time="t", windows=wk.tumbling(3600), aggs=wk.max("n").alias("busiest"))
    first = minutes.operator(order="out-of-order", progress=wk.delay(30))
    second = hours.operator(order="out-of-order")
    found = []
    batches = [rows(key=["a", "a", "b"], t=[at, at + 50, at + 20]) for at in range(0, 10_000, 100)]
    for result in [*map(first.push, batches), first.close()]:
        results = result.select(["key", "window_start", "n"]).rename_columns(["key", "t", "n"])
        found += second.push(results).to_pylist()
        if first.watermark_out is not None:
            found += second.advance(first.watermark_out.as_py() - 60).to_pylist()
    found += second.close().to_pylist()
    counts = Counter((row["key"], row["t"] // 60 * 60) for batch in batches for row in batch.to_pylist())
    expected: dict[tuple[str, int], int] = {}
    for (key, minute), n in counts.items():
        hour = key, minute // 3600 * 3600
        expected[hour] = max(expected.get(hour, 0), n)
    assert {(row["key"], row["window_start"]): row["busiest"] for row in found} == expected
    assert second.late == 0


# Early results


def test_a_number_of_rows_or_a_timeout() -> None:
    """https://github.com/apache/flink/pull/1636 and https://github.com/ReactiveX/RxJava/issues/5104: results
    were asked for after so many rows, or some time after the first of them, whichever comes first; with
    either alone, the last rows waited for ever, or were lost."""
    now = 0
    soon = wk.rows(5) | wk.every("10 seconds", of="processing time", since="first row")
    query = wk.query(by=[], time="t", windows=wk.global_window(), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", clock=lambda: now, emit=wk.emit(soon, "discarding"))
    found = []
    for second, count in [(0, 2), (3, 3), (4, 4), (13, 0), (14, 0), (30, 1), (39, 0), (41, 0)]:
        now = second * 1_000_000
        result = op.push(rows(t=[second] * count)) if count else op.advance()
        found += [(second, n) for n in result["n"].to_pylist()]
    assert found == [(3, 5), (14, 4), (41, 1)]


def test_the_rows_after_the_last_firing_are_in_the_final_result() -> None:
    """https://github.com/apache/flink/pull/2860 and https://github.com/apache/flink/pull/17209: a trigger
    that fires at regular times did not fire at the end of a window, so that its last rows were in no
    result."""
    for refinement, expected in [("accumulating", [2, 4]), ("discarding", [2, 2])]:
        query = wk.query(by=[], time="t", windows=wk.tumbling(20), aggs=wk.count().alias("n"))
        op = query.operator(
            order="out-of-order", emit=wk.emit(wk.every(10), refinement), progress=wk.delay(0)
        )
        found = [n for t in (1, 11, 12, 19) for n in op.push(rows(t=[t]))["n"].to_pylist()]
        found += op.advance(20)["n"].to_pylist()
        assert found == expected


def test_the_count_since_an_event_at_each_event() -> None:
    """https://github.com/datastax-archive/kaskada/issues/716: it was unclear which end of a window since the
    last event of some kind belongs to it. A mark ends the window that it is in, or begins one with
    at="start"."""
    readings = [(1, False), (2, False), (3, True), (4, False), (5, True), (6, True)]
    for at, expected in [("end", [1, 2, 3, 1, 2, 1]), ("start", [1, 2, 1, 2, 1, 1])]:
        since = wk.query(by=[], time="t", windows=wk.punctuation("mark", at=at), aggs=wk.count().alias("n"))
        op = since.operator(emit=wk.emit(wk.rows(1)))
        shown = []
        for t, mark in readings:
            emitted = op.push(rows(t=[t], mark=[mark])).sort_by("window_number")
            shown.append(emitted["n"].to_pylist()[-1])
        assert shown == expected


def test_one_alert_for_each_window() -> None:
    """https://github.com/confluentinc/kafka-tutorials/issues/99: one alert is wanted for a window, as soon as
    it has more than three rows. Triggers are of keys, not of windows: early results say what a window has,
    and when it is over."""
    query = wk.query(
        by="user", time="t", windows=wk.tumbling(60), aggs=wk.count().alias("n"), emit=wk.emit(wk.rows(1))
    )
    op = query.operator(order="out-of-order", progress=wk.delay(0))
    alerts, alerted = [], set()
    for t in [*range(0, 55, 5), 61, 62, 63, 70, 71, 121, 122, 123, 185]:
        for row in op.push(rows(user=["ann"], t=[t])).to_pylist():
            window = row["user"], row["window_start"]
            if row["n"] > 3 and window not in alerted:
                alerted.add(window)
                alerts.append((t, *window))
            if row["emission"] == "final":
                alerted.discard(window)
    assert alerts == [(15, "ann", 0), (70, "ann", 60)]
    assert not alerted


def test_the_first_of_each_window_by_a_total() -> None:
    """https://github.com/confluentinc/kafka-tutorials/issues/362: the greatest totals of each hopping window.
    All keys of a window are emitted by one call, so its result is ranked as it is."""
    query = wk.query(by="page", time="t", windows=wk.sliding(20, 10), aggs=wk.sum("bytes").alias("total"))
    op = query.operator(order="out-of-order", progress=wk.delay(5))
    given = [
        (page, at, (at * 7 + number * 13) % 17)
        for at in range(0, 100, 2)
        for number, page in enumerate("abcd")
    ]
    first: dict[int, list[tuple[int, str]]] = {}
    for begin in range(0, len(given), 10):
        pages, times, sizes = zip(*given[begin : begin + 10], strict=True)
        result = op.push(rows(page=pages, t=times, bytes=sizes))
        ended: dict[int, list[tuple[int, str]]] = {}
        for row in result.to_pylist():
            ended.setdefault(row["window_start"], []).append((row["total"], row["page"]))
        assert not first.keys() & ended.keys()
        first |= {start: sorted(totals)[-2:] for start, totals in ended.items()}
    for start, found in first.items():
        totals = {
            page: sum(size for of, at, size in given if of == page and start <= at < start + 20)
            for page in "abcd"
        }
        assert (
            found
            == sorted(
                (total, page)
                for page, total in totals.items()
                if any(of == page and start <= at < start + 20 for of, at, _ in given)
            )[-2:]
        )
    assert len(first) == 9


# Changes of a table

CHANGES = pa.schema({"org": pa.int64(), "took": pa.int64(), "value": pa.int64(), "w": pa.int8()})


@given(
    steps=st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1), st.integers(0, 29) | st.none()), max_size=4),
        max_size=8,
    )
)
def test_changes_of_a_table_are_aggregated(steps: list[list[tuple[int, int, int | None]]]) -> None:
    """https://github.com/apache/flink-cdc/issues/904: windows over a table's changes were refused, as they
    consumed no updates and deletes. An update is two rows: the one before, with weight -1, and the one
    after."""
    query = wk.query(
        by="org",
        time="took",
        windows=wk.tumbling(10),
        aggs=[wk.count().alias("n"), wk.median("value").alias("middle"), wk.sum("value").alias("sum")],
        weight="w",
    )
    op = query.operator(order="out-of-order", schema=CHANGES)
    table: dict[int, tuple[int, int, int]] = {}
    for step in steps:
        changes = []
        for key, org, took in step:
            if key in table:
                changes.append((*table.pop(key), -1))
            if took is not None:
                table[key] = org, took, 7 * took + key
                changes.append((*table[key], 1))
        op.push(pa.table(list(zip(*changes, strict=True)) or [[]] * 4, schema=CHANGES))
        found = {
            (row["org"], row["window_start"]): (row["n"], row["middle"], row["sum"])
            for row in op.peek().to_pylist()
        }
        expected = {}
        for org in {org for org, *_ in table.values()}:
            for start in (0, 10, 20):
                of = sorted(v for o, took, v in table.values() if o == org and start <= took < start + 10)
                if of:
                    middle = (of[(len(of) - 1) // 2] + of[len(of) // 2]) / 2
                    expected[org, start] = (len(of), middle, sum(of))
        assert found == expected


# State


@given(
    batches=st.lists(st.lists(st.integers(0, 60), min_size=1, max_size=4), min_size=1, max_size=10),
    at=st.integers(0, 9),
    slide=st.integers(1, 8),
    overlap=st.integers(0, 12),
)
def test_a_restored_operator_neither_repeats_nor_loses(
    batches: list[list[int]], at: int, slide: int, overlap: int
) -> None:
    """https://github.com/apache/flink/pull/26766 and https://github.com/volga-project/volga/issues/169: after
    a restore, hopping windows were emitted once more, or rows in time were dropped as late."""
    size = slide + overlap
    query = wk.query(by=[], time="t", windows=wk.sliding(size, slide), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", progress=wk.delay(4), schema=TIMES)
    emitted = []
    watermark, expected = -(10**9), Counter[int]()
    for number, batch in enumerate(batches):
        if number == at:
            op = wk.Operator.restore(op.snapshot(), query)
        emitted += starts(op.push(rows(t=batch)), "n")
        for time in batch:
            last = time // slide * slide
            for begin in range(last, time - size, -slide):
                expected[begin] += begin + size > watermark
        watermark = max(watermark, max(batch) - 4)
    emitted += starts(op.close(), "n")
    assert sorted(emitted) == sorted((begin, begin + size, n) for begin, n in expected.items() if n)


def test_a_worker_that_dies_takes_no_window_with_it() -> None:
    """https://github.com/faust-streaming/faust/issues/193: windows that were open when a worker died were
    lost. With an operator for each partition, whose snapshot is saved with its offset, any worker goes on
    with it."""
    query = wk.query(by="key", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    partitions = [
        [rows(key=[f"{number}-{at % 3}"] * 4, t=[at, at + 1, at - 2, at + 3]) for at in range(5, 200, 3)]
        for number in range(4)
    ]
    totals: dict[Any, int] = {}
    saved: dict[int, tuple[int, bytes | None]] = dict.fromkeys(range(4), (0, None))

    def work(number: int, batches: int, save_every: int) -> None:
        offset, snapshot = saved[number]
        if snapshot is None:
            op = query.operator(order="out-of-order", progress=wk.delay(4))
        else:
            op = wk.Operator.restore(snapshot, query)
        for batch in partitions[number][offset : offset + batches]:
            totals.update(((row["key"], row["window_start"]), row["n"]) for row in op.push(batch).to_pylist())
            offset += 1
            if offset % save_every == 0:
                saved[number] = offset, op.snapshot()
        if offset == len(partitions[number]):
            totals.update(((row["key"], row["window_start"]), row["n"]) for row in op.close().to_pylist())

    for worker in range(3):  # the first two die between two snapshots
        for number in range(4):
            work(number, 23 + 7 * worker if worker < 2 else 1000, save_every=4 + worker)
    given = [row for partition in partitions for batch in partition for row in batch.to_pylist()]
    assert totals == Counter((row["key"], row["t"] // 10 * 10) for row in given)


@given(
    batches=st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(-8, 8)), max_size=4), max_size=15),
    within=st.integers(0, 20),
)
def test_keys_of_duplicates_are_forgotten(batches: list[list[tuple[int, int]]], within: int) -> None:
    """https://github.com/apache/spark/pull/35521 and https://github.com/apache/spark/pull/40561: the keys of
    a stream without duplicates were kept for ever, unless time was one of them, or longer than was
    expected."""
    op = wk.distinct("k", time="t", within=within).operator(pa.schema({"k": pa.int64(), "t": pa.int64()}))
    found, accepted = [], []
    for number, batch in enumerate(batches):
        given = [(k, 10 * number + t) for k, t in batch]
        accepted += [each for each in given if each[1] >= 10 * number - 8]
        found += op.push(
            pa.table({"k": [k for k, _ in given], "t": [t for _, t in given]}, op.schema)
        ).to_pylist()
        found += op.advance(10 * number + 2).to_pylist()
    found += op.advance(10 * len(batches) + 8 + within + 1).to_pylist()
    assert op.stats().rows_kept == 0
    expected = []
    for k in range(3):
        times = sorted(t for key, t in accepted if key == k)
        expected += [
            (k, t)
            for t, before in zip(times, [None, *times], strict=False)
            if before is None or t - before > within
        ]
    assert sorted((row["k"], row["t"]) for row in found) == sorted(expected)


# Joins

ORDERS = pa.schema({"id": pa.int64(), "t": pa.int64(), "amount": pa.int64()})
ITEMS = pa.schema({"id": pa.int64(), "t": pa.int64(), "item": pa.int64()})


def joined(before: int, after: int, how: str = "left") -> wk.Join:
    return wk.join(
        by="id", left_time="t", right_time="t", within=(before, after), how=how, right_columns="item"
    )


def test_a_row_is_not_returned_both_with_a_partner_and_without() -> None:
    """https://github.com/confluentinc/ksql/issues/1558: a left join returned rows with nulls, and later the
    same rows with their partners, as these came within the time that was given."""
    orders = pa.table({"id": [1, 2], "t": [17, 17], "amount": [105, 33]}, schema=ORDERS)
    items = pa.table({"id": [1, 1, 1, 2], "t": [19] * 4, "item": [10, 11, 12, 13]}, schema=ITEMS)
    for within, expected in [(1, [(1, None), (2, None)]), (2, [(1, 10), (1, 11), (1, 12), (2, 13)])]:
        op = joined(within, within).operator(ORDERS, ITEMS)
        results = [
            op.push_left(orders),
            op.advance_left(18),
            op.push_right(items),
            op.advance_right(20),
            op.close(),
        ]
        assert sorted((row["id"], row["item"]) for each in results for row in each.to_pylist()) == expected


@given(
    pushed=st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 40)), max_size=20),
    before=st.integers(0, 9),
    after=st.integers(0, 9),
    grace=st.integers(0, 15),
)
def test_rows_of_a_join_that_come_out_of_order_wait_for_partners(
    pushed: list[tuple[bool, int, int]], before: int, after: int, grace: int
) -> None:
    """https://github.com/apache/kafka/pull/22410 (KAFKA-19536; and KAFKA-13721 for bands that are not
    symmetric): a row that came out of order was returned without a partner, although there was time for one
    to come."""
    op = joined(before, after).operator(ORDERS, ITEMS)
    found, kept = [], ([], [])
    time = 0
    for number, (is_left, key, t) in enumerate(pushed):
        side = pa.table([[key], [t], [number]], schema=ORDERS if is_left else ITEMS)
        found += (op.push_left if is_left else op.push_right)(side).to_pylist()
        if t >= time - grace or number == 0:
            kept[not is_left].append((key, t, number))
        time = max(time, t) if number else t
        found += op.advance_left(time - grace).to_pylist() + op.advance_right(time - grace).to_pylist()
    found += op.close().to_pylist()
    left, right = kept
    expected = []
    for key, t, number in left:
        partners = [item for k, u, item in right if k == key and t - before <= u <= t + after]
        expected += [(number, item) for item in partners or [None]]
    assert sorted(map(repr, ((row["amount"], row["item"]) for row in found))) == sorted(map(repr, expected))


def test_features_as_of_a_moment_with_and_without_events_at_it() -> None:
    """https://github.com/zipline-ai/chronon/pull/1356: an event at the very time of a query was in its
    features online, and not in training sets. closed= says whether it is."""
    events = rows(user=["a"], t=[100], v=[7])
    asked = rows(user=["a", "a"], t=[100, 101])
    for closed, expected in [("both", [1, 1]), ("left", [0, 1])]:
        count = wk.count().over(10, closed=closed).alias("n")
        assert wk.rolling(by="user", time="t", aggs=count).at(asked, events)["n"].to_pylist() == expected


def ticks(batches: list[list[tuple[bool, int, int]]]) -> Iterator[pa.Table]:
    """Trades and quotes as rows of one stream, of which either has nulls for what the other says."""
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "price": pa.int64(), "trade": pa.int64()})
    number = 0
    for batch in batches:
        made = []
        for is_trade, k, t in batch:
            made.append(
                {"k": k, "t": t, "price": None if is_trade else number, "trade": number if is_trade else None}
            )
            number += 1
        yield pa.Table.from_pylist(made, schema)


@given(
    batches=st.lists(
        st.lists(st.tuples(st.booleans(), st.integers(0, 1), st.integers(0, 40)), max_size=5), max_size=8
    )
)
def test_each_trade_gets_the_latest_price_before_it(batches: list[list[tuple[bool, int, int]]]) -> None:
    """https://github.com/feldera/feldera/issues/3164 and https://github.com/apache/flink/pull/25999: what was
    joined to the latest row of another stream missed rows that came late. Both are one stream here, with a
    window for each row, which waits for the watermark."""
    is_price = pc.field("price").is_valid()
    query = wk.query(
        by="k",
        time="t",
        windows=wk.sliding(15, "1 row"),
        aggs=[
            wk.last("trade").alias("trade"),
            wk.last("price").where(is_price).alias("price"),
        ],
    )
    op = query.operator(order="out-of-order", progress=wk.delay(10))
    given = list(ticks(batches))
    results = [op.push(each) for each in given]
    results += [op.close()] if given else []
    found = sorted(
        (row["trade"], row["price"])
        for each in results
        for row in each.to_pylist()
        if row["trade"] is not None
    )
    late = set(op.take_late()["trade"].to_pylist()) if given else set()
    kept, watermark = [], -(10**9)
    for each in given:
        kept += [row for row in each.to_pylist() if row["t"] >= watermark]
        watermark = max([watermark, *(t - 10 for t in each["t"].to_pylist())])
    kept.sort(key=lambda row: row["t"])
    expected, quotes = [], {0: [], 1: []}
    for row in kept:
        if row["trade"] is None:
            quotes[row["k"]].append((row["t"], row["price"]))
        else:
            recent = [price for t, price in quotes[row["k"]] if t > row["t"] - 15]
            expected.append((row["trade"], recent[-1] if recent else None))
    assert found == sorted(expected)
    assert not late & {trade for trade, _ in found}


def test_a_row_at_the_watermark_is_not_late() -> None:
    """https://github.com/datafusion-contrib/StreamFusion/issues/74: engines differed in whether a row whose
    time is the watermark's is late, and whether the first row of a key can be. Rows before the watermark
    are."""
    windows = wk.sliding("2 rows", "1 row", partial="start")
    query = wk.query(by="g", time="t", windows=windows, aggs=wk.sum("v").alias("sum"))
    op = query.operator(order="out-of-order", progress=wk.delay(0))
    found = []
    for g, t, v in [(1, 1, 10), (1, 1, 20), (1, 2, 30), (2, 1, 5), (2, 2, 7)]:
        found += [(row["g"], row["sum"]) for row in op.push(rows(g=[g], t=[t], v=[v])).to_pylist()]
    assert found == [(1, 10), (1, 30), (1, 50), (2, 7)]
    assert op.take_late().select(["g", "v"]).to_pylist() == [{"g": 2, "v": 5}]


def test_each_reading_beside_the_mean_of_the_last_day() -> None:
    """https://github.com/hazelcast/hazelcast-jet/issues/1427: the difference of each reading from the mean of
    the last 24 hours took a window a second, or joined early results of other windows. There is a window for
    each row."""
    query = wk.query(
        by="device",
        time="ts",
        windows=wk.sliding("24 hours", "1 row"),
        aggs=[wk.last("pressure").alias("now"), wk.mean("pressure").alias("mean")],
    )
    op = query.operator()
    hours = [0, 1, 12, 24, 25, 48]
    found = []
    for hour in hours:
        ts = pa.array([datetime(2026, 1, 1) + timedelta(hours=hour)], pa.timestamp("s"))
        found += [
            row["now"] - row["mean"]
            for row in op.push(rows(device=["a"], ts=ts, pressure=[hour])).to_pylist()
        ]
    days = [[earlier for earlier in hours if hour - 24 < earlier <= hour] for hour in hours]
    assert found == pytest.approx([day[-1] - sum(day) / len(day) for day in days])
