"""Parquet files that are damaged, cut off, or far larger than they look: a scan says so, or reads them.

Most is read by the code of tasks without Spark, in a process of its own: one that crashes or does not end is
found. Of pyarrow itself one crash is known, which these damages do not lead to: what a footer says of levels
(``SizeStatistics``) is checked by a constructor whose exception ends the process.
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
from windowkit.cli import main

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
    from windowkit import files
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
        source = files.found(str(hurt))
        footers.schema_of(source, False)
        for filter in (None, chosen):
            reader = Reader(source.filesystem, schema, pa.schema([]), filter)
            parts = [part for task in files.parts(source, 2) for part in task]
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
