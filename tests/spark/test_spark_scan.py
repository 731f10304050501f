"""`scan` reads what ``spark.read.parquet`` reads, whatever the files are like."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JError
from pyarrow import fs
from pyspark.errors import PySparkException

import windowkit as wk
import windowkit.spark
from windowkit.files import listing
from windowkit.files.listing import NULL
from windowkit.spark.parquet import pruning, reading, tables
from windowkit.spark.parquet.types import UTC as INSTANT

UTC = dt.timezone.utc
SLIDING = wk.sliding("10 minutes", "4 minutes")
SESSION = wk.session("90 seconds")


def readings(rows=300, first=0):
    """Return rows of every type that Parquet and Spark share."""
    numbers = range(first, first + rows)
    seconds = [row * 37 % 5000 - 800 for row in numbers]
    return pa.table(
        {
            "row": pa.array(numbers, pa.int64()),
            "device": pa.array([None if row % 13 == 7 else "abc"[row % 3] for row in numbers]),
            "ts": pa.array([s * 1_000_000 for s in seconds], pa.timestamp("us", "UTC")),
            "ntz": pa.array([s * 1000 + 500 for s in seconds], pa.timestamp("ms")),
            "v": pa.array([None if row % 7 == 2 else row % 101 / 8 for row in numbers]),
            "n": pa.array([row * 7919 % 1009 for row in numbers], pa.int32()),
            "small": pa.array([row % 200 for row in numbers], pa.uint8()),
            "big": pa.array([2**63 + row for row in numbers], pa.uint64()),
            "price": pa.array([Decimal(row % 97) / 4 for row in numbers], pa.decimal128(9, 2)),
            "coded": pa.array(["xyz"[row % 3] * (row % 4) for row in numbers]).dictionary_encode(),
            "bytes": pa.array([b"%04d" % (row % 17) for row in numbers], pa.binary(4)),
            "day": pa.array([row % 9 for row in numbers], pa.date32()),
            "flag": pa.array([row % 5 == 0 for row in numbers]),
            "list": pa.array([[row % 3, None] for row in numbers], pa.list_(pa.int64())),
            "pair": pa.array([{"x": row % 3, "y": "é"} for row in numbers]),
        }
    )


AGGS = [
    wk.count(),
    wk.sum("v"),
    wk.mean("n"),
    wk.max("big"),
    wk.sum("small"),
    wk.sum("price"),
    wk.median("v"),
    wk.max("coded"),
    wk.min("bytes"),
    wk.max("day"),
    wk.sum("n").where("flag"),
    wk.first("list"),
    wk.count_distinct("coded"),
]


@pytest.fixture
def check(spark, same_rows):
    """Assert that a scan has the schema and the rows that Spark's own functions have of its own reading."""

    def scanned(paths, query, *, chosen=None, where=None, oracle=None, **options):
        several = [paths] if isinstance(paths, str) else paths
        frame = spark.read.parquet(*several) if oracle is None else oracle
        frame = frame if where is None else frame.where(where)
        result = windowkit.spark.scan(spark, paths, query, filter=chosen, **options)
        assert result.schema == query.run(frame).schema
        return same_rows(result, windowkit.spark.reference(frame, query), query)

    return scanned


@pytest.fixture
def path(tmp_path):
    pq.write_table(readings(), tmp_path / "readings.parquet", row_group_size=40)
    return str(tmp_path / "readings.parquet")


@pytest.mark.parametrize(
    "windows", [wk.tumbling("10 minutes"), SLIDING, SESSION, [SLIDING, SESSION]], ids=str
)
@pytest.mark.parametrize("by", [["device"], ["pair"], ["coded", "flag"], []], ids=str)
def test_the_same_as_sparks_own_reading(path, windows, by, check):
    assert check(path, wk.query(by=by, time="ts", windows=windows, aggs=AGGS))


def test_times_without_zone(spark, path, check):
    assert check(path, wk.query(by="device", time="ntz", windows=SLIDING, aggs=[wk.count(), wk.last("n")]))


