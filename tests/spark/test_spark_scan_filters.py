"""Filters of `scan` by tuples: the rows that Spark's ``where`` has, or an error that says what is allowed."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from math import inf, nan

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import fs
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from windowkit.cli.program import ArgumentsError
from windowkit.cli.spark import holds
from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.files import listing
from windowkit.files.comparisons import OPERATORS, compared
from windowkit.spark.parquet import pruning, reading
from windowkit.spark.parquet.filters import chosen_of
from windowkit.spark.parquet.types import kind_in_spark

UTC = dt.timezone.utc
ROWS = 60
BIG = 2**53


def table():
    rows = range(ROWS)
    hours = [(row - 30) * 3600 * 10**6 for row in rows]
    return pa.table(
        {
            "row": pa.array(rows, pa.int64()),
            "t": pa.array([row * 10**6 for row in rows], pa.timestamp("us", "UTC")),
            "n": pa.array([None if row % 9 == 4 else row - 30 for row in rows], pa.int64()),
            "tiny": pa.array([row - 30 for row in rows], pa.int8()),
            "u8": pa.array([row * 4 for row in rows], pa.uint8()),
            "u64": pa.array([2**63 + row for row in rows], pa.uint64()),
            "big": pa.array([BIG - 30 + row for row in rows], pa.int64()),
            "f": pa.array([row / 8 for row in rows], pa.float32()),
            "v": pa.array([None if row % 9 == 4 else nan if row % 7 == 5 else row / 8 for row in rows]),
            "price": pa.array([Decimal(row - 30) / 8 for row in rows], pa.decimal128(12, 3)),
            "wide": pa.array([Decimal(row - 30) * 10**30 for row in rows], pa.decimal128(38, 2)),
            "day": pa.array([row - 30 for row in rows], pa.date32()),
            "at": pa.array(hours, pa.timestamp("us", "UTC")),
            "ntz": pa.array(hours, pa.timestamp("us")),
            "ms": pa.array([hour // 1000 for hour in hours], pa.timestamp("ms", "UTC")),
            "flag": pa.array([None if row % 4 == 0 else row % 3 == 0 for row in rows]),
            "name": pa.array([None if row % 9 == 4 else f"k{row:02d}" for row in rows]),
            "coded": pa.array(["abc"[row % 3] for row in rows]).dictionary_encode(),
            "large": pa.array(["x" * 3000 + f"{row:02d}" for row in rows], pa.large_string()),
            "raw": pa.array([bytes([row * 4, 255 - row]) for row in rows]),
            "pair": pa.array([{"x": row} for row in rows]),
        }
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("filters")
    pq.write_table(table(), made / "groups.parquet", row_group_size=7)
    pq.write_table(table(), made / "none.parquet", row_group_size=7, write_statistics=False)
    pq.write_table(table(), made / "pages.parquet", write_page_index=True, data_page_size=100)
    return made


HUGE = 10**20
# Spark 4.3 takes a comparison that holds of every long for one that holds of null, too.
COMPARISONS = [
    *[
        (("n", operator, HUGE), f"n is not null and n {operator} {HUGE}")
        for operator in ("=", "!=", "<", "<=", ">", ">=")
    ],
    *[
        (("n", operator, -HUGE), f"n is not null and n {operator} -{HUGE}")
        for operator in ("=", "!=", "<", "<=", ">", ">=")
    ],
    *[
        (("n", operator, nan), f"n {operator} double('NaN')")
        for operator in ("=", "!=", "<", "<=", ">", ">=")
    ],
    *[(("n", operator, 2.5), f"n {operator} 2.5D") for operator in ("=", "!=", "<", "<=", ">", ">=")],
    *[
        (("big", operator, float(BIG)), f"big {operator} {BIG}.0D")
        for operator in ("=", "!=", "<", "<=", ">")
    ],
    *[(("price", operator, 0.1), f"price {operator} 0.1D") for operator in ("=", "!=", "<", ">=")],
    (("n", "in", [1, HUGE, 2.5, Decimal(3)]), f"n in (1, {HUGE}, 3)"),
    (("n", "not in", [1, HUGE]), f"n not in (1, {HUGE})"),
    # One fraction makes fractions of all, of which there are fewer than integers beyond 2^53.
    (("big", "in", [BIG + 1, 0.5]), f"big in ({BIG + 1}L, 0.5D)"),
    (("big", "not in", [BIG + 1, 0.5]), f"big not in ({BIG + 1}L, 0.5D)"),
    (("big", "in", [BIG + 1, Decimal("0.5")]), f"big in ({BIG + 1}L, 0.5)"),
    (("big", "in", [BIG + 3, nan, inf]), f"big in ({BIG + 3}L, double('NaN'), double('Infinity'))"),
    (("big", "in", [str(BIG + 1), 0.5]), f"big in ({BIG + 1}L, 0.5D)"),
    (("u64", "in", [2**63 + 5, 0.5]), f"u64 in ({2**63 + 5}, 0.5D)"),
    (("price", "in", [Decimal("0.125000000000000000001"), 0.5]), "price in (0.125000000000000000001, 0.5D)"),
    (("tiny", "in", [3, -4.0]), "tiny in (3, -4D)"),
    (("n", "in", [None, nan]), "n = double('NaN')"),
    (("n", "not in", []), "true"),
    (("n", "<", inf), "n < double('Infinity')"),
    (("n", ">", Decimal("-2.5")), "n > -2.5"),
    (("tiny", "<", 200), "tiny < 200"),
    (("tiny", ">=", -30.0), "tiny >= -30.0D"),
    (("u8", ">", -1), "u8 > -1"),
    (("u64", ">", 2**63 + 40), f"u64 > {2**63 + 40}"),
    (("f", "=", 0.1), "f = 0.1D"),
    (("f", "in", [0.125, 2]), "f in (0.125D, 2)"),
    (("f", "in", [0.1, 0.25]), "f in (0.1D, 0.25D)"),
    (("f", "not in", [0.1, 0.25]), "f not in (0.1D, 0.25D)"),
    (("f", "in", ["0.25", 3]), "f in (0.25F, 3)"),
    *[(("v", operator, None), f"v {operator} null") for operator in ("=", "!=", "<", "<=", ">", ">=")],
    (("n", ">", "2.5"), "n > 2.5"),
    (("n", "<=", "1e30"), "n <= 1e30"),
    (("price", ">", "0.1234"), "price > 0.1234"),
    (("name", "in", []), "false"),
    (("name", "not in", []), "true"),
    (("flag", "in", ["true", False]), "flag in (true, false)"),
    (("v", "<", 2.0), "v < 2D"),
    (("v", "<", 10**30), "v < 1e30D"),
    (("v", ">", "1.5"), "v > 1.5D"),
    (("v", ">=", "NaN"), "v >= double('NaN')"),
    (("price", ">", 1), "price > 1"),
    (("price", "<=", Decimal("1.1234")), "price <= 1.1234"),
    (("price", "in", [0.125, Decimal("-3.5")]), "price in (0.125, -3.5)"),
    (("price", "<", nan), "price < double('NaN')"),
    (("wide", ">", 10**31), f"wide > {10**31}"),
    (("wide", "<", Decimal("1e60")), "true"),
    (("n", "<", "1e999999999"), "n is not null"),
    (("n", ">", "1e-999999999"), "n > 0"),
    (("day", ">=", dt.date(1970, 1, 5)), "day >= date'1970-01-05'"),
    (("day", "<=", dt.datetime(1970, 1, 4, 12)), "day <= timestamp_ntz'1970-01-04 12:00:00'"),
    (("day", "<", "1969-12-25"), "day < date'1969-12-25'"),
    (("at", ">=", dt.date(1970, 1, 1)), "at >= date'1970-01-01'"),
    (("at", "=", "1970-01-01 01:00"), "at = timestamp'1970-01-01 01:00:00'"),
    (("at", "<", "1970-01-01 00:00:00Z"), "at < timestamp'1970-01-01 00:00:00Z'"),
    (("at", "in", [dt.datetime(1970, 1, 1, 3, tzinfo=UTC)]), "at = timestamp'1970-01-01 03:00:00Z'"),
    (("ms", ">", "1970-01-01"), "ms > timestamp'1970-01-01'"),
    (("ntz", ">", dt.date(1970, 1, 1)), "ntz > date'1970-01-01'"),
    (("ntz", "<", dt.datetime(1969, 12, 31, 20)), "ntz < timestamp_ntz'1969-12-31 20:00:00'"),
    (("flag", "!=", True), "flag != true"),
    (("flag", "=", "true"), "flag"),
    (("name", ">", "k40"), "name > 'k40'"),
    (("name", "not in", ["k41", "k42"]), "name not in ('k41', 'k42')"),
    (("coded", "in", ["a", "c"]), "coded in ('a', 'c')"),
    (("large", ">", "x" * 3000 + "40"), f"large > '{'x' * 3000}40'"),
    (("raw", ">", bytes([128])), "raw > X'80'"),
    (("ROW", "<", 7), "row < 7"),
]


@pytest.fixture(scope="module")
def oracle(spark, folder):
    """Return the rows that Spark's ``where`` has, of a file without statistics, which hide NaN from Spark."""
    frame = spark.read.parquet(str(folder / "none.parquet"))
    requested = (f"sort_array(collect_list(if({where}, row, null)))" for _, where in COMPARISONS)
    (found,) = frame.selectExpr(*requested).collect()
    return {str(chosen): rows for (chosen, _), rows in zip(COMPARISONS, found, strict=True)}


