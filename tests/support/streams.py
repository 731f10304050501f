"""Streams of every kind: queries and calls that are drawn, and how an operator and an oracle take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import windowkit as wk
from support.extents import FORMS
from support.plain import column, key, nanoseconds_per_unit, plain
from support.rows_oracle import Both
from support.stream_oracle import Stream, assert_same, results
from windowkit.language.moments import Moment

PARTIALS: Final = ("none", "start", "end", "both")

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-5, 5) | st.none()),
    "f": (pa.float64(), st.sampled_from([0.5, -2.0, float("nan"), float("inf"), 1e6]) | st.none()),
    "s": (pa.string(), st.sampled_from(["", "a", "b", "long enough not to be inlined"]) | st.none()),
    "d": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "y"]) | st.none()),
    "b": (pa.bool_(), st.booleans() | st.none()),
}
MARKS = {
    "m": (pa.bool_(), st.booleans() | st.none()),
    "n": (pa.bool_(), st.sampled_from([False, False, True])),
}
POOLS: dict[str, list[Any]] = {
    "i": list(range(-5, 6)),
    "f": [0.5, -2.0, float("nan"), float("inf"), 1e6, *(number / 8 for number in range(40))],
    "s": ["", "a", "b", "long enough not to be inlined"],
    "d": ["x", "y"],
    "b": [True, False],
}
AGGREGATES = [
    wk.count(),
    wk.count("f"),
    wk.sum("i"),
    wk.mean("i"),
    wk.sum("f"),
    wk.min("f"),
    wk.max("i"),
    wk.min("s"),
    wk.max("d"),
    wk.stddev("i"),
    wk.first("s"),
    wk.last("i"),
    wk.first("i", ignore_nulls=True),
    wk.arg_max("s", by="i"),
    wk.arg_min("i", by="s"),
    wk.min_count("i"),
    wk.max_count("s"),
    wk.m4("i"),
    wk.median("i"),
    wk.quantile("f", 0.25),
    wk.count_distinct("s"),
    wk.mode("d"),
    wk.top_k("f", 3),
    wk.frequent("s", 0.3),
    wk.collect_list("i"),
    wk.collect_set("s"),
    wk.collect_rows("s", "f", "d"),
    wk.collect_rows().where("b").alias("rows"),
    wk.sum("i").where("b").alias("some"),
    wk.count().where("b").alias("few"),
    wk.geometric_mean("f"),
    wk.last("s", ignore_nulls=True),
    wk.m4("i", times=True).alias("m4 times"),
    wk.quantile("s", 0.5, discrete=True),
    wk.var_pop("i"),
    wk.var_samp("f"),
    wk.stddev_pop("f"),
    wk.approx_count_distinct("s"),
    wk.hll_sketch("s"),
]
KEYS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(0, 2) | st.none()),
    (pa.string(), st.sampled_from(["a", "b"])),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"]) | st.none()),
    (pa.float64(), st.sampled_from([0.0, -0.0, float("nan")])),
]
KEY_POOLS: list[list[Any]] = [[0, 1, 2, None], ["a", "b"], ["a", "b", None], [0.0, -0.0, float("nan")]]
"""Values of each of `KEYS`."""
TIMES = [pa.int64(), pa.timestamp("us", "UTC"), pa.timestamp("s"), pa.date32(), pa.int16()]
UNITS = {"us": "microseconds", "s": "seconds"}
KINDS = [
    "tumbling",
    "sliding",
    "sliding",
    "session",
    "session",
    "band",
    "landmark",
    "landmarks",
    "local",
    "global",
]


class Threshold(wk.ContextAware):
    """Windows from a row with i > 2 to the next with i < 0, the last of them growing row by row."""

    columns = ("i",)

    def open(self) -> Opened:
        return Opened()


class Opened:
    def __init__(self) -> None:
        self.emitted: tuple[int, int] | None = None

    def notify(self, first: int, times: pa.Array, i: pa.Array) -> Iterable[object]:
        assert len(times) == len(i)
        for rank, value in enumerate(i.to_pylist(), first):
            if self.emitted is None:
                if value is not None and value > 2:
                    self.emitted = (rank, rank + 1)
                    yield wk.Add(*self.emitted)
                continue
            if value is not None and value < 0:
                self.emitted = None
                continue
            yield wk.Shift(*self.emitted, to=(self.emitted[0], rank + 1))
            self.emitted = (self.emitted[0], rank + 1)

    def finish(self, rows: int) -> Iterable[object]:
        # One that never ends is none.
        return [] if self.emitted is None else [wk.Remove(*self.emitted)]


def scaled(units: int, kind: pa.DataType) -> Any:
    """Return a length of as many units of a time column."""
    if pa.types.is_integer(kind):
        return units
    return f"{units} days" if pa.types.is_date(kind) else f"{units} {UNITS[kind.unit]}"


def placed(units: int, kind: pa.DataType) -> Any:
    """Return a place as many units from the time column's zero."""
    if pa.types.is_integer(kind):
        return units
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    return Moment(units * nanoseconds_per_unit(kind), zoned)


