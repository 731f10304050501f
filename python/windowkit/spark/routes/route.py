"""A route: one way to evaluate a job in Spark."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from windowkit.spark.jobs import Job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Route"]


@dataclass(frozen=True)
class Route:
    """A name, and three functions of a job.

    Parameters
    ----------
    name : str
        What ``route=`` says.
    merit : str
        When to prefer it, as `windowkit.spark.explain` says where it is possible but not taken.
    refusal : callable
        Returns why the route cannot evaluate the job, or None.
    run : callable
        Returns the result, lazily, of a job that is not refused, with windows in the columns asked for.
    explain : callable
        Returns the lines of `windowkit.spark.explain` that say what runs where.
    """

    name: str
    merit: str
    refusal: Callable[[Job], str | None]
    run: Callable[[Job], DataFrame]
    explain: Callable[[Job], list[str]]

    def fitted(self, job: Job) -> Job | str:
        """Return the job as `run` and `explain` take it, or why the route cannot evaluate it."""
        reason = self.refusal(job)
        return job if reason is None else reason
