"""Results in the form of the data, and windows in one column or in two."""

from __future__ import annotations

import datetime
import sys
from dataclasses import replace
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import windowkit as wk
from support.programs import program
from windowkit.arrow.results import FORMS

TIMES = pa.array([0, 90, 100, None], pa.timestamp("s", "UTC"))
TABLE = pa.table({"k": ["a", "b", "a", "a"], "ts": TIMES, "v": [2**53 + 1, 5, 7, 8]})
AGGS = [wk.count().alias("n"), wk.max("v").alias("peak")]
BOTH = [wk.tumbling("1 minute").alias("minute"), wk.sliding("2 rows", "1 minute").alias("two")]
FLAT = wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=AGGS)
QUERY = replace(FLAT, window_columns="struct")
FLAT_SEVERAL = wk.query(by="k", time="ts", windows=BOTH, aggs=AGGS)
SEVERAL = replace(FLAT_SEVERAL, window_columns="struct")


def moment(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


WANTED = [
    ("a", moment(0), moment(60), 1, 2**53 + 1),
    ("a", moment(60), moment(120), 1, 7),
    ("b", moment(60), moment(120), 1, 5),
]


class TestForms:
    @pytest.mark.parametrize(
        ("data", "kind"),
        [
            (TABLE, pa.Table),
            (TABLE.to_batches()[0], pa.Table),
            (TABLE.to_reader(), pa.Table),
            (TABLE.to_pandas(), pd.DataFrame),
            (type("Own", (pd.DataFrame,), {})(TABLE.to_pandas()), pd.DataFrame),
            (pl.DataFrame(TABLE), pl.DataFrame),
            (pl.LazyFrame(TABLE), pl.LazyFrame),
            (duckdb.from_arrow(TABLE), duckdb.DuckDBPyRelation),
            (ibis.memtable(TABLE), ibis.Table),
        ],
        ids=lambda given: given.__module__.split(".")[0] if isinstance(given, type) else type(given).__name__,
    )
    def test_a_result_has_the_form_of_its_data(self, data: Any, kind: type) -> None:
        assert type(FLAT.run(data)) is kind

    @pytest.mark.parametrize(
        "data",
        [
            *(TABLE, TABLE.to_pandas(), pl.DataFrame(TABLE), pl.LazyFrame(TABLE)),
            *(duckdb.from_arrow(TABLE), ibis.memtable(TABLE)),
        ],
        ids=lambda d: str(type(d)),
    )
    def test_another_form_is_asked_for(self, data: Any) -> None:
        rows = {
            "pyarrow": FLAT.run(data, result="pyarrow").to_pylist(),
            "pandas": FLAT.run(data, result="pandas").to_dict("records"),
            "polars": FLAT.run(data, result="polars").to_dicts(),
            "polars-lazy": FLAT.run(data, result="polars-lazy").collect().to_dicts(),
            "duckdb": FLAT.run(data, result="duckdb").to_arrow_table().to_pylist(),
            "ibis": FLAT.run(data, result="ibis").to_pyarrow().to_pylist(),
        }
        assert rows.keys() == set(FORMS)
        for form, found in rows.items():
            assert sorted(tuple(row.values()) for row in found) == WANTED, form

    def test_an_empty_result_has_its_columns(self) -> None:
        for query in (QUERY, FLAT_SEVERAL):
            for empty in (TABLE.slice(0, 0), TABLE.slice(3), TABLE.to_pandas()[:0], pl.DataFrame(TABLE)[:0]):
                for form in ("pyarrow", "pandas", "polars"):
                    result = query.run(empty, result=form)
                    names = result.column_names if form == "pyarrow" else list(result.columns)
                    assert (names, len(result)) == (query.columns, 0)

    def test_batches_are_arrow(self) -> None:
        batches = list(FLAT.batches(TABLE.to_pandas()))
        assert all(isinstance(batch, pa.RecordBatch) for batch in batches)
        assert batches[0].schema.names == FLAT.columns

    def test_what_is_no_form_is_refused_before_the_data_is_read(self) -> None:
        def broken() -> Any:
            raise AssertionError("read")
            yield

        data = pa.RecordBatchReader.from_batches(TABLE.schema, broken())
        with pytest.raises(wk.InvalidValue, match="result: 'numpy' is unknown; allowed are 'pyarrow', 'pan"):
            QUERY.run(data, result="numpy")
        with pytest.raises(wk.InvalidType, match="result: 1 is an int"):
            QUERY.run(data, result=1)  # type: ignore[call-overload]

    def test_a_library_that_is_missing_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "polars", None)
        with pytest.raises(
            wk.InvalidValue, match=r"result: 'polars' is given, but polars cannot be imported"
        ):
            QUERY.run(TABLE, result="polars")

    def test_no_library_is_needed_that_is_not_asked_for(self) -> None:
        printed = program(
            """
            import sys
            import pyarrow as pa
            table = pa.table({"t": [1]})
            sys.modules["pandas"] = sys.modules["polars"] = None
            import windowkit as wk
            query = wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count())
            print(query.run(table, result="pyarrow").num_rows)
            """
        )
        assert printed == "1\n"


