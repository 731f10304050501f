"""What an operator refuses, what it says, and that a call it refuses has changed nothing."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk

QUERY = wk.query(by="k", time="t", windows=[wk.tumbling(10), wk.session(5)], aggs=[wk.sum("v")])
SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})


def rows(times: list[int | None], values: list[int] | None = None) -> pa.Table:
    values = [1] * len(times) if values is None else values
    return pa.table({"k": ["a"] * len(times), "t": times, "v": values}, schema=SCHEMA)


def unchanged(op: wk.Operator, call: Callable[[], Any], error: type[Exception], says: str) -> None:
    """Assert that a call raises, and that the operator is what it was."""
    before = op.snapshot()
    with pytest.raises(error, match=re.escape(says)):
        call()
    assert op.snapshot() == before


def test_rows_out_of_order_are_refused_unless_announced() -> None:
    op = QUERY.operator()
    op.push(rows([3, 8]))
    says = "batch: row 2 has time 11 in column 't', which is before 12, the latest so far"
    unchanged(op, lambda: op.push(rows([9, 12, 11])), wk.InvalidValue, says)
    says = "batch: row 0 has time 7 in column 't', which is before 8, the latest so far"
    unchanged(op, lambda: op.push(rows([7])), wk.InvalidValue, says)
    # Neither a later batch of one push, nor one after a watermark.
    both = pa.concat_tables([rows([9]), rows([8])])
    unchanged(op, lambda: op.push(both), wk.InvalidValue, "row 0 has time 8 in column 't', which is before 9")
    op.advance(20)
    unchanged(op, lambda: op.push(rows([19])), wk.InvalidValue, "is before 20, the latest so far")
    assert op.push(rows([20])).num_rows == 0


def test_a_watermark_never_goes_back() -> None:
    op = QUERY.operator(order="out-of-order", schema=SCHEMA)
    op.advance(10)
    op.advance(10)
    says = "watermark: 9 is before the last one, 10 (both in units of 't'); a watermark never goes back"
    unchanged(op, lambda: op.advance(9), wk.InvalidValue, says)


@pytest.mark.parametrize(
    ("watermark", "says"),
    [
        ("soon", "watermark: 'soon' is a str; the time column is an integer"),
        (1.5, "watermark: 1.5 is a float"),
        (True, "watermark: True is a bool"),
        (None, "watermark: None is a NoneType"),
        (datetime.datetime(2026, 1, 1), "is a datetime"),
        (pa.scalar("x"), "watermark: <pyarrow.StringScalar: 'x'> is no time of type int64"),
    ],
)
def test_watermarks_of_other_types_are_refused(watermark: object, says: str) -> None:
    op = QUERY.operator(schema=SCHEMA)
    unchanged(op, lambda: op.advance(watermark), wk.InvalidType, says)


def test_watermarks_of_integers_out_of_range_or_null_are_refused() -> None:
    op = QUERY.operator(schema=SCHEMA)
    unchanged(op, lambda: op.advance(2**63), wk.InvalidValue, f"watermark: {2**63} is out of range")
    unchanged(op, lambda: op.advance(pa.scalar(None, pa.int64())), wk.InvalidValue, "watermark: it is null")


def test_watermarks_of_times_are_what_the_column_can_hold() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 minute"), aggs=wk.count().alias("n"))
    op = query.operator(schema=pa.schema({"t": pa.timestamp("s", "UTC")}), order="out-of-order")
    noon = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.timezone.utc)
    op.push(pa.table({"t": pa.array([noon], pa.timestamp("s", "UTC"))}))
    assert op.watermark is None
    assert op.advance(noon).num_rows == 0
    assert op.watermark.as_py() == noon
    assert op.advance("2026-01-01T12:01:00Z").num_rows == 1
    with pytest.raises(wk.InvalidType, match="is no time of type timestamp"):
        op.advance("noonish")
    with pytest.raises(wk.InvalidType, match="is no time of type timestamp"):
        op.advance(noon + datetime.timedelta(hours=1, microseconds=1))


def test_nothing_comes_after_close() -> None:
    op = QUERY.operator()
    op.push(rows([1]))
    assert op.close().num_rows == 2
    calls: dict[str, Callable[[], Any]] = {
        "push": lambda: op.push(rows([2])),
        "advance": lambda: op.advance(5),
        "close": op.close,
        "add": lambda: op.add(QUERY),
        "remove": lambda: op.remove("q1"),
    }
    for call, function in calls.items():
        with pytest.raises(wk.InvalidValue, match=f"{call}: the operator is closed"):
            function()
    assert op.stats().windows == 2


def test_an_operator_that_saw_nothing_closes_empty() -> None:
    assert QUERY.operator().close().num_rows == 0
    assert QUERY.operator(schema=SCHEMA).close().schema.names[-1] == "update"


def test_the_schema_of_a_stream_does_not_change() -> None:
    op = QUERY.operator()
    op.push(rows([1]))
    other = rows([2]).set_column(2, "v", pa.array([1.5]))
    says = "batch: its column 'v' of Float64 is 'v' of Int64 in those before it"
    unchanged(op, lambda: op.push(other), wk.InvalidType, says)
    unchanged(op, lambda: op.push(rows([2]).drop_columns(["v"])), wk.InvalidValue, "it has 2 columns")
    renamed = rows([2]).rename_columns(["k", "t", "w"])
    unchanged(op, lambda: op.push(renamed), wk.InvalidType, "its column 'w' of Int64 is 'v' of Int64")


def test_what_needs_the_schema_says_so() -> None:
    op = QUERY.operator()
    for call in (lambda: op.advance(1), lambda: op.schema, op.snapshot, op.slices):
        with pytest.raises(wk.InvalidValue, match="the schema of the stream is not known yet"):
            call()
    assert op.watermark is None
    assert op.stats().rows == op.late == 0
    assert op.take_late().num_rows == 0


def test_a_query_that_does_not_fit_the_first_batch_leaves_the_operator_new() -> None:
    op = QUERY.operator()
    with pytest.raises(wk.UnknownColumn, match="no column 'v'"):
        op.push(pa.table({"k": ["a"], "t": [1]}))
    assert op.push(rows([1])).num_rows == 0


@pytest.mark.parametrize(
    ("arguments", "error", "says"),
    [
        (
            {"order": "sorted"},
            wk.InvalidValue,
            "order: 'sorted' is unknown; allowed are 'in-order', 'out-of-order'",
        ),
        ({"store": "tree"}, wk.InvalidValue, "store: 'tree' is unknown"),
        ({"technique": "magic"}, wk.InvalidValue, "technique: 'magic' is unknown"),
        ({"allowed_lateness": 5}, wk.InvalidValue, "allowed_lateness: 5 is given for order='in-order'"),
        ({"max_delay": 5}, wk.InvalidValue, "max_delay: 5 is given for order='in-order'"),
        (
            {"order": "out-of-order", "allowed_lateness": -1},
            wk.InvalidValue,
            "allowed_lateness: -1 is below zero",
        ),
        (
            {"order": "out-of-order", "allowed_lateness": "1 minute", "schema": SCHEMA},
            wk.InvalidType,
            "allowed_lateness: it is a duration, but column 't' is an integer",
        ),
        ({"name": ""}, wk.InvalidValue, "name: "),
        ({"name": 3}, wk.InvalidType, "name: 3"),
    ],
)
def test_arguments_are_checked(arguments: dict[str, Any], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=re.escape(says)):
        QUERY.operator(**arguments)


def test_lateness_of_a_time_column_is_a_duration() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 minute"), aggs=wk.count())
    schema = pa.schema({"t": pa.timestamp("s")})
    with pytest.raises(
        wk.InvalidType, match="allowed_lateness: it is an integer, but column 't' counts seconds"
    ):
        query.operator(order="out-of-order", allowed_lateness=5, schema=schema)
    with pytest.raises(wk.InvalidValue, match="allowed_lateness: it is finer than column 't'"):
        query.operator(order="out-of-order", allowed_lateness="1 millisecond", schema=schema)


def test_queries_that_do_not_go_together_are_refused() -> None:
    op = QUERY.operator()
    op.push(rows([1]))
    other = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
    unchanged(op, lambda: op.add(other), wk.InvalidValue, "queries of one operator share keys and time")
    unchanged(op, lambda: op.add(QUERY, name="q1"), wk.InvalidValue, "name: 'q1' is taken")
    unchanged(op, lambda: op.add("q"), wk.InvalidType, "query: 'q' is a str")  # type: ignore[arg-type]
    missing = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("w"))
    unchanged(op, lambda: op.add(missing), wk.UnknownColumn, "no column 'w'")
    twice = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.min("k").alias("sum(v)"))
    unchanged(
        op, lambda: op.add(twice), wk.InvalidValue, "'sum(v)' of 'q2' is Utf8, and Int64 in another query"
    )
    unchanged(op, lambda: op.remove("other"), wk.InvalidValue, "query: 'other' is not one of this operator")
    unchanged(op, lambda: op.remove("q1"), wk.InvalidValue, "query: 'q1' is the only one")
    unchanged(op, lambda: op.remove(QUERY), wk.InvalidValue, "query: 'q1' is the only one")


def test_rows_that_no_window_takes_are_handed_out() -> None:
    op = QUERY.operator(order="out-of-order", allowed_lateness=2)
    op.push(rows([1, None, 14], [1, 2, 3]))
    op.advance(17)
    # Windows of time 8 ended at 10, and a session of it at 13: they expired at 12 and 15.
    op.push(rows([8, 10], [4, 5]))
    late = op.take_late()
    assert late.to_pydict() == {
        "k": ["a", "a"],
        "t": [None, 8],
        "v": [2, 4],
        "late_reason": ["null time", "too late"],
    }
    assert op.late == 2
    assert op.take_late().num_rows == 0


def test_an_overflow_changes_nothing() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    op = query.operator()
    op.push(rows([1, 2], [2**62, 1]))
    says = "sum(v): the sum of a window is 13835058055282163712, which does not fit Int64"
    unchanged(op, lambda: op.push(rows([3, 11], [2**63 - 1, 0])), wk.Overflow, says)
    unchanged(
        op, lambda: op.push(rows([2**63 - 1])), wk.Overflow, "time: column 't' holds 9223372036854775807"
    )
    assert op.push(rows([3, 11], [4, 0]))["sum(v)"].to_pylist() == [2**62 + 5]


class RefusalError(Exception):
    """What a function of a user's own raises."""


