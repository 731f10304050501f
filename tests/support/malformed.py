"""Malformed Arrow data, and every door of windowkit that takes Arrow data; `tell` calls one with all of it.

Run in a process of its own, as reading through a bad offset may end one. Arrays are good when pyarrow makes
them, and are spoilt in their memory after that.
"""

from __future__ import annotations

import ctypes
import json
import struct
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import windowkit as wk
from windowkit import kernels

ROWS = 8
SECRET = b"SECRET" * 40
"""Lies before and after the text of arrays, in memory that is not theirs."""
LETTERS = pa.py_buffer(SECRET + b"abcdefghijklmnopqrstuvwxyz" + SECRET).slice(len(SECRET), 26)


def spoilt(kind: pa.DataType, offsets: list[int], at: int, to: int, children: Any = None) -> pa.Array:
    """Return an array over good offsets, one of which is then set to something else."""
    wide = kind in (pa.large_string(), pa.large_binary())
    memory = np.array(offsets, np.int64 if wide else np.int32)
    buffers = [None, pa.py_buffer(memory)] + ([] if children else [LETTERS])
    array = pa.Array.from_buffers(kind, len(offsets) - 1, buffers, children=children)
    memory[at] = to
    return array


def text(at: int, to: int, kind: pa.DataType | None = None) -> pa.Array:
    return spoilt(kind or pa.string(), [*range(ROWS + 1)], at, to)


def numbers(at: int, to: int) -> pa.Array:
    return spoilt(pa.list_(pa.int64()), [*range(ROWS + 1)], at, to, [pa.array(range(ROWS), pa.int64())])


def view(size: int, buffer: int, offset: int, kind: pa.DataType | None = None) -> pa.Array:
    """Return an array of views, one of which is this one."""
    short, long = struct.pack("<i12s", 1, b"x"), struct.pack("<i4sii", size, b"abcd", buffer, offset)
    buffers = [None, pa.py_buffer(short * (ROWS - 1) + long), LETTERS]
    return pa.Array.from_buffers(kind or pa.string_view(), ROWS, buffers)


def coded(code: int, values: pa.Array) -> pa.DictionaryArray:
    codes = pa.array([0] * (ROWS - 1) + [code], pa.int32())
    return pa.DictionaryArray.from_arrays(codes, values, safe=False)


def list_view(offset: int, size: int) -> pa.Array:
    """Return lists of one number each, one of which is elsewhere."""
    offsets, sizes = np.arange(ROWS, dtype=np.int32), np.ones(ROWS, np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(sizes)]
    array = pa.Array.from_buffers(
        pa.list_view(pa.int64()), ROWS, buffers, children=[pa.array(range(ROWS), pa.int64())]
    )
    offsets[3], sizes[3] = offset, size
    return array


def union(kind: int, offset: int) -> pa.Array:
    """Return a union of numbers and text, one of whose values is elsewhere."""
    kinds, offsets = np.zeros(ROWS, np.int8), np.zeros(ROWS, np.int32)
    made = [
        pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(memory)])
        for kind, memory in ((pa.int8(), kinds), (pa.int32(), offsets))
    ]
    array = pa.UnionArray.from_dense(*made, [pa.array([1]), pa.array(["a"])])
    kinds[3], offsets[3] = kind, offset
    return array


def runs(ends: list[int]) -> pa.Array:
    """Return eight rows in three runs, which end elsewhere once the array is made."""
    memory = np.array([2, 4, ROWS], np.int32)
    made = pa.Array.from_buffers(pa.int32(), 3, [None, pa.py_buffer(memory)])
    array = pa.RunEndEncodedArray.from_arrays(made, pa.array([7, 8, 9]))
    memory[:] = ends
    return array


