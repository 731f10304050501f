"""A call of a window or a partitioner counts if, and only if, its result is delivered, signals or not."""

from __future__ import annotations

import sys
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import windowkit as wk
from support.programs import program
from windowkit import kernels, partition
from windowkit.turns import delivered

HEAD = """
    import random, signal, sys
    from collections import Counter

    import pyarrow as pa

    from windowkit import kernels, partition

    armed, interrupts = False, 0

    def interrupt(number, frame):
        if armed:
            raise KeyboardInterrupt

    # Within a call and nowhere else, as no signal is handled between its return and the unsetting of `armed`.
    signal.signal(signal.SIGALRM, interrupt)
    rng = random.Random(int(sys.argv[1]))

    def after():
        return rng.choice([0, rng.uniform(1e-6, 1e-4), rng.uniform(1e-6, 1e-3)])

    def surely(call):
        \"\"\"Call until it is not interrupted.\"\"\"
        global armed, interrupts
        while True:
            signal.setitimer(signal.ITIMER_REAL, after())
            try:
                armed = True
                result = call()
                armed = False
                return result
            except KeyboardInterrupt:
                armed = False
                interrupts += 1
"""

WINDOW = """
    agg, algorithm = sys.argv[2:]
    window = kernels.Window(agg, pa.int64(), algorithm=algorithm)
    held, COUNTS = [], [0, 1, 7, 300]

    def answer(values):
        there = [value for value in values if value is not None]
        total = sum(there) if there else None
        return {"count": len(there), "sum": total, "max": max(there, default=None)}[agg]

    for turn in range(1500):
        values = [rng.choice([None, *range(-9, 99)]) for _ in range(rng.choice(COUNTS))]
        kind = rng.choice(["slide", "slide", "insert", "one", "evict", "clear"])
        size = rng.choice([1, 5, 400])
        if kind == "slide":
            answers = surely(lambda: window.slide(pa.array(values, pa.int64()), size)).to_pylist()
            held = held[len(held) - min(len(held), size):]
            for value, got in zip(values, answers, strict=True):
                held = [*held, value][-size:]
                assert got == answer(held), (turn, got, held)
        elif kind == "insert":
            surely(lambda: window.insert(pa.array(values, pa.int64())))
            held += values
        elif kind == "one":
            surely(lambda: window.insert(turn))
            held.append(turn)
        elif kind == "evict":
            gone = rng.randrange(len(held) + 1)
            surely(lambda: window.evict(gone))
            held = held[gone:]
        elif rng.random() < 0.1:
            surely(window.clear)
            held = []
        assert len(window) == len(held), (turn, kind)
        assert window.null_count == held.count(None)
        assert window.query().as_py() == answer(held), (turn, kind)
    # The last one must not come when Python has ended.
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(interrupts)
"""

PARTITIONER = """
    method, cardinality = sys.argv[2:]
    window = None if rng.random() < 0.5 else partition.rows(2500)
    options = {"window": window} | ({} if cardinality == "-" else {"cardinality": cardinality})
    partitioner, whole = (partition.Partitioner(5, method, **options) for _ in range(2))
    keys, workers = [], []
    for turn in range(600):
        count = rng.choice([0, 1, 50, 2000])
        some = [rng.choice(["a", "b", str(rng.randrange(5000))]) for _ in range(count)]
        workers += surely(lambda: partitioner.assign(pa.array(some, pa.string()))).to_pylist()
        keys += some
        if turn == 300:
            partitioner = partition.Partitioner.restore(surely(partitioner.snapshot))
    # Decisions do not depend on how rows come in batches.
    assert whole.assign(pa.array(keys)).to_pylist() == workers
    assert whole.snapshot() == partitioner.snapshot()
    # The last one must not come when Python has ended.
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(interrupts)
"""

pytestmark = pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="CPython 3.10 handles signals between a return and the assignment after it",
)


