"""Every technique, and slicing, on the same streams against the definition; and what each refuses."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.rows_oracle import Both
from support.stream_oracle import Stream, assert_same, results
from support.streams import Case, cases, check_late, operator, oracle_of, step, step_by_rows
from windowkit.techniques import TECHNIQUES

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})
HOLISTIC = {"median", "quantile", "count_distinct", "mode", "collect_list", "collect_set"}
"""Functions whose partials grow with their rows."""


def refusal(case: Case, technique: str) -> str | None:
    """Return what a technique says of a workload that it must refuse."""
    windows = case.query.windows
    sessions = any(isinstance(window, wk.Session) for window in windows)
    counted = any(isinstance(window, wk.Tumbling | wk.Sliding) and window.counts_rows for window in windows)
    slices = technique in ("pairs", "cutty")
    if slices and case.order == "out-of-order":
        return "rows out of order"
    if technique == "aggregate_buckets" and counted and case.order == "out-of-order":
        return "window of a number of rows, of rows out of order"
    if any(isinstance(window, wk.Band | wk.Landmark | wk.Global) for window in windows):
        return "(band|landmark|global) window"
    if slices and sessions:
        return "session window"
    holistic = any(each.function in HOLISTIC for each in case.query.aggs)
    if technique in ("aggregate_tree", "cutty") and holistic:
        return "partials grow with their rows"
    return None


def refuses(case: Case, technique: str) -> bool:
    """Whether a technique refuses a workload, as it must; it says why."""
    why = None if technique == "slicing" else refusal(case, technique)
    if why is not None:
        with pytest.raises(wk.InvalidValue, match=f"technique: {technique} takes no .*{why}"):
            operator(case, technique=technique)
    return why is not None


@st.composite
def counted_cases(draw: st.DrawFn) -> Case:
    """Windows of a number of rows, and such over time beside them."""
    case = draw(cases())
    over_time = [
        window for window in case.query.windows if isinstance(window, wk.Tumbling | wk.Sliding | wk.Session)
    ]
    windows: list[wk.Window] = over_time[: draw(st.integers(0, 2))]
    for number in range(draw(st.integers(1, 2))):
        size = draw(st.integers(1, 7))
        slide = draw(st.integers(1, size))
        window = wk.sliding(wk.rows(size), wk.rows(slide), partial=draw(st.booleans()))
        windows.append(window.alias(f"c{number}"))
    query = wk.query(by=list(case.query.by), time="t", windows=windows, aggs=list(case.query.aggs))
    return case._replace(query=query)


@settings(max_examples=300)
@given(counted_cases())
def test_all_are_the_definition_of_windows_of_a_number_of_rows(case: Case) -> None:
    time = case.schema.field("t").type
    for technique in TECHNIQUES:
        if refuses(case, technique):
            continue
        op = operator(case, technique=technique)
        oracle = oracle_of(case, Both)
        for call in case.calls:
            step_by_rows(op, oracle, call, time)
        expected = oracle.close()
        oracle.check(op, op.close(), expected)
        stats = op.stats()
        assert (stats.rows, stats.late) == (oracle.rows, len(oracle.late))
        assert (stats.slices, stats.rows_kept) == (0, 0), technique
        assert sorted(op.take_late()["late_reason"].to_pylist()) == sorted(oracle.late)


@settings(max_examples=300)
@given(cases())
def test_all_are_the_definition(case: Case) -> None:
    time = case.schema.field("t").type
    for technique in TECHNIQUES:
        if refuses(case, technique):
            continue
        op = operator(case, technique=technique)
        oracle = oracle_of(case, Stream)
        for call in case.calls:
            step(op, oracle, call, time)
        assert_same(oracle.close(), results(op, op.close()))
        check_late(op, oracle)
        stats = op.stats()
        assert (stats.rows, stats.late) == (len(oracle.taken), len(oracle.late))
        assert (stats.slices, stats.rows_kept) == (0, 0), technique


def rows(*given: tuple[Any, ...]) -> pa.Table:
    return pa.table(list(zip(*given, strict=True)) or [[], [], []], schema=SCHEMA)


@pytest.mark.parametrize("technique", TECHNIQUES[1:])
def test_what_only_slicing_has_is_refused(technique: str) -> None:
    op = QUERY.operator(technique=technique, schema=SCHEMA)
    calls = {
        "add": lambda: op.add(QUERY),
        "remove": lambda: op.remove("q1"),
        "slices": op.slices,
        "snapshot": op.snapshot,
    }
    for name, call in calls.items():
        with pytest.raises(
            wk.InvalidValue, match=f"{name}: technique='{technique}' is there to compare with"
        ):
            call()
    with pytest.raises(wk.InvalidValue, match="store: 'eager' is given for technique="):
        QUERY.operator(technique=technique, store="eager")
    assert f"technique: {technique} (Traub et al. 2019, §3" in op.explain()


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_calls_that_are_wrong_are_refused_in_the_same_words(technique: str) -> None:
    op = QUERY.operator(technique=technique, schema=SCHEMA)
    assert op.push(rows(("a", 3, 1), ("b", 4, 2))).num_rows == 0
    with pytest.raises(wk.InvalidValue, match="batch: row 1 has time 4 in column 't', which is before 5"):
        op.push(rows(("a", 5, 1), ("a", 4, 1)))
    with pytest.raises(wk.InvalidValue, match="schema of a stream does not change"):
        op.push(pa.table({"k": ["a"], "t": [5]}))
    with pytest.raises(wk.InvalidValue, match="watermark: 1 is before the last one, 4"):
        op.advance(1)
    with pytest.raises(wk.Overflow, match="so near the end of int64"):
        op.push(rows(("a", 2**63 - 1, 1)))
    told = op.push(rows(("a", 9, 5), ("b", None, 7), ("a", 10, 1)))
    assert sorted((row["k"], row["sum(v)"]) for row in told.to_pylist()) == [("a", 6), ("b", 2)]
    assert op.take_late()["late_reason"].to_pylist() == ["null time"]
    assert op.close()["sum(v)"].to_pylist() == [1]
    with pytest.raises(wk.InvalidValue, match="closed"):
        op.push(rows(("a", 11, 1)))


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_call_that_fails_changes_nothing(technique: str) -> None:
    op = QUERY.operator(technique=technique, schema=SCHEMA)
    assert op.push(rows(("a", 1, 2**63 - 1), ("a", 2, 1))).num_rows == 0
    before = replace(op.stats(), bytes=0)
    for call in (lambda: op.push(rows(("a", 3, 5), ("a", 10, 1))), lambda: op.advance(10), op.close):
        with pytest.raises(wk.Overflow, match="does not fit"):
            call()
        assert replace(op.stats(), bytes=0) == before
        assert op.watermark.as_py() == 2
    assert op.push(rows(("a", 3, -2))).num_rows == 0
    assert op.push(rows(("a", 10, 7)))["sum(v)"].to_pylist() == [2**63 - 2]
    assert op.close()["sum(v)"].to_pylist() == [7]


def total(raises: list[int]) -> Any:
    """Return a sum of one's own, which raises of a value that it is told."""

    def lift(v: pa.Array) -> pa.Array:
        if any(value in raises for value in v.to_pylist()):
            raise RuntimeError("not this one")
        return v

    return wk.aggregate("total", lift=lift, combine=pc.add, lower=lambda state: state, commutative=True)


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_function_that_raises_changes_nothing_however_long_the_stream(technique: str) -> None:
    """Calls fail between others that take in many rows, in and out of order, late ones among them."""
    windows: list[wk.Window] = [wk.tumbling(100).alias("time")]
    if technique != "aggregate_buckets":
        windows.append(wk.sliding(wk.rows(70), wk.rows(30)).alias("rows"))
    raises: list[int] = []
    aggs = [total(raises)("v").alias("total"), wk.sum("v").alias("sum"), wk.count().alias("n")]
    query = wk.query(by="k", time="t", windows=windows, aggs=aggs)
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})
    options: dict[str, Any] = {"order": "out-of-order", "allowed_lateness": 10**6, "max_delay": 300}
    if technique in ("pairs", "cutty"):
        options = {"order": "in-order"}
    op = query.operator(technique=technique, schema=schema, **options)
    random, last, tables = np.random.default_rng(5), {}, []
    for number in range(9):
        times = np.sort(random.integers(number * 1500, (number + 1) * 1500, 1500))
        if options["order"] == "out-of-order":
            times = np.maximum(0, times - random.choice([0, 0, 0, 900], 1500))
        columns = {"k": random.integers(0, 2, 1500), "t": times, "v": random.integers(-50, 50, 1500)}
        table = pa.table(columns, schema=schema)
        bad = table.set_column(2, "v", pa.array(np.where(np.arange(1500) == 700, 13_000, columns["v"])))
        before = replace(op.stats(), bytes=0, keys=0)
        raises[:] = [13_000]
        with pytest.raises(wk.InvalidValue, match="not this one"):
            op.push(bad)
        assert replace(op.stats(), bytes=0, keys=0) == before
        raises[:] = []
        tables.append(table)
        told(last, op.push(table))
    told(last, op.close())
    expected: dict[Any, list[Any]] = {}
    told(expected, query.run(pa.concat_tables(tables)))
    assert last == expected


