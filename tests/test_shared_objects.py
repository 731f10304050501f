"""What several threads may use at a time: no call waits for ever, whatever the others do."""

from __future__ import annotations

import os

import pytest

from support.programs import program

WAITING = """
    import sys, threading

    import numpy as np
    import pyarrow as pa

    from windowkit import kernels

    window = kernels.Window("max", pa.int64(), algorithm="two_stacks")
    values = pa.array(np.arange(8_000_000))
    ends = []

    def look():
        while not ends:
            len(window), window.null_count

    threads = [threading.Thread(target=look, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    # Longer than the time between two looks whether to end, each of which needs the GIL.
    window.slide(values, 1000)
    ends.append(True)
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert len(window) == 1000
"""

FORKING = """
    import os, signal, threading, time

    import numpy as np
    import pyarrow as pa

    import windowkit as wk
    from windowkit import kernels, partition

    numbers, keys = pa.array(np.arange(2_000_000)), pa.array(np.arange(300_000).astype(str))
    window = kernels.Window("max", pa.int64(), algorithm="two_stacks")
    sketch = wk.HyperLogLog(21)
    partitioner = partition.Partitioner(4)
    calls = [
        (lambda: window.slide(numbers, 1000), lambda: len(window)),
        (lambda: sketch.update(keys), sketch.estimate),
        (lambda: partitioner.assign(keys), partitioner.loads),
    ]
    for long, short in calls:
        ends, refused = [], 0

        def loop():
            while not ends:
                long()

        thread = threading.Thread(target=loop)
        thread.start()
        for _ in range(20):
            time.sleep(0.02)
            process = os.fork()
            if process == 0:
                # A call that waits ends here.
                signal.alarm(30)
                try:
                    short()
                except wk.InvalidValue as error:
                    os._exit(3 if "another thread was using the object" in str(error) else 4)
                os._exit(0)
            status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
            assert status in (0, 3), status
            refused += status == 3
            if refused == 2:
                break
        ends.append(True)
        thread.join()
        assert refused, "no fork came during a call"
        # Here nothing was lost.
        short()
"""

READING = """
    import sys, threading

    import pyarrow as pa

    import windowkit as wk

    # Threads change places within any call.
    sys.setswitchinterval(1e-6)

    rows = range(6_000)
    columns = {"k": [i % 10 for i in rows], "t": [i % 700 for i in rows], "v": [i * 1.0 for i in rows]}
    table = pa.table(columns)
    left = table.slice(0, 1_000)
    sliding = dict(by="k", time="t", windows=wk.sliding(100, 10), window_columns="struct")
    queries = [
        wk.query(by="k", time="t", windows=wk.sliding(100, 10), aggs=[wk.median("v"), wk.collect_list("v")]),
        wk.query(by=["k", "v"], time="t", windows=wk.sliding(40, 1), aggs=wk.count().alias("n")),
        wk.query(aggs=wk.max("v").alias("m"), **sliding),
    ]
    join = wk.join(by="k", left_time="t", right_time="t", within=100)
    distinct = wk.distinct("k", time="t", within=3)
    readers = {
        "query": (lambda: queries[0].batches(table), queries[0].run(table)),
        "many windows": (lambda: queries[1].batches(table, threads=2), queries[1].run(table)),
        "structs": (lambda: queries[2].batches(table), queries[2].run(table)),
        "join": (lambda: join.batches(left, table), join.run(left, table)),
        "distinct": (lambda: distinct.batches(table), distinct.run(table)),
    }

    def by_batch(reader, read):
        while True:
            try:
                read.append(reader.read_next_batch())
            except StopIteration:
                return

    def by_stream(reader, read):
        # Each has a C stream of its own, and all these have one reader.
        read.extend(pa.table(reader).to_batches())

    def all_left(reader, read):
        read.extend(reader.read_all().to_batches())

    def in_threads(reader, take):
        read, raised = [], []
        begins = threading.Barrier(4)

        def run():
            begins.wait()
            try:
                take(reader, read)
            except Exception as error:
                raised.append(error)

        threads = [threading.Thread(target=run) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return read, raised

    def in_order(rows):
        rows = rows.flatten()
        flat = [each.name for each in rows.schema if not pa.types.is_nested(each.type)]
        return rows.sort_by([(name, "ascending") for name in flat])

    for kind, (reader, expected) in readers.items():
        of_all = in_order(expected)
        for take in (by_batch, by_stream, all_left):
            for _ in range(int(sys.argv[1])):
                read, raised = in_threads(reader(), take)
                assert not raised, (kind, raised)
                assert in_order(pa.Table.from_batches(read, expected.schema)) == of_all, kind

    # What fails does so for one thread, and then for each that goes on.
    clash = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v"))
    huge = pa.table({"t": list(range(100)), "v": [2**62] * 100})
    for _ in range(20):
        read, raised = in_threads(clash.batches(huge), by_batch)
        assert raised and all(isinstance(each, wk.WindowKitError) for each in raised), raised
    print("read")
"""

