"""The ways to evaluate a job in Spark, the rule that chooses one, and what runs in the workers."""

from windowkit.spark.routes import catalyst, packed, stages
from windowkit.spark.routes.as_of import as_of, asking, explain_as_of
from windowkit.spark.routes.duplicates import distinct, explain_distinct, leaving
from windowkit.spark.routes.joins import explain_join, join, joining
from windowkit.spark.routes.planner import aggregate, described, explain, unfiltered
from windowkit.spark.routes.rolling import explain_roll, roll, rolling_over
from windowkit.spark.routes.rule import Expected, expected
from windowkit.spark.routes.scan import ReadAndPack, Scan, in_line, reading_files
from windowkit.spark.routes.sides import Operation, Side
from windowkit.spark.routes.stages import LIMITS
from windowkit.spark.routes.worker import finished

__all__ = [
    "LIMITS",
    "Expected",
    "Operation",
    "ReadAndPack",
    "Scan",
    "Side",
    "aggregate",
    "as_of",
    "asking",
    "catalyst",
    "described",
    "distinct",
    "expected",
    "explain",
    "explain_as_of",
    "explain_distinct",
    "explain_join",
    "explain_roll",
    "finished",
    "in_line",
    "join",
    "joining",
    "leaving",
    "packed",
    "reading_files",
    "roll",
    "rolling_over",
    "stages",
    "unfiltered",
]
