"""What an operator holds, and what it has done."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = ["DistinctStats", "JoinStats", "Stats", "reported"]

Reported = TypeVar("Reported", bound="DataclassInstance")


class Shedding:
    """Statistics of an operator that may drop what it has no memory for."""

    shed_level: int

    @property
    def shed_share(self) -> float:
        """Which share of the keys, or of the rows, is taken in at present: 1.0 while nothing was dropped."""
        return float(0.5**self.shed_level)


@dataclass(frozen=True)
class Stats(Shedding):
    """What an operator holds, and what it has done since it was created.

    Parameters
    ----------
    keys, slices, rows_kept, bytes : int
        The current state: keys with slices or rows, slices, rows stored besides slices (none where partial
        aggregates suffice; rows in disorder are in no slice before the watermark reaches them, and rows of
        very many keys, which are not counted meanwhile, before their window ends), and the memory of keys,
        slices, their partial aggregates and what these point to. A buffer that partial aggregates point
        into is held as a whole, so it counts as a whole, once.
    rows, late, windows, updates : int
        Rows pushed, rows that came too late or without a time or gap, windows emitted, and how many of
        these were updates.
    splits, merges, shifts, recomputations : int
        Slices that were split or merged, rows that were moved to the next slice because a row came before
        them, and slices recomputed from rows (Traub et al. 2019, §5.2). Merges of slices whose edges no
        window needs any more are not counted, since their time is an implementation detail.
    late_dropped, late_bytes : int
        Late rows that were dropped because ``late_limit`` of them were held, and the memory of those that
        are, until `Operator.take_late` returns them.
    keys_ahead : int
        Keys whose own watermark, by ``advance(..., key=...)``, is ahead of the stream's; see
        `Operator.keys_ahead`.
    rows_shed, keys_shed, slices_shed : int
        What was dropped for want of memory (`windowkit.shed`): rows that were not taken in, which `rows`
        does not count, keys with all that was held of them, and slices, of these or of all keys.
    shed_level : int
        How often the share was halved of what is taken in.
    """

    keys: int
    slices: int
    rows_kept: int
    bytes: int
    rows: int
    splits: int
    merges: int
    shifts: int
    recomputations: int
    late: int
    windows: int
    updates: int
    late_dropped: int
    late_bytes: int
    keys_ahead: int
    rows_shed: int
    keys_shed: int
    slices_shed: int
    shed_level: int


@dataclass(frozen=True)
class JoinStats:
    """What the operator of a join holds, and what it has done since it was created.

    Parameters
    ----------
    keys, left_kept, right_kept, bytes : int
        The current state: keys that it knows, the rows of each side that are stored (by windows, once for
        each window), and the memory of these. Keys without rows are forgotten from time to time.
    left_rows, right_rows, left_late, right_late, left_dropped, right_dropped : int
        Rows pushed, rows of these that were late, and late rows that were dropped because ``late_limit`` of
        them were held.
    left_keys_ahead, right_keys_ahead : int
        Keys of each side whose own watermark, by ``advance_left(..., key=...)`` and ``advance_right``, is
        ahead of the side's; see `JoinOperator.keys_ahead_left`.
    rows_shed, keys_shed, shed_level : int
        What was dropped for want of memory (`windowkit.shed`): rows of both sides that were not taken in,
        which are not among the rows pushed, and keys with their rows; and how often the share was halved of
        the keys that are taken in.
    results : int
        Rows of results.
    """

    keys: int
    left_kept: int
    right_kept: int
    bytes: int
    left_rows: int
    right_rows: int
    left_late: int
    right_late: int
    left_dropped: int
    right_dropped: int
    left_keys_ahead: int
    right_keys_ahead: int
    rows_shed: int
    keys_shed: int
    shed_level: int
    results: int

    @property
    def shed_share(self) -> float:
        """Which share of the keys is taken in at present: 1.0 while nothing was dropped."""
        return float(0.5**self.shed_level)


@dataclass(frozen=True)
class DistinctStats(Shedding):
    """What the operator of a stream without duplicates holds, and what it has done since it was created.

    Parameters
    ----------
    keys, rows_kept, bytes : int
        The current state: keys that it knows, rows that are held as the stream is not complete up to their
        times, and the memory of these. Keys that have had no rows for `within` are forgotten from time to
        time.
    keys_ahead : int
        Keys whose own watermark, by ``advance(..., key=...)``, is ahead of the stream's.
    rows, late, late_dropped, results : int
        Rows pushed, rows of these that were late, late rows that were dropped because ``late_limit`` of them
        were held, and rows of results.
    rows_shed, keys_shed, shed_level : int
        What was dropped for want of memory (`windowkit.shed`): rows that were not taken in, which `rows` does
        not count, and keys with all that was held of them; and how often the share was halved of what is
        taken in.
    """

    keys: int
    rows_kept: int
    bytes: int
    keys_ahead: int
    rows: int
    late: int
    late_dropped: int
    results: int
    rows_shed: int
    keys_shed: int
    shed_level: int


def reported(kind: type[Reported], by_core: object) -> Reported:
    """Return what the core reported, whose attributes have the names of the fields."""
    return kind(**{each.name: getattr(by_core, each.name) for each in fields(kind)})
