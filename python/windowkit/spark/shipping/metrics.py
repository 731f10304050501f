"""How much went through a job: rows in, slices, packed bytes, windows out; and rows that have no time."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Observation
from pyspark.sql.functions import coalesce, col, count, count_if, length, lit
from pyspark.sql.functions import sum as total

from windowkit.errors import InvalidValue
from windowkit.language.checks import number

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["WITHOUT_TIME", "Metrics", "observed_chunks", "observed_count", "observed_nulls"]

WITHOUT_TIME: Final = "rows without a time"


class Metrics:
    """What is counted while a result is computed, by Spark's own observations; classic and Connect.

    Give one to `windowkit.spark.aggregate` or `windowkit.spark.scan`, and print it after an action on their
    result. Stages that Spark runs twice, as it does when an executor is lost, are counted twice. Spark
    reports actions of DataFrames: not ``foreach`` and ``rdd``, and of ``toLocalIterator`` nothing of the last
    stage. For a failed action, it reports the counts so far, or zeros; only the action's exception
    shows that it failed.

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
        self._observations: list[tuple[Observation, list[str]]] = []
        self._names: set[str] = set()

    def values(self, timeout: float = 5.0) -> dict[str, int]:
        """Return the counts by name, of the first action on the result, whether it succeeded or failed.

        Keys are, as far as the route has them: ``rows in``, ``slices``, ``bytes packed``, ``windows out``. Of
        a query, ``rows without a time`` are those that are in no window, and not among the rows in; the key
        is missing where nothing is left for Spark to go on with, as it does not report what came before then.

        Parameters
        ----------
        timeout : float, default 5.0
            Seconds to wait: Spark reports on an action shortly after it is done.

        Raises
        ------
        InvalidValue
            No result was made with these metrics, or no action on it was completed in time; or `timeout` is
            negative, infinite or NaN.
        InvalidType
            `timeout` is not a number.
        """
        number("timeout", timeout, "timeout is a number of seconds, at least 0", 0, sys.float_info.max)
        if not self._observations:
            raise InvalidValue("metrics: they belong to no result yet; give them to aggregate or scan")
        counts = self._counts(timeout)
        if counts is None:
            raise InvalidValue(
                f"metrics: no action on their result was completed within {timeout:g} s; rows are counted by "
                "actions such as collect() or write"
            )
        return counts

    def __str__(self) -> str:
        counts = self._counts(0.5) if self._observations else None
        if counts is None:
            return "no action yet"
        return ", ".join(f"{name}: {count:,}" for name, count in counts.items())

    def __repr__(self) -> str:
        return f"<windowkit.spark.Metrics of the first action, succeeded or failed: {self}>"

    def _repr_html_(self) -> str:
        """Return a table, for notebooks."""
        counts = self._counts(0.5) if self._observations else None
        if counts is None:
            return f"<p>{self}</p>"
        rows = "".join(
            f"<tr><th>{name}</th><td style='text-align: right'>{count:,}</td></tr>"
            for name, count in counts.items()
        )
        return f"<table>{rows}</table>"

    def _counts(self, timeout: float) -> dict[str, int] | None:
        """Return the counts, or None if there are none in time."""
        until = time.monotonic() + timeout
        while not are_done([observation for observation, _ in self._observations]):
            if time.monotonic() >= until:
                return None
            time.sleep(0.01)
        counts: dict[str, int] = {}
        for observation, names in self._observations:
            # What goes on from a stage that Spark left out is nothing; how much it dropped is not known.
            zeros = dict.fromkeys((name for name in names if name != WITHOUT_TIME), 0)
            counts |= zeros | {name: int(of) for name, of in found(observation).items()}
        return counts

    def observed(self, frame: DataFrame, counts: dict[str, Column]) -> DataFrame:
        """Return `frame`, with these aggregates of its rows observed."""
        if self._names & set(counts):
            raise InvalidValue("metrics: they belong to a result already; each result has its own")
        self._names |= set(counts)
        observation = Observation()
        self._observations.append((observation, list(counts)))
        return frame.observe(observation, *(column.alias(name) for name, column in counts.items()))


def are_done(observations: list[Observation]) -> bool:
    """Whether an action has reported to the observations: asking for the result would wait for one."""
    classic: list[Any] = [getattr(observation, "_jo", None) for observation in observations]
    if None not in classic:
        return all(one.future().isCompleted() for one in classic)
    # Connect reports all stages at once, except those that Spark left out as there were no rows.
    return any(bool(observation.get) for observation in observations)


def found(observation: Observation) -> dict[str, Any]:
    """Return what was observed: nothing, where Spark found that there are no rows and counted none."""
    classic = getattr(observation, "_jo", None)
    if classic is None or classic.getRow().length():
        return observation.get
    return {}


def observed_count(metrics: Metrics | None, name: str, frame: DataFrame) -> DataFrame:
    """Return `frame`, its rows counted under a name if there are metrics."""
    return frame if metrics is None else metrics.observed(frame, {name: count(lit(1))})


def observed_nulls(metrics: Metrics | None, frame: DataFrame, time: str) -> DataFrame:
    """Return `frame`, its rows counted that have no time if there are metrics."""
    return frame if metrics is None else metrics.observed(frame, {WITHOUT_TIME: count_if(col(time).isNull())})


def observed_chunks(metrics: Metrics | None, chunks: DataFrame) -> DataFrame:
    """Return packed chunks, what they hold counted if there are metrics."""
    if metrics is None:
        return chunks
    sums = {"rows in": total("rows"), "slices": total("slices"), "bytes packed": total(length("chunk"))}
    return metrics.observed(chunks, {name: coalesce(column, lit(0)) for name, column in sums.items()})
