"""Batches whose memory is damaged between export and import, into an operator that knows their schema.

It does not read the schema of such a batch again (`src/python/known.rs`). `python -m support.exported SEED
COUNT`, run in `tests`, tries so many seeds from one on, in a process of its own, which a bad pointer would
end.
"""

from __future__ import annotations

import ctypes
import sys
from random import Random
from typing import Any, Final

import pyarrow as pa

import windowkit as wk

ROWS: Final = 8
THERE: Final = 64
"""Rows in memory, more than a batch has: what a damaged length or offset adds is there. The C data
interface does not say where a buffer ends, so that nobody can refuse what is beyond it."""

LENGTH, NULLS, OFFSET, BUFFERS, CHILDREN, POINTERS, BELOW, DICTIONARY = 0, 8, 16, 24, 32, 40, 48, 56
"""Where `ArrowArray` has its members: so many bytes from its start. Pointers to children stay as they are:
pyarrow follows them when it releases the array."""

pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def table() -> pa.RecordBatch:
    """Return rows of a stream: of each layout a column, with nulls, more rows in memory than they have."""
    text = [None if row % 5 == 4 else "abc"[: row % 4] for row in range(THERE)]
    numbers = [None if row % 3 == 2 else row for row in range(THERE)]
    columns = {
        "t": pa.array(range(THERE), pa.int64()),
        "k": pa.array(text),
        "d": pa.array(text).dictionary_encode(),
        "v": pa.array(numbers, pa.float64()),
        "b": pa.array([row % 2 == 0 for row in range(THERE)]),
        "l": pa.array([[row, None] for row in range(THERE)], pa.list_(pa.int64())),
        "s": pa.array([{"a": row, "b": word} for row, word in enumerate(text)]),
        "n": pa.nulls(THERE),
    }
    return pa.RecordBatch.from_pydict(columns).slice(0, ROWS)


def word(at: int) -> Any:
    """Return the 64-bit integer at an address, to read and to write."""
    return ctypes.c_int64.from_address(at)


class Damaged:
    """Rows whose array is damaged in one to three places when it is handed over."""

    def __init__(self, rows: pa.RecordBatch, random: Random) -> None:
        self.rows, self.random = rows, random
        self.done: list[str] = []

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        schema, data = self.rows.__arrow_c_array__()
        for _ in range(self.random.randint(1, 3)):
            self.damage(pointer(data, b"arrow_array"))
        return schema, data

    def damage(self, at: int) -> None:
        """Damage the array at an address, or one below it."""
        random = self.random
        children, dictionary = word(at + CHILDREN).value, word(at + DICTIONARY).value
        below = word(at + BELOW).value
        if children > 0 and below and random.random() < 0.7:
            self.damage(word(below + 8 * random.randrange(children)).value)
            return
        if dictionary and random.random() < 0.5:
            self.damage(dictionary)
            return
        buffers = word(at + BUFFERS).value
        place = random.choice([LENGTH, NULLS, OFFSET, BUFFERS, CHILDREN, POINTERS])
        if place == POINTERS and buffers > 0 and random.random() < 0.7:
            # One of them, rather than where they are.
            there = word(at + POINTERS).value
            place = there - at + 8 * random.randrange(buffers) if there else place
        if place not in (LENGTH, NULLS, OFFSET, BUFFERS, CHILDREN):
            to = 0
        else:
            # No more buffers and children than there are, as their pointers would be anything.
            most = {BUFFERS: buffers - 1, CHILDREN: children - 1}.get(place, THERE // 4)
            to = random.choice([-1, -(2**63), -(2**40), *range(most + 1)])
        word(at + place).value = to
        self.done.append(f"{place}: {to}")


def attempt(seed: int | str) -> str:
    """Push damaged rows between good ones, and return what came of them: `taken`, or what was raised.

    The good rows must be taken, and the result must be theirs alone if the others were refused.
    """
    random = Random(seed)
    query = wk.query(
        by=random.choice([[], ["k"], ["d", "b"], ["s"]]),
        time="t",
        windows=wk.tumbling(10),
        aggs=[wk.count().alias("n"), wk.sum("v").alias("sum"), wk.collect_rows().alias("rows")],
    )
    operator, good = query.operator(order="out-of-order"), table()
    operator.push(good)
    # What Python hands on as it is comes from pyarrow, which imports anything else first.
    core = operator._calls.state.core
    outcome = "taken"
    damaged = Damaged(good, random)
    try:
        core.push(damaged)
    except (wk.WindowKitError, MemoryError) as error:
        outcome = type(error).__name__
    operator.push(good)
    counted = sum(operator.close()["n"].to_pylist())
    if outcome != "taken":
        assert counted == 2 * ROWS, (seed, damaged.done, counted)
    return outcome


def main() -> None:
    """Try seeds, and print how often each outcome was seen."""
    first, count = map(int, sys.argv[1:])
    seen: dict[str, int] = {}
    for seed in range(first, first + count):
        # Before it may end the process.
        print(seed, file=sys.stderr)
        outcome = attempt(seed)
        seen[outcome] = seen.get(outcome, 0) + 1
    print(seen)


if __name__ == "__main__":
    main()
