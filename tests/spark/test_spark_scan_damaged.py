"""Parquet files that are damaged, cut off, or far larger than they look: a scan says so, or reads them.

Most is read by the code of tasks without Spark, in a process of its own: one that crashes or does not end is
found.
"""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException

import windowkit as wk
import windowkit.spark
from support.programs import program
from windowkit.cli.program import main

ROWS = 600
SPARK = (
    '{"type":"struct","fields":[{"name":"k","type":"string","nullable":true,"metadata":{}},'
    '{"name":"t","type":"timestamp","nullable":true,"metadata":{}},'
    '{"name":"v","type":"double","nullable":true,"metadata":{}}]}'
)
OPTIONS = {
    "plain": {"compression": "none", "use_dictionary": False},
    "snappy": {"compression": "snappy"},
    "zstd and pages of version 2": {"compression": "zstd", "data_page_version": "2.0"},
    "gzip and checksums": {"compression": "gzip", "write_page_checksum": True},
    "int96": {"use_deprecated_int96_timestamps": True},
    "page index": {"write_page_index": True, "data_page_size": 512},
    "spark": {"store_schema": False},
}
QUERY = wk.query(by="k", time="t", windows=wk.tumbling("1 minute"), aggs=[wk.count(), wk.sum("v")])


def table(rows: int = ROWS) -> pa.Table:
    at = dt.datetime(2024, 1, 31, tzinfo=dt.timezone.utc)
    return pa.table(
        {
            "k": [f"key {row % 7}" if row % 11 else None for row in range(rows)],
            "t": pa.array([at + dt.timedelta(seconds=row) for row in range(rows)], pa.timestamp("us", "UTC")),
            "v": [row / 8 for row in range(rows)],
            "d": pa.array([Decimal(row).scaleb(-2) for row in range(rows)], pa.decimal128(12, 2)),
            "l": [[row] * (row % 3) for row in range(rows)],
        }
    )


def write(path: Path, making: str) -> Path:
    rows = table()
    if making == "spark":
        rows = rows.select(["k", "t", "v"])
        rows = rows.replace_schema_metadata({"org.apache.spark.sql.parquet.row.metadata": SPARK})
    pq.write_table(rows, path, row_group_size=200, **OPTIONS[making])
    return path


DAMAGED = """
    import faulthandler, random, struct, sys, traceback
    from collections import Counter
    from pathlib import Path
    import pyarrow as pa, pyarrow.dataset as ds
    from pyarrow import fs
    import windowkit as wk
    from windowkit.files import listing
    from windowkit.spark.parquet import footers
    from windowkit.spark.parquet.pruning import Chosen
    from windowkit.spark.parquet.reading import Reader

    folder, seed, cases = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    hurt = folder / "hurt.parquet"
    query = wk.query(by="k", time="t", windows=wk.tumbling("1 minute"), aggs=[wk.count(), wk.sum("v")])
    schema = pa.schema({"k": pa.string(), "t": pa.timestamp("us", "UTC"), "v": pa.float64()})
    late = ds.field("v") > 40
    chosen = Chosen(late, late, ("v",), True)

    def damaged(sound, rng):
        data = bytearray(sound)
        footer = len(sound) - 8 - struct.unpack("<I", sound[-8:-4])[0]
        kind = rng.choice(["footer", "footer", "footer", "data", "data", "cut", "number", "moved"])
        if kind == "cut":
            return kind, bytes(data[: rng.randrange(len(data))])
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            at = rng.randrange(footer, len(data)) if kind == "footer" else rng.randrange(len(data))
            if kind == "number":
                number = rng.choice([0, 1, -1, 2**31 - 1, 2**31, 2**40, 2**62, 2**63 - 1]) % 2**64
                data[at : at + 8] = struct.pack("<Q", number)[: len(data) - at]
            elif kind == "moved":
                other, size = rng.randrange(len(data)), rng.randrange(1, 64)
                data[at : at + size] = data[other : other + size]
            else:
                data[at] ^= 1 << rng.randrange(8)
        return kind, bytes(data)

    def read():
        source = listing.found(str(hurt))
        footers.schema_of(source, False)
        for filter in (None, chosen):
            reader = Reader(source.filesystem, schema, pa.schema([]), filter)
            parts = [part for task in listing.parts(source, 2) for part in task]
            batches = [batch for part in parts for batch in reader.batches(part)]
            for batch in batches:
                batch.validate(full=True)
            query.run(pa.Table.from_batches(batches, schema))

    for path in sorted(folder.glob("* file")):
        outcomes = Counter()
        for case in range(seed, seed + cases):
            kind, data = damaged(path.read_bytes(), random.Random(f"{path.name} {case}"))
            hurt.write_bytes(data)
            # Whoever runs this sees which case crashed, or did not end.
            faulthandler.dump_traceback_later(120, exit=True)
            print(path.name, case, kind, file=sys.stderr, flush=True)
            try:
                read()
            except wk.WindowKitError as error:
                assert len(str(error)) < 2000, error
                outcomes["refused"] += 1
            except Exception as error:
                print(f"{path.name}, {case} ({kind}): {type(error).__name__}: {str(error)[:300]}")
                traceback.print_exc()
                outcomes["failed"] += 1
            else:
                outcomes["read"] += 1
            faulthandler.cancel_dump_traceback_later()
        print(outcomes["refused"], "refused,", outcomes["read"], "read,", outcomes["failed"], "failed")
"""