def counted(nulls: int) -> pa.Array:
    """Return numbers of which four are null, and so many are said to be."""
    memory = pa.py_buffer(np.arange(ROWS, dtype=np.int64))
    return pa.Array.from_buffers(pa.int64(), ROWS, [pa.py_buffer(b"\x0f"), memory], null_count=nulls)


NEVER_NULL = pa.field("v", pa.int64(), nullable=False)


def absent(kind: pa.DataType, *, masked: bool) -> pa.Array:
    """Return values with parts that are never null, one of which is; `masked`: and so is what it is in."""
    mask = np.arange(ROWS) == 3
    parts = pa.array(range(ROWS), pa.int64(), mask=mask)
    nulls = pa.py_buffer(b"\xf7") if masked else None
    if pa.types.is_struct(kind) or pa.types.is_fixed_size_list(kind):
        return pa.Array.from_buffers(kind, ROWS, [nulls], children=[parts])
    sizes = [] if pa.types.is_list(kind) else [pa.py_buffer(np.ones(ROWS, np.int32))]
    offsets = pa.py_buffer(np.arange(ROWS + (not sizes), dtype=np.int32))
    return pa.Array.from_buffers(kind, ROWS, [nulls, offsets, *sizes], children=[parts])


def longer(array: pa.Array) -> pa.RecordBatch:
    """Return a column read from bytes that say it has a thousand times as many rows."""
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([array], ["v"])
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    rows = struct.pack("<q", len(array))
    claimed = sink.getvalue().to_pybytes().replace(rows, struct.pack("<q", 1000 * len(array)))
    return pa.ipc.open_stream(claimed).read_next_batch()


STRUCTURE: dict[str, Callable[[], pa.Array]] = {
    "a negative offset": lambda: text(3, -5),
    "a negative first offset": lambda: text(0, -100),
    "a negative last offset": lambda: text(ROWS, -8),
    "offsets that decrease": lambda: text(2, 7),
    "an offset far away": lambda: text(3, 1_000_000_000),
    "a last offset far away": lambda: text(ROWS, 2_000_000_000),
    "a large negative offset": lambda: text(3, -5, pa.large_string()),
    "a large last offset": lambda: text(ROWS, 2**62, pa.large_string()),
    "binary offsets that decrease": lambda: text(2, 7, pa.binary()),
    "a view of negative length": lambda: view(-3, 0, 0),
    "a view too long": lambda: view(200, 0, 0),
    "a view as long as can be": lambda: view(2**31 - 1, 0, 0),
    "a view of no buffer": lambda: view(20, 7, 0),
    "a view of a negative buffer": lambda: view(20, -1, 0),
    "a view before its buffer": lambda: view(20, 0, -120),
    "a view behind its buffer": lambda: view(20, 0, 100, pa.binary_view()),
    "a negative code": lambda: coded(-1, pa.array(["x", "y", "z"])),
    "a code too large": lambda: coded(3, pa.array(["x", "y", "z"])),
    "a negative code of many": lambda: coded(-1, pa.array([str(n) for n in range(100)])),
    "a code too large of many": lambda: coded(100, pa.array([str(n) for n in range(100)])),
    "a code of no values": lambda: coded(0, pa.array([], pa.string())),
    "a negative code of numbers": lambda: coded(-1, pa.array([5, 6, 7])),
    "list offsets that decrease": lambda: numbers(2, 7),
    "a negative list offset": lambda: numbers(3, -5),
    "a list far away": lambda: numbers(ROWS, 2_000_000_000),
    "a list view far away": lambda: list_view(0, 1_000_000),
    "a negative list view": lambda: list_view(-5, 1),
    "an unknown type of a union": lambda: union(7, 0),
    "a value of a union far away": lambda: union(1, 1_000_000),
    "text in a list": lambda: pa.ListArray.from_arrays(pa.array(range(ROWS + 1), pa.int32()), text(3, -5)),
    "text in a struct": lambda: pa.StructArray.from_arrays([text(3, -5)], ["s"]),
    "a code in a struct": lambda: pa.StructArray.from_arrays([coded(-1, pa.array(["x"]))], ["s"]),
    "text in a dictionary": lambda: pa.DictionaryArray.from_arrays(pa.array([*range(ROWS)]), text(3, -5)),
    "runs that decrease": lambda: runs([6, 4, ROWS]),
    "runs that end too soon": lambda: runs([2, 4, 5]),
    "a run that ends before it begins": lambda: runs([-1, 4, ROWS]),
    "a null in a struct that has none": lambda: absent(pa.struct([NEVER_NULL]), masked=False),
    "a null in a list that has none": lambda: absent(pa.list_(NEVER_NULL), masked=False),
    "a null in a list view that has none": lambda: absent(pa.list_view(NEVER_NULL), masked=False),
    "a null in a list of one that has none": lambda: absent(pa.list_(NEVER_NULL, 1), masked=False),
    "a null in a struct of a list": lambda: pa.ListArray.from_arrays(
        pa.array(range(ROWS + 1), pa.int32()), absent(pa.struct([NEVER_NULL]), masked=False)
    ),
    "a code in a struct without nulls": lambda: pa.StructArray.from_arrays(
        [coded(-1, pa.array(["x", None]))],
        fields=[pa.field("s", pa.dictionary(pa.int32(), pa.string()), nullable=False)],
    ),
    "fewer numbers than rows": lambda: longer(pa.array(range(1000), pa.int64())).column(0),
    "fewer texts than rows": lambda: longer(pa.array(["ab"] * 1000)).column(0),
}
"""What no reader may be led astray by, whether or not it asks for every value."""

