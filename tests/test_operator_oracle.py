"""Streams of every kind against the definition: order, lateness, batches and watermarks at any place."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import column, evaluate, nanoseconds_per_unit, plain, rows_of
from stream_oracle import Stream, assert_same, results

import windowkit as wk
from windowkit.moments import Moment

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "i": (pa.int64(), st.integers(-5, 5) | st.none()),
    "f": (pa.float64(), st.sampled_from([0.5, -2.0, float("nan"), float("inf"), 1e6]) | st.none()),
    "s": (pa.string(), st.sampled_from(["", "a", "b", "long enough not to be inlined"]) | st.none()),
    "d": (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["x", "y"]) | st.none()),
    "b": (pa.bool_(), st.booleans() | st.none()),
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
    wk.collect_list("i"),
    wk.collect_set("s"),
    wk.sum("i").where("b").alias("some"),
    wk.count().where("b").alias("few"),
    wk.geometric_mean("f"),
]
KEYS: list[tuple[pa.DataType, st.SearchStrategy[Any]]] = [
    (pa.int64(), st.integers(0, 2) | st.none()),
    (pa.string(), st.sampled_from(["a", "b"])),
    (pa.dictionary(pa.int8(), pa.string()), st.sampled_from(["a", "b"]) | st.none()),
    (pa.float64(), st.sampled_from([0.0, -0.0, float("nan")])),
]
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
    "global",
]


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


@st.composite
def windows(draw: st.DrawFn, kind: pa.DataType) -> list[wk.Window]:
    drawn: list[wk.Window] = []
    for number in range(draw(st.sampled_from([1, 1, 2, 3, 6]))):
        size = draw(st.integers(1, 25))
        made: wk.Window
        match draw(st.sampled_from(KINDS)):
            case "tumbling":
                made = wk.tumbling(
                    scaled(size, kind), start_time=scaled(draw(st.integers(0, size - 1)), kind)
                )
            case "sliding":
                made = wk.sliding(scaled(size, kind), scaled(draw(st.integers(1, size)), kind))
            case "session":
                made = wk.session(scaled(size, kind))
            case "band":
                place = draw(st.integers(-60, 100))
                made = wk.band(placed(place, kind), placed(place + size, kind))
            case "landmark":
                made = wk.landmark(scaled(size, kind), start=placed(draw(st.integers(-60, 100)), kind))
            case "landmarks":
                period = scaled(size * draw(st.integers(1, 4)), kind)
                shift = scaled(draw(st.integers(0, size - 1)), kind)
                made = wk.landmark(scaled(size, kind), period=period, start_time=shift)
            case _:
                made = wk.global_window()
        drawn.append(made.alias(f"w{number}"))
    return drawn


class Call(NamedTuple):
    """A batch to push, or how far to move the watermark on."""

    batch: pa.Table | None
    advance: int


class Case(NamedTuple):
    query: wk.Query
    schema: pa.Schema
    order: str
    lateness: int
    delay: int | None
    store: str
    calls: list[Call]


@st.composite
def queries(draw: st.DrawFn, time: pa.DataType, by: list[str]) -> wk.Query:
    aggs = draw(
        st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique_by=lambda each: each.name)
    )
    return wk.query(by=by, time="t", windows=draw(windows(time)), aggs=aggs)


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
            calls.append(Call(None, draw(st.integers(0, 30))))
            continue
        columns: dict[str, list[Any]] = {name: [] for name in kinds}
        for _ in range(draw(st.integers(0, 8))):
            now += draw(st.sampled_from([0, 0, 1, 1, 2, 5, 12, 40]))
            back = 0 if order == "in-order" else draw(st.sampled_from([0, 0, 0, 1, 4, 11, 30]))
            columns["t"].append(None if draw(st.integers(0, 12)) == 0 else now - back)
            for name, (_, strategy) in kinds.items():
                if name != "t":
                    columns[name].append(draw(strategy))
        arrays = {name: column(values, schema.field(name).type) for name, values in columns.items()}
        batch = pa.table(arrays, schema=schema)
        cut = draw(st.integers(0, batch.num_rows))
        calls.append(Call(pa.concat_tables([batch.slice(0, cut), batch.slice(cut)]), 0))
    return Case(query, schema, order, lateness, delay, store, calls)


def scalar(units: int, kind: pa.DataType) -> Any:
    if pa.types.is_integer(kind):
        return units
    return pa.scalar(units, pa.int32() if pa.types.is_date(kind) else pa.int64()).cast(kind)


def start(case: Case) -> tuple[wk.Operator, Stream]:
    time = case.schema.field("t").type
    delay = None if case.delay is None else scaled(case.delay, time)
    op = case.query.operator(
        order=case.order,
        allowed_lateness=scaled(case.lateness, time),
        max_delay=delay,
        store=case.store,
        schema=case.schema,
    )
    oracle = Stream(
        "q1",
        case.query,
        case.schema,
        order=case.order,
        allowed_lateness=case.lateness,
        max_delay=case.delay,
    )
    return op, oracle


def reached(oracle: Stream) -> int:
    return max([-40, *(t for t in (oracle.watermark, oracle.latest) if t is not None)])


def step(op: wk.Operator, oracle: Stream, call: Call, time: pa.DataType) -> None:
    """Make a call, and compare what it returns."""
    if call.batch is not None:
        assert_same(oracle.push(call.batch), results(op, op.push(call.batch)))
        return
    least = oracle.watermark if oracle.watermark is not None else -40
    # In order the watermark is where rows are; out of order mostly somewhere behind the latest row.
    target = max(least, reached(oracle) - 15 + call.advance) if oracle.order == "out-of-order" else least
    assert_same(oracle.advance(target), results(op, op.advance(scalar(target, time))))


def check_late(op: wk.Operator, oracle: Stream) -> None:
    late = op.take_late()
    assert late["late_reason"].to_pylist() == [reason for _, reason in sorted_late(oracle, late)]
    assert op.late == len(oracle.late)
    assert op.take_late().num_rows == 0


def sorted_late(oracle: Stream, late: pa.Table) -> list[tuple[int, str]]:
    """Return the late rows as they are handed out: those of a batch without time before its late ones."""
    assert sorted(map(str, plain(late["t"]))) == sorted(str(oracle.times()[row]) for row, _ in oracle.late)
    reasons = late["late_reason"].to_pylist()
    assert sorted(reasons) == sorted(reason for _, reason in oracle.late)
    return list(enumerate(reasons))


@settings(max_examples=400)
@given(cases())
def test_every_call_returns_what_the_definition_says(case: Case) -> None:
    op, oracle = start(case)
    time = case.schema.field("t").type
    for call in case.calls:
        step(op, oracle, call, time)
    assert_same(oracle.close(), results(op, op.close()))
    check_late(op, oracle)
    stats = op.stats()
    assert (stats.rows, stats.late, stats.slices) == (len(oracle.taken), len(oracle.late), 0)


@settings(max_examples=150)
@given(cases("out-of-order"), st.data())
def test_with_updates_applied_results_are_those_of_all_rows(case: Case, data: st.DataObject) -> None:
    """With no row too late, the last word on each window is what a batch query says of all rows."""
    op, _ = start(
        case._replace(lateness=2**40 if pa.types.is_integer(case.schema.field("t").type) else 10**5)
    )
    last: dict[Any, list[Any]] = {}
    tables = []
    for call in case.calls:
        if call.batch is not None:
            tables.append(call.batch)
            apply(last, results(op, op.push(call.batch)), case.query)
        elif op.watermark is None or data.draw(st.booleans()):
            rest = [t for table in tables for t in plain(table["t"]) if t is not None]
            now = max(rest, default=0) - 5
            if op.watermark is None or now >= plain(pa.array([op.watermark.as_py()], op.watermark.type))[0]:
                apply(last, results(op, op.advance(scalar(now, case.schema.field("t").type))), case.query)
    apply(last, results(op, op.close()), case.query)
    everything = pa.concat_tables([case.schema.empty_table(), *tables])
    expected = evaluate(case.query, everything)
    assert rows_of(case.query, case.query.run(everything)).keys() == expected.keys()
    named = {
        (result[1:-1] if len(case.query.windows) > 1 else (*result[1:-4], *result[-3:-1])): values
        for result, values in last.items()
    }
    assert_same(expected, named)


def apply(last: dict[Any, list[Any]], news: dict[Any, list[Any]], query: wk.Query) -> None:
    """Replace what results say of windows: an update of a session stands for all that it covers."""
    sessions = {window.name for window in query.windows if isinstance(window, wk.Session)}
    for result, values in news.items():
        *group, name, begin, end, update = result
        if update:
            for other in [
                other
                for other in last
                if list(other[:-4]) == group
                and other[-4] == name
                and (
                    begin <= other[-3] and other[-2] <= end
                    if name in sessions
                    else (other[-3], other[-2]) == (begin, end)
                )
            ]:
                del last[other]
        assert (*group, name, begin, end, False) not in last
        last[(*group, name, begin, end, False)] = values


@settings(max_examples=60)
@given(st.data())
def test_many_rows_of_one_key_however_many_are_late(data: st.DataObject) -> None:
    """Batches as long as streams have them: mostly in order, or hardly, with nulls and without."""
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    query = wk.query(
        by=[],
        time="t",
        windows=data.draw(windows(pa.int64())),
        aggs=data.draw(
            st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=5, unique_by=lambda each: each.name)
        ),
    )
    rows, share = data.draw(st.integers(100, 400)), data.draw(st.sampled_from([0.0, 0.02, 0.2, 0.6, 1.0]))
    delays = np.where(random.random(rows) < share, random.integers(0, 40, rows), 0)
    times = np.arange(rows) // data.draw(st.sampled_from([1, 3, 20])) - 50 - delays
    nulls = data.draw(st.booleans())
    columns = {"t": pa.array(times)}
    for name, pool in POOLS.items():
        given_values = [*pool, *([None] if nulls else [])]
        drawn = [given_values[at] for at in random.integers(0, len(given_values), rows)]
        columns[name] = column(drawn, VALUES[name][0])
    table = pa.table(columns)
    op = query.operator(
        order="out-of-order", allowed_lateness=1000, store=data.draw(st.sampled_from(["lazy", "eager"]))
    )
    last: dict[Any, list[Any]] = {}
    size = data.draw(st.integers(70, 400))
    for begin in range(0, rows, size):
        apply(last, results(op, op.push(table.slice(begin, size))), query)
        apply(last, results(op, op.advance(int(times[: begin + size].max()) - 20)), query)
    apply(last, results(op, op.close()), query)
    several = len(query.windows) > 1
    named = {
        (result[1:-1] if several else (*result[1:-4], *result[-3:-1])): values
        for result, values in last.items()
    }
    assert_same(evaluate(query, table), named)


@settings(max_examples=100)
@given(cases(), st.integers(1, 5))
def test_how_rows_are_cut_into_batches_does_not_matter_in_order(case: Case, rows: int) -> None:
    """In order, windows are the same whatever the batches, and each comes once."""
    if case.order == "out-of-order":
        return
    told: list[dict[Any, list[Any]]] = []
    for size in (rows, 10**6):
        op = case.query.operator(schema=case.schema)
        seen: dict[Any, list[Any]] = {}
        for call in case.calls:
            if call.batch is None:
                continue
            for from_row in range(0, call.batch.num_rows, size):
                new = results(op, op.push(call.batch.slice(from_row, size)))
                assert not set(new) & set(seen)
                seen |= new
        seen |= results(op, op.close())
        told.append(seen)
    assert told[0].keys() == told[1].keys()
