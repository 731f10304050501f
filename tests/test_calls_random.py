"""Interrupted at random, calls of windows and partitioners have taken effect or not; their number tells."""

from __future__ import annotations

import pytest

from support.programs import program
from support.signals import needs_whole_steps

HEAD = """
    import random, signal, sys
    from collections import Counter

    import pyarrow as pa

    from windowkit import kernels, partition

    armed, interrupts = False, 0

    def interrupt(number, frame):
        if armed:
            raise KeyboardInterrupt

    # Within a call, and between its return and the unsetting of `armed`.
    signal.signal(signal.SIGALRM, interrupt)
    rng = random.Random(int(sys.argv[1]))

    def after():
        return rng.choice([0, rng.uniform(1e-6, 1e-4), rng.uniform(1e-6, 1e-3)])

    def surely(changed, call):
        \"\"\"Call until it has taken effect; its result may be asked for once more.\"\"\"
        global armed, interrupts
        while True:
            before = changed.calls
            signal.setitimer(signal.ITIMER_REAL, after())
            try:
                armed = True
                result = call()
                # The call has returned, and what follows may be interrupted, too.
                result = [result][0]
                armed = False
                return result
            except KeyboardInterrupt:
                armed = False
                interrupts += 1
                if changed.calls > before:
                    return changed.last()
"""

WINDOW = """
    agg, algorithm = sys.argv[2:]
    window = kernels.Window(agg, pa.int64(), algorithm=algorithm)
    held, COUNTS = [], [0, 1, 7, 300]
    # So that there is a result to be asked for.
    window.slide(pa.array([], pa.int64()), 1)

    def answer(values):
        there = [value for value in values if value is not None]
        total = sum(there) if there else None
        return {"count": len(there), "sum": total, "max": max(there, default=None)}[agg]

    for turn in range(1500):
        values = [rng.choice([None, *range(-9, 99)]) for _ in range(rng.choice(COUNTS))]
        kind = rng.choice(["slide", "slide", "insert", "one", "evict", "clear"])
        size = rng.choice([1, 5, 400])
        if kind == "slide":
            answers = surely(window, lambda: window.slide(pa.array(values, pa.int64()), size)).to_pylist()
            held = held[len(held) - min(len(held), size):]
            for value, got in zip(values, answers, strict=True):
                held = [*held, value][-size:]
                assert got == answer(held), (turn, got, held)
        elif kind == "insert":
            surely(window, lambda: window.insert(pa.array(values, pa.int64())))
            held += values
        elif kind == "one":
            surely(window, lambda: window.insert(turn))
            held.append(turn)
        elif kind == "evict":
            gone = rng.randrange(len(held) + 1)
            surely(window, lambda: window.evict(gone))
            held = held[gone:]
        elif rng.random() < 0.1:
            surely(window, window.clear)
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
        workers += surely(partitioner, lambda: partitioner.assign(pa.array(some, pa.string()))).to_pylist()
        keys += some
        if turn == 300:
            partitioner = partition.Partitioner.restore(surely(partitioner, partitioner.snapshot))
    # Decisions do not depend on how rows come in batches.
    assert whole.assign(pa.array(keys)).to_pylist() == workers
    assert whole.snapshot() == partitioner.snapshot()
    # The last one must not come when Python has ended.
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(interrupts)
"""


pytestmark = needs_whole_steps


@pytest.mark.parametrize("algorithm", ["daba", "two_stacks"])
@pytest.mark.parametrize("agg", ["sum", "max", "count"])
def test_rows_of_a_window_are_those_whose_call_has_taken_effect(agg: str, algorithm: str) -> None:
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
def test_rows_that_count_are_those_whose_call_has_taken_effect(method: str, cardinality: str) -> None:
    for seed in range(2):
        assert int(program(HEAD + PARTITIONER, seed, method, cardinality)) > 5
