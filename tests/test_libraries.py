"""Relations of DuckDB, tables of Ibis and frames of narwhals as data, and as results."""

from __future__ import annotations

from typing import Any

import duckdb
import ibis
import narwhals
import narwhals.stable.v1
import narwhals.stable.v2
import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk

TABLE = pa.table({"k": ["a", "b", "a"], "t": [1, 2, 13], "v": [1, 2, 3], "x": [0, 0, 0]})
QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("s"))
ROLLING = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(20).alias("s"))
JOIN = wk.join(by="k", left_time="t", right_time="t", within=20)
DISTINCT = wk.distinct("k", time="t", within=20)
WANTED = [("a", 0, 10, 1), ("a", 10, 20, 3), ("b", 0, 10, 2)]


def calls(data: Any) -> list[Any]:
    """The results of all calls over some data."""
    return [
        QUERY.run(data),
        ROLLING.run(data),
        ROLLING.at(data, data),
        JOIN.run(data, data),
        DISTINCT.run(data),
    ]


def in_order(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in rows)


EXPECTED = [in_order(each.to_pylist()) for each in calls(TABLE)]


class TestDuckDB:
    def test_results_are_relations(self) -> None:
        connection = duckdb.connect()
        connection.register("readings", TABLE)
        for found, wanted in zip(calls(connection.table("readings")), EXPECTED, strict=True):
            assert sorted(found.fetchall()) == wanted

    def test_they_are_of_the_datas_connection_and_leave_nothing_there(self) -> None:
        connection = duckdb.connect()
        connection.sql("CREATE TABLE readings AS SELECT 'a' AS k, unnest([1, 2]) AS t, 5 AS v")
        # A name that a table of this process might have, too.
        connection.sql("CREATE TABLE result AS SELECT 7 AS s")
        readings = connection.table("readings")
        windows = QUERY.run(readings)
        assert connection.sql("SELECT sum(s) FROM windows").fetchall() == [(10,)]
        both = windows.set_alias("w").join(readings.set_alias("r"), "w.k = r.k")
        assert len(both.fetchall()) == 2
        assert QUERY.run(QUERY.run(readings).project("k, window_start AS t, s AS v")).fetchall() == [
            ("a", 0, 10, 10)
        ]
        tables = connection.sql("SELECT table_name FROM information_schema.tables ORDER BY 1").fetchall()
        assert tables == [("readings",), ("result",)]

    def test_other_data_leads_to_one_of_the_default_connection(self) -> None:
        windows = QUERY.run(TABLE, result="duckdb")
        assert sorted(windows.fetchall()) == WANTED
        assert duckdb.sql("SELECT max(s) FROM windows").fetchall() == [(3,)]

    def test_what_duckdb_does_not_hold_is_refused(self) -> None:
        wide = TABLE.set_column(0, "k", pa.array([1, 2, 1], pa.decimal256(70, 2)))
        with pytest.raises(wk.InvalidType, match=r"result: DuckDB does not take .*use result='pyarrow'"):
            ROLLING.run(wide, result="duckdb")


class TestIbis:
    def test_results_are_tables(self) -> None:
        for found, wanted in zip(calls(ibis.memtable(TABLE)), EXPECTED, strict=True):
            assert isinstance(found, ibis.Table)
            assert in_order(found.to_pyarrow().to_pylist()) == wanted

    def test_they_go_on_as_tables(self) -> None:
        readings = ibis.memtable(TABLE)
        windows = QUERY.run(readings.filter(readings.k == "a"))
        joined = windows.join(readings, "k").filter(windows.s > 1).to_pyarrow()
        assert joined["t"].to_pylist() == [1, 13]

    def test_the_schema_is_known_without_rows(self) -> None:
        table = ibis.memtable(TABLE)
        assert QUERY.schema(table).names == QUERY.columns
        assert QUERY.run(TABLE, result="ibis").schema().names == tuple(QUERY.columns)

    def test_what_ibis_does_not_hold_is_refused(self) -> None:
        months = TABLE.append_column("m", pa.array([pa.MonthDayNano([1, 2, 3])] * 3))
        with pytest.raises(wk.InvalidType, match=r"result: Ibis does not take .*use result='pyarrow'"):
            ROLLING.run(months, result="ibis")


class TestNarwhals:
    @pytest.mark.parametrize("version", [narwhals, narwhals.stable.v1, narwhals.stable.v2])
    @pytest.mark.parametrize(
        "native",
        [TABLE, TABLE.to_pandas(), pl.DataFrame(TABLE), pl.LazyFrame(TABLE), duckdb.from_arrow(TABLE)],
        ids=lambda each: f"{type(each).__module__}.{type(each).__name__}",
    )
    def test_a_result_holds_what_that_of_the_table_within_would_be(self, native: Any, version: Any) -> None:
        data = version.from_native(native)
        for found, own, wanted in zip(calls(data), calls(native), EXPECTED, strict=True):
            assert type(found) is type(data)
            assert type(found.to_native()) is type(own)
            rows = found.to_native()
            rows = rows.collect() if isinstance(rows, pl.LazyFrame) else rows
            assert (
                sorted(pl.DataFrame(rows.collect() if isinstance(rows, pl.LazyFrame) else rows).rows())
                == wanted
            )

    def test_another_form_is_not_of_narwhals(self) -> None:
        data = narwhals.from_native(pl.LazyFrame(TABLE))
        assert isinstance(QUERY.run(data, result="polars"), pl.DataFrame)
        assert isinstance(ROLLING.at(data, data, result="pyarrow"), pa.Table)

    def test_calls_of_this_process_take_them(self) -> None:
        data = narwhals.from_native(pl.LazyFrame(TABLE))
        assert QUERY.schema(data) == QUERY.schema(pl.DataFrame(TABLE))
        assert QUERY.batches(data).read_all().num_rows == 3
        assert QUERY.explain(data) == QUERY.explain(pl.DataFrame(TABLE))
        with pytest.raises(wk.UnknownColumn, match="'v'"):
            QUERY.run(data.drop("v"))
