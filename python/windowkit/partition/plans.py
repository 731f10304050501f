"""Decisions for a histogram of keys at once, before any row moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidValue
from windowkit.partition.arguments import checked_counts, checked_fraction, checked_workers


@dataclass(frozen=True)
class Plan:
    """Which worker gets which bucket, and which part of which heavy key; made by `plan`.

    Attributes
    ----------
    buckets : pyarrow.Int32Array
        The worker of each bucket, for all keys that are not heavy.
    heavy : pyarrow.ListArray
        For each heavy key its ``struct<worker: int32, rows: int64, share: double>``: the rows are integers
        that add up to the key's rows, the shares the same as fractions.
    loads : pyarrow.Int64Array
        The rows that each worker will get.
    imbalance : float
        By how many rows the fullest worker exceeds the mean (Eq. 1).
    extra_aggregation_cost : int
        By how much the aggregation cost (Eq. 2) exceeds the distinct keys: less than the number of workers.
    """

    buckets: pa.Int32Array
    heavy: pa.ListArray
    loads: pa.Int64Array
    imbalance: float
    extra_aggregation_cost: int

    @property
    def load_ratio(self) -> float:
        """Rows of the fullest worker over the mean."""
        loads = self.loads.to_pylist()
        return max(loads) * len(loads) / sum(loads) if sum(loads) else 1.0


def plan(
    bucket_loads: Any, heavy_counts: Any, heavy_buckets: Any, workers: int, *, slack: float = 0.005
) -> Plan:
    """Decide for a whole histogram which worker gets what.

    Buckets go to workers by longest processing time first; then heavy keys, the heaviest first, are poured
    over them to level the workers, each over as few workers as will do.

    Parameters
    ----------
    bucket_loads : Arrow array or sequence of int
        Rows of each hash bucket, heavy keys included; many more buckets than workers.
    heavy_counts, heavy_buckets : Arrow array or sequence of int
        Rows of each heavy key, and the bucket that it hashes to.
    workers : int
        Number of workers.
    slack : float, default 0.005
        A heavy key is not split if it overfills a worker by at most this part of the level.

    Returns
    -------
    Plan
        O(B log B + H log V) for B buckets, H heavy keys and V workers.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is outside what is allowed, or heavy keys have more rows than their bucket.

    Examples
    --------
    >>> level = plan([60, 20, 20, 20], [50], [0], workers=3)
    >>> level.buckets.to_pylist(), level.loads.to_pylist()
    ([0, 0, 1, 2], [40, 40, 40])
    >>> [(part["worker"], part["rows"]) for part in level.heavy[0].as_py()]
    [(2, 20), (1, 20), (0, 10)]
    """
    loads = checked_counts("bucket_loads", bucket_loads)
    counts, buckets = (
        checked_counts("heavy_counts", heavy_counts),
        checked_counts("heavy_buckets", heavy_buckets),
    )
    if len(counts) != len(buckets):
        raise InvalidValue(
            f"heavy_buckets: {len(buckets)} are given with {len(counts)} heavy_counts; a heavy key has both"
        )
    for key, bucket in enumerate(buckets):
        if bucket >= len(loads):
            raise InvalidValue(
                f"heavy_buckets: key {key} is in bucket {bucket}; allowed is 0 to {len(loads) - 1}"
            )
    found = _native.partition_plan(
        loads,
        list(zip(counts, buckets, strict=True)),
        checked_workers(workers),
        checked_fraction("slack", slack),
    )
    part = pa.struct([("worker", pa.int32()), ("rows", pa.int64()), ("share", pa.float64())])
    heavy = [
        [{"worker": worker, "rows": share, "share": share / count} for worker, share in parts]
        for parts, count in zip(found.heavy, counts, strict=True)
    ]
    return Plan(
        pa.array(found.buckets, pa.int32()),
        pa.array(heavy, pa.list_(part)),
        pa.array(found.loads, pa.int64()),
        found.imbalance,
        found.extra,
    )
