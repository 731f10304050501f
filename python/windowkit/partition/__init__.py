"""Partition rows among workers, weighing imbalance against aggregation cost.

A grouped aggregation runs in three stages: rows are partitioned, each worker makes partial results of its
rows, and partial results of one key are aggregated. The second stage waits for the fullest worker, and the
third has one partial result for each pair of key and worker (Katsipoulakis et al., *A Holistic View of
Stream Partitioning Costs*, VLDB 2017). `Partitioner` assigns rows, `cost` says what an assignment costs,
`choose` which method suits some keys, and `plan` decides for a histogram of keys at once.

Keys
----
Wherever this module takes keys, they are an Arrow array, chunked array, or several columns as a record
batch, table or dict of columns, of any types but maps and unions; or what offers itself as such (Polars,
pandas, NumPy, a list). Keys are equal as in SQL's ``GROUP BY``: null is a key like any other, NaN equals
NaN, and -0.0 equals 0.0. Where a null or a NaN goes is decided by its hash, as for any key.

Examples
--------
>>> import pyarrow as pa
>>> import windowkit as wk
>>> keys = pa.array(["hot"] * 9_000 + [f"key {i}" for i in range(1_000)])
>>> wk.partition.cost(keys, wk.partition.Partitioner(8, "hash").assign(keys), workers=8).load_ratio > 7
True
>>> level = wk.partition.cost(keys, wk.partition.Partitioner(8).assign(keys), workers=8)
>>> level.load_ratio < 1.05, level.aggregation_cost - level.groups
(True, 7)
"""

from typing import TYPE_CHECKING

from windowkit.language.hints import unknown
from windowkit.partition.arguments import METHODS, Rows, rows
from windowkit.partition.choice import Choice, Statistics, choose
from windowkit.partition.costs import Cost, cost
from windowkit.partition.partitioner import Partitioner, candidates
from windowkit.partition.plans import Plan, plan

__all__ = [
    "METHODS",
    "Choice",
    "Cost",
    "Partitioner",
    "Plan",
    "Rows",
    "Statistics",
    "candidates",
    "choose",
    "cost",
    "plan",
    "rows",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # To which any name would be one of the module.

    def __getattr__(name: str) -> object:
        raise unknown(__name__, name, __all__)