def test_every_row_group_is_read_once_however_files_are_cut(spark, path, monkeypatch, check):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.count())
    monkeypatch.setattr(listing, "MOST_BYTES", 1000)
    monkeypatch.setattr(listing, "OPEN_BYTES", 10)
    assert f"{len(parts_of(path)):,} tasks read 1 file of" in windowkit.spark.explain_scan(spark, path, query)
    assert len(parts_of(path)) > 8
    check(path, query)


def parts_of(path):
    return listing.parts(listing.found(path), 2)


def test_hive_directories(tmp_path, check):
    table = readings()
    for year in (2023, 2024):
        for day in ("2024-05-01", "2024-05-02", NULL):
            for part in ("a%2Fb", "7"):
                folder = tmp_path / f"year={year}" / f"day={day}" / f"part={part}"
                folder.mkdir(parents=True)
                pq.write_table(
                    table.slice(hash((year, part)) % 50, 90).drop_columns(["day"]), folder / "p.parquet"
                )
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "_temporary").mkdir()
    (tmp_path / "_temporary" / "part.parquet").write_bytes(b"nothing")
    (tmp_path / ".part.crc").write_bytes(b"nothing")
    aggs = [wk.count(), wk.max("day"), wk.min("part")]
    for by in (["year"], ["year", "day", "part"], ["device", "part"]):
        query = wk.query(by=by, time="ts", windows=SLIDING, aggs=aggs)
        check(str(tmp_path), query)
    chosen = [("year", "=", 2024), ("day", "=", dt.date(2024, 5, 1))]
    check(str(tmp_path), query, chosen=chosen, where="year = 2024 and day = date'2024-05-01'")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-2", "007"], pa.int32()),
        (["1", "99999999999"], pa.int64()),
        (["1", "2.5"], pa.float64()),
        (["2.5", "99999999999"], pa.string()),
        (["2024-05-01"], pa.date32()),
        (["2024-05-01", "3"], pa.string()),
        (["x", "3"], pa.string()),
        ([NULL], pa.null()),
        ([NULL, "4"], pa.int32()),
        (["2024-02-31"], pa.string()),
        (["12f", "5d", "-.5", "NaN", "Infinity", " 1"], pa.float64()),
        (["1E-3", "15e-1"], pa.float64()),
        (["2024-05", "2024-5-1", "2024-05-01T10"], pa.string()),
        (["%C3%A9", "%41", "é"], pa.string()),
        (["1" * 39], pa.float64()),
        (["1e3", "0e2", "-7.e1"], pa.decimal128(4, 0)),
        (["99999999999999999999", "5"], pa.decimal128(20, 0)),
        (["1e2", "5"], pa.decimal128(10, 0)),
        (["1e2", "99999999999"], pa.decimal128(20, 0)),
        (["9" * 38], pa.decimal128(38, 0)),
        (["9" * 30, NULL], pa.decimal128(30, 0)),
        (["1e3", "2.5"], pa.string()),
        (["1e3", "x"], pa.string()),
        (["1e400"], pa.float64()),
        (["0x1p3", "-0X.8P1d", "0x1.8p-1f", "0x1p5000"], pa.float64()),
        (["0x1", "1_0", "1e"], pa.string()),
        (["2024-05-01 10:00:00", "2024-05-01 10:00:00.5"], INSTANT),
        (["2024-05-01 10%3A00%3A00", "1969-12-31 23:59:59"], INSTANT),
        (["2024-05-01 10:00:00", "2024-05-02", NULL], INSTANT),
        # In Berlin clocks skip the one, and show the other twice.
        (["2024-03-31 02:30:00", "2024-10-27 02:30:00"], INSTANT),
        (["2024-05-01 10:00:00", "7"], pa.string()),
        (["2024-05-01 10:00:00.55", "2024-05-01 1:00:00"], pa.string()),
        (["2024-02-30 10:00:00", "2024-05-01 24:00:00", "2024-05-01 10:00"], pa.string()),
        (["2024%2D05-01"], pa.string()),
    ],
    ids=str,
)
def test_directories_have_the_types_that_spark_infers(spark, tmp_path, values, kind, check):
    for value in values:
        (tmp_path / f"p={value}").mkdir()
        pq.write_table(readings(20), tmp_path / f"p={value}" / "f.parquet")
    assert tables.of_spark(spark, str(tmp_path), None).source.partitioned == pa.schema({"p": kind})
    check(str(tmp_path), wk.query(by="p", time="ts", windows=SLIDING, aggs=wk.count()))


