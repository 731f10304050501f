"""What is refused of data, and of options of runs, names the argument and what is allowed."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import windowkit as wk
from support.refused import TABLE, query, refused


class TestRun:
    @pytest.mark.parametrize("threads", [0, -1])
    def test_threads_are_at_least_one(self, threads: int) -> None:
        for run in (query().run, query().batches):
            with refused(
                wk.InvalidValue, f"threads: {threads} is out of range; threads is an int of at least 1"
            ):
                run(TABLE, threads=threads)

    def test_more_threads_than_can_be_are_no_error(self) -> None:
        assert query().run(TABLE, threads=10**30).num_rows == 2

    @pytest.mark.parametrize("threads", [1.0, "2", True])
    def test_threads_are_an_int(self, threads: Any) -> None:
        with refused(
            wk.InvalidType, f"threads: {threads!r} is a ", "; threads is an int of at least 1, or None"
        ):
            query().run(TABLE, threads=threads)

    @pytest.mark.parametrize(
        "data",
        [None, 5, "table.parquet", object(), pa.DataType, {"ts": [1]}, [TABLE], TABLE.schema],
        ids=lambda data: type(data).__name__,
    )
    def test_data_has_an_arrow_interface(self, data: Any) -> None:
        article = "an" if type(data) in (int, object) else "a"
        what = ("data: None",) if data is None else (f"data: {article} ", type(data).__name__)
        with refused(wk.InvalidType, *what, " has no Arrow interface; "):
            query().run(data)

    def test_operators_name_their_arguments_and_offer_no_spark(self) -> None:
        for argument, take in (
            ("batch", lambda given: query().operator().push(given)),
            ("schema", lambda given: query().operator(schema=given)),
        ):
            for given, what in ((5, "an int"), (None, "None")):
                if (argument, given) == ("schema", None):
                    continue
                with pytest.raises(wk.InvalidType) as error:
                    take(given)
                said = str(error.value)
                assert said.startswith(f"{argument}: {what} has no Arrow interface; {argument} is ")
                assert "Spark" not in said

    @pytest.mark.parametrize(
        "data",
        [TABLE["v"], TABLE["v"].combine_chunks(), pl.Series([1]), pa.array([{"ts": 1}, None])],
        ids=lambda data: type(data).__name__,
    )
    def test_a_column_is_no_table(self, data: Any) -> None:
        with refused(
            wk.InvalidType, "data: a ", " is a column, not a table", "; data is anything with an Arrow"
        ):
            query().run(data)

    @pytest.mark.parametrize(
        ("data", "instead"),
        [
            (pa.dataset.dataset(TABLE).scanner(), "give the dataset itself, of which only what is read is"),
            ({"ts": [1]}, "make it a table with pyarrow.table(...)"),
            ([TABLE, TABLE], "pyarrow.concat_tables(..., promote_options='permissive')"),
            ((each for each in TABLE.to_batches()), "pyarrow.RecordBatchReader.from_batches(schema, ...)"),
        ],
        ids=lambda each: type(each).__name__,
    )
    def test_what_can_be_made_a_table_is_told_how(self, data: Any, instead: str) -> None:
        with refused(wk.InvalidType, "data: a ", " has no Arrow interface; ", instead):
            query().run(data)

    def test_a_route_is_for_spark_only(self) -> None:
        with refused(
            wk.InvalidValue, "route: 'rows' is given without a Spark DataFrame; only batch DataFrames of"
        ):
            query().run(TABLE, route="rows")
        with refused(
            wk.InvalidValue, "route: 'rows' is given without a Spark DataFrame; only batch DataFrames of"
        ):
            query().explain(TABLE, route="rows")
        for call in (query().run, query().explain):
            with refused(wk.InvalidValue, "partitioner: 'hash' is given without a Spark DataFrame"):
                call(TABLE, partitioner="hash")
            with refused(wk.InvalidValue, "n: 4 is given without a Spark DataFrame"):
                call(TABLE, n=4)

    def test_each_engine_says_which_options_it_has(self) -> None:
        frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
        stream = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "isStreaming": True})()
        rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5))
        join = wk.join(by="k", left_time="t", right_time="t", within=5)
        distinct = wk.distinct("k", time="t", within=5)
        with refused(
            wk.InvalidValue,
            "n: 4 is given with a streaming DataFrame; only batch DataFrames of Spark have it",
        ):
            query().run(stream, n=4)
        with refused(
            wk.InvalidValue,
            "validate: True is given with a batch DataFrame of Spark; only tables have it; allowed",
        ):
            rolling.run(frame, validate=True)
        for call in (rolling.at, join.run):
            with refused(
                wk.InvalidValue,
                "threads: 2 is given with a batch DataFrame of Spark; only tables have it; allowed",
            ):
                call(frame, frame, threads=2)
        with refused(wk.InvalidValue, "; only tables have it; allowed are route and metrics"):
            distinct.run(frame, 2)
        for call, others in ((query().run, ()), (rolling.run, ()), (join.run, (frame,)), (distinct.run, ())):
            with refused(
                wk.InvalidValue, "result: 'pandas' is given with a batch DataFrame of Spark; its result"
            ):
                call(frame, *others, result="pandas")

    def test_an_option_of_no_engine_is_refused(self) -> None:
        with refused(wk.InvalidType, "rout: there is no such option; did you mean 'route'?"):
            query().run(TABLE, rout=None)  # type: ignore[call-overload]
        with refused(wk.InvalidType, "buckets: there is no such option; allowed are validate, threads"):
            wk.distinct("k", time="t", within=5).run(TABLE, buckets=4)  # type: ignore[call-overload]
        with refused(wk.InvalidType, "colour: there is no such option"):
            query().explain(TABLE, colour="red")  # type: ignore[call-arg]

    def test_a_spark_dataframe_is_told_by_its_class_and_takes_no_threads(self) -> None:
        # No pyspark is needed to tell, so that this stand-in will do.
        frame = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
        with refused(
            wk.InvalidValue,
            "; only tables have it; allowed are where, route, ",
        ):
            query().run(frame, threads=2)
        for ask in (query().batches, query().schema):
            with refused(
                wk.InvalidType, "data: a Spark DataFrame has no batches or schema in this process; use"
            ):
                ask(frame)
        for argument, give in (
            ("batch", query().operator().push),
            ("schema", lambda frame: query().operator(schema=frame)),
        ):
            with refused(
                wk.InvalidType, f"{argument}: a Spark DataFrame is given to an operator; operators take Arrow"
            ):
                give(frame)


class TestForeignObjects:
    def test_pandas_on_spark_is_told_how_to_become_a_spark_dataframe(self) -> None:
        # As pyspark.pandas has it: a DataFrame that offers an Arrow stream of its own.
        class DataFrame:
            __module__ = "pyspark.pandas.frame"

            def __arrow_c_stream__(self, requested_schema: object = None) -> object:
                raise AssertionError("nothing is collected")

        query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.count())
        with pytest.raises(
            wk.InvalidType, match=r"pyspark DataFrame would be collected .* call \.to_spark\(\)"
        ):
            query.run(DataFrame())

    @pytest.mark.parametrize("argument", ["windows", "aggs"])
    def test_a_spark_column_is_no_argument(self, argument: str) -> None:
        class Column:
            __module__ = "pyspark.sql.classic.column"

            def __iter__(self) -> None:
                raise TypeError("Column is not iterable")

        arguments = {
            "by": "k",
            "time": "t",
            "windows": wk.tumbling(1),
            "aggs": wk.count(),
            argument: Column(),
        }
        with pytest.raises(wk.InvalidType, match=f"{argument}: .* is a Column"):
            wk.query(**arguments)


def test_types_have_the_names_of_the_library_of_the_data() -> None:
    """And those of pyarrow again afterwards."""
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("x"))
    given = {
        pl.String: ("string", "String"),
        pl.Datetime("us", "UTC"): (r"timestamp\[us, tz=UTC\]", r"Datetime\('us', 'UTC'\)"),
        pl.List(pl.Int64): ("list<item: int64>", r"List\(Int64\)"),
        pl.Struct({"a": pl.Boolean}): ("struct<a: bool>", r"Struct\({'a': Boolean}\)"),
    }
    for kind, (of_arrow, of_polars) in given.items():
        frame = pl.DataFrame({"t": [1], "x": pl.Series([None], dtype=kind)})
        table = pa.table({"t": [1], "x": pa.nulls(1, arrow_of(kind))})
        for call in (query.run, query.schema, query.explain, query.batches):
            for data, name in ((frame, of_polars), (table, of_arrow)):
                with pytest.raises(wk.InvalidType, match=f"column 'x' of type {name}; allowed are"):
                    call(data)
    with pytest.raises(wk.InvalidType, match="column 'x' of type String; allowed"):
        query.operator(schema=pl.DataFrame({"t": [1], "x": ["a"]}))
    with pytest.raises(wk.InvalidType, match="column 'x' of type string; allowed"):
        query.operator(schema=pa.schema({"t": pa.int64(), "x": pa.string()}))


def arrow_of(kind: Any) -> pa.DataType:
    kinds = {
        pl.String: pa.string(),
        pl.Datetime("us", "UTC"): pa.timestamp("us", "UTC"),
        pl.List(pl.Int64): pa.list_(pa.int64()),
    }
    return kinds.get(kind, pa.struct({"a": pa.bool_()}))
