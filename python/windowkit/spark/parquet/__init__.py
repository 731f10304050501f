"""Queries over Parquet files that Spark's tasks read by themselves.

Spark says which files there are and what columns they have (`tables`); without Spark, footers say it
(`footers`). Where Spark's reader would read a file in another way than tasks (`survey`), the query is left to
that reader (`fallback`). Else tasks read the files (`reading`), but for the row groups that statistics rule
out (`pruning`).
"""

from windowkit.spark.parquet.datasource import options, query_of, register
from windowkit.spark.parquet.scan import ReadAndPack, Scan, checked, explain_scan, scan

__all__ = ["ReadAndPack", "Scan", "checked", "explain_scan", "options", "query_of", "register", "scan"]
