"""The state and the watermark of streams in Spark: large, foreign, of several sources."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as sf
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

import windowkit as wk
from support.spark_runs import ROWS, add_files, everything, mixed, run_stream, shifted
from windowkit.spark.streams import bucket

pytestmark = pytest.mark.usefixtures("rocksdb")

WINDOWS = wk.sliding("1 minute", "20 seconds")
QUERY = wk.query(by="k", time="ts", windows=WINDOWS, aggs=wk.sum("v"), window_columns="struct")


def sparks(frame: DataFrame) -> DataFrame:
    return frame.groupBy("k", sf.window("ts", "1 minute", "20 seconds")).agg(sf.sum("v"))


@pytest.mark.parametrize("policy", ["min", "max"])
def test_the_watermark_of_several_sources_is_sparks(source, settings, tmp_path, policy):
    """The least or the greatest of their watermarks, one of which has no delay; one source falls behind."""
    with settings({"spark.sql.streaming.multipleWatermarkPolicy": policy}):
        fast = source(*shifted(mixed(3), 100), delay="0 seconds", folder="fast")
        slow = source(*mixed(2), delay="20 seconds", folder="slow").repartition(3)
        both = fast.union(slow)
        found, _ = run_stream(QUERY.run(both), tmp_path / "ours")
        wanted, _ = run_stream(sparks(both), tmp_path / "sparks")
    assert {number: sorted(map(repr, rows)) for number, rows in found.items()} == {
        number: sorted(map(repr, rows)) for number, rows in wanted.items()
    }
    assert len(everything(found)) >= 20


def test_a_second_watermark_of_the_same_rows_is_refused(source, tmp_path):
    """By Spark where one follows the other, and by us where it has taken the place of the time column's."""
    rows = source(*mixed(3), delay=None).withColumn("seen", sf.expr("ts - interval 30 seconds"))
    twice = rows.withWatermark("seen", "0 seconds").withWatermark("ts", "0 seconds")
    with pytest.raises(PySparkException, match="Redefining watermark is disallowed"):
        run_stream(QUERY.run(twice), tmp_path / "checkpoint")
    with pytest.raises(wk.InvalidValue, match="its column 'ts' has no watermark, as 'seen' has"):
        QUERY.run(rows.withWatermark("ts", "0 seconds").withWatermark("seen", "0 seconds"))


def test_a_bucket_that_has_all_rows(spark, source, tmp_path):
    """Its snapshot has more than 10 MB, in entries of a MiB, and is restored."""
    draw = random.Random(5)
    batches = [[("a", float(number), None) for _ in range(1000)] for number in range(13)]
    add_files(tmp_path / "in", *batches, [("a", 1000.0, None)], [("a", 2000.0, None)])
    # Random text, so that nothing makes it smaller.
    text = [draw.randbytes(600).hex() for _ in range(50)]
    words = spark.createDataFrame([(number, word) for number, word in enumerate(text)], ["n", "word"])
    frame = spark.readStream.schema(ROWS).option("maxFilesPerTrigger", 1).parquet(str(tmp_path / "in"))
    rows = frame.withWatermark("ts", "1 second").withColumn("n", (sf.rand(3) * 50).cast("bigint"))
    query = wk.query(by="k", time="ts", windows=wk.tumbling("5 minutes"), aggs=wk.collect_list("word"))
    found, _ = run_stream(query.run(rows.join(sf.broadcast(words), "n")), tmp_path / "checkpoint")
    first, _ = (row for number in sorted(found) for row in found[number])
    assert len(first[-1]) == 13_000
    assert set(first[-1]) == set(text)
    state = spark.read.format("statestore").option("stateVarName", "log").option("batchId", 11)
    log = state.load(str(tmp_path / "checkpoint")).select("user_map_value.*").toArrow()
    kept = log.filter(pa.compute.equal(log["kind"], bucket.SNAPSHOT))
    sizes = pa.compute.binary_length(kept["data"]).to_pylist()
    assert sum(sizes) > 10_000_000
    assert max(sizes) <= bucket.ENTRY_BYTES


def test_the_checkpoint_of_something_else_is_refused(source, tmp_path):
    head = (bucket.HEAD, bucket.FIELDS.pack(b"12345678", 0, 0, 1), 0, 0)

    # Workers cannot import it, as they can no module of tests.
    class Foreign(StatefulProcessor):
        """State of the same form, by something else."""

        def init(self, handle: Any) -> None:
            self.log = handle.getMapState("log", bucket.SEQUENCE, bucket.ENTRY)

        def handleInputRows(self, key, rows, timerValues):  # noqa: N802, N803
            self.log.updateValue((bucket.TOP,), head)
            self.log.updateValue((0,), (bucket.IDENTITY, b"theirs", 0, 0))
            yield Row(rows=len(list(rows)))

        def close(self) -> None:
            pass

    frame = source(*mixed(1))
    run_stream(sparks(frame), tmp_path / "sparks")
    run_stream(QUERY.run(frame), tmp_path / "ours")
    own = frame.withColumn("bucket", sf.lit(bucket.GUARD)).groupBy("bucket")
    run_stream(own.transformWithState(Foreign(), "rows bigint", "append", "EventTime"), tmp_path / "theirs")
    source([("a", 500.0, 1.0)])
    # Spark names the operators.
    with pytest.raises(PySparkException, match=r"stateStoreSave.*transformWithStateInPySparkExec"):
        run_stream(QUERY.run(frame), tmp_path / "sparks")
    with pytest.raises(PySparkException, match=r"transformWithStateInPySparkExec.*stateStoreSave"):
        run_stream(sparks(frame), tmp_path / "ours")
    message = "state: what the checkpoint belongs to cannot be read .* a checkpointLocation of its own"
    with pytest.raises(PySparkException, match=message):
        run_stream(QUERY.run(frame), tmp_path / "theirs")


def test_modes_that_spark_does_not_have_for_such_state(spark, source, tmp_path):
    """They are refused by name: complete mode, by both; real-time and continuous mode, by Spark."""
    with pytest.raises(wk.InvalidValue, match=r"output_mode: 'complete' .* allowed are 'append', 'update'"):
        QUERY.run(source(*mixed(1)), output_mode="complete")
    with pytest.raises(PySparkException, match="output mode: complete"):
        run_stream(QUERY.run(source()), tmp_path / "complete", "complete")
    rate = spark.readStream.format("rate").load()
    rows = rate.selectExpr("'a' k", "timestamp ts", "1D v").withWatermark("ts", "1 second")
    writer = QUERY.run(rows, output_mode="update").writeStream.format("console").outputMode("update")
    with pytest.raises(PySparkException, match="STREAMING_REAL_TIME_MODE"):
        writer.option("checkpointLocation", str(tmp_path / "live")).trigger(
            realTime="5 minutes"
        ).start().awaitTermination(60)
    writer = QUERY.run(rows).writeStream.format("console").trigger(continuous="1 second")
    with pytest.raises(PySparkException, match="Continuous processing does not support"):
        writer.option("checkpointLocation", str(tmp_path / "continuous")).start()
