"""Parquet files that Spark's tasks read by themselves.

Spark says which files there are and what columns they have: of paths (`tables`), and of a DataFrame by its
plan (`planned`); without Spark, footers say it (`footers`). `survey` finds out whether Spark's reader would
read them in another way than tasks do (`reading`), which leave out row groups that statistics rule out
(`pruning`).
"""

from windowkit.spark.parquet import filters, footers, planned, pruning, reading, survey, tables
from windowkit.spark.parquet.pruning import Chosen
from windowkit.spark.parquet.reading import Reader

__all__ = ["Chosen", "Reader", "filters", "footers", "planned", "pruning", "reading", "survey", "tables"]
