"""How many partitions a shuffle of Spark has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["partitions"]

ADAPTIVE: Final = "spark.sql.adaptive"


def partitions(session: SparkSession) -> int:
    """Return how many partitions a shuffle has before adaptive execution joins small ones."""
    settings = session.conf
    adaptive = (f"{ADAPTIVE}.enabled", f"{ADAPTIVE}.coalescePartitions.enabled")
    initial = None
    if all((settings.get(name, None) or "true").lower() == "true" for name in adaptive):
        # With a default of None this is what was set, and not what Spark takes otherwise.
        initial = settings.get(f"{ADAPTIVE}.coalescePartitions.initialPartitionNum", None)
    return int(initial or settings.get("spark.sql.shuffle.partitions", None) or 200)
