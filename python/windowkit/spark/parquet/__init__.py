"""Parquet files that Spark's tasks read by themselves.

Spark says which files there are and what columns they have: of paths (`tables`), of a DataFrame by its plan
(`planned`), and of a table by its name where no plan is to be seen (`catalog`); without Spark, footers say it
(`footers`). `survey` finds out whether Spark's reader would read them in another way than tasks do
(`reading`), which leave out row groups that statistics rule out (`pruning`).
"""

from windowkit.spark.parquet import catalog, filters, footers, planned, pruning, reading, survey, tables
from windowkit.spark.parquet.pruning import Chosen
from windowkit.spark.parquet.reading import Reader

__all__ = [
    "Chosen",
    "Reader",
    "catalog",
    "filters",
    "footers",
    "planned",
    "pruning",
    "reading",
    "survey",
    "tables",
]
