"""Every technique, and slicing, on the same streams against the definition; and what each refuses."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from stream_oracle import Stream, assert_same, results
from test_operator_oracle import Case, cases, check_late, scaled, step

import windowkit as wk
from windowkit.techniques import TECHNIQUES

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})
HOLISTIC = {"median", "quantile", "count_distinct", "mode", "collect_list", "collect_set"}
"""Functions whose partials grow with their rows."""


def operator(case: Case, technique: str) -> wk.Operator:
    time = case.schema.field("t").type
    return case.query.operator(
        order=case.order,
        allowed_lateness=scaled(case.lateness, time),
        max_delay=None if case.delay is None else scaled(case.delay, time),
        technique=technique,
        schema=case.schema,
    )


def refusal(case: Case, technique: str) -> str | None:
    """Return what a technique says of a workload that it must refuse."""
    sessions = any(isinstance(window, wk.Session) for window in case.query.windows)
    slices = technique in ("pairs", "cutty")
    if slices and case.order == "out-of-order":
        return "rows out of order"
    if any(isinstance(window, wk.Band | wk.Landmark | wk.Global) for window in case.query.windows):
        return "window of this type"
    if slices and sessions:
        return "session window"
    holistic = any(each.function in HOLISTIC for each in case.query.aggs)
    if technique in ("aggregate_tree", "cutty") and holistic:
        return "not plain states"
    return None


@settings(max_examples=300)
@given(cases())
def test_all_are_the_definition(case: Case) -> None:
    time = case.schema.field("t").type
    for technique in TECHNIQUES:
        why = None if technique == "slicing" else refusal(case, technique)
        if why is not None:
            with pytest.raises(wk.InvalidValue, match=f"technique: {technique} takes no .*{why}"):
                operator(case, technique)
            continue
        op = operator(case, technique)
        oracle = Stream(
            "q1",
            case.query,
            case.schema,
            order=case.order,
            allowed_lateness=case.lateness,
            max_delay=case.delay,
        )
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


@pytest.mark.parametrize("technique", TECHNIQUES[1:])
def test_after_a_call_that_fails_halfway_nothing_more_is_told(technique: str) -> None:
    op = QUERY.operator(technique=technique, schema=SCHEMA)
    op.push(rows(("a", 1, 2**63 - 1), ("a", 2, 1)))
    with pytest.raises(wk.Overflow, match="does not fit"):
        op.push(rows(("a", 10, 1)))
    with pytest.raises(wk.InvalidValue, match=f"a call before failed halfway, which technique='{technique}'"):
        op.close()


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
