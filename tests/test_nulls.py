"""Columns of nulls without a type, as an empty day has them: as good as nulls of any type."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pandas.testing import assert_frame_equal

import windowkit as wk
from support.streams import AGGREGATES
from windowkit import kernels

TIMES = {"k": ["a", "a", "b", None], "t": [1, 2, 7, 8]}
COLUMNS = {"i": pa.int64(), "f": pa.float64(), "s": pa.string(), "d": pa.date32(), "b": pa.bool_()}
"""The columns of the aggregates, and their types."""


def of(typed: bool) -> pa.Table:
    """Return rows of nulls, of the aggregates' types or of none."""
    kinds = {name: kind if typed else pa.null() for name, kind in COLUMNS.items()}
    return pa.table({**TIMES, **{name: pa.nulls(4, kind) for name, kind in kinds.items()}})


def in_order(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=repr)


def run(query: wk.Query, table: pa.Table) -> pa.Table:
    return query.run(table)


def stream(query: wk.Query, table: pa.Table) -> pa.Table:
    op = query.operator(order="out-of-order", progress=wk.delay(100), schema=table.schema)
    op.push(table.slice(0, 2))
    op = wk.Operator.restore(op.snapshot(), query)
    op.push(table.slice(2))
    return op.close()


@pytest.mark.parametrize("way", [run, stream])
@pytest.mark.parametrize("windows", [wk.sliding(10, 5), wk.tumbling(rows=2)], ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_aggregates(
    aggregate: wk.Aggregate, windows: wk.Window, way: Callable[[wk.Query, pa.Table], pa.Table]
) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=aggregate.alias("x"))
    found, wanted = way(query, of(False)), way(query, of(True))
    assert in_order(found.to_pylist()) == in_order(wanted.to_pylist())


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_rolling_aggregates(aggregate: wk.Aggregate) -> None:
    rolling = wk.rolling(by="k", time="t", aggs=aggregate.over("2 rows").alias("x"))
    assert rolling.run(of(False)).to_pylist() == rolling.run(of(True)).to_pylist()


def test_types_are_those_that_spark_has() -> None:
    """Of ``select sum(null), avg(null), max(null), count(null)``: double, double, void, bigint."""
    aggs = [wk.sum("f"), wk.mean("f"), wk.max("f"), wk.count("f")]
    result = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs).run(of(False))
    assert result.schema.types[2:] == [pa.float64(), pa.float64(), pa.null(), pa.int64()]
    assert result.select(range(2, 6)).to_pylist() == [
        {"sum(f)": None, "avg(f)": None, "max(f)": None, "count(f)": 0}
    ]


def test_kernels() -> None:
    names = ("sum", "mean", "min", "max", "std", "var", "argmin", "argmax", "first", "last", "count")
    for name in names:
        function = getattr(kernels, f"sliding_{name}")
        wanted = function(pa.nulls(5, pa.float64()), 3)
        assert function(pa.nulls(5), 3).to_pylist() == wanted.to_pylist(), name


KEYS = {
    "int64": pa.array([3, None]),
    "string": pa.array(["x", None]),
    "large_string": pa.array(["x", None], pa.large_string()),
    "dictionary": pa.array(["x", None]).dictionary_encode(),
    "struct": pa.array([{"a": 1}, None]),
    "null": pa.nulls(2),
}


@pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("is_left", [True, False])
def test_keys_of_a_join(how: Any, kind: str, is_left: bool) -> None:
    keys = KEYS[kind]
    typed = pa.table({"k": keys, "t": [1, 2], "b": [5, 6]})

    def joined(nulls: pa.Array) -> pa.Table:
        other = pa.table({"k": nulls, "t": [1, 2], "a": [1, 2]})
        sides = (other, typed) if is_left else (typed, other)
        return wk.join(by="k", left_time="t", right_time="t", within=5, how=how).run(*sides)

    found, wanted = joined(pa.nulls(2)), joined(pa.nulls(2, keys.type))
    assert sorted(found.to_pylist(), key=repr) == sorted(wanted.to_pylist(), key=repr)
    # Where the result has keys of the other side, it has their type.
    assert found.schema.field("k").type in (pa.null(), wanted.schema.field("k").type)


@pytest.mark.parametrize("kind", KEYS)
@pytest.mark.parametrize("of_labels", [True, False])
def test_keys_of_labels_and_events(kind: str, of_labels: bool) -> None:
    features = wk.rolling(by="k", time="t", aggs=wk.sum("b").over("unbounded"))
    keys = KEYS[kind]

    def found(nulls: pa.Array) -> list[dict[str, Any]]:
        own, its = (nulls, keys) if of_labels else (keys, nulls)
        labels, events = pa.table({"k": own, "t": [3, 4]}), pa.table({"k": its, "t": [1, 2], "b": [5, 6]})
        return features.at(labels, events).to_pylist()

    rows = found(pa.nulls(2))
    assert rows == found(pa.nulls(2, keys.type))
    # A null key is a group, as in all queries.
    assert rows[1]["sum(b) OVER (unbounded)"] is not None


