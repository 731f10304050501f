"""An interpreter that ends while daemon threads are within calls ends as if they were not there."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

import pytest

from support.programs import ROOT, program

CALLING = """
    import random, sys, threading, time

    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    import windowkit as wk

    kind, seed = sys.argv[1], int(sys.argv[2])
    rng, chosen = np.random.default_rng(seed), random.Random(seed)
    count = 40_000
    columns = {"k": rng.integers(0, 50, count), "t": np.sort(rng.integers(0, count, count))}
    table = pa.table({**columns, "v": rng.random(count)})
    batches = table.to_batches(max_chunksize=200)

    def busy(values):
        for _ in range(2_000):
            pass
        return values

    def query(*aggs, **options):
        return wk.query(by="k", time="t", windows=wk.sliding(600, 60), aggs=list(aggs), **options)

    total = wk.aggregate(
        "total", lift=busy, combine=lambda a, b: pc.add(busy(a), b), lower=busy, commutative=True
    )
    median, mine = query(wk.median("v")), query(total("v"))
    join = wk.join(by="k", left_time="t", right_time="t", within=10)
    shared = [median.batches(table)]

    def push(query):
        operator = query.operator(schema=table.schema)
        for batch in batches:
            operator.push(batch)

    def push_both():
        operator = join.operator(table.schema, table.schema)
        for batch in batches:
            operator.push_left(batch)
            operator.push_right(batch)

    def read_shared():
        try:
            shared[0].read_next_batch()
        except StopIteration:
            shared[0] = median.batches(table)

    def generated():
        for batch in batches:
            busy(None)
            yield batch

    calls = {
        "batch": lambda: median.run(table, threads=2),
        "batch, user": lambda: mine.run(table, threads=2),
        "generator": lambda: median.run(pa.RecordBatchReader.from_batches(table.schema, generated())),
        "rolling": lambda: wk.rolling(by="k", time="t", aggs=wk.median("v").over(50)).run(table),
        "join": lambda: join.run(table, table),
        "reader": lambda: [None for _ in median.batches(table)],
        "reader, shared": read_shared,
        "stream": lambda: push(median),
        "stream, user": lambda: push(mine),
        "stream, join": push_both,
        "plans": lambda: mine.run(table.slice(0, 10)),
    }

    def loop():
        while True:
            calls[kind]()

    for _ in range(4):
        threading.Thread(target=loop, daemon=True).start()
    time.sleep(chosen.uniform(0.02, 0.3))
    print("ends", flush=True)
"""

KINDS = (
    *("batch", "batch, user", "generator", "rolling", "join", "reader", "reader, shared"),
    *("stream", "stream, user", "stream, join", "plans"),
)

AFTERWARDS = """
    import atexit, sys, threading, time

    import pyarrow as pa

    table = pa.table({"k": [1, 2, 1], "t": [1, 2, 13], "v": [1.0, 2.0, 3.0]})

    def at_end():
        # Calls of the thread that ends the interpreter go on, also in functions that helpers run.
        assert query.run(table).num_rows == 3
        assert mine.run(pa.concat_tables([table] * 20_000), threads=2).num_rows == 3
        began.set()
        thread.join(30)
        assert not thread.is_alive()
        print(*raised)

    # The last one to be called, after that of windowkit.
    atexit.register(at_end)

    import windowkit as wk

    def lift(values):
        query.run(table)
        return values

    own = dict(by="k", time="t", windows=wk.tumbling(10))
    query = wk.query(**own, aggs=wk.sum("v"))
    total = wk.aggregate("total", lift=lift, combine=lambda a, b: a, lower=lambda s: s, identity=0.0)
    mine = wk.query(**own, aggs=total("v"))
    operator = query.operator(schema=table.schema)
    began, raised = threading.Event(), []

    def late():
        began.wait()
        calls = {
            "run": lambda: query.run(table),
            "batches": lambda: query.batches(table).read_all(),
            "push": lambda: operator.push(table),
        }
        for name, call in calls.items():
            try:
                call()
            except SystemExit as error:
                raised.append(name)
                assert "the interpreter ends" in str(error)
        # Its thread ends without a word.
        query.run(table)

    thread = threading.Thread(target=late, daemon=True)
    thread.start()
"""

WAITING = """
    import sys, threading, time

    import pyarrow as pa

    import windowkit as wk

    table = pa.table({"t": [1], "v": [1.0]})
    within = threading.Event()

    def slow(values):
        within.set()
        time.sleep(float(sys.argv[1]))
        print("ended", flush=True)
        return values

    total = wk.aggregate("total", lift=slow, combine=lambda a, b: a, lower=lambda s: s)
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=total("v"))
    threading.Thread(target=query.run, args=(table,), daemon=True).start()
    within.wait()
    print("main", flush=True)
"""

FORKED = """
    import atexit, os, threading, time

    import pyarrow as pa

    import windowkit as wk

    table = pa.table({"t": [1], "v": [1.0]})
    within, free = threading.Event(), threading.Event()

    def slow(values):
        within.set()
        free.wait()
        return values

    total = wk.aggregate("total", lift=slow, combine=lambda a, b: a, lower=lambda s: s)
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=total("v"))
    thread = threading.Thread(target=query.run, args=(table,))
    thread.start()
    within.wait()
    began = time.monotonic()
    child = os.fork()
    if child == 0:
        # As many calls as this thread is within: none.
        atexit._run_exitfuncs()
        os._exit(time.monotonic() - began > 2.5)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    free.set()
    thread.join()
    assert status == 0, "the child waited"
"""


def ended(text: str, *arguments: object) -> tuple[int, str, str]:
    """Run a program; return its status, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": ROOT},
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_daemon_threads_within_calls_do_not_abort_the_process(kind: str) -> None:
    for seed in range(4):
        assert ended(CALLING, kind, seed) == (0, "ends\n", ""), seed


def test_calls_in_other_threads_are_refused_at_the_end_and_those_of_the_thread_that_ends_are_not() -> None:
    assert ended(AFTERWARDS) == (0, "run batches push\n", "")


def test_functions_of_users_are_waited_for_but_not_for_long() -> None:
    assert ended(WAITING, 0.3) == (0, "main\nended\n", "")
    assert ended(WAITING, 100_000) == (0, "main\n", "")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_child_does_not_wait_for_calls_of_threads_that_a_fork_has_left_behind() -> None:
    program(FORKED)
