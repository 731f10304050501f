"""What an operator refuses, what it says, and that a call it refuses has changed nothing."""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk
from support.refusals import Fragile, RefusalError, unchanged

QUERY = wk.query(by="k", time="t", windows=[wk.tumbling(10), wk.session(5)], aggs=[wk.sum("v")])
SCHEMA = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int64()})


def rows(times: list[int | None], values: list[int] | None = None) -> pa.Table:
    values = [1] * len(times) if values is None else values
    return pa.table({"k": ["a"] * len(times), "t": times, "v": values}, schema=SCHEMA)


def test_rows_out_of_order_are_refused_unless_announced() -> None:
    op = QUERY.operator()
    op.push(rows([3, 8]))
    says = "batch: row 2 has time 11 in column 't', which is before 12, the latest so far"
    unchanged(op, lambda: op.push(rows([9, 12, 11])), wk.InvalidValue, says)
    says = "batch: row 0 has time 7 in column 't', which is before 8, the latest so far"
    unchanged(op, lambda: op.push(rows([7])), wk.InvalidValue, says)
    # Neither a later batch of one push, nor one after a watermark.
    both = pa.concat_tables([rows([9]), rows([8])])
    unchanged(op, lambda: op.push(both), wk.InvalidValue, "row 1 has time 8 in column 't', which is before 9")
    op.advance(20)
    unchanged(op, lambda: op.push(rows([19])), wk.InvalidValue, "is before 20, the latest so far")
    assert op.push(rows([20])).num_rows == 0


def test_a_watermark_never_goes_back() -> None:
    op = QUERY.operator(order="out-of-order", schema=SCHEMA)
    op.advance(10)
    op.advance(10)
    says = "watermark: 9 is before the last one, 10 (both in units of 't'); a watermark must not decrease"
    unchanged(op, lambda: op.advance(9), wk.InvalidValue, says)


@pytest.mark.parametrize(
    ("watermark", "says"),
    [
        ("soon", "watermark: 'soon' is a str; the time column is an integer"),
        (1.5, "watermark: 1.5 is a float"),
        (True, "watermark: True is a bool"),
        (datetime.datetime(2026, 1, 1), "is a datetime"),
        (pa.scalar("x"), "watermark: <pyarrow.StringScalar: 'x'> is not a time of type int64"),
    ],
)
def test_watermarks_of_other_types_are_refused(watermark: object, says: str) -> None:
    op = QUERY.operator(schema=SCHEMA)
    unchanged(op, lambda: op.advance(watermark), wk.InvalidType, says)


def test_a_watermark_is_given_unless_it_follows_the_rows_or_the_clock() -> None:
    says = "watermark: none is given; a watermark may be left out if it follows the rows, with progress="
    for order in ("in-order", "out-of-order"):
        op = QUERY.operator(order=order, schema=SCHEMA)
        unchanged(op, op.advance, wk.InvalidValue, says)
    query = wk.query(by="k", time="t", windows=wk.punctuation("v"), aggs=wk.count())
    marked = query.operator(schema=SCHEMA.set(2, pa.field("v", pa.bool_())))
    says = "time: none is given; the time of a punctuation may be left out only for queries over"
    unchanged(marked, marked.punctuate, wk.InvalidValue, says)
    follows = QUERY.operator(order="out-of-order", progress=wk.delay(5), schema=SCHEMA)
    assert follows.advance().num_rows == 0


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
    with pytest.raises(wk.InvalidType, match="is not a time of type timestamp"):
        op.advance("noonish")
    with pytest.raises(wk.InvalidType, match="is not a time of type timestamp"):
        op.advance(noon + datetime.timedelta(hours=1, microseconds=1))