@pytest.mark.parametrize("file", ["groups", "none", "pages"])
def test_tuples_choose_the_rows_that_spark_does(spark, folder, oracle, file):
    """What tasks of `scan` do with a filter, without a job for each."""
    source = listing.found(str(folder / f"{file}.parquet"))
    (whole,) = source.files
    found = {}
    for comparison, _ in COMPARISONS:
        chosen, needed, _ = chosen_of([comparison], COLUMNS, zone="Europe/Berlin")
        read = pa.schema(list(({"row": pa.int64()} | needed).items()))
        part = listing.Part(whole, 0, whole.size)
        batches = reading.Reader(fs.LocalFileSystem(), read, pa.schema([]), chosen).batches(part)
        found[str(comparison)] = [row for batch in batches for row in batch["row"].to_pylist()]
    assert found == oracle


def test_what_sql_says_of_tuples_chooses_the_rows_that_spark_does(spark, folder, oracle):
    said = {str(each): chosen_of([each], COLUMNS, zone="Europe/Berlin") for each, _ in COMPARISONS}
    texts = {each: filtered.condition() for each, filtered in said.items() if filtered.is_sql}
    kinds = {kind for each in texts for kind in said[each].kinds.values()}
    assert {pa.int64(), pa.decimal128(12, 3), pa.date32(), pa.string(), pa.bool_(), pa.binary()} <= kinds
    # By statistics, which leave NaN out, Spark's reader leaves out rows with it that match.
    assert not {str(("v", "<", 2.0)), str(("f", "=", 0.1)), str(("v", ">", "1.5"))} & set(texts)
    assert not chosen_of([("n", "in", range(2000))], COLUMNS).is_sql
    frame = spark.read.parquet(str(folder / "none.parquet"))
    requested = (f"sort_array(collect_list(if({text}, row, null)))" for text in texts.values())
    (found,) = frame.selectExpr(*requested).collect()
    assert dict(zip(texts, found, strict=True)) == {each: oracle[each] for each in texts}


