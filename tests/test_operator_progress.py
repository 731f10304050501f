"""The watermark that follows the rows of a stream: by sources, with bounds of several kinds."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import windowkit as wk

SCHEMA = pa.schema({"t": pa.int64(), "s": pa.string()})
QUERY = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))


def operator(progress: wk.Delay, **options: Any) -> wk.Operator:
    return QUERY.operator(order="out-of-order", progress=progress, schema=SCHEMA, **options)


def rows(*times: int | None, of: str | None = "a") -> pa.Table:
    return pa.table({"t": pa.array(times, pa.int64()), "s": [of] * len(times)}, schema=SCHEMA)


def reached(op: wk.Operator) -> int | None:
    return None if op.watermark is None else int(op.watermark.as_py())


class Source:
    """What the watermark of a source must be, from all its rows."""

    def __init__(self) -> None:
        self.times: list[int] = []
        self.seen = 0

    def highs(self) -> list[int]:
        return [max(self.times[: at + 1]) for at in range(len(self.times))]

    def watermark(self, by: str, bound: Any) -> int | None:
        highs, count = self.highs(), len(self.times)
        if by == "time":
            return highs[-1] - int(bound)
        if by == "rows":
            # Fewer rows than blocks: every row is looked at.
            return highs[count - bound - 1] if count > bound else None
        if count < 1 / (1 - bound):
            return None
        delays = sorted(high - time for high, time in zip(highs, self.times, strict=True))
        return highs[-1] - delays[max(1, math.ceil(bound * count)) - 1]


BOUNDS = [("time", 0), ("time", 7), ("rows", 0), ("rows", 1), ("rows", 5), ("share", 0.5), ("share", 0.9)]
BATCHES = st.lists(
    st.one_of(
        st.none(),
        st.lists(st.tuples(st.integers(-20, 100) | st.none(), st.sampled_from(["a", "b", None])), max_size=8),
    ),
    max_size=8,
)


@settings(max_examples=300)
@given(st.sampled_from(BOUNDS), st.booleans(), BATCHES)
def test_the_watermark_is_the_least_of_all_sources(
    bound: tuple[str, Any], by_source: bool, batches: list[list[tuple[int | None, str | None]] | None]
) -> None:
    op = operator(wk.delay(**{bound[0]: bound[1]}, source="s" if by_source else None))
    sources: dict[str | None, Source] = {}
    expected: int | None = None
    for batch in batches:
        if batch is None:
            op = wk.Operator.restore(op.snapshot(), QUERY)
            continue
        times, names = [time for time, _ in batch], [name for _, name in batch]
        op.push(pa.table({"t": pa.array(times, pa.int64()), "s": pa.array(names, pa.string())}))
        for time, name in batch:
            if time is not None:
                sources.setdefault(name if by_source else "", Source()).times.append(time)
        each = [source.watermark(*bound) for source in sources.values()]
        if each and None not in each:
            least = min(mark for mark in each if mark is not None)
            expected = least if expected is None else max(expected, least)
        assert reached(op) == expected
    known = op.progress()
    if by_source:
        assert known["source"].to_pylist() == list(sources)
    assert known["latest"].to_pylist() == [max(source.times) for source in sources.values()]
    assert known["watermark"].to_pylist() == [source.watermark(*bound) for source in sources.values()]
    assert known["rows"].to_pylist() == [len(source.times) for source in sources.values()]


NAMES = st.sampled_from(["a", "b", "c", None])


@settings(max_examples=300)
@given(
    st.sampled_from(BOUNDS),
    st.lists(NAMES, max_size=2),
    st.lists(
        st.none()
        | st.tuples(st.sampled_from(["add", "end"]), NAMES)
        | st.lists(st.tuples(st.integers(-20, 100), NAMES), max_size=4),
        max_size=15,
    ),
)
def test_sources_hold_the_watermark_from_when_they_are_announced_until_they_end(
    bound: tuple[str, Any], announced: list[str | None], steps: list[Any]
) -> None:
    op = operator(wk.delay(**{bound[0]: bound[1]}, source="s", sources=announced))
    sources = {name: Source() for name in announced}
    expected: int | None = None
    ended: list[int] = []
    # How many rows the open windows have, by their starts.
    waiting: Counter[int] = Counter()
    for step in steps:
        emitted = None
        match step:
            case None:
                op = wk.Operator.restore(op.snapshot(), QUERY)
            case ("add", name):
                emitted = op.add_source(name)
                sources.setdefault(name, Source())
            case ("end", name) if name in sources:
                emitted = op.end_source(name)
                source = sources.pop(name)
                mark = source.watermark(*bound) if source.times else None
                ended += [] if mark is None else [mark]
            case ("end", name):
                with pytest.raises(wk.InvalidValue, match=r"source: no row of '.*' has come"):
                    op.end_source(name)
            case pushed:
                table = pa.table({"t": [t for t, _ in pushed], "s": [s for _, s in pushed]}, schema=SCHEMA)
                emitted = op.push(table)
                for time, name in pushed:
                    sources.setdefault(name, Source()).times.append(time)
                    start = time // 10 * 10
                    # Other rows are late.
                    waiting[start] += expected is None or start + 10 > expected
        each = [source.watermark(*bound) if source.times else None for source in sources.values()]
        # Announcing a source does not move the watermark, nor does a restart.
        if each and None not in each and step is not None and step[:1] != ("add",):
            least = min(mark for mark in each if mark is not None)
            expected = least if expected is None else max(expected, least)
        elif not each and ended and step is not None:
            # Whichever of them was the last.
            expected = max([*ended, *([] if expected is None else [expected])])
        assert reached(op) == expected
        due = {
            start: n for start, n in waiting.items() if n and expected is not None and start + 10 <= expected
        }
        waiting -= Counter(due)
        if emitted is not None:
            found = zip(emitted["window_start"].to_pylist(), emitted["n"].to_pylist(), strict=True)
            assert sorted(found) == sorted(due.items())
        assert set(op.progress()["source"].to_pylist()) == set(sources)


def test_many_sources_that_ended_are_forgotten() -> None:
    op = operator(wk.delay(0, source="s", future=10))
    sizes = set()
    for at in range(500):
        op.push(rows(at, of=f"file {at:03}"))
        op.end_source(f"file {at:03}")
        assert op.progress().num_rows == 0
        if at % 100 == 99:
            sizes.add(len(op.snapshot()))
    assert max(sizes) - min(sizes) < 10
    assert op.stats().bytes < 100_000


def test_sources_are_values_of_their_column() -> None:
    for arguments, error, says in [
        ({"sources": "a"}, wk.InvalidType, "sources: 'a' is a str; it is a list of values"),
        ({"sources": 3}, wk.InvalidType, "sources: 3 is an int"),
        ({"sources": ["a"]}, wk.InvalidValue, "sources: ('a',) is given without source="),
    ]:
        with pytest.raises(error, match=re.escape(says)):
            wk.delay(5, **arguments)
    with pytest.raises(wk.InvalidType, match="sources: 3 is not a value of column 's', whose type is string"):
        operator(wk.delay(5, source="s", sources=[3]))
    op = operator(wk.delay(5))
    with pytest.raises(
        wk.InvalidValue, match="source: 'a' is given, but the rows of this operator have no col"
    ):
        op.add_source("a")
    op = operator(wk.delay(5, source="s"))
    with pytest.raises(wk.InvalidType, match="source: 3 is not a value of column 's'"):
        op.end_source(3)
    op.close()
    with pytest.raises(wk.InvalidValue, match="close"):
        op.add_source("a")


def test_a_call_that_fails_has_not_moved_the_watermark() -> None:

    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    op = query.operator(order="out-of-order", progress=wk.delay(rows=1), schema=schema)
    op.push(pa.table({"t": [1, 2], "v": [2**62, 2**62]}, schema=schema))
    before = op.progress()
    for _ in range(2):
        with pytest.raises(wk.Overflow):
            op.push(pa.table({"t": [20, 21], "v": [1, 1]}, schema=schema))
        assert (op.progress(), reached(op)) == (before, 1)


def test_a_bound_by_many_rows_is_exact_to_a_block() -> None:
    op = operator(wk.delay(rows=10_000))
    for start in range(0, 40_000, 777):
        op.push(rows(*range(start, start + 777)))
        count = start + 777
        if count <= 10_000:
            assert reached(op) is None
        else:
            mark = reached(op)
            assert mark is None or count - 10_000 - 1 - 10_000 // 256 - 1 <= mark <= count - 10_000 - 1
    assert reached(op) is not None


def test_silent_sources_are_left_out_until_they_speak() -> None:
    now = [1_000_000]

    def wait(seconds: int) -> pa.Table:
        now[0] += seconds * 1_000_000
        return op.advance()

    op = operator(wk.delay(0, source="s", idle="30 seconds"), clock=lambda: now[0])
    op.push(pa.concat_tables([rows(5, of="a"), rows(50, of="b")]))
    assert reached(op) == 5
    wait(21)
    op.push(rows(60, of="b"))
    assert wait(9).num_rows == 0
    assert (reached(op), op.progress()["idle"].to_pylist()) == (5, [False, False])
    now[0] += 1
    assert op.advance().to_pylist() == [
        {"window_start": 0, "window_end": 10, "n": 1, "update": False},
        {"window_start": 50, "window_end": 60, "n": 1, "update": False},
    ]
    assert (reached(op), op.progress()["idle"].to_pylist()) == (60, [True, False])
    # All are: the watermark is the greatest of theirs.
    assert wait(60).num_rows == 0
    assert (reached(op), op.progress()["idle"].to_pylist()) == (60, [True, True])
    # Neither the time in which the process was down nor that in which nobody called it is silence.
    now[0] += 3_600_000_000
    op = wk.Operator.restore(op.snapshot(), QUERY, clock=lambda: now[0])
    op.push(rows(80, of="b"))
    assert (reached(op), op.progress()["idle"].to_pylist()) == (60, [False, False])
    now[0] += 3_600_000_000
    op.push(rows(62, of="a"))
    assert (reached(op), op.progress()["idle"].to_pylist()) == (62, [False, False])
    # A clock that is set back is not looked at.
    now[0] = 0
    op.push(rows(70, of="b"))
    assert (reached(op), op.progress()["idle"].to_pylist()) == (62, [False, False])


IDLE = 20
"""Microseconds, of which a tenth counts at most of a pause before rows."""


@given(
    st.lists(
        st.tuples(
            # How often, after which pause, and what: a restart, or rows.
            st.integers(1, 12),
            st.sampled_from([0, 1, 2, 3, 50]),
            st.none() | st.lists(st.tuples(st.integers(0, 90), st.sampled_from("ab")), max_size=2),
        ),
        max_size=10,
    )
)
@example([(1, 0, [(10, "a"), (20, "b")]), (11, 2, [])])
def test_only_time_in_which_they_could_speak_makes_sources_idle(
    steps: list[tuple[int, int, list[tuple[int, str]] | None]],
) -> None:
    now, silent, latest = [0], dict[str, int](), dict[str, int]()
    delay = wk.delay(5, source="s", idle=f"{IDLE} microseconds")
    op = operator(delay, clock=lambda: now[0])
    expected: int | None = None
    op.advance()
    for pause, pushed in [(pause, pushed) for often, pause, pushed in steps for _ in range(often)]:
        for part in range(4):
            now[0] += (pause + part) // 4
            # A monitor looks: no source speaks by that.
            op.progress()
        if pushed is None:
            op = wk.Operator.restore(op.snapshot(), QUERY, clock=lambda: now[0])
            silent = dict.fromkeys(silent, 0)
            op.advance()
        else:
            # Who calls `advance` has waited for rows all the time.
            counts = min(pause, IDLE // 10) if pushed else pause
            silent = {name: past + counts for name, past in silent.items()}
            for time, name in pushed:
                silent[name], latest[name] = 0, max(time, latest.get(name, time))
            if pushed:
                op.push(pa.table({"t": [t for t, _ in pushed], "s": [s for _, s in pushed]}, schema=SCHEMA))
            else:
                op.advance()
        idle = {name: past > IDLE for name, past in silent.items()}
        if latest:
            awake = [latest[name] - 5 for name in latest if not idle[name]]
            mark = min(awake) if awake else max(latest.values()) - 5
            expected = mark if expected is None else max(expected, mark)
        assert reached(op) == expected
        assert dict(zip(*op.progress().select(["source", "idle"]).to_pydict().values(), strict=True)) == idle


TIMES = pa.schema({"t": pa.timestamp("us"), "s": pa.string()})


@given(
    st.lists(
        st.tuples(
            st.integers(1, 8),
            st.sampled_from([0, 1, 2, 3, 50]),
            st.none() | st.lists(st.tuples(st.integers(0, 90), st.sampled_from("ab")), max_size=2),
        ),
        max_size=10,
    ),
    st.booleans(),
)
@example([(1, 0, [(10, "a"), (20, "b")]), (11, 2, [])], True)
def test_a_watermark_follows_the_clock_while_its_source_is_silent(
    steps: list[tuple[int, int, list[tuple[int, str]] | None]], is_named: bool
) -> None:
    now, silent, latest = [0], dict[str, int](), dict[str, int]()
    delay = wk.delay(
        "5 microseconds",
        source="s",
        sources=["a", "b"] if is_named else [],
        heartbeat=f"{IDLE} microseconds",
    )
    query = wk.query(by=[], time="t", windows=wk.tumbling("10 microseconds"), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", progress=delay, schema=TIMES, clock=lambda: now[0])
    silent = dict.fromkeys("ab", 0) if is_named else {}
    expected: int | None = None
    op.advance()
    for pause, pushed in [(pause, pushed) for often, pause, pushed in steps for _ in range(often)]:
        now[0] += pause
        if pushed is None:
            op = wk.Operator.restore(op.snapshot(), query, clock=lambda: now[0])
            silent = dict.fromkeys(silent, 0)
            op.advance()
        else:
            counts = min(pause, IDLE // 10) if pushed else pause
            silent = {name: past + counts for name, past in silent.items()}
            for time, name in pushed:
                silent[name], latest[name] = 0, max(time, latest.get(name, time))
            if pushed:
                op.push(pa.table({"t": [t for t, _ in pushed], "s": [s for _, s in pushed]}).cast(TIMES))
            else:
                op.advance()
        marks = []
        for name, past in silent.items():
            own = [latest[name] - 5] if name in latest else []
            marks.append(max([*own, *([now[0] - IDLE] if past >= IDLE else [])], default=None))
        if marks and None not in marks:
            mark = min(each for each in marks if each is not None)
            expected = mark if expected is None else max(expected, mark)
        assert (None if op.watermark is None else op.watermark.value) == expected


def test_a_stream_that_never_had_a_row_follows_the_clock() -> None:
    now = [1_000_000_000]
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 second"), aggs=wk.count())
    how = wk.delay("1 second", heartbeat="5 seconds")
    op = query.operator(order="out-of-order", progress=how, schema=TIMES, clock=lambda: now[0])
    op.advance()
    assert op.watermark is None
    now[0] += 4_999_999
    op.advance()
    assert op.watermark is None
    op = wk.Operator.restore(op.snapshot(), query, clock=lambda: now[0])
    op.advance()
    now[0] += 5_000_000
    op.advance()
    assert op.watermark.value == now[0] - 5_000_000
    # In each stream: a row whose partners would be of a side without rows is returned.
    side = pa.schema({"t": pa.timestamp("us")})
    join = wk.join(by=[], left_time="t", right_time="t", within="1 second", how="left", right_columns=[])
    op = join.operator(side, side, right_progress=how, clock=lambda: now[0])
    op.push_left(pa.table({"t": [now[0]]}).cast(side))
    assert op.advance_right().num_rows == 0
    now[0] += 6_000_000
    assert op.advance_right().num_rows == 0
    now[0] += 1
    assert op.advance_right().num_rows == 1


def test_a_heartbeat_is_of_times_of_the_clock() -> None:
    with pytest.raises(wk.InvalidType, match="heartbeat: it is given where column 't' is int64; the clock"):
        operator(wk.delay(5, heartbeat="1 second"))
    durations = pa.schema({"t": pa.duration("us"), "s": pa.string()})
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 second"), aggs=wk.count())
    with pytest.raises(wk.InvalidType, match="heartbeat: it is given where column 't' is duration"):
        query.operator(
            order="out-of-order", progress=wk.delay("1 second", heartbeat="1 second"), schema=durations
        )
    days = pa.schema({"t": pa.date32(), "s": pa.string()})
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day"), aggs=wk.count().alias("n"))
    now = [1_700_000_000_000_000]
    op = query.operator(
        order="out-of-order",
        progress=wk.delay("1 day", heartbeat="1 day"),
        schema=days,
        clock=lambda: now[0],
    )
    op.push(pa.table({"t": pa.array([19_000], pa.int32()).cast(pa.date32()), "s": ["a"]}))
    now[0] += 86_400_000_000
    assert op.advance()["n"].to_pylist() == [1]
    assert op.watermark.cast(pa.int32()).as_py() == 1_700_000_000 // 86_400


def test_one_broken_clock_does_not_end_the_stream() -> None:
    op = operator(wk.delay(5, future=100))
    op.push(rows(10_000, 3, 12, None))
    op.push(rows(110))
    op.push(rows(211, 210, of="b"))
    # Row by row: each may be ahead of the one before.
    op.push(rows(300))
    late = op.take_late()
    assert list(zip(late["t"].to_pylist(), late["late_reason"].to_pylist(), strict=True)) == [
        (None, "null time"),
        (10_000, "from the future"),
        (211, "from the future"),
    ]
    assert (reached(op), op.stats().rows, op.late) == (295, 5, 3)
    # The stream has jumped if most rows say so.
    op.push(rows(9_000, 9_001, 310))
    assert (reached(op), op.stats().rows) == (8_996, 8)
    op.advance(20_000)
    assert op.push(rows(9_050, of="c")).num_rows == 0
    assert op.take_late()["late_reason"].to_pylist() == ["too late"]


def test_rows_of_one_clock_that_follow_each_other_among_others_move_nothing() -> None:
    op = operator(wk.delay(5, future=100))
    op.push(rows(*range(10)))
    op.push(rows(*range(10, 15), *[1_000_000] * 5, *range(15, 20)))
    op.push(rows(*range(20, 40)))
    late = op.take_late()
    assert (
        late.select(["t", "late_reason"]).to_pylist()
        == [{"t": 1_000_000, "late_reason": "from the future"}] * 5
    )
    assert reached(op) == 34


class Clock:
    """Up to when a stream has come, by the rules for rows from the future, and which times count."""

    def __init__(self, future: int) -> None:
        self.future = future
        self.first: list[int] = []
        self.counting: list[int] = []
        self.set_aside: list[int] = []
        self.ahead: list[int] = []
        self.latest: int | None = None

    def push(self, times: list[int]) -> None:
        if self.latest is None:
            if len(self.first + times) < 3:
                self.first += times
                return
            self.latest = sorted(self.first + times)[len(self.first + times) // 2]
            self.counting += [time for time in self.first if time <= self.latest + self.future]
        elif len(times) >= 3 and sum(time > self.latest + self.future for time in times) > len(times) / 2:
            self.latest = max(self.latest, sorted(times)[len(times) // 2])
        if len(times) >= 3:
            # A batch speaks by its majority alone.
            self.ahead = []
        for time in times:
            if time > self.latest + self.future:
                if len(times) >= 3:
                    self.set_aside.append(time)
                    continue
                self.ahead = [other for other in self.ahead if abs(other - time) <= self.future] + [time]
                if len(self.ahead) < 3:
                    self.set_aside.append(time)
                    continue
            self.ahead = []
            self.counting.append(time)
            self.latest = max(self.latest, time)


@settings(max_examples=300)
@given(
    st.sampled_from([0, 5, 40]),
    st.lists(
        st.none() | st.lists(st.integers(0, 30) | st.integers(90, 120) | st.just(10_000), max_size=4),
        max_size=25,
    ),
)
def test_the_present_is_what_several_rows_agree_on(future: int, batches: list[list[int] | None]) -> None:
    op, clock = operator(wk.delay(0, future=future)), Clock(future)
    for times in batches:
        if times is None:
            op = wk.Operator.restore(op.snapshot(), QUERY)
            continue
        op.push(rows(*times))
        clock.push(times)
        assert reached(op) == max(clock.counting, default=None)
    late = op.take_late()
    of_future = late.filter(pc.equal(late["late_reason"], "from the future"))
    assert of_future["t"].to_pylist() == clock.set_aside


def test_a_stream_that_jumps_row_by_row_loses_two_rows() -> None:
    op = operator(wk.delay(5, source="s", future=100))
    # The first row is of a broken clock, which moves nothing for others.
    op.push(rows(1_000_000, of="broken"))
    for time in range(20):
        op.push(rows(time))
    assert (reached(op), op.progress()["source"].to_pylist()) == (14, ["a"])
    for time in range(5_000, 6_000):
        op.push(rows(time))
    assert (reached(op), op.late) == (5_994, 2)


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        ({}, wk.InvalidValue, "delay: nothing is given; give exactly one of time, rows and share"),
        ({"time": 5, "rows": 3}, wk.InvalidValue, "delay: time=5, rows=3 is given; give exactly one"),
        ({"time": -5}, wk.InvalidValue, "delay: -5 is below zero"),
        ({"time": "soon"}, wk.InvalidValue, "delay: 'soon'"),
        ({"rows": -1}, wk.InvalidValue, "rows: -1 is given"),
        ({"rows": 1.5}, wk.InvalidType, "rows: 1.5 is a float"),
        ({"rows": True}, wk.InvalidType, "rows: True is a bool"),
        ({"share": 1}, wk.InvalidValue, "share: 1 is given; allowed are shares above 0 and below 1"),
        ({"share": float("nan")}, wk.InvalidValue, "share: nan is given"),
        ({"share": "0.5"}, wk.InvalidType, "share: '0.5' is a str"),
        ({"time": 5, "source": 3}, wk.InvalidType, "source: 3"),
        ({"time": 5, "idle": "1 second"}, wk.InvalidValue, "idle: '1 second' is given without source="),
        ({"time": 5, "idle": "1 second"}, wk.InvalidValue, "heartbeat= has the watermark follow the clock"),
        ({"time": 5, "source": "s", "idle": 3}, wk.InvalidType, "idle: 3 is given; it is a duration"),
        ({"time": 5, "source": "s", "idle": "1 nanosecond"}, wk.InvalidValue, "whole microseconds"),
        ({"time": 5, "heartbeat": 3}, wk.InvalidType, "heartbeat: 3 is given; it is a duration of the clock"),
        (
            {"time": 5, "heartbeat": "0 seconds"},
            wk.InvalidValue,
            "heartbeat: '0 seconds' is given",
        ),
        ({"time": 5, "future": -1}, wk.InvalidValue, "future: -1 is below zero"),
        ({"time": 5, "future": "3 rows"}, wk.InvalidType, "future: 3 rows is a number of rows"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        wk.delay(**arguments)


def test_what_does_not_fit_the_schema_is_refused() -> None:
    with pytest.raises(wk.UnknownColumn, match="source: no column 'shard'; there are t, s"):
        operator(wk.delay(5, source="shard"))
    with pytest.raises(wk.InvalidType, match="delay: it is a duration, but column 't' is an integer"):
        operator(wk.delay("5 seconds"))
    with pytest.raises(wk.InvalidType, match="future: it is a duration, but column 't' is an integer"):
        operator(wk.delay(5, future="5 seconds"))
    with pytest.raises(wk.InvalidValue, match="clock: it is given for a query over a column of times"):
        operator(wk.delay(5, source="s"), clock=lambda: 0)
    plain = QUERY.operator(order="out-of-order", schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match="progress: no watermark follows the rows of this operator"):
        plain.progress()