def test_watermarks_of_days_may_be_their_number() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling("2 days"), aggs=wk.count().alias("n"))
    op = query.operator(schema=pa.schema({"t": pa.date32()}), order="out-of-order")
    op.advance(2)
    assert op.watermark.as_py() == datetime.date(1970, 1, 3)
    with pytest.raises(wk.InvalidType, match="is not a time of type date32"):
        op.advance(2**40)


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
    says = "batch: column 'v' has a value that int64 does not hold"
    unchanged(op, lambda: op.push(other), wk.InvalidValue, says)
    says = "batch: no column 'v', which the stream has; there are k, t"
    unchanged(op, lambda: op.push(rows([2]).drop_columns(["v"])), wk.UnknownColumn, says)
    renamed = rows([2]).rename_columns(["k", "t", "V"])
    says = "no column 'v', which the stream has; there are k, t, V; did you mean 'V'"
    unchanged(op, lambda: op.push(renamed), wk.UnknownColumn, says)


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
        ({"allowed_lateness": 5}, wk.InvalidValue, "allowed_lateness: 5 is given for order='in-order'"),
        ({"progress": wk.delay(5)}, wk.InvalidValue, "progress: it is given for order='in-order'"),
        (
            {"order": "out-of-order", "updates": False, "allowed_lateness": 5},
            wk.InvalidValue,
            "updates: False is given with an allowed_lateness of 5, for which windows are updated",
        ),
        (
            {"order": "out-of-order", "updates": False, "emit": wk.emit(wk.rows(2))},
            wk.InvalidValue,
            "updates: False is given for a query with an emission policy, whose early results are updated",
        ),
        ({"progress": 5, "order": "out-of-order"}, wk.InvalidType, "progress: 5 is an int"),
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
        op, lambda: op.add(twice), wk.InvalidValue, "'sum(v)' of 'q2' is string, but int64 in another query"
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
    says = "sum(v): the sum of a window is 13835058055282163712, which does not fit int64"
    unchanged(op, lambda: op.push(rows([3, 11], [2**63 - 1, 0])), wk.Overflow, says)
    unchanged(
        op, lambda: op.push(rows([2**63 - 1])), wk.Overflow, "time: column 't' holds 9223372036854775807"
    )
    assert op.push(rows([3, 11], [4, 0]))["sum(v)"].to_pylist() == [2**62 + 5]


@pytest.mark.parametrize("where", ["lift", "combine", "lower"])
def test_a_function_that_raises_changes_nothing(where: str) -> None:
    """Its error reaches the user with its name, and the same rows are taken once it does not raise."""
    user = Fragile(where, commutative=True)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[user.total("v"), wk.sum("v")])
    op = query.operator()
    op.push(rows([1, 2], [1, 2]))
    user.broken = True
    before = op.stats()
    with pytest.raises(wk.InvalidValue, match=f"total: {where} failed with RefusalError") as raised:
        op.push(rows([3, 11], [4, 8]))
    assert isinstance(raised.value.__cause__, RefusalError)
    user.broken = False
    assert op.stats() == before
    emitted = op.push(rows([3, 11], [4, 8]))
    assert (emitted["total(v)"].to_pylist(), emitted["sum(v)"].to_pylist()) == ([7], [7])


@pytest.mark.parametrize(
    ("lower", "says"),
    [
        (lambda s: s.slice(1), "total: lower returned 0 entries for 1"),
        (lambda s: pc.cast(s, pa.string()) if len(s) else s, "total: lower returned string"),
    ],
)
def test_a_function_that_returns_something_else_changes_nothing(lower: Callable[..., Any], says: str) -> None:
    total = wk.aggregate("total", lift=lambda v: v, combine=pc.add, lower=lower, commutative=True)
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=total("v"))
    op = query.operator()
    op.push(rows([1]))
    unchanged(op, lambda: op.push(rows([11])), wk.InvalidValue, says)


def test_a_stream_that_breaks_off_changes_nothing() -> None:
    op = QUERY.operator()
    op.push(rows([1]))

    def batches() -> Any:
        yield from rows([2]).to_batches()
        raise RefusalError("the source is gone")

    reader = pa.RecordBatchReader.from_batches(SCHEMA, batches())
    unchanged(op, lambda: op.push(reader), RefusalError, "the source is gone")
    with pytest.raises(wk.InvalidType, match="batch: a dict has no Arrow interface"):
        op.push({"k": ["a"]})


KEPT = wk.query(by="k", time="t", windows=wk.tumbling(rows=3), aggs=wk.sum("v"))


@pytest.mark.parametrize("query", [QUERY, KEPT])
def test_rows_out_of_order_are_told_by_their_place_in_the_push(query: wk.Query) -> None:
    op = query.operator(schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match="row 3 has time 6 in column 't', which is before 7"):
        op.push(rows([None, None, 7, 6]))
    with pytest.raises(wk.InvalidValue, match="row 5 has time 3 in column 't', which is before 4"):
        op.push(pa.concat_tables([rows([1, None]), rows([]), rows([2, 4]), rows([None, 3])]))


def test_a_first_push_that_fails_leaves_the_operator_new() -> None:
    op = QUERY.operator()
    other = rows([5, 1]).set_column(2, "v", pa.array([1, 2], pa.int32())).append_column("w", pa.array([1, 2]))
    with pytest.raises(wk.InvalidValue, match="row 1 has time 1"):
        op.push(other)
    with pytest.raises(wk.InvalidValue, match="the schema of the stream is not known yet"):
        op.advance(1)

    def broken() -> Iterator[pa.RecordBatch]:
        yield other.slice(0, 1).to_batches()[0]
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        op.push(pa.RecordBatchReader.from_batches(other.schema, broken()))
    assert op.stats().rows == 0
    assert op.push(rows([1, 5])).num_rows == 0
    assert op.close()["sum(v)"].to_pylist() == [2, 2]