def told(last: dict[Any, list[Any]], windows: pa.Table) -> None:
    """Note the last word on each window."""
    for row in windows.to_pylist():
        of_rows = row.get("window_name") == "rows"
        at = row["window_rows"]["start"] if of_rows else row["window"]["start"]
        last[row["k"], of_rows, at] = [row["total"], row["sum"], row["n"]]


@pytest.mark.parametrize("technique", TECHNIQUES)
def test_a_dictionary_has_as_many_values_as_all_batches(technique: str) -> None:
    """Codes of eight bits tell 128 values apart: those of one batch, and not those of all."""
    kind = pa.dictionary(pa.int8(), pa.string())
    aggs = [wk.max("d").alias("max"), wk.last("d").alias("last"), wk.count("d").where("b").alias("some")]
    windows = [wk.tumbling(1000).alias("time"), wk.sliding(wk.rows(250), wk.rows(100)).alias("rows")]
    query = wk.query(by="d", time="t", windows=windows[:1], aggs=wk.count().alias("n"))
    schema = pa.schema({"d": kind, "t": pa.int64(), "b": pa.bool_()})

    def batch(first: int, size: int) -> pa.Table:
        texts = pa.array([f"v{at:04}" for at in range(first, first + size)])
        codes = pa.DictionaryArray.from_arrays(pa.array(range(size), pa.int8()), texts)
        return pa.table(
            {"d": codes, "t": list(range(first, first + size)), "b": [True] * size}, schema=schema
        )

    by_value = query.operator(technique=technique, schema=schema)
    by_value.push(pa.concat_tables([batch(0, 100), batch(100, 100), batch(200, 100)]))
    by_value.push(batch(300, 100))
    assert by_value.close().num_rows == 400
    op = wk.query(by=[], time="t", windows=windows, aggs=aggs).operator(technique=technique, schema=schema)
    seen = op.push(pa.concat_tables([batch(0, 100), batch(100, 100), batch(200, 100)])).to_pylist()
    seen += op.push(batch(300, 100)).to_pylist() + op.close().to_pylist()
    expected = [("rows", 249, 250), ("rows", 349, 250), ("time", 399, 400)]
    got = sorted((row["window_name"], row["max"], row["last"], row["some"]) for row in seen)
    assert got == [(name, f"v{last:04}", f"v{last:04}", n) for name, last, n in expected]