def test_alternatives_and_lists_in_a_job(spark, folder, same_rows):
    query = wk.query(by="coded", time="t", windows=wk.sliding("9 seconds", "4 seconds"), aggs=wk.sum("row"))
    path = str(folder / "groups.parquet")
    for chosen, where in (
        (
            [[("n", "<", -20), ("FLAG", "=", True)], [("price", ">", 2.5)]],
            "(n < -20 and flag) or price > 2.5",
        ),
        ((("n", "<", HUGE), ("n", "in", iter(range(3)))), "n in (0, 1, 2)"),
    ):
        found = windowkit.spark.scan(spark, path, query, filter=chosen)
        assert same_rows(found, query.run(spark.read.parquet(path).where(where)), query)


def test_columns_of_filters_mind_case_as_the_session_does(spark, folder, settings):
    query = wk.query(by=[], time="t", windows=wk.tumbling("1 minute"), aggs=wk.count())
    path = str(folder / "groups.parquet")
    said = r"filter: column 'N' is unknown; columns are 'row', 't'"
    with settings({"spark.sql.caseSensitive": "true"}), pytest.raises(UnknownColumn, match=said):
        windowkit.spark.scan(spark, path, query, filter=[("N", "<", 3)])
    with pytest.raises(UnknownColumn, match="names 'N'; an expression names columns as they are, as 'n'"):
        windowkit.spark.scan(spark, path, query, filter=ds.field("N") < 3)
    columns = {"ab": pa.int64(), "aB": pa.int64()}
    assert chosen_of([("aB", "<", 3)], columns)[1] == {"aB": pa.int64()}
    with pytest.raises(UnknownColumn, match="column 'AB' is ambiguous among 'ab', 'aB'"):
        chosen_of([("AB", "<", 3)], columns)


