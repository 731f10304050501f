"""What rolling aggregations are as values, what data they take, and what they refuse."""

from __future__ import annotations

import json
import pickle
from datetime import timedelta
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

TABLE = pa.table(
    {
        "k": ["a", "b", "a", "a"],
        "ts": pa.array([0, 1, 2, 60], pa.timestamp("s")),
        "day": pa.array([0, 1, 2, 60], pa.date32()),
        "n": pa.array([0, 1, 2, 60]),
        "v": [1.0, 2.0, 4.0, 8.0],
        "ok": [True, False, None, True],
    }
)


def rolling(over: Any, **changed: Any) -> wk.Rolling:
    return wk.rolling(**({"by": "k", "time": "ts", "aggs": over} | changed))


@pytest.mark.parametrize(
    ("over", "name"),
    [
        (wk.sum("v").over("10 minutes"), "sum(v) OVER (10 minutes)"),
        (wk.sum("v").over(timedelta(minutes=90)), "sum(v) OVER (1 hour 30 minutes)"),
        (wk.sum("v").over(600, closed="left"), "sum(v) OVER (600, closed left)"),
        (wk.sum("v").over("100 rows"), "sum(v) OVER (100 rows)"),
        (wk.sum("v").over(wk.rows(100), closed="left"), "sum(v) OVER (100 rows, closed left)"),
        (wk.sum("v").over(before="2 rows"), "sum(v) OVER (2 rows before)"),
        (wk.sum("v").over(before="2 rows", closed="right"), "sum(v) OVER (2 rows)"),
        (wk.sum("v").over(after="1 day", closed="right"), "sum(v) OVER (1 day after, closed right)"),
        (wk.sum("v").over("unbounded"), "sum(v) OVER (unbounded)"),
        (wk.sum("v").over("30 days", tail="1 hour"), "sum(v) OVER (30 days, tail 1 hour)"),
        (
            wk.sum("v").over(before=9, after=1, closed="left", tail=4),
            "sum(v) OVER (9 before, 1 after, tail 4, closed left)",
        ),
        (wk.sum("v").over(" Unbounded  ROWS "), "sum(v) OVER (unbounded rows)"),
        (wk.max("v").over(before=5, after="unbounded"), "max(v) OVER (5 before, unbounded after)"),
        (wk.sum("v").where("ok").over(1), "sum(v) FILTER (WHERE ok) OVER (1)"),
        (wk.sum("v").over(1).where("ok"), "sum(v) FILTER (WHERE ok) OVER (1)"),
        (wk.sum("v").alias("s").over(1), "s"),
        (wk.sum("v").over(1).alias("s"), "s"),
        (wk.count().over(1), "count(1) OVER (1)"),
    ],
)
def test_names_say_what_was_asked(over: wk.Framed, name: str) -> None:
    assert over.name == name


LENGTHS = st.sampled_from([1, 10**12, "1 hour", "1.5 seconds", "unbounded"])
ROWS = st.sampled_from(["1 row", "20 rows", "unbounded rows", "unbounded"])


@given(
    st.sampled_from([wk.sum("v"), wk.quantile("a b", 0.9), wk.count().where("ok"), wk.max("v").alias("m")]),
    st.tuples(LENGTHS, LENGTHS) | st.tuples(ROWS, ROWS),
    st.sampled_from(["before", "after", "both", "size"]),
    st.sampled_from([None, "both", "left", "right", "neither"]),
    st.none() | st.just("x"),
    st.sampled_from([None, None, 7, "90 minutes"]),
)
def test_what_is_written_down_is_read_back(
    aggregate: wk.Aggregate,
    lengths: tuple[Any, Any],
    sides: str,
    closed: str | None,
    alias: str | None,
    tail: Any,
) -> None:
    given = {
        "before": {"before": lengths[0]},
        "after": {"after": lengths[0]},
        "both": {"before": lengths[0], "after": lengths[1]},
        "size": {"size": lengths[0]},
    }[sides]
    start = str(given.get("size", given.get("before", "unbounded")))
    over = aggregate.over(**given, closed=closed, tail=None if "row" in start or "un" in start else tail)
    value = rolling(over if alias is None else over.alias(alias))
    again = wk.Rolling.from_dict(json.loads(json.dumps(value.to_dict())))
    assert again == value
    assert hash(again) == hash(value)
    assert pickle.loads(pickle.dumps(value)) == value


