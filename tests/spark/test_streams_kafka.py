"""Streams from topics of a real Kafka broker."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
from support.programs import ROOT
from support.spark import plain
from support.spark_runs import ROWS, SECOND, everything, run_stream, table

pytestmark = pytest.mark.usefixtures("rocksdb")


def example(name: str) -> ModuleType:
    """Import a module of the examples."""
    spec = importlib.util.spec_from_file_location(name, Path(ROOT).parent / "examples" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_a_topic_is_answered_as_a_batch(spark, tmp_path):
    """Three partitions, batches of some rows of each, and a stop in the middle."""
    kafka = example("broker")
    classes = kafka.jars(spark)
    # The connector is of this session alone, and has another version of Kafka's client.
    session = spark.newSession()
    for name in ("spark.sql.streaming.stateStore.providerClass", "spark.sql.shuffle.partitions"):
        session.conf.set(name, spark.conf.get(name))
    session.sql(f"ADD JAR ivy://{kafka.CONNECTOR}?transitive=true&exclude={kafka.EXCLUDED}")
    windows = [wk.sliding("1 minute", "20 seconds"), wk.session("4 seconds")]
    query = wk.query(by="k", time="ts", windows=windows, aggs=[wk.median("v"), wk.count()])
    rows = [(["a", "b", None][at % 3], float(at + at * 7 % 30), at % 5 / 2) for at in range(400)]
    halves = [table(rows[:200]), table([*rows[200:], ("end", 10_000.0, None)])]
    with kafka.broker(classes, tmp_path) as address:
        to = {"kafka.bootstrap.servers": address}
        frame = session.readStream.format("kafka").options(**to)
        frame = frame.options(subscribe="rows", startingOffsets="earliest", maxOffsetsPerTrigger="50").load()
        parsed = frame.select(sf.from_json(sf.col("value").cast("string"), ROWS).alias("row")).select("row.*")
        result = query.run(parsed.withWatermark("ts", "5 minutes"))
        found: list[str] = []
        for half in halves:
            written = session.createDataFrame(half).select(
                sf.col("k").alias("key"), sf.to_json(sf.struct("*")).alias("value")
            )
            # By one task, as several would write the rows of a key in another order.
            written = written.coalesce(1).write.format("kafka").options(**to)
            written.option("topic", "rows").save()
            batches, _ = run_stream(result, tmp_path / "checkpoint")
            assert len(batches) > 4
            found += everything(batches)
    wanted = list(zip(*map(plain, query.run(pa.concat_tables(halves)).columns), strict=True))
    at = query.columns.index("window_end")
    assert sorted(found) == sorted(repr(row) for row in wanted if row[at] < 9000 * SECOND)
    assert len(found) > 100