def time_window(draw: st.DrawFn, kind: pa.DataType) -> wk.Window:
    """Draw a window over a time column of this kind."""
    size, place = draw(st.integers(1, 25)), draw(st.integers(-60, 100))
    start_time = scaled(draw(st.integers(0, size - 1)), kind)
    match draw(st.sampled_from(KINDS)):
        case "tumbling":
            return wk.tumbling(scaled(size, kind), start_time=start_time)
        case "sliding":
            return wk.sliding(scaled(size, kind), scaled(draw(st.integers(1, size)), kind))
        case "session":
            return wk.session(scaled(size, kind))
        case "band":
            return wk.band(placed(place, kind), placed(place + size, kind))
        case "landmark":
            return wk.landmark(scaled(size, kind), start=placed(place, kind))
        case "landmarks":
            period = scaled(size * draw(st.integers(1, 4)), kind)
            return wk.landmark(scaled(size, kind), period=period, start_time=start_time)
        case "local":
            return local_window(draw, kind)
    return wk.global_window()


def local_window(draw: st.DrawFn, kind: pa.DataType) -> wk.Window:
    """Draw a window of calendar periods near the first days, or the first units of time, of 1970."""
    if pa.types.is_integer(kind) or pa.types.is_duration(kind):
        return wk.tumbling(5 if pa.types.is_integer(kind) else wk.Duration(5 * nanoseconds_per_unit(kind)))
    zone, is_date = None, pa.types.is_date(kind)
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        zone = draw(st.sampled_from([None, "UTC", "Europe/Berlin", "-03:30"]))
    # Where 1970 begins by the clock.
    begins = {"Europe/Berlin": 3_600, "-03:30": -12_600}.get(zone or "", 0) * 10**9
    late = draw(st.integers(-6, 6) if is_date else st.integers(-60, 100))
    start = wk.Duration(begins + late * nanoseconds_per_unit(kind))
    few, more = draw(st.integers(1, 3)), draw(st.integers(0, 3))
    week_start = draw(st.sampled_from(["monday", "thursday", "sunday"]))
    match draw(st.sampled_from(["months", "weeks", "days", "so far", "every", "every days"])):
        case "months":
            return wk.sliding(f"{few + more} months", f"{few} months", start_time=start, zone=zone)
        case "weeks":
            return wk.tumbling(f"{few} weeks", start_time=start, zone=zone, week_start=week_start)
        case "days" if zone is not None:
            return wk.sliding(f"{few + more} days", f"{few} days", start_time=start, zone=zone)
        case "so far":
            period = f"{few * (more + 1)} months"
            return wk.landmark(f"{few} months", period=period, start_time=start, zone=zone)
        case "every" if not is_date:
            every = wk.Duration(draw(st.integers(1, 25)) * nanoseconds_per_unit(kind))
            return wk.landmark(every, period=f"{few} months", start_time=start, zone=zone)
    return wk.landmark(f"{few} days", period=f"{more + 1} months", start_time=start, zone=zone)


def row_windows(draw: st.DrawFn, kind: pa.DataType) -> wk.Window:
    """Draw a window that rows tell."""
    size, rows = draw(st.integers(1, 25)), draw(st.integers(1, 7))
    match draw(
        st.sampled_from(
            [
                *("count", "count", "count", "last rows", "last time", "arrivals", "arrivals"),
                *("marks", "marks", "between", "long", "own"),
            ]
        )
    ):
        case "count":
            slide = draw(st.integers(1, rows))
            return wk.sliding(wk.rows(rows), wk.rows(slide), partial=draw(st.sampled_from(PARTIALS)))
        case "last rows":
            start = draw(st.integers(0, size - 1))
            return wk.sliding(wk.rows(rows), scaled(size, kind), start_time=scaled(start, kind))
        case "last time":
            return wk.sliding(scaled(size, kind), wk.rows(rows))
        case "arrivals":
            return wk.sliding(scaled(size, kind), wk.rows(rows), order="arrival")
        case "marks":
            return wk.punctuation(
                draw(st.sampled_from(["m", "n"])), at=draw(st.sampled_from(["start", "end"]))
            )
        case "between":
            marks = st.sampled_from(["m", "n", "b"])
            return wk.between(draw(marks), draw(marks), exclusive=draw(st.booleans()))
        case "long":
            most = size + draw(st.integers(0, 25))
            return wk.session(scaled(size, kind), at_most=scaled(most, kind))
    return wk.custom(Threshold())