@pytest.mark.parametrize("algorithm", ["daba", "two_stacks"])
@pytest.mark.parametrize("agg", ["sum", "max", "count"])
def test_rows_of_a_window_are_those_whose_call_returned(agg: str, algorithm: str) -> None:
    assert int(program(HEAD + WINDOW, 1, agg, algorithm)) > 10


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "cardinality"),
    [
        ("waterfill", "-"),
        ("shuffle", "-"),
        ("hash", "-"),
        ("pk", "-"),
        ("cm", "hll"),
        ("cam", "exact"),
        ("lm", "filter"),
    ],
)
def test_rows_that_count_are_those_whose_call_returned(method: str, cardinality: str) -> None:
    for seed in range(2):
        assert int(program(HEAD + PARTITIONER, seed, method, cardinality)) > 5


def raising(kind: str) -> Any:
    """Return an object and a change of it that fails after the core has made it."""
    if kind == "window":
        window = kernels.Window("sum", pa.int64())
        native = window._native
        return window, native, lambda turn: native.slide(turn, pa.array([1, 2]), 2, 1)
    partitioner = partition.Partitioner(2)
    own = partitioner._native
    return partitioner, own, lambda turn: own.assign(turn, pa.table({"k": ["a", "b"]}), False)


@pytest.mark.parametrize("kind", ["window", "partitioner"])
def test_a_change_whose_result_is_lost_is_taken_back(kind: str) -> None:
    changed, native, change = raising(kind)
    seen: list[str] = []

    def lost(turn: int) -> None:
        change(turn)
        # A signal handler, here: the object is in the middle of a call.
        with pytest.raises(wk.InvalidValue, match="by a signal handler meanwhile"):
            delivered(native, change)
        seen.append("change")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        delivered(native, lost)
    assert seen == ["change"]
    rows = len(changed) if kind == "window" else sum(changed.loads())
    assert rows == 0
    delivered(native, change)
    rows = len(changed) if kind == "window" else sum(changed.loads())
    assert rows == 2


@pytest.mark.parametrize("kind", ["window", "partitioner"])
def test_another_thread_waits_until_a_result_is_delivered(kind: str) -> None:
    changed, native, change = raising(kind)
    counts: list[int] = []

    def count() -> None:
        counts.append(len(changed) if kind == "window" else sum(changed.loads()))

    def lost(turn: int) -> None:
        change(turn)
        thread = threading.Thread(target=count)
        thread.start()
        threads.append(thread)
        thread.join(0.05)
        assert not counts
        raise KeyboardInterrupt

    threads: list[threading.Thread] = []
    with pytest.raises(KeyboardInterrupt):
        delivered(native, lost)
    threads[0].join()
    assert counts == [0]


def test_a_partitioner_goes_back_to_any_call_over_windows_and_copies() -> None:
    # More rows than are noted before a copy of the state is made, and windows that end within calls.
    rng = np.random.default_rng(3)
    keys = pa.array(np.minimum(rng.zipf(1.3, 120_000), 10_000))
    times = pa.array(np.sort(rng.integers(0, 50, len(keys))))
    for method in ("waterfill", "cam", "lm"):
        kept = partition.Partitioner(4, method, window=10)
        tried = partition.Partitioner(4, method, window=10)
        at = 0
        while at < len(keys):
            rows = int(rng.choice([1, 100, 9000, 30_000]))
            some, at_times = keys[at : at + rows], times[at : at + rows]

            def lost(turn: int, native: Any = tried._native, some: Any = (some, at_times)) -> None:
                native.assign(turn, pa.table(list(some), names=["k", "t"]), True)
                raise KeyboardInterrupt

            before = tried.snapshot()
            with pytest.raises(KeyboardInterrupt):
                delivered(tried._native, lost)
            assert tried.snapshot() == before
            assert tried.assign(some, at_times) == kept.assign(some, at_times)
            at += rows
        assert tried.snapshot() == kept.snapshot()
