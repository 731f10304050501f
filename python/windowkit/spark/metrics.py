"""How much went through a job: rows in, slices, packed bytes, windows out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql.functions import coalesce, count, length, lit
from pyspark.sql.functions import sum as total

from windowkit.errors import InvalidValue

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["Metrics", "observed_chunks", "observed_count"]


class Metrics:
    """What is counted while a result is computed, by Spark's own observations; classic and Connect.

    Give one to `windowkit.spark.aggregate` or `windowkit.spark.scan`, and print it after an action on their
    result. Stages that Spark runs twice, as it does where an executor is lost, are counted twice.

    Examples
    --------
    >>> import windowkit as wk
    >>> query = wk.query(by="device", time="ts", windows=wk.session("1 minute"), aggs=wk.median("v"))
    >>> metrics = wk.spark.Metrics()
    >>> rows = wk.spark.aggregate(df, query, metrics=metrics).collect()
    >>> metrics.values()["rows in"], metrics.values()["windows out"]
    (1, 1)
    """

    def __init__(self) -> None:
        self._observations: list[Observation] = []
        self._names: set[str] = set()

    def values(self) -> dict[str, int]:
        """Return the counts by name; waits until the first action on the result is done.

        Keys are, as far as the route has them: ``rows in``, ``slices``, ``bytes packed``, ``windows out``.

        Raises
        ------
        InvalidValue
            No result was made with these metrics.
        """
        if not self._observations:
            raise InvalidValue("metrics: they belong to no result yet; give them to aggregate or scan")
        return {name: int(count) for each in self._observations for name, count in each.get.items()}

    def __str__(self) -> str:
        return ", ".join(f"{name}: {count:,}" for name, count in self.values().items())

    def observed(self, frame: DataFrame, counts: dict[str, Column]) -> DataFrame:
        """Return `frame`, with these aggregates of its rows observed."""
        if self._names & set(counts):
            raise InvalidValue("metrics: they belong to a result already; each result has its own")
        self._names |= set(counts)
        observation = Observation()
        self._observations.append(observation)
        return frame.observe(observation, *(column.alias(name) for name, column in counts.items()))


def observed_count(metrics: Metrics | None, name: str, frame: DataFrame) -> DataFrame:
    """Return `frame`, its rows counted under a name if there are metrics."""
    return frame if metrics is None else metrics.observed(frame, {name: count(lit(1))})


def observed_chunks(metrics: Metrics | None, chunks: DataFrame) -> DataFrame:
    """Return packed chunks, what they hold counted if there are metrics."""
    if metrics is None:
        return chunks
    sums = {"rows in": total("rows"), "slices": total("slices"), "bytes packed": total(length("chunk"))}
    return metrics.observed(chunks, {name: coalesce(column, lit(0)) for name, column in sums.items()})