class TestPandas:
    def test_windows_are_intervals(self) -> None:
        frame = SEVERAL.run(TABLE.to_pandas())
        windows = frame["window"].array
        assert windows.dtype == pd.IntervalDtype("datetime64[s, UTC]", "left")
        minutes = frame[frame["window_name"] == "minute"].sort_values(["window", "k"])
        start, end = pd.Timestamp(0, tz="UTC"), pd.Timestamp(60, unit="s", tz="UTC")
        assert minutes["window"].iloc[0] == pd.Interval(start, end, "left")
        assert minutes["k"].tolist() == ["a", "a", "b"]
        assert minutes.groupby("window")["n"].sum().tolist() == [1, 2]
        ranks = frame.set_index("window_name")["window_rows"]
        assert ranks["minute"].isna().all()
        assert sorted((rank.left, rank.right) for rank in ranks["two"]) == [(0, 1), (0, 1), (0, 2)]

    @pytest.mark.parametrize(
        ("kind", "size", "day", "wanted"),
        [
            (pa.date32(), "2 days", 1, "datetime64[s]"),
            (pa.date64(), "2 days", 86_400_000, "datetime64[ms]"),
            (pa.duration("s"), "2 days", 86_400, "timedelta64[s]"),
            (pa.timestamp("ns", "Europe/Berlin"), "2 days", 86_400 * 10**9, "datetime64[ns, Europe/Berlin]"),
            (pa.int64(), 2, 1, "int64"),
            (pa.int32(), 2, 1, "int64"),
        ],
        ids=str,
    )
    def test_windows_over_any_times_are_intervals(
        self, kind: pa.DataType, size: Any, day: int, wanted: str
    ) -> None:
        width = pa.int32() if kind in (pa.date32(), pa.int32()) else pa.int64()
        table = pa.table({"t": pa.array([day, 4 * day, None], width).cast(kind)})
        query = wk.query(by=[], time="t", windows=wk.tumbling(size), aggs=wk.count(), window_columns="struct")
        frame = query.run(table, result="pandas")
        windows = frame["window"].sort_values().array
        assert str(windows.dtype.subtype) == wanted
        units = [edges.astype("int64") for edges in (windows.left, windows.right)]
        second = {"datetime64[s]": 86_400, "datetime64[ms]": 86_400_000}.get(wanted, day)
        assert [edges.tolist() for edges in units] == [[0, 4 * second], [2 * second, 6 * second]]

    def test_integers_and_booleans_with_nulls_stay_exact(self) -> None:
        table = TABLE.append_column("ok", pa.array([True, False, False, True]))
        aggs = [wk.max("v").where("ok").alias("peak"), wk.max("ok").where("ok").alias("any"), wk.count()]
        query = wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=aggs)
        frame = query.run(table, result="pandas")
        assert [str(kind) for kind in frame.dtypes[-3:]] == ["Int64", "boolean", "int64"]
        assert frame["peak"].dropna().tolist() == [2**53 + 1]

    def test_a_result_can_be_changed(self) -> None:
        frame = FLAT.run(TABLE.to_pandas())
        frame.loc[0, "n"] = 10
        frame["peak"] += 1
        assert frame["n"][0] == 10

    @pytest.mark.parametrize(
        "keys",
        [
            pd.Series(["a", "b", "a"], dtype="string"),
            pd.Series(["a", "b", "a"], dtype=object),
            pd.Series(["a", "b", "a"], dtype=pd.CategoricalDtype(["c", "b", "a"], ordered=True)),
            pd.Series([2**53 + 1, None, 3], dtype="Int64"),
            pd.Series([1.5, None, 3], dtype="Float64"),
            pd.Series([True, None, False], dtype="boolean"),
            pd.Series([1, None, 3], dtype="float64"),
            pd.Series([1, 2, 3], dtype="int8"),
            pd.to_datetime(pd.Series([1, 2, 3])),
        ],
        ids=lambda keys: str(keys.dtype),
    )
    def test_keys_keep_their_types(self, keys: pd.Series[Any]) -> None:
        frame = pd.DataFrame({"k": keys, "ts": pd.to_datetime([0, 90, 100], unit="s")})
        query = wk.query(by="k", time="ts", windows=wk.tumbling("1 day"), aggs=wk.count())
        found = query.run(frame)["k"]
        assert found.dtype == keys.dtype
        assert set(found.dropna()) == set(keys.dropna())
        assert found.isna().sum() == keys.drop_duplicates().isna().sum()

    @pytest.mark.parametrize(
        "kind", ["Int8", "UInt32", "Int64", "Float64", "boolean", "string[python]", "string[pyarrow]"]
    )
    def test_aggregates_of_columns_with_na_are_as_in_pandas_groups(self, kind: str) -> None:
        values = pd.Series(["2", None, "1"] if "string" in kind else [1, None, 0], dtype=kind)
        frame = pd.DataFrame(
            {"k": ["a", "b", "a"], "ts": pd.to_datetime([0, 90, 100], unit="s"), "v": values}
        )
        names = ["min", "max", "first", "last"] + ["mean", "median"] * kind.endswith(("8", "32", "64"))
        aggs = [getattr(wk, name)("v").alias(name) for name in names]
        window = wk.tumbling("1 day")
        found = wk.query(by="k", time="ts", windows=window, aggs=aggs).run(frame).set_index("k")[names]
        pd.testing.assert_frame_equal(
            found.sort_index(), frame.groupby("k")["v"].agg(names), check_index_type=False
        )
        # Results of other columns have plain types, and so have numbers of rows.
        frame["plain"] = [1.5, 2.5, 3.5]
        aggs = [wk.max("plain").alias("p"), wk.max("v").alias("m"), wk.count().alias("n")]
        kinds = wk.query(by="k", time="ts", windows=window, aggs=aggs).run(frame).dtypes
        assert kinds[["p", "m", "n"]].tolist() == [np.dtype("float64"), values.dtype, np.dtype("int64")]
        rolled = wk.rolling(by="k", time="ts", aggs=[each.over("1 day") for each in aggs]).run(frame).dtypes
        assert rolled[["p", "m", "n"]].tolist() == kinds[["p", "m", "n"]].tolist()

    def test_columns_are_arrows_own_if_those_of_the_data_are(self) -> None:
        frame = TABLE.to_pandas().convert_dtypes(dtype_backend="pyarrow")
        kinds = FLAT.run(frame).dtypes
        assert all(isinstance(kind, pd.ArrowDtype) for kind in kinds)

    def test_an_index_is_a_column(self) -> None:
        frame = TABLE.to_pandas().dropna().set_index("ts")
        assert sorted(FLAT.run(frame).itertuples(index=False, name=None)) == WANTED


