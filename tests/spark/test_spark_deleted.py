"""Files of which rows are deleted, and whose columns have other names: how tasks read them."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import fs

from windowkit.files.deleted import Deleted
from windowkit.files.listing import File, Source, parts
from windowkit.spark.parquet import Chosen, Reader, survey
from windowkit.spark.parquet.naming import BY_NAME, ByName, ByNumber

NUMBERED = {b"PARQUET:field_id": b"7"}
OTHER = {b"PARQUET:field_id": b"8"}


def source_of(path, deleted=None):
    size = path.stat().st_size
    return Source(fs.LocalFileSystem(), (File(str(path), size, (), None, 0, deleted),), pa.schema([]))


def read(source, reader):
    """Return the rows of a source, of whatever parts its file is cut into."""
    every = [part for task in parts(source, 2) for part in task]
    return pa.Table.from_batches([batch for part in every for batch in reader.batches(part)], reader.schema)


@given(st.lists(st.integers(0, 200), unique=True), st.integers(0, 150), st.integers(1, 100))
def test_rows_of_a_batch_that_are_left(numbers, first, rows):
    deleted = Deleted.of(pa.array(sorted(numbers), pa.int64()))
    assert deleted.numbers.to_pylist() == sorted(numbers)
    batch = pa.record_batch({"n": range(first, first + rows)})
    left = deleted.left(batch, first).column("n").to_pylist()
    assert left == [number for number in range(first, first + rows) if number not in numbers]


@pytest.mark.parametrize("gap", [1, 100, 200, 40_000, 70_000, 3 << 31])
def test_numbers_that_are_far_apart(gap):
    numbers = [5, *range(7, 7 + 4 * gap, gap)]
    assert Deleted.of(pa.array(numbers, pa.int64())).numbers.to_pylist() == numbers


@pytest.mark.parametrize("seed", range(20))
def test_random_files(tmp_path, seed):
    chance = Random(f"deleted {seed}")
    # A batch has 65,536 rows at most.
    rows, path = chance.randrange(1, chance.choice([3000, 3000, 150_000])), tmp_path / "f.parquet"
    table = pa.table({"stored": range(rows), "v": [row % 97 for row in range(rows)]})
    pq.write_table(table, path, row_group_size=chance.choice([rows // 40 + 1, rows // 3 + 1, rows]))
    gone = sorted(chance.sample(range(rows), chance.randrange(rows)))
    absent, least = set(gone), chance.randrange(rows + 1)
    over = ds.field("n") >= least
    schema = pa.schema([("n", pa.int64()), ("v", pa.int64()), ("more", pa.string())])
    reader = Reader(
        fs.LocalFileSystem(),
        schema,
        pa.schema([]),
        Chosen(over, over, ("n",), True) if chance.random() < 0.7 else None,
        ByName({"n": "stored", "v": "v", "more": "not there"}),
    )
    wanted = [row for row in range(rows) if row not in absent and (reader.chosen is None or row >= least)]
    found = read(source_of(path, Deleted.of(pa.array(gone, pa.int64()))), reader)
    assert found.to_pydict() == {
        "n": wanted,
        "v": [row % 97 for row in wanted],
        "more": [None] * len(wanted),
    }


def test_columns_by_numbers(tmp_path):
    """What is called as another column in the table is not taken for it."""
    path, other = tmp_path / "f.parquet", tmp_path / "g.parquet"
    fields = [pa.field("a", pa.int64(), metadata=NUMBERED), pa.field("b", pa.int64(), metadata=OTHER)]
    pq.write_table(pa.table({"a": [1, 2], "b": [3, 4]}, pa.schema(fields)), path)
    pq.write_table(pa.table({"a": [1, 2], "b": [3, 4]}), other)
    schema = pa.schema([("b", pa.int64()), ("c", pa.int64())])
    naming = ByNumber({"b": {"": 7}, "c": {"": 9}})
    few = ds.field("b") < 2
    reader = Reader(fs.LocalFileSystem(), schema, pa.schema([]), Chosen(few, few, ("b",), True), naming)
    assert read(source_of(path), reader).to_pydict() == {"b": [1], "c": [None]}
    assert survey.by_footers(source_of(path), schema, survey.Settings(), naming) is None
    found = survey.by_footers(source_of(other), schema, survey.Settings(), naming)
    assert found == f"column 'b' is known by a number, and columns have none in {str(other)!r}"


def test_fields_by_numbers(tmp_path):
    path = tmp_path / "f.parquet"
    inner = pa.struct([pa.field("x", pa.int64(), metadata=OTHER)])
    field = pa.field("s", inner, metadata=NUMBERED)
    pq.write_table(pa.table({"s": [{"x": 1}]}, pa.schema([field])), path)
    schema = pa.schema([("s", pa.struct([("x", pa.int64())]))])

    def reason(numbers):
        return survey.by_footers(source_of(path), schema, survey.Settings(), ByNumber({"s": numbers}))

    assert reason({"": 7, ".x": 8}) is None
    assert reason({"": 7, ".x": 9}) == f"column 's' has other fields in {str(path)!r}"
    assert reason({"": 7}) == f"column 's' has other fields in {str(path)!r}"


def test_names_of_other_cases(tmp_path):
    path = tmp_path / "f.parquet"
    pq.write_table(pa.table({"A": [1]}), path)
    schema = pa.schema([("a", pa.int64())])
    for naming in (BY_NAME, ByName({"a": "a"})):
        found = survey.by_footers(source_of(path), schema, survey.Settings(), naming)
        assert found == f"column 'a' is 'A' in {str(path)!r}"
