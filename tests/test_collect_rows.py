"""Rows of windows as lists of structs: what is in them, and what "all columns" are wherever a query runs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import windowkit as wk
from support.commands import refused, run
from support.foreign import foreign
from support.plain import column
from support.values import NESTED, VALUES, name_of
from windowkit import _native

LOG = pa.table(
    {
        "ip": ["a", "b", None, "a", "c", None, "b"],
        "t": [7, 2, 9, 2, None, 11, 13],
        "status": [200, None, None, 404, 500, 200, 301],
        "ok": [True, None, False, False, True, True, True],
    }
)

TIMED = pa.table({"ip": ["b", "a", "a", "c", "b"], "t": [2, 2, 7, 11, 13], "ok": [True, False] * 2 + [True]})


def collected(*columns: str) -> wk.Query:
    aggs = wk.collect_rows(*columns).alias("rows")
    return wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs)


def lists(result: pa.Table) -> list[Any]:
    starts = result["window_start"].to_pylist()
    order = sorted(range(result.num_rows), key=starts.__getitem__)
    return [result["rows"][row].as_py() for row in order]


def test_rows_are_in_order_of_time_and_then_in_row_order() -> None:
    assert lists(collected("status", "ip").run(LOG)) == [
        [
            {"status": None, "ip": "b"},
            {"status": 404, "ip": "a"},
            {"status": 200, "ip": "a"},
            # A row of nulls is a row.
            {"status": None, "ip": None},
        ],
        [{"status": 200, "ip": None}, {"status": 301, "ip": "b"}],
    ]


@given(
    batches=st.lists(st.lists(st.integers(0, 4), max_size=5), min_size=1, max_size=4),
    rows=st.integers(1, 4),
)
@example(batches=[[1, 2, 2], [1]], rows=2)
def test_rows_of_one_time_stay_in_order_of_arrival_whenever_windows_move(
    batches: list[list[int]], rows: int
) -> None:
    query = wk.query(
        by=[],
        time="t",
        windows=wk.sliding(wk.rows(rows), wk.rows(1)),
        aggs=wk.collect_rows("n").alias("rows"),
    )
    op, arrived = query.operator(order="out-of-order"), list[int]()
    for times in batches:
        numbers = range(len(arrived), len(arrived) + len(times))
        op.push(pa.table({"t": pa.array(times, pa.int64()), "n": pa.array(numbers, pa.int64())}))
        arrived += times
    # Nothing is final before the end, and sorting is stable.
    ordered = sorted(range(len(arrived)), key=lambda row: arrived[row])
    wanted = [[{"n": row} for row in ordered[end - rows : end]] for end in range(rows, len(ordered) + 1)]
    assert op.close()["rows"].to_pylist() == wanted


def test_all_columns_are_those_of_the_input_in_its_order() -> None:
    by_time = [1, 3, 0, 2, 5, 6]
    every = LOG.take(by_time).to_pylist()
    assert lists(collected().run(LOG)) == [every[:4], every[4:]]
    other = LOG.select(["ok", "t"])
    result = collected().run(other)
    assert lists(result)[1] == other.take([5, 6]).to_pylist()
    assert result.schema.field("rows").type.value_type == pa.struct(list(other.schema))


def test_a_filter_takes_rows() -> None:
    aggs = [wk.collect_rows("status").where("ok"), wk.collect_rows().where("ok").alias("rows")]
    result = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs).run(LOG)
    assert result.column_names[2:] == ["collect_rows(status) FILTER (WHERE ok)", "rows"]
    first, second = lists(result)
    assert first == LOG.take([0]).to_pylist()
    assert second == LOG.take([5, 6]).to_pylist()
    nothing = LOG.set_column(3, "ok", pa.array([False] * 7))
    assert wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggs).run(nothing)["rows"].to_pylist() == [
        [],
        [],
    ]


def test_duckdb_lists_the_same_rows() -> None:
    numbered = LOG.append_column("row", pa.array(range(7))).append_column(
        "key", pa.array([1, 1, 2, 2] * 2)[:7]
    )
    query = wk.query(
        by="key", time="t", windows=wk.sliding(10, 4), aggs=wk.collect_rows("status", "ip", "t").alias("rows")
    )
    connection = duckdb.connect()
    connection.register("log", numbered)
    wanted = connection.sql(
        """
        select key, start, list({'status': status, 'ip': ip, 't': t} order by t, row)
        from log, unnest(generate_series(-8, 12, 4)) as windows(start)
        where start <= t and t < start + 10 group by key, start
        """
    ).fetchall()
    result = query.run(numbered)
    starts = result["window_start"].to_pylist()
    got = list(zip(result["key"].to_pylist(), starts, result["rows"].to_pylist(), strict=True))
    assert sorted(got, key=str) == sorted(wanted, key=str)


EVERY_KIND = [*VALUES, *NESTED]
WIDE = pa.table(
    [[0, 1, 2, 12, 13, 33], *(column(values, kind) for kind, values in VALUES)]
    + [pa.array(values, kind) for kind, values in NESTED],
    names=["t", *(f"{at} {kind}" for at, (kind, _) in enumerate(EVERY_KIND))],
)


def test_a_row_may_have_columns_of_every_type() -> None:
    # Batches with dictionaries of their own.
    parts = [pa.Table.from_batches(WIDE.slice(at, 1).to_batches()) for at in range(6)]
    table = pa.concat_tables(part.unify_dictionaries() for part in parts)
    result = collected().run(table)
    row = result.schema.field("rows").type.value_type
    for field, wanted in zip(row, table.schema, strict=True):
        assert field.name == wanted.name
        is_code = pa.types.is_dictionary(wanted.type)
        # As codes of one batch could number.
        assert field.type == (pa.dictionary(pa.int32(), wanted.type.value_type) if is_code else wanted.type)
    every = [row for rows in lists(result) for row in rows]
    assert str(every) == str(table.to_pylist())  # As text NaN equals itself.


@pytest.mark.parametrize(("kind", "values"), EVERY_KIND, ids=name_of)
def test_rows_of_every_type_are_kept_in_snapshots(kind: pa.DataType, values: list[Any]) -> None:
    array = pa.array(values, kind) if (kind, values) in NESTED else column(values, kind)
    table = pa.table({"t": range(6), "v": array})
    query = collected()
    op = query.operator(schema=table.schema)
    op.push(table.slice(0, 3))
    again = wk.Operator.restore(op.snapshot(), query)
    again.push(table.slice(3))
    assert str(lists(again.close())) == str([table.to_pylist()])


@pytest.mark.parametrize(
    "data",
    [pl.from_arrow(TIMED), TIMED.to_pandas(), TIMED.to_pandas().set_index(pd.Index([3, 1, 4, 1, 5]))],
    ids=["polars", "pandas", "pandas with an index"],
)
def test_all_columns_of_other_libraries_are_read(data: Any) -> None:
    assert lists(collected().run(data, result="pyarrow")) == lists(collected().run(TIMED))
    assert collected().schema(data).field("rows").type.value_type.names == TIMED.column_names


def test_a_named_index_of_pandas_is_a_column() -> None:
    data = TIMED.to_pandas().set_index("ip")
    assert list(lists(collected().run(data, result="pyarrow"))[0][0]) == ["t", "ok", "ip"]


def test_all_columns_of_a_duckdb_relation_are_read() -> None:
    connection = duckdb.connect()
    connection.register("log", LOG)
    found = collected().run(connection.table("log"), result="pyarrow")
    assert lists(found) == lists(collected().run(LOG))


def test_a_query_says_that_it_reads_all_columns() -> None:
    every, some = collected(), collected("ip", "ok")
    assert every.reads_all
    assert every.named == ["t"]
    with pytest.raises(wk.InvalidValue, match="inputs: the query reads all columns of its input"):
        _ = every.inputs
    assert not some.reads_all
    assert some.inputs == some.named == ["t", "ip", "ok"]
    names = LOG.column_names
    assert every.resolved(names).inputs == ["t", "ip", "status", "ok"]
    assert every.resolved(names).run(LOG) == every.run(LOG)
    assert some.resolved(names) is some
    assert not wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.count()).reads_all


def test_text_forms() -> None:
    assert str(wk.collect_rows()) == wk.collect_rows().name == "collect_rows()"
    assert wk.collect_rows("ip", "status").name == "collect_rows(ip, status)"
    assert str(wk.collect_rows("ip", "a, b").where("ok").alias("r")) == (
        "collect_rows(ip, `a, b`) where ok as r"
    )
    form = collected().to_dict()
    assert form["aggs"] == ["collect_rows() as rows"]
    assert wk.Query.from_dict(json.loads(json.dumps(form))) == collected()
    for text in ("collect_rows(*)", "collect_rows( )", "COLLECT_ROWS()"):
        assert wk.Query.from_dict(form | {"aggs": [text]}).aggs == (wk.collect_rows(),)
    named = wk.Query.from_dict(form | {"aggs": ["collect_rows(ip, `*`)"]})
    assert named.aggs == (wk.collect_rows("ip", "*"),)


def test_what_is_refused() -> None:
    twice = "columns: collect_rows reads column 'ip' twice; the fields of a row have different names"
    with pytest.raises(wk.InvalidValue, match=re.escape(twice)):
        wk.collect_rows("ip", "status", "ip")
    alike = pa.table([[1], ["a"], ["b"]], names=["t", "ip", "ip"])
    with pytest.raises(wk.InvalidValue, match=re.escape(twice)):
        collected().run(alike)
    with pytest.raises(wk.InvalidType, match=re.escape("column: ['ip'] is a list; a name is a str")):
        wk.collect_rows(["ip"])  # type: ignore[arg-type]
    with pytest.raises(wk.UnknownColumn, match="aggs: no column 'nosuch'; there are ip, t, status, ok"):
        collected("ip", "nosuch").run(LOG)
    with pytest.raises(wk.InvalidValue, match="output column 'rows' occurs twice"):
        wk.query(by="rows", time="t", windows=wk.tumbling(1), aggs=wk.collect_rows().alias("rows"))
    window = wk.tumbling(1)
    without = foreign(wk.collect_rows("ip"), columns=())
    with pytest.raises(wk.InvalidValue, match="collect_rows reads at least one column; 0 given"):
        _native.Plan(LOG.schema, [], "t", [window], [without])
    numbered = foreign(wk.collect_rows("ip"), parameters=(3.0,))
    with pytest.raises(wk.InvalidValue, match="collect_rows takes no parameters; 1 given"):
        _native.Plan(LOG.schema, [], "t", [window], [numbered])


def test_a_result_may_be_called_as_a_column_of_its_rows() -> None:
    table = LOG.rename_columns(["rows", "t", "status", "ok"])
    assert lists(collected().run(table))[1][0] == {"rows": None, "t": 11, "status": 200, "ok": True}


class TestStreams:
    def test_the_columns_are_those_of_the_first_batch(self) -> None:
        op = collected().operator(order="out-of-order", allowed_lateness=100)
        op.push(LOG.slice(0, 3))
        assert lists(op.advance(10)) == [LOG.take([1, 0, 2]).to_pylist()]
        assert lists(op.push(LOG.slice(3))) == [LOG.take([1, 3, 0, 2]).to_pylist()]
        with pytest.raises(wk.UnknownColumn, match="no column 'status', which the stream has"):
            op.push(LOG.select(["t", "ip"]))

    def test_queries_come_and_go_and_snapshots_know_none_of_the_names(self) -> None:
        count = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        op = count.operator(schema=LOG.schema, order="out-of-order")
        assert op.add(collected()) == "q2"
        op.push(LOG)
        again = wk.Operator.restore(op.snapshot(), [count, collected()])
        assert op.remove("q1") is None
        both = again.close()
        rows = both.filter(pc.equal(both["query_name"], "q2"))
        assert lists(op.close()) == lists(rows) == lists(collected().run(LOG))

    def test_rows_of_processing_time_have_it(self) -> None:
        query = wk.query(
            by=[],
            time=wk.PROCESSING_TIME,
            windows=wk.tumbling("1 second"),
            aggs=wk.collect_rows().alias("rows"),
        )
        op = query.operator(clock=lambda: 5)
        op.push(pa.table({"ip": ["a", "b"]}))
        ((first, second),) = op.close()["rows"].to_pylist()
        assert (first["ip"], second["ip"]) == ("a", "b")
        assert list(first) == ["ip", "processing_time"]
        assert first["processing_time"] == pd.Timestamp(5, unit="us", tz="UTC")

    @pytest.mark.parametrize("refinement", ["accumulating", "discarding", "retracting"])
    def test_what_is_said_early_is_rows(self, refinement: str) -> None:
        op = collected("ip").operator(emit=wk.emit(wk.rows(1), refinement), order="out-of-order")
        said = [op.push(LOG.slice(0, 1)), op.push(LOG.slice(3, 1)), op.advance(10)]
        rows = [[(row["emission"], row["rows"]) for row in each.to_pylist()] for each in said]
        first, both = [{"ip": "a"}], [{"ip": "a"}, {"ip": "a"}]
        assert (
            rows
            == {
                "accumulating": [[("early", first)], [("early", both)], [("final", both)]],
                "discarding": [[("early", first)], [("early", first)], []],
                "retracting": [
                    [("early", first)],
                    [("retraction", first), ("early", both)],
                    [("retraction", both), ("final", both)],
                ],
            }[refinement]
        )


class TestCommand:
    ARGUMENTS = ("--time", "t", "--window", "tumbling(10)", "--agg", "collect_rows() as rows")

    def test_all_columns_are_those_of_files_and_directories(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        for day in (1, 2):
            (tmp_path / f"log/day={day}").mkdir(parents=True)
            pq.write_table(LOG.slice(day - 1, 1), tmp_path / f"log/day={day}/part.parquet")
        output = tmp_path / "out.parquet"
        arguments = ["--input", tmp_path / "log", "--output", output, *self.ARGUMENTS]
        assert run(capsys, arguments) == (0, "", "")
        (rows,) = pq.read_table(output)["rows"].to_pylist()
        assert rows == [
            row | {"day": day} for row, day in zip(LOG.take([1, 0]).to_pylist(), (2, 1), strict=True)
        ]

    def test_csv_does_not_hold_rows(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        pq.write_table(LOG, tmp_path / "log.parquet")
        arguments = ["--input", tmp_path / "log.parquet", "--output", tmp_path / "out.csv", *self.ARGUMENTS]
        why = "--format: csv cannot hold the lists, structs or bytes of collect_rows() as rows; Parquet can"
        assert why in refused(capsys, arguments)
