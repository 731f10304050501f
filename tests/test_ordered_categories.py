"""Dictionaries with an order of their own: refused where that would decide, kept where they pass through."""

from __future__ import annotations

from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk

SIZES = ["small", "medium", "large"]
VALUES = ["medium", "large", "small", "large"]
ORDERED = pa.DictionaryArray.from_arrays(pa.array([1, 2, 0, 2], pa.int8()), pa.array(SIZES), ordered=True)
TABLE = pa.table({"t": [1, 2, 3, 4], "size": ORDERED, "v": [1, 2, 3, 4]})
PANDAS = pd.DataFrame(
    {"t": [1, 2, 3, 4], "size": pd.Categorical(VALUES, SIZES, ordered=True), "v": [1, 2, 3, 4]}
)
POLARS = pl.DataFrame({"t": [1, 2, 3, 4], "size": VALUES, "v": [1, 2, 3, 4]}).with_columns(
    pl.col("size").cast(pl.Enum(SIZES))
)
EVERY = {"pyarrow": TABLE, "pandas": PANDAS, "polars": POLARS}
ENUM = "enum ('small', 'medium', 'large')"

REFUSED = {
    "min": wk.min("size"),
    "max": wk.max("size"),
    "min_count": wk.min_count("size"),
    "max_count": wk.max_count("size"),
    "arg_min": wk.arg_min("v", "size"),
    "arg_max": wk.arg_max("v", "size"),
    "m4": wk.m4("size"),
    "m4_times": wk.m4("size", times=True),
    "quantile_disc": wk.quantile("size", 0.5, discrete=True),
    "approx_quantile": wk.approx_quantile("size", 0.5),
    # Of values that are equally frequent, the least comes first.
    "mode": wk.mode("size"),
    "top_k": wk.top_k("size", 2),
    "frequent": wk.frequent("size", 0.1),
    "collect_set": wk.collect_set("size"),
}


def query(*aggs: wk.Aggregate, by: Any = ()) -> wk.Query:
    return wk.query(by=by, time="t", windows=wk.tumbling(10), aggs=aggs)


@pytest.mark.parametrize("data", EVERY.values(), ids=EVERY)
@pytest.mark.parametrize(("function", "aggregate"), REFUSED.items(), ids=REFUSED)
def test_where_order_decides_it_is_refused(function: str, aggregate: wk.Aggregate, data: Any) -> None:
    said = (
        f"aggs: column 'size' is a dictionary with an order of its own, by which {function} does not compare"
    )
    asked = query(wk.count(), aggregate)
    for call in (asked.run, asked.schema, asked.explain, lambda data: asked.operator(schema=data)):
        with pytest.raises(wk.InvalidType, match=said):
            call(data)
    op = query(wk.count()).operator(schema=data)
    with pytest.raises(wk.InvalidType, match=said):
        op.add(asked)


@pytest.mark.parametrize("data", EVERY.values(), ids=EVERY)
def test_what_the_error_advises_works(data: Any) -> None:
    """Codes are in the order of the categories."""
    codes = {
        "pyarrow": lambda: TABLE.set_column(1, "size", ORDERED.indices),
        "pandas": lambda: PANDAS.assign(size=PANDAS["size"].cat.codes),
        "polars": lambda: POLARS.with_columns(pl.col("size").to_physical()),
    }
    (form,) = [name for name, each in EVERY.items() if each is data]
    result = query(wk.max("size").alias("most"), wk.min("size").alias("least")).run(
        codes[form](), result="pyarrow"
    )
    assert [SIZES[code] for code in (result["most"][0].as_py(), result["least"][0].as_py())] == [
        "large",
        "small",
    ]


def test_without_an_order_values_are_compared() -> None:
    for data in (
        TABLE.set_column(1, "size", ORDERED.cast(pa.string())),
        TABLE.set_column(1, "size", ORDERED.cast(pa.string()).dictionary_encode()),
        PANDAS.assign(size=PANDAS["size"].cat.as_unordered()),
        POLARS.with_columns(pl.col("size").cast(pl.Categorical())),
    ):
        result = query(wk.max("size").alias("most"), wk.min("size").alias("least")).run(
            data, result="pyarrow"
        )
        assert result.select(["most", "least"]).to_pylist() == [{"most": "small", "least": "large"}]