class TestPolars:
    def test_windows_are_structs(self) -> None:
        frame = SEVERAL.run(pl.DataFrame(TABLE))
        edge = pl.Datetime("ms", "UTC")
        assert frame.schema["window"] == pl.Struct({"start": edge, "end": edge})
        assert frame["window_rows"].null_count() == 3

    @pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["b", "a"]), pl.String()], ids=str)
    def test_keys_keep_their_types(self, kind: pl.DataType) -> None:
        data = pl.DataFrame(TABLE).with_columns(pl.col("k").cast(kind))
        found = FLAT.run(data)["k"]
        assert found.dtype == kind
        assert set(found.to_list()) == {"a", "b"}

    def test_what_polars_cannot_hold_is_refused(self) -> None:
        key = pa.array([pa.MonthDayNano([1, 2, 3])] * 4)
        try:
            QUERY.schema(TABLE.set_column(0, "k", key))
        except wk.InvalidType:
            pytest.fail("the core refuses such keys; the test needs another column")
        with pytest.raises(wk.InvalidType, match="result: column 'k' has type month_day_nano_interval"):
            QUERY.run(TABLE.set_column(0, "k", key), result="polars")


OFFSETS = ["+05:30", "-13:00", "+18:00"]


@pytest.mark.parametrize("offset", OFFSETS)
class TestOffsetsInPolars:
    """Polars has no zones that are offsets: it refuses them, or panics."""

    def query(self, offset: str, **options: Any) -> wk.Query:
        given = {"by": "k", "time": "ts", "windows": wk.tumbling("1 day", zone=offset), "aggs": AGGS}
        return wk.query(**{**given, **options})

    @pytest.mark.parametrize("columns", ["flat", "struct"])
    @pytest.mark.parametrize("zone", [None, "Europe/Paris", "+02:00"])
    def test_windows_are_in_the_zone_of_the_column(self, offset: str, zone: str | None, columns: Any) -> None:
        kind = pa.timestamp("s", "UTC" if zone is None else zone)
        data = TABLE.set_column(1, "ts", TIMES.cast(kind))
        query = self.query(offset, window_columns=columns)
        found = query.run(data, result="polars")
        # Moments compare as such, whatever their zones.
        assert found.to_dicts() == query.run(data).to_pylist()
        shown = kind.tz if zone == "Europe/Paris" else "UTC"
        assert f"time_zone='{shown}'" in repr(found.schema)
        assert f"tz={offset}" in repr(query.schema(data))
        if zone == "+02:00":
            return
        frame = pl.DataFrame(data)
        for made in (query.run(frame), query.run(frame.lazy()).collect()):
            assert made.sort("k", maintain_order=True).equals(found.sort("k", maintain_order=True))
        assert query.run(frame.lazy()).collect_schema() == found.schema

    def test_so_are_those_of_times_that_are_computed(self, offset: str) -> None:
        lazy = pl.LazyFrame(TABLE)
        paris = pl.col("ts").dt.convert_time_zone("Europe/Paris").alias("there")
        query = self.query(offset, time=paris)
        assert query.run(lazy).collect()["window_start"].dtype.time_zone == "Europe/Paris"

    def test_so_are_those_of_joins(self, offset: str) -> None:
        frame = pl.DataFrame(TABLE).drop("v")
        join = wk.join(
            by="k", left_time="ts", right_time="at", windows=wk.tumbling("1 day", zone=offset), how="left"
        )
        found = join.run(frame, frame.rename({"ts": "at"}))
        assert found["window_end"].dtype.time_zone == "UTC"
        assert found.to_dicts() == join.run(TABLE.drop_columns("v"), frame.rename({"ts": "at"})).to_pylist()
        assert join.run(frame.lazy(), frame.rename({"ts": "at"})).collect().equals(found)

    def test_other_moments_are_in_utc(self, offset: str) -> None:
        data = pa.table({"k": TIMES.cast(pa.timestamp("s", offset)), "ts": [1, 2, 3, 4]})
        rolling = wk.rolling(by=[], time="ts", aggs=wk.collect_list("k").over("2 rows"))
        found = rolling.run(data, result="polars")
        assert found.to_dicts() == rolling.run(data).to_pylist()
        assert found.dtypes == [pl.Datetime("ms", "UTC"), pl.Int64, pl.List(pl.Datetime("ms", "UTC"))]
        assert wk.distinct("k", time="ts", within=1).run(data, result="polars").height == 4