def test_keys_of_queries_and_of_distinct() -> None:
    table = pa.table({"k": pa.nulls(3), "t": [1, 2, 30]})
    (first, second) = (
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count()).run(table).to_pylist()
    )
    assert (first["k"], first["count(1)"], second["count(1)"]) == (None, 2, 1)
    assert wk.distinct("k", time="t", within=5).run(table)["t"].to_pylist() == [1, 30]


@pytest.mark.parametrize("way", [run, stream])
@pytest.mark.parametrize("exclusive", [False, True])
@pytest.mark.parametrize("kind", ["gaps", "marks", "between"])
def test_columns_that_windows_read(kind: str, exclusive: bool, way: Callable[..., pa.Table]) -> None:
    """As one of nulls of the type that they have to have."""
    typed = pa.int64() if kind == "gaps" else pa.bool_()
    windows = {
        "gaps": wk.session("x"),
        "marks": wk.punctuation("x", at="start" if exclusive else "end"),
        "between": wk.between("x", "x", exclusive=exclusive),
    }[kind]
    emit = wk.emit(early=wk.on("x")) if kind == "marks" else None
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.count(), emit=emit)
    found, wanted = (way(query, pa.table({**TIMES, "x": pa.nulls(4, of)})) for of in (pa.null(), typed))
    assert found.schema == wanted.schema
    assert in_order(found.to_pylist()) == in_order(wanted.to_pylist())


def test_weights() -> None:
    """A null is none, and of no rows none is missing."""
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count(), weight="w")
    table = pa.table({**TIMES, "w": pa.nulls(4)})
    assert query.run(table.slice(0, 0)).num_rows == 0
    with pytest.raises(wk.InvalidValue, match="weight: row 0 has null in column 'w'"):
        query.run(table)


WITHOUT_TIMES = pa.table({"k": ["a", "b"], "t": pa.nulls(2), "v": [1, 2]})
TIMED = pa.table({"k": ["a", "b"], "t": pa.array([0, 60], pa.timestamp("s", "UTC")), "v": [1, 2]})
RECENT = wk.rolling(by="k", time="t", aggs=wk.sum("v").over("1 day").alias("x"))


def with_times(kind: pa.DataType) -> pa.Table:
    return WITHOUT_TIMES.set_column(1, "t", pa.nulls(2, kind))


def of_floats(table: pa.Table) -> pd.DataFrame:
    """Return a table as pandas makes it of a file, or of empty lists: with floats where there is no value."""
    frame = table.to_pandas()
    return frame.astype({field.name: float for field in table.schema if pa.types.is_null(field.type)})


FORMS: list[Callable[[pa.Table], Any]] = [lambda table: table, pa.Table.to_pandas, pl.DataFrame]


@pytest.mark.parametrize("form", [*FORMS, of_floats], ids=["pyarrow", "pandas", "polars", "floats"])
@pytest.mark.parametrize("rows", [0, 2])
class TestTimesOfNoType:
    """An empty day: results are those of a time column that has a type."""

    @pytest.mark.parametrize("windows", [wk.tumbling("1 day"), wk.session("1 hour"), wk.tumbling(5)], ids=str)
    def test_queries(self, form: Callable[[pa.Table], Any], rows: int, windows: wk.Window) -> None:
        query = wk.query(by="k", time="t", windows=windows, aggs=wk.sum("v"))
        kind = pa.int64() if windows == wk.tumbling(5) else pa.timestamp("us")
        data = form(WITHOUT_TIMES.slice(0, rows))
        result = query.run(data, result="pyarrow")
        assert result.num_rows == 0
        assert result.schema.types[1:] == query.schema(with_times(kind)).types[1:]
        assert query.schema(data).types[1:] == result.schema.types[1:]

    def test_rows_and_labels(self, form: Callable[[pa.Table], Any], rows: int) -> None:
        data = form(WITHOUT_TIMES.slice(0, rows))
        wanted = RECENT.run(with_times(pa.timestamp("us")).slice(0, rows))["x"].to_pylist()
        assert RECENT.run(data, result="pyarrow")["x"].to_pylist() == wanted
        events = form(TIMED)
        assert len(RECENT.at(data, events)) == rows
        assert RECENT.at(form(TIMED), data, result="pyarrow")["x"].to_pylist() == [None, None]

    def test_duplicates_and_joins(self, form: Callable[[pa.Table], Any], rows: int) -> None:
        data, other = form(WITHOUT_TIMES.slice(0, rows)), form(TIMED)
        assert len(wk.distinct("k", time="t", within="1 day").run(data)) == rows
        join = wk.join(by="k", left_time="t", right_time="t", within="1 day", how="left")
        assert join.run(other, data, result="pyarrow")["t_right"].to_pylist() == [None, None]
        assert join.run(other, data, result="pyarrow").schema.field("t_right").type.tz == "UTC"
        assert len(join.run(data, other)) == rows
        assert len(join.run(data, data)) == rows


