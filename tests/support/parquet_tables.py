"""Random tables of Parquet files, random reads of them by Spark, and random filters.

Files of a table may lack columns or have them in other types or cases; directories may add columns.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from math import nan

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import types as spark_types

ONE = 10**6
KINDS = {
    "k": ([pa.int32(), pa.int64(), pa.int16()], lambda chance: chance.randrange(4)),
    "t": ([pa.timestamp("us", "UTC"), pa.timestamp("ms", "UTC")], lambda chance: chance.randrange(90)),
    "v": ([pa.float64(), pa.float32()], lambda chance: chance.choice([0.0, -0.0, 1.5, -2.0, 3.25, nan])),
    "text": ([pa.string(), pa.large_string()], lambda chance: chance.choice(["a", "b", "é's", "", "a\\b"])),
    "day": ([pa.date32()], lambda chance: dt.date(2024, 5, chance.randrange(1, 5))),
    "money": ([pa.decimal128(9, 2)], lambda chance: Decimal(chance.randrange(-500, 500)).scaleb(-2)),
    "flag": ([pa.bool_()], lambda chance: chance.random() < 0.5),
    "at": ([pa.timestamp("us")], lambda chance: dt.datetime(2024, 5, 1, 12, chance.randrange(60))),
    "row": ([pa.int64()], lambda chance: chance.randrange(100)),
    # Not UTF-8, in part.
    "raw": (
        [pa.string(), pa.large_string()],
        lambda chance: chance.choice([b"a", b"a\xc3", b"\xff", b"b\xc3b"]),
    ),
}
"""Columns, the types in which files have them, the table's first, and how their values are made."""
DIRECTORIES = {
    "p": ["1", "2", "30", "__HIVE_DEFAULT_PARTITION__"],
    "q": ["x", "y%2Fz", "ä b"],
    "d": ["2024-05-01", "2024-05-02"],
    "m": ["2024-05-01 10%3A00%3A00", "2024-05-01 10%3A30%3A00.5"],
    "f": ["1.5", "-2.25"],
}
TESTS = (
    *("k > 1", "k <= 2", "k = 3", "1 < k", "k != 0", "k is null", "k is not null", "k <=> 2", "k <=> null"),
    *("k in (0, 2)", "k not in (1, 3)", "k in (1, null)", "k between 1 and 2", "k < 10000000000", "k = 1.0"),
    "k in (0, 1, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20)",
    *("v > 1", "v <= 1.5", "v = 0", "v != -2.0D", "v in (1.5, 3.25)", "v < double('NaN')"),
    *("text = 'a'", "text > 'a'", "text in ('b', 'é''s')", "text != ''", "text <=> 'b'", "text = 'a\\\\b'"),
    *("day >= '2024-05-02'", "day = date'2024-05-03'", "day in ('2024-05-01', '2024-05-04')"),
    *("money > 1.5", "money <= -2", "money = 0", "money < 1e2", "money in (1, 2.25)"),
    *("flag", "not flag", "flag = false", "flag is null", "flag <=> true"),
    *("t >= '1970-01-01 01:00:30'", "t < timestamp'1970-01-01 00:01:00Z'", "t is not null"),
    *("at > '2024-05-01 12:30:00'", "at <= timestamp_ntz'2024-05-01 12:20:00'"),
    *("text like 'a%'", "text like '%s'", "text like '%\\'%'", "text not like '%a%'"),
    *("raw = 'a'", "raw > 'a'", "raw in ('a', 'b')", "raw like 'a%'", "raw not like '%b'", "raw like '%a%'"),
    *("`s.x` < 105", "`s.x` >= 110", "`s.x` is not null"),
    *("isnan(v)", "not isnan(v)", "if(k > 1, true, false)", "(v > 1) is true", "(text = 'a') is false"),
    # These, Spark evaluates.
    *("row % 2 = 0", "s.x > 1", "k > row", "length(text) > 0", "text like 'a\\\\%'"),
    *("text like '_''%'", "raw like 'a_'", "raw not like '_'"),
)
OF_DIRECTORIES = {
    "p": ("p > 1", "p is null", "p in (1, 30)", "not (p = 2)", "p <=> null"),
    "q": ("q = 'x'", "q != 'x'", "q > 'x'", "q in ('y/z', 'ä b')"),
    "m": ("m > '2024-05-01 10:00:00'", "m = timestamp'2024-05-01 08:00:00Z' or k = 1"),
    "f": ("f > 0", "f = -2.25D", "f in (1.5, 2) or k = 1"),
    "d": ("d > '2024-05-01'", "d = '2024-05-01' or k = 1", "year(d) = 2024"),
}


