"""What an assignment of rows to workers costs (Katsipoulakis et al. 2017, §2.3 and §3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.durations import Length
from windowkit.language.windows import Tumbling
from windowkit.partition.arguments import (
    MOST_WORKERS,
    Rows,
    checked_fraction,
    checked_workers,
    column_of,
    table_of,
    window_length,
)


@dataclass(frozen=True)
class Cost:
    """What an assignment costs, window by window and overall; made by `cost`.

    Windows are evaluated one after the other, so that overall figures are sums over windows; only
    `hybrid_imbalance`, which is not an amount of work, is their mean.

    Attributes
    ----------
    workers : int
        V, the number of workers.
    bias : float
        p of Eq. 9.
    windows : pyarrow.Table
        A row for each window: ``window`` (its start; absent without windows), ``rows``, ``groups``
        (distinct keys), ``most_rows`` and ``most_groups`` (of the worker with most), ``imbalance`` (Eq. 1),
        ``cardinality_imbalance`` (Eq. 6), ``hybrid_imbalance`` (Eq. 10), ``aggregation_cost`` (Eq. 2, 4)
        and its bounds by Prop. 1, ``least_aggregation_cost`` and ``most_aggregation_cost``.
    """

    workers: int
    bias: float
    windows: pa.Table

    def _sum(self, column: str) -> Any:
        return sum(self.windows[column].to_pylist())

    @property
    def rows(self) -> int:
        """Rows."""
        return int(self._sum("rows"))

    @property
    def groups(self) -> int:
        """Distinct keys, window by window."""
        return int(self._sum("groups"))

    @property
    def imbalance(self) -> float:
        """I, in rows: by how much the fullest worker exceeds the mean (Eq. 1)."""
        return float(self._sum("imbalance"))

    @property
    def load_ratio(self) -> float:
        """Rows of the fullest worker over the mean: 1 is perfect; without rows it is 1."""
        most = self._sum("most_rows")
        return float(most * self.workers / self.rows) if self.rows else 1.0

    @property
    def cardinality_imbalance(self) -> float:
        """CI, the same in distinct keys (Eq. 6)."""
        return float(self._sum("cardinality_imbalance"))

    @property
    def hybrid_imbalance(self) -> float:
        """HI, the same in the normalised mean of both (Eq. 10): the mean over windows."""
        return float(self._sum("hybrid_imbalance") / max(self.windows.num_rows, 1))

    @property
    def aggregation_cost(self) -> int:
        """Γ: distinct keys of each worker, summed over workers (Eq. 2, 4)."""
        return int(self._sum("aggregation_cost"))

    @property
    def aggregation_ratio(self) -> float:
        """Γ over its minimum, the distinct keys: 1 is perfect; without rows it is 1."""
        return self.aggregation_cost / self.groups if self.groups else 1.0

    @property
    def bounds(self) -> tuple[int, int]:
        """The bounds of Γ by Prop. 1: distinct keys, and as many for each worker."""
        return self.groups, self.workers * self.groups

    def __str__(self) -> str:
        least, most = self.bounds
        return (
            f"imbalance {self.imbalance:.1f} rows (fullest worker {self.load_ratio:.4f} times the mean), "
            f"aggregation cost {self.aggregation_cost} (of {least} to {most}), "
            f"cardinality imbalance {self.cardinality_imbalance:.1f}, "
            f"hybrid imbalance {self.hybrid_imbalance:.4f}"
        )


def cost(
    keys: Any,
    assignment: Any,
    *,
    workers: int | None = None,
    window: Tumbling | Length | Rows | None = None,
    times: Any = None,
    bias: float = 0.5,
    validate: bool = False,
) -> Cost:
    """Return what an assignment of rows to workers costs.

    Parameters
    ----------
    keys : Arrow data
        The rows' keys; see `windowkit.partition`.
    assignment : Arrow array
        The rows' workers: integers from 0.
    workers : int, optional
        Number of workers; by default the largest in `assignment` plus one, which overlooks trailing workers
        without rows.
    window, times
        As in `Partitioner` and `Partitioner.assign`, except that times may come in any order.
    bias : float, default 0.5
        p of Eq. 9.
    validate : bool, default False
        As in `Partitioner.assign`.

    Returns
    -------
    Cost
        Exact: keys are compared, not hashed. O(rows) for times in order.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is outside what is allowed or malformed, or lengths differ.

    Examples
    --------
    The example of §2.2 of the paper: worker 0 gets x and y, worker 1 gets x, y and z.

    >>> import pyarrow as pa
    >>> keys = pa.array(["x"] * 12 + ["y"] * 123 + ["x"] * 43 + ["y"] + ["z"] * 4)
    >>> costs = cost(keys, pa.array([0] * 135 + [1] * 48))
    >>> costs.imbalance, costs.aggregation_cost, costs.bounds
    (43.5, 5, (3, 6))
    """
    reader = table_of(keys, validate=validate)
    assigned = column_of("assignment", assignment, validate)
    # What is empty may have no type.
    if not (pa.types.is_integer(assigned.type) or pa.types.is_null(assigned.type)):
        raise InvalidType(f"assignment: it is {assigned.type}; workers are integers")
    if assigned.null_count:
        raise InvalidValue(f"assignment: {assigned.null_count} rows have no worker; every row has one")
    try:
        assigned = assigned.cast(pa.int32())
    except pa.ArrowInvalid as error:
        raise InvalidValue(f"assignment: {error}; workers are 0 to {MOST_WORKERS - 1}") from error
    if len(assigned) != reader.num_rows:
        raise InvalidValue(
            f"assignment: {len(assigned)} workers for {reader.num_rows} keys; each row has one"
        )
    count, costs = _native.partition_cost(
        reader,
        assigned,
        None if times is None else column_of("times", times, validate),
        window_length(window),
        None if workers is None else checked_workers(workers),
        checked_fraction("bias", bias),
    )
    table = pa.Table.from_batches([pa.record_batch(costs)])
    groups = table["groups"].to_pylist()
    table = table.append_column("least_aggregation_cost", table["groups"])
    most = pa.array([count * distinct for distinct in groups], pa.int64())
    table = table.append_column("most_aggregation_cost", most)
    return Cost(count, float(bias), table)
