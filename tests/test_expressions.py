"""Expressions of Polars and pyarrow in place of names of columns, against results of Polars and DuckDB."""

from __future__ import annotations

import pickle
import re
from collections.abc import Callable
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

TABLE = pa.table(
    {
        "k": ["A", "b", "a", None, "B", "a"],
        "t": [1, 2, 13, 4, 5, 15],
        "v": [1.5, 2.0, None, 4.0, float("nan"), 8.0],
        "n": pa.array([1, 2, 3, 4, 5, 6], pa.int8()),
    }
)
LOWER = {"polars": pl.col("k").str.to_lowercase().alias("low")}
LOWER["pyarrow"] = wk.expr(pc.utf8_lower(pc.field("k")), name="low")
DOUBLE = {"polars": (pl.col("v") * 2).alias("double"), "pyarrow": wk.expr(pc.field("v") * 2, name="double")}
LARGE = {"polars": (pl.col("n") > 1).alias("large"), "pyarrow": wk.expr(pc.field("n") > 1, name="large")}
LATER = {"polars": (pl.col("t") + 5).alias("later"), "pyarrow": wk.expr(pc.field("t") + 5, name="later")}
BOTH = pytest.mark.parametrize("library", ["polars", "pyarrow"])


def one(**changed: Any) -> wk.Query:
    return wk.query(**{"by": [], "time": "t", "windows": wk.tumbling(10), "aggs": wk.count()} | changed)


def every(library: str) -> wk.Query:
    """A query with an expression in every place that takes one."""
    return one(
        by=LOWER[library],
        time=LATER[library],
        aggs=[wk.sum(DOUBLE[library]), wk.max("n").where(LARGE[library]), wk.count()],
    )


def rows(data: Any) -> list[str]:
    table = data if isinstance(data, pa.Table) else pa.table(data)
    return sorted(map(repr, table.to_pylist()))


FORMS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "chunks": lambda table: pa.concat_tables([table.slice(at, 1) for at in range(table.num_rows)]),
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(max_chunksize=2),
    "polars": pl.from_arrow,
    "pandas": lambda table: table.to_pandas(types_mapper=pd.ArrowDtype),
    "duckdb": lambda table: duckdb.from_arrow(table),
}


@BOTH
@pytest.mark.parametrize("form", FORMS)
def test_results_are_those_of_duckdb_on_tables_of_every_library(library: str, form: str) -> None:
    query = every(library)
    found = query.run(FORMS[form](TABLE), result="pyarrow")
    given = TABLE
    own = duckdb.sql("""
        select lower(k) as low, (t + 5) // 10 * 10 as window_start, (t + 5) // 10 * 10 + 10 as window_end,
            sum(v * 2) as "sum(double)", max(n) filter (n > 1) as "max(n) FILTER (WHERE large)",
            count(*) as "count(1)"
        from given group by all
        """)
    assert given is TABLE
    assert rows(found) == rows(own.to_arrow_table())
    assert found.schema.names == query.columns
    assert query.schema(TABLE).names == query.columns
    assert query.batches(FORMS[form](TABLE)).read_all().num_rows == found.num_rows


@BOTH
def test_the_result_has_the_library_of_the_data(library: str) -> None:
    assert isinstance(every(library).run(pl.from_arrow(TABLE)), pl.DataFrame)
    assert isinstance(every(library).run(TABLE.to_pandas()), pd.DataFrame)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "B", "b", None]),
            st.integers(-50, 50),
            st.one_of(st.none(), st.floats(-1e6, 1e6)),
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(1, 30),
)
def test_an_expression_is_its_column_computed_before(given: list[tuple[Any, ...]], size: int) -> None:
    """For expressions of rows by themselves, and of those before."""
    columns = dict(zip("ktv", map(list, zip(*given, strict=True)), strict=True))
    frame = pl.DataFrame(columns, schema={"k": pl.String, "t": pl.Int64, "v": pl.Float64})
    low, step = pl.col("k").str.to_lowercase(), pl.col("v").diff().over("k").alias("step")
    query = one(
        by=low.alias("low"), windows=wk.tumbling(size), aggs=[wk.sum(step), wk.count().where(pl.col("v") > 0)]
    )
    before = frame.with_columns(low.alias("low"), step, (pl.col("v") > 0).alias("positive"))
    plain = one(by="low", windows=wk.tumbling(size), aggs=[wk.sum("step"), wk.count().where("positive")])
    expected = plain.run(before).rows()
    assert sorted(map(repr, query.run(frame).rows())) == sorted(map(repr, expected))
    chunks = frame.to_arrow().to_reader(max_chunksize=3)
    assert rows(query.run(chunks)) == rows(query.run(frame.to_arrow()))