def values_of(chance, name, stored, rows):
    """Return a column of a file; times and keys, too, may be null."""
    made = [None if chance.random() < 0.15 else KINDS[name][1](chance) for _ in range(rows)]
    if name == "t":
        unit = ONE if stored.unit == "us" else 1000
        made = [None if value is None else value * unit for value in made]
    if name == "raw":
        return pa.array(made, pa.binary()).view(pa.string()).cast(stored)
    return pa.array(made, stored)


def write(chance, path, narrow, lacking, int96):
    """Write a file: of other types, with other names or without columns that other files have."""
    rows = chance.randrange(1, 40)
    columns = {}
    for name, (kinds, _) in KINDS.items():
        if name in lacking and chance.random() < 0.4:
            continue
        stored = chance.choice(kinds) if name in narrow else kinds[0]
        columns[name.upper() if name in narrow and chance.random() < 0.05 else name] = values_of(
            chance, name, stored, rows
        )
    columns["s"] = pa.array([{"x": row, "y": [row]} for row in range(rows)])
    columns["s.x"] = pa.array([100 + row for row in range(rows)])
    names = list(columns)
    pq.write_table(
        pa.table(columns).select(chance.sample(names, len(names))),
        path,
        row_group_size=chance.choice([5, 100]),
        write_statistics=chance.choice([True, True, False]),
        use_deprecated_int96_timestamps=chance.random() < int96,
        store_schema=chance.random() < 0.5,
    )


def table_of(chance, folder):
    """Write a table; return the columns of its directories, and whether Spark can merge its columns."""
    columns = chance.sample(list(DIRECTORIES), chance.choice([0, 0, 1, 1, 2]))
    narrow = chance.sample(list(KINDS), 2) if chance.random() < 0.4 else []
    lacking = chance.sample(["v", "text", "day", "flag", "at"], 2) if chance.random() < 0.4 else []
    # Spark does not merge times that it knows as instants with times of which it does not.
    int96 = 0.3 if narrow else chance.choice([0, 0, 1])
    folder.mkdir()
    for file in range(chance.randrange(1, 5)):
        inner = folder.joinpath(*(f"{name}={chance.choice(DIRECTORIES[name])}" for name in columns))
        inner.mkdir(parents=True, exist_ok=True)
        # The first has all columns, in the table's types.
        first = file == 0
        write(chance, inner / f"{file}.parquet", [] if first else narrow, [] if first else lacking, int96)
    return columns, not narrow


def read(spark, chance, path, columns, may_merge, name):
    """Return Spark's read of a table: by its path, with a merged or given schema, or from the catalog."""
    how = chance.choice(["path", "path", "schema", "catalog", "view", *(["merged"] * 2 * may_merge)])
    if how == "merged":
        return spark.read.option("mergeSchema", True).parquet(path)
    if how == "schema":
        schema = spark.read.parquet(f"{path}").schema
        fields = [field for field in schema if chance.random() < 0.9 or field.name in ("k", "t", *columns)]
        return spark.read.schema(spark_types.StructType(fields)).parquet(path)
    if how in ("catalog", "view"):
        spark.sql(f"create table {name} using parquet options (path '{path}')")
        if how == "view":
            spark.sql(f"create temporary view {name}_view as select * from {name} where row < 90")
        return spark.table(f"{name}_view" if how == "view" else name)
    return spark.read.parquet(path)


def condition_of(chance, there, columns):
    """Return a random filter over columns that there are."""
    possible = [test for test in TESTS if all(name in there for name in names_in(test))]
    possible += [test for name in columns for test in OF_DIRECTORIES[name]]
    made = [f"({chance.choice(possible)})" for _ in range(chance.randrange(1, 4))]
    made = [f"(not {test})" if chance.random() < 0.25 else test for test in made]
    return f" {chance.choice(['and', 'and', 'or'])} ".join(made)


def names_in(test):
    words = test.replace("(", " ").replace(")", " ").replace(".", " ").split()
    return [name for name in (*KINDS, "s") if name in words]