# What cannot be read is for the scan to say.
COLUMNS = {field.name: kind_in_spark(field.type) for field in table().schema} | {
    "half": InvalidType("filter: column 'half'")
}


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ([], InvalidValue, r"filter: \[\] has an empty list; filter is a pyarrow.*None takes all rows"),
        ([[("n", "<", 3)], []], InvalidValue, "has an empty list"),
        ({"n": 3}, InvalidType, "filter: a dict is given"),
        (("n", "<", 3), InvalidType, r"filter: \('n', '<', 3\) is a tuple by itself"),
        ([["n", "<", 3]], InvalidValue, "filter: 'n' is given as a comparison"),
        ([("n", "<", 3), [("n", "<", 3)]], InvalidValue, "is given as a comparison"),
        ([[[("n", "<", 3)]]], InvalidValue, "is given as a comparison"),
        ([(3, "<", 3)], InvalidValue, r"\(3, '<', 3\) is given as a comparison"),
        ([("n", "like", 3)], InvalidValue, "operator 'like' of .* is unknown; operators are =, ==, !="),
        ([("s", "=", 3)], UnknownColumn, "column 's' is unknown; columns are"),
        ([("name", "in", "abc")], InvalidType, "'abc' is a str, given to 'in'"),
        ([("n", "in", 3)], InvalidType, "3 is an int, given to 'in'"),
        ([("n", "=", [3])], InvalidType, r"\[3\] is compared with 'n', a column of int64; .* with numbers"),
        ([("n", "=", True)], InvalidType, "True is compared with 'n'"),
        ([("n", "=", "two")], InvalidValue, "'two' is compared with 'n', a column of int64"),
        pytest.param([("n", "=", object())], InvalidType, "is compared with 'n'", id="an object"),
        ([("n", "=", dt.date(1970, 1, 1))], InvalidType, "1970-01-01 is compared with 'n'"),
        ([("flag", "=", 1)], InvalidType, "1 is compared with 'flag', a column of bool"),
        ([("day", "<", 5)], InvalidType, "5 is compared with 'day'"),
        (
            [("day", "<", dt.datetime(1970, 1, 1, tzinfo=UTC))],
            InvalidValue,
            "times with zone are compared with",
        ),
        (
            [("ntz", "<", dt.datetime(1970, 1, 1, tzinfo=UTC))],
            InvalidValue,
            "times with zone are compared with",
        ),
        ([("at", "<", dt.datetime(1970, 1, 1))], InvalidValue, "times with zone are compared with"),
        ([("at", "<", "1970-01-01")], InvalidValue, "in a zone that a data source does not know"),
        ([("at", "<", "soon")], InvalidValue, "'soon' is compared with 'at'"),
        ([("name", "<", 5)], InvalidType, "such a column is compared with strings$"),
        ([("v", "<", 10**400)], InvalidValue, "which Spark rounds to float first; give a float"),
        ([("f", "<", 2**24 + 1)], InvalidValue, "which Spark rounds to float first; give a float"),
        ([("wide", "<", 0.5)], InvalidValue, "which Spark rounds to doubles; give a decimal.Decimal"),
        ([("pair", "=", 5)], InvalidType, "columns of struct<x: int64> are compared by a pyarrow"),
        ([("half", "=", 5)], InvalidType, "column 'half'"),
        (ds.field(0) < 3, InvalidValue, "names a column by its position"),
        (ds.field("name") < 3, InvalidValue, "does not fit the columns"),
        (ds.field("n"), InvalidValue, "does not fit the columns"),
        (ds.field("half") < 3, InvalidType, "column 'half'"),
        (ds.field("pair", "x") < ds.field("nope"), UnknownColumn, "names 'nope'"),
    ],
    ids=str,
)
def test_filters_that_are_none(given, error, message):
    with pytest.raises(error, match=f"(?s)^filter: .*{message.removeprefix('filter: ')}"):
        chosen_of(given, COLUMNS)


