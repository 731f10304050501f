"""What `soak.py` does to joins of two streams, and to streams without duplicates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import windowkit as wk

Table = Callable[[int], pa.Table]
"""The rows of a turn."""


class Sides:
    """An operator of one stream or two that lives as long as the run, and what happens to it."""

    def __init__(self, of: wk.Join | wk.Distinct, table: Table, span: int, limit: int, trouble: Any) -> None:
        self.of, self.table, self.span, self.trouble = of, table, span, trouble
        self.turn = self.pushed = self.windows = self.restored = 0
        self.names = ["_left", "_right"] if isinstance(of, wk.Join) else [""]
        schemas = [table(0).schema for _ in self.names]
        self.op: Any = of.operator(*schemas, late_limit=limit)

    def step(self) -> None:
        """Give the operator rows and watermarks, and do something else to it."""
        self.turn += 1
        surely = self.trouble.surely
        for name in self.names:
            batch, end = self.table(self.turn), self.turn * self.span
            push, advance = getattr(self.op, f"push{name}"), getattr(self.op, f"advance{name}")
            # A reader is pushed as a whole, or not at all: each attempt has its own.
            self.windows += surely(lambda: push(batch.to_reader(max_chunksize=1000)), self.op).num_rows  # noqa: B023
            self.windows += surely(lambda: advance(end), self.op).num_rows  # noqa: B023
            self.pushed += batch.num_rows
        choice = self.trouble.random.randrange(8)
        if choice == 0:
            self.restore()
        elif choice == 1:
            for name in self.names:
                surely(getattr(self.op, f"take_late{name}"), self.op)
        elif choice == 2:
            self.refused()
        stats = self.op.stats()
        rows = stats.left_rows + stats.right_rows if isinstance(self.of, wk.Join) else stats.rows
        assert rows == self.pushed, "rows are lost or counted twice"

    def restore(self) -> None:
        """Replace the operator by one that is restored from its snapshot."""
        snapshot = self.trouble.surely(self.op.snapshot)
        self.op = self.trouble.surely(lambda: type(self.op).restore(snapshot, self.of))
        self.restored += 1

    def refused(self) -> None:
        """Make calls that are refused."""
        refuse, name = self.trouble.refuse, self.names[0]
        push, advance = getattr(self.op, f"push{name}"), getattr(self.op, f"advance{name}")
        refuse(lambda: push(self.table(self.turn).drop_columns(["k"])))
        refuse(lambda: advance(0))
        damaged = bytearray(self.op.snapshot())
        damaged[self.trouble.random.randrange(len(damaged))] ^= 1
        refuse(lambda: type(self.op).restore(bytes(damaged), self.of))


def sides(table: Table, span: int, limit: int, trouble: Any) -> dict[str, Sides]:
    """Return the operators by name."""
    join = wk.join(
        by="k", left_time="t", right_time="t", within=span // 20, how="full", right_columns=["t", "v"]
    )
    windows = wk.sliding(span // 10, span // 20)
    by_windows = wk.join(by="k", left_time="t", right_time="t", windows=windows, how="semi")
    distinct = wk.distinct(["k", "s"], time="t", within=span // 2)
    named: dict[str, Any] = {"join": join, "join by windows": by_windows, "distinct": distinct}
    return {name: Sides(each, table, span, limit, trouble) for name, each in named.items()}
