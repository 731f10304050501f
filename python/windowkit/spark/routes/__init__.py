"""The ways to evaluate a job in Spark, the rule that chooses one, and what runs in the workers."""

from windowkit.spark.routes import catalyst, packed, rolling, stages
from windowkit.spark.routes.as_of import as_of, explain_as_of
from windowkit.spark.routes.duplicates import distinct, explain_distinct
from windowkit.spark.routes.joins import explain_join, join
from windowkit.spark.routes.planner import aggregate, described, explain, unfiltered
from windowkit.spark.routes.rolling import explain_roll, roll
from windowkit.spark.routes.rule import Expected, expected
from windowkit.spark.routes.scan import ReadAndPack, Scan
from windowkit.spark.routes.stages import LIMITS
from windowkit.spark.routes.worker import finished

__all__ = [
    "LIMITS",
    "Expected",
    "ReadAndPack",
    "Scan",
    "aggregate",
    "as_of",
    "catalyst",
    "described",
    "distinct",
    "expected",
    "explain_as_of",
    "explain_distinct",
    "explain_join",
    "explain",
    "explain_roll",
    "finished",
    "join",
    "packed",
    "roll",
    "rolling",
    "stages",
    "unfiltered",
]