@st.composite
def windows(draw: st.DrawFn, kind: pa.DataType) -> list[wk.Window]:
    count = draw(st.sampled_from([1, 1, 2, 3, 6]))
    return [time_window(draw, kind).alias(f"w{number}") for number in range(count)]


class Call(NamedTuple):
    """A batch to push, or how far to move the watermark on, or a punctuation; perhaps of a row's key."""

    batch: pa.Table | None
    advance: int = 0
    mark: bool = False
    of: int | None = None


class Case(NamedTuple):
    query: wk.Query
    schema: pa.Schema
    order: str
    lateness: int
    delay: int | None
    calls: list[Call]
    store: str = "auto"
    updates: bool = True


@st.composite
def queries(draw: st.DrawFn, time: pa.DataType, by: list[str], forms: Sequence[str] = FORMS) -> wk.Query:
    """Draw a query, whose results have windows in one of these forms."""
    aggs = draw(
        st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique_by=lambda each: each.name)
    )
    form = draw(st.sampled_from(forms))
    return wk.query(by=by, time="t", windows=draw(windows(time)), aggs=aggs, window_columns=form)


@st.composite
def batches(
    draw: st.DrawFn,
    schema: pa.Schema,
    kinds: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]],
    now: int,
    steps: list[int],
    delays: list[int],
) -> tuple[pa.Table, int]:
    """Rows from `now` on in two chunks, some late and some without a time; and the time that is reached."""
    columns: dict[str, list[Any]] = {name: [] for name in kinds}
    for _ in range(draw(st.integers(0, 8))):
        now += draw(st.sampled_from(steps))
        back = draw(st.sampled_from(delays))
        columns["t"].append(None if draw(st.integers(0, 12)) == 0 else now - back)
        for name, (_, strategy) in kinds.items():
            if name != "t":
                columns[name].append(draw(strategy))
    arrays = {name: column(values, schema.field(name).type) for name, values in columns.items()}
    batch = pa.table(arrays, schema=schema)
    cut = draw(st.integers(0, batch.num_rows))
    return pa.concat_tables([batch.slice(0, cut), batch.slice(cut)]), now


@st.composite
def cases(draw: st.DrawFn, order: str | None = None) -> Case:
    time = draw(st.sampled_from(TIMES))
    keys = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    by = [f"k{number}" for number in range(len(keys))]
    query = draw(queries(time, by))
    kinds = dict(zip(by, keys, strict=True)) | {"t": (time, st.integers())} | VALUES
    schema = pa.schema({name: kind for name, (kind, _) in kinds.items()})
    order = order or draw(st.sampled_from(["in-order", "out-of-order"]))
    lateness = 0 if order == "in-order" else draw(st.sampled_from([0, 0, 3, 20, 1000]))
    delay = None if order == "in-order" else draw(st.sampled_from([None, None, 0, 7]))
    store = draw(st.sampled_from(["lazy", "eager", "auto"]))
    calls, now = [], draw(st.integers(-30, 30))
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 3)) == 0:
            calls.append(Call(None, draw(st.integers(0, 30)), of=draw(st.none() | st.integers(0, 20))))
            continue
        delays = [0] if order == "in-order" else [0, 0, 0, 1, 4, 11, 30]
        batch, now = draw(batches(schema, kinds, now, [0, 0, 1, 1, 2, 5, 12, 40], delays))
        calls.append(Call(batch))
    updates = draw(updating(order, lateness, query))
    return Case(query, schema, order, lateness, delay, calls, store, updates)


def updating(order: str, lateness: int, query: wk.Query) -> st.SearchStrategy[bool]:
    """Draw whether emitted windows may be updated; often, and where they have to be."""
    must = order == "out-of-order" and (lateness > 0 or any(map(may_change, query.windows)))
    return st.just(True) if must else st.booleans()


def is_aware(window: wk.Window) -> bool:
    return isinstance(window, wk.Custom) and isinstance(window.implementation, wk.ContextAware)


def may_change(window: wk.Window) -> bool:
    """Whether a window may change after it was emitted, whatever rows are late, so that it needs updates."""
    return is_aware(window) or window.counts_arrivals


