"""`windowkit.spark.repartition` and `partition_id`: which rows go where, and what stays as it was."""

import math
from collections import Counter, defaultdict
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from windowkit.spark.partition import arguments, exchange

ROWS = 40_000
PARTITIONS = 8

KEYS = {
    "string": (["", "a", None, "ä", "a "], pa.string()),
    "binary": ([b"", b"\x00", None], pa.binary()),
    "bool": ([True, None, False], pa.bool_()),
    "byte": ([-128, None, 127], pa.int8()),
    "long": ([-(2**63), 2**63 - 1, None, 0], pa.int64()),
    "double": ([0.0, -0.0, math.nan, None, -math.nan, math.inf], pa.float64()),
    "float": ([0.0, -0.0, math.nan, None], pa.float32()),
    "decimal": ([Decimal("1.10"), None, Decimal("-99999999999999.99")], pa.decimal128(16, 2)),
    "date": ([date(1969, 12, 31), date(2024, 2, 29), None], pa.date32()),
    "instant": ([-1, 0, None], pa.timestamp("us", tz="UTC")),
    "local": ([-1, 0, None], pa.timestamp("us")),
    "interval": ([-1, 0, None], pa.duration("us")),
    "struct": ([{"x": 0.0}, None, {"x": None}, {"x": -0.0}], pa.struct([("x", pa.float64())])),
    "array": ([[1, 2], [], None, [None], [2, 1]], pa.list_(pa.int32())),
    "null": ([None], pa.null()),
}
SETS = [*([name] for name in KEYS), ["string", "long", "date"], ["double", "struct", "decimal", "bool"]]


@pytest.fixture(scope="module")
def skewed(spark):
    """Key "hot" has 30 % of the rows, a thousand others the rest; ``ts`` runs through an hour."""
    other = sf.pmod(sf.hash("id"), sf.lit(1000)).cast("string")
    columns = [
        sf.when(sf.col("id") % 10 < 3, sf.lit("hot")).otherwise(other).alias("k"),
        sf.timestamp_millis(sf.col("id") * 90).alias("ts"),
        sf.col("id").alias("n"),
        (sf.col("id") % 4).alias("few"),
        sf.expr("make_dt_interval(int(id % 2))").alias("span"),
    ]
    return spark.range(0, ROWS, 1, 4).select(*columns).cache()


def loads(frame):
    """Return the number of rows of each partition."""
    return frame.rdd.glom().map(len).collect()


def homes(frame, *keys):
    """Return the partitions of each key."""
    found = defaultdict(set)
    for *key, partition in frame.select(*keys, sf.spark_partition_id()).distinct().collect():
        found[tuple(key)].add(partition)
    return found


@pytest.mark.parametrize("way", ["planned", "streaming"])
@pytest.mark.parametrize("method", arguments.METHODS)
def test_rows_and_columns_stay_as_they_are(skewed, method, way):
    if method not in (arguments.PLANNED if way == "planned" else arguments.ROW_BY_ROW):
        return
    result = wk.spark.repartition(skewed, PARTITIONS, "k", method, way=way)
    assert result.schema == skewed.schema
    assert result.rdd.getNumPartitions() == PARTITIONS
    assert sum(loads(result)) == ROWS
    assert result.exceptAll(skewed).count() == 0


def test_every_method_is_there_in_one_way_at_least():
    assert set(arguments.METHODS) == set(wk.partition.METHODS)


@pytest.mark.parametrize("way", ["planned", "streaming"])
def test_waterfill_levels_a_hot_key_and_splits_few_others(skewed, way):
    result = wk.spark.repartition(skewed, PARTITIONS, "k", way=way)
    mean = ROWS / PARTITIONS
    assert max(loads(result)) < 1.05 * mean
    found = homes(result, "k")
    assert len(found) == 1001
    tasks = 1 if way == "planned" else skewed.rdd.getNumPartitions()
    assert sum(map(len, found.values())) <= 1001 + PARTITIONS * tasks
    assert len(found["hot",]) > 1
    # Which Spark's own hash partitioning does not level.
    assert max(loads(skewed.repartition(PARTITIONS, "k"))) > 2 * mean