@pytest.mark.parametrize(("text", "zone"), [("2024-03-31 02:30", "Europe/Berlin"), ("2024-03-31", "GMT+8")])
def test_times_that_no_clock_shows_and_zones_that_are_unknown(text, zone):
    with pytest.raises(InvalidValue, match=r"in zone '[^']*' \(.*give the time with a zone, as 2024"):
        chosen_of([("at", "<", text)], COLUMNS, zone=zone)


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.decimal128(5, 2), pa.decimal128(38, 0)], ids=str)
def test_integers_are_compared_exactly(kind):
    """Against Python's own numbers, which compare exactly: values around the ends of a type, and halves."""
    scale = kind.scale if pa.types.is_decimal(kind) else 0
    end = 10**kind.precision - 1 if pa.types.is_decimal(kind) else 2 ** (kind.bit_width - 1) - 1
    units = sorted({-end, -1, 0, 1, 2, 3, end - 1, end})
    stored = [Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -scale)) for unit in units]
    is_decimal = pa.types.is_decimal(kind)
    rows = pa.table({"n": pa.array(stored if is_decimal else map(int, stored), kind)})
    halves = [Decimal(f"{unit}.5e-{scale}") for unit in units if unit >= 0]
    values = [*stored, *halves, Decimal(10) ** 50, -(Decimal(10) ** 50)]
    holds = {
        "=": lambda one, other: one == other,
        "!=": lambda one, other: one != other,
        "<": lambda one, other: one < other,
        "<=": lambda one, other: one <= other,
        ">": lambda one, other: one > other,
        ">=": lambda one, other: one >= other,
    }
    assert set(holds) < set(OPERATORS)
    for operator, test in holds.items():
        for value in values:
            found = rows.filter(compared("n", operator, value, kind, None))["n"].to_pylist()
            assert list(map(Decimal, found)) == [each for each in stored if test(each, value)], (
                operator,
                value,
            )
    found = rows.filter(compared("n", "in", values, kind, None))["n"].to_pylist()
    assert list(map(Decimal, found)) == stored


def test_directories_that_are_ruled_out_are_not_opened(spark, tmp_path, same_rows):
    for day in ("2024-05-01", "2024-05-02", "__HIVE_DEFAULT_PARTITION__"):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(table().slice(0, 20), tmp_path / f"day={day}" / "a.parquet", row_group_size=5)
    (tmp_path / "day=2024-05-03").mkdir()
    (tmp_path / "day=2024-05-03" / "a.parquet").write_bytes(b"no Parquet at all")
    query = wk.query(by="day", time="t", windows=wk.tumbling("1 minute"), aggs=wk.count())
    chosen = [("Day", "<", "2024-05-03"), ("row", ">=", 15)]
    found = windowkit.spark.scan(spark, str(tmp_path), query, filter=chosen)
    where = "day < date'2024-05-03' and row >= 15"
    assert same_rows(found, query.run(spark.read.parquet(str(tmp_path)).where(where)), query) == 2
    emitted = windowkit.spark.explain_scan(spark, str(tmp_path), query, filter=chosen)
    assert "2 tasks read 2 files" in emitted or "1 task read 2 files" in emitted
    assert "  directories rule out 2 of 4 files" in emitted
    assert "  row groups: 8 in 2 files, of which statistics rule out 6" in emitted
    nothing = windowkit.spark.scan(spark, str(tmp_path), query, filter=[("day", ">", dt.date(2030, 1, 1))])
    assert nothing.collect() == []


def test_many_files_are_not_all_asked(spark, tmp_path):
    """How many rows a slice has they do not say: that never decided anything, and tasks look at rows."""
    for file in range(20):
        pq.write_table(table(), tmp_path / f"{file:02d}.parquet", row_group_size=30)
    query = wk.query(by="row", time="t", windows=wk.tumbling("1 minute"), aggs=wk.count())
    emitted = windowkit.spark.explain_scan(spark, str(tmp_path), query)
    assert "  expected: 8 rows per slice, the default, as tasks sample their first rows" in emitted
    assert "  row groups: 16 in 8 of 20 files" in emitted


def read(path, schema, chosen):
    """Return the rows that tasks of `scan` read of a file."""
    source = listing.found(str(path))
    (whole,) = source.files
    part = listing.Part(whole, 0, whole.size)
    batches = reading.Reader(source.filesystem, schema, pa.schema([]), chosen).batches(part)
    return pa.Table.from_batches(batches, schema)


