"""Route "rows": rows cross the shuffle once, by key, and one `mapInArrow` does all the rest.

For windows that need all rows of a key in one place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from windowkit.spark.jobs import Job, identifier, result_schema
from windowkit.spark.routes import worker
from windowkit.spark.routes.route import Route
from windowkit.spark.shipping import observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ROUTE", "by_key"]


def refusal(_: Job) -> str | None:
    return None


def run(job: Job) -> DataFrame:
    counted = observed_count(job.metrics, "rows in", job.read())
    return by_key(job, counted).mapInArrow(shipped(worker.Rows(job.asked)), result_schema(job))


def by_key(job: Job, frame: DataFrame) -> DataFrame:
    """Return `frame` with the rows of one key in one partition."""
    return frame.repartition(*job.keys) if job.keys else frame.repartition(1)


def explain(job: Job) -> list[str]:
    columns = ", ".join(map(identifier, job.query.inputs))
    keys = ", ".join(map(identifier, job.query.by))
    order = f"rows in order of {identifier(job.query.time)}, " if job.plan.needs_rows else ""
    return [
        f"shuffle: rows of {columns}, {f'by {keys}' if keys else 'to one partition'}",
        f"then, in Rust inside one mapInArrow: {order}slices and windows, all keys of a partition at once",
    ]


MERIT: Final = "possible, with all rows over the shuffle and into Python"
ROUTE: Final = Route("rows", MERIT, refusal, run, explain)