def test_hash_keeps_keys_together_and_shuffle_levels(skewed):
    assert all(len(where) == 1 for where in homes(wk.spark.repartition(skewed, 5, "k", "hash"), "k").values())
    shuffled = loads(wk.spark.repartition(skewed, 5, "k", "shuffle"))
    assert max(shuffled) - min(shuffled) <= skewed.rdd.getNumPartitions()


@pytest.mark.parametrize("method", ["am", "cam"])
def test_affinity_keeps_keys_of_a_task_together(skewed, method):
    result = wk.spark.repartition(skewed.coalesce(1), 5, "k", method, cardinality="exact")
    assert all(len(where) == 1 for where in homes(result, "k").values())


def test_partition_id_is_where_repartition_sends_a_row(skewed):
    for method in ("waterfill", "hash"):
        made = wk.spark.partitioning(skewed, PARTITIONS, "k", method)
        numbered = skewed.withColumn("p", made.partition_id(skewed))
        assert numbered.schema["p"].dataType.simpleString() == "int"
        sent = made.repartition(numbered)
        assert sent.where(sf.col("p") != sf.spark_partition_id()).count() == 0
    column = wk.spark.partition_id(skewed, PARTITIONS, "k")
    counts = Counter(p for (p,) in skewed.select(column.alias("p")).collect())
    assert set(counts) == set(range(PARTITIONS))


def test_a_task_that_runs_again_decides_alike_whatever_the_order_of_its_rows(skewed):
    # One input partition each time, so that only the order of rows differs.
    forth = skewed.coalesce(1).sortWithinPartitions("n")
    back = skewed.coalesce(1).sortWithinPartitions(sf.col("n").desc())
    cases = [
        (skewed.columns, {}),
        (["k", "few"], {"spread": "position"}),
        (["k"], {}),
        (skewed.columns, {"way": "streaming"}),
        (skewed.columns, {"method": "lm"}),
        (skewed.columns, {"method": "cam", "window": wk.tumbling("10 minutes"), "time": "ts"}),
    ]
    for columns, options in cases:
        made = wk.spark.partitioning(skewed.select(columns), PARTITIONS, "k", **options)
        one, other = (
            Counter(
                made.repartition(frame.select(columns)).withColumn("p", sf.spark_partition_id()).collect()
            )
            for frame in (forth, back)
        )
        assert one == other, options


def test_equal_keys_are_one_key(from_arrow):
    """Spark's ``groupBy`` says which keys are equal; all rows of one go to one partition."""
    columns = {}
    for name, (values, kind) in KEYS.items():
        columns[name] = pa.array([values[row % len(values)] for row in range(120)], kind)
    frame = from_arrow(columns)
    for keys in SETS:
        column = wk.spark.partition_id(frame, 3, keys, "hash")
        groups = frame.select(*keys, column.alias("p")).groupBy(*keys).agg(sf.count_distinct("p").alias("n"))
        assert groups.where("n != 1").count() == 0, keys


def test_keys_of_every_type_pass_through_workers(from_arrow):
    columns = {}
    for name, (values, kind) in KEYS.items():
        columns[name] = pa.array([values[row % len(values)] for row in range(120)], kind)
    frame = from_arrow(columns)
    result = wk.spark.repartition(frame, 3, list(KEYS), "am")
    assert result.schema == frame.schema
    assert sum(loads(result)) == 120


def test_null_and_nan_are_keys_like_others(spark):
    keys = pa.array([None, math.nan, -0.0, 0.0, 1.5] * 200)
    frame = spark.createDataFrame(pa.table({"k": keys, "n": pa.array(range(1000))}))
    found = homes(wk.spark.repartition(frame, 4, "k", "hash").select(sf.col("k").cast("string")), "k")
    assert found["-0.0",] == found["0.0",]
    assert all(len(where) == 1 for where in found.values())
    assert max(loads(wk.spark.repartition(frame, 4, "k"))) <= 300