def test_names() -> None:
    """Aliases, or else texts; keys have the names that Polars gives them."""
    assert wk.sum(pl.col("v")) == wk.sum("v") == wk.sum(pc.field("v"))
    assert type(wk.sum(pl.col("v")).columns[0]) is str
    assert wk.sum(pl.col("v") * 2).name == f"sum({pl.col('v') * 2})"
    assert wk.sum((pl.col("v") * 2).alias("w")).name == "sum(w)"
    assert wk.sum(pl.col("v").alias("w")).name == "sum(w)"
    assert wk.sum(pc.field("v") * 2).name == f"sum({pc.field('v') * 2})"
    assert wk.sum(wk.expr(pl.col("v") * 2, name="w")).name == "sum(w)"
    assert wk.sum("v").where(pc.field("n") > 1).name == "sum(v) FILTER (WHERE (n > 1))"
    assert wk.sum("v").where(pl.col("n") > 1).alias("x").name == "x"
    assert one(by=pl.col("k").str.to_lowercase()).columns[0] == "k"
    assert one(by=[pl.col("k"), pc.field("n") + 1]).columns[:2] == ["k", "add_checked(n, 1)"]
    assert wk.arg_max(pl.col("v") * 2, by=pc.field("n")).columns[1] == "n"
    norm = wk.aggregate("norm", lift=lambda v: v, combine=pc.add, lower=lambda v: v)
    assert norm(pc.field("v") * 2).name == "norm(multiply_checked(v, 2))"


def test_a_key_may_replace_its_column() -> None:
    found = one(by=pl.col("k").str.to_lowercase(), aggs=wk.count().alias("n")).run(TABLE)
    assert {row["k"]: row["n"] for row in found.to_pylist() if row["window_start"] == 0} == {
        "a": 1,
        "b": 2,
        None: 1,
    }
    assert found.schema.field("k").type == pa.string()


def test_queries_with_expressions_are_values() -> None:
    query = every("polars")
    assert query == every("polars") != every("pyarrow")
    assert hash(query) == hash(every("polars"))
    assert pickle.loads(pickle.dumps(query)) == query
    assert pickle.loads(pickle.dumps(every("pyarrow"))) == every("pyarrow")
    assert [str(each) for each in query.expressions] == ["low", "later", "double", "large"]
    assert wk.sum((pl.col("v") * 3).alias("double")) != wk.sum(DOUBLE["polars"])
    assert wk.sum(DOUBLE["polars"]) != wk.sum("double")
    assert "sum(double)" in str(query)
    assert "sum(double)" in query.explain()
    assert "sum(double): double" in query.explain(TABLE)
    with pytest.raises(
        wk.InvalidType, match="column 'low' is a Polars expression, which a dict does not hold"
    ):
        query.to_dict()
    with pytest.raises(wk.InvalidValue, match="inputs: the query has expressions"):
        _ = query.inputs


def test_all_columns_are_those_that_were_there() -> None:
    """Of tables and of streams."""
    query = one(aggs=[wk.collect_rows(), wk.sum(pc.field("v") * 2)])
    collected = query.run(TABLE)["collect_rows()"].type.value_type
    assert [field.name for field in collected] == TABLE.column_names
    operator = query.operator(order="out-of-order")
    operator.push(TABLE)
    collected = operator.close()["collect_rows()"].type.value_type
    assert [field.name for field in collected] == TABLE.column_names