@pytest.mark.parametrize("where", ["lift", "combine", "lower"])
def test_a_function_that_raises_changes_nothing(where: str) -> None:
    """Its error reaches the user with its name, and the same rows are taken once it does not raise."""
    broken = False

    def call(name: str, result: pa.Array) -> pa.Array:
        if broken and name == where:
            raise RefusalError("not today")
        return result

    total = wk.aggregate(
        "total",
        lift=lambda v: call("lift", v),
        combine=lambda a, b: call("combine", pc.add(a, b)),
        lower=lambda s: call("lower", s),
        commutative=True,
    )
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[total("v"), wk.sum("v")])
    op = query.operator()
    op.push(rows([1, 2], [1, 2]))
    broken = True
    before = op.stats()
    with pytest.raises(wk.InvalidValue, match=f"total: {where} failed with RefusalError") as raised:
        op.push(rows([3, 11], [4, 8]))
    assert isinstance(raised.value.__cause__, RefusalError)
    broken = False
    assert op.stats() == before
    told = op.push(rows([3, 11], [4, 8]))
    assert (told["total(v)"].to_pylist(), told["sum(v)"].to_pylist()) == ([7], [7])


@pytest.mark.parametrize(
    ("lower", "says"),
    [
        (lambda s: s.slice(1), "total: lower returned 0 entries of 1"),
        (lambda s: pc.cast(s, pa.string()) if len(s) else s, "total: lower returned Utf8"),
    ],
)
def test_a_function_that_returns_something_else_changes_nothing(lower: Callable[..., Any], says: str) -> None:
    total = wk.aggregate("total", lift=lambda v: v, combine=pc.add, lower=lower, commutative=True)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=total("v"))
    op = query.operator()
    op.push(rows([1]))
    unchanged(op, lambda: op.push(rows([11])), wk.InvalidValue, says)