UNKNOWABLE = {
    "a last offset far away",
    "a large last offset",
    "fewer numbers than rows",
    "fewer texts than rows",
}
"""What the C data interface cannot tell, as it has no lengths of buffers."""

VALUES: dict[str, Callable[[], pa.Array]] = {
    "text that is not UTF-8": lambda: pa.array([b"a", b"\xff"] * 4).view(pa.string()),
    "a view that is not UTF-8": lambda: pa.array([b"\xff"] * 8, pa.binary_view()).view(pa.string_view()),
    "fewer nulls counted": lambda: counted(2),
    "more nulls counted": lambda: counted(7),
}
"""What only a look at every value finds."""

GOOD: dict[str, Callable[[], pa.Array]] = {
    "text": lambda: text(3, 3),
    "views": lambda: view(20, 0, 0),
    "codes": lambda: coded(2, pa.array(["x", "y", "z"])),
    "a code under a null": lambda: pa.DictionaryArray.from_arrays(
        pa.array([0, 99], pa.int32(), mask=np.array([False, True])), pa.array(["x"])
    ),
    "no rows": lambda: text(3, 3)[:0],
    "some rows": lambda: text(3, 3)[3:5],
    "runs": lambda: runs([2, 4, ROWS]),
    "some runs": lambda: runs([2, 4, ROWS])[3:5],
    "lists": lambda: numbers(3, 3),
    "list views": lambda: list_view(2, 4),
    "a union": lambda: union(1, 0),
    "nulls": lambda: counted(4),
    "a null of a struct that is null": lambda: absent(pa.struct([NEVER_NULL]), masked=True),
    "a null of a list of one that is null": lambda: absent(pa.list_(NEVER_NULL, 1), masked=True),
}


LENGTH, OFFSET, BUFFERS, CHILDREN = 0, 2, 3, 4
"""Members of an ArrowArray by their places, all of 64 bits; an ArrowSchema has the last, too."""


class Foreign:
    """What another library hands over, without a buffer's length."""

    def __init__(self, column: pa.Array) -> None:
        self.column = column

    def __arrow_c_array__(self, requested: object = None) -> object:
        return self.column.__arrow_c_array__(requested)