PASSING = [
    wk.first("size").alias("first"),
    wk.last("size", ignore_nulls=True).alias("last"),
    wk.arg_max("size", "v").alias("at"),
]


def test_values_that_pass_through_keep_their_categories() -> None:
    wanted = {"first": "medium", "last": "large", "at": "large"}
    counted = wk.count_distinct("size").alias("n")
    frame = query(*PASSING, counted).run(PANDAS)
    for name, value in wanted.items():
        assert frame[name].dtype == PANDAS["size"].dtype
        assert frame[name][0] == value
    assert frame["n"][0] == 3
    found = query(*PASSING, counted).run(POLARS)
    for name, value in wanted.items():
        assert found[name].dtype == pl.Enum(SIZES)
        assert found[name][0] == value
    assert query(*PASSING).run(TABLE).select(list(wanted)).to_pylist() == [wanted]


def relation() -> Any:
    rows = ", ".join(f"({at}, '{value}', {at})" for at, value in enumerate(VALUES, start=1))
    return duckdb.sql(f"select t, size::{ENUM} as size, v from (values {rows}) as rows(t, size, v)")


def test_enums_of_duckdb_have_an_order() -> None:
    with pytest.raises(wk.InvalidType, match="by which max does not compare"):
        query(wk.max("size")).run(relation())
    with pytest.raises(wk.InvalidType, match="by which max does not compare"):
        query(wk.max("size")).operator().push(relation())
    found = query(wk.last("size").alias("last"), by="size").run(relation(), result="pyarrow")
    assert sorted(found["last"].to_pylist()) == sorted(SIZES)
    op = query(wk.last("size").alias("last")).operator()
    op.push(relation())
    assert op.close()["last"].to_pylist() == ["large"]


def test_keys_keep_their_order() -> None:
    frame = query(wk.count().alias("n"), by="size").run(PANDAS).sort_values("size")
    assert frame["size"].tolist() == SIZES
    assert frame["n"].tolist() == [1, 1, 2]
    found = query(wk.count().alias("n"), by="size").run(POLARS).sort("size")
    assert found["size"].to_list() == SIZES
    assert found["n"].to_list() == [1, 1, 2]


def test_lists_of_categories_keep_them_in_polars() -> None:
    lists = [wk.collect_list("size").alias("list"), wk.collect_rows("size", "v").alias("rows")]
    found = query(*lists).run(POLARS)
    kind = pl.Enum(SIZES)
    assert found.schema["list"] == pl.List(kind)
    assert found.schema["rows"] == pl.List(pl.Struct({"size": kind, "v": pl.Int64}))
    assert found["list"].to_list() == [VALUES]
    assert found["rows"][0].struct.field("size").to_list() == VALUES
    rolled = wk.rolling(by=[], time="t", aggs=wk.collect_list("size").over(10).alias("list")).run(POLARS)
    assert rolled.schema["list"] == pl.List(kind)
    unordered = POLARS.with_columns(pl.col("size").cast(pl.Categorical()))
    found = query(wk.top_k("size", 1).alias("top"), wk.collect_set("size").alias("set")).run(unordered)
    assert found.schema["set"] == pl.List(pl.Categorical())
    assert found["top"].to_list() == [[{"value": "large", "count": 2}]]


def test_an_order_within_structs_and_lists_is_refused_too() -> None:
    level = pl.Enum(["lo", "mid", "hi"])
    frame = pl.DataFrame({"t": [1, 2], "c": pl.Series(["lo", "hi"], dtype=level)}).with_columns(
        s=pl.struct("c"), l=pl.concat_list("c")
    )
    for name in ("s", "l"):
        for make in (wk.min, wk.mode, wk.collect_set):
            query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=make(name).alias("x"))
            with pytest.raises(wk.InvalidType, match=f"column '{name}' holds a dictionary with an order"):
                query.run(frame)
        query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.first(name).alias("x"))
        assert query.run(frame)["x"].to_list() == frame[name].to_list()[:1]
