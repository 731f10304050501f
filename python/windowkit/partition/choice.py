"""Which method of partitioning suits some keys: the selection rule, explained in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

from windowkit import _native
from windowkit.language.checks import number
from windowkit.partition.arguments import checked_integer, checked_workers, table_of


@dataclass(frozen=True)
class Statistics:
    """How rows are spread over keys, in one window: what `choose` needs to know.

    Parameters
    ----------
    rows : int
        Number of rows.
    groups : int
        Number of distinct keys.
    heaviest : int
        Rows of the heaviest key.
    squares : float, optional
        Sum over keys of their squared rows; by default as if all other keys were equally heavy.

    Examples
    --------
    >>> Statistics.of_counts([5, 3, 2])
    Statistics(rows=10, groups=3, heaviest=5, squares=38.0)
    """

    rows: int
    groups: int
    heaviest: int
    squares: float | None = None

    @classmethod
    def of(cls, keys: Any, *, validate: bool = False) -> Statistics:
        """Return the statistics of rows with these keys; `validate` as in `Partitioner.assign`."""
        found = _native.partition_statistics(table_of(keys, validate=validate))
        return cls(found.rows, found.groups, found.heaviest, found.squares)

    @classmethod
    def of_counts(cls, counts: Sequence[int]) -> Statistics:
        """Return the statistics of keys with so many rows each, as a histogram has them."""
        known = [checked_integer("counts", count, 0, 2**62, "a number of rows") for count in counts]
        present = [count for count in known if count]
        heaviest = max(present, default=0)
        return cls(sum(present), len(present), heaviest, float(sum(count * count for count in present)))

    def _checked(self) -> Statistics:
        """Return them as the core takes them, with a sum of squares."""
        total, groups, heaviest = (
            checked_integer(name, getattr(self, name), 0, 2**62, "a count")
            for name in ("rows", "groups", "heaviest")
        )
        squares = self.squares
        if squares is None:
            squares = float(heaviest**2 + max(total - heaviest, 0) ** 2 / max(groups - 1, 1))
        return Statistics(
            total, groups, heaviest, number("squares", squares, "it is a number of at least 0", 0, inf)
        )


@dataclass(frozen=True)
class Choice:
    """A method and why; made by `choose`.

    Attributes
    ----------
    method : str
        The method to use.
    rule : str
        The method that the paper's selection rule names.
    reason : str
        Why, in words, with the costs that were expected.
    statistics : Statistics
        What the choice was made from.
    """

    method: str
    rule: str
    reason: str
    statistics: Statistics

    def __str__(self) -> str:
        return f"{self.method}: {self.reason}"


def choose(keys: Any, workers: int, *, validate: bool = False) -> Choice:
    """Return the method that suits some keys.

    The paper's rule (§7): shuffle if the distinct keys are significantly fewer (here: ten times) than the
    rows of a worker's share, else affinity. What is chosen is the method with the least expected sum of the
    fullest worker's rows and the aggregation cost, the simplest of those within one percent, and
    `Choice.reason` says so where this is not what the rule says.

    Parameters
    ----------
    keys : Statistics or Arrow data
        The statistics of the keys of a window, or such keys: all of them, as a sample has too few of the
        rare.
    workers : int
        Number of workers.
    validate : bool, default False
        Of keys, as in `Partitioner.assign`.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is outside what is allowed, keys are malformed, or the statistics are impossible.

    Examples
    --------
    >>> choose(Statistics(rows=6_000_000, groups=4, heaviest=3_000_000), workers=32).method
    'shuffle'
    >>> choice = choose(Statistics(rows=4_000_000, groups=500_000, heaviest=280_000), workers=32)
    >>> choice.method, choice.rule
    ('waterfill', 'cam')
    """
    statistics = keys if isinstance(keys, Statistics) else Statistics.of(keys, validate=validate)
    found = _native.partition_choose(statistics._checked(), checked_workers(workers))
    return Choice(found.method, found.rule, found.reason, statistics)