def scalar(units: int, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return units
    return pa.scalar(units, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)


def operator(case: Case, **options: Any) -> wk.Operator:
    """Return the operator of a case."""
    time = case.schema.field("t").type
    return case.query.operator(
        order=case.order,
        allowed_lateness=scaled(case.lateness, time),
        progress=None if case.delay is None else wk.delay(scaled(case.delay, time)),
        schema=case.schema,
        updates=case.updates,
        **options,
    )


Oracle = TypeVar("Oracle", Stream, Both)


def oracle_of(case: Case, kind: type[Oracle]) -> Oracle:
    """Return what says what the operator of a case must return."""
    return kind(
        "q1",
        case.query,
        case.schema,
        order=case.order,
        allowed_lateness=case.lateness,
        max_delay=case.delay,
        updates=case.updates,
    )


def start(case: Case) -> tuple[wk.Operator, Stream]:
    return operator(case, store=case.store), oracle_of(case, Stream)


def reached(oracle: Stream | Both) -> int:
    return max([-40, *(t for t in (oracle.watermark, oracle.latest) if t is not None)])


def call(op: wk.Operator, oracle: Stream | Both, what: Call, time: pa.DataType) -> tuple[Any, pa.Table]:
    """Push, or move the watermark; return what must be returned, and what is."""
    if what.batch is not None:
        return oracle.push(what.batch), op.push(what.batch)
    given = a_key(op, oracle, what)
    if given is not None:
        group = group_of(oracle.schema, given)
        least = oracle.reached(group)
        target = max(-40 if least is None else least, reached(oracle) - 15 + what.advance)
        return oracle.advance(target, group), op.advance(scalar(target, time), key=given)
    least = oracle.watermark if oracle.watermark is not None else -40
    # In order the watermark is where rows are; out of order mostly somewhere behind the latest row.
    target = max(least, reached(oracle) - 15 + what.advance) if oracle.order == "out-of-order" else least
    return oracle.advance(target), op.advance(scalar(target, time))


def group_of(schema: pa.Schema, given: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a key as oracles have it."""
    return tuple(key(plain(column([value], schema.field(name).type))[0]) for name, value in given.items())


def a_key(op: wk.Operator, oracle: Stream | Both, what: Call) -> dict[str, Any] | None:
    """Return the key that a call is for, if it is for one: that of some row."""
    part = next(iter(oracle.parts.values())) if isinstance(oracle, Both) else oracle
    query, table = next(iter(op.queries.values())), part.table
    if what.of is None or not query.by or not table.num_rows or part.order == "in-order":
        return None
    return {name: table[name][what.of % table.num_rows].as_py() for name in query.by}


def step(op: wk.Operator, oracle: Stream, what: Call, time: pa.DataType) -> None:
    """Make a call, and compare what it returns."""
    expected, emitted = call(op, oracle, what, time)
    assert_same(expected, results(op, emitted))


def step_by_rows(op: wk.Operator, oracle: Both, what: Call, time: pa.DataType) -> None:
    """Make a call, and compare what it returns, where windows are told apart by their rows."""
    expected, emitted = call(op, oracle, what, time)
    oracle.check(op, emitted, expected)


def come_and_go(
    op: wk.Operator,
    oracle: Any,
    case: Case,
    draw: Callable[[st.SearchStrategy[Any]], Any],
    queries: Callable[[pa.DataType, list[str], Sequence[str]], st.SearchStrategy[wk.Query]],
    step: Callable[[wk.Operator, Any, Call, pa.DataType], None],
) -> None:
    """Make the calls of a case, with queries added and removed between them."""
    time = case.schema.field("t").type
    added = 1
    for call in case.calls:
        if draw(st.integers(0, 2)) == 0:
            other = draw(queries(time, list(case.query.by), [case.query.window_columns]))
            if not case.updates and case.order == "out-of-order" and any(map(may_change, other.windows)):
                with pytest.raises(wk.InvalidValue, match="updates"):
                    op.add(other)
                continue
            added += 1
            assert op.add(other) == f"q{added}"
            oracle.add(f"q{added}", other)
        elif len(oracle.queries) > 1 and draw(st.integers(0, 2)) == 0:
            gone = draw(st.sampled_from(sorted(oracle.queries)))
            op.remove(gone)
            oracle.remove(gone)
        step(op, oracle, call, time)


def check_late(op: wk.Operator, oracle: Stream) -> None:
    late = op.take_late()
    assert op.late == late.num_rows == len(oracle.late)
    reasons, times = late["late_reason"].to_pylist(), plain(late["t"])
    names = late["query_name"].to_pylist() if "query_name" in late.column_names else ["q1"] * len(times)
    all_times = oracle.times()
    expected = Counter((name, all_times[row], reason) for name, row, reason in oracle.late)
    assert Counter(zip(names, times, reasons, strict=True)) == expected
    assert op.take_late().num_rows == 0
