"""Windows in two columns, in Spark: whichever route, and of a scan."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pyarrow.parquet
import pytest
from pyspark.sql import SparkSession

import windowkit as wk
import windowkit.spark
from support.spark import readings_table, rows_of

WINDOWS = {
    "tumbling": wk.tumbling("10 minutes"),
    "sliding": wk.sliding("10 minutes", "5 minutes"),
    "session": wk.session("5 minutes"),
    "several": [wk.tumbling("10 minutes"), wk.sliding("2 rows", "5 minutes")],
}


def query(windows: str, window_columns: Literal["flat", "struct"]) -> wk.Query:
    return wk.query(
        by="device",
        time="ts",
        windows=WINDOWS[windows],
        aggs=[wk.count().alias("Window"), wk.max("v")],
        window_columns=window_columns,
    )


@pytest.mark.parametrize("windows", WINDOWS)
def test_two_columns_are_in_place_of_the_struct(spark: SparkSession, windows: str, tmp_path: Path) -> None:
    table = readings_table(200)
    flat, nested = query(windows, "flat"), query(windows, "struct")
    frame = spark.createDataFrame(table)
    wanted = {
        tuple(
            part for value in identity for part in (value if isinstance(value, tuple) else (value,))
        ): values
        for identity, values in rows_of(nested.run(frame), nested).items()
    }
    # What has no ranks has two nulls for them.
    width = len(flat.columns) - len(flat.aggs)
    wanted = {
        (identity if len(identity) == width else (*identity, None)): values
        for identity, values in wanted.items()
    }
    result = flat.run(frame)
    assert result.columns == flat.columns
    assert rows_of(result, flat) == wanted
    if windows == "sliding":
        assert rows_of(flat.run(frame, partitioner="hash", n=2), flat) == wanted
    pyarrow.parquet.write_table(table, tmp_path / "rows.parquet")
    path = str(tmp_path / "rows.parquet")
    scanned = wk.spark.scan(spark, path, flat)
    assert scanned.schema == flat.run(spark.read.parquet(path)).schema
    assert rows_of(scanned, flat) == wanted
    wk.spark.register(spark)
    read = spark.read.format("windowkit").options(**wk.spark.options(flat)).load(path)
    assert read.columns == flat.columns
    assert rows_of(read, flat) == wanted
    assert "windowColumns" not in wk.spark.options(flat)
    read = spark.read.format("windowkit").options(**wk.spark.options(nested)).load(path)
    assert read.dtypes == nested.run(spark.read.parquet(path)).dtypes
    assert rows_of(read, nested) == rows_of(nested.run(frame), nested)
    if windows == "session":
        assert rows_of(wk.spark.reference(frame, flat), flat) == wanted


def test_the_form_of_a_result_is_sparks(spark: SparkSession) -> None:
    with pytest.raises(
        wk.InvalidValue, match=r"result: 'pandas' is given with a batch DataFrame of Spark.*\.toPandas"
    ):
        query("tumbling", "struct").run(spark.range(1), result="pandas")


def test_there_are_two_forms_in_options(spark: SparkSession, tmp_path: Path) -> None:
    wk.spark.register(spark)
    emitted = wk.spark.options(query("tumbling", "flat")) | {"windowColumns": "wide"}
    with pytest.raises(Exception, match="windowColumns: 'wide' is unknown; allowed are 'flat', 'struct'"):
        spark.read.format("windowkit").options(**emitted).load(str(tmp_path))