class TestFloatsOfPandas:
    """Columns of nothing but missing values are as those of None, where floats would be refused."""

    FRAME = TIMED.to_pandas().assign(x=np.nan, y=None)
    EMPTY = pd.DataFrame({"k": [], "t": [], "v": [], "x": [], "y": []})

    @pytest.mark.parametrize(
        "given",
        [
            lambda x: {"aggs": wk.sum("v").where(x).alias("n")},
            lambda x: {"windows": wk.session(x)},
            lambda x: {"windows": wk.punctuation(x, at="end")},
            lambda x: {"windows": wk.between(x, x)},
        ],
        ids=["filter", "gap", "mark", "between"],
    )
    def test_queries(self, given: Callable[[str], dict[str, Any]]) -> None:
        def query(x: str) -> wk.Query:
            asked = {"by": "k", "time": "t", "windows": wk.tumbling("1 day"), "aggs": wk.count().alias("n")}
            return wk.query(**{**asked, **given(x)})

        found, wanted = query("x").run(self.FRAME), query("y").run(self.FRAME)
        assert_frame_equal(found, wanted)
        assert query("x").schema(self.FRAME) == query("y").schema(self.FRAME)
        assert len(query("x").run(self.EMPTY)) == 0
        assert self.FRAME["x"].dtype == float
        one = self.FRAME.assign(x=[np.nan, 1.5])
        with pytest.raises(wk.InvalidType, match="'x'"):
            query("x").run(one)

    def test_weights(self) -> None:
        query = wk.query(by=[], time="t", windows=wk.tumbling("1 day"), aggs=wk.count(), weight="x")
        assert len(query.run(self.EMPTY)) == 0
        with pytest.raises(wk.InvalidValue, match="weight: row 0 has null in column 'x'"):
            query.run(self.FRAME)

    def test_filters_of_rolling_aggregates(self) -> None:
        found, wanted = (
            wk.rolling(by="k", time="t", aggs=wk.count().where(x).over("1 day").alias("n")).run(self.FRAME)
            for x in ("x", "y")
        )
        assert_frame_equal(found, wanted)

    @pytest.mark.parametrize(
        "missing", [[np.nan] * 2, pd.Categorical([None] * 2)], ids=["floats", "categories"]
    )
    @pytest.mark.parametrize("how", ["inner", "left", "right", "full", "semi", "anti"])
    def test_keys_of_two_tables(self, missing: Any, how: Any) -> None:
        other = TIMED.to_pandas()
        own, none = other.assign(k=missing), other.assign(k=None)
        join = wk.join(by="k", left_time="t", right_time="t", within="1 day", how=how)
        for sides in ((own, other), (other, own)):
            wanted = join.run(*(none if side is own else side for side in sides))
            found = join.run(*sides)
            assert found.astype({"k": object}).equals(wanted)
            assert join.schema(*sides).field("k").type in (pa.null(), pa.string())
        assert RECENT.at(own, other)["x"].isna().all()
        assert RECENT.at(other, own)["x"].isna().all()
        assert RECENT.at(own, other)["k"].dtype == own["k"].dtype

    def test_results_keep_their_types(self) -> None:
        own = self.FRAME.assign(k=np.nan)
        join = wk.join(by="k", left_time="t", right_time="t", within="1 day", how="full")
        assert join.run(own, own)["k"].dtype == float
        aggs = [wk.sum("x"), wk.max("x"), wk.first("x"), wk.collect_list("x"), wk.mean("x")]
        query = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=aggs)
        assert query.run(own).dtypes.equals(query.run(own.assign(k=1.0, x=2.0)).dtypes)

    def test_batches_of_a_stream(self) -> None:
        query = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=wk.count())
        op = query.operator(order="out-of-order", progress=wk.delay("1 day"))
        op.push(TIMED)
        assert op.push(self.EMPTY).num_rows == 0
        op.push(self.FRAME.assign(k=np.nan))
        assert sorted(op.close()["count(1)"].to_pylist()) == [1, 1, 2]