def test_few_rows_and_none(spark):
    none = spark.range(0).select(sf.col("id").alias("k"))
    assert loads(wk.spark.repartition(none, 3, "k")) == [0, 0, 0]
    assert "counted by Catalyst: 0 rows" in wk.spark.partitioning(none, 3, "k").explain()
    one = spark.range(1).select(sf.col("id").alias("k"))
    assert sum(loads(wk.spark.repartition(one, 30, "k"))) == 1
    for way in ("planned", "streaming"):
        assert loads(wk.spark.repartition(one, 1, "k", way=way)) == [1]


def test_equal_rows_of_a_hot_key_are_split_by_position(spark):
    # Nothing but the position tells these rows apart.
    frame = spark.range(0, 20_000, 1, 4).select(sf.lit("same").alias("k"), sf.lit(1).alias("v"))
    made = wk.spark.partitioning(frame, 7, "k")
    assert made.spread is None
    assert "position among the sorted rows" in made.explain()
    assert max(loads(made.repartition(frame))) <= 1.01 * 20_000 / 7
    assert wk.spark.partitioning(frame, 7, "k", spread=["v"]).spread == ("v",)


def test_positions_level_what_the_plan_says(spark):
    other = sf.pmod(sf.hash("id"), sf.lit(50))
    key = sf.when(sf.col("id") % 10 < 3, sf.lit(-1)).otherwise(other).alias("k")
    frame = spark.range(0, 8000, 1, 2).select(key, "id")
    made = wk.spark.partitioning(frame, 5, "k", spread="position")
    found = loads(made.repartition(frame))
    assert all(abs(rows - planned) <= 16 for rows, planned in zip(found, made.loads, strict=True))


def test_content_that_tells_rows_apart_needs_no_sort(skewed):
    made = wk.spark.partitioning(skewed, PARTITIONS, "k")
    assert made.spread == ("ts", "n", "few", "span")
    assert made.astray < 0.01 * math.sqrt(300_000 / ROWS)


def test_names_of_columns_are_no_paths_and_may_repeat(spark, settings):
    frame = spark.range(1000).selectExpr(
        "id % 7 as `a.b`", "id as `i0`", "id as `windowkit partition`", "1 as x", "2 as x", "id as `q``r`"
    )
    for way in ("planned", "streaming"):
        result = wk.spark.repartition(frame, 3, ["a.b", "q`r"], way=way)
        assert result.columns == frame.columns
        assert sum(loads(result)) == 1000
    frame.withColumn("p", wk.spark.partition_id(frame, 3, ["A.b"])).collect()
    with settings({"spark.sql.caseSensitive": "true"}), pytest.raises(wk.UnknownColumn, match=r"A\.b"):
        wk.spark.repartition(frame, 3, ["A.b"])
    with pytest.raises(wk.InvalidValue, match="'x' is ambiguous"):
        wk.spark.repartition(frame, 3, "x")


def test_columns_without_a_hash_come_along(spark):
    frame = spark.range(3000).selectExpr(
        "'one' as k", "map('a', id) as m", "parse_json('[1]') as j", "array(map(1, id)) as deep"
    )
    result = wk.spark.repartition(frame, 4, "k")
    assert result.schema == frame.schema
    assert max(loads(result)) <= 752


def of_each_window(frame, window):
    """Return for each window the rows of its fullest partition over the mean."""
    start = sf.window("ts", window).start.alias("w")
    found = defaultdict(list)
    for at, _, rows in frame.groupBy(start, sf.spark_partition_id().alias("p")).count().collect():
        found[at].append(rows)
    return [max(rows) * PARTITIONS / sum(rows) for rows in found.values()]


@pytest.mark.parametrize("hot", ["the same in all windows", "another in each window"])
def test_windows_are_levelled_each(skewed, hot):
    frame = skewed
    if hot == "another in each window":
        own = sf.concat(sf.lit("hot"), sf.floor(sf.minute("ts") / 10))
        frame = skewed.withColumn("k", sf.when(sf.col("k") == "hot", own).otherwise(sf.col("k")))
    made = wk.spark.partitioning(frame, PARTITIONS, "k", window="10 minutes", time="ts")
    text = made.explain()
    assert "in each window, tumbling(10 minutes) over ts" in text
    assert "windows: 6; fullest partition of a window: 1.0" in text
    assert "heavy keys: 6, 30.0% of the rows" in text
    result = made.repartition(frame)
    found = of_each_window(result, "10 minutes")
    assert len(found) == 6
    assert max(found) < 1.03
    assert max(loads(result)) < 1.03 * ROWS / PARTITIONS
    start = sf.window("ts", "10 minutes").start.cast("string")
    pairs = homes(result.withColumn("w", start), "k", "w")
    split = {key for (key, _), where in pairs.items() if len(where) > 1}
    assert len(split) == (1 if hot == "the same in all windows" else 6)
    assert all(key.startswith("hot") for key in split)
    assert sum(map(len, pairs.values())) <= len(pairs) + 6 * (PARTITIONS - 1)