class ForeignStream:
    """What another library hands over as a stream, without a buffer's length."""

    def __init__(self, data: pa.Table | pa.ChunkedArray) -> None:
        self.data = data

    def __arrow_c_stream__(self, requested: object = None) -> object:
        return self.data.__arrow_c_stream__(requested)


class Shorter:
    """A struct whose fields have fewer rows than it says, which pyarrow would not make."""

    def __arrow_c_array__(self, requested: object = None) -> object:
        batch = pa.StructArray.from_arrays([pa.array(range(ROWS))], ["v"])
        schema, array = batch.__arrow_c_array__(requested)
        return schema, with_member(array, b"arrow_array", LENGTH, 1000 * ROWS)


class Impossible:
    """An array with a length, an offset or a number of buffers or children that cannot be; or its schema."""

    def __init__(self, column: pa.Array, member: int, value: int, of: bytes = b"arrow_array") -> None:
        self.column, self.member, self.value, self.of = column, member, value, of

    def __arrow_c_array__(self, requested: object = None) -> object:
        capsules = self.column.__arrow_c_array__(requested)
        with_member(capsules[self.of == b"arrow_array"], self.of, self.member, self.value)
        return capsules


class ImpossibleSchema:
    """A schema with so many fields."""

    def __init__(self, schema: pa.Schema, fields: int) -> None:
        self.schema, self.fields = schema, fields

    def __arrow_c_schema__(self) -> object:
        return with_member(self.schema.__arrow_c_schema__(), b"arrow_schema", CHILDREN, self.fields)


class ImpossibleStream:
    """A stream whose schema has so many fields."""

    def __init__(self, data: pa.Table | pa.ChunkedArray, fields: int) -> None:
        self.data, self.fields = data, fields

    def __arrow_c_stream__(self, requested: object = None) -> object:
        stream = self.data.__arrow_c_stream__(requested)
        # The first member of a stream is the function that says its schema.
        member = ctypes.c_void_p.from_address(pointer(stream, b"arrow_array_stream"))
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
        own = kind(member.value)

        def asked(of: int, to: int) -> int:
            code = own(of, to)
            ctypes.c_int64.from_address(to + 8 * CHILDREN).value = self.fields
            return int(code)

        self.asked = kind(asked)
        member.value = ctypes.cast(self.asked, ctypes.c_void_p).value
        return stream


def pointer(capsule: object, name: bytes) -> int:
    """Return what a capsule points to."""
    asked = ctypes.pythonapi.PyCapsule_GetPointer
    asked.restype, asked.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    found: int = asked(capsule, name)
    return found


def with_member(capsule: object, name: bytes, member: int, value: int) -> object:
    """Return the capsule of a struct, one of whose first members is changed."""
    ctypes.c_int64.from_address(pointer(capsule, name) + 8 * member).value = value
    return capsule


def rows(column: pa.Array, role: str = "k") -> pa.RecordBatch:
    """Return rows with a column as their key, time or value."""
    ones, times = pa.repeat(1, len(column)), pa.array(range(len(column)), pa.int64())
    try:
        return pa.record_batch({"k": ones, "t": times, "v": ones, role: column})
    except pa.ArrowInvalid as error:
        # pyarrow itself makes no batch of it.
        raise wk.InvalidValue(f"malformed: {error}") from None


def query(column: pa.Array, *more: wk.Aggregate, rows: int | None = None) -> wk.Query:
    window = wk.tumbling(100) if rows is None else wk.tumbling(rows=rows)
    return wk.query(by="k", time="t", windows=window, aggs=[wk.first("v"), wk.count("v").alias("n"), *more])


def late(column: pa.Array, **options: Any) -> pa.Table:
    batch = rows(column)
    op = query(column).operator(order="out-of-order", schema=batch.schema)
    op.advance(10**6)
    op.push(batch, **options)
    return op.take_late()


