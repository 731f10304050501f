"""Partitioning that weighs imbalance against aggregation cost, over Spark DataFrames."""

from windowkit.spark.partition import codes, histogram, lookup
from windowkit.spark.partition.codes import numbered
from windowkit.spark.partition.deciding import partition_id, partitioning, repartition
from windowkit.spark.partition.exchange import several_preimages
from windowkit.spark.partition.partitioning import PARTITION, Partitioning

__all__ = [
    "PARTITION",
    "Partitioning",
    "codes",
    "histogram",
    "lookup",
    "numbered",
    "partition_id",
    "partitioning",
    "repartition",
    "several_preimages",
]
