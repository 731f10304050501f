"""Approximate distinct counts and sketches of windows in Spark, against Spark's own sketches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark

ROWS = 6_000
WINDOWS = [wk.sliding("200 seconds", "70 seconds"), wk.tumbling("200 seconds"), wk.session("2 seconds")]
SQL = """
select id % 2 as k, timestamp_micros(id * 1130000 - 300000000) as ts,
       if(id % 9 = 5, null, xxhash64(id)) as big, int(hash(id) % 90) as few,
       smallint(id % 300 - 150) as small, if(id % 7 = 2, '', substring(string(xxhash64(id)), 1, 5)) as text,
       cast(string(id % 1000) as binary) as bytes,
       id % 3 = 0 as flag, date_add(date'1969-12-01', int(id % 400)) as day, id % 5 < 3 as ok,
       double(id % 50) / if(id % 50 = 49, double('NaN'), 3) as f,
       timestamp_micros(id * 1000003) as at,
       timestamp_ntz'2020-01-01 00:00:00' + make_dt_interval(0, 0, 0, id % 77) as wall
from range({rows})
"""
COUNTED = ["big", "few", "small", "text", "bytes", "flag", "day", "at"]
"""Columns of types that Spark's sketches have something for."""


@pytest.fixture(scope="module")
def frame(spark):
    return spark.sql(SQL.format(rows=ROWS)).repartition(3).cache()


@pytest.mark.parametrize("window", WINDOWS, ids=str)
@pytest.mark.parametrize("log2_k", [4, 8, 12])
def test_estimates_are_those_of_sparks_unions(frame, check, window, log2_k):
    aggs = [wk.approx_count_distinct(name, log2_k) for name in COUNTED]
    filtered = [each.where("ok") for each in aggs[:4]]
    query = wk.query(by="k", time="ts", windows=window, aggs=aggs + filtered)
    check(frame, query, routes=("catalyst", "packed", "rows", None))
    with pytest.raises(wk.InvalidValue, match="Catalyst cannot hold a sketch of big in columns"):
        query.run(frame, route="catalyst-panes")


def test_rows_that_are_packed_as_they_are_estimate_the_same(frame, same_rows, monkeypatch):
    from windowkit.spark.jobs.job import job
    from windowkit.spark.routes import packed, stages
    from windowkit.spark.shipping import shipped

    aggs = [wk.approx_count_distinct("big", 8), wk.hll_sketch("text", 10)]
    # A job has windows as structs, whatever its query says.
    query = wk.query(by="k", time="ts", windows=WINDOWS[0], aggs=aggs, window_columns="struct")
    checked = job(frame, query)
    wanted = query.run(frame, route="rows")
    for never, limits in [
        (True, stages.LIMITS),
        (False, stages.Limits(slots=7, rows=100, trial=50, share=9.0)),
    ]:
        task = stages.Pack(query, checked.schema, *packed.buckets(checked), never=never, limits=limits)
        chunks = checked.rows.mapInArrow(shipped(task), packed.CHUNKS)
        assert same_rows(packed.windows(checked, chunks), wanted, query) > 0


