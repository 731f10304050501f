"""Memory follows a bucket of keys and a round of rows, not a partition."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import windowkit as wk
from windowkit.spark import stages

ROOT = str(Path(wk.__file__).parents[1])

PROGRAM = """
    import resource
    import sys
    import numpy as np
    import pyarrow as pa
    import windowkit as wk
    from windowkit.local import plan
    from windowkit.spark import packing, stages

    what, megabytes = sys.argv[1], int(sys.argv[2])
    query = wk.query(by="k", time="t", windows=wk.sliding(20, 10), aggs=[wk.sum("v"), wk.max("v")])
    schema = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.float64()})

    def used():
        with open("/proc/self/statm") as pages:
            return int(pages.read().split()[0]) * resource.getpagesize()

    def limit():
        resource.setrlimit(resource.RLIMIT_AS, (used() + megabytes * 2**20,) * 2)

    def rows(first, count, keys, step):
        number = np.arange(first, first + count)
        return pa.record_batch([number % keys, number * step, number % 97 * 1.0], schema=schema)

    BATCH = 1 << 16
"""


def python(text: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM) + textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": ROOT, "ARROW_DEFAULT_MEMORY_POOL": "system"},
        check=False,
    )


PACK = """
    # Every row is a slice of its own: 8 million, that is 256 MB of slices.
    pack = stages.Pack(query, schema, 4, 64, limits=stages.Limits(slots=1 << 18, share=9.0))
    warm = list(pack(iter([rows(0, 100, 10, 10)])))
    limit()
    made = pack(rows(first, BATCH, 1 << 20, 10) for first in range(0, 8 << 20, BATCH))
    print(sum(sum(batch["slices"].to_pylist()) for batch in made))
"""


def test_stage_1_holds_a_round():
    done = python(PACK, "pack", 160)
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) == 8 << 20


MAKE = """
    # Slices of 2^19 keys in 64 buckets of one partition; 4 million in all.
    pack = stages.Pack(query, schema, 1, 64, limits=stages.Limits(share=9.0))
    made = pack(rows(first, BATCH, 1 << 19, 10) for first in range(0, 4 << 20, BATCH))
    chunks = pa.Table.from_batches(made).sort_by("bucket").select(["bucket", "chunk"])
    with pa.ipc.new_file(what, chunks.schema) as file:
        file.write_table(chunks, max_chunksize=4)
"""

UNPACK = """
    path, joined = what.split("?")
    file = pa.ipc.open_file(pa.OSFile(path))
    batches = (file.get_batch(at) for at in range(file.num_record_batches))
    unpack = stages.Unpack(query, schema, stages.Limits(joined=int(joined)))
    limit()
    print(sum(batch.num_rows for batch in unpack(batches)))
"""


def test_stage_2_holds_a_bucket(tmp_path):
    path = tmp_path / "chunks.arrow"
    made = python(MAKE, path, 0)
    assert made.returncode == 0, made.stderr[-3000:]
    one_by_one = python(UNPACK, f"{path}?{stages.LIMITS.joined}", 130)
    assert one_by_one.returncode == 0, one_by_one.stderr[-3000:]
    # A row is in two windows, and rows of a key are further apart than these.
    assert int(one_by_one.stdout) == 2 * (4 << 20)
    # All of the partition as one bucket needs more than the limit, or that would be none.
    assert python(UNPACK, f"{path}?{1 << 40}", 130).returncode != 0


HOT = """
    # One key has all rows, 400 MB of them: its slices are as many as panes, however many rows there are.
    query = wk.query(by="k", time="t", windows=wk.sliding(200, 100), aggs=query.aggs)
    pack = stages.Pack(query, schema, 4, 64)
    list(pack(iter([rows(0, 100, 1, 10)])))
    limit()
    made = pack(rows(first, BATCH, 1, 1) for first in range(0, 16 << 20, BATCH))
    table = pa.Table.from_batches(made).select(["bucket", "chunk"])
    print(sum(batch.num_rows for batch in stages.Unpack(query, schema)(iter(table.to_batches()))))
"""


def test_a_hot_key_is_its_slices():
    done = python(HOT, "hot", 200)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = 16 << 20
    assert int(done.stdout) == (rows - 1) // 100 + 2


@pytest.mark.parametrize("route", ["packed"])
def test_a_million_keys(spark, route):
    frame = spark.range(0, 1_000_000, 1, 2).selectExpr("id as k", "id % 100 as t", "double(id % 7) as v")
    query = wk.query(by="k", time="t", windows=wk.sliding(20, 10), aggs=wk.sum("v"))
    result = query.run(frame, route=route)
    total = result.selectExpr("count(1)", "sum(`sum(v)`)", "count(distinct k)").first()
    wanted = frame.selectExpr("2 * count(1)", "2 * sum(v)", "count(distinct k)").first()
    assert tuple(total) == tuple(wanted)