class TestFlat:
    def test_it_is_the_default(self) -> None:
        assert wk.query(by="k", time="ts", windows=BOTH, aggs=AGGS, window_columns="flat") == FLAT_SEVERAL
        assert wk.Query(FLAT.by, FLAT.time, FLAT.windows, FLAT.aggs) == FLAT != QUERY

    def test_two_columns_are_in_place_of_each_struct(self) -> None:
        assert FLAT.columns == ["k", "window_start", "window_end", "n", "peak"]
        nested, flat = SEVERAL.run(TABLE), FLAT_SEVERAL.run(TABLE)
        assert flat.column_names == FLAT_SEVERAL.columns == FLAT_SEVERAL.schema(TABLE).names
        assert flat.schema == FLAT_SEVERAL.schema(TABLE)
        rows = [
            {
                "k": row["k"],
                "window_name": row["window_name"],
                "window_start": row["window"]["start"],
                "window_end": row["window"]["end"],
                "window_rows_start": None if row["window_rows"] is None else row["window_rows"]["start"],
                "window_rows_end": None if row["window_rows"] is None else row["window_rows"]["end"],
                "n": row["n"],
                "peak": row["peak"],
            }
            for row in nested.to_pylist()
        ]

        def order(row: dict[str, Any]) -> str:
            return repr(list(row.values()))

        assert sorted(flat.to_pylist(), key=order) == sorted(rows, key=order)
        assert not flat.schema.field("window_start").nullable
        assert flat.schema.field("window_rows_end").nullable

    def test_sessions_have_the_same_columns(self) -> None:
        query = wk.query(by=[], time="ts", windows=wk.session("1 minute"), aggs=AGGS)
        assert query.run(TABLE).to_pylist() == [
            {"window_start": moment(0), "window_end": moment(60), "n": 1, "peak": 2**53 + 1},
            {"window_start": moment(90), "window_end": moment(160), "n": 2, "peak": 7},
        ]

    def test_they_sort_group_and_become_csv(self, tmp_path: Any) -> None:
        flat = FLAT.run(TABLE).sort_by([("window_start", "ascending"), ("k", "ascending")])
        assert list(zip(*flat.to_pydict().values(), strict=True)) == sorted(
            WANTED, key=lambda row: row[1::-1]
        )
        grouped = flat.group_by("window_start").aggregate([("n", "sum")])
        assert grouped["n_sum"].to_pylist() == [1, 2]
        pyarrow.csv.write_csv(flat, tmp_path / "flat.csv")
        assert pyarrow.csv.read_csv(tmp_path / "flat.csv").column_names == FLAT.columns

    def test_nothing_is_copied(self) -> None:
        table = SEVERAL.run(TABLE)
        flat = FLAT_SEVERAL.run(TABLE)
        assert pc.sum(flat["n"]) == pc.sum(table["n"])
        from windowkit.arrow.results import flat as flattened

        start = table["window"].chunk(0).field("start").buffers()[1].address
        assert flattened(table, 1)["window_start"].chunk(0).buffers()[1].address == start

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("window_start", "$"),
            ("window_end", "$"),
            ("window", "; windows are structs of this name before they are two columns$"),
        ],
    )
    def test_their_names_are_taken(self, name: str, why: str) -> None:
        with pytest.raises(wk.InvalidValue, match=f"output column '{name}' occurs twice.*column{why}"):
            wk.query(by=name, time="t", windows=wk.tumbling(5), aggs=wk.count())
        with pytest.raises(wk.InvalidValue, match=f"output column '{name}' occurs twice"):
            wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.count().alias(name))

    def test_names_of_other_windows_are_free(self) -> None:
        aggs = [wk.m4("v").alias("window_rows"), wk.count().alias("window")]
        query = wk.query(by=[], time="ts", windows=wk.session("1 day"), aggs=aggs)
        assert query.run(TABLE).column_names == ["window_start", "window_end", "window_rows", "window"]
        assert list(query.run(TABLE.to_pandas()).columns) == query.columns
        assert query.run(TABLE.to_pandas())["window"].tolist() == [3]

    def test_there_are_two_forms(self) -> None:
        with pytest.raises(wk.InvalidValue, match="window_columns: 'wide' is unknown; allowed are 'flat', "):
            wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count(), window_columns="wide")

    def test_a_query_that_is_written_down_says_so(self) -> None:
        assert QUERY.to_dict()["window_columns"] == "struct"
        assert "window_columns" not in FLAT.to_dict()
        for query in (FLAT, QUERY):
            assert wk.Query.from_dict(query.to_dict()) == query
        assert wk.Query.from_dict({**FLAT.to_dict(), "window_columns": "flat"}) == FLAT

    def test_explain_has_the_columns(self) -> None:
        assert "  window_start: timestamp[s, tz=UTC]" in FLAT.explain(TABLE).splitlines()