def restored(column: pa.Array, **options: Any) -> pa.Table:
    made = query(column, rows=3)
    op = made.operator(order="out-of-order")
    op.push(rows(column, "v"), **options)
    return wk.Operator.restore(op.snapshot(), made).close()


def cast(column: pa.Array, **options: Any) -> pa.Table:
    """Push rows whose columns come in another order and, perhaps, another layout than the stream's."""
    batch = rows(column, "v")
    kinds = {pa.string(): pa.large_string(), pa.string_view(): pa.string(), pa.large_string(): pa.string()}
    kinds |= {pa.binary(): pa.large_binary(), pa.binary_view(): pa.binary()}
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    schema = pa.schema({"v": kinds.get(kind, kind), "t": pa.int64(), "k": pa.int64()})
    op = query(column, wk.collect_list("v").alias("l")).operator(schema=schema)
    return pa.concat_tables([op.push(batch, **options), op.close()])


def fired(column: pa.Array, **options: Any) -> pa.Table:
    """Return early, retracted and final results of a stream."""
    batch = rows(column, "v")
    made = query(column, wk.collect_rows("v").alias("rows"))
    op = made.operator(schema=batch.schema, emit=wk.emit(wk.rows(3), "retracting"))
    return pa.concat_tables([op.push(batch, **options), op.fire(), op.close()])


def rolled(column: pa.Array, role: str, **options: Any) -> pa.Table:
    aggs = [wk.first("v").over(3), wk.collect_list("v").over("3 rows"), wk.count().over(2)]
    return wk.rolling(by="k", time="t", aggs=aggs).run(rows(column, role), **options)


def joined(column: pa.Array, role: str, **options: Any) -> pa.Table:
    join = wk.join(by="k", left_time="t", right_time="t", within=3, how="full")
    return join.run(rows(column, role), rows(column, role), **options)


def pushed(column: pa.Array, **options: Any) -> pa.Table:
    batch = rows(column)
    join = wk.join(by="k", left_time="t", right_time="t", within=3)
    op = join.operator(batch.schema, batch.schema)
    op.push_right(batch, **options)
    return op.push_left(batch, **options)


def window(column: pa.Array, **options: Any) -> Any:
    made = kernels.Window("count", column.type)
    made.insert(column, **options)
    return made.query()


def slid(column: pa.Array, **options: Any) -> Any:
    twice = pa.chunked_array([column, column])
    return kernels.Window("count", column.type).slide(twice, 3, **options)


def ones(column: pa.Array) -> pa.Array:
    return pa.repeat(1.0, len(column))