def test_what_would_need_rows_is_refused_with_the_reason() -> None:
    concat = wk.aggregate("concat", lift=lambda v: v, combine=lambda a, b: a, lower=lambda s: s)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=concat("v"))
    query.operator(schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match=r"a function is not commutative.*Fig\. 4"):
        query.operator(schema=SCHEMA, order="out-of-order")


def test_a_stream_that_breaks_off_changes_nothing() -> None:
    op = QUERY.operator()
    op.push(rows([1]))

    def batches() -> Any:
        yield from rows([2]).to_batches()
        raise RefusalError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    unchanged(op, lambda: op.push(reader), RefusalError, "the source is gone")
    with pytest.raises(wk.InvalidType, match="data: a builtins dict has no Arrow interface"):
        op.push({"k": ["a"]})


@pytest.mark.parametrize("window", [wk.tumbling(rows=3), wk.sliding("3 rows", 5), wk.sliding(5, "3 rows")])
def test_windows_that_no_stream_operator_runs_yet_are_refused(window: wk.Window) -> None:
    query = wk.query(by="k", time="t", windows=window, aggs=wk.sum("v"))
    with pytest.raises(wk.InvalidValue, match="is none that a stream operator runs; allowed are tumbling"):
        query.operator(schema=SCHEMA)