@pytest.mark.parametrize(
    ("chosen", "where"),
    [
        ([("n", ">", 900)], "n > 900"),
        ([("n", ">", 900), ("device", "in", ["a", "b"])], "n > 900 and device in ('a', 'b')"),
        ([[("n", "<", 9)], [("n", ">=", 990)]], "n < 9 or n >= 990"),
        (ds.field("flag") & ~ds.field("v").is_null(), "flag and v is not null"),
        (
            ds.field("ts") >= dt.datetime(1970, 1, 1, 0, 40, tzinfo=UTC),
            "ts >= timestamp'1970-01-01 00:40:00Z'",
        ),
        (ds.field("v") > 1e9, "v > 1e9"),
        (ds.field("small") > 150, "small > 150"),
        (ds.field("price") > Decimal("20.00"), "price > 20"),
        ([("v", "not in", [0.125, 1.0])], "v not in (0.125, 1.0)"),
        ([("device", "not in", ["a"]), ("v", "<=", 5)], "device not in ('a') and v <= 5"),
    ],
    ids=str,
)
def test_filters(path, chosen, where, check):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.count(), wk.sum("v")])
    check(path, query, chosen=chosen, where=where)


def test_row_groups_that_statistics_rule_out_are_not_read(path):
    source = listing.found(path)
    whole = listing.Part(source.files[0], 0, source.files[0].size)
    schema = pa.schema({"row": pa.int64(), "v": pa.float64(), "small": pa.int16()})
    opened = reading.fragment(source.filesystem, whole.file)
    assert opened.num_row_groups == 8

    def left(chosen, schema):
        read = pruning.Chosen(chosen, chosen, ("row", "v", "small"), False)
        return pruning.pruned(opened, schema, read).num_row_groups

    assert left(ds.field("row") > 1e6, schema.remove(2)) == 0
    assert left((ds.field("row") >= 79) & (ds.field("row") < 100), schema.remove(2)) == 2
    # Bytes without sign are compared as what Spark has of them.
    assert left(ds.field("row") > 1e6, schema) == 0
    assert left(ds.field("small") < 0, schema) == 0
    assert left(ds.field("small") >= 100, schema) == 3
    chosen = (ds.field("row") >= 79) & (ds.field("small") < 100)
    both = pruning.Chosen(chosen, chosen, ("row", "small"), False)
    found = reading.Reader(source.filesystem, schema, pa.schema([]), both).batches(whole)
    wanted = [row for row in range(79, 300) if row % 200 < 100]
    assert [row for batch in found for row in batch["row"].to_pylist()] == wanted


def test_int96(spark, tmp_path, check):
    table = readings()
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    path = str(tmp_path / "a.parquet")
    assert check(path, wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.count(), wk.last("ts")]))
    assert check(path, wk.query(by="device", time="ntz", windows=SLIDING, aggs=wk.max("ntz")))