@pytest.mark.slow
def test_damaged_files_are_refused_or_read(tmp_path: Path) -> None:
    """What no checksum covers may be read as other values; nothing else may come of it."""
    for making in OPTIONS:
        write(tmp_path / f"{making} file", making)
    lines = program(DAMAGED, tmp_path, 0, 80).splitlines()
    assert len(lines) == len(OPTIONS), lines
    for line in lines:
        refused, read, failed = map(int, re.findall(r"\d+", line))
        assert refused + read == 80
        assert failed == 0
        assert refused > 10


EVERY_BIT = """
    import struct, sys
    from pathlib import Path
    import pyarrow as pa, pyarrow.dataset as ds, pyarrow.parquet as pq
    import windowkit as wk
    from windowkit.files import listing
    from windowkit.spark.parquet.pruning import Chosen, pruned
    from windowkit.spark.parquet.reading import Reader, fragment

    path = Path(sys.argv[1])
    rows = pa.table({"k": ["a", "b", None] * 4, "l": [[1], [], [2, 3]] * 4, "v": [1.0, None, 3.0] * 4})
    pq.write_table(rows, path, store_schema=False)
    sound = path.read_bytes()
    schema = pa.schema({"k": pa.string(), "l": pa.list_(pa.int64()), "v": pa.float64()})
    filter = ds.field("v") > 1
    chosen = Chosen(filter, filter, ("v", "k"), True)
    footer = len(sound) - 8 - struct.unpack("<I", sound[-8:-4])[0]
    named = read = 0
    for at in range(footer, len(sound) - 8):
        for bit in range(2):
            damaged = bytearray(sound)
            damaged[at] ^= 1 << bit
            path.write_bytes(damaged)
            source = listing.found(str(path))
            reader = Reader(source.filesystem, schema, pa.schema([]), chosen)
            try:
                pruned(fragment(source.filesystem, source.files[0]), schema, chosen)
                for part in listing.parts(source, 1)[0]:
                    list(reader.batches(part))
            except wk.WindowKitError as error:
                named += path.name in str(error)
            else:
                read += 1
    print(named, read, 2 * (len(sound) - 8 - footer))
"""


@pytest.mark.slow
def test_no_bit_of_a_footer_ends_the_process(tmp_path: Path) -> None:
    """Of pyarrow two exceptions are known that nobody catches: of numbers of levels, and of types."""
    named, read, every = map(int, program(EVERY_BIT, tmp_path / "bits.parquet").split())
    assert named + read == every
    assert named > every / 5
    assert read > every / 20


LARGE = """
    import resource, sys
    from pathlib import Path
    import pyarrow as pa
    import windowkit as wk
    from windowkit.files import listing
    from windowkit.spark.parquet.reading import Reader

    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10

    path, schema = sys.argv[1], pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(sys.argv[2])))
    source = listing.found(path)
    reader = Reader(source.filesystem, schema, pa.schema([]))
    before, rows, most = peak(), 0, 0
    try:
        for part in listing.parts(source, 1)[0]:
            for batch in reader.batches(part):
                rows, most = rows + batch.num_rows, max(most, batch.nbytes >> 20)
    except wk.InvalidValue as error:
        assert Path(path).name in str(error), error
        rows = -1
    print(rows, most, peak() - before)
"""


def read(path: Path, schema: pa.Schema) -> list[int]:
    """Read a file in a process of its own; return rows, -1 if refused, and the MiB of a batch and at all."""
    printed = program(LARGE, path, schema.serialize().to_pybytes().hex(), ARROW_DEFAULT_MEMORY_POOL="system")
    return [int(word) for word in printed.split()]