def test_sketches_hold_what_sparks_hold(frame):
    """Registers or coupons are equal, bytes by every route, too; Spark's own functions take them."""
    query = wk.query(
        by="k",
        time="ts",
        windows=WINDOWS[0],
        aggs=[wk.hll_sketch("big", 8), wk.hll_sketch("few").alias("few"), wk.approx_count_distinct("big", 8)],
    )
    assert query.run(frame).schema["hll_sketch_agg(big, 8)"].dataType.simpleString() == "binary"
    own = windowkit.spark.reference(frame, query)
    theirs = {(row["k"], row["window_start"]): row for row in own.collect()}
    images = {}
    for route in ("packed", "rows"):
        rows = query.run(frame, route=route).collect()
        images[route] = {(row["k"], row["window_start"]): row for row in rows}
    assert images["packed"] == images["rows"]
    assert images["packed"].keys() == theirs.keys()
    modes = set()
    for at, row in images["packed"].items():
        for name in ("hll_sketch_agg(big, 8)", "few"):
            ours = wk.HyperLogLog.from_bytes(bytes(row[name]))
            spark_s = wk.HyperLogLog.from_bytes(bytes(theirs[at][name]))
            assert content(ours) == content(spark_s)
            modes.add(bytes(row[name])[7] & 3)
    assert {1, 2} <= modes, "few values and many"
    estimated = query.run(frame).select(
        sf.hll_sketch_estimate("hll_sketch_agg(big, 8)"), "approx_count_distinct(big, 8)"
    )
    assert all(row[0] == row[1] for row in estimated.collect())
    whole = query.run(frame).agg(sf.hll_sketch_estimate(sf.hll_union_agg("few"))).first()[0]
    assert whole == frame.select("few").distinct().count()


def content(sketch):
    """The registers of a sketch, or its coupons, which have no order."""
    image = sketch.to_bytes()
    if image[7] & 3 == 2:
        return image[40:]
    first = 8 if image[7] & 3 == 0 else 12
    return {image[at : at + 4] for at in range(first, len(image), 4)}


def test_a_tumbling_sketch_takes_no_route_of_catalyst(frame):
    query = wk.query(by="k", time="ts", windows=WINDOWS[1], aggs=wk.hll_sketch("big"))
    explained = query.explain(frame)
    assert "route: packed, as Catalyst cannot hold a sketch of big in columns" in explained
    assert "catalyst: refused, as the bytes of Spark's own sketches depend on the order of rows" in explained


@pytest.mark.parametrize("window", WINDOWS[:2], ids=str)
def test_types_that_sparks_sketches_do_not_take(frame, window):
    aggs = [wk.approx_count_distinct(name, log2_k) for name in ("f", "wall") for log2_k in (4, 12)]
    query = wk.query(by="k", time="ts", windows=window, aggs=aggs)
    with pytest.raises(
        wk.InvalidType, match=r"approx_count_distinct\(f, 4\) is of type double, which Spark's"
    ):
        windowkit.spark.reference(frame, query)
    with pytest.raises(wk.InvalidValue, match="cannot evaluate the query, as"):
        query.run(frame, route="catalyst")
    local = sorted(map(repr, query.run(frame.toArrow()).to_pylist()))
    for route in (None, "rows"):
        result = query.run(frame, route=route)
        assert [field.dataType.simpleString() for field in result.schema][3:] == ["bigint"] * 4
        assert sorted(map(repr, result.toArrow().to_pylist())) == local


def test_names_are_those_that_spark_gives(frame):
    theirs = frame.groupBy("k").agg(sf.hll_sketch_agg("big"), sf.hll_sketch_agg("big", 10))
    assert [wk.hll_sketch("big").name, wk.hll_sketch("big", 10).name] == theirs.columns[1:]


def test_a_scan_estimates_the_same(frame, spark, tmp_path, same_rows):
    query = wk.query(by="k", time="ts", windows=WINDOWS[0], aggs=wk.approx_count_distinct("text", 9))
    frame.select("k", "ts", "text").write.parquet(str(tmp_path / "rows"))
    oracle = windowkit.spark.reference(frame, query)
    assert same_rows(windowkit.spark.scan(spark, str(tmp_path / "rows"), query), oracle, query) > 0


def test_no_rows(frame, spark):
    query = wk.query(by="k", time="ts", windows=WINDOWS[0], aggs=wk.approx_count_distinct("big"))
    assert query.run(frame.where("false")).collect() == []
    nothing = pa.table(
        {"k": pa.array([1]), "ts": pa.array([0], pa.timestamp("us", "UTC")), "big": pa.nulls(1, pa.int64())}
    )
    (row,) = query.run(spark.createDataFrame(nothing), route="packed").limit(1).collect()
    assert row["approx_count_distinct(big, 12)"] == 0