def test_nanoseconds_are_floored(spark, tmp_path, check):
    seconds = [row * 37 % 5000 - 800 for row in range(200)]
    table = pa.table(
        {
            "t": pa.array([s * 10**9 + 999 - s % 7 for s in seconds], pa.timestamp("ns", "UTC")),
            "v": pa.array([float(s % 11) for s in seconds]),
        }
    )
    pq.write_table(table, tmp_path / "ns.parquet")
    query = wk.query(by=[], time="t", windows=SLIDING, aggs=[wk.sum("v"), wk.max("t"), wk.count()])
    with pytest.raises(PySparkException):
        spark.read.parquet(str(tmp_path / "ns.parquet")).collect()
    micros = [s * 10**6 for s in seconds]
    oracle = spark.createDataFrame(table.set_column(0, "t", pa.array(micros, pa.timestamp("us", "UTC"))))
    check(str(tmp_path / "ns.parquet"), query, oracle=oracle)


def test_files_that_lack_columns_or_have_narrower_ones(spark, tmp_path, check):
    table = readings(100)
    wider = table.set_column(table.schema.get_field_index("n"), "n", table["n"].cast(pa.int64()))
    pq.write_table(wider, tmp_path / "1.parquet")
    pq.write_table(readings(80, 100).drop_columns(["v"]), tmp_path / "2.parquet")
    pq.write_table(readings(80, 180).append_column("more", pa.nulls(80, pa.int8())), tmp_path / "3.parquet")
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=[wk.sum("v"), wk.sum("n"), wk.count()])
    check(str(tmp_path), query)
    more = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.count("more"))
    with pytest.raises(wk.UnknownColumn, match="more"):
        windowkit.spark.scan(spark, str(tmp_path), more)
    merged = spark.read.option("mergeSchema", "true").parquet(
        str(tmp_path / "2.parquet"), str(tmp_path / "3.parquet")
    )
    paths = [str(tmp_path / "2.parquet"), str(tmp_path / "3.parquet")]
    check(paths, more, oracle=merged, merge_schema=True)


def test_files_with_other_types_or_names_are_left_to_spark(spark, tmp_path, check):
    pq.write_table(readings(50), tmp_path / "1.parquet")
    table = readings(50)
    pq.write_table(
        table.set_column(table.schema.get_field_index("n"), "n", table["n"].cast(pa.string())),
        tmp_path / "2.parquet",
    )
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.sum("n"))
    with pytest.raises((PySparkException, Py4JError), match=r"DATA_TYPE_MISMATCH.*2\.parquet"):
        windowkit.spark.scan(spark, str(tmp_path), query).collect()
    # Spark merges schemas, or says that it cannot.
    with pytest.raises(wk.InvalidValue, match="CANNOT_MERGE_SCHEMAS"):
        windowkit.spark.scan(spark, str(tmp_path), query, merge_schema=True)
    pq.write_table(
        table.rename_columns([name.replace("n", "N") for name in table.column_names]), tmp_path / "2.parquet"
    )
    # Spark finds columns in any case.
    check(str(tmp_path), query)
    assert "left to Spark's reader, as column 'n' is 'N' in" in windowkit.spark.explain_scan(
        spark, str(tmp_path), query
    )
    (tmp_path / "2.parquet").write_bytes(b"PAR1 is no Parquet")
    query = wk.query(by="n", time="ts", windows=SLIDING, aggs=wk.count())
    with pytest.raises(wk.InvalidValue, match=r"2\.parquet' cannot be read as Parquet"):
        windowkit.spark.scan(spark, str(tmp_path), query)


