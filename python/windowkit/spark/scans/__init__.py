"""Queries over Parquet files by their paths: `scan`, and the data source that SQL names.

Tasks read the files by route "scan". Where they would not read them as Spark's reader does, the query is left
to that reader (`fallback`).
"""

from windowkit.spark.scans.datasource import options, query_of, register
from windowkit.spark.scans.scan import checked, explain_scan, scan

__all__ = ["checked", "explain_scan", "options", "query_of", "register", "scan"]