def test_a_stream_of_no_type_says_what_to_write() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=wk.sum("v"))
    with pytest.raises(wk.InvalidType, match=r"'t' is null; .* or give the operator a schema"):
        query.operator(order="in-order").push(WITHOUT_TIMES)


@pytest.mark.parametrize("form", [*FORMS, pa.Table.to_reader], ids=["pyarrow", "pandas", "polars", "reader"])
def test_rows_without_a_time_are_said(form: Callable[[pa.Table], Any]) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=wk.sum("v"))
    with pytest.warns(UserWarning, match="none of its 2 rows has a time in column 't'") as warned:
        query.run(form(with_times(pa.timestamp("us"))))
    assert warned[0].filename == __file__
    with pytest.warns(UserWarning, match="none of its 2 rows has a time in column 't'") as warned:
        query.batches(form(with_times(pa.timestamp("us"))))
    assert warned[0].filename == __file__
    some = pa.table({"k": ["a", "b"], "t": pa.array([1, None], pa.timestamp("us")), "v": [1, 2]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(query.run(form(some))) == 1
        assert query.batches(form(some)).read_all().num_rows == 1
        query.run(form(some.slice(0, 0)))
    if form is not pa.Table.to_reader:
        assert "1 of 2 rows have no time, and are in no window" in query.explain(form(some))
    assert "have no time" not in query.explain(form(some.slice(0, 1)))


@pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
def test_keys_in_dictionaries_of_nulls(how: Any) -> None:
    join = wk.join(by="k", left_time="t", right_time="t", within=1, how=how)
    nulls = pa.array([None]).dictionary_encode()
    for left, right in [([None], ["a"]), (["a"], [None]), ([None], [None])]:
        plain = [pa.table({"k": pa.array(keys, pa.string()), "t": [1]}) for keys in (left, right)]
        coded = [
            table.set_column(0, "k", nulls if keys == [None] else table["k"].dictionary_encode())
            for table, keys in zip(plain, (left, right), strict=True)
        ]
        assert join.run(*coded).to_pylist() == join.run(*plain).to_pylist()


def test_zeros_of_nothing_but_nulls() -> None:
    """An empty day ends no job: there is nothing else to fill with."""
    table = pa.table({"k": [1, 1], "t": [1, 3], "v": pa.nulls(2)})
    aggs = [wk.max("v").alias("m"), wk.count().alias("n")]
    query = wk.query(by="k", time="t", windows=wk.tumbling(1), aggs=aggs, fill="zero")
    result = query.run(table)
    assert (result["m"].to_pylist(), result["n"].to_pylist()) == ([None] * 3, [1, 0, 1])


def test_gaps_say_of_which_type_times_are() -> None:
    table = pa.table({"k": ["a"], "t": pa.nulls(1), "g": pa.array([5], pa.duration("s"))})
    query = wk.query(by="k", time="t", windows=wk.session("g"), aggs=wk.count())
    with pytest.warns(UserWarning, match="has a time"):
        assert query.run(table).schema.field("window_start").type == pa.timestamp("us")
    assert query.schema(table).field("window_start").type == pa.timestamp("us")


def test_rows_of_lazy_frames_without_a_time_are_said() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=wk.sum("v"))
    lazy = query.run(pl.LazyFrame(with_times(pa.timestamp("us"))))
    with pytest.warns(UserWarning, match="data: none of its 2 rows has a time in column 't'"):
        lazy.collect()


@pytest.mark.parametrize("form", [*FORMS, pa.Table.to_reader], ids=["pyarrow", "pandas", "polars", "reader"])
def test_rows_of_two_tables_without_a_time_are_said(form: Callable[[pa.Table], Any]) -> None:
    none, some = with_times(pa.timestamp("us", "UTC")), TIMED.slice(0, 1)
    join = wk.join(by="k", left_time="t", right_time="t", within="1 day", how="left")
    calls: list[tuple[str, Callable[..., Any]]] = [
        ("data: .*; rows without a time share one moment", lambda none, _: RECENT.run(none)),
        ("labels: .*; frames of labels without a time are empty", RECENT.at),
        ("events: .*; events without a time are in no frame", lambda none, some: RECENT.at(some, none)),
        ("left: .*; rows without a time have no partner", join.run),
        ("right: .*; rows without a time have no partner", lambda none, some: join.run(some, none)),
        ("left: .*; rows without a time have no partner", join.batches),
    ]
    for message, call in calls:
        with pytest.warns(UserWarning, match=message) as warned:
            call(form(none), form(some))
        assert [each.filename for each in warned] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call(form(pa.concat_tables([some, TIMED.slice(1)])), form(some))
            call(form(none.slice(0, 0)), form(some))
