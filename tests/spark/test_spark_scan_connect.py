"""Scans through Spark Connect, which use the same public interface of Spark."""

from support.programs import program


def test_connect(remote, tmp_path):
    printed = program(
        """
        import sys
        from pathlib import Path

        import pyarrow as pa, pyarrow.parquet as pq
        from pyspark.sql import SparkSession
        import windowkit as wk
        import windowkit.spark

        spark = (
            SparkSession.builder.remote(sys.argv[1])
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.sql.session.timeZone", "Europe/Berlin")
            .getOrCreate()
        )
        assert "connect" in type(spark).__module__
        root = Path(sys.argv[2])
        for number, at in enumerate(("2024-03-31 03:30:00", "2024-05-02", "__HIVE_DEFAULT_PARTITION__")):
            (root / "table" / f"at={at}").mkdir(parents=True)
            times = pa.array([row * 10**6 for row in range(20)], pa.timestamp("us", "UTC"))
            rows = pa.table({"t": times, "v": range(20 * number, 20 * number + 20)})
            pq.write_table(rows, root / "table" / f"at={at}" / "f.parquet", row_group_size=5)
        query = wk.query(by="AT", time="t", windows=wk.sliding("10 seconds", "4 seconds"), aggs=wk.sum("v"))
        path = str(root / "table")
        frame = spark.read.parquet(path)
        found = wk.spark.scan(spark, path, query)
        assert found.schema == query.run(frame).schema
        assert sorted(map(repr, found.collect())) == sorted(map(repr, query.run(frame).collect()))
        chosen = [("at", "<", "2024-05-01"), ("v", ">", 7)]
        some = wk.spark.scan(spark, str(root / "t*"), query, filter=chosen)
        wanted = query.run(frame.where("at < '2024-05-01' and v > 7"))
        assert sorted(map(repr, some.collect())) == sorted(map(repr, wanted.collect())) != []
        print("equal")
        print(query.explain(frame))
        print(wk.spark.explain_scan(spark, path, query, filter=[("at", ">", "2024-05-01")]))
        fine = pa.table({"t": pa.array([1, 999], pa.timestamp("ns", "UTC")), "v": [1, 2]})
        pq.write_table(fine, root / "fine.parquet")
        query = wk.query(by=[], time="t", windows=wk.tumbling("1 second"), aggs=wk.sum("v").alias("s"))
        assert [row.s for row in wk.spark.scan(spark, str(root / "fine.parquet"), query).collect()] == [3]
        try:
            wk.spark.scan(spark, str(root / "nowhere"), query)
        except wk.InvalidValue as error:
            print("refused", error)
        spark.stop()
        """,
        remote,
        tmp_path,
    )
    assert "equal" in printed
    assert (
        "  scan: refused, as plans are not to be seen through Spark Connect; wk.spark.scan takes paths"
        in printed
    )
    assert "  directories rule out 2 of 3 files" in printed
    assert "refused paths: Spark does not read" in printed
    assert "PATH_NOT_FOUND" in printed
