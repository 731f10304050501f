"""Partitioning through Spark Connect, which has no more than the public interface of DataFrames."""

from support.programs import program


def test_connect(remote):
    printed = program(
        """
        import sys
        from pyspark.sql import SparkSession, functions as sf
        import windowkit as wk

        spark = (
            SparkSession.builder.remote(sys.argv[1])
            .config("spark.sql.shuffle.partitions", "4")
            .getOrCreate()
        )
        assert "connect" in type(spark).__module__
        other = sf.pmod(sf.hash("id"), sf.lit(50))
        key = sf.when(sf.col("id") % 10 < 3, sf.lit(-1)).otherwise(other).alias("a.key")
        frame = spark.range(0, 8000, 1, 2).select(key, sf.timestamp_seconds("id").alias("ts"), "id")
        for options in ({}, {"way": "streaming"}, {"spread": "position"}, {"method": "hash"}):
            result = wk.spark.repartition(frame, 5, "a.key", **options)
            loads = result.groupBy(sf.spark_partition_id()).count().select("count").collect()
            assert len(loads) == 5 and sum(n for n, in loads) == 8000, (options, loads)
            if options != {"method": "hash"}:
                assert max(n for n, in loads) < 1.1 * 1600, (options, loads)
            assert result.schema == frame.schema
            print("equal", options)
        column = wk.spark.partition_id(frame, 5, "a.key")
        assert frame.select(column.alias("p")).distinct().count() == 5
        query = wk.query(by="a.key", time="ts", windows=wk.tumbling("10 minutes"), aggs=wk.sum("id"))
        result = wk.spark.aggregate(frame, query, partitioner="waterfill", n=5)
        assert result.exceptAll(wk.spark.reference(frame, query)).count() == 0
        print("equal", result.count())
        spark.stop()
        """,
        remote,
    )
    assert printed.count("equal") == 5
