"""Sessions of a greatest length, sessions with each row's own gap, and windows between predicates."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.extents import FORMS
from support.oracle import assert_equal, evaluate, rows_of
from support.plain import INTEGER_TYPES
from support.rows_oracle import Both
from support.streams import (
    AGGREGATES,
    KEYS,
    TIMES,
    VALUES,
    Call,
    Case,
    batches,
    come_and_go,
    operator,
    oracle_of,
    scaled,
    step_by_rows,
    updating,
)
from windowkit.language.windows import parse


def gap_type(time: pa.DataType) -> pa.DataType:
    """Return a type of gaps whose unit the oracle understands."""
    if pa.types.is_integer(time):
        return pa.int32()
    return pa.duration("s" if pa.types.is_date(time) else time.unit)


def gaps(time: pa.DataType) -> st.SearchStrategy[int | None]:
    unit = 86_400 if pa.types.is_date(time) else 1
    return (st.integers(-3, 20) | st.none()).map(lambda gap: gap if gap is None else gap * unit)


@st.composite
def queries(draw: st.DrawFn, time: pa.DataType, by: list[str], forms: Sequence[str] = FORMS) -> wk.Query:
    windows = []
    for number in range(draw(st.sampled_from([1, 1, 2]))):
        most = draw(st.none() | st.integers(1, 40))
        at_most = None if most is None else scaled(most, time)
        windows.append(wk.session("gap", at_most=at_most).alias(f"w{number}"))
    aggs = draw(
        st.lists(st.sampled_from(AGGREGATES), min_size=1, max_size=4, unique_by=lambda each: each.name)
    )
    form = draw(st.sampled_from(forms))
    return wk.query(by=by, time="t", windows=windows, aggs=aggs, window_columns=form)


@st.composite
def cases(draw: st.DrawFn, order: str | None = None) -> Case:
    time = draw(st.sampled_from(TIMES))
    keys = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2])))]
    by = [f"k{number}" for number in range(len(keys))]
    query = draw(queries(time, by))
    kinds = dict(zip(by, keys, strict=True)) | {"t": (time, st.integers())} | VALUES
    kinds |= {"gap": (gap_type(time), gaps(time))}
    schema = pa.schema({name: kind for name, (kind, _) in kinds.items()})
    order = order or draw(st.sampled_from(["in-order", "out-of-order", "out-of-order"]))
    lateness = 0 if order == "in-order" else draw(st.sampled_from([0, 3, 20, 1000]))
    delay = None if order == "in-order" else draw(st.sampled_from([None, None, 0, 7]))
    calls, now = [], draw(st.integers(-30, 30))
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.integers(0, 3)) == 0:
            calls.append(Call(None, draw(st.integers(0, 30))))
            continue
        delays = [0] if order == "in-order" else [0, 0, 0, 1, 2, 4, 11, 30]
        batch, now = draw(batches(schema, kinds, now, [0, 0, 1, 1, 2, 5, 12], delays))
        calls.append(Call(batch))
    updates = draw(updating(order, lateness, query))
    return Case(query, schema, order, lateness, delay, calls, updates=updates)


@settings(max_examples=300)
@given(cases(), st.integers(1, 3))
def test_gaps_of_rows_are_those_of_the_definition(case: Case, threads: int) -> None:
    table = pa.concat_tables([call.batch for call in case.calls if call.batch] or [case.schema.empty_table()])
    result = case.query.run(table, threads=threads)
    assert_equal(evaluate(case.query, table), rows_of(case.query, result))


@settings(max_examples=300)
@given(cases())
def test_every_call_of_a_stream_returns_what_the_definition_says(case: Case) -> None:
    op, oracle = operator(case), oracle_of(case, Both)
    time = case.schema.field("t").type
    for call in case.calls:
        step_by_rows(op, oracle, call, time)
    expected = oracle.close()
    oracle.check(op, op.close(), expected)
    stats = op.stats()
    assert (stats.rows, stats.late) == (oracle.rows, len(oracle.late))
    assert (stats.slices, stats.rows_kept) == (0, 0)
    oracle.check_late(op)


@settings(max_examples=150)
@given(cases(), st.data())
def test_queries_come_and_go(case: Case, data: st.DataObject) -> None:
    op, oracle = operator(case), oracle_of(case, Both)
    come_and_go(op, oracle, case, data.draw, queries, step_by_rows)
    expected = oracle.close()
    oracle.check(op, op.close(), expected)


@settings(max_examples=150)
@given(cases(), st.data())
def test_a_restart_changes_nothing(case: Case, data: st.DataObject) -> None:
    op, oracle = operator(case), oracle_of(case, Both)
    time = case.schema.field("t").type
    for call in case.calls:
        if data.draw(st.booleans()):
            op = wk.Operator.restore(op.snapshot(), dict(op.queries))
        step_by_rows(op, oracle, call, time)
    expected = oracle.close()
    oracle.check(op, op.close(), expected)


def windows_of(window: wk.Window, table: pa.Table) -> list[tuple[int, int, list[Any]]]:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.collect_list("v").alias("v"))
    rows = query.run(table).to_pylist()
    return sorted((row["window_start"], row["window_end"], sorted(row["v"])) for row in rows)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=15), st.randoms())
def test_the_order_of_arrival_does_not_matter(rows: list[tuple[int, int]], chance: random.Random) -> None:
    def table(rows: list[tuple[int, int]]) -> pa.Table:
        times, gaps = zip(*rows, strict=True) if rows else ((), ())
        # Equal rows are alike, so that it does not matter which comes first.
        columns = {"t": times, "gap": gaps, "v": [t * 10 + gap for t, gap in rows]}
        return pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})

    shuffled = chance.sample(rows, len(rows))
    for window in (wk.session(3, at_most=7), wk.session("gap"), wk.session("gap", at_most=5)):
        assert windows_of(window, table(rows)) == windows_of(window, table(shuffled))


def test_a_long_session_is_cut_where_the_next_row_would_make_it_too_long() -> None:
    table = pa.table({"t": [0, 3, 4, 5, 8, 12], "v": [0, 3, 4, 5, 8, 12]})
    assert windows_of(wk.session(3, at_most=5), table) == [
        (0, 5, [0, 3, 4]),
        (5, 10, [5, 8]),
        (12, 15, [12]),
    ]
    # One that is never too long is as without.
    assert windows_of(wk.session(3, at_most=10**6), table) == windows_of(wk.session(3), table)


@given(
    st.lists(st.integers(-50, 50), max_size=30),
    st.integers(1, 10),
    st.sampled_from([None, 10**9]),
)
def test_a_column_of_one_gap_is_that_gap(times: list[int], gap: int, at_most: int | None) -> None:
    columns = {"t": times, "v": times, "gap": [gap] * len(times)}
    table = pa.table({name: pa.array(values, pa.int64()) for name, values in columns.items()})
    plain = windows_of(wk.session(gap), table)
    assert windows_of(wk.session("gap", at_most=at_most), table) == plain
    assert windows_of(wk.session(gap, at_most=10**9), table) == plain


def test_a_long_gap_outlasts_the_short_ones_after_it() -> None:
    table = pa.table({"t": [0, 10, 50, 101, 200], "gap": [100, 5, 1, None, -1], "v": [0, 1, 2, 3, 4]})
    # The row at 101 would begin a session if it had a gap.
    assert windows_of(wk.session("gap"), table) == [(0, 100, [0, 1, 2])]
    # Such rows do not lie within a session either.
    table = pa.table({"t": [0, 1, 2, 3], "gap": [2, None, 0, 1], "v": [0, 1, 2, 3]})
    assert windows_of(wk.session("gap"), table) == [(0, 2, [0]), (3, 4, [3])]


@pytest.mark.parametrize("kind", INTEGER_TYPES)
def test_gaps_may_be_integers_of_any_type(kind: pa.DataType) -> None:
    table = pa.table({"t": [0, 5, 11], "gap": pa.array([5, 5, None], kind), "v": [0, 1, 2]})
    assert windows_of(wk.session("gap"), table) == [(0, 10, [0, 1])]


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
DAY = 86_400


@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize(
    ("time", "day"),
    [
        (pa.timestamp("s"), DAY),
        (pa.timestamp("ns", "UTC"), DAY * 10**9),
        (pa.duration("ms"), DAY * 1_000),
        (pa.date32(), 1),
        (pa.date64(), DAY * 1_000),
    ],
)
def test_gaps_may_be_durations_of_any_unit(time: pa.DataType, day: int, unit: str) -> None:
    def times(*days: int) -> pa.Array:
        bits = pa.int32() if time == pa.date32() else pa.int64()
        return pa.array([each * day for each in days], bits).cast(time)

    gap = pa.array([DAY * PER_SECOND[unit]] * 3, pa.duration(unit))
    query = wk.query(by=[], time="t", windows=wk.session("gap"), aggs=wk.count().alias("n"))
    result = query.run(pa.table({"t": times(0, 1, 3), "gap": gap})).sort_by([("n", "descending")])
    assert result["n"].to_pylist() == [2, 1]
    assert result["window_start"].combine_chunks().equals(times(0, 3))
    assert result["window_end"].combine_chunks().equals(times(2, 4))


INTEGERS = {"t": pa.int64(), "gap": pa.int64(), "v": pa.int64()}
SECONDS = {"t": pa.timestamp("s"), "gap": pa.duration("ms"), "v": pa.int64()}


@pytest.mark.parametrize(
    ("windows", "kinds", "error", "what"),
    [
        (wk.session("nosuch"), INTEGERS, wk.UnknownColumn, "windows: no column 'nosuch'"),
        (
            wk.session("gap"),
            INTEGERS | {"gap": pa.duration("s")},
            wk.InvalidType,
            r"session\(gap\) takes gaps from column 'gap', which is duration\[s\]; allowed are integers, as "
            "column 't' counts units",
        ),
        (
            wk.session("v"),
            SECONDS,
            wk.InvalidType,
            "takes gaps from column 'v', which is int64; allowed are durations, as column 't' counts seconds",
        ),
        (
            wk.session("gap"),
            SECONDS | {"gap": pa.float64()},
            wk.InvalidType,
            r"is double; allowed are durations, .*; a number of seconds is one by pandas.to_timedelta\(",
        ),
        (wk.session("gap"), INTEGERS | {"gap": pa.float64()}, wk.InvalidType, "which is double"),
        (
            [wk.session("gap"), wk.tumbling(5)],
            INTEGERS,
            wk.InvalidValue,
            r"session\(gap\) takes its gaps from a column, from which tumbling\(5\) does not",
        ),
        (
            [wk.session(5), wk.session("gap")],
            INTEGERS,
            wk.InvalidValue,
            r"session\(gap\) takes its gaps from a column, from which session\(5\) does not",
        ),
        ([wk.session("gap"), wk.session("v")], INTEGERS, wk.InvalidValue, r"which session\(v\) does not"),
        (wk.session(5, at_most=9), SECONDS, wk.InvalidType, "the gap of .* is an integer, but column"),
        (wk.session("gap", at_most=9), SECONDS, wk.InvalidType, "the at_most of .* is an integer, but"),
        (
            wk.session("1 second", at_most="1500 milliseconds"),
            SECONDS,
            wk.InvalidValue,
            "the at_most of .* is finer than column 't'",
        ),
        (wk.between("v", "v"), INTEGERS, wk.InvalidType, "reads column 'v', which is int64"),
        (wk.between("nosuch", "v"), INTEGERS, wk.UnknownColumn, "windows: no column 'nosuch'"),
    ],
)
def test_what_does_not_fit_a_schema_is_refused(
    windows: Any, kinds: dict[str, pa.DataType], error: type[Exception], what: str
) -> None:
    query = wk.query(by=[], time="t", windows=windows, aggs=wk.count())
    with pytest.raises(error, match=what):
        query.schema(pa.schema(kinds))


@pytest.mark.parametrize(
    ("make", "error", "what"),
    [
        (lambda: wk.session(), wk.InvalidType, "gap: None is given, and no column"),
        (lambda: wk.session(5, column="gap"), wk.InvalidValue, "gap: 5 and column 'gap' are given"),
        (lambda: wk.session("30 minuts"), wk.InvalidValue, "gap: '30 minuts' has the unknown unit 'minuts'"),
        (lambda: wk.session("gap of mine"), wk.InvalidValue, "gap: 'gap of mine' is not a duration"),
        (lambda: wk.session("`a` b"), wk.InvalidValue, "gap: '`a` b' is not a name"),
        (lambda: wk.session(column=""), wk.InvalidValue, "column: '' is empty"),
        (lambda: wk.session(column=5), wk.InvalidType, "column: 5 is an int"),  # type: ignore[arg-type]
        (lambda: wk.session(5, at_most=4), wk.InvalidValue, "at_most: 4 is less than gap 5"),
        (lambda: wk.session(5, at_most="4 hours"), wk.InvalidType, "at_most: '4 hours' is a duration where"),
        (lambda: wk.session("gap", at_most=0), wk.InvalidValue, "at_most: 0 is not positive"),
        (lambda: wk.session("gap", at_most="9 rows"), wk.InvalidType, "at_most: 9 rows is a number of rows"),
        (lambda: wk.between("", "b"), wk.InvalidValue, "enter: '' is empty"),
        (lambda: wk.between("a", 5), wk.InvalidType, "leave: 5 is an int"),  # type: ignore[arg-type]
        (
            lambda: wk.between("a", "b", exclusive=1),  # type: ignore[arg-type]
            wk.InvalidType,
            "exclusive: 1 is an int",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_early(
    make: Callable[[], object], error: type[Exception], what: str
) -> None:
    with pytest.raises(error, match=what):
        make()


def test_any_column_can_be_named() -> None:
    for name in ("gap", "30 minutes", "a `b`", "5", "x=y, z"):
        window = wk.session(column=name)
        assert window.column == name
        assert parse(str(window)) == window
        query = wk.query(by=[], time="t", windows=window, aggs=wk.count())
        assert query.inputs == ["t", name]


def test_a_gap_that_cannot_be_added_is_refused() -> None:
    far = pa.table({"t": [2**62], "gap": [2**62], "v": [1]})
    with pytest.raises(wk.Overflow, match="keeps its session open until after the greatest time"):
        windows_of(wk.session("gap"), far)
    large = pa.table({"t": [0], "gap": pa.array([2**63], pa.uint64()), "v": [1]})
    with pytest.raises(wk.Overflow, match="column 'gap' holds a gap above the range of int64"):
        windows_of(wk.session("gap"), large)
    fine = pa.table(
        {"t": pa.array([0], pa.timestamp("s")), "gap": pa.array([1500], pa.duration("ms")), "v": [1]}
    )
    with pytest.raises(wk.InvalidValue, match="holds a gap of 1500 of its units, which is finer"):
        windows_of(wk.session("gap"), fine)
    # An operator is as before.
    query = wk.query(by=[], time="t", windows=wk.session("gap"), aggs=wk.collect_list("v").alias("v"))
    op = query.operator()
    op.push(pa.table({"t": [1], "gap": [5], "v": [1]}))
    with pytest.raises(wk.Overflow, match="keeps its session open"):
        op.push(far)
    assert op.close()["v"].to_pylist() == [[1]]


def test_rows_without_a_gap_are_counted_as_late() -> None:
    query = wk.query(by=[], time="t", windows=wk.session("gap"), aggs=wk.count().alias("n"))
    op = query.operator()
    op.push(pa.table({"t": [1, 2, None, 3], "gap": [5, None, 5, 0]}))
    assert op.take_late().to_pylist() == [
        {"t": None, "gap": 5, "late_reason": "null time"},
        {"t": 2, "gap": None, "late_reason": "no gap"},
        {"t": 3, "gap": 0, "late_reason": "no gap"},
    ]
    with pytest.raises(wk.InvalidValue, match="do not all have sessions with gaps from the same column"):
        op.add(wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count()))
    assert op.close()["n"].to_pylist() == [1]


def test_a_late_row_moves_the_cuts_of_a_long_session() -> None:
    query = wk.query(by=[], time="t", windows=wk.session(3, at_most=5), aggs=wk.collect_list("v").alias("v"))
    op = query.operator(order="out-of-order", allowed_lateness=100)
    op.push(pa.table({"t": [2, 5, 7, 9], "v": [2, 5, 7, 9]}))
    emitted = op.advance(20).to_pylist()
    assert [(row["window_number"], row["v"]) for row in emitted] == [(0, [2, 5]), (1, [7, 9])]
    late = {row["window_number"]: row for row in op.push(pa.table({"t": [0], "v": [0]})).to_pylist()}
    assert {number: (row["v"], row["update"]) for number, row in late.items()} == {
        0: ([0, 2], True),
        1: ([5, 7, 9], True),
    }
    # One that joins two sessions withdraws a window.
    op = wk.query(by=[], time="t", windows=wk.session(3, at_most=50), aggs=wk.count().alias("n")).operator(
        order="out-of-order", allowed_lateness=100
    )
    op.push(pa.table({"t": [0, 5]}))
    assert op.advance(20)["n"].to_pylist() == [1, 1]
    late = op.push(pa.table({"t": [3]})).to_pylist()
    assert [(row["window_number"], row["window_start"], row["window_end"], row["n"]) for row in late] == [
        (0, 0, 8, 3),
        (1, None, None, None),
    ]


def test_memory_does_not_follow_the_rows() -> None:
    """What is settled is dropped; as in tests/test_operator_stored_rows.py, with a column of gaps."""
    op = wk.query(by=["k"], time="t", windows=wk.session("gap"), aggs=wk.sum("t")).operator(
        order="out-of-order", progress=wk.delay(10)
    )
    most = 0
    for start in range(0, 20_000, 100):
        times = list(range(start, start + 100))
        op.push(pa.table({"k": [0] * 100, "t": times, "gap": [1 if t % 10 else None for t in times]}))
        most = max(most, op.stats().rows_kept)
    assert most <= 250


def test_between_has_what_its_options_say() -> None:
    def found(enter: str, leave: str, exclusive: bool) -> list[list[int]]:
        marks = {"e": [each == "1" for each in enter], "l": [each == "1" for each in leave]}
        table = pa.table({"t": range(len(enter)), "v": range(len(enter))} | marks)
        return [v for _, _, v in windows_of(wk.between("e", "l", exclusive=exclusive), table)]

    # One that enters while a window is open does not matter, nor one that leaves where none is.
    assert found("0110010", "1000100", False) == [[1, 2, 3, 4], [5, 6]]
    assert found("0110010", "1000100", True) == [[1, 2, 3], [5, 6]]
    # A row that does both is a window of its own, or ends one.
    assert found("01010", "01010", False) == [[1], [3]]
    assert found("01010", "00010", False) == [[1, 2, 3]]
    # If it is not in the window that it leaves, it begins the next.
    assert found("01010", "01010", True) == [[1, 2], [3, 4]]
    assert found("11111", "11111", True) == [[0], [1], [2], [3], [4]]


def test_explain_says_class_and_what_is_kept() -> None:
    kept = "rows are stored (Traub et al. 2019, §4.4)"
    said = {
        "session(5 minutes, at_most=1 hour)": f"where a long one is cut depends on its first row; {kept}",
        "session(gap)": f"each row has its own gap, and a row without one is dropped; {kept}",
        "session(gap, at_most=1 hour)": f"each row has its own gap, and a row without one is dropped; {kept}",
        "between(hot, cold)": "a row is in one window, or in none; rows are stored (Traub et al. 2019, §4.4)",
    }
    for text, what in said.items():
        query = wk.query(by="k", time="t", windows=parse(text), aggs=wk.sum("v"))
        assert query.explain().splitlines()[2] == f"  {text}: forward context free; {what}"


@pytest.mark.parametrize(
    "gap",
    [
        pl.duration(seconds=pl.col("wait")).alias("gap"),
        pc.field("wait").cast(pa.duration("s")),
        wk.expr(pc.field("wait").cast(pa.duration("s")), name="gap"),
    ],
    ids=["polars", "pyarrow", "expr"],
)
def test_gaps_that_are_computed_are_those_of_a_column(gap: Any) -> None:
    """The oracle is the same query over a column that pyarrow has computed before."""
    waits = [5, 0, 9, None, 2, 1, 30, 1]
    table = pa.table(
        {
            "k": ["a", "b"] * 4,
            "t": pa.array([0, 1, 4, 6, 13, 13, 16, 60], pa.timestamp("s")),
            "wait": pa.array(waits, pa.int64()),
            "given": pa.array(waits, pa.duration("s")),
        }
    )
    by_column, computed = (
        wk.query(by="k", time="t", windows=wk.session(each), aggs=wk.sum("wait")) for each in ("given", gap)
    )
    wanted = by_column.run(table).to_pylist()
    assert computed.run(table).to_pylist() == wanted
    assert len(wanted) > 2
    assert wk.query(by="k", time="t", windows=wk.session(column=gap), aggs=wk.sum("wait")) == computed
    operator = computed.operator(order="out-of-order")
    rows = [*operator.push(table.slice(0, 3)).to_pylist(), *operator.push(table.slice(3)).to_pylist()]
    rows += operator.advance("9999-01-01").to_pylist()
    final = [{name: row[name] for name in computed.columns} for row in rows]
    assert sorted(map(str, final)) == sorted(map(str, wanted))
    with pytest.raises(wk.InvalidType, match="which a dict does not hold"):
        computed.to_dict()


def test_gaps_of_other_types_say_what_to_write() -> None:
    table = pa.table({"t": pa.array([0], pa.timestamp("s")), "n": [5], "said": ["5 minutes"]})
    ways = {"n": r"polars\.duration\(seconds=\.\.\.\)", "said": r"pandas\.to_timedelta\(\.\.\.\)"}
    for column, said in ways.items():
        query = wk.query(by=[], time="t", windows=wk.session(column), aggs=wk.count())
        with pytest.raises(wk.InvalidType, match=f"allowed are durations.*{said}"):
            query.run(table)
