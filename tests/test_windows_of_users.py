"""Windows of users' own: by a calendar, by what rows say, and what is refused of both."""

from __future__ import annotations

import itertools
import pickle
import statistics
from collections.abc import Iterable, Iterator
from datetime import date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk


class Days(wk.ContextFree):
    """Days from midnight to midnight, 23 to 25 hours long, but Saturdays and Sundays."""

    longest = "25 hours"

    def next_edge(self, t: Any) -> Any:
        day = t.date() + timedelta(days=1)
        while day.weekday() == 6:
            day += timedelta(days=1)
        return self.midnight(day, t)

    def windows(self, since: Any, until: Any) -> Iterable[tuple[Any, Any]]:
        day = since.date() - timedelta(days=1)
        while day <= until.date():
            start, end = self.midnight(day, since), self.midnight(day + timedelta(days=1), since)
            if day.weekday() < 5 and since < end <= until:
                yield start, end
            day += timedelta(days=1)

    @staticmethod
    def midnight(day: date, like: datetime) -> datetime:
        return datetime(day.year, day.month, day.day, tzinfo=like.tzinfo)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_business_days(zone: str | None, unit: str) -> None:
    chance = np.random.default_rng(1)
    start = int(datetime(2024, 3, 25).timestamp())
    seconds = start + chance.integers(0, 14 * 86_400, 400)
    times = pa.array(seconds, pa.timestamp("s", zone)).cast(pa.timestamp(unit, zone))
    table = pa.table({"k": chance.integers(0, 3, 400), "ts": times, "v": chance.integers(0, 9, 400)})
    query = wk.query(by="k", time="ts", windows=wk.custom(Days()), aggs=[wk.count().alias("n"), wk.sum("v")])
    wanted: dict[tuple[int, date], list[int]] = {}
    for row in table.to_pylist():
        local = row["ts"] if zone is None else row["ts"].astimezone(ZoneInfo(zone))
        if local.weekday() < 5:
            sums = wanted.setdefault((row["k"], local.date()), [0, 0])
            sums[0] += 1
            sums[1] += row["v"]
    got = {}
    for row in query.run(table).to_pylist():
        start, end = row["window_start"], row["window_end"]
        assert start.hour == end.hour == 0
        assert end.date() - start.date() == timedelta(days=1)
        got[row["k"], start.date()] = [row["n"], row["sum(v)"]]
    assert got == wanted


class Fixed(wk.ContextFree):
    """Windows that a test says, over integers."""

    def __init__(self, windows: list[tuple[Any, Any]], longest: Any = 20, step: int | None = None) -> None:
        self.emitted, self.longest, self.step = windows, longest, step
        self.calls = 0

    def next_edge(self, t: int) -> int:
        if self.step is not None:
            return t + self.step
        return min((edge for window in self.emitted for edge in window if edge > t), default=t + 1000)

    def windows(self, since: int, until: int) -> list[tuple[Any, Any]]:
        self.calls += 1
        return [window for window in self.emitted if self.step is not None or since < window[1] <= until]


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 20)), max_size=12, unique=True),
    st.lists(st.tuples(st.integers(0, 2), st.integers(-900, 900) | st.integers(-60, 80)), max_size=30),
)
def test_any_calendar_equals_its_definition(
    windows: list[tuple[int, int]], rows: list[tuple[int, int]]
) -> None:
    # Nested, overlapping, apart.
    emitted = [(start, start + size) for start, size in windows]
    table = pa.table(
        {"k": pa.array([k for k, _ in rows], pa.int8()), "t": pa.array([t for _, t in rows], pa.int32())}
    )
    query = wk.query(
        by="k",
        time="t",
        windows=[wk.custom(Fixed(emitted)).alias("mine"), wk.tumbling(10)],
        aggs=wk.count().alias("n"),
    )
    got = {
        (row["k"], row["window_start"], row["window_end"]): row["n"]
        for row in query.run(table).to_pylist()
        if row["window_name"] == "mine"
    }
    wanted = {
        (k, start, end): inside
        for k in {k for k, _ in rows}
        for start, end in emitted
        if (inside := sum(key == k and start <= t < end for key, t in rows))
    }
    assert got == wanted


