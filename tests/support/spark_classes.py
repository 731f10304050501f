"""Keeps the classes that Spark loads for some queries in a file, from which other JVMs take them.

python tests/support/spark_classes.py FILE
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf


def main(path: Path) -> None:
    """Run what the tests run: plans, Arrow, Python workers and Parquet."""
    kept = path.with_suffix(".new")
    options = f"-XX:+UseSerialGC -XX:ArchiveClassesAtExit={kept} -Xlog:cds=off -Xlog:cds+dynamic=off"
    os.environ["JDK_JAVA_OPTIONS"] = f"{os.environ.get('JDK_JAVA_OPTIONS', '')} {options}"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.host", "127.0.0.1")
    spark = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    frame = spark.range(1000).select((sf.col("id") % 7).alias("k"), sf.timestamp_seconds("id").alias("ts"))
    with tempfile.TemporaryDirectory() as folder:
        frame.write.parquet(f"{folder}/rows")
        rows = spark.read.parquet(f"{folder}/rows").repartition(2, "k")
        for window in (sf.window("ts", "2 minutes", "1 minute"), sf.session_window("ts", "1 minute")):
            counted = rows.groupBy("k", window).agg(sf.count("*"), sf.avg("k"))
            counted.mapInArrow(lambda batches: batches, counted.schema).toArrow()
    spark.stop()
    # The file is whole once the JVM has ended.
    jvm = SparkContext._gateway.proc
    SparkContext._gateway.shutdown()
    jvm.stdin.close()
    jvm.wait()
    kept.replace(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