def test_rows_of_other_windows_than_were_counted_go_somewhere(skewed):
    early = skewed.where("n < 20000")
    made = wk.spark.partitioning(early, PARTITIONS, "k", window="10 minutes", time="ts", spread=["n"])
    assert sum(loads(made.repartition(skewed))) == ROWS
    late = skewed.withColumn("ts", sf.lit(None).cast("timestamp"))
    assert sum(loads(made.repartition(late))) == ROWS


def test_rows_without_time_are_a_window(skewed):
    frame = skewed.withColumn("ts", sf.when(sf.col("n") % 4 > 0, sf.col("ts")))
    made = wk.spark.partitioning(frame, PARTITIONS, "k", window="10 minutes", time="ts")
    assert "windows: 7;" in made.explain()
    assert max(loads(made.repartition(frame).where("ts is null"))) < 1.05 * ROWS / 4 / PARTITIONS


def test_more_windows_than_a_plan_has_room_for(skewed):
    made = wk.spark.partitioning(skewed, PARTITIONS, "k", window="1 second", time="ts")
    assert made.way == "streaming"
    assert "way: streaming, there are more than 2,048 windows" in made.explain()
    with pytest.raises(
        wk.InvalidValue, match="'planned' cannot be used, as there are more than 2,048 windows"
    ):
        wk.spark.partitioning(skewed, PARTITIONS, "k", way="planned", window="1 second", time="ts")


def test_a_column_that_cannot_level_says_so(skewed, recwarn):
    wk.spark.partition_id(skewed, PARTITIONS, "k")
    assert not [each for each in recwarn if "spread" in str(each.message)]
    constant = skewed.select(sf.lit("same").alias("k"))
    with pytest.warns(UserWarning, match="can be distinguished by the keys alone"):
        wk.spark.partition_id(constant, PARTITIONS, "k")
    few = skewed.select("k", "few")
    with pytest.warns(UserWarning, match="can be distinguished by 'few'"):
        wk.spark.partition_id(few, PARTITIONS, "k")


def test_methods_have_the_names_of_the_paper_too(skewed):
    for name, method in {"SH": "shuffle", "FLD": "hash", "PK": "partial-key", "cAM": "cam"}.items():
        assert wk.spark.partitioning(skewed, 3, "k", name).method == method
    assert wk.spark.partitioning(skewed, 1, "k", "partial_key").partitioner.keywords["candidates"] == 1
    wk.spark.partitioning(skewed, 3, "k", "lm", cardinality="HLL")


@pytest.mark.parametrize("column", ["ts", "ntz", "day", "n"])
@pytest.mark.parametrize("way", ["planned", "streaming"])
def test_windows_over_any_time(skewed, column, way):
    frame = skewed.selectExpr(
        "k",
        "if(n % 9 = 0, null, ts) as ts",
        "if(n % 9 = 0, null, cast(ts as timestamp_ntz)) as ntz",
        "if(n % 9 = 0, null, date_add(date'2024-01-01', int(n % 30))) as day",
        "n",
    )
    window = {"day": wk.tumbling("7 days"), "n": wk.tumbling(5000)}.get(column, wk.tumbling("10 minutes"))
    result = wk.spark.repartition(frame, 3, "k", way=way, window=window, time=column)
    assert sum(loads(result)) == ROWS
    assert result.schema == frame.schema