@given(
    st.sampled_from(
        [wk.session(30), wk.tumbling(20), wk.custom(Fixed([(at, at + 9) for at in range(-60, 90, 10)]))]
    ),
    st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 20)), max_size=12, unique=True),
    st.lists(st.lists(st.integers(-60, 80), min_size=1, max_size=5), min_size=2, max_size=6),
)
def test_a_calendar_that_comes_later_has_the_windows_that_begin_later(
    first: wk.Window, windows: list[tuple[int, int]], batches: list[list[int]]
) -> None:
    def counted(window: wk.Window) -> wk.Query:
        return wk.query(by=[], time="t", windows=window, aggs=wk.count().alias("n"))

    own = {(start, start + size) for start, size in windows}
    op = counted(first).operator(order="out-of-order", schema=pa.schema({"t": pa.int64()}))
    op.push(pa.table({"t": batches[0]}))
    op.add(counted(wk.custom(Fixed(sorted(own)))), name="later")
    emitted = [op.push(pa.table({"t": batch})) for batch in batches[1:]] + [op.close()]
    found = {
        (row["window_start"], row["window_end"]): row["n"]
        for row in pa.concat_tables(emitted).to_pylist()
        if row["query_name"] == "later"
    }
    counts = {
        (start, end): sum(start <= time < end for batch in batches[1:] for time in batch)
        for start, end in own
        if start > max(batches[0])
    }
    assert found == {window: count for window, count in counts.items() if count}


def test_a_calendar_is_not_asked_row_by_row_or_key_by_key() -> None:
    fixed = Fixed([(n * 10, n * 10 + 10) for n in range(100)])
    table = pa.table({"k": np.arange(10_000) % 500, "t": np.arange(10_000) % 997})
    query = wk.query(by="k", time="t", windows=wk.custom(fixed), aggs=wk.count())
    assert query.run(table, threads=1).num_rows > 500
    # Each key may begin a little earlier, or end a little later, than those before it.
    assert fixed.calls < 100


@pytest.mark.parametrize(
    ("fixed", "error", "what"),
    [
        (Fixed([(0, 5)], step=0), wk.InvalidValue, r"next_edge\(0\) is 0; the next edge must be after"),
        (Fixed([(0, 5)], step=-2), wk.InvalidValue, r"next_edge\(0\) is -2; the next edge must be after"),
        (Fixed([(5, 4)], step=1), wk.InvalidValue, "windows are longer than 0"),
        (Fixed([(-40, 4)], step=1), wk.InvalidValue, "at most 20 long"),
        (Fixed([(310, 325)], step=1), wk.InvalidValue, "windows end after 0 and not after 320"),
        (Fixed([(1, 2, 3)], step=1), wk.InvalidValue, r"\(1, 2, 3\) is not a window"),  # type: ignore[list-item]
        (Fixed([("a", "b")], step=1), wk.InvalidValue, "windows: it returned 'a'; edges are ints"),
        (Fixed([(0, 5)], longest=0), wk.InvalidValue, "longest: 0 is not positive"),
        (
            Fixed([(0, 5)], longest="1 hour"),
            wk.InvalidType,
            "longest: 1 hour is given for a column of integers",
        ),
        (Fixed([(0, 5)], longest=None), wk.InvalidType, "longest: None is a NoneType"),
    ],
)
def test_wrong_calendars_are_refused_by_name(fixed: Fixed, error: type[Exception], what: str) -> None:
    query = wk.query(by=[], time="t", windows=wk.custom(fixed).alias("mine"), aggs=wk.count())
    with pytest.raises(error, match=f"^mine: .*{what}"):
        query.run(pa.table({"t": [3]}))


class Endless(Fixed):
    """Windows whose generator does not end."""

    def windows(self, since: int, until: int) -> Iterator[tuple[int, int]]:  # type: ignore[override]
        return itertools.cycle(super().windows(since, until))