@BOTH
def test_rolling(library: str) -> None:
    """The rows as they were, and their values as if the columns had been there."""
    aggs = [
        wk.sum(DOUBLE[library]).over(5),
        wk.count().where(LARGE[library]).over("3 rows").alias("few"),
        wk.collect_rows().over("2 rows").alias("rows"),
    ]
    rolling = wk.rolling(by=LOWER[library], time=LATER[library], aggs=aggs)
    before = pl.from_arrow(TABLE).with_columns(*(each["polars"] for each in (LOWER, LATER, DOUBLE, LARGE)))
    names = [wk.sum("double").over(5), wk.count().where("large").over("3 rows").alias("few")]
    plain = wk.rolling(
        by="low", time="later", aggs=[*names, wk.collect_rows(*"ktvn").over("2 rows").alias("rows")]
    )
    expected = plain.run(before).drop("low", "later", "double", "large")
    found = rolling.run(TABLE)
    assert rows(found) == rows(expected.to_arrow())
    assert (
        found.schema.names
        == rolling.schema(TABLE).names
        == [*TABLE.column_names, *(each.name for each in aggs)]
    )
    assert rolling.run(pl.from_arrow(TABLE)).columns == found.schema.names
    assert list(rolling.run(TABLE.to_pandas()).columns) == found.schema.names
    assert "sum(double) OVER (5): double" in rolling.explain(TABLE)
    assert "sum(double)" in rolling.explain()
    with pytest.raises(wk.InvalidType, match="a dict does not hold"):
        rolling.to_dict()
    labels = pa.table({"low": ["a", "b", "c"], "later": [30, 8, 9]})
    two = aggs[:2]
    asked = wk.rolling(by=LOWER[library], time=LATER[library], aggs=two).at(labels, TABLE)
    assert asked.equals(
        wk.rolling(by="low", time="later", aggs=names).at(
            labels,
            before.to_arrow().cast(
                pa.schema(
                    [
                        field.with_type(pa.string()) if pa.types.is_large_string(field.type) else field
                        for field in before.to_arrow().schema
                    ]
                )
            ),
        )
    )


@BOTH
def test_a_stream_computes_them_of_each_batch(library: str) -> None:
    """Late rows come back as they were pushed, and a snapshot continues."""
    query = every(library)
    operator = query.operator(order="out-of-order")
    found = [operator.push(TABLE.slice(0, 2)), operator.push(TABLE.slice(2).select(["v", "n", "t", "k"]))]
    operator = wk.Operator.restore(operator.snapshot(), query)
    found += [
        operator.advance(10),
        operator.push({"t": [2], "k": ["late"], "v": [1.0], "n": [1]} and TABLE.slice(0, 1)),
    ]
    assert operator.take_late().drop_columns("late_reason").equals(TABLE.slice(0, 1).combine_chunks())
    assert operator.add(one(by=LOWER[library], time=LATER[library], aggs=wk.sum(DOUBLE[library])))
    operator.remove("q2")
    found += [operator.close()]
    assert rows(pa.concat_tables([each.select(query.columns) for each in found if each.num_rows])) == rows(
        query.run(TABLE)
    )
    with_schema = query.operator(order="out-of-order", schema=TABLE.schema)
    assert with_schema.schema.names == [*query.columns, "update"]


def test_slices_of_expressions_are_pushed() -> None:
    query = every("pyarrow")
    operator = query.operator(order="out-of-order", schema=TABLE)
    operator.push_slices(query.slices(TABLE))
    assert rows(operator.close().select(query.columns)) == rows(query.run(TABLE))