def test_a_function_of_the_first_push_cannot_call_its_operator() -> None:
    refused: list[str] = []

    def lift(values: pa.Array) -> pa.Array:
        for call in (lambda: op.push(rows([1])), lambda: op.add(QUERY), op.close, lambda: op.remove("q1")):
            with pytest.raises(wk.InvalidValue) as error:
                call()
            refused.append(str(error.value))
        return values

    total = wk.aggregate("total", lift=lift, combine=pc.add, lower=lambda states: states)
    op = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=total("v").alias("total")).operator()
    op.push(rows([1, 2]))
    assert all("called by a function that it was itself calling" in text for text in refused)
    assert [text.split(":")[0] for text in refused[:4]] == ["push", "add", "close", "remove"]
    assert list(op.queries) == ["q1"]
    assert op.close()["total"].to_pylist() == [2]


def test_first_pushes_of_several_threads_are_all_taken() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    batch = pa.table({"t": list(range(50))})
    for _ in range(50):
        op = query.operator(order="out-of-order")
        barrier = threading.Barrier(4)

        def push(op: wk.Operator = op, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            op.push(batch)

        threads = [threading.Thread(target=push) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert op.stats().rows == 200
        assert sum(op.close()["n"].to_pylist()) == 200


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars", "duckdb"])
def test_the_schema_of_a_stream_has_all_columns_of_the_first_push(library: str) -> None:
    def given(times: list[int]) -> Any:
        arrow = rows(times).append_column("note", pa.array([f"n{t}" for t in times]))
        if library == "pandas":
            return arrow.to_pandas()
        if library == "polars":
            return polars.from_arrow(arrow)
        return duckdb.from_arrow(arrow) if library == "duckdb" else arrow

    op = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v")).operator(order="out-of-order")
    op.push(given([1, 30]))
    op.add(
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.last("note").alias("note")), name="notes"
    )
    op.advance(35)
    op.push(given([3, 41]))
    late = op.take_late()
    assert late.column_names == ["k", "t", "v", "note", "query_name", "late_reason"]
    assert late["note"].to_pylist() == ["n3"] * 2
    assert late["late_reason"].to_pylist() == ["too late", "before the query"]
    emitted = op.close().to_pylist()
    assert [row["note"] for row in emitted if row["query_name"] == "notes"] == ["n41"]


UTC = datetime.timezone.utc


@pytest.mark.parametrize(
    ("kind", "watermark", "says"),
    [
        (
            pa.timestamp("us", "UTC"),
            datetime.datetime(2026, 1, 1),
            "has no zone; allowed are times with a zone",
        ),
        (pa.timestamp("us", "UTC"), datetime.date(2026, 1, 1), "has no zone"),
        (pa.timestamp("us", "UTC"), pa.scalar(0, pa.timestamp("us")), "has no zone"),
        (pa.timestamp("us", "UTC"), "2026-01-01T12:00:00", "add Z or an offset such as +01:00 to a string"),
        (
            pa.timestamp("us"),
            datetime.datetime(2026, 1, 1, tzinfo=UTC),
            "has a zone; allowed are times without",
        ),
        (pa.timestamp("us"), "2026-01-01T12:00:00Z", "allowed are times without a zone or an offset"),
        (pa.date32(), datetime.datetime(2026, 1, 1, 12), "has a time of day; allowed are dates without"),
        (pa.date32(), datetime.datetime(2026, 1, 1, tzinfo=UTC), "has a zone"),
        (pa.duration("s"), "1.5 seconds", "is not a time of type duration[s]"),
        (pa.duration("s"), datetime.timedelta(milliseconds=1), "is not a time of type duration[s]"),
    ],
)
def test_watermarks_that_would_be_changed_are_refused(
    kind: pa.DataType, watermark: object, says: str
) -> None:
    size = "1 day" if pa.types.is_date(kind) else "1 minute"
    query = wk.query(by=[], time="t", windows=wk.tumbling(size), aggs=wk.count().alias("n"))
    op = query.operator(schema=pa.schema({"t": kind}))
    unchanged(op, lambda: op.advance(watermark), wk.InvalidType, says)


@pytest.mark.parametrize(
    ("kind", "watermark", "reached"),
    [
        (pa.timestamp("us", "Europe/Berlin"), datetime.datetime(1970, 1, 1, 1, tzinfo=UTC), 3_600_000_000),
        (pa.timestamp("s", "Europe/Berlin"), "1970-01-01T01:00:00+01:00", 0),
        (pa.timestamp("s"), datetime.datetime(1970, 1, 1, 1), 3_600),
        (pa.timestamp("s"), datetime.date(1970, 1, 2), 86_400),
        (pa.timestamp("ms"), 1_500, 1_500),
        (pa.date32(), datetime.datetime(1970, 1, 3), 2),
        (pa.date32(), datetime.date(1970, 1, 3), 2),
        (pa.duration("s"), "3 hours", 10_800),
        (pa.duration("ms"), datetime.timedelta(hours=3), 10_800_000),
        (pa.duration("ns"), "1.000000001 seconds", 1_000_000_001),
    ],
)
def test_watermarks_of_every_type_of_times(kind: pa.DataType, watermark: object, reached: int) -> None:
    size = "1 day" if pa.types.is_date(kind) else "1 minute"
    query = wk.query(by=[], time="t", windows=wk.tumbling(size), aggs=wk.count().alias("n"))
    op = query.operator(schema=pa.schema({"t": kind}))
    op.advance(watermark)
    assert op.watermark.cast(pa.int32() if pa.types.is_date(kind) else pa.int64()).as_py() == reached
    assert op.watermark.type == kind


@pytest.mark.parametrize("length", ["5 rows", wk.rows(5)])
def test_lengths_of_waiting_are_no_rows(length: wk.Length) -> None:
    says = "{0}: 5 rows is a number of rows; {0} is a duration"
    with pytest.raises(wk.InvalidType, match=says.format("allowed_lateness")):
        QUERY.operator(order="out-of-order", allowed_lateness=length)
    with pytest.raises(wk.InvalidType, match=says.format("delay")):
        wk.delay(length)


def test_lengths_of_rows_are_refused_in_good_english() -> None:
    with pytest.raises(wk.InvalidType, match="period: 5 rows is a number of rows; period is a duration"):
        wk.landmark(1, period="5 rows")


def test_late_rows_are_held_until_they_are_taken_and_counted_until_then() -> None:
    op = QUERY.operator(order="out-of-order")
    op.push(rows([1]))
    op.advance(100)
    assert op.stats().late_bytes == 0
    op.push(rows([3] * 1_000))
    held = op.stats().late_bytes
    # Key, time, value and reason: at least 20 bytes a row.
    assert 20_000 <= held < 200_000
    again = wk.Operator.restore(op.snapshot(), QUERY)
    assert again.stats().late_bytes >= 20_000
    assert op.take_late().num_rows == again.take_late().num_rows == 1_000
    assert op.stats().late_bytes == again.stats().late_bytes == 0
    assert op.late == again.late == 1_000


@pytest.mark.parametrize(
    ("kind", "before", "at"),
    [
        (pa.timestamp("s"), "2024-05-01T10:00:00", "2024-05-01T10:00:01"),
        (pa.timestamp("us", "UTC"), "2024-05-01T10:00:00.000001Z", "2024-05-01T10:00:00.500Z"),
        (pa.timestamp("ns", "Asia/Tokyo"), "2024-05-01T10:00:00Z", "2024-05-01T10:00:00.000000007Z"),
        (pa.date32(), "2024-05-01", "2024-05-02"),
    ],
    ids=str,
)
def test_times_in_errors_are_those_of_a_calendar(kind: pa.DataType, before: str, at: str) -> None:
    query = wk.query(by=[], time="t", windows=[wk.tumbling("1 day"), wk.punctuation("m")], aggs=wk.count())
    schema = pa.schema({"t": kind, "m": pa.bool_()})
    times = pc.cast(pa.array([at, before]), kind)
    batch = pa.table({"t": times, "m": [False, False]}, schema=schema)
    op = query.operator(schema=schema)
    with pytest.raises(wk.InvalidValue) as refused:
        op.push(batch)
    assert f"row 1 has time {before} in column 't', which is before {at}, the latest so far" in str(
        refused.value
    )
    op = query.operator(schema=schema, order="out-of-order")
    op.advance(times[0])
    with pytest.raises(wk.InvalidValue) as refused:
        op.advance(times[1])
    said = f"watermark: {before} is before the last one, {at} (both times of 't'); a watermark must not"
    assert str(refused.value).startswith(said)
    with pytest.raises(wk.InvalidValue) as refused:
        op.punctuate(times[1])
    assert str(refused.value).startswith(f"punctuate: {before} is before {at} in column 't'")


def test_times_that_no_calendar_has_are_numbers() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 day"), aggs=wk.count())
    op = query.operator(schema=pa.schema({"t": pa.timestamp("s")}), order="out-of-order")
    op.advance(2**50)
    with pytest.raises(
        wk.InvalidValue, match=f"watermark: 1970-01-01T00:00:05 is before the last one, {2**50} "
    ):
        op.advance(5)