@pytest.mark.slow
def test_a_calendar_without_an_end_is_an_error() -> None:
    windows = wk.custom(Endless([(0, 5), (2, 9)])).alias("mine")
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.count(), max_windows=10)
    says = (
        "^mine: max_windows: windows returned 1,000,000 windows or changes and goes on, perhaps without end"
    )
    with pytest.raises(wk.InvalidValue, match=says):
        query.run(pa.table({"t": [3]}))
    op = query.operator(order="out-of-order")
    with pytest.raises(wk.InvalidValue, match=says):
        op.push(pa.table({"t": [3]}))


def test_a_calendar_that_passes_what_is_asked_for_is_an_error_at_once() -> None:
    class Days(Fixed):
        def windows(self, since: int, until: int) -> Iterator[tuple[int, int]]:  # type: ignore[override]
            return ((day, day + 1) for day in itertools.count(since))

    query = wk.query(by=[], time="t", windows=wk.custom(Days([], step=1)).alias("mine"), aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match=r"^mine: .* windows end after 0 and not after 320"):
        query.run(pa.table({"t": [3]}))


def pushed_and_closed(op: wk.Operator, rows: pa.Table) -> pa.Table:
    op.push(rows)
    return op.close()


class EndlessChanges:
    """Changes that never end, from the first on each time."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.cycle([wk.Add(0, 1), wk.Remove(0, 1)])


@pytest.mark.parametrize("what", ["notify", "finish"])
def test_changes_without_an_end_are_an_error(what: str) -> None:
    changes = EndlessChanges()
    definition = Answering(changes) if what == "notify" else Answering([], changes)
    query = wk.query(
        by=[], time="t", windows=wk.custom(definition).alias("mine"), aggs=wk.count(), max_windows=10
    )
    with pytest.raises(
        wk.InvalidValue, match=f"^mine: max_windows: {what} returned 1,000,000 windows or changes"
    ):
        query.run(pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}))
    op = query.operator(order="out-of-order", schema=pa.schema({"t": pa.int64(), "v": pa.int64()}))
    with pytest.raises(
        wk.InvalidValue, match=f"^mine: max_windows: {what} returned 1,000,000 windows or changes"
    ):
        pushed_and_closed(op, pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}))


class Raising(Fixed):
    def windows(self, since: int, until: int) -> list[tuple[Any, Any]]:
        raise ZeroDivisionError("no days")


def test_an_exception_of_a_calendar_is_the_cause() -> None:
    query = wk.query(by=[], time="t", windows=wk.custom(Raising([(0, 5)])), aggs=wk.count())
    with pytest.raises(
        wk.InvalidValue, match=r"custom\(Raising\): windows failed with ZeroDivisionError"
    ) as raised:
        query.run(pa.table({"t": [3]}))
    assert isinstance(raised.value.__cause__, ZeroDivisionError)


class Threshold(wk.ContextAware):
    """Windows from a row with v > above to the next with v < below."""

    def __init__(self, above: float, below: float) -> None:
        self.above, self.below = above, below
        self.columns = ("v",)

    def open(self) -> Opened:
        return Opened(self)


class Opened:
    def __init__(self, threshold: Threshold) -> None:
        self.threshold = threshold
        self.emitted: tuple[int, int] | None = None

    def notify(self, first: int, times: pa.Array, v: pa.Array) -> Iterable[object]:
        assert len(times) == len(v)
        for rank, value in enumerate(v.to_pylist(), first):
            if self.emitted is None:
                if value is not None and value > self.threshold.above:
                    self.emitted = (rank, rank + 1)
                    yield wk.Add(*self.emitted)
                continue
            # An open window grows by a row at a time.
            yield wk.Shift(*self.emitted, to=(self.emitted[0], rank + 1))
            self.emitted = (self.emitted[0], rank + 1)
            if value is not None and value < self.threshold.below:
                self.emitted = None

    def finish(self, rows: int) -> Iterable[object]:
        # One that never ends is none.
        return [] if self.emitted is None else [wk.Remove(*self.emitted)]


def thresholds(values: list[float | None], above: float, below: float) -> list[tuple[int, int]]:
    windows, began = [], None
    for rank, value in enumerate(values):
        if began is None and value is not None and value > above:
            began = rank
        elif began is not None and value is not None and value < below:
            windows.append((began, rank + 1))
            began = None
    return windows


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.integers(0, 15), st.none() | st.integers(0, 20)),
        max_size=40,
    )
)
def test_thresholds_equal_their_definition(rows: list[tuple[int, int, int | None]]) -> None:
    table = pa.table(
        {
            "k": pa.array([row[0] for row in rows], pa.int8()),
            "t": pa.array([row[1] for row in rows], pa.int64()),
            "v": pa.array([row[2] for row in rows], pa.int32()),
            "row": pa.array(range(len(rows)), pa.int64()),
        }
    )
    aggs = [wk.count().alias("n"), wk.sum("v"), wk.first("row")]
    query = wk.query(by="k", time="t", windows=wk.custom(Threshold(10, 5)), aggs=aggs)
    wanted = []
    for key in range(3):
        own = sorted(((t, row, v) for row, (k, t, v) in enumerate(rows) if k == key))
        for lo, hi in thresholds([v for _, _, v in own], 10, 5):
            values = [v for _, _, v in own[lo:hi] if v is not None]
            wanted.append((key, own[lo][0], own[hi - 1][0], hi - lo, sum(values), own[lo][1]))
    got = [
        (row["k"], row["window_start"], row["window_end"], row["n"], row["sum(v)"], row["first(row)"])
        for row in query.run(table).to_pylist()
    ]
    assert sorted(got) == sorted(wanted)


class Answering(wk.ContextAware):
    """Answers what a test says."""

    columns = ("v",)

    def __init__(self, notified: Any, finished: Any = ()) -> None:
        self.answers = notified, finished

    def open(self) -> Answering:
        return self

    def notify(self, first: int, times: pa.Array, v: pa.Array) -> Any:
        return self.answers[0]

    def finish(self, rows: int) -> Any:
        return self.answers[1]


def test_nested_and_repeated_windows_of_rows() -> None:
    ranges = [(0, 5), (1, 2), (1, 4), (3, 4), (0, 1), (2, 3), (0, 5)]
    query = wk.query(
        by="k", time="t", windows=wk.custom(Answering([wk.Add(*each) for each in ranges])), aggs=wk.sum("v")
    )
    table = pa.table({"k": [0] * 5 + [1] * 5, "t": list(range(10)), "v": [1, 10, 100, 1000, 10000] * 2})
    got = sorted((row["k"], row["sum(v)"]) for row in query.run(table).to_pylist())
    sums = sorted({sum(10**at for at in range(*each)) for each in ranges})
    assert got == [(k, each) for k in (0, 1) for each in sums]


@pytest.mark.parametrize(
    ("definition", "what"),
    [
        (Answering(None), "notify: it returned None"),
        (Answering([(0, 1)]), r"notify: it returned \(0, 1\)"),
        (Answering([wk.Add(0, 4)]), r"notify: \[0, 4\) is not a range of the 3 rows shown so far"),
        (Answering([wk.Add(1, 1)]), r"notify: \[1, 1\) is not a range"),
        (Answering([wk.Add(-1, 1)]), r"notify: \[-1, 1\) is not a range"),
        (Answering([wk.Add(0.0, 1)]), "notify: rank 0.0 is a float"),  # type: ignore[arg-type]
        (
            Answering([wk.Remove(0, 1)]),
            r"notify: Remove\(start=0, end=1\) refers to a window that was not reported before",
        ),
        (Answering([wk.Add(0, 1), wk.Shift(0, 1, (2, 2))]), r"notify: \[2, 2\) is not a range"),
        (
            Answering([], [wk.Shift(0, 1, (2, 3))]),
            "finish: Shift.* refers to a window that was not reported before",
        ),
        (Answering([], 5), "finish: it returned 5"),
    ],
)
def test_wrong_answers_are_refused_by_name(definition: Answering, what: str) -> None:
    query = wk.query(by=[], time="t", windows=wk.custom(definition).alias("mine"), aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match=f"^mine: {what}"):
        query.run(pa.table({"t": [1, 2, 3], "v": [1, 2, 3]}))


def test_columns_that_a_definition_reads_are_asked_for() -> None:
    query = wk.query(by=[], time="t", windows=wk.custom(Threshold(1, 0)), aggs=wk.count())
    assert query.inputs == ["t", "v"]
    with pytest.raises(wk.UnknownColumn, match="no column 'v'"):
        query.run(pa.table({"t": [1]}))
    with pytest.raises(wk.UnknownColumn, match="time: no column 't'"):
        query.run(pa.table({"v": [1]}))

    class Text(Threshold):
        def __init__(self) -> None:
            self.columns = "v"  # type: ignore[assignment]

    with pytest.raises(wk.InvalidType, match="columns: 'v' is a str; columns is a tuple of str"):
        wk.custom(Text())


def test_definitions_travel() -> None:
    query = wk.query(by=[], time="t", windows=wk.custom(Threshold(2, 2)), aggs=wk.sum("v"))
    table = pa.table({"t": [1, 2, 3], "v": [1, 3, 1]})
    assert pickle.loads(pickle.dumps(query)).run(table) == query.run(table)


class Daily(wk.ContextFree):
    """Days, as `tumbling("1 day")` has them."""

    longest = "1 day"

    def next_edge(self, t: Any) -> Any:
        return t.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)

    def windows(self, since: Any, until: Any) -> Any:
        return []


def test_explain_of_windows_that_depend_on_time_alone() -> None:
    query = wk.query(by="k", time="t", windows=wk.custom(Daily()), aggs=wk.sum("v"))
    # Without data the length says that times are no integers.
    assert "  custom(Daily): context free; defined by code of your own; rows are stored" in query.explain()
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us"), "v": pa.int64()})
    for order in ("out-of-order", "in-order"):
        text = query.operator(order=order, schema=schema).explain()
        assert "store rows: no" in text
        assert "rows are stored" not in text


WINDOWS = st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 20)), max_size=12, unique=True)
CALLS = st.lists(
    st.lists(st.tuples(st.integers(0, 2), st.integers(-60, 80) | st.integers(-900, 900)), max_size=8),
    max_size=8,
)


@given(WINDOWS, CALLS, st.booleans(), st.booleans(), st.booleans(), st.data())
def test_any_calendar_of_a_stream_equals_its_definition(
    windows: list[tuple[int, int]],
    calls: list[list[tuple[int, int]]],
    in_order: bool,
    in_lists: bool,
    with_others: bool,
    data: st.DataObject,
) -> None:
    emitted = [(start, start + size) for start, size in windows]
    if in_order:
        times = iter(sorted(t for call in calls for _, t in call))
        calls = [[(k, next(times)) for k, _ in call] for call in calls]
    others = [wk.sliding(12, 5), wk.landmark(7, start=-20)] if with_others else []
    query = wk.query(
        by="k",
        time="t",
        windows=[wk.custom(Fixed(emitted)).alias("mine"), wk.band(-900, 900).alias("all"), *others],
        aggs=[(wk.collect_list if in_lists else wk.median)("t").alias("of"), wk.count().alias("n")],
    )
    schema = pa.schema({"k": pa.int8(), "t": pa.int64()})
    # Without rows that are late for all windows, each is in the end as it would be in a batch.
    order: dict[str, Any] = {} if in_order else {"order": "out-of-order", "allowed_lateness": 10**6}
    op = query.operator(schema=schema, **order)
    got: dict[tuple[int, int, int], tuple[int, Any]] = {}

    def take(results: pa.Table) -> None:
        for row in results.to_pylist():
            if row["window_name"] == "mine":
                key = (row["k"], row["window_start"], row["window_end"])
                assert row["update"] or key not in got
                got[key] = row["n"], row["of"]

    watermark = -900
    for call in calls:
        take(op.push(pa.table({"k": [k for k, _ in call], "t": [t for _, t in call]}, schema=schema)))
        if not in_order and data.draw(st.booleans()):
            watermark = data.draw(st.integers(watermark, 900))
            take(op.advance(watermark))
        if data.draw(st.booleans()):
            op = wk.Operator.restore(op.snapshot(), op.queries)
        assert op.stats().rows_kept == 0 or (in_lists and not in_order)
    take(op.close())
    rows = [row for call in calls for row in call]
    wanted = {
        (k, start, end): (len(inside), inside if in_lists else statistics.median(inside))
        for k in {k for k, _ in rows}
        for start, end in emitted
        if (inside := sorted(t for key, t in rows if key == k and start <= t < end))
    }
    assert got == wanted


def test_a_calendar_of_a_stream_takes_what_a_built_in_window_takes() -> None:
    tens = Fixed([(at, at + 10) for at in range(-50, 100_000, 10)], longest=10)
    taken = {}
    for windows in (wk.custom(tens), wk.tumbling(10)):
        query = wk.query(by=[], time="t", windows=windows, aggs=wk.count().alias("n"))
        op = query.operator()
        found = [op.push(pa.table({"t": np.arange(at, at + 900)})) for at in range(0, 90_000, 900)]
        assert pa.concat_tables([*found, op.close()])["n"].to_pylist() == [10] * 9_000
        stats = op.stats()
        assert stats.rows_kept == 0
        taken[windows.kind] = stats.bytes
    assert taken["custom"] <= 2 * taken["tumbling"]
    # Once for some stretches of sixteen windows, and not for each call.
    assert tens.calls < 700


class Failing(Fixed):
    """Raises when a test says so."""

    fails = False

    def windows(self, since: int, until: int) -> list[tuple[Any, Any]]:
        if self.fails:
            raise ZeroDivisionError("no days")
        return super().windows(since, until)


@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
def test_a_calendar_that_fails_leaves_a_stream_as_it_was(order: str) -> None:
    failing = Failing([(at, at + 10) for at in range(0, 2_000, 10)], longest=10)
    query = wk.query(by=[], time="t", windows=wk.custom(failing), aggs=wk.count().alias("n"))
    op = query.operator(order=order)
    found = [op.push(pa.table({"t": [1, 2, 13]}))]
    before = op.snapshot(), op.stats()
    failing.fails = True
    with pytest.raises(wk.InvalidValue, match="windows failed with ZeroDivisionError"):
        op.push(pa.table({"t": [14, 1_000]}))
    assert (op.snapshot(), op.stats()) == before
    # What is known is not asked for again.
    found.append(op.push(pa.table({"t": [15]})))
    failing.fails = False
    found += [op.push(pa.table({"t": [16, 1_000]})), op.close()]
    assert pa.concat_tables(found)["n"].to_pylist() == [2, 3, 1]


def test_windows_that_may_change_are_refused_where_none_does() -> None:
    """Those of a calendar do not; rows that come after the one that ends a window change it."""
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})

    def query(windows: wk.Window) -> wk.Query:
        return wk.query(by=[], time="t", windows=windows, aggs=wk.sum("v").alias("s"))

    tens = Fixed([(at, at + 10) for at in range(0, 100, 10)])
    op = query(wk.custom(tens)).operator(order="out-of-order", schema=schema, updates=False)
    assert op.push(pa.table({"t": [2, 5], "v": [3, 1]}, schema=schema)).num_rows == 0
    assert op.advance(10).to_pylist() == [{"window_start": 0, "window_end": 10, "s": 4, "update": False}]
    op.push(pa.table({"t": [3, 12], "v": [8, 16]}, schema=schema))
    assert op.late == 1
    assert op.close()["s"].to_pylist() == [16]
    for windows in (wk.custom(Threshold(1, 1)), wk.sliding(10, "2 rows", order="arrival")):
        with pytest.raises(wk.InvalidValue, match=r"updates: False is given for windows of .* may change"):
            query(windows).operator(order="out-of-order", schema=schema, updates=False)
    with pytest.raises(wk.InvalidValue, match=r"shed: keep='rows' is given for .*determined by rows"):
        query(wk.custom(tens)).operator(schema=schema, shed=wk.shed("1 GB", keep="rows"))
