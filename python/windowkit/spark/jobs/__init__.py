"""A query checked against a DataFrame, the SQL that Catalyst evaluates for it, and Spark's own answer."""

from windowkit.spark.jobs import sql
from windowkit.spark.jobs.computing import computed
from windowkit.spark.jobs.job import (
    Job,
    arrow_type,
    bound,
    check_batch,
    check_frame,
    check_metrics,
    check_query,
    columns_at,
    identifier,
    job,
    literal,
    position_of,
)
from windowkit.spark.jobs.reference import (
    named,
    output_schema,
    own,
    reference,
    result_schema,
    uncounted,
    unranked,
)
from windowkit.spark.jobs.shapes import in_shape, shaped_schema
from windowkit.spark.jobs.where import filtered, minds_no_case, narrowed, split_of, sql_of
from windowkit.spark.jobs.whole import keyed, whole

__all__ = [
    "Job",
    "arrow_type",
    "bound",
    "check_batch",
    "check_frame",
    "check_metrics",
    "check_query",
    "columns_at",
    "computed",
    "filtered",
    "identifier",
    "in_shape",
    "job",
    "keyed",
    "literal",
    "minds_no_case",
    "named",
    "narrowed",
    "output_schema",
    "own",
    "position_of",
    "reference",
    "result_schema",
    "shaped_schema",
    "split_of",
    "sql",
    "sql_of",
    "uncounted",
    "unranked",
    "whole",
]
