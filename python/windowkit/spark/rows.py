"""Route "rows": rows cross the shuffle once, by key, and one `mapInArrow` does all the rest.

For what Catalyst cannot hold in slices. It is also the better route where slices would be nearly as many as
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import col

from windowkit.spark import worker
from windowkit.spark.job import Job, identifier
from windowkit.spark.reference import output_schema
from windowkit.spark.route import Route

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["ROUTE", "by_key"]


def refusal(_: Job) -> str | None:
    return None


def run(job: Job) -> DataFrame:
    return by_key(job, job.rows).mapInArrow(worker.Rows(job.query), output_schema(job))


def by_key(job: Job, frame: DataFrame) -> DataFrame:
    """Return `frame` with the rows of one key in one partition."""
    return frame.repartition(*(col(key) for key in job.keys)) if job.keys else frame.repartition(1)


def explain(job: Job) -> list[str]:
    columns = ", ".join(map(identifier, job.query.inputs))
    keys = ", ".join(map(identifier, job.query.by))
    order = f"rows in order of {identifier(job.query.time)}, " if job.plan.needs_rows else ""
    return [
        f"shuffle: rows of {columns}, {f'by {keys}' if keys else 'to one partition'}",
        f"then, in Rust inside one mapInArrow: {order}slices and windows, all keys of a partition at once",
    ]


MERIT: Final = "possible, and faster where slices are nearly as many as rows"
ROUTE: Final = Route("rows", MERIT, refusal, run, explain)