class TestOperators:
    def test_results_have_flat_columns(self) -> None:
        op = FLAT_SEVERAL.operator(order="out-of-order", emit=wk.emit(wk.rows(1), "retracting"))
        nested = SEVERAL.operator(order="out-of-order", emit=wk.emit(wk.rows(1), "retracting"))
        named = [
            "k",
            "window_name",
            "window_start",
            "window_end",
            "window_rows_start",
            "window_rows_end",
            "n",
        ]
        for call in (
            lambda o: o.push(TABLE),
            lambda o: o.peek(),
            lambda o: o.advance("1970-01-02T00:00:00Z"),
        ):
            flat, struct = call(op), call(nested)
            assert flat.column_names == [*named, "peak", "update", "emission", "weight"]
            assert flat.schema == op.schema
            assert flat["window_start"].to_pylist() == [
                each["start"] for each in struct["window"].to_pylist()
            ]
            assert flat["n"].to_pylist() == struct["n"].to_pylist()
        again = FLAT.operator(schema=TABLE.schema)
        again.push(TABLE.slice(0, 1))
        restored = wk.Operator.restore(again.snapshot(), FLAT)
        assert restored.close() == again.close()
        assert restored.schema.names == [*FLAT.columns, "update"]

    def test_an_operators_queries_have_one_form(self) -> None:
        op = FLAT.operator()
        with pytest.raises(wk.InvalidValue, match=r"query: window_columns is 'struct' for .* 'flat' for"):
            op.add(QUERY)
        op = QUERY.operator(schema=TABLE.schema)
        op.add(SEVERAL)
        with pytest.raises(wk.InvalidValue, match=r"queries: window_columns is 'struct' for .* 'flat' for"):
            wk.Operator.restore(op.snapshot(), [QUERY, FLAT_SEVERAL])