def test_every_kind_of_data_is_taken_and_comes_back_as_rows_of_the_input() -> None:
    asked = rolling(wk.sum("v").over("1 minute").alias("s"), time="ts")
    sums = [1.0, 2.0, 5.0, 13.0]
    relation = duckdb.from_arrow(TABLE)
    kinds = [
        TABLE,
        pl.from_arrow(TABLE),
        TABLE.to_pandas(),
        relation,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
    ]
    for data in kinds:
        result = asked.run(data, result="pyarrow")
        assert result["s"].to_pylist() == sums, type(data)
        assert result["v"].to_pylist() == TABLE["v"].to_pylist()
        assert result.column_names == [*TABLE.column_names, "s"]
    empty = pd.DataFrame({"k": [], "ts": pd.to_datetime([]), "v": []}).astype({"k": str})
    assert list(asked.run(empty).columns) == ["k", "ts", "v", "s"]


def test_data_frames_get_columns_and_keep_their_own() -> None:
    kinds = {"t": [3, 1, 2], "c": pd.Categorical(["a", "b", "a"], ordered=True), "v": [1.0, None, 3.0]}
    frame = pd.DataFrame(kinds, index=pd.Index([7, 7, 9], name="id"))
    aggs = [
        wk.last("c").over(5).alias("c5"),
        wk.sum("v").over("2 rows").alias("s"),
        wk.count().over(9).alias("n"),
    ]
    asked = wk.rolling(by=[], time="t", aggs=aggs)
    expected = frame.assign(c5=frame["c"], s=[4.0, None, 3.0], n=[3, 1, 2])
    pd.testing.assert_frame_equal(asked.run(frame), expected)
    assert "s" not in frame
    polars = pl.DataFrame(kinds | {"c": pl.Series(["a", "b", "a"], dtype=pl.Enum(["b", "a"]))})
    own = polars.with_columns(c5=pl.col("c"), s=pl.Series([4.0, None, 3.0]), n=pl.Series([3, 1, 2]))
    assert asked.run(polars).equals(own)
    assert asked.run(polars).schema == own.schema
    plain = pa.table({"t": [3, 1, 2], "c": ["a", "b", "a"], "v": [1.0, None, 3.0]})
    assert isinstance(asked.run(plain, result="pandas"), pd.DataFrame)
    assert asked.run(plain, result="polars").to_dicts() == asked.run(plain).to_pylist()


def test_metadata_and_columns_that_nothing_reads_are_kept() -> None:
    repeated = pa.table([[1, 2], [3, 4], [5, 6]], names=["t", "x", "x"]).replace_schema_metadata({"a": "b"})
    asked = wk.rolling(by=[], time="t", aggs=wk.count().over(1).alias("n"))
    result = asked.run(repeated)
    assert result.column_names == ["t", "x", "x", "n"]
    assert result.schema.metadata == asked.schema(repeated).metadata == {b"a": b"b"}
    assert result["n"].to_pylist() == [1, 2]


def test_no_rows_and_no_batches_have_a_result() -> None:
    asked = rolling([wk.sum("v").over("1 hour"), wk.collect_list("v").over("1 hour")])
    for empty in (TABLE.slice(0, 0), pa.RecordBatchReader.from_batches(TABLE.schema, [])):
        assert asked.run(empty).schema == asked.schema(TABLE)


def test_explain_says_what_frames_hold_and_what_is_stored() -> None:
    asked = rolling(
        [
            wk.mean("v").over(before="1 hour", after="unbounded", closed="neither"),
            wk.max("v").over("3 rows").alias("top"),
        ]
    )
    text = asked.explain(TABLE)
    assert "partials of each row: sum(v), count(v), max(v)" in text
    assert (
        "1 hour before, unbounded after, closed neither: from 1 hour before to the last row, without" in text
    )
    assert "3 rows: from 3 rows before to the row itself, without the start" in text
    assert "  top: double" in text