def test_what_is_refused_before_spark_runs(spark, path, tmp_path):
    def query(**changed):
        return wk.query(**{"by": "device", "time": "ts", "windows": SLIDING, "aggs": wk.sum("v"), **changed})

    scan = windowkit.spark.scan
    with pytest.raises(wk.UnknownColumn, match=r"devise.*there are ts, v, row, device"):
        scan(spark, path, query(by="devise"))
    with pytest.raises(wk.InvalidType, match="sum is not defined for column 'coded'"):
        scan(spark, path, query(aggs=wk.sum("coded")))
    with pytest.raises(wk.InvalidValue, match=r"Spark does not read /nowhere/at/all \(\[PATH_NOT_FOUND\]"):
        scan(spark, "/nowhere/at/all", query())
    with pytest.raises(wk.InvalidValue, match="paths: none are given"):
        scan(spark, [], query())
    (tmp_path / "empty").mkdir()
    with pytest.raises(wk.InvalidValue, match="paths: there are no files with data in"):
        scan(spark, str(tmp_path / "empty"), query())
    with pytest.raises(wk.InvalidValue, match="give filesystem= for what only pyarrow can open"):
        scan(spark, "nosuch://bucket/file", query())
    with pytest.raises(wk.UnknownColumn, match="filter: "):
        scan(spark, path, query(), filter=[("nothing", ">", 3)])
    with pytest.raises(wk.InvalidValue, match=r"filter: .* does not fit the columns"):
        scan(spark, path, query(), filter=ds.field("device") > 3)
    with pytest.raises(wk.InvalidType, match="filter: a str is given; filter is a pyarrow"):
        scan(spark, path, query(), filter="n > 3")
    with pytest.raises(wk.InvalidValue, match=r"filter: \('n', '>'\) is given as a comparison"):
        scan(spark, path, query(), filter=[("n", ">")])
    with pytest.raises(wk.InvalidValue, match="times with zone are compared with times with zone"):
        scan(spark, path, query(), filter=[("ts", ">", dt.datetime(1970, 1, 1))])
    with pytest.raises(wk.InvalidType, match="filesystem: 'local' is a str"):
        scan(spark, path, query(), filesystem="local")
    with pytest.raises(wk.InvalidType, match="query: a str is given"):
        scan(spark, path, "sum(v)")
    half = pa.table({"ts": readings(3)["ts"], "h": pa.array([1, 2, 3], pa.float16())})
    pq.write_table(half, tmp_path / "half.parquet")
    with pytest.raises(wk.InvalidValue, match=r"half.parquet \(\[PARQUET_TYPE_ILLEGAL\]"):
        scan(spark, str(tmp_path / "half.parquet"), query(by=[], aggs=wk.sum("h")))
    (tmp_path / "none" / "at=").mkdir(parents=True)
    pq.write_table(readings(3), tmp_path / "none" / "at=" / "f.parquet")
    with pytest.raises(wk.InvalidValue, match="EMPTY_PARTITION_COLUMN_VALUE"):
        scan(spark, str(tmp_path / "none"), query())
    # Spark takes these digits for a number where it infers types, but does not cast them.
    (tmp_path / "odd" / "at=٣").mkdir(parents=True)
    pq.write_table(readings(3), tmp_path / "odd" / "at=٣" / "f.parquet")
    with pytest.raises(wk.InvalidValue, match="a directory says at=٣, which Spark cannot cast to int"):
        scan(spark, str(tmp_path / "odd"), query())
    # A time of a year that Python has none of is one to Spark, whose answer counts.
    (tmp_path / "old" / "at=0000-05-01 10:00:00").mkdir(parents=True)
    pq.write_table(readings(3), tmp_path / "old" / "at=0000-05-01 10:00:00" / "f.parquet")
    assert scan(spark, str(tmp_path / "old"), query(by="at")).schema["at"].dataType.typeName() == "timestamp"


def test_any_file_system_that_pyarrow_opens(spark, path, same_rows):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.sum("v"))
    folder = fs.SubTreeFileSystem(str(Path(path).parent), fs.LocalFileSystem())
    scanned = windowkit.spark.scan(spark, "readings.parquet", query, filesystem=folder)
    assert same_rows(scanned, windowkit.spark.reference(spark.read.parquet(path), query), query)
    assert same_rows(windowkit.spark.scan(spark, f"file://{path}", query), scanned, query)


def test_columns_in_any_case_as_spark_has_it(spark, path, settings):
    query = wk.query(by="DEVICE", time="TS", windows=SLIDING, aggs=wk.sum("V"))
    assert windowkit.spark.scan(spark, path, query).count() == query.run(spark.read.parquet(path)).count()
    with settings({"spark.sql.caseSensitive": "true"}), pytest.raises(wk.UnknownColumn):
        windowkit.spark.scan(spark, path, query)