DOORS: dict[str, Callable[..., Any]] = {
    "run, keys": lambda c, **o: query(c).run(rows(c), **o),
    "run, keys of a table": lambda c, **o: query(c).run(pa.Table.from_batches([rows(c)] * 2), **o),
    "run, values": lambda c, **o: query(c, wk.collect_list("v").alias("l")).run(rows(c, "v"), **o),
    "run, rows": lambda c, **o: query(c, wk.last("v"), rows=3).run(rows(c, "v"), **o),
    "run, times": lambda c, **o: query(c).run(rows(c, "t"), **o),
    "run, a stream": lambda c, **o: query(c).run(ForeignStream(pa.Table.from_batches([rows(c)])), **o),
    "run, whole rows": lambda c, **o: query(c, wk.collect_rows().alias("rows")).run(rows(c, "v"), **o),
    "rolling, keys": lambda c, **o: rolled(c, "k", **o),
    "rolling, values": lambda c, **o: rolled(c, "v", **o),
    "rolling, times": lambda c, **o: rolled(c, "t", **o),
    "join, keys": lambda c, **o: joined(c, "k", **o),
    "join, values": lambda c, **o: joined(c, "v", **o),
    "join, times": lambda c, **o: joined(c, "t", **o),
    "join, push": lambda c, **o: pushed(c, **o),
    "distinct": lambda c, **o: wk.distinct("k", time="t", within=3).run(rows(c), **o),
    "distinct, push": lambda c, **o: (
        wk.distinct("k", time="t", within=3).operator(rows(c).schema).push(rows(c), **o)
    ),
    "wids": lambda c, **o: wk.sliding(4, 2).wids(c, **o),
    "extent": lambda c, **o: wk.sliding(4, 2).extent(c, **o),
    "batches": lambda c, **o: query(c).batches(rows(c), **o).read_all(),
    "push, keys": lambda c, **o: query(c).operator().push(rows(c), **o),
    "push, values": lambda c, **o: query(c).operator().push(rows(c, "v"), **o),
    "push, late": late,
    "push, cast": cast,
    "push, emitted early": fired,
    "push, a snapshot": restored,
    "sliding, first": lambda c, **o: kernels.sliding(c, 2, agg="first", **o),
    "sliding, count": lambda c, **o: kernels.sliding_count(c, 2, **o),
    "sliding, chunks": lambda c, **o: kernels.sliding(pa.chunked_array([c, c]), 2, agg="first", **o),
    "sliding, an array": lambda c, **o: kernels.sliding(Foreign(c), 2, agg="first", **o),
    "sliding, segments": lambda c, **o: kernels.sliding(ones(c), 2, agg="sum", segments=c, **o),
    "sliding_by": lambda c, **o: kernels.sliding_by(ones(c), c, 2, agg="sum", **o),
    "insert": window,
    "slide": slid,
    "HyperLogLog": lambda c, **o: wk.HyperLogLog().update(c, **o).estimate(),
    "HyperLogLog, an array": lambda c, **o: wk.HyperLogLog().update(Foreign(c), **o).estimate(),
    "assign": lambda c, **o: wk.partition.Partitioner(4, "hash").assign(c, **o),
    "assign, an array": lambda c, **o: wk.partition.Partitioner(4, "hash").assign(Foreign(c), **o),
    "assign, a dict": lambda c, **o: wk.partition.Partitioner(4).assign({"k": pa.chunked_array([c, c])}, **o),
    "candidates": lambda c, **o: wk.partition.candidates(c, 4, **o),
    "cost": lambda c, **o: str(wk.partition.cost(c, pa.array([0] * len(c)), **o)),
    "choose": lambda c, **o: wk.partition.choose(c, 4, **o),
}


def tell(door: str) -> None:
    """Print what a door makes of each array, with and without `validate`, one line each."""
    for cases in (GOOD, STRUCTURE, VALUES):
        for case, make in cases.items():
            if case in UNKNOWABLE and door.endswith(("an array", "a stream")):
                continue
            for options in ({}, {"validate": True}):
                try:
                    result: Any = DOORS[door](make(), **options)
                    if hasattr(result, "validate"):
                        result.validate(full=cases is not VALUES)
                    said = ["answer", repr(result)]
                except wk.WindowKitError as error:
                    said = [type(error).__name__, str(error)]
                print(json.dumps([case, bool(options), *said]), flush=True)


if __name__ == "__main__":
    tell(sys.argv[1])


class Renamed:
    """A table whose last column has a name that pyarrow would not give it."""

    def __init__(self, table: pa.Table, name: bytes) -> None:
        self.batch = table.combine_chunks().to_batches()[0]
        self.name = ctypes.create_string_buffer(name)

    def __arrow_c_array__(self, requested: object = None) -> object:
        capsules = self.batch.__arrow_c_array__(requested)
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
        schema = pointer(capsules[0], b"arrow_schema")
        assert schema is not None
        # Its sixth member is the list of children, and their second is the name.
        children = ctypes.c_void_p.from_address(schema + 40).value
        assert children is not None
        last = ctypes.c_void_p.from_address(children + 8 * (self.batch.num_columns - 1)).value
        assert last is not None
        ctypes.c_void_p.from_address(last + 8).value = ctypes.addressof(self.name)
        return capsules