def test_a_clash_of_names_is_refused() -> None:
    with pytest.raises(
        wk.InvalidValue, match="a Polars expression and a column that is read as it is are both called 'k'"
    ):
        one(by=pl.col("k").str.to_lowercase(), aggs=wk.count_distinct("k"))
    with pytest.raises(wk.InvalidValue, match="and another expression are both called 'w'"):
        one(aggs=[wk.sum((pl.col("v") * 2).alias("w")), wk.max((pl.col("v") * 3).alias("w"))])
    with pytest.raises(wk.InvalidValue, match="both called 'v'"):
        wk.rolling(by="k", time="t", aggs=[wk.sum((pl.col("v") * 2).alias("v")).over(5), wk.sum("v").over(6)])
    operator = one(aggs=wk.sum((pl.col("v") * 2).alias("v"))).operator()
    with pytest.raises(
        wk.InvalidValue, match="batch: it has a column 'v', which is the name of the Polars expression"
    ):
        operator.push(TABLE)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([1]), pa.array([1])], names=["t", "w", "w"])
    with pytest.raises(wk.InvalidValue, match="it has 2 columns 'w'"):
        one(aggs=wk.sum(wk.expr(pc.field("t") * 2, name="w"))).run(twice)


@pytest.mark.parametrize(
    ("expression", "error", "message"),
    [
        (pl.col("v").sum(), wk.InvalidValue, "does not make one value for each row"),
        (pl.col("v").filter(pl.col("v") > 1), wk.InvalidValue, "does not make one value for each row"),
        (pl.col("vv") * 2, wk.UnknownColumn, "reads column 'vv'; there are k, t, v, n; did you mean 'v'?"),
        (pc.field("vv") * 2, wk.UnknownColumn, "reads column 'vv'; there are k, t, v, n; did you mean 'v'?"),
        (pl.col("k") * 2, wk.InvalidValue, "cannot be evaluated: arithmetic on"),
        (pc.field("k") * 2, wk.InvalidType, "cannot be evaluated: Function 'multiply_checked' has no kernel"),
        (pc.field("n") * 100, wk.InvalidValue, "cannot be evaluated: overflow"),
        (wk.expr("v * 2"), wk.InvalidType, "'v \\* 2' is an expression in SQL, which Spark evaluates"),
        (
            pl.col("n").map_batches(lambda n: n.cast(pl.String) if len(n) else n),
            wk.InvalidValue,
            "set `return_dtype` to the proper datatype",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused(expression: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        one(aggs=wk.count(expression)).run(TABLE)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"aggs": wk.sum("v * 2")}, "v * 2"),
        ({"aggs": wk.sum("v").where("n>1")}, "n>1"),
        ({"by": "upper(k)"}, "upper(k)"),
    ],
)
def test_a_text_that_computes_is_told_how_to(query: dict[str, Any], text: str) -> None:
    meant = "a text names a column, and expressions are those of Polars and pyarrow, or in Spark wk.expr"
    with pytest.raises(wk.UnknownColumn, match=re.escape(f"{meant}({text!r})")):
        one(**query).run(TABLE)


def test_one_row_does_not_hide_an_aggregate() -> None:
    with pytest.raises(wk.InvalidValue, match="does not make one value for each row"):
        one(aggs=wk.sum(pl.col("v").sum())).run(TABLE.slice(0, 1))


def test_literals_are_repeated() -> None:
    found = one(aggs=[wk.sum(pl.lit(2)).alias("p"), wk.sum(pc.scalar(3)).alias("a")]).run(TABLE)
    assert found.select(["p", "a"]).to_pydict() == {"p": [8, 4], "a": [12, 6]}


def test_rows_are_counted_where_no_column_is_read() -> None:
    found = one(aggs=wk.max(pl.int_range(pl.len()).alias("at"))).run(TABLE)
    assert found["max(at)"].to_pylist() == [4, 5]


@pytest.mark.parametrize(
    "expression",
    [
        pl.col("v").shift(),
        pl.col("v") / pl.col("v").sum(),
        pl.col("v").cum_sum().alias("x"),
        pl.col("n").over("k"),
    ],
)
def test_streams_refuse_what_looks_at_other_rows(expression: pl.Expr) -> None:
    with pytest.raises(wk.InvalidValue, match="looks at other rows than its own"):
        one(aggs=wk.sum(expression)).operator()