class TestRefusals:
    """Each before anything is computed."""

    @pytest.mark.parametrize(
        ("arguments", "kind", "says"),
        [
            ({}, wk.InvalidValue, "over: no length is given; write .over"),
            ({"size": "0 seconds"}, wk.InvalidValue, "size: 0 seconds is given; a frame reaches"),
            ({"size": 0}, wk.InvalidValue, "size: 0 is given; a frame reaches"),
            (
                {"before": "0 rows", "after": "0 rows"},
                wk.InvalidValue,
                "before: 0 rows is given; a frame reaches",
            ),
            ({"size": "-1 second"}, wk.InvalidValue, "size: -1 second is negative"),
            ({"after": -5}, wk.InvalidValue, "after: -5 is negative"),
            ({"size": "1 month"}, wk.InvalidValue, "'1 month' has the calendar unit 'month'"),
            ({"size": "1 hour", "after": "1 hour"}, wk.InvalidValue, "after: it is given beside a size"),
            (
                {"before": "3 rows", "after": "1 hour"},
                wk.InvalidType,
                "after: 1 hour is not a number of rows",
            ),
            ({"size": 1.5}, wk.InvalidType, "size: 1.5 is a float"),
            (
                {"size": "5 rows", "tail": "1 hour"},
                wk.InvalidType,
                "tail: 1 hour is given for a frame by rows",
            ),
            (
                {"size": "1 day", "tail": "5 rows"},
                wk.InvalidType,
                "tail: 5 rows is given for a frame by time",
            ),
            ({"size": "1 day", "tail": "0 hours"}, wk.InvalidValue, "tail: 0 .* is not above 0"),
            ({"size": "1 day", "tail": -5}, wk.InvalidValue, "tail: -5 is not above 0"),
            ({"size": "1 day", "tail": "1 month"}, wk.InvalidValue, "calendar unit 'month'"),
            (
                {"size": "unbounded", "tail": 5},
                wk.InvalidValue,
                "tail: 5 is given for a frame that has no start",
            ),
            (
                {"after": 9, "tail": 5},
                wk.InvalidValue,
                "tail: 5 is given for a frame that does not reach back",
            ),
            ({"size": "1 hour", "closed": "start"}, wk.InvalidValue, "closed: 'start' is unknown"),
            ({"size": "1 hour", "closed": 1}, wk.InvalidType, "closed: 1 is an int"),
        ],
    )
    def test_frames(self, arguments: dict[str, Any], kind: type[Exception], says: str) -> None:
        with pytest.raises(kind, match=says):
            wk.sum("v").over(**arguments)

    def test_aggregates_without_a_frame_and_frames_in_a_query(self) -> None:
        with pytest.raises(wk.InvalidType, match=r"an aggregate over a frame like windowkit.sum\('v'\).over"):
            rolling(wk.sum("v"))
        with pytest.raises(wk.InvalidType, match=r"those over frames are for windowkit.rolling"):
            wk.query(by="k", time="ts", windows=wk.tumbling(1), aggs=wk.sum("v").over(1))  # type: ignore[arg-type]
        with pytest.raises(wk.InvalidValue, match="at least one aggregate"):
            rolling([])

    def test_names_that_clash(self) -> None:
        with pytest.raises(wk.InvalidValue, match=r"'s' occurs twice.*\.alias\(\)"):
            rolling([wk.sum("v").over(1).alias("s"), wk.max("v").over(1).alias("s")])
        with pytest.raises(wk.InvalidValue, match=r"two columns 'ok'; give one of them another name with"):
            rolling(wk.sum("v").over("1 hour").alias("ok")).run(TABLE)

    @pytest.mark.parametrize(
        ("changed", "kind", "says"),
        [
            ({"by": "nosuch"}, wk.UnknownColumn, "by: no column 'nosuch'; there are k, ts"),
            ({"time": "nosuch"}, wk.UnknownColumn, "time: no column 'nosuch'"),
            ({"aggs": wk.sum("nosuch").over("1 hour")}, wk.UnknownColumn, "aggs: no column 'nosuch'"),
            ({"time": "v"}, wk.InvalidType, "column 'v' is double"),
            ({"aggs": wk.sum("k").over("1 hour")}, wk.InvalidType, "sum is not defined for column 'k'"),
            ({"aggs": wk.sum("v").over("1 hour").where("v")}, wk.InvalidType, "where: column 'v' is double"),
            (
                {"aggs": wk.sum("v").over(5)},
                wk.InvalidType,
                "it is an integer, but column 'ts' counts seconds",
            ),
            ({"time": "n"}, wk.InvalidType, "it is a duration, but column 'n' is an integer"),
            (
                {"aggs": wk.sum("v").over("1 hour", tail=5)},
                wk.InvalidType,
                "it is an integer, but column 'ts' counts seconds",
            ),
            (
                {"aggs": wk.sum("v").over("1 hour", tail="1 millisecond")},
                wk.InvalidValue,
                "finer than column",
            ),
            (
                {"aggs": wk.sum("v").over("1.5 seconds")},
                wk.InvalidValue,
                "the frame of sum.v. OVER .*: it is finer than column 'ts', which counts seconds",
            ),
            (
                {"time": "day", "aggs": wk.sum("v").over("36 hours")},
                wk.InvalidValue,
                "finer than column 'day'",
            ),
        ],
    )
    def test_data_that_does_not_fit(self, changed: dict[str, Any], kind: type[Exception], says: str) -> None:
        asked = rolling(wk.sum("v").over("1 hour"), **changed)
        for call in (asked.run, asked.schema, asked.explain):
            with pytest.raises(kind, match=says):
                call(TABLE)

    def test_options_of_spark(self) -> None:
        with pytest.raises(wk.InvalidValue, match=r"metrics: .* is given without a Spark DataFrame"):
            rolling(wk.sum("v").over("1 hour")).run(TABLE, metrics=1)

    def test_sums_that_overflow_name_the_aggregate(self) -> None:
        big = pa.table({"t": [1, 2, 3], "n": [2**62, 2**62, 1]})
        with pytest.raises(wk.Overflow, match="all of it"):
            wk.rolling(by=[], time="t", aggs=wk.sum("n").over(5).alias("all of it")).run(big)
        wk.rolling(by=[], time="t", aggs=wk.sum("n").over(5, closed="left")).run(big.slice(1))

    def test_times_at_the_limit(self) -> None:
        far = pa.table({"t": pa.array([-(2**63), 5, None])})
        with pytest.raises(wk.Overflow, match="column 't' holds -9223372036854775808"):
            wk.rolling(by=[], time="t", aggs=wk.count().over(5)).run(far)
        assert wk.rolling(by=[], time="t", aggs=wk.count().over("unbounded").alias("n")).run(far.slice(1))[
            "n"
        ].to_pylist() == [2, 1]

    @pytest.mark.parametrize(
        ("form", "kind", "says"),
        [
            ([], wk.InvalidType, "form: .* is a list"),
            ({}, wk.InvalidValue, "form: it is of version None"),
            ({"version": 2, "by": [], "time": "t", "rolling": []}, wk.InvalidValue, "it is of version 2"),
            (
                {"version": 1, "by": [], "time": "t", "rolling": "sum"},
                wk.InvalidType,
                "rolling: 'sum' is a str",
            ),
            (
                {"version": 1, "by": [], "time": "t", "rolling": [{}]},
                wk.InvalidValue,
                "rolling: the key 'agg' is missing",
            ),
        ],
    )
    def test_forms_that_are_not_as_they_were_written(
        self, form: Any, kind: type[Exception], says: str
    ) -> None:
        with pytest.raises(kind, match=says):
            wk.Rolling.from_dict(form)

    def test_users_functions_cannot_be_written(self) -> None:
        own = wk.aggregate("own", lift=lambda v: v, combine=lambda a, b: a, lower=lambda s: s)
        with pytest.raises(wk.InvalidType, match=r"own.* is user-defined"):
            rolling(own("v").over(1)).to_dict()
