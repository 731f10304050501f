"""The Spark session of benchmarks: two cores, four shuffle partitions, no interface, times in UTC.

And the clock, which times a job from its plan to its last row, and what `explain` says of who reads files.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

__all__ = ["SETTINGS", "readers", "seconds", "session"]

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
}


def session(log: str = "ERROR", more: Mapping[str, str] | None = None, **settings: object) -> SparkSession:
    """Return a session, whose workers run this interpreter.

    Parameters
    ----------
    log : str, default "ERROR"
        What Spark reports.
    more : mapping of str to str, optional
        Beside `SETTINGS` or instead of them, by their own names.
    **settings
        The same, with underscores for dots, and without ``spark.``.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("windowkit bench")
    named = {f"spark.{name.replace('_', '.')}": text(value) for name, value in settings.items()}
    for name, value in {**SETTINGS, **(more or {}), **named}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel(log)
    return spark


def seconds(make: Callable[[], DataFrame]) -> float:
    """Return how long it takes to plan and to run."""
    began = time.perf_counter()
    make().write.format("noop").mode("overwrite").save()
    return round(time.perf_counter() - began, 3)


def readers(explained: str) -> str:
    """Return who reads the files of a job whose rows are packed, as `explain` says."""
    found = re.findall(
        r"stage 1(?: of (?:the )?(.*))?, inside .*: rows of .*\n  not read .* by tasks, as (.*)", explained
    )
    by_spark = (f"Spark reads the {side or 'rows'} for windowkit, as {why}." for side, why in found)
    return " ".join(by_spark) or "windowkit's tasks read all files themselves."


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
