"""What a snapshot, a checkpoint or a chunk is of: equal queries, and no others, are taken for the same."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement as pairs
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from windowkit.spark.shipping import packing
from windowkit.spark.streams import work

SCHEMA = pa.schema({"k": pa.string(), "t": pa.timestamp("us"), "a": pa.bool_(), "b": pa.bool_()})


def query(windows: wk.Window, emit: wk.Emission | None = None, **changed: Any) -> wk.Query:
    given = {"by": "k", "time": "t", "aggs": wk.count().alias("n")} | changed
    return wk.query(windows=windows, emit=emit, **given)


DAYS = wk.tumbling("1 day")
QUERIES = {
    "a day": query(DAYS),
    "24 hours": query(wk.tumbling("24 hours")),
    "a day from zero on": query(wk.tumbling("1 day", start_time="0 seconds")),
    "a day of its own name": query(wk.tumbling("1 day").alias("days")),
    "days and days": query(wk.sliding("1 day", "1 day")),
    "without a key": query(DAYS, by=[]),
    "two sums": query(DAYS, aggs=[wk.count().alias("n"), wk.count("a").alias("m")]),
    "two sums the other way": query(DAYS, aggs=[wk.count("a").alias("m"), wk.count().alias("n")]),
    "or": query(DAYS, wk.emit(wk.on("a") | wk.on("b"))),
    "or the other way": query(DAYS, wk.emit(wk.on("b") | wk.on("a"))),
    "and": query(DAYS, wk.emit(wk.on("a") & wk.on("b"))),
    "and the other way": query(DAYS, wk.emit(wk.on("b") & wk.on("a"))),
}
JOINS = {
    "a day": wk.join(by="k", left_time="t", right_time="t", within="1 day"),
    "24 hours": wk.join(by="k", left_time="t", right_time="t", within="24 hours"),
    "a day either way": wk.join(by="k", left_time="t", right_time="t", within=("1 day", "1 day")),
    "a day before": wk.join(by="k", left_time="t", right_time="t", within=("1 day", "0 seconds")),
    "all rows": wk.join(by="k", left_time="t", right_time="t", within="1 day", how="full"),
    "days": wk.join(by="k", left_time="t", right_time="t", windows=DAYS),
    "days from zero on": wk.join(
        by="k", left_time="t", right_time="t", windows=wk.tumbling("1 day", start_time="0 seconds")
    ),
}
DISTINCTS = {
    "a day": wk.distinct("k", time="t", within="1 day"),
    "24 hours": wk.distinct("k", time="t", within="24 hours"),
    "23 hours": wk.distinct("k", time="t", within="23 hours"),
    "two columns": wk.distinct(["k", "a"], time="t", within="1 day"),
    "two columns the other way": wk.distinct(["a", "k"], time="t", within="1 day"),
}


def check_restored(same: bool, restore: Callable[[], object]) -> None:
    if same:
        restore()
    else:
        with pytest.raises(wk.InvalidValue, match=r"^(queries: query 'q1' |snapshot: it is of )"):
            restore()


@pytest.mark.parametrize(("one", "other"), [*pairs(QUERIES, 2)])
def test_equal_queries_and_no_others_are_the_same(one: str, other: str) -> None:
    kept, given = QUERIES[one], QUERIES[other]
    snapshot = kept.operator(order="out-of-order", schema=SCHEMA).snapshot()
    check_restored(kept == given, lambda: wk.Operator.restore(snapshot, given))
    assert (work.identity(kept, SCHEMA, {}) == work.identity(given, SCHEMA, {})) == (kept == given)
    # Chunks have slices, whatever is emitted of these, and when.
    same_slices = kept.windows == given.windows and (kept.by, kept.aggs) == (given.by, given.aggs)
    assert (packing.fingerprint(kept, SCHEMA) == packing.fingerprint(given, SCHEMA)) == same_slices


@pytest.mark.parametrize(("one", "other"), [*pairs(JOINS, 2)])
def test_equal_joins_and_no_others_are_the_same(one: str, other: str) -> None:
    snapshot = JOINS[one].operator(SCHEMA, SCHEMA).snapshot()
    same = JOINS[one] == JOINS[other]
    check_restored(same, lambda: wk.JoinOperator.restore(snapshot, JOINS[other]))


@pytest.mark.parametrize(("one", "other"), [*pairs(DISTINCTS, 2)])
def test_equal_removals_of_duplicates_and_no_others_are_the_same(one: str, other: str) -> None:
    snapshot = DISTINCTS[one].operator(SCHEMA).snapshot()
    same = DISTINCTS[one] == DISTINCTS[other]
    check_restored(same, lambda: wk.DistinctOperator.restore(snapshot, DISTINCTS[other]))


def test_what_is_written_in_several_ways_is_equal_or_not() -> None:
    # So that the tests above have both.
    assert QUERIES["a day"] == QUERIES["24 hours"] == QUERIES["a day from zero on"]
    assert QUERIES["a day"] != QUERIES["a day of its own name"]
    assert QUERIES["or"] != QUERIES["or the other way"]
    assert JOINS["a day"] == JOINS["a day either way"]
    assert JOINS["days"] == JOINS["days from zero on"]
