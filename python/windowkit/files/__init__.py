"""Tables in files: which files they are, which task reads which part, and filters on their rows.

For the command line, and for `windowkit.spark.parquet` where Spark does not say.
"""