@pytest.mark.parametrize("statistics", [True, False])
@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_expressions_do_not_depend_on_how_a_file_is_cut(tmp_path, size, statistics):
    """Against pyarrow's own filter of a table, which knows no statistics."""
    rows = pa.table(
        {
            "v": pa.array([1.0, nan, 1.0, 5.0, nan, 0.0, None, None, -0.0, -inf, nan, nan]),
            "n": pa.array([1, 1, 1, None, None, None, 3, 4, 5, 6, 7, 8], pa.int32()),
            "pair": pa.array([{"x": 1.0}, {"x": nan}, None, {"x": None}] * 3),
        }
    )
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=size, write_statistics=statistics)
    v, n, x = ds.field("v"), ds.field("n"), ds.field("pair", "x")
    for given in (
        *(v != 1.0, ~(v <= 10), ~(v == 1.0), ~(v >= 0), v.is_nan(), ~v.is_nan(), v.is_null(), v.is_valid()),
        *(v < 1.0, v.isin([1.0]), ~v.isin([1.0]), v.is_null(nan_is_null=True), (v > 4) | (n > 6)),
        *(n > 6, ~(n > 6), n.is_null(), ~n.is_null(), n == 1, n != 1, ~(n == 1), n.isin([1, 8]), n + 1 > 8),
        *(
            x.is_nan(),
            ~(x <= 1),
            x == 1.0,
            x.is_null(),
            (n > 6) & v.is_nan(),
            ds.scalar(True),
            ds.scalar(False),
        ),
    ):
        chosen, *_ = chosen_of(given, dict(zip(rows.schema.names, rows.schema.types, strict=True)))
        found, expected = read(tmp_path / "f.parquet", rows.schema, chosen), rows.filter(given)
        # NaN is not equal to itself.
        assert str(found.to_pylist()) == str(expected.to_pylist()), str(given)


@pytest.mark.parametrize(
    "other",
    [
        pa.array(["a", "b"] * 50, pa.large_string()),
        pa.array(["a", "b"] * 50, pa.string_view()),
        pa.array(["a", "b"] * 50).dictionary_encode(),
        pa.array(range(100), pa.timestamp("ns", "UTC")),
        pa.array(range(100), pa.timestamp("ms", "UTC")),
        pa.array(range(100), pa.timestamp("us", "Europe/Berlin")),
        pa.array(range(100), pa.uint32()),
        pa.array([[1]] * 100),
    ],
    ids=lambda column: str(column.type),
)
def test_row_groups_are_ruled_out_beside_columns_of_any_type(tmp_path, other):
    fractions = pa.array([float(row) for row in range(100)])
    rows = pa.table({"n": pa.array(range(100)), "v": fractions, "other": other})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=10)
    source = listing.found(str(tmp_path / "f.parquet"))
    opened = reading.fragment(source.filesystem, source.files[0])
    columns = {field.name: kind_in_spark(field.type) for field in opened.physical_schema}
    wanted = pa.schema(list(columns.items()))

    def left(given):
        chosen, *_ = chosen_of(given, columns, zone="UTC")
        return pruning.pruned(opened, wanted, chosen).num_row_groups

    assert left([("n", ">=", 85)]) == left(ds.field("n") >= 85) == 2
    assert left([("v", "<=", 15)]) == left([("v", "in", [3, 14.5])]) == 2
    assert left([("v", "=", 15.5)]) == 1
    # Whether there is NaN, which is more than all others, statistics do not say.
    assert left([("v", ">", 85)]) == left(ds.field("v") < 15) == 10
    if pa.types.is_timestamp(other.type) or pa.types.is_unsigned_integer(other.type):
        least = {"ns": 0, "ms": 85_000, "us": 85}
        bound = 85 if pa.types.is_unsigned_integer(other.type) else stamp(least[other.type.unit])
        assert left([("other", ">=", bound)]) == (10 if bound == stamp(0) else 2)
    elif not pa.types.is_list(other.type):
        assert left([("other", "<", "a")]) == 0
        assert left([("other", "<", "b")]) == 10


def stamp(micros):
    return pa.scalar(micros, pa.timestamp("us", "UTC"))


