"""Spark Declarative Pipelines: the module in the page of other libraries is a pipeline that runs."""

from __future__ import annotations

from pathlib import Path

from support.documents import ROOT, blocks
from support.programs import program

PAGE = ROOT / "docs" / "how-to" / "other-libraries.md"

PIPELINE = """
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import (
    create_dataflow_graph,
    handle_pipeline_events,
    start_run,
)
from pyspark.sql import SparkSession

address, folder, module = sys.argv[1:]
spark = SparkSession.builder.remote(address).getOrCreate()
spark.sql(f"CREATE DATABASE of_pipelines LOCATION '{folder}/tables'")
try:
    spark.catalog.setCurrentDatabase("of_pipelines")
    spark.sql(
        "CREATE TABLE readings USING parquet AS "
        "SELECT id % 2 AS device, timestamp_seconds(id * 60) AS ts, double(id) AS v FROM range(100)"
    )

    def registered(code):
        graph = create_dataflow_graph(spark, None, "of_pipelines", {})
        with graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)):
            exec(compile(code, module, "exec"), {})
        return graph

    code = Path(module).read_text()
    within = code.replace("windows = query.run", "made = lambda: query.run")
    try:
        registered(within.replace("return windows", "return made()"))
    except PySparkException as error:
        print(error.getCondition())
    graph = registered(code)
    events = start_run(
        spark,
        graph,
        full_refresh=[],
        full_refresh_all=False,
        refresh=[],
        dry=False,
        storage=f"file://{folder}/storage",
    )
    handle_pipeline_events(events)
    found = spark.table("windows_per_device")
    print(found.columns, found.count())
finally:
    spark.catalog.setCurrentDatabase("default")
    spark.sql("DROP DATABASE of_pipelines CASCADE")
"""


def test_a_result_is_a_materialized_view(remote: str, tmp_path: Path) -> None:
    (module,) = [each for each in blocks(PAGE, "py") if "pipelines" in each]
    path = tmp_path / "windows.py"
    path.write_text(module)
    printed = program(PIPELINE, remote, str(tmp_path), str(path)).splitlines()
    # Rows of each device are in 100 minutes, which are in five windows that slide by half an hour.
    assert printed[0] == "ATTEMPT_ANALYSIS_IN_PIPELINE_QUERY_FUNCTION", "what the page says of Spark"
    assert printed[-1] == "['device', 'window_start', 'window_end', 'median(v)'] 10"
