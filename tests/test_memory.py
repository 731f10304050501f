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
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=[AGGS])
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


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("aggs", ['wk.count_distinct("v")', 'wk.collect_list("s")'])
def test_an_allocation_that_fails_is_an_error(aggs, threads):
    """Not an abort, of which a Spark job would learn no more than that a worker is gone."""
    text = PROGRAM.replace("AGGS", aggs).replace("THREADS", str(threads))
    done = program(text, MIMALLOC_ARENA_RESERVE="1MiB")
    said, rows = done.splitlines()
    assert "alloc" in said
    assert rows == "100"