class TestShown:
    """What notebooks and prompts show."""

    def test_queries(self) -> None:
        assert repr(SEVERAL) == (
            "<windowkit.Query by k over ts: tumbling(1 minute) as minute, sliding(2 rows, 1 minute) as two; "
            "count(*) as n, max(v) as peak>"
        )
        html = wk.query(
            by="<k>", time="t", windows=wk.tumbling(5), aggs=wk.count(), emit=wk.emit(wk.rows(5))
        )._repr_html_()
        assert "<code>&lt;k&gt;</code>" in html
        assert "<code>emit(rows(5))</code>" in html

    def test_rolling(self) -> None:
        rolling = wk.rolling(by="<k>", time="t", aggs=wk.sum("v").over("5 minutes"))
        assert repr(rolling) == "<windowkit.Rolling by `<k>` over t: sum(v) over (5 minutes)>"
        assert "<code>&lt;k&gt;</code>" in rolling._repr_html_()
        assert "<code>sum(v) over (5 minutes)</code>" in rolling._repr_html_()

    def test_windows_and_aggregates(self) -> None:
        window = wk.session("5 minutes").alias("a<b")
        assert repr(window) == "<windowkit.Window session(5 minutes) as `a<b`>"
        assert window._repr_html_() == "<code>session(5 minutes) as `a&lt;b`</code>"
        assert repr(wk.sum("v").where("ok")) == "<windowkit.Aggregate sum(v) where ok>"

    def test_explanations_keep_their_lines(self) -> None:
        text = QUERY.explain()
        assert isinstance(text, str)
        assert text._repr_html_() == f"<pre>{text}</pre>"  # type: ignore[attr-defined]


