"""What a planned partitioning is made of: exchange, histogram, and the expression that places rows."""

from collections import Counter, defaultdict
from fractions import Fraction

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import functions as sf

from windowkit.spark.partition import exchange, histogram, lookup, placement
from windowkit.spark.partition.placement import POINTS, Placement, Shares


def test_our_murmur_is_the_hash_by_which_spark_partitions(spark):
    numbers = spark.range(-3, 4000).select(sf.col("id").cast("int").alias("n"))
    for number, hashed in numbers.select("n", sf.hash("n")).collect():
        assert exchange.hashed(number) == hashed


@pytest.mark.parametrize("partitions", [1, 2, 7, 200])
@pytest.mark.parametrize("send", [exchange.by_id, exchange.by_hashing])
def test_rows_go_to_the_partition_that_is_named(spark, send, partitions):
    frame = spark.range(5000).withColumn("at", sf.pmod(sf.hash("id"), sf.lit(partitions)))
    sent = send(frame, partitions, "at")
    assert sent.rdd.getNumPartitions() == partitions
    there = sf.spark_partition_id() == sf.pmod(sf.hash("id"), sf.lit(partitions))
    assert sent.where(~there).count() == 0
    assert sent.count() == 5000


def test_exactly_so_many_partitions_even_if_most_are_empty(spark):
    frame = spark.range(2).withColumn("at", sf.lit(5))
    for send in (exchange.by_id, exchange.by_hashing):
        assert send(frame, 9, "at").rdd.glom().map(len).collect() == [0, 0, 0, 0, 0, 2, 0, 0, 0]


def hashed():
    return sf.xxhash64("k")


def skewed(spark, rows=40_000):
    """Key -1 has 30 % of the rows, -2 a tenth, 700 others the rest."""
    tenth = sf.col("id") % 10
    key = (
        sf.when(tenth < 3, sf.lit(-1))
        .when(tenth == 3, sf.lit(-2))
        .otherwise(sf.pmod(sf.hash("id"), sf.lit(700)))
    )
    return spark.range(0, rows, 1, 4).select("id", key.alias("k"), (sf.col("id") % 5).alias("v"))


def counted(frame):
    return dict(frame.groupBy(hashed().alias("code")).agg(sf.count(sf.lit(1))).collect())


@pytest.mark.parametrize("partitions", [1, 3, 32])
@pytest.mark.parametrize("cells", [None, "fewest"])
def test_counts_are_those_of_a_group_by(spark, partitions, cells):
    # With the fewest cells heavy keys are many in one, and hide each other.
    frame = skewed(spark)
    cells = cells and histogram.buckets(partitions)
    found = histogram.histogram(frame, hashed(), partitions, sample=1.0, cells=cells)
    wanted = counted(frame)
    loads = Counter()
    for code, rows in wanted.items():
        loads[code % len(found.loads)] += rows
    assert found.loads == tuple(loads[bucket] for bucket in range(len(found.loads)))
    assert found.rows == 40_000
    heavy = {each.code: each.rows for each in found.heavy}
    assert heavy.items() <= wanted.items()
    # What is not found is too small to matter: an eighth of a partition at most.
    missed = [rows for code, rows in wanted.items() if code not in heavy]
    assert max(missed) <= 40_000 / partitions / 8 or max(missed) * 32 <= 40_000 / partitions
    assert [each.rows for each in found.heavy] == sorted(heavy.values(), reverse=True)


@pytest.mark.parametrize("retains", ["true", "false"])
def test_heavy_keys_in_one_cell_do_not_hide_each_other(spark, settings, retains):
    keys = spark.range(5000).select(sf.col("id").alias("k"))
    in_cell = defaultdict(list)
    for key, at in keys.select("k", sf.pmod(hashed(), sf.lit(histogram.FEWEST_CELLS))).collect():
        in_cell[at].append(key)
    together = max(in_cell.values(), key=len)
    assert len(together) > 2
    hot = spark.range(9000).select(
        sf.element_at(sf.lit(together), (sf.col("id") % len(together) + 1).cast("int"))
    )
    frame = keys.union(hot)
    with settings({"spark.sql.retainGroupColumns": retains}):
        found = histogram.histogram(frame, hashed(), 8, sample=1.0)
    share = frame.count() / 8 / histogram.SHARE
    wanted = {code: rows for code, rows in counted(frame).items() if rows > share}
    assert len(wanted) == len(together)
    assert {each.code: each.rows for each in found.heavy} == wanted


