"""Batches with the fields of the stream are imported without their schema, and no less safely than others."""

from __future__ import annotations

import itertools
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

WORDS = ["", "a", "bc", "é"]
KEYS = {
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "large_string": pa.large_string(),
    "string_view": pa.string_view(),
    "dictionary": pa.dictionary(pa.int8(), pa.string()),
    "timestamp": pa.timestamp("us", "Europe/Berlin"),
    "decimal": pa.decimal128(9, 2),
}
COUNTS = wk.query(
    by="k", time="t", windows=wk.tumbling(10), aggs=[wk.count().alias("n"), wk.sum("v").alias("s")]
)


def column(kind: pa.DataType, drawn: list[int | None]) -> pa.Array:
    """Return few distinct values of a type, some of them null."""
    if pa.types.is_dictionary(kind):
        return pa.array([None if at is None else WORDS[at] for at in drawn]).dictionary_encode().cast(kind)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view():
        return pa.array([None if at is None else WORDS[at] for at in drawn], kind)
    if pa.types.is_boolean(kind):
        return pa.array([None if at is None else at % 2 == 0 for at in drawn], kind)
    if pa.types.is_decimal(kind):
        return pa.array([None if at is None else Decimal(at) for at in drawn], kind)
    return pa.array(drawn, pa.int64()).cast(kind)


def canonical(table: pa.Table) -> list[str]:
    rows = table.select(["k", "window_start", "window_end", "n", "s"]).to_pylist()
    return sorted(map(str, rows))


@pytest.mark.parametrize("kind", KEYS.values(), ids=KEYS.keys())
@given(
    rows=st.lists(st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.integers(0, 3)), min_size=1, max_size=30),
    cut=st.lists(st.integers(0, 30), max_size=4),
    form=st.sampled_from(["batch", "table", "chunks"]),
)
def test_batches_of_a_stream_give_what_the_whole_does(
    kind: pa.DataType, rows: list[tuple[int | None, int]], cut: list[int], form: str
) -> None:
    times = pa.array(range(0, 3 * len(rows), 3), pa.int64())
    whole = pa.table(
        {
            "k": column(kind, [at for at, _ in rows]),
            "t": times,
            "v": pa.array([v for _, v in rows], pa.int64()),
        }
    )
    op = COUNTS.operator()
    results = []
    places = sorted({0, len(rows), *(min(at, len(rows)) for at in cut)})
    for begin, end in itertools.pairwise(places):
        part = whole.slice(begin, end - begin)
        if form == "batch":
            # Each with an offset of its own, as Arrow slices are.
            results += [op.push(batch) for batch in part.to_batches()]
        elif form == "table":
            results.append(op.push(part))
        else:
            results.append(op.push(pa.concat_tables([part.slice(0, 1), part.slice(1)])))
    results.append(op.close())
    assert canonical(pa.concat_tables(results)) == canonical(COUNTS.run(whole))


SCHEMA = pa.schema([("k", pa.int64()), ("t", pa.int64()), ("v", pa.int64())])


def rows_of(schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"k": 1, "t": 1, "v": 2}], schema=schema)


def test_fields_that_are_not_those_of_the_stream_are_read_as_before() -> None:
    op = COUNTS.operator(schema=SCHEMA)
    op.push(rows_of())
    op.push(rows_of(SCHEMA.with_metadata({"origin": "elsewhere"})))
    op.push(rows_of(pa.schema([field.with_nullable(False) for field in SCHEMA])))
    op.push(rows_of(pa.schema([field.with_metadata({"unit": "m"}) for field in SCHEMA])))
    op.push(rows_of().select(["v", "t", "k"]))
    op.push(pa.table({"k": [1], "t": [1], "v": pa.array([2], pa.int8())}))
    assert op.close().select(["n", "s"]).to_pylist() == [{"n": 6, "s": 12}]


class Handing:
    """Hands over the schema of one batch and the array of another."""

    def __init__(self, schema: pa.RecordBatch, array: pa.RecordBatch) -> None:
        self.capsules = schema.__arrow_c_array__()[0], array.__arrow_c_array__()[1]

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[Any, Any]:
        return self.capsules


def core_of(op: wk.Operator) -> Any:
    core = op._calls.state.core
    assert core is not None
    return core


@pytest.mark.parametrize("columns", [["k"], ["k", "t"], []], ids=len)
def test_an_array_with_other_columns_than_its_schema_says_is_refused(columns: list[str]) -> None:
    op = COUNTS.operator(schema=SCHEMA)
    with pytest.raises(wk.InvalidValue, match="data: malformed Arrow data"):
        core_of(op).push(Handing(rows_of(), rows_of().select(columns)))
    op.push(rows_of())
    assert op.close()["n"].to_pylist() == [1]


def test_capsules_that_were_taken_are_refused() -> None:
    op = COUNTS.operator(schema=SCHEMA)
    taken = Handing(rows_of(), rows_of())
    core_of(op).push(taken)
    with pytest.raises(wk.InvalidValue, match="data: malformed Arrow data"):
        core_of(op).push(taken)


@pytest.mark.parametrize("given", [(1, 2), None, ()], ids=str)
def test_what_is_no_pair_of_capsules_is_refused(given: Any) -> None:
    class Wrong:
        def __arrow_c_array__(self, requested_schema: object = None) -> Any:
            return given

    with pytest.raises((TypeError, wk.InvalidType, wk.InvalidValue)):
        COUNTS.operator(schema=SCHEMA).push(Wrong())
    with pytest.raises((TypeError, ValueError)):
        core_of(COUNTS.operator(schema=SCHEMA)).push(Wrong())


def test_nulls_of_columns_that_have_none_are_refused() -> None:
    schema = pa.schema([field.with_nullable(field.name != "v") for field in SCHEMA])
    columns = [pa.array([1, 1]), pa.array([1, 2]), pa.array([None, 3], pa.int64())]
    spoilt = pa.RecordBatch.from_arrays(columns, schema=schema)
    op = COUNTS.operator(schema=schema)
    for data in (spoilt, pa.Table.from_batches([spoilt])):
        with pytest.raises(wk.InvalidValue, match=r"malformed Arrow data: .*non-nullable"):
            op.push(data)
    op.push(rows_of(schema))
    assert op.close()["n"].to_pylist() == [1]


def test_a_list_whose_values_have_the_only_field_is_no_batch() -> None:
    only = pa.schema({"t": pa.int64()})
    op = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n")).operator(schema=only)
    values = pa.array([[1, 2], [3]], pa.list_(only.field("t")))
    with pytest.raises(ValueError, match="Unexpected data type List"):
        core_of(op).push(values)
    op.push(pa.table({"t": [1]}))
    assert op.close()["n"].to_pylist() == [1]