def text(commutative: bool) -> Any:
    """Return values as one text, or the greatest of them."""
    joined = lambda a, b: pc.binary_join_element_wise(a, b, "")  # noqa: E731
    return wk.aggregate(
        "text",
        lift=lambda v: v.cast(pa.string()),
        combine=(lambda a, b: pc.if_else(pc.greater(a, b), a, b)) if commutative else joined,
        lower=lambda state: state,
        commutative=commutative,
    )("v").alias("result")


WORKLOADS: dict[str, tuple[list[wk.Window], list[str], wk.Aggregate]] = {
    "tumbling and sliding windows over time": ([wk.tumbling(10), wk.sliding(10, 3)], [], wk.sum("v")),
    "windows of a number of rows": ([wk.tumbling(rows=3), wk.sliding("4 rows", "2 rows")], [], wk.sum("v")),
    "sessions": ([wk.session(5)], [], wk.sum("v")),
    "band, landmark and global windows": ([wk.global_window()], [], wk.sum("v")),
    "the last rows every so often, or the other way round": ([wk.sliding(wk.rows(3), 5)], [], wk.sum("v")),
    "windows between marks, and of one's own": ([wk.punctuation("m")], [], wk.sum("v")),
    "distributive and algebraic functions": ([wk.tumbling(10)], [], wk.stddev_pop("v")),
    "holistic functions": ([wk.tumbling(10)], [], wk.median("v")),
    "functions of one's own": ([wk.tumbling(10)], [], text(commutative=True)),
    "functions of one's own that do not commute": ([wk.tumbling(10)], [], text(commutative=False)),
}
"""For each row of the table in docs/operator.md windows and a function."""