def test_a_sample_estimates_all(spark):
    frame = skewed(spark, 400_000)
    found = histogram.histogram(frame, hashed(), 8, sample=0.1)
    assert found.fraction == 0.1
    assert found.rows == pytest.approx(400_000, rel=0.05)
    assert found.heavy[0].rows == pytest.approx(120_000, rel=0.05)


def test_a_part_is_counted_where_it_is_enough(spark):
    assert histogram.histogram(skewed(spark, 400_000), hashed(), 2).fraction == histogram.PART
    assert histogram.histogram(skewed(spark, 40_000), hashed(), 2).fraction == 1
    assert histogram.histogram(skewed(spark, 0), hashed(), 2).loads == (0,) * histogram.buckets(2)


@pytest.mark.parametrize(("content", "lumps"), [("id", 1), ("v", 2400), ("k", 12_000)])
@pytest.mark.parametrize("sample", [1.0, 0.5])
def test_lumps_tell_how_often_rows_repeat(spark, content, lumps, sample):
    # Of the 12,000 rows of the heaviest key: all differ, 5 values (id % 10 < 3 leaves 3 of v), all the same.
    found = histogram.histogram(skewed(spark), hashed(), 4, content=sf.xxhash64(content), sample=sample)
    hot = found.heavy[0]
    wanted = 12_000 * {1: 1, 2400: 4000, 12_000: 12_000}[lumps]
    if lumps == 1:
        assert hot.lumps == hot.rows
    else:
        # The sum of 8 squares of sums of signs has a standard deviation of a half.
        assert wanted / 4 < hot.lumps < wanted * 4


@given(st.sets(st.integers(-(2**63), 2**63 - 1), max_size=300))
@example({0, -(2**63)})
@example({0, 2**61, 2**62, 2**60, 2**40, 2**39, -1})
def test_a_perfect_hash_table_has_each_code_where_it_is_looked_for(codes):
    codes = sorted(codes)
    displacements, slots = lookup.perfect(codes)
    assert len(slots) & (len(slots) - 1) == 0
    for number, code in enumerate(codes):
        at = lookup.slot(code, displacements[code % len(displacements)], len(slots))
        assert slots[at] == number


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=40))
def test_an_alias_table_has_the_shares_it_is_made_of(weights):
    parts = [(7 * at, Fraction(weight, sum(weights))) for at, weight in enumerate(weights)]
    taken = Counter()
    for threshold, below, above in placement.alias(parts):
        taken[below] += threshold
        taken[above] += POINTS - threshold
    for partition, share in parts:
        assert abs(taken[partition] / (POINTS * len(parts)) - share) < 1e-8


def test_the_expression_places_as_its_tables_say(spark):
    frame = spark.range(0, 60_000, 1, 3).select(
        (sf.col("id") % 50).alias("k"), sf.xxhash64(sf.col("id") % 50).alias("code"), "id"
    )
    codes = dict(frame.select("k", "code").distinct().collect())
    heavy = (
        Shares(codes[3], ((9, Fraction(1)),)),
        Shares(codes[4], ((1, Fraction(1, 2)), (2, Fraction(1, 3)), (3, Fraction(1, 6)))),
        Shares(codes[40], ((8, Fraction(1, 1200)), (7, Fraction(1199, 1200)))),
    )
    placed = Placement(tuple(bucket % 5 for bucket in range(16)), heavy)
    # Points of a grid, so that shares come out as they are.
    point = sf.floor(sf.col("id") / 50) * (POINTS // 1200)
    rows = frame.select("k", placed.at(sf.col("code"), point).alias("at")).toArrow()
    assert rows.schema.field("at").type == pa.int32()
    found = Counter(zip(rows["k"].to_pylist(), rows["at"].to_pylist(), strict=True))
    wanted = {(k, codes[k] % 16 % 5): 1200 for k in range(50) if k not in (3, 4, 40)}
    wanted |= {(3, 9): 1200, (40, 8): 1, (40, 7): 1199, (4, 1): 600, (4, 2): 400, (4, 3): 200}
    assert found.keys() == wanted.keys()
    for each, count in wanted.items():
        assert abs(found[each] - count) <= 2, each