def test_a_partitioning_serves_other_dataframes(skewed):
    made = wk.spark.partitioning(skewed, PARTITIONS, "k")
    today = skewed.withColumn("more", sf.lit(1)).select("more", "n", "span", "ts", "few", "k")
    assert max(loads(made.repartition(today))) < 1.05 * ROWS / PARTITIONS
    with pytest.raises(wk.InvalidType, match="'k' has type int; this partitioning is of keys of type string"):
        made.repartition(skewed.withColumn("k", sf.lit(1)))
    with pytest.raises(wk.UnknownColumn, match="no column 'k'"):
        made.repartition(skewed.drop("k"))
    with pytest.raises(wk.UnknownColumn, match="spread: no column 'few'"):
        made.repartition(skewed.drop("few"))


def test_pyspark_without_repartition_by_id(skewed, monkeypatch):
    monkeypatch.setattr(exchange, "by_id", exchange.by_hashing)
    for way in ("planned", "streaming"):
        result = wk.spark.repartition(skewed, PARTITIONS, "k", way=way)
        assert result.schema == skewed.schema
        assert result.rdd.getNumPartitions() == PARTITIONS
        assert max(loads(result)) < 1.05 * ROWS / PARTITIONS


def test_the_most_partitions(spark):
    frame = spark.range(20_000).select(sf.pmod("id", sf.lit(3)).alias("k"), "id")
    column = wk.spark.partition_id(frame, 1 << 16, "k")
    least, most = frame.select(sf.min(column), sf.max(column)).first()
    assert 0 <= least <= most < 1 << 16


def test_explain_says_what_was_decided(skewed):
    text = wk.spark.partitioning(skewed, PARTITIONS, "k", sample=1).explain()
    for line in (
        "8 partitions by k, method waterfill",
        "way: planned, the first that can",
        "counted by Catalyst: 40,000 rows; heavy keys: 1, 30.0% of the rows",
        "keys that are split: 1, over ",
        "expected rows of a partition: 5,000, of the fullest 5,0",
        "distinguished by content of ts, n, few, span",
        "exchange: repartitionById",
    ):
        assert line in text
    text = wk.spark.partitioning(skewed, PARTITIONS, "k", "cam", ordered=True).explain()
    assert "way: streaming, cam decides row by row" in text
    assert "order of rows: as they come" in text
    assert "by Spark's own repartition" in wk.spark.partitioning(skewed, 2, "k", "shuffle").explain()


