"""What needs a process of its own: what imports what, pyspark missing, and a client of Spark Connect."""

import pyarrow as pa
from pyspark import cloudpickle

import windowkit as wk
from support.programs import program
from windowkit.spark.routes.worker import Rows, Slices


def test_importing_windowkit_does_not_import_pyspark():
    program(
        """
        import sys
        import windowkit
        import windowkit.local.query
        assert not [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")]
        """
    )


def test_spark_is_an_attribute_that_is_imported_when_used():
    program(
        """
        import windowkit
        assert windowkit.spark.aggregate.__module__ == "windowkit.spark.routes.planner"
        """
    )


def test_without_pyspark_the_error_says_what_to_install():
    printed = program(
        """
        import sys
        sys.modules["pyspark"] = None
        import windowkit
        try:
            import windowkit.spark
        except ImportError as error:
            assert isinstance(error, windowkit.WindowKitError)
            print(error)
        """
    )
    assert "pip install 'windowkit[spark]'" in printed


def test_what_is_shipped_to_workers_is_small():
    aggs = [wk.sum("v"), wk.max("v")]
    query = wk.query(by="k", time="ts", windows=wk.sliding("10 minutes", "1 second"), aggs=aggs)
    schema = pa.schema({"k": pa.string(), "ts": pa.timestamp("us", "UTC"), "v": pa.float64()})
    for shipped in (Rows(query), Slices(query, schema)):
        pickled = cloudpickle.dumps(shipped)
        assert len(pickled) < 2000
        assert cloudpickle.loads(pickled) == shipped


def test_connect(remote):
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession, functions as sf
        import windowkit as wk
        import windowkit.spark

        spark = (
            SparkSession.builder.remote(sys.argv[1])
            .config("spark.sql.shuffle.partitions", "4")
            .config("spark.sql.session.timeZone", "Europe/Berlin")
            .getOrCreate()
        )
        assert "connect" in type(spark).__module__
        frame = spark.range(0, 3000, 1, 3).select(
            (sf.col("id") % 7).alias("a.key"),
            sf.timestamp_seconds(sf.pmod(sf.hash("id"), sf.lit(50_000)) - 20_000).alias("ts"),
            (sf.col("id") % 97).alias("v"),
        )
        aggs = [wk.count(), wk.sum("v"), wk.avg("v"), wk.stddev("v"), wk.max("v").alias("peak")]
        for windows in (
            wk.tumbling("10 minutes"),
            wk.sliding("10 minutes", "4 minutes"),
            wk.session("1 minute"),
            [wk.session("1 minute"), wk.sliding("1 hour", "10 minutes")],
        ):
            query = wk.query(by="A.key", time="ts", windows=windows, aggs=aggs)
            reference = wk.spark.reference(frame, query)

            def rows(df):
                numbers = [sf.round(f"`{name}`", 6).alias(name) for name in query.columns[-5:]]
                others = [f"`{name}`" for name in query.columns[:-5]]
                return sorted(map(repr, df.select(*others, *numbers).collect()))

            wanted = rows(reference)
            for route in ("catalyst", "catalyst-panes", "packed", "rows"):
                try:
                    result = query.run(frame, route=route)
                except wk.InvalidValue:
                    continue
                assert result.schema == reference.schema, (result.schema, reference.schema)
                assert rows(result) == wanted, (windows, route)
                print("equal", route)
            assert "route: " in query.explain(frame)
        overlapping = sf.window("ts", "10 minutes", "5 minutes")
        spark_s = frame.groupBy("`a.key`", overlapping).agg(sf.sum("v"), sf.count("*"))
        windows = wk.sliding("10 minutes", "5 minutes")
        aggs = [wk.sum("v"), wk.count()]
        query = wk.query(by="a.key", time="ts", windows=windows, aggs=aggs, window_columns="struct")
        assert frame.transform(wk.spark.aggregate, query).schema == spark_s.schema
        metrics = wk.spark.Metrics()
        assert query.run(frame.where("v > 99"), route="packed", metrics=metrics).collect() == []
        print("metrics", sorted(metrics.values().items()))
        try:
            wk.query(by="b", time="ts", windows=wk.session("1 minute"), aggs=wk.count()).run(frame)
        except wk.UnknownColumn as error:
            print("refused", error)
        stream = spark.readStream.format("rate").load()
        try:
            wk.query(by=[], time="timestamp", windows=wk.session("1 minute"), aggs=wk.count()).run(stream)
        except wk.InvalidValue as error:
            print("refused", error)
        spark.stop()
        """,
        remote,
    )
    assert printed.count("equal") == 13
    assert printed.count("refused") == 2
    zeros = [(name, 0) for name in ("bytes packed", "rows in", "slices", "windows out")]
    assert f"metrics {zeros}" in printed