UNHELD = {
    "pandas": [
        pa.array([1, 2], pa.time64("ns")),
        pa.array([2**31 - 1, 0], pa.int32()).view(pa.date32()),
        pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
        pa.array([b"\xff", b"a"]).view(pa.string()),
    ],
    "polars": [
        pa.array([1, 2], pa.decimal256(60, 0)),
        pa.array([[1], None], pa.list_view(pa.int8())),
        pa.UnionArray.from_sparse(pa.array([0, 1], pa.int8()), [pa.array([1, 2]), pa.array(["a", "b"])]),
        pa.array([[pa.MonthDayNano([1, 2, 3])], []]),
        pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["a"])),
    ],
}


@pytest.mark.parametrize("form", UNHELD)
def test_what_a_library_does_not_hold_is_the_results_fault(form: str) -> None:
    join = wk.join(by=[], left_time="t", right_time="t", within=2)
    first = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.first("x"))
    rolling = wk.rolling(by=[], time="t", aggs=wk.count().over(3).alias("n"))
    for column in UNHELD[form]:
        table = pa.table({"x": column, "t": [1, 2], "y": ["a", "b"]})
        calls = [
            lambda table: rolling.run(table, result=form),
            lambda table: rolling.at(table, events=table, result=form),
            lambda table: join.run(table, table, result=form),
            lambda table: wk.distinct("y", time="t", within=2).run(table, result=form),
        ]
        if not pa.types.is_run_end_encoded(column.type):
            calls.append(lambda table: first.run(table, result=form))
        for call in calls:
            with pytest.raises((wk.InvalidValue, wk.InvalidType), match="result: ") as raised:
                call(table)
            assert form == "polars" or raised.value.__cause__ is not None


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_binary(),
        pa.decimal128(9, 2),
        pa.list_(pa.int64()),
        pa.date32(),
        pa.bool_(),
        pa.int64(),
    ],
    ids=str,
)
def test_long_columns_of_objects_are_those_of_pyarrow(kind: pa.DataType) -> None:
    count = 600_000
    values = pa.array([None, *range(count - 1)], pa.int64())
    if pa.types.is_list(kind):
        column: Any = pa.ListArray.from_arrays(pa.array(range(count + 1), pa.int32()), values.fill_null(-1))
    elif pa.types.is_date(kind):
        column = values.cast(pa.int32()).cast(kind)
    elif pa.types.is_boolean(kind):
        column = pc.greater(values, 7)
    elif pa.types.is_large_binary(kind):
        column = values.cast(pa.string()).cast(kind)
    elif pa.types.is_decimal(kind):
        column = values.cast(pa.decimal128(19, 0)).cast(kind)
    else:
        column = values.cast(kind)
    table = pa.table({"t": range(count), "v": column})
    rolling = wk.rolling(by=[], time="t", aggs=wk.last("v").over("1 rows").alias("last"))
    frame = rolling.run(table, result="pandas")
    wanted = table["v"].to_pandas()
    assert frame["v"].dtype == wanted.dtype
    # Values of aggregates that may be null are not objects where pandas has a type for them.
    for name in ("v",) if pa.types.is_boolean(kind) else ("v", "last"):
        if pa.types.is_list(kind):
            assert [value[0] for value in frame[name]] == values.fill_null(-1).to_pylist()
        else:
            pd.testing.assert_series_equal(frame[name].astype(wanted.dtype), wanted, check_names=False)


@pytest.mark.parametrize(
    ("window", "closed"),
    [
        (wk.tumbling(rows=2), "both"),
        (wk.sliding("2 rows", "1 row"), "both"),
        (wk.global_window(), "both"),
        (wk.tumbling(2), "left"),
        (wk.sliding("2 rows", 1), "left"),
    ],
    ids=str,
)
def test_intervals_of_pandas_hold_the_rows_of_their_windows(window: wk.Window, closed: str) -> None:
    frame = pd.DataFrame({"t": [1, 2, 5, 9], "v": [1, 2, 3, 4]})
    aggs = wk.collect_list("t").alias("rows")
    result = wk.query(by=[], time="t", windows=window, aggs=aggs, window_columns="struct").run(frame)
    assert result["window"].array.closed == closed
    if closed == "both":
        for interval, rows in zip(result["window"], result["rows"], strict=True):
            assert [time for time in frame["t"] if time in interval] == list(rows)
