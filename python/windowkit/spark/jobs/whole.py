"""Jobs over all columns of a DataFrame: of rolling aggregates, or of its keys and times alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from windowkit.language.aggregates import count
from windowkit.language.query import Query
from windowkit.language.windows import global_window
from windowkit.spark.jobs.job import Job, arrow_type, job

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from windowkit.spark.shipping import Metrics

__all__ = ["keyed", "whole"]


def keyed(
    frame: DataFrame,
    by: tuple[str, ...],
    time: str,
    argument: str = "df",
    *,
    metrics: Metrics | None = None,
    streams: str = "",
    of_side: str = "",
) -> tuple[DataFrame, Job]:
    """Return the rows of a DataFrame as `whole` does, and a job that knows of no more than keys and times.

    Rows are packed by what such a job asks for: how many there are of each key.
    """
    query = Query(by, time, (global_window(),), (count(),))
    return whole(job(frame, query, metrics, streams=streams, of_side=of_side), argument)


def whole(checked: Job, argument: str = "df") -> tuple[DataFrame, Job]:
    """Return the rows of a job with all their columns under internal names, and a job over them."""
    df = checked.frame
    # Under the names that the query uses: Spark may find columns in any case.
    read = {position: name for name, position in checked.positions.items()}
    zone = df.sparkSession.conf.get("spark.sql.session.timeZone") or "UTC"
    fields = [
        (read.get(at, field.name), arrow_type(field.name, field.dataType, argument, zone))
        for at, field in enumerate(df.schema.fields)
    ]
    schema = pa.schema([pa.field(name, kind) for name, kind in fields])
    return df.toDF(*(f"c{at}" for at in range(len(fields)))), replace(checked, schema=schema)
