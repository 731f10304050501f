"""What a process does that may have no more memory."""

from __future__ import annotations

import pytest

from support.programs import program

PROGRAM = """
    import resource
    import numpy as np
    import pyarrow as pa
    import windowkit as wk

    rows = pa.table({"t": np.arange(1 << 22), "v": np.arange(1 << 22), "s": np.arange(1 << 22).astype(str)})
    query = QUERY
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    taken = int(status["VmSize"].split()[0]) << 10
    resource.setrlimit(resource.RLIMIT_AS, (taken + (20 << 20), resource.RLIM_INFINITY))
    try:
        query.run(rows, threads=THREADS)
    except MemoryError as error:
        message = str(error)
    else:
        message = "there was enough"
    resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(message)
    print(query.run(rows.slice(0, 1000)).num_rows)
"""


WINDOWS = 'wk.query(by=[], time="t", windows=wk.tumbling(10), aggs={})'
FRAMES = 'wk.rolling(by=[], time="t", aggs={}.over(10))'


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("query", "answers"),
    [
        (WINDOWS.format('wk.count_distinct("v")'), "100"),
        (WINDOWS.format('wk.collect_list("s")'), "100"),
        (WINDOWS.format("wk.collect_rows()"), "100"),
        (FRAMES.format('wk.sum("v")'), "1000"),
        (FRAMES.format('wk.collect_list("s")'), "1000"),
    ],
)
def test_an_allocation_that_fails_is_an_error(query: str, answers: str, threads: int) -> None:
    """Not an abort, of which a Spark job would learn no more than that a worker is gone."""
    text = PROGRAM.replace("QUERY", query).replace("THREADS", str(threads))
    done = program(text, MIMALLOC_ARENA_RESERVE="1MiB")
    said, rows = done.splitlines()
    assert "alloc" in said
    assert rows == answers


SWEEP = """
    import resource
    import pyarrow as pa
    import numpy as np
    import windowkit as wk

    unlimited = resource.getrlimit(resource.RLIMIT_AS)[1]

    def limited(extra, work):
        # What work returns with so many more bytes of address space; None where that is too little.
        status = dict(line.split(":", 1) for line in open("/proc/self/status"))
        taken = int(status["VmSize"].split()[0]) << 10
        resource.setrlimit(resource.RLIMIT_AS, (taken + extra, unlimited))
        try:
            return work()
        except MemoryError:
            return None
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (unlimited, unlimited))

    numbers = np.arange(24 << 15)
    rows = pa.table({"t": numbers, "v": numbers, "s": numbers.astype(str)})
    aggs = [wk.collect_list("s"), wk.count_distinct("v"), wk.collect_rows("v", "s")]
    query = wk.query(by=[], time="t", windows=wk.tumbling(1 << 20), aggs=aggs)
    sketch = wk.HyperLogLog(21)
    sketch.update(rows["v"])
    op = query.operator(schema=rows.schema)
    failed = succeeded = 0
    for turn in range(24):
        # More each time than memory that was freed has room for.
        op.push(rows.slice(turn << 15, 1 << 15))
        extra = [0, 1 << 20, 4 << 20, 64 << 20][turn % 4]
        snapshot = limited(extra, op.snapshot)
        whole = op.snapshot()
        restored = limited(extra, lambda: wk.Operator.restore(whole, query))
        written = limited(extra, sketch.to_bytes)
        assert snapshot in (None, whole)
        assert restored is None or restored.snapshot() == whole
        assert written in (None, sketch.to_bytes())
        missing = [snapshot, restored, written].count(None)
        failed, succeeded = failed + missing, succeeded + 3 - missing
        del restored
    assert op.close().num_rows == 1
    print(failed, succeeded)
"""


@pytest.mark.slow
def test_snapshots_without_memory_are_an_error_that_says_so() -> None:
    """Never a panic, nor a sound snapshot that is called damaged."""
    failed, succeeded = map(int, program(SWEEP, MIMALLOC_ARENA_RESERVE="1MiB").split())
    assert failed > 10
    assert succeeded > 10


WITHOUT_ARENAS = """
    import resource
    import numpy as np
    import pyarrow as pa
    import windowkit as wk

    unlimited, threads = resource.getrlimit(resource.RLIMIT_AS)[1], THREADS
    numbers = np.arange(1 << 18)
    rows = pa.table({"k": numbers % 999, "t": numbers, "v": numbers, "s": numbers.astype(str)})
    aggs = [wk.sum("v"), wk.median("v"), wk.collect_list("s")]
    query = wk.query(by="k", time="t", windows=wk.sliding(1 << 14, 1 << 12), aggs=aggs)
    frames = [wk.max("v").over(1 << 12), wk.collect_list("s").over("3 rows")]
    rolling = wk.rolling(by="k", time="t", aggs=frames)
    join = wk.join(by="k", left_time="t", right_time="t", within=999)
    op = query.operator(order="out-of-order", schema=rows.schema)
    op.push(rows.slice(0, 1 << 16))
    snapshot = op.snapshot()
    calls = {
        "run": lambda: query.run(rows, threads=threads).num_rows,
        "rolling": lambda: rolling.run(rows, threads=threads).num_rows,
        "join": lambda: join.run(rows, rows, threads=threads).num_rows,
        "push": lambda: op.push(rows.slice(1 << 16)).num_rows,
        "snapshot": lambda: op.snapshot() == snapshot,
    }
    failed = 0
    for extra in (0, 1 << 20, 4 << 20, 12 << 20, 40 << 20):
        for name, call in calls.items():
            status = dict(line.split(":", 1) for line in open("/proc/self/status"))
            taken = int(status["VmSize"].split()[0]) << 10
            resource.setrlimit(resource.RLIMIT_AS, (taken + extra, unlimited))
            try:
                result = call()
            except MemoryError:
                result = None
            finally:
                resource.setrlimit(resource.RLIMIT_AS, (unlimited, unlimited))
            failed += result is None
            if name == "push" and result is not None:
                op = wk.Operator.restore(snapshot, query)
            assert op.snapshot() == snapshot, name
            assert result is None or name != "snapshot" or result
    assert calls["run"]() > 0 and calls["push"]() >= 0
    print(failed)
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_without_arenas_memory_that_is_short_is_an_error(threads: int) -> None:
    """Where each allocation of the allocator is one of the system's, which then fail at any place."""
    text = WITHOUT_ARENAS.replace("THREADS", str(threads))
    assert int(program(text, MIMALLOC_ARENA_RESERVE="1024", MIMALLOC_DISALLOW_ARENA_ALLOC="1")) > 3