def table_of_workloads() -> Iterable[tuple[str, str, str, str]]:
    """Return order, workload, technique and cell of the table in docs/operator.md."""
    document = (Path(__file__).parent.parent / "docs" / "operator.md").read_text(encoding="utf-8")
    lines = iter(document.split("### What each takes")[1].splitlines())
    header = next(line for line in lines if line.startswith("|"))
    names = [cell.strip(" `") for cell in header.strip("|").split("|")][1:]
    for line in lines:
        if not line.startswith("|") or line.startswith("|--"):
            continue
        what, *cells = [cell.strip() for cell in line.strip("|").split("|")]
        order, workload = what.split(": ")
        for name, cell in zip(names, cells, strict=True):
            yield order, workload, name, cell


def reasons() -> dict[str, str]:
    """Return the reasons that the letters below the table stand for."""
    document = (Path(__file__).parent.parent / "docs" / "operator.md").read_text(encoding="utf-8")
    below = document.split("### What each takes")[1].split("\n## ")[0]
    return dict(re.findall(r"^- \*([a-z])\*: (.*)$", below, re.MULTILINE))


def test_the_table_has_every_workload_and_technique() -> None:
    cells = list(table_of_workloads())
    assert {name for _, _, name, _ in cells} == set(TECHNIQUES[1:])
    assert {workload for _, workload, _, _ in cells} == set(WORKLOADS)
    assert {order for order, *_ in cells} == {"in order", "out of order"}
    assert len(cells) == 2 * len(WORKLOADS) * len(TECHNIQUES[1:])
    assert {cell for *_, cell in cells} == {"yes", *(f"no *{letter}*" for letter in reasons())}


@pytest.mark.parametrize(("order", "workload", "technique", "cell"), list(table_of_workloads()))
def test_each_takes_what_the_table_says(order: str, workload: str, technique: str, cell: str) -> None:
    windows, by, agg = WORKLOADS[workload]
    query = wk.query(by=by, time="t", windows=windows, aggs=agg.alias("result"))
    schema = pa.schema({"t": pa.int64(), "v": pa.int64(), "m": pa.bool_()})
    options: dict[str, Any] = {"order": order.replace(" ", "-")}
    if cell != "yes":
        why = re.escape(reasons()[cell.removeprefix("no ").strip("*")])
        with pytest.raises(wk.InvalidValue, match=f"technique: {technique} takes no .*: {why}; allowed are"):
            query.operator(technique=technique, schema=schema, **options)
        return
    op = query.operator(technique=technique, schema=schema, **options)
    times = [0, 1, 1, 4, 11, 12, 19, 30]
    table = pa.table({"t": times, "v": [5, 3, 8, 1, 2, 7, 6, 4], "m": [False] * 8}, schema=schema)
    if order == "out of order":
        table = table.take([4, 0, 1, 2, 7, 3, 5, 6])
    told = [*op.push(table).to_pylist(), *op.close().to_pylist()]
    if windows == [wk.tumbling(10)]:
        values = [[5, 3, 8, 1], [2, 7, 6], [4]]
        expected = {
            "stddev_pop": [float(np.std(each)) for each in values],
            "median": [float(np.median(each)) for each in values],
            "user": ["8", "7", "4"] if "not" not in workload else ["5381", "276", "4"],
        }
        got = [row["result"] for row in sorted(told, key=lambda row: row["window"]["start"])]
        assert got == pytest.approx(expected[agg.function])
    else:
        everything = query.run(table).to_pylist()
        assert len(told) == len(everything) > 0
        assert sum(row["result"] for row in told) == sum(row["result"] for row in everything)


def test_a_bucket_of_rows_out_of_order_takes_no_function_that_does_not_commute() -> None:
    text = wk.aggregate(
        "text",
        lift=lambda v: v.cast(pa.string()),
        combine=lambda a, b: pc.binary_join_element_wise(a, b, ""),
        lower=lambda state: state,
        commutative=False,
    )
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=text("v").alias("text"))
    schema = pa.schema({"t": pa.int64(), "v": pa.int64()})
    with pytest.raises(wk.InvalidValue, match="aggregate_buckets takes no function that does not commute"):
        query.operator(technique="aggregate_buckets", order="out-of-order", schema=schema)
    for technique in ("tuple_buffer", "tuple_buckets"):
        op = query.operator(technique=technique, order="out-of-order", schema=schema)
        op.push(pa.table({"t": [5, 1, 3], "v": [2, 4, 6]}))
        assert op.close()["text"].to_pylist() == ["462"], technique
