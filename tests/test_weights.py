"""Rows of weight -1, which retract others: what remains is what counts, in batches and in streams."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
import windowkit.local.query as local
from support import samples
from support.failing import Terms
from support.oracle import extents, taken
from support.oracle_aggregates import Close, RootClose, aggregate, same
from support.plain import plain
from windowkit import InvalidType, InvalidValue, UnknownColumn
from windowkit.language.aggregation import make
from windowkit.language.functions import FORMS
from windowkit.language.weights import is_invertible

SCHEMA = pa.schema(
    {
        "k": pa.string(),
        "t": pa.int64(),
        "i": pa.int64(),
        "f": pa.float64(),
        "g": pa.float64(),
        "s": pa.string(),
        "d": pa.decimal128(10, 2),
        "b": pa.bool_(),
        "w": pa.int8(),
    }
)
AGGS = [
    wk.count(),
    wk.count("i").alias("some"),
    wk.sum("i"),
    wk.sum("f"),
    wk.sum("d"),
    wk.mean("i"),
    wk.mean("f"),
    wk.variance("i"),
    wk.stddev_pop("f"),
    wk.median("i"),
    wk.quantile("g", 0.3),
    wk.mode("s"),
    wk.count_distinct("s"),
    wk.count_distinct("g"),
    wk.top_k("s", 2),
    wk.frequent("i", 0.3),
    wk.collect_set("s"),
    wk.sum("i").where("b").alias("filtered"),
    wk.median("f").where("b").alias("middle"),
]
ROWS = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", None]),
        "t": st.integers(-20, 40) | st.integers(-20, 40) | st.none(),
        "i": st.integers(-3, 5) | st.none(),
        "f": st.sampled_from([-1.5, 0.25, 2.0, 1024.0, None]),
        "g": st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf"), None]),
        "s": st.sampled_from(["x", "yy", "", None]),
        "d": st.sampled_from([None, 1, 7]),
        "b": st.booleans() | st.none(),
    }
)


class Stretch(NamedTuple):
    """Rows in the order of arrival, each with its weight, and which of them remain."""

    rows: list[dict[str, Any]]
    remaining: set[int]

    @property
    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.rows, SCHEMA)


@st.composite
def stretches(draw: st.DrawFn) -> Stretch:
    rows: list[dict[str, Any]] = []
    remaining: set[int] = set()
    for row in draw(st.lists(ROWS, max_size=25)):
        remaining.add(len(rows))
        rows.append(row | {"w": 1})
        if draw(st.booleans()):
            gone = draw(st.sampled_from(sorted(remaining)))
            remaining.remove(gone)
            rows.append(rows[gone] | {"w": -1})
    return Stretch(rows, remaining)


@st.composite
def windows(draw: st.DrawFn) -> list[wk.Window]:
    size = draw(st.integers(1, 25))
    choices = [
        wk.tumbling(size, start_time=draw(st.integers(0, size - 1))),
        wk.sliding(size, draw(st.integers(1, size))),
        wk.band(draw(st.integers(-20, 20)), 25),
        wk.landmark(size, start=draw(st.integers(-20, 20))),
        wk.landmark(size, period=3 * size),
        wk.global_window(),
        wk.custom(Terms()),
    ]
    drawn = draw(st.lists(st.sampled_from(choices), min_size=1, max_size=3, unique_by=id))
    return [window.alias(f"w{number}") for number, window in enumerate(drawn)]


@st.composite
def queries(draw: st.DrawFn) -> wk.Query:
    aggs = draw(st.lists(st.sampled_from(AGGS), min_size=1, max_size=6, unique_by=lambda each: each.name))
    aggs = [wk.count().alias("rows"), *aggs]
    return wk.query(by="k", time="t", windows=draw(windows()), aggs=aggs, weight="w")


Windows = dict[tuple[Any, ...], list[Any]]


def defined(query: wk.Query, stretch: Stretch) -> Windows:
    """Return the windows that have rows left, naively: of those over all rows, with the rows that remain."""
    table = stretch.table
    columns = {name: plain(table[name]) for name in table.column_names}
    groups: dict[Any, list[int]] = defaultdict(list)
    for row, time in enumerate(columns["t"]):
        if time is not None:
            groups[columns["k"][row]].append(row)
    found: Windows = {}
    for window in query.windows:
        for group, rows in groups.items():
            for start, end, inside, _ in extents(window, rows, columns["t"], pa.int64(), columns):
                left = [row for row in inside if row in stretch.remaining]
                if left:
                    found[group, window.name, start, end] = [
                        aggregate(each, taken(each, left, columns), columns["t"], columns, SCHEMA)
                        for each in query.aggs
                    ]
    return found


def read(query: wk.Query, rows: list[dict[str, Any]]) -> Windows:
    found: Windows = {}
    for row in rows:
        name = row.get("window_name", query.windows[0].name)
        at = (row["k"], name, row["window_start"], row["window_end"])
        assert at not in found, f"{at} twice"
        found[at] = [row[each.name] for each in query.aggs]
    return found


def assert_equal(expected: Windows, got: Windows) -> None:
    assert expected.keys() == got.keys()
    for at, values in expected.items():
        assert all(map(alike, values, got[at])), f"{at}: {got[at]} is not {values}"


def alike(expected: Any, got: Any) -> bool:
    """Whether values are the same but for the rounding errors of what was retracted."""
    if isinstance(expected, RootClose) and isinstance(got, float):
        return expected == got or abs(got * got - expected.square.value) < 1e-6
    value = expected.value if isinstance(expected, Close) else expected
    if isinstance(value, float) and isinstance(got, float) and abs(value - got) < 1e-9:
        return True
    return same(expected, got)


@settings(max_examples=300)
@given(queries(), stretches(), st.integers(1, 3))
def test_a_batch_is_of_the_rows_that_remain(query: wk.Query, stretch: Stretch, threads: int) -> None:
    got = query.run(stretch.table, threads=threads)
    assert_equal(defined(query, stretch), read(query, got.to_pylist()))


@settings(max_examples=200)
@given(st.data(), stretches())
def test_a_stream_is_of_the_rows_that_remain(data: st.DataObject, stretch: Stretch) -> None:
    """With updates applied, a consumer has the windows that have rows left, over whatever batches."""
    query = data.draw(queries())
    store = data.draw(st.sampled_from(["lazy", "eager", "auto"]))
    op = query.operator(order="out-of-order", allowed_lateness=1000, schema=SCHEMA, store=store)
    held: Windows = {}

    def take(table: pa.Table) -> None:
        for row in table.to_pylist():
            name = row.get("window_name", query.windows[0].name)
            at = (row["k"], name, row["window_start"], row["window_end"])
            held[at] = [row[each.name] for each in query.aggs]
            if not row["rows"]:
                assert row["update"], "a window without rows is only there to replace an earlier result"
                del held[at]

    for batch in cut(data, stretch):
        take(op.push(batch))
        if data.draw(st.booleans()):
            least = -20 if op.watermark is None else op.watermark.as_py()
            take(op.advance(data.draw(st.integers(least, max(least, 45)))))
        if data.draw(st.integers(0, 3)) == 0:
            op = wk.Operator.restore(op.snapshot(), query)
    take(op.close())
    assert_equal(defined(query, stretch), held)


def cut(data: st.DataObject, stretch: Stretch) -> list[pa.Table]:
    table, begin, batches = stretch.table, 0, []
    while begin < table.num_rows:
        rows = data.draw(st.integers(1, 8))
        batches.append(table.slice(begin, rows))
        begin += rows
    return batches


@settings(max_examples=200)
@given(st.data(), stretches())
def test_what_is_retracted_adds_up(data: st.DataObject, stretch: Stretch) -> None:
    """Weights of results are 0 or 1 at any time, and in the end 1 where a window has rows left."""
    early = data.draw(st.sampled_from([None, wk.rows(1), wk.rows(3), wk.every(7)]))
    query = data.draw(queries())
    op = query.operator(
        order="out-of-order",
        allowed_lateness=1000,
        schema=SCHEMA,
        emit=wk.emit(early, "retracting"),
    )
    weights: Counter[str] = Counter()
    results: dict[str, dict[str, Any]] = {}

    def take(table: pa.Table) -> None:
        for row in table.to_pylist():
            at = repr([value for name, value in row.items() if name not in ("update", "emission", "weight")])
            weights[at] += row["weight"]
            results[at] = row
            assert weights[at] in (0, 1), row
            assert row["rows"] > 0, row

    for batch in cut(data, stretch):
        take(op.push(batch))
        if data.draw(st.booleans()):
            least = -20 if op.watermark is None else op.watermark.as_py()
            take(op.advance(data.draw(st.integers(least, max(least, 45)))))
        if data.draw(st.integers(0, 3)) == 0:
            take(op.fire())
    take(op.close())
    left = [results[at] for at, weight in weights.items() if weight]
    assert_equal(defined(query, stretch), read(query, left))


@settings(max_examples=150)
@given(st.data(), st.lists(st.tuples(st.integers(0, 60), st.integers(-3, 9)), max_size=30))
def test_one_operator_feeds_another(data: st.DataObject, rows: list[tuple[int, int]]) -> None:
    """What a retracting query says, early and late, another reads as it would read all rows at once."""
    first = wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.sum("v").alias("sum"))
    second = wk.query(
        by=[],
        time="at",
        windows=wk.sliding(20, 10),
        aggs=[wk.count().alias("n"), wk.sum("sum").alias("total"), wk.median("sum").alias("middle")],
        weight="weight",
    )
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    upstream = first.operator(
        order="out-of-order",
        allowed_lateness=100,
        schema=schema,
        emit=wk.emit(wk.rows(data.draw(st.integers(1, 3))), "retracting"),
    )
    downstream = second.operator(
        order="out-of-order",
        allowed_lateness=100,
        schema=pa.schema({"at": pa.int64(), "sum": pa.int64(), "weight": pa.int8()}),
    )
    held: dict[Any, Any] = {}

    def pass_on(table: pa.Table) -> None:
        if table.num_rows:
            given = pa.table({"at": table["window_start"], "sum": table["sum"], "weight": table["weight"]})
            take(downstream.push(given))

    def take(table: pa.Table) -> None:
        for row in table.to_pylist():
            held[row["window_start"]] = (row["n"], row["total"], row["middle"])

    begin = 0
    while begin < len(rows):
        size = data.draw(st.integers(1, 5))
        batch = rows[begin : begin + size]
        begin += size
        pass_on(upstream.push(pa.table({"t": [t for t, _ in batch], "v": [v for _, v in batch]}, schema)))
        if data.draw(st.booleans()):
            latest = max(t for t, _ in rows[:begin]) - data.draw(st.integers(0, 10))
            if upstream.watermark is None or latest >= upstream.watermark.as_py():
                pass_on(upstream.advance(latest))
            if downstream.watermark is None or latest - 20 >= downstream.watermark.as_py():
                take(downstream.advance(latest - 20))
    pass_on(upstream.close())
    take(downstream.close())
    everything = pa.table({"t": [t for t, _ in rows], "v": [v for _, v in rows]}, schema)
    sums: dict[int, int] = defaultdict(int)
    for t, v in rows:
        sums[t // 5 * 5] += v
    assert first.run(everything).num_rows == len(sums)
    expected: dict[Any, Any] = {}
    for start in range(-20, 80, 10):
        inside = sorted(total for at, total in sums.items() if start <= at < start + 20)
        if inside:
            half = len(inside) // 2
            middle = (inside[half] + inside[~half]) / 2
            expected[start] = (len(inside), sum(inside), middle)
    assert {at: values for at, values in held.items() if values[0]} == expected


def test_values_that_are_taken_back_leave_no_trace_in_sums() -> None:
    query = wk.query(
        by=[],
        time="t",
        windows=wk.tumbling(10),
        aggs=[wk.sum("f"), wk.variance("f"), wk.sum("i"), wk.geometric_mean("p")],
        weight="w",
    )
    table = pa.table(
        {
            "t": [1, 2, 3, 2],
            "f": [1.0, 1e16, 3.0, 1e16],
            "i": [1, 2**62, 2, 2**62],
            "p": [2.0, 5.0, 8.0, 5.0],
            "w": pa.array([1, 1, 1, -1], pa.int8()),
        }
    )
    (row,) = query.run(table).to_pylist()
    assert (row["sum(f)"], row["sum(i)"]) == (4.0, 3)
    assert row["geometric_mean(p)"] == pytest.approx(4.0)


ADDED = wk.aggregate(
    "added",
    lift=lambda values: values.cast(pa.int64()),
    combine=pc.add,
    lower=lambda sums: sums,
    invert=pc.subtract,
    commutative=True,
)


@pytest.mark.parametrize(
    "agg",
    [
        wk.min("i"),
        wk.max("s"),
        wk.first("i"),
        wk.last("i"),
        wk.arg_max("s", by="i"),
        wk.m4("i"),
        wk.collect_list("i"),
        wk.collect_rows("i"),
        wk.approx_quantile("i", 0.5),
        wk.approx_count_distinct("i"),
    ],
    ids=str,
)
def test_functions_that_cannot_take_back_are_refused(agg: wk.Aggregate) -> None:
    with pytest.raises(
        InvalidValue, match=r"aggs: .* does not support rows of weight -1, .*allowed are count"
    ):
        wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=agg, weight="w")


@pytest.mark.parametrize(
    ("agg", "value"),
    [
        *(
            (agg, float(value))
            for agg in (wk.sum("f"), wk.mean("f"), wk.var_pop("f"))
            for value in ("nan", "inf")
        ),
        *((wk.geometric_mean("f"), value) for value in (float("nan"), 0.0, -4.0)),
    ],
    ids=str,
)
def test_what_remains_of_rows_that_were_retracted(agg: wk.Aggregate, value: float) -> None:
    query = wk.query(
        by=[], time="t", windows=wk.tumbling(10), aggs=[agg.alias("a"), wk.median("f")], weight="w"
    )
    rows = {"t": [1, 2, 2], "f": [4.0, value, value], "w": [1, 1, -1]}
    (row,) = query.run(pa.table(rows)).to_pylist()
    assert row["a"] != row["a"]
    assert row["median(f)"] == 4.0


MOVING = [samples.by_time()["session"], *samples.by_rows("b", "i").values()]


@pytest.mark.parametrize("window", MOVING, ids=str)
def test_windows_that_rows_determine_are_refused(window: wk.Window) -> None:
    with pytest.raises(
        InvalidValue, match=r"windows: .* of weight -1 would change .*; with weight='w', allowed are"
    ):
        wk.query(by=[], time="t", windows=window, aggs=wk.count(), weight="w")


def test_other_weights_are_refused_with_their_row() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"), weight="w")

    def table(*weights: int | None) -> pa.Table:
        return pa.table({"t": [1] * len(weights), "w": pa.array(weights, pa.int32())})

    for given_weights, shown in [
        ((1, -1, 2), "row 2 has 2"),
        ((1, 0), "row 1 has 0"),
        ((None,), "row 0 has null"),
    ]:
        with pytest.raises(InvalidValue, match=f"weight: {shown} in column 'w'; allowed are 1, and -1"):
            query.run(table(*given_weights))
        op = query.operator(schema=table(1).schema)
        op.push(table(1))
        with pytest.raises(InvalidValue, match=f"weight: {shown}"):
            op.push(table(*given_weights))
        assert op.close()["n"].to_pylist() == [1]
    chunked = pa.concat_tables([table(1, 1), table(1, 3)])
    with pytest.raises(InvalidValue, match="weight: row 3 has 3"):
        query.run(chunked)


def test_what_is_not_there_cannot_be_taken_back() -> None:
    counting = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count(), weight="w")
    with pytest.raises(InvalidValue, match="weight: a window has more rows, or values, of weight -1"):
        counting.run(pa.table({"t": [1], "v": [2], "w": [-1]}))
    middle = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.median("v"), weight="w")
    with pytest.raises(InvalidValue, match="weight: a row of weight -1 retracts a value that no row"):
        middle.run(pa.table({"t": [1, 1, 1], "v": [2, 3, 4], "w": [1, 1, -1]}))


def test_columns_of_weights_are_signed_integers() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count(), weight="w")
    for kind in (pa.uint8(), pa.float64(), pa.string(), pa.bool_()):
        with pytest.raises(
            InvalidType, match=r"weight: column 'w' is .*allowed are columns of signed integers"
        ):
            query.schema(pa.schema({"t": pa.int64(), "w": kind}))
    with pytest.raises(UnknownColumn, match="weight: no column 'w'"):
        query.schema(pa.schema({"t": pa.int64()}))
    with pytest.raises(InvalidType, match="weight: 7 is"):
        wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count(), weight=7)  # type: ignore[arg-type]


def test_weights_are_neither_keys_nor_times() -> None:
    for name in ("k", "t"):
        with pytest.raises(InvalidValue, match=f"weight: '{name}' is a key or the time"):
            wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count(), weight=name)


def test_policies_that_cannot_say_that_a_window_is_gone_are_refused() -> None:
    for emit in (wk.emit(wk.rows(2)), wk.emit(wk.rows(2), "discarding"), wk.emit(at_most=3)):
        with pytest.raises(InvalidValue, match=r"emit: .*weight='w'.*only refinement='retracting'"):
            wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count(), weight="w", emit=emit)


def test_a_users_function_with_an_inverse_takes_rows_back() -> None:
    query = wk.query(by=[], time="t", windows=wk.sliding(10, 5), aggs=ADDED("i"), weight="w")
    table = pa.table({"t": [1, 2, 1, 7], "i": [5, 7, 5, 1], "w": [1, 1, -1, 1]})
    values = {row["window_start"]: row["added(i)"] for row in query.run(table).to_pylist()}
    assert values == {-5: 7, 0: 8, 5: 1}


def test_it_is_written_down_and_said() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("i"), weight="w")
    assert wk.Query.from_dict(query.to_dict()) == query
    assert query.to_dict()["weight"] == "w"
    assert str(query) == "by k over t, weighed by w: tumbling(10); sum(i)"
    assert query.inputs == ["k", "t", "i", "w"]
    assert "store sum(i), count(*), count(i), each of rows with w 1 and of those with -1" in query.explain()
    assert "weight" not in wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("i")).to_dict()


def test_a_snapshot_is_bound_to_the_weights() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("i"), weight="w")
    op = query.operator(schema=SCHEMA)
    plainly = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("i"))
    with pytest.raises(InvalidValue, match="query 'q1' differs from the one in the snapshot"):
        wk.Operator.restore(op.snapshot(), plainly)


IN_ORDER = wk.aggregate(
    "in_order", lift=lambda values: values, combine=pc.add, lower=lambda sums: sums, invert=pc.subtract
)
ADDED_ONLY = wk.aggregate("added", lift=lambda values: values, combine=pc.add, lower=lambda sums: sums)


def allows(query: wk.Query) -> bool:
    """Whether the core accepts a query's weights, past the check in Python."""
    object.__setattr__(query, "weight", "w")
    try:
        local.plan(query, SCHEMA)
    except InvalidValue:
        return False
    return True


@pytest.mark.parametrize("name", FORMS)
def test_functions_are_refused_as_the_core_does(name: str) -> None:
    form = FORMS[name]
    read = ["i", "i"][: max(form.columns, int(form.several))]
    numbers = (0.5 if form.number in {"q", "share"} else 5.0,) * form.numbers
    for option in [False] if not form.option else [False, True]:
        agg = make(name, *read, numbers=numbers, option=option)
        query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=agg)
        assert allows(query) == is_invertible(agg)


@pytest.mark.parametrize(
    "agg", [wk.count(), ADDED("i"), IN_ORDER("i"), ADDED_ONLY("i"), ADDED("i", "i")], ids=str
)
def test_counts_and_functions_of_users_are_refused_as_the_core_does(agg: wk.Aggregate) -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=agg)
    assert allows(query) == is_invertible(agg)


FIXED = [window for name, window in samples.by_time().items() if name != "session"]


@pytest.mark.parametrize("window", [*FIXED, *MOVING], ids=str)
def test_windows_are_refused_as_the_core_does(window: wk.Window) -> None:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
    assert allows(query) == window.is_fixed