@pytest.mark.parametrize(
    "kind", [pa.uint8(), pa.uint32(), pa.uint64(), pa.decimal128(5, 2), pa.decimal128(38, 2)]
)
@pytest.mark.parametrize("as_integer", [False, True])
def test_ends_of_what_is_stored_otherwise_than_it_is(tmp_path, kind, as_integer):
    """Against Python's own numbers: unsigned integers are stored as signed, decimals as bytes or integers."""
    is_decimal = pa.types.is_decimal(kind)
    most = 10**kind.precision - 1 if is_decimal else 2**kind.bit_width - 1
    units = [-most, -1, 0, 1, most - 1, most] if is_decimal else [0, 1, 127, most // 2 + 1, most - 1, most]
    values = [
        Decimal((int(unit < 0), tuple(map(int, str(abs(unit)))), -2 if is_decimal else 0)) for unit in units
    ]
    rows = pa.table({"n": pa.array(values if is_decimal else units, kind)})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=1, store_decimal_as_integer=as_integer)
    source = listing.found(str(tmp_path / "f.parquet"))
    opened = reading.fragment(source.filesystem, source.files[0])
    schema = pa.schema([("n", kind_in_spark(kind))])
    for value in values:
        for operator, count in (("=", 1), ("<", values.index(value)), (">=", 6 - values.index(value))):
            chosen, *_ = chosen_of([("n", operator, value)], {"n": kind_in_spark(kind)})
            left = pruning.pruned(opened, schema, chosen)
            assert left.num_row_groups == count, (operator, value)
            assert read(tmp_path / "f.parquet", schema, chosen).num_rows == count


@pytest.mark.parametrize("same_size", [True, False])
def test_files_that_change_are_refused(tmp_path, same_size):
    rows = pa.table({"n": pa.array(range(100))})
    path = tmp_path / "f.parquet"
    pq.write_table(rows, path, use_dictionary=False, compression="none")
    source = listing.found(str(path))
    (whole,) = source.files
    part = listing.Part(whole, 0, whole.size)

    def batches():
        return reading.Reader(source.filesystem, rows.schema, pa.schema([])).batches(part)

    assert sum(batch.num_rows for batch in batches()) == 100
    begun = batches()
    assert next(begun).num_rows == 100
    other = pa.table({"n": pa.array(range(100, 200) if same_size else range(5))})
    pq.write_table(other, path, use_dictionary=False, compression="none")
    assert (path.stat().st_size == whole.size) == same_size
    for rest in (begun, batches()):
        with pytest.raises(InvalidValue, match=r"f.parquet' has changed since the scan was created"):
            list(rest)
    path.unlink()
    with pytest.raises(InvalidValue, match=r"f.parquet' no longer exists"):
        list(batches())


def test_numbers_that_the_command_line_compares(spark, folder):
    frame = spark.read.parquet(str(folder / "none.parquet"))
    compared = [
        (column, operator, text)
        for column in ("n", "tiny", "price", "v")
        for operator in ("=", "!=", "<", "<=", ">", ">=")
        for text in ("1.5", "-3", "1e3", "1e40")
    ]
    requested = [
        sf.sort_array(sf.collect_list(sf.when(holds(frame, *each), frame["row"]))) for each in compared
    ]
    (found,) = frame.select(*requested).collect()
    rows = frame.toArrow()
    for each, there in zip(compared, found, strict=True):
        chosen, *_ = chosen_of([each], COLUMNS)
        assert there == rows.filter(chosen.rows)["row"].to_pylist(), each
    with pytest.raises(ArgumentsError, match="--filter: 'two' is compared with 'n', a column of bigint"):
        holds(frame, "n", "=", "two")


def test_the_command_line_compares_all_digits_of_a_number(spark):
    digits = "12345678901234567890123456789012345678"
    frame = spark.sql(f"select {digits} as n")
    for operator, text in (("=", digits), (">", f"{digits[:-1]}7"), ("<", "1e1000000000000000000")):
        assert frame.where(holds(frame, "n", operator, text)).count() == 1


def test_numbers_that_no_decimal_is_are_compared():
    rows = pa.table({"n": pa.array([1, None], pa.int64())})
    for operator, text in (("<", "1e1000000000000000000"), (">", "-1e1000000000000000000")):
        assert rows.filter(compared("n", operator, text, pa.int64(), None))["n"].to_pylist() == [1]
    with pytest.raises(InvalidType, match="filter: an int of 16,610 bits is compared with 's'"):
        compared("s", "=", 10**5000, pa.string(), None)