def test_explain_tells_what_is_read(spark, path):
    query = wk.query(by="n", time="ts", windows=SLIDING, aggs=[wk.sum("v"), wk.count()])
    text = windowkit.spark.explain_scan(spark, path, query, filter=[("flag", "=", True)])
    assert "route: scan, as rows are in Parquet files" in text
    assert "  columns: n, ts, v, flag" in text
    assert "  filter: (flag == true)" in text
    assert "  row groups: 8 in 1 file, of which statistics rule out 0" in text
    # An estimate from statistics, which was here, decided nothing: what tasks see does.
    assert "  expected: 8 rows per slice, the default, as tasks sample their first rows" in text
    few = wk.query(by=[], time="ts", windows=SLIDING, aggs=wk.count())
    hinted = windowkit.spark.explain_scan(spark, path, few, rows_per_slice=1)
    assert "  rows are packed as they are, as slices would be hardly fewer" in hinted


def test_metrics(spark, path):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.sum("v"))
    metrics = windowkit.spark.Metrics()
    windows = len(windowkit.spark.scan(spark, path, query, metrics=metrics).collect())
    counted = metrics.values()
    assert counted["rows in"] == 300
    assert counted["windows out"] == windows
    assert 0 < counted["slices"] <= 300
    assert counted["bytes packed"] > 0


def test_rows_without_a_time_are_counted_by_themselves(spark, tmp_path):
    times = pa.array([None if row % 3 == 0 else row * 10**6 for row in range(90)], pa.timestamp("us", "UTC"))
    pq.write_table(pa.table({"ts": times}), tmp_path / "f.parquet", row_group_size=20)
    query = wk.query(by=[], time="ts", windows=SLIDING, aggs=wk.count())
    counted = {}
    routes = ("scan", "packed", "catalyst-panes", "rows")
    for route in routes:
        metrics = windowkit.spark.Metrics()
        if route == "scan":
            result = windowkit.spark.scan(spark, str(tmp_path), query, metrics=metrics)
        else:
            result = query.run(spark.read.parquet(str(tmp_path)), route=route, metrics=metrics)
        result.collect()
        counts = metrics.values()
        counted[route] = counts["rows in"], counts["rows without a time"]
        assert "rows without a time: 30" in str(metrics)
    assert counted == dict.fromkeys(routes, (60, 30))


def test_rows_that_all_lack_a_time(spark, tmp_path):
    """Spark goes on with an empty relation where a stage has no rows, and does not report on that stage."""
    pq.write_table(pa.table({"ts": pa.nulls(7, pa.timestamp("us", "UTC"))}), tmp_path / "f.parquet")
    query = wk.query(by=[], time="ts", windows=wk.tumbling("1 hour"), aggs=wk.count())
    frame = spark.read.parquet(str(tmp_path))
    for route in ("scan", "catalyst", "packed", "rows"):
        metrics = windowkit.spark.Metrics()
        if route == "scan":
            result = windowkit.spark.scan(spark, str(tmp_path), query, metrics=metrics)
        else:
            result = query.run(frame, metrics=metrics, route=route)
        assert result.collect() == []
        counts = metrics.values()
        assert counts["rows in"] == 0
        assert counts.get("rows without a time", 7) == 7


@pytest.mark.parametrize("filtered", [True, False])
def test_metrics_of_nothing_are_zero(spark, path, filtered):
    query = wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.sum("v"))
    metrics = windowkit.spark.Metrics()
    chosen = [("v", ">", 1e9)] if filtered else None
    result = windowkit.spark.scan(spark, path, query, filter=chosen, metrics=metrics)
    assert str(metrics) == "no action yet"
    with pytest.raises(wk.InvalidValue, match="no action on their result was completed within 0 s"):
        metrics.values(timeout=0)
    assert (result if filtered else result.where("false")).collect() == []
    assert metrics.values()["windows out"] == 0
    assert "windows out: 0" in str(metrics)


