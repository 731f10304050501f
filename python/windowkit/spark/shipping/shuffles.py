"""How many partitions a shuffle of Spark begins with, and whether a task can be sure of it.

Spark decides when it plans an action, by settings that may have changed since `Query.run`, and in sessions of
its own for what it caches. Tasks see the settings of the action that runs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark import TaskContext

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Settings", "are_in_force", "partitions", "settings"]

PARTITIONS: Final = "spark.sql.shuffle.partitions"
DEFAULT: Final = "200"
ADAPTIVE: Final = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
INITIAL: Final = "spark.sql.adaptive.coalescePartitions.initialPartitionNum"
Settings: TypeAlias = tuple[tuple[str, str | None], ...]
"""Names and values of the settings that decide about shuffles; None for what was not set."""


def settings(session: SparkSession) -> Settings:
    """Return the settings of a session."""
    # With a default of None these tell what was set, and not what Spark takes otherwise.
    return tuple((name, session.conf.get(name, None)) for name in (PARTITIONS, *ADAPTIVE, INITIAL))


def partitions(told: Settings) -> int:
    """Return how many partitions a shuffle has, before adaptive execution joins small ones.

    Examples
    --------
    >>> partitions(((PARTITIONS, "8"), (INITIAL, "64")))
    64
    >>> partitions(((PARTITIONS, "8"), (INITIAL, "64"), ("spark.sql.adaptive.enabled", "false")))
    8
    >>> partitions(())
    200
    """
    those = {name: value for name, value in told if value is not None}
    count = those.get(PARTITIONS, DEFAULT)
    if all(those.get(name, "true").lower() == "true" for name in ADAPTIVE):
        count = those.get(INITIAL, count)
    return int(count)


def are_in_force(told: Settings) -> bool:
    """Whether these are the settings by which the action that runs this task was planned, for certain."""
    context = TaskContext.get()
    if context is None or not told:
        return True
    # What is cached may be planned without adaptive execution, and so without this number.
    return dict(told).get(INITIAL) is None and all(
        context.getLocalProperty(name) == value for name, value in told
    )