def test_a_query_that_is_added_has_the_expressions_of_the_stream() -> None:
    operator = one().operator()
    operator.push(TABLE.sort_by("t"))
    with pytest.raises(wk.InvalidValue, match="only expressions that the operator's queries have"):
        operator.add(one(aggs=wk.sum(pc.field("v") * 2)))


def test_malformed_data_is_refused_before_it_is_computed_with() -> None:
    bad = pa.table({"t": [1], "k": pa.array([b"\xff"]).view(pa.string())})
    with pytest.raises(wk.InvalidValue, match=r"column 'k': malformed Arrow data: .*Invalid UTF8"):
        one(by=pl.col("k").str.to_lowercase()).run(bad, validate=True)


@pytest.mark.parametrize(
    "call",
    [
        lambda: wk.sum(3),
        lambda: one(by=[3]),
        lambda: one(time=None),
        lambda: wk.expr(3),
        lambda: wk.expr(pl.col("v"), name=3),
        lambda: wk.count().where(object()),
    ],
)
def test_other_things_are_no_columns(call: Callable[[], object]) -> None:
    with pytest.raises(wk.InvalidType, match=r"is (an?) (int|NoneType|object)"):
        call()


@pytest.mark.parametrize("several", [pl.all(), pl.col("v", "n"), pl.col("^.*$")])
def test_an_expression_is_of_one_column(several: pl.Expr) -> None:
    with pytest.raises(wk.InvalidValue, match="may be of several columns"):
        wk.sum(several)


@pytest.mark.parametrize(
    "make",
    [
        wk.punctuation,
        wk.on,
        lambda given: wk.between(enter=given, leave="b"),
        lambda given: wk.between(enter="a", leave=given),
        lambda given: wk.join(by=given, left_time="t", right_time="u", within=5),
        lambda given: wk.join(by=["k", given], left_time="t", right_time="u", within=5),
        lambda given: wk.join(by="k", left_time=given, right_time="u", within=5),
        lambda given: wk.distinct(given, time="t", within=5),
        lambda given: wk.distinct(["k", given], time="t", within=5),
        lambda given: wk.distinct("k", time=given, within=5),
    ],
)
@pytest.mark.parametrize("expression", [pl.col("x") > 1, pc.field("x")], ids=["polars", "pyarrow"])
def test_where_only_names_are_taken_the_error_says_how_to_compute_the_column(
    make: Any, expression: Any
) -> None:
    with pytest.raises(wk.InvalidType, match=r"compute the column first, by (df\.with|table\.append)_column"):
        make(expression)


COMPUTED = wk.expr("v * 2", name="double")
NAMED_ONLY: dict[str, Callable[[], object]] = {
    "join, by": lambda: wk.join(by=COMPUTED, left_time="t", right_time="t", within=1),
    "join, by of one side": lambda: wk.join(by={"k": COMPUTED}, left_time="t", right_time="t", within=1),
    "join, time": lambda: wk.join(by="k", left_time="t", right_time=COMPUTED, within=1),
    "join, columns": lambda: wk.join(by="k", left_time="t", right_time="t", within=1, left_columns=COMPUTED),
    "distinct, by": lambda: wk.distinct(COMPUTED, time="t", within=1),
    "distinct, time": lambda: wk.distinct("k", time=COMPUTED, within=1),
    "delay, source": lambda: wk.delay(1, source=COMPUTED),
    "on": lambda: wk.on(COMPUTED),
    "between": lambda: wk.between("hot", COMPUTED),
    "alias": lambda: wk.sum("v").alias(COMPUTED),
}


@pytest.mark.parametrize("call", NAMED_ONLY.values(), ids=NAMED_ONLY)
def test_expressions_are_refused_where_columns_are_named(call: Callable[[], object]) -> None:
    with pytest.raises(wk.InvalidType, match="'double' is an expression; here a column is given by its name"):
        call()
