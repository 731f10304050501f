"""The rule that chooses a route, from hints and from what is known."""

from __future__ import annotations

import pytest

import windowkit as wk
import windowkit.spark

SLIDING = wk.sliding("10 minutes", "1 minute")


def route_of(frame, windows, aggs, **hints):
    query = wk.query(by="device", time="ts", windows=windows, aggs=aggs)
    (line,) = [line for line in query.explain(frame, **hints).splitlines() if line.startswith("route: ")]
    return line.removeprefix("route: ").split(", ", 1)


@pytest.mark.parametrize(
    ("windows", "aggs", "hints", "route", "why"),
    [
        (wk.tumbling("1 hour"), wk.sum("v"), {}, "catalyst", "as Spark answers one tumbling window itself"),
        (wk.tumbling("1 hour"), wk.sum("v"), {"rows_per_slice": 1}, "catalyst", "as Spark answers"),
        (SLIDING, wk.sum("v"), {}, "catalyst-panes", "as Catalyst holds the partial aggregates"),
        (SLIDING, wk.sum("v"), {"rows_per_slice": 4}, "catalyst-panes", "slices of at least 4 rows"),
        (SLIDING, wk.sum("v"), {"rows_per_slice": 3.5}, "packed", "slices of fewer than 4 rows"),
        (SLIDING, wk.median("v"), {}, "packed", "as Catalyst cannot hold all values of v in columns"),
        (SLIDING, wk.median("v"), {"rows_per_slice": 100}, "packed", "as Catalyst cannot hold"),
        (SLIDING, wk.sum("v"), {"route": "rows"}, "rows", "as requested"),
        (SLIDING, wk.sum("v"), {"route": "packed"}, "packed", "as requested"),
    ],
    ids=str,
)
def test_the_rule(readings, windows, aggs, hints, route, why):
    taken, because = route_of(readings, windows, aggs, **hints)
    assert taken == route
    assert why in because


def test_expectations_are_told(readings):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.sum("v"))
    assert "  expected: 8 rows per slice, the default" in query.explain(readings)
    assert "  expected: 250 rows per slice, as rows_per_slice says" in query.explain(
        readings, rows_per_slice=250
    )


def test_a_hint_changes_no_answer(readings, check):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.sum("v"), wk.count()])
    oracle = windowkit.spark.reference(readings, query)
    rows = {tuple(map(str, row)) for row in oracle.collect()}
    for hint in (1, 1.9, 10**9):
        assert {tuple(map(str, row)) for row in query.run(readings, rows_per_slice=hint).collect()} == rows


def test_hints_that_are_none(readings):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.sum("v"))
    for hint in (0, 0.5, -3, float("nan")):
        with pytest.raises(wk.InvalidValue, match=r"rows_per_slice: .* is a number of at least 1"):
            query.run(readings, rows_per_slice=hint)
    for hint in ("many", True):
        with pytest.raises(wk.InvalidType, match=r"rows_per_slice: .* is a number of at least 1"):
            query.explain(readings, rows_per_slice=hint)
    with pytest.raises(wk.InvalidValue, match="given without a Spark DataFrame"):
        query.run(readings.toArrow(), rows_per_slice=3)


def test_what_packed_does_is_told(readings):
    query = wk.query(
        by=["device"],
        time="ts",
        windows=[SLIDING, wk.session("45 seconds")],
        aggs=[wk.median("v"), wk.sum("n")],
    )
    assert query.explain(readings).splitlines()[5:] == [
        "route: packed, as Catalyst cannot hold all values of v in columns",
        "  expected: 8 rows per slice, the default, as the route does not depend on it",
        "  scan: refused, as spark.windowkit.tables is false",
        "  catalyst: refused, as there are several windows, and Spark would read the rows once for each",
        "  catalyst-panes: refused, as Catalyst cannot hold all values of v in columns",
        "  rows: possible, with all rows over the shuffle and into Python",
        "stage 1, in Rust inside one mapInArrow: slices of the rows of each task",
        "  partial: values(v)",
        "  partial: sum(n)",
        "  where slices have more than 70% of the bytes of their rows, a task packs rows from then on",
        "shuffle: packed Arrow, a row per chunk and bucket, 256 buckets of device in 4 partitions",
        "stage 2, in Rust inside one mapInArrow: windows, one bucket after the other",
    ]


def test_the_plan_is_as_explained(readings, capsys):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.median("v"))
    query.run(readings).explain()
    plan = capsys.readouterr().out
    assert plan.count("MapInArrow Pack(") == 1
    assert plan.count("MapInArrow Unpack(") == 1
    # One shuffle beside that of the cached rows.
    assert plan.count("Exchange hashpartitioning(bucket") == 1