REFUSED = {
    "no partitions": ({"n": 0}, wk.InvalidValue, "n: 0 is out of range; .*65,536"),
    "too many partitions": ({"n": 65_537}, wk.InvalidValue, "n: 65537"),
    "half a partition": ({"n": 1.5}, wk.InvalidType, "n: 1.5 is a float"),
    "true partitions": ({"n": True}, wk.InvalidType, "n: True is a bool"),
    "unknown key": (
        {"keys": ["k", "q"]},
        wk.UnknownColumn,
        "keys: no column 'q'; columns of df are 'k', 'ts'",
    ),
    "no keys": ({"keys": []}, wk.InvalidValue, "keys: .*at least one"),
    "a key twice": ({"keys": ["k", "k"]}, wk.InvalidValue, "keys: 'k' is given twice"),
    "a key that is none": ({"keys": 3}, wk.InvalidType, "keys: 3 is an int"),
    "unknown method": ({"method": "best"}, wk.InvalidValue, "method: 'best' is unknown; .*'waterfill'"),
    "no method": ({"method": None}, wk.InvalidType, "method: None is a NoneType"),
    "unknown way": ({"way": "fast"}, wk.InvalidValue, "way: 'fast' is unknown"),
    "a plan for what has none": (
        {"method": "am", "way": "planned"},
        wk.InvalidValue,
        "am decides row by row",
    ),
    "a state for what has none": ({"method": "hash", "way": "streaming"}, wk.InvalidValue, "'hash' has none"),
    "a window without time": ({"window": wk.tumbling("1 minute")}, wk.InvalidValue, "time: None"),
    "a time without window": ({"time": "ts"}, wk.InvalidValue, "without a window"),
    "a window over what is not": (
        {"window": wk.tumbling("1 minute"), "time": "when"},
        wk.UnknownColumn,
        "time: no column 'when'",
    ),
    "a window over text": ({"window": wk.tumbling("1 minute"), "time": "k"}, wk.InvalidType, "'k'"),
    "a window of other units": ({"window": wk.tumbling(10), "time": "ts"}, wk.InvalidType, "'ts'"),
    "windows that overlap": (
        {"window": wk.sliding("2 minutes", "1 minute"), "time": "ts"},
        wk.InvalidType,
        "tumbling window",
    ),
    "a window over lengths": (
        {"window": wk.tumbling("1 minute"), "time": "span"},
        wk.InvalidType,
        "'span' has type interval day to second",
    ),
    "no sample": ({"sample": 0}, wk.InvalidValue, "sample: 0 is out of range"),
    "too much of a sample": ({"sample": 1.5}, wk.InvalidValue, "sample: 1.5"),
    "a sample that is none": ({"sample": "all"}, wk.InvalidType, "sample: 'all'"),
    "unknown spread": ({"spread": "n"}, wk.InvalidValue, "spread: 'n' is unknown"),
    "spread by what is not": ({"spread": ["m"]}, wk.UnknownColumn, "spread: no column 'm'"),
    "spread by nothing": ({"spread": []}, wk.InvalidValue, "spread: .*empty"),
    "more candidates than partitions": ({"method": "am", "candidates": 9}, wk.InvalidValue, "candidates: 9"),
    "a sample of what is not counted": (
        {"method": "cam", "sample": 0.5},
        wk.InvalidValue,
        "sample: 0.5 is given, and method 'cam' in the streaming way counts no rows",
    ),
    "candidates of what has none": ({"method": "hash", "candidates": 5}, wk.InvalidValue, "candidates: 5 is"),
    "spread of what does not split": (
        {"method": "hash", "spread": ["n"]},
        wk.InvalidValue,
        r"spread: \['n'\] is given",
    ),
    "a window of what has no loads": (
        {"method": "shuffle", "window": "1 minute", "time": "ts"},
        wk.InvalidValue,
        r"window: tumbling\(1 minute\) is given, and method 'shuffle'",
    ),
    "a window that is no length": ({"window": "soon", "time": "ts"}, wk.InvalidValue, "window: 'soon'"),
    "a bias beyond all": ({"method": "lm", "bias": 1.5}, wk.InvalidValue, "bias: 1.5"),
    "unknown cardinality": ({"method": "am", "cardinality": "sets"}, wk.InvalidValue, "cardinality: 'sets'"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_refused_before_spark_starts(spark, skewed, case):
    options, kind, message = REFUSED[case]
    spark.sparkContext.setJobGroup("refused partitioning", "what must not start")
    with pytest.raises(kind, match=message):
        wk.spark.repartition(skewed, **({"n": PARTITIONS, "keys": "k"} | options))
    started = spark.sparkContext.statusTracker().getJobIdsForGroup("refused partitioning")
    spark.sparkContext._jsc.clearJobGroup()
    assert list(started) == []


def test_keys_that_spark_cannot_hash_are_refused(skewed):
    columns = {
        "m": "map(k, n)",
        "j": "parse_json('1')",
        "folded": "k collate UTF8_LCASE",
        "s": "struct(map(1, n))",
    }
    frame = skewed.selectExpr(*(f"{text} as {name}" for name, text in columns.items()))
    for name in columns:
        with pytest.raises(wk.InvalidType, match=f"keys: column '{name}' has type"):
            wk.spark.repartition(frame, 3, name)


def test_what_has_no_column_says_so(skewed):
    with pytest.raises(wk.InvalidValue, match="decides in the order of rows"):
        wk.spark.partitioning(skewed, 3, "k", "am").partition_id(skewed)
    with pytest.raises(wk.InvalidValue, match="takes partitions in turn"):
        wk.spark.partition_id(skewed, 3, "k", "shuffle")
    with pytest.raises(wk.InvalidValue, match="'position' is not a function of the row"):
        wk.spark.partition_id(skewed, 3, "k", spread="position")
    with pytest.raises(wk.InvalidType, match="df: a list is given"):
        wk.spark.repartition([1], 3, "k")