@pytest.mark.parametrize("kind", ["text", "bytes", "list", "struct"])
def test_a_long_text_of_many_rows_takes_no_more_than_some_rows_of_it(tmp_path: Path, kind: str) -> None:
    """A file of some kB whose texts are a gigabyte."""
    rows, text = 20_000, pa.array(["x", "y" * 50_000])
    texts: pa.Array = pa.DictionaryArray.from_arrays(pa.array([0, *[1] * (rows - 1)], pa.int32()), text)
    if kind == "bytes":
        texts = pa.DictionaryArray.from_arrays(texts.indices, text.cast(pa.binary()))
    elif kind == "list":
        texts = pa.ListArray.from_arrays(pa.array(range(rows + 1), pa.int32()), texts)
    elif kind == "struct":
        texts = pa.StructArray.from_arrays([texts], ["inner"])
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"s": texts}), path, store_schema=False)
    assert path.stat().st_size < 100_000
    wanted = pq.ParquetFile(path).schema_arrow
    assert rows * 50_000 >> 20 > 900
    found, batch, growth = read(path, wanted)
    assert (found, batch <= 64) == (rows, True)
    assert growth < 350


VALUES = 17 << 20
"""Of a page that has to have a size of five bytes in its header."""


def expanding(path: Path) -> bytes:
    """Write a file with a page that is a thousand times as large as it looks."""
    zeros = pa.Array.from_buffers(pa.int64(), VALUES, [None, pa.py_buffer(bytes(8 * VALUES))])
    pq.write_table(
        pa.table({"v": zeros}),
        path,
        compression="zstd",
        use_dictionary=False,
        row_group_size=VALUES,
        data_page_size=1 << 30,
        max_rows_per_page=VALUES,
    )
    return path.read_bytes()


def varint(number: int) -> bytes:
    """Return a number as Thrift's compact protocol writes it."""
    left, found = number << 1 if number >= 0 else (-number << 1) - 1, bytearray()
    while left > 127:
        found.append(left & 127 | 128)
        left >>= 7
    return bytes([*found, left])


def number_at(data: bytes, at: int) -> int:
    """Return the number that is written there."""
    found = shift = 0
    for byte in data[at:]:
        found |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            break
    return found >> 1 if not found & 1 else -(found >> 1) - 1


def test_a_page_that_expands_is_read_as_it_is(tmp_path: Path) -> None:
    data = expanding(tmp_path / "page.parquet")
    assert 1000 * len(data) < 8 * VALUES
    rows, batch, growth = read(tmp_path / "page.parquet", pa.schema({"v": pa.int64()}))
    assert (rows, batch) == (VALUES, 0)
    assert growth < 450


@pytest.mark.parametrize("said", [2**31 - 1, 8 * VALUES + 8, 8 * VALUES - 8])
def test_a_page_whose_header_says_another_size_is_refused(tmp_path: Path, said: int) -> None:
    path = tmp_path / "page.parquet"
    data = expanding(path)
    # Levels take some bytes, too.
    at = next(at for at in range(4, 64) if 8 * VALUES <= number_at(data, at) < 8 * VALUES + 64)
    assert len(varint(said)) == len(varint(8 * VALUES)) == 5
    path.write_bytes(data[:at] + varint(said) + data[at + 5 :])
    rows, _, growth = read(path, pa.schema({"v": pa.int64()}))
    assert rows == -1
    assert growth < 450


def hurt(folder: Path, damage: str) -> Path:
    """Write a file that is damaged in its pages or its footer, or cut off."""
    path = write(folder / "hurt.parquet", "snappy")
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 2 :]
    else:
        at = 200 if damage == "pages" else len(data) - 300
        data[at : at + 100] = b"\xff" * 100
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("damage", ["pages", "footer", "cut"])
def test_a_scan_of_a_damaged_file_fails_by_its_name(spark, tmp_path, damage):
    """And the session goes on."""
    write(tmp_path / "sound.parquet", "snappy")
    path = hurt(tmp_path, damage)
    with pytest.raises((PySparkException, wk.InvalidValue), match=r"hurt\.parquet"):
        windowkit.spark.scan(spark, [str(path), str(tmp_path / "sound.parquet")], QUERY).collect()
    assert windowkit.spark.scan(spark, str(tmp_path / "sound.parquet"), QUERY).count() > 10


@pytest.mark.parametrize("damage", ["pages", "footer", "cut"])
def test_the_command_line_refuses_a_damaged_file(tmp_path, capsys, damage):
    path = hurt(tmp_path, damage)
    command = [
        "aggregate",
        "--input",
        str(path),
        "--by",
        "k",
        "--time",
        "t",
        "--window",
        "tumbling(1 minute)",
    ]
    # A file without a sound footer is refused as an argument; that its pages are damaged shows in the job.
    code = 1 if damage == "pages" else 2
    assert main([*command, "--agg", "sum(v)", "--output", str(tmp_path / "out.parquet")]) == code
    assert "error: " in capsys.readouterr().err
    assert not (tmp_path / "out.parquet").exists()
