"""The Spark session of benchmarks: two cores, four shuffle partitions, no interface, times in UTC."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from pyspark.sql import SparkSession

__all__ = ["SETTINGS", "session"]

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


def text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