def test_the_data_source(spark, path, same_rows):
    windowkit.spark.register(spark)
    aggs = [wk.sum("v"), wk.median("n").alias("the middle"), wk.count(), wk.max("coded").where("flag")]
    for by, windows in ((["device"], SESSION), (["pair", "flag"], [SLIDING, SESSION]), ([], SLIDING)):
        query = wk.query(by=by, time="ts", windows=windows, aggs=aggs)
        oracle = windowkit.spark.reference(spark.read.parquet(path), query)
        for partitions in (1, 3):
            emitted = windowkit.spark.options(query) | {"partitions": str(partitions)}
            frame = spark.read.format("windowkit").options(**emitted).load(path)
            assert frame.columns == query.columns
            assert frame.rdd.getNumPartitions() == partitions
            assert same_rows(frame, oracle, query)


def test_the_data_source_has_the_schema_of_the_query(spark, path):
    windowkit.spark.register(spark)
    frame = spark.read.parquet(path)
    aggs = [
        wk.collect_set("n").alias("s"),
        wk.collect_list("n").alias("l"),
        wk.collect_rows().alias("r"),
        wk.top_k("n", 3).alias("t"),
        wk.frequent("device", 0.1).alias("f"),
        wk.m4("v").alias("m"),
        wk.count().alias("c"),
    ]
    for windows in (SLIDING, SESSION, wk.tumbling("1 minute"), [SESSION, SLIDING], wk.tumbling(rows=3)):
        query = wk.query(by=["pair", "device"], time="ts", windows=windows, aggs=aggs)
        found = spark.read.format("windowkit").options(**windowkit.spark.options(query)).load(path)
        assert found.schema == query.run(frame).schema, windows
    assert found.count() > 0


def test_filters_of_the_data_source(spark, path):
    windowkit.spark.register(spark)
    query = wk.query(by=[], time="ts", windows=wk.tumbling("1000 days"), aggs=wk.count().alias("c"))
    emitted = windowkit.spark.options(query)
    for chosen, where in (
        ('[["v", ">=", null]]', "v >= null"),
        ('[["row", ">", "10.5"], ["row", "in", [11, 12.0, 12.5, null]]]', "row in (11, 12)"),
    ):
        found = spark.read.format("windowkit").options(**emitted, filter=chosen).load(path)
        assert sum(row["c"] for row in found.collect()) == spark.read.parquet(path).where(where).count()


def test_options_of_the_data_source_that_are_wrong(spark, path):
    windowkit.spark.register(spark)
    emitted = windowkit.spark.options(wk.query(by="device", time="ts", windows=SLIDING, aggs=wk.count()))
    for changed, message in (
        ({"partitions": "none"}, "partitions: 'none' is given"),
        ({"windows": "hopping(3)"}, "hopping"),
        ({"by": "devise"}, "devise"),
    ):
        with pytest.raises(PySparkException, match=message):
            spark.read.format("windowkit").options(**emitted | changed).load(path)
    del emitted["time"]
    with pytest.raises(PySparkException, match="time: the option is not given"):
        spark.read.format("windowkit").options(**emitted).load(path)
    own = wk.aggregate("own", lift=abs, combine=max, lower=abs)
    with pytest.raises(wk.InvalidValue, match="query: options do not hold it"):
        windowkit.spark.options(wk.query(by=[], time="ts", windows=SLIDING, aggs=own("v")))


def test_what_is_shipped_is_small_and_pickles(path):
    chosen = ds.field("flag") & (ds.field("ts") >= dt.datetime(1970, 1, 1, tzinfo=UTC))
    assert pickle.loads(pickle.dumps(chosen)).equals(chosen)
    with_filesystem = listing.found(path)
    assert pickle.loads(pickle.dumps(with_filesystem)) == with_filesystem
