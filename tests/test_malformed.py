"""Malformed Arrow data is refused at every door, and never read."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.flight
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

import windowkit as wk
from support.malformed import (
    BUFFERS,
    CHILDREN,
    DOORS,
    GOOD,
    LENGTH,
    OFFSET,
    STRUCTURE,
    UNKNOWABLE,
    VALUES,
    Foreign,
    Impossible,
    ImpossibleSchema,
    ImpossibleStream,
    Renamed,
    Shorter,
    coded,
    text,
)
from support.programs import ROOT, program

TABLE = pa.table({"k": ["a", "é"], "t": [1, 2]})
QUERY = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))


@pytest.mark.slow
@pytest.mark.parametrize("door", DOORS)
def test_no_door_reads_malformed_data(door):
    path = os.pathsep.join([ROOT, str(Path(__file__).parent)])
    lines = program("import sys; from support.malformed import tell; tell(sys.argv[1])", door, path=path)
    told = [json.loads(line) for line in lines.splitlines()]
    left_out = len(UNKNOWABLE) if door.endswith(("an array", "a stream")) else 0
    assert len(told) == 2 * (len(GOOD | STRUCTURE | VALUES) - left_out)
    for case, validated, kind, says in told:
        refused = kind == "InvalidValue" and "malformed" in says
        if case in STRUCTURE or (case in VALUES and validated):
            # Not every door takes every type, and a type is looked at first, or last.
            assert refused or kind == "InvalidType", (case, validated, kind, says)
        elif case in GOOD:
            assert not refused, (case, validated, says)
        assert "SECRET" not in says


def test_messages_name_the_column_and_the_row():
    rows = pa.table({"k": coded(-1, pa.array(["x"])), "t": range(8)})
    says = "data: column 'k' is malformed Arrow data: row 7 has code -1; its dictionary has 1 values"
    with pytest.raises(wk.InvalidValue, match=re.escape(says)):
        QUERY.run(rows)
    with pytest.raises(wk.InvalidValue, match=re.escape("batch: column 'k'")):
        QUERY.operator().push(rows)
    with pytest.raises(wk.InvalidValue, match=re.escape("data: column 'k': malformed Arrow data: ")):
        QUERY.run(rows, validate=True)
    says = "array: malformed Arrow data: row 2 extends from offset 2 to -5; offsets do not decrease"
    with pytest.raises(wk.InvalidValue, match=re.escape(says)):
        wk.kernels.sliding_count(text(3, -5), 2)


def test_a_refused_batch_leaves_the_operator_as_it_was():
    op = QUERY.operator(schema=TABLE.schema)
    op.push(TABLE)
    before = op.snapshot()
    with pytest.raises(wk.InvalidValue, match="malformed"):
        op.push(pa.table({"k": text(3, -5), "t": range(8)}))
    assert op.snapshot() == before


def test_columns_that_a_query_does_not_read_are_not_looked_at_unless_all_are():
    rows = pa.table({"k": ["a"] * 8, "t": range(8), "other": text(2, 7)})
    assert QUERY.run(rows).num_rows == 1
    with pytest.raises(wk.InvalidValue, match="'other'"):
        QUERY.run(rows, validate=True)


def test_lengths_that_contradict_each_other_are_the_datas_fault():
    for call in (
        lambda: wk.kernels.sliding(Shorter(), 2, agg="first"),
        lambda: wk.HyperLogLog().update(Shorter()),
        lambda: wk.partition.Partitioner(2).assign(Shorter()),
        lambda: wk.query(by=[], time="v", windows=wk.tumbling(10), aggs=wk.count()).run(Shorter()),
    ):
        with pytest.raises((wk.InvalidValue, wk.InvalidType)):
            call()


@pytest.mark.parametrize(
    ("column", "member", "value"),
    [
        (pa.array([True] * 8), LENGTH, -1),
        (pa.array([True] * 8), LENGTH, -(2**63)),
        (pa.array([True] * 8), OFFSET, 2**63 - 1),
        (pa.array(["a"] * 8), LENGTH, -1),
        (pa.array(["a"] * 8, pa.string_view()), BUFFERS, -1),
        (pa.array([1] * 8), CHILDREN, -1),
    ],
)
def test_lengths_of_other_libraries_that_cannot_be_are_refused(column, member, value):
    with pytest.raises(wk.InvalidValue, match="array: malformed Arrow data"):
        wk.kernels.sliding(Impossible(column, member, value), 2, agg="first")
    with pytest.raises(wk.InvalidValue, match="values: malformed Arrow data"):
        wk.HyperLogLog().update(Impossible(column, member, value))


@pytest.mark.parametrize("fields", [-1, -(2**63)])
def test_schemas_of_other_libraries_that_cannot_be_are_refused(fields):
    """pyarrow, which makes room for as many fields, would end the process."""
    batch = pa.record_batch({"k": ["a", "b"], "t": [1, 2]})
    malformed = f"malformed Arrow data: a schema says that it has {fields} fields"
    op = QUERY.operator(schema=batch.schema)
    for rows in (
        Impossible(batch, CHILDREN, fields, b"arrow_schema"),
        ImpossibleStream(pa.table(batch), fields),
    ):
        with pytest.raises(wk.InvalidValue, match=f"^data: {malformed}$"):
            QUERY.run(rows)
        with pytest.raises(wk.InvalidValue, match=f"^batch: {malformed}$"):
            op.push(rows)
        with pytest.raises(wk.InvalidValue, match=f"^right: {malformed}$"):
            wk.join(by="k", left_time="t", right_time="t", within=1).run(batch, rows)
    with pytest.raises(wk.InvalidValue, match=f"^schema: {malformed}$"):
        QUERY.operator(schema=ImpossibleSchema(batch.schema, fields))
    column = batch.column(1)
    for given in (
        Impossible(column, CHILDREN, fields, b"arrow_schema"),
        ImpossibleStream(pa.chunked_array([column]), fields),
    ):
        with pytest.raises(wk.InvalidValue, match=f"^array: {malformed}$"):
            wk.kernels.sliding(given, 2, agg="sum")
        with pytest.raises(wk.InvalidValue, match=f"^values: {malformed}$"):
            wk.HyperLogLog().update(given)
        with pytest.raises(wk.InvalidValue, match=f"^keys: {malformed}$"):
            wk.partition.Partitioner(2).assign(given)


def test_user_functions_that_return_malformed_arrays_fail():
    broken = wk.aggregate("broken", lift=lambda v: text(3, -5), combine=lambda a, b: a, lower=lambda s: s)
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=broken("t"))
    with pytest.raises(wk.InvalidValue, match="malformed"):
        query.run(pa.table({"t": range(8)}))


def streamed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def test_streams_of_bytes_are_validated_unless_told_otherwise():
    given = streamed(TABLE).replace("é".encode(), b"\xff\xff")
    for call in (QUERY.run, QUERY.batches, QUERY.operator().push):
        with pytest.raises(wk.InvalidValue, match="column 'k': malformed Arrow data: Invalid UTF8"):
            call(pa.ipc.open_stream(given))
    # Results have the keys as text.
    with pytest.raises(wk.InvalidValue, match="by: a key is not text in UTF-8"):
        QUERY.run(pa.ipc.open_stream(given), validate=False)
    assert QUERY.run(pa.ipc.open_stream(streamed(TABLE))).num_rows == 2
    # Of tables in this process that is not expected.
    table = pa.ipc.open_stream(given).read_all()
    with pytest.raises(wk.InvalidValue, match="by: a key is not text in UTF-8"):
        QUERY.run(table)
    with pytest.raises(wk.InvalidValue, match="Invalid UTF8"):
        QUERY.run(table, validate=True)


@pytest.mark.parametrize("kind", ["parquet", "feather"])
def test_readers_of_files_are_validated_unless_told_otherwise(kind, tmp_path):
    path = tmp_path / "rows"
    write = {
        "parquet": lambda: pq.write_table(TABLE, path, use_dictionary=False, compression="none"),
        "feather": lambda: feather.write_feather(TABLE, path, compression="uncompressed"),
    }
    write[kind]()
    whole = ds.dataset(path, format=kind)

    def reader() -> pa.RecordBatchReader:
        return whole.scanner(columns=QUERY.inputs).to_reader()

    rolling = wk.rolling(by="k", time="t", aggs=wk.count().over(10))
    assert QUERY.run(reader()).num_rows == rolling.run(reader()).num_rows == 2
    path.write_bytes(path.read_bytes().replace("é".encode(), b"\xff\xff"))
    for call in (QUERY.run, QUERY.batches, QUERY.operator().push, rolling.run):
        with pytest.raises(wk.InvalidValue, match="column 'k': malformed Arrow data: Invalid UTF8"):
            call(reader())
    # What is read without a look is not text in a result.
    for data, given in [(reader(), {"validate": False}), (whole.to_table(), {})]:
        with pytest.raises(wk.InvalidValue, match="by: a key is not text in UTF-8"):
            QUERY.run(data, **given)


def test_a_file_of_batches_says_what_to_do():
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, TABLE.schema) as file:
        file.write_table(TABLE)
    with pytest.raises(wk.InvalidType, match=r"RecordBatchFileReader .*; use reader.read_all\(\), with"):
        QUERY.run(pa.ipc.open_file(sink.getvalue()))


def test_flight_is_validated():
    given = pa.ipc.open_stream(streamed(TABLE).replace("é".encode(), b"\xff\xff")).read_all()

    class Server(pyarrow.flight.FlightServerBase):
        def do_get(self, _, ticket):
            return pyarrow.flight.RecordBatchStream(TABLE if ticket.ticket == b"good" else given)

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        location = f"grpc://127.0.0.1:{free.getsockname()[1]}"
    with Server(location), pyarrow.flight.connect(location) as client:
        assert QUERY.run(client.do_get(pyarrow.flight.Ticket(b"good"))).num_rows == 2
        with pytest.raises(wk.InvalidValue, match="Invalid UTF8"):
            QUERY.run(client.do_get(pyarrow.flight.Ticket(b"bad")))


@pytest.mark.parametrize(
    "call",
    [
        lambda validate: QUERY.run(TABLE, validate=validate),
        lambda validate: QUERY.batches(TABLE, validate=validate),
        lambda validate: QUERY.operator().push(TABLE, validate=validate),
        lambda validate: wk.kernels.sliding_sum(TABLE["t"], 1, validate=validate),
        lambda validate: wk.HyperLogLog().update(TABLE["k"], validate=validate),
        lambda validate: wk.partition.Partitioner(2).assign(TABLE["k"], validate=validate),
        lambda validate: wk.kernels.Window("sum", "int64").insert(Foreign(pa.array([1])), validate=validate),
    ],
)
def test_validate_is_a_bool(call):
    call(True)
    with pytest.raises(wk.InvalidType, match="validate: 1 is an int; it is True or False"):
        call(1)


def test_slices_without_rows_are_sound() -> None:
    """Their offsets point to values of other rows, which are not handed over."""
    times = pa.chunked_array([[], [1], [], [2]], pa.int64())
    for kind in (pa.string(), pa.large_binary(), pa.list_(pa.int8())):
        keys = pa.array(["a", ""] if kind != pa.list_(pa.int8()) else [[1], []], kind)
        table = pa.table({"k": keys, "t": times})
        query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
        assert query.run(table)["n"].to_pylist() == [1, 1]


def test_arrays_with_negative_offsets_are_refused() -> None:
    """As pyarrow's validation would read before them, this is tried in a process of its own."""
    printed = program(
        """
        import ctypes
        import pyarrow as pa
        import windowkit as wk

        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]

        class Spoilt:
            def __init__(self, array, path, offset):
                self.of = array, path, offset

            def __arrow_c_array__(self, requested=None):
                array, path, offset = self.of
                schema, data = array.__arrow_c_array__()
                at = pointer(data, b"arrow_array")
                for child in path:
                    children = ctypes.c_void_p.from_address(at + 48).value
                    at = ctypes.c_void_p.from_address(children + 8 * child).value
                ctypes.c_int64.from_address(at + 16).value = offset
                return schema, data

        def refused(call, *arguments, **options):
            try:
                call(*arguments, **options)
            except wk.InvalidValue:
                return 1
            raise AssertionError((call, arguments))

        def table(column):
            return pa.StructArray.from_arrays([pa.array([1] * 8), column], ["t", "v"])

        count = 0
        rows = wk.query(by=[], time="t", windows=wk.tumbling(3), aggs=wk.collect_rows())
        for offset in (-1, -3, -64, -(10**6), -(2**40), 2**62):
            # pyarrow itself dies of strings that begin far before their buffers.
            text = [] if abs(offset) > 64 else [["a", None] * 4]
            for column in ([1, None] * 4, [True] * 8, [True, None] * 4, [None] * 8, *text):
                spoilt = Spoilt(pa.array(column), [], offset)
                for validate in (True, False):
                    count += refused(wk.HyperLogLog().update, spoilt, validate=validate)
                spoilt = Spoilt(table(pa.array(column)), [1], offset)
                for validate in (True, False, None):
                    count += refused(rows.run, spoilt, validate=validate)
                    count += refused(rows.operator().push, spoilt, validate=validate)
                    count += refused(rows.run, pa.record_batch(spoilt), validate=validate)
            texts = pa.array(["a", None] * 4).dictionary_encode()
            columns = [(pa.array([[1, None]] * 8), [1, 0]), (texts, [1]), (pa.array([1, None] * 4), [1])]
            for column, path in columns:
                for validate in (True, False, None):
                    count += refused(rows.run, Spoilt(table(column), path, offset), validate=validate)
                batch = pa.record_batch(Spoilt(table(column), path, offset))
                reader = pa.RecordBatchReader.from_batches(batch.schema, [batch])
                count += refused(rows.run, reader)
        print(count)
        """
    )
    assert printed.split() == ["369"]


def test_names_and_nested_metadata_that_are_not_text_are_refused() -> None:
    rows = pa.table({"k": ["a"], "t": [1], "v": [1]})
    odd = pa.field("x", pa.int64(), metadata={b"own": b"\xfe\xff"})
    nested = pa.table({"k": ["a"], "t": [1], "v": pa.array([{"x": 1}], pa.struct([odd]))})
    query = wk.query(by="k", time="t", windows=wk.tumbling(3), aggs=wk.collect_rows())
    join = wk.join(by="k", left_time="t", right_time="t", within=3)
    for data in (nested, Renamed(rows, b"\xff")):
        for call in (
            query.run,
            lambda data: query.operator(schema=data),
            lambda data: query.operator().push(data),
            lambda data: join.run(rows, data),
            lambda data: wk.distinct("k", time="t", within=3).run(data),
            lambda data: wk.rolling(by="k", time="t", aggs=wk.count().over(3)).run(data),
        ):
            with pytest.raises(wk.InvalidValue, match=r"malformed Arrow data.*(UTF-8|utf-8)"):
                call(data)
    with pytest.raises(wk.InvalidValue, match=r"malformed Arrow data.*utf-8"):
        wk.HyperLogLog().update(nested["v"])
