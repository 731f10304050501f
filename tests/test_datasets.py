"""Datasets of pyarrow as data: their files are one table, whichever of them comes first."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import windowkit as wk

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=[wk.sum("v"), wk.count().alias("n")])
ONE = pa.table({"k": ["a"], "t": [1], "v": [1]})


def written(folder: Path, *tables: pa.Table) -> list[Path]:
    paths = [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        pa.parquet.write_table(table, path)
    return paths


def of(paths: Sequence[Path], **options: Any) -> ds.Dataset:
    return ds.dataset([str(path) for path in paths], **options)


COLUMNS = {
    "v": [pa.int8(), pa.int64(), pa.float64(), None],
    "k": [pa.string(), pa.large_string(), None],
    "t": [pa.timestamp("s"), pa.timestamp("us"), pa.timestamp("ns")],
}


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    files=st.lists(
        st.tuples(*(st.sampled_from(kinds) for kinds in COLUMNS.values()), st.integers(0, 3)),
        min_size=1,
        max_size=3,
    )
)
def test_a_dataset_is_its_files_whichever_comes_first(files: list[tuple[Any, ...]], tmp_path: Path) -> None:
    tables = []
    for *kinds, size in files:
        values = {"v": range(size), "k": list("aba")[:size], "t": [7 * at for at in range(size)]}
        chosen = {name: kind for name, kind in zip(COLUMNS, kinds, strict=True) if kind is not None}
        tables.append(
            pa.table(
                {
                    name: pa.array(values[name], pa.int64() if name == "t" else kind).cast(kind)
                    for name, kind in chosen.items()
                }
            )
        )
    for name in ("v", "k"):
        if all(name not in table.column_names for table in tables):
            tables[0] = tables[0].append_column(
                name, pa.nulls(tables[0].num_rows, pa.string() if name == "k" else pa.int8())
            )
    query = wk.query(by="k", time="t", windows=wk.tumbling("10 seconds"), aggs=[wk.sum("v"), wk.count()])
    whole = pa.concat_tables(tables, promote_options="permissive")
    wanted = sorted(map(str, query.run(whole).to_pylist()))
    for order in itertools.permutations(tables):
        found = query.run(of(written(tmp_path, *order)))
        assert sorted(map(str, found.to_pylist())) == wanted


@pytest.mark.parametrize(
    ("name", "values", "kind"),
    [
        ("v", ["x"], "string"),
        ("k", [1], "int64"),
        ("t", pa.array([1], pa.timestamp("us")), r"timestamp\[us\]"),
    ],
)
def test_types_that_are_not_united_name_both_files(name: str, values: Any, kind: str, tmp_path: Path) -> None:
    other = ONE.set_column(
        ONE.column_names.index(name), name, pa.array(values) if isinstance(values, list) else values
    )
    own = ONE.schema.field(name).type
    one, two = written(tmp_path, ONE, other)
    with pytest.raises(
        wk.InvalidType, match=f"^data: column '{name}' is {own} in '{one}' and {kind} in '{two}'; "
    ):
        QUERY.run(of([one, two]))
    with pytest.raises(
        wk.InvalidType, match=f"^data: column '{name}' is {kind} in '{two}' and {own} in '{one}'; "
    ):
        QUERY.run(of([two, one]))
    # Of a column that nobody reads nothing is said.
    unread = wk.query(by=[], time="at", windows=wk.tumbling(10), aggs=wk.count())
    at = [each.append_column("at", pa.array([1])) for each in (ONE, other)]
    assert unread.run(of(written(tmp_path, *at)))["count(1)"].to_pylist() == [2]
    assert unread.schema(of(written(tmp_path, *at))) == unread.schema(at[0])
    assert "count(1): int64" in unread.explain(of(written(tmp_path, *at)))
    for evaluate in (
        lambda data: wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5)).run(data),
        lambda data: wk.join(by="k", left_time="t", right_time="t", within=5).run(ONE, data),
        lambda data: wk.distinct(by=["k", "v"], time="t", within=5).run(data),
        lambda data: QUERY.operator().push(data),
    ):
        paths = written(tmp_path, ONE, other)
        with pytest.raises(
            wk.InvalidType, match=f"column '{name}' is {own} in '{one}' and {kind} in '{two}'; "
        ):
            evaluate(of(paths))


def test_a_schema_that_is_given_holds(tmp_path: Path) -> None:
    paths = written(tmp_path, ONE, ONE.set_column(2, "v", pa.array([2.0])))
    kinds = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.int32()})
    assert QUERY.run(of(paths, schema=kinds))["sum(v)"].to_pylist() == [3]
    paths = written(tmp_path, ONE, ONE.set_column(2, "v", pa.array([2.5])))
    with pytest.raises(
        wk.InvalidValue, match=f"data: reading of '{paths[1]}' failed: Float value 2.5"
    ) as said:
        QUERY.run(of(paths, schema=kinds))
    assert str(said.value).endswith("k string, t int64, v int32, see schema= of pyarrow.dataset.dataset")


def test_a_value_of_a_later_file_of_text_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("k,t,v\na,1,3\n")
    (tmp_path / "2.csv").write_text("k,t,v\na,1,3.5\n")
    assert QUERY.run(ds.dataset(tmp_path, format="csv"))["sum(v)"].to_pylist() == [6.5]
    # Beyond the first block, by which pyarrow says of which types a file of text is.
    (tmp_path / "2.csv").write_text("k,t,v\n" + "a,1,3\n" * 400_000 + "a,1,x\n")
    with pytest.raises(
        wk.InvalidValue, match=f"data: reading of '{tmp_path / '2.csv'}' failed: In CSV column #2"
    ):
        QUERY.run(ds.dataset(tmp_path, format="csv"))
    with pytest.raises(
        wk.InvalidValue, match=r"data: its stream failed: In CSV .* give them as a pyarrow Dataset"
    ):
        QUERY.run(pyarrow.csv.open_csv(tmp_path / "2.csv"))


def test_a_filter_of_a_dataset_holds(tmp_path: Path) -> None:
    paths = written(tmp_path, ONE, ONE.set_column(1, "t", pa.array([12])))
    assert QUERY.run(of(paths).filter(ds.field("t") > 10))["n"].to_pylist() == [1]
    paths = written(tmp_path, ONE, ONE.set_column(2, "v", pa.array([2.5])))
    with pytest.raises(wk.InvalidValue, match="data: a filtered dataset is given, and its files differ: "):
        QUERY.run(of(paths).filter(ds.field("t") > 10))


def test_directories_tables_and_several_datasets(tmp_path: Path) -> None:
    for key in ("a", "b"):
        (tmp_path / f"k={key}").mkdir()
        pa.parquet.write_table(ONE.drop_columns("k"), tmp_path / f"k={key}" / "part.parquet")
    by_key = ds.dataset(tmp_path, partitioning="hive")
    assert sorted(QUERY.run(by_key)["k"].to_pylist()) == ["a", "b"]
    both = ds.dataset([by_key, ds.dataset(ONE)])
    assert sorted(QUERY.run(both)["n"].to_pylist()) == [1, 2]
    assert QUERY.run(ds.dataset([ONE, ONE]))["n"].to_pylist() == [2]
    assert QUERY.schema(by_key) == QUERY.schema(ONE)
    with pytest.raises(wk.UnknownColumn, match="no column 'w'; there are t, v, k"):
        wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("w")).run(by_key)


def test_columns_that_a_result_has_are_united_and_others_are_not(tmp_path: Path) -> None:
    """Rows keep all their columns, so that the way out is to give fewer."""
    tables = [ONE.set_column(2, "v", [values]) for values in (["x"], [1])]
    for order in (tables, tables[::-1]):
        data = of(written(tmp_path, *order))
        rolling = wk.rolling(by="k", time="t", aggs=wk.count().over(10).alias("n"))
        with pytest.raises(
            wk.InvalidType, match=r"column 'v' is .*\.scanner\(columns=\[\.\.\.\]\)\.to_reader"
        ):
            rolling.run(data)
        fewer = data.scanner(columns=["k", "t"]).to_reader()
        wanted = [{"k": "a", "t": 1, "n": 2}] * 2
        assert rolling.run(fewer).to_pylist() == wanted
        assert rolling.at(ONE.select(["k", "t"]), data).to_pylist() == wanted[:1]