CALLING = """
    import random, sys, threading

    import pyarrow as pa

    import windowkit as wk

    sys.setswitchinterval(1e-5)
    schema = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.float64()})
    batch = pa.record_batch([pa.array(["a", "b"]), pa.array([1, 2]), pa.array([1.0, 2.0])], schema=schema)
    both = dict(by="k", left_time="t", right_time="t")

    # Of each kind, with how it is pushed to; a user's aggregate calls from within the core.
    within = threading.local()

    def lift(values):
        # Not while a query is bound to its schema.
        getattr(within, "calls", lambda: None)()
        return values

    mine = wk.aggregate("mine", lift=lift, combine=lambda a, b: a, lower=lambda x: x, identity=0.0)
    query = dict(by="k", time="t", windows=wk.tumbling(10))

    def by_reader(push):
        def call(calls):
            def batches():
                yield batch
                calls()

            push(pa.RecordBatchReader.from_batches(schema, batches()))

        return call

    def by_function(push):
        def call(calls):
            before = getattr(within, "calls", lambda: None)
            within.calls = calls
            try:
                push(batch)
            finally:
                within.calls = before

        return call

    def made(kind):
        if kind == "join":
            op = wk.join(**both, within=5).operator(schema, schema)
            return op, by_reader(op.push_right)
        if kind == "distinct":
            op = wk.distinct("k", time="t", within=5).operator(schema)
            return op, by_reader(op.push)
        aggs = mine("v") if kind == "function" else wk.sum("v")
        op = wk.query(**query, aggs=aggs).operator(order="out-of-order", schema=schema)
        return op, by_function(op.push) if kind == "function" else by_reader(op.push)

    kinds = ("query", "function", "join", "distinct")
    refused = 0
    for seed in range(int(sys.argv[1]), int(sys.argv[2])):
        chance = random.Random(seed)
        number = chance.randint(2, 4)
        ops = [made(chance.choice(kinds)) for _ in range(number)]
        # In one order, calls wait for each other without harm.
        in_order = chance.random() < 0.3
        paths = []
        for _ in range(chance.randint(2, 4)):
            path = chance.sample(range(number), chance.randint(2, number))
            paths.append(sorted(path) if in_order else path)
        succeeded, raised = [0] * number, []
        begins = threading.Barrier(len(paths))

        def visit(path):
            if not path:
                return
            ops[path[0]][1](lambda: visit(path[1:]))
            with counting:
                succeeded[path[0]] += 1

        def run(path):
            begins.wait()
            for _ in range(25):
                try:
                    visit(path)
                except Exception as error:
                    raised.append(error)

        counting = threading.Lock()
        threads = [threading.Thread(target=run, args=(path,), daemon=True) for path in paths]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert not any(thread.is_alive() for thread in threads), ("they wait for ever", seed, paths)
        for error in raised:
            assert isinstance(error, wk.InvalidValue), (seed, error)
            assert "neither would ever end" in str(error), (seed, error)
        assert not (in_order and raised), (seed, raised)
        assert [op.calls for op, _ in ops] == succeeded, (seed, paths)
        refused += len(raised)
    assert refused, "no calls met"
    print("ended")
"""


MEETING = """
    import sys, threading

    import pyarrow as pa

    import windowkit as wk

    sys.setswitchinterval(1e-5)
    rows = range(150_000)
    many = pa.table({"k": rows, "t": [0] * len(rows), "v": [1.0] * len(rows)})
    schema = many.schema

    # What a function of a call reads or pushes to, whichever thread runs it.
    calls = {}

    def mine(name):
        def lower(states):
            calls.get(name, lambda: None)()
            return states

        return wk.aggregate(name, lift=lambda v: v, combine=lambda a, b: a, lower=lower, identity=0.0)

    def query(name):
        return wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=mine(name)("v").alias("v"))

    def in_threads(*works):
        raised = []

        def run(work):
            try:
                work()
            except wk.InvalidValue as error:
                raised.append(str(error))

        threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not any(thread.is_alive() for thread in threads), "they wait for ever"
        return raised

    # Two readers, or a reader and an operator, whose functions meet: each asks for the other's.
    few = many.slice(0, 100)
    for other in ("reader", "operator"):
        reader = query("a").batches(few)
        if other == "reader":
            second = query("b").batches(few).read_next_batch
        else:
            op = query("b").operator(order="in-order", schema=schema)
            op.push(few)
            second = op.close
        meet = threading.Barrier(2)
        first = {"a", "b"}

        def calling(name, call):
            def function():
                if name in first:
                    first.discard(name)
                    meet.wait(30)
                    call()

            return function

        calls["a"], calls["b"] = calling("a", second), calling("b", reader.read_next_batch)
        raised = in_threads(reader.read_next_batch, second)
        calls.clear()
        assert any("neither would ever end" in text for text in raised), (other, raised)

    # The function of a helper of the call: it would wait for the call, which waits for its thread.
    reader = query("a").batches(many, threads=2)
    own, helped = [], threading.Event()

    def read():
        own.append(threading.get_ident())
        reader.read_all()

    def again():
        if threading.get_ident() in own:
            assert helped.wait(30)
        else:
            helped.set()
            reader.read_next_batch()

    calls["a"] = again
    raised = in_threads(read)
    calls.clear()
    assert len(raised) == 1 and "called by a function that it was itself calling" in raised[0], raised

    # Functions of two helpers of one call use the same operator, and wait for each other there.
    used = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v")).operator(schema=schema)
    meet, threads = threading.Barrier(2), set()

    def push():
        if threading.get_ident() not in threads:
            threads.add(threading.get_ident())
            meet.wait(30)
            used.push(few)

    reader = query("a").batches(many, threads=2)
    calls["a"] = push
    assert not in_threads(reader.read_next_batch)
    assert used.calls == 2
    print("ended")
"""


def test_readers_and_operators_that_call_each_other_are_an_error_and_no_deadlock() -> None:
    assert program(MEETING) == "ended\n"


def test_operators_that_call_each_other_in_several_threads_are_an_error_and_no_deadlock() -> None:
    assert program(CALLING, 0, 40) == "ended\n"


def test_a_reader_gives_each_row_to_one_of_the_threads_that_read_it() -> None:
    assert program(READING, 12) == "read\n"


@pytest.mark.slow
def test_threads_that_wait_do_not_hold_what_the_other_needs() -> None:
    program(WAITING)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on Windows")
def test_a_fork_during_the_call_of_another_thread_is_an_error_and_no_deadlock() -> None:
    program(FORKING)
