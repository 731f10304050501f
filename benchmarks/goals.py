"""Goals of benchmarks, and what records say of each: the worst cell counts."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pages

Cells = Iterable[tuple[str, float | None]]
"""Names of cells with what was measured there, None where a side is missing."""


@dataclass(frozen=True)
class Goal:
    """Something to reach in all of some cells: at least so much (``≥``), or at most (``≤``)."""

    what: str
    sign: str
    bound: float
    measured: Callable[[Any], Cells]
    """What records say of the cells."""
    unit: str = "×"

    def is_met(self, value: float) -> bool:
        """Whether a value is as good as asked."""
        return value >= self.bound if self.sign == "≥" else value <= self.bound


def table(goals: Sequence[Goal], records: Any) -> list[str]:
    """Return the lines of a table; cells that were not measured are not there."""
    lines = ["| goal | asked | worst | where | median | |", "|---|---:|---:|---|---:|---|"]
    for goal in goals:
        asked = f"{goal.sign} {goal.bound:g}{goal.unit}"
        found = [(value, cell) for cell, value in goal.measured(records) if value is not None]
        if not found:
            lines.append(pages.row(goal.what, asked, "", "", "", "not measured"))
            continue
        worst, cell = (min if goal.sign == "≥" else max)(found, key=lambda each: each[0])
        missed = sum(not goal.is_met(value) for value, _ in found)
        verdict = f"missed in {missed} of {len(found)}" if missed else "met"
        middle = statistics.median(value for value, _ in found)
        numbers = f"{worst:.2f}{goal.unit}", cell, f"{middle:.2f}{goal.unit}"
        lines.append(pages.row(goal.what, asked, *numbers, verdict))
    return lines
