"""Joins as values, their schemas, their results in each library, and what they refuse."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk
from support.joins import KINDS, TEXTS

TIMES = pa.timestamp("us", "UTC")
LEFT = pa.schema([pa.field("ip", pa.string(), nullable=False), ("ts", TIMES), ("v", pa.int32())])
RIGHT = pa.schema([("ip", pa.string()), ("ts", TIMES), ("w", pa.dictionary(pa.int8(), pa.string()))])


def band(**options: Any) -> wk.Join:
    given: dict[str, Any] = {"by": "ip", "left_time": "ts", "right_time": "ts", "within": "2 minutes"}
    return wk.join(**given | options)


def seconds(*times: int) -> pa.Array:
    return pa.array([time * 10**6 for time in times], TIMES)


def sides() -> tuple[pa.Table, pa.Table]:
    left = pa.table({"ip": ["a", "b", "a"], "ts": seconds(0, 60, 600), "v": [1, 2, 3]})
    right = pa.table(
        {
            "ip": ["a", "a", "c"],
            "ts": seconds(1, 50, 60),
            "w": pa.array(["x", None, "z"]).dictionary_encode(),
        }
    )
    return left, right


def test_a_join_is_a_value() -> None:
    join = band(within=("2 minutes", timedelta(minutes=3)), how="left")
    same = band(within=(timedelta(seconds=120), "3 minutes"), how="left")
    assert join == same
    assert hash(join) == hash(same)
    assert join != band(within=("2 minutes", "3 minutes"))
    assert pickle.loads(pickle.dumps(join)) == join
    assert repr(band()).startswith("Join(left_by=('ip',), right_by=('ip',), left_time='ts'")
    assert band(by={"ip": "dst"}).right_by == ("dst",)
    assert band(within="2 minutes").within == band(within=("2 minutes", "2 minutes")).within
    windows = band(within=None, windows=wk.tumbling("1 hour"))
    assert windows == band(within=None, windows=wk.tumbling("60 minutes")) != join


NULLABLE = {
    # Of the left side's key, time and value, of the right side's time and value.
    "inner": [False, True, True, True, True],
    "left": [False, True, True, True, True],
    "right": [True, True, True, True, True],
    "full": [True, True, True, True, True],
    "semi": [False, True, True],
    "anti": [False, True, True],
}


@pytest.mark.parametrize("how", KINDS)
def test_the_schema_is_known_before_the_first_row(how: str) -> None:
    schema = band(how=how).schema(LEFT, RIGHT)
    names = ["ip", "ts", "v", "ts_right", "w"]
    assert schema.names == (names[:3] if how in ("semi", "anti") else names)
    assert [field.nullable for field in schema] == NULLABLE[how]
    assert schema == band(how=how).run(LEFT.empty_table(), RIGHT.empty_table()).schema
    if "w" in schema.names:
        assert schema.field("w").type == pa.dictionary(pa.int32(), pa.string())
    hours = band(how=how, within=None, windows=wk.tumbling("1 hour")).schema(LEFT, RIGHT)
    edges = [
        pa.field(f"window_{edge}", TIMES, nullable=how not in ("inner", "semi")) for edge in ("start", "end")
    ]
    assert list(hours) == [*schema, *edges]


def test_names_and_choice_of_columns() -> None:
    assert band(suffix="_r").schema(LEFT, RIGHT).names == ["ip", "ts", "v", "ts_r", "w"]
    chosen = band(left_columns=["v", "ip"], right_columns=["w", "ip"])
    assert chosen.schema(LEFT, RIGHT).names == ["v", "ip", "w", "ip_right"]
    left, right = sides()
    assert chosen.run(left, right).to_pylist() == [
        {"v": 1, "ip": "a", "w": "x", "ip_right": "a"},
        {"v": 1, "ip": "a", "w": None, "ip_right": "a"},
    ]
    assert band(left_columns=[], right_columns=[]).run(left, right).num_rows == 2
    assert band(left_columns="v", how="semi").run(left, right).to_pylist() == [{"v": 1}]
    # Metadata of fields stays.
    tagged = pa.schema([field.with_metadata({"unit": "m"}) for field in LEFT])
    assert band().schema(tagged, RIGHT).field("v").metadata == {b"unit": b"m"}


def test_keys_of_rows_without_a_left_row_are_those_of_the_right() -> None:
    left, right = sides()
    result = band(how="full").run(left, right)
    assert result["ip"].to_pylist() == ["a", "a", "b", "a", "c"]
    assert result["ts"].null_count == 1
    assert result["ts_right"].null_count == 2
    codes = left.set_column(0, "ip", left["ip"].dictionary_encode())
    assert band(how="full").run(codes, right)["ip"].to_pylist() == ["a", "a", "b", "a", "c"]


@pytest.mark.parametrize("kind", TEXTS)
@pytest.mark.parametrize("other", TEXTS)
def test_texts_of_any_kind_are_compared(kind: pa.DataType, other: pa.DataType) -> None:
    left, right = sides()
    left = left.set_column(0, "ip", left["ip"].cast(kind))
    right = right.set_column(0, "ip", right["ip"].cast(other))
    result = band(how="full").run(left, right)
    assert result["ip"].to_pylist() == ["a", "a", "b", "a", "c"]
    both = band(how="full", by=["ip", "ip2"])
    left, right = (table.append_column("ip2", table["ip"]) for table in (left, right))
    assert both.run(left, right)["ip2"].to_pylist() == ["a", "a", "b", "a", "c"]


def test_batches_are_made_as_they_are_read() -> None:
    # A result of 10^10 rows, which no memory holds.
    count = 100_000
    table = pa.table({"t": pa.array([0] * count), "v": range(count)})
    join = wk.join(by=[], left_time="t", right_time="t", within=0)
    reader = join.batches(table, table, threads=2)
    assert reader.schema == join.schema(table, table)
    batch = reader.read_next_batch()
    assert 0 < batch.num_rows <= 1 << 16
    assert batch["v"].to_pylist() == [0] * batch.num_rows
    assert batch["v_right"].to_pylist() == list(range(batch.num_rows))
    left, right = sides()
    assert band(how="full").batches(left, right).read_all() == band(how="full").run(left, right)


def test_large_values_come_in_batches_that_fit() -> None:
    text = "x" * (1 << 16)
    left = pa.table({"t": range(300), "s": [text] * 300})
    join = wk.join(by=[], left_time="t", right_time="t", within=5, right_columns=[])
    batches = list(join.batches(left, left.select(["t"])))
    assert sum(batch.num_rows for batch in batches) == 300 * 11 - 30
    assert all(batch.nbytes < 100 << 20 for batch in batches)
    assert len(batches) > 3


def test_results_are_of_the_library_of_the_left_side() -> None:
    left, right = sides()
    expected = band(how="full").run(left, right).to_pylist()
    frame, other = pl.from_arrow(left), pl.from_arrow(right)
    assert isinstance(frame, pl.DataFrame)
    assert isinstance(other, pl.DataFrame)
    result = band(how="full").run(frame, other)
    assert isinstance(result, pl.DataFrame)
    assert result.to_dicts() == expected
    assert result.schema["w"] == other.schema["w"]
    as_pandas = band(how="full").run(left.to_pandas(), right.to_pandas())
    assert isinstance(as_pandas, pd.DataFrame)
    assert as_pandas["v"].dtype == "Int64"
    assert as_pandas["v"].tolist() == [1, 1, 2, 3, pd.NA]
    assert isinstance(as_pandas["w"].dtype, pd.CategoricalDtype)
    assert as_pandas["ip"].tolist() == ["a", "a", "b", "a", "c"]
    mixed = band(how="full").run(left, frame.rename({"v": "w"}), result="polars")
    assert isinstance(mixed, pl.DataFrame)
    assert mixed.height == 3
    windows = wk.tumbling("1 minute")
    by_windows = band(how="inner", within=None, windows=windows).run(left.to_pandas(), right.to_pandas())
    assert by_windows["window_end"].dtype == "datetime64[us, UTC]"
    with duckdb.connect() as connection:
        connection.register("answers", right)
        relation = connection.sql("SELECT ip, ts FROM answers")
        twice = band(how="left").run(relation, relation, result="pyarrow")
        assert twice.select(["ip", "ts"]).to_pylist() == [
            {"ip": row["ip"], "ts": row["ts"]} for row in right.take([0, 0, 1, 1, 2]).to_pylist()
        ]


KEYS_OF_PANDAS: list[Callable[[list[Any], str], Any]] = [
    lambda keys, _: pd.Series(keys, dtype=object),
    lambda keys, _: pd.Series(keys, dtype="string"),
    lambda keys, _: pd.Series(keys, dtype=pd.ArrowDtype(pa.string())),
    lambda keys, _: pd.Series(keys, dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
    lambda keys, names: pd.Series(pd.Categorical(keys, categories=list(names))),
    lambda keys, names: pd.Series(pd.Categorical(keys, categories=list(names), ordered=True)),
]
KEYS_OF_POLARS: list[Callable[[list[Any], str], Any]] = [
    lambda keys, _: pl.Series(keys, dtype=pl.String),
    lambda keys, _: pl.Series(keys, dtype=pl.Categorical),
    lambda keys, names: pl.Series(keys, dtype=pl.Enum([*names])),
]


@pytest.mark.parametrize("how", KINDS)
def test_keys_are_those_of_either_side_whatever_their_types(how: str) -> None:
    join = wk.join(by="k", left_time="t", right_time="t", within=1, how=how)
    for library, kinds in ((pd, KEYS_OF_PANDAS), (pl, KEYS_OF_POLARS)):
        for one, other in product(kinds, kinds):
            left = library.DataFrame({"k": one(["a", None, "b"], "ba"), "t": [1, 1, 1]})
            right = library.DataFrame({"k": other(["b", "c", None], "cb"), "t": [1, 1, 1]})
            wanted = join.run(left, right, result="pyarrow")["k"].to_pylist()
            found = join.run(left, right)["k"]
            assert [None if pd.isna(each) else each for each in found.to_list()] == wanted
            if how not in ("right", "full") and left["k"].dtype != object:
                assert found.dtype == left["k"].dtype
            if library is pl:
                lazy = join.run(left.lazy(), right.lazy())
                assert lazy.collect()["k"].to_list() == wanted
                assert lazy.collect_schema()["k"] == found.dtype


@pytest.mark.parametrize("how", ["right", "full"])
def test_a_key_of_both_sides_has_categories_where_they_have_the_same(how: str) -> None:
    def frame(keys: Any) -> Any:
        return (pl if isinstance(keys, pl.Series) else pd).DataFrame({"k": keys, "t": [1]})

    join = wk.join(by="k", left_time="t", right_time="t", within=1, how=how)
    numbers = [pd.Categorical([number], categories=[1, 2]) for number in (1, 2)]
    assert join.run(*map(frame, numbers))["k"].dtype == numbers[0].dtype
    other = pd.Categorical([3], categories=[3])
    assert join.run(frame(numbers[0]), frame(other))["k"].tolist() == {"right": [3], "full": [1, 3]}[how]
    enums = [pl.Series([name], dtype=pl.Enum(["a", "b"])) for name in "ab"]
    assert join.run(*map(frame, enums))["k"].dtype == pl.Enum(["a", "b"])
    assert join.run(frame(enums[0]), frame(pl.Series(["c"])))["k"].dtype == pl.String


REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"within": None}, wk.InvalidValue, "within: neither of them is given of within and windows"),
    ({"windows": wk.tumbling("1 hour")}, wk.InvalidValue, "within: both are given of within and windows"),
    ({"within": "-1 minute"}, wk.InvalidValue, "within: -1 minute is negative"),
    ({"within": ("1 minute", -5)}, wk.InvalidValue, "within: -5 is negative"),
    ({"within": "1 month"}, wk.InvalidValue, "within"),
    ({"within": "3 rows"}, wk.InvalidType, "within: 3 rows is a number of rows"),
    ({"within": (1, 2, 3)}, wk.InvalidValue, r"within: \(1, 2, 3\) has 3 lengths"),
    ({"within": ("1 minute", 3)}, wk.InvalidType, "within: one of 1 minute and 3 is a duration"),
    ({"within": 1.5}, wk.InvalidType, "within: 1.5 is a float"),
    ({"how": "outer"}, wk.InvalidValue, "how: 'outer' is unknown; allowed are 'inner', 'left'"),
    ({"closed": "open"}, wk.InvalidValue, "closed: 'open' is unknown"),
    ({"by": 7}, wk.InvalidType, "by: 7 is an int; by is a str, a sequence of str, or a dict"),
    ({"by": ["ip", "ip"]}, wk.InvalidValue, "by: 'ip' is given twice"),
    ({"by": {"ip": 3}}, wk.InvalidType, "by: 3 is an int"),
    ({"left_time": 3}, wk.InvalidType, "left_time: 3 is an int"),
    ({"suffix": 3}, wk.InvalidType, "suffix: 3 is an int"),
    ({"left_columns": ["v", "v"]}, wk.InvalidValue, "left_columns: 'v' is given twice"),
    ({"how": "semi", "right_columns": "w"}, wk.InvalidValue, "right_columns: they are given with how='semi'"),
    ({"within": None, "windows": "1 hour"}, wk.InvalidType, "windows: '1 hour' is a str; it is one window"),
    (
        {"within": None, "windows": wk.landmark("1 hour", start="2024-01-01")},
        wk.InvalidValue,
        "windows: .* has no last window",
    ),
    (
        {"within": None, "windows": wk.tumbling("1 hour"), "closed": "left"},
        wk.InvalidValue,
        "closed: 'left' is given with windows",
    ),
]


@pytest.mark.parametrize(("options", "error", "says"), REFUSED)
def test_arguments_that_no_join_has_are_refused(
    options: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        band(**options)


def changed(schema: pa.Schema, name: str, kind: pa.DataType) -> pa.Schema:
    return schema.set(schema.get_field_index(name), pa.field(name, kind))


UNFIT: list[tuple[dict[str, Any], pa.Schema, pa.Schema, type[Exception], str]] = [
    (
        {"by": "id"},
        LEFT,
        RIGHT,
        wk.UnknownColumn,
        "by, of the left side: no column 'id'; there are ip, ts, v",
    ),
    ({"by": {"ip": "v"}}, LEFT, RIGHT, wk.UnknownColumn, "by, of the right side: no column 'v'"),
    ({"left_time": "t"}, LEFT, RIGHT, wk.UnknownColumn, "left_time: no column 't'"),
    ({"right_time": "t"}, LEFT, RIGHT, wk.UnknownColumn, "right_time: no column 't'"),
    ({"left_columns": "w"}, LEFT, RIGHT, wk.UnknownColumn, "left_columns: no column 'w'"),
    ({"right_columns": "v"}, LEFT, RIGHT, wk.UnknownColumn, "right_columns: no column 'v'"),
    (
        {},
        changed(LEFT, "ip", pa.int32()),
        changed(RIGHT, "ip", pa.int64()),
        wk.InvalidType,
        "by: column 'ip' of the left side is int32, and 'ip' of the right side is int64; keys of both sides",
    ),
    (
        {},
        LEFT,
        changed(RIGHT, "ts", pa.timestamp("ms")),
        wk.InvalidType,
        "^left_time and right_time: column 'ts' of the left side is .* of both sides are of one kind",
    ),
    ({}, LEFT, changed(RIGHT, "ts", pa.timestamp("us")), wk.InvalidType, "are of one kind, and both"),
    ({}, LEFT, changed(RIGHT, "ts", pa.int64()), wk.InvalidType, "are of one kind, and both"),
    ({}, changed(LEFT, "ts", pa.string()), RIGHT, wk.InvalidType, "^left_time: column 'ts' is string"),
    ({}, LEFT, changed(RIGHT, "ts", pa.bool_()), wk.InvalidType, "^right_time: column 'ts' is bool"),
    ({"within": 120}, LEFT, RIGHT, wk.InvalidType, "within: it is an integer, but column 'ts' counts micro"),
    ({"within": "1 nanosecond"}, LEFT, RIGHT, wk.InvalidValue, "within: it is finer than column 'ts'"),
    (
        {"within": "1 minute"},
        changed(LEFT, "ts", pa.int64()),
        changed(RIGHT, "ts", pa.int8()),
        wk.InvalidType,
        "within: it is a duration, but column 'ts' is an integer",
    ),
    (
        {"within": ("0 seconds", "1 microsecond"), "closed": "neither"},
        LEFT,
        RIGHT,
        wk.InvalidValue,
        "within: no time of column 'ts' is in it besides the ends that closed excludes",
    ),
    ({"suffix": ""}, LEFT, RIGHT, wk.InvalidValue, "suffix: the result would have two columns 'ts'"),
    (
        {"within": None, "windows": wk.tumbling("1 hour")},
        LEFT,
        RIGHT.append(pa.field("window", pa.int8())),
        wk.InvalidValue,
        "windows: the result has a column 'window', and so would the right side; rename its column 'window'",
    ),
    (
        {"within": None, "windows": wk.tumbling("1 hour")},
        LEFT.append(pa.field("window", pa.int8())),
        RIGHT,
        wk.InvalidValue,
        "windows: the result has a column 'window', and so would the left side; .* by left_columns",
    ),
    (
        {"within": None, "windows": wk.tumbling("1 hour")},
        LEFT.append(pa.field("window_start", pa.int8())),
        RIGHT,
        wk.InvalidValue,
        "windows: the result has a column 'window_start', and so would the left side; .* by left_columns",
    ),
    (
        {"within": None, "windows": wk.tumbling("1 hour")},
        LEFT,
        RIGHT.append(pa.field("window_end", pa.int8())),
        wk.InvalidValue,
        "windows: the result has a column 'window_end', and so would the right side; rename its column",
    ),
    (
        {},
        LEFT.append(pa.field("v", pa.int8())),
        RIGHT,
        wk.InvalidValue,
        "^left: it has two columns 'v'; rename one of them, or choose others by left_columns",
    ),
    (
        {},
        LEFT.append(pa.field("w", pa.int8())),
        RIGHT.append(pa.field("w", pa.int8())),
        wk.InvalidValue,
        "^right: it has two columns 'w'; rename one of them, or choose others by right_columns",
    ),
    (
        {},
        LEFT.append(pa.field("w_right", pa.int8())).append(pa.field("w", pa.int8())),
        RIGHT,
        wk.InvalidValue,
        "^suffix: the result would have two columns 'w_right'; give another suffix",
    ),
    (
        {"by": "m"},
        LEFT.append(pa.field("m", pa.map_(pa.string(), pa.string()))),
        RIGHT.append(pa.field("m", pa.map_(pa.string(), pa.string()))),
        wk.InvalidType,
        "by: a column of type .* cannot be a key",
    ),
    ({"within": None, "windows": wk.tumbling(60)}, LEFT, RIGHT, wk.InvalidType, "counts microseconds"),
]


@pytest.mark.parametrize(("options", "left", "right", "error", "says"), UNFIT)
def test_a_join_that_does_not_fit_is_refused_before_any_row(
    options: dict[str, Any], left: pa.Schema, right: pa.Schema, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        band(**options).schema(left, right)
    with pytest.raises(error, match=says):
        band(**options).run(left.empty_table(), right.empty_table())


def test_data_that_is_refused() -> None:
    left, right = sides()
    with pytest.raises(wk.InvalidType, match="right: an int has no Arrow interface"):
        band().run(left, 7)
    with pytest.raises(wk.InvalidType, match=r"left: .* has no Arrow interface"):
        band().run({"a": 1}, right)
    for call in (band().run, band().batches):
        with pytest.raises(wk.InvalidType, match="right: None has no Arrow interface"):
            call(left, None)
        reader = left.to_reader()
        with pytest.raises(wk.InvalidValue, match="right: it is the same reader as left, and a"):
            call(reader, reader)
        assert reader.read_all() == left
    same = wk.join(by="ip", left_time="ts", right_time="ts", within="0 seconds", how="semi")
    assert same.run(left, left) == left
    with pytest.raises(wk.InvalidValue, match="threads: 0"):
        band().run(left, right, threads=0)
    far = wk.join(by=[], left_time="t", right_time="t", windows=wk.tumbling(10))
    with pytest.raises(wk.Overflow, match="too far from 0"):
        far.run(pa.table({"t": [2**63 - 1]}), pa.table({"t": [1]}))
    near = wk.join(by=[], left_time="t", right_time="t", within=1)
    with pytest.raises(wk.InvalidValue, match="column 't' holds 18446744073709551615"):
        near.run(pa.table({"t": pa.array([2**64 - 1], pa.uint64())}), pa.table({"t": [1]}))


def test_errors_of_the_data_are_its_own() -> None:
    left, right = sides()

    def batches() -> Iterator[pa.RecordBatch]:
        yield right.to_batches()[0]
        raise LookupError("gone")

    for frames in ([left, None], [None, left]):
        own, other = (
            pa.RecordBatchReader.from_batches(right.schema, batches()) if frame is None else frame
            for frame in frames
        )
        with pytest.raises(LookupError, match="gone"):
            band().run(own, other)


def test_times_in_any_zones_are_compared_as_moments() -> None:
    moments = pa.array([0, 60, 7200], pa.int64())
    left = pa.table({"t": moments.cast(pa.timestamp("s", "UTC"))})
    right = pa.table({"u": moments.cast(pa.timestamp("s", "Europe/Berlin")), "w": [0, 1, 2]})
    for how in ({"within": "30 seconds"}, {"windows": wk.tumbling("1 minute")}):
        join = wk.join(by=[], left_time="t", right_time="u", right_columns=["u", "w"], **how)
        result = join.run(left, right)
        assert result["w"].to_pylist() == [0, 1, 2]
        assert result["t"].type == left["t"].type
        assert result["u"].type == right["u"].type
        op = join.operator(left.schema, right.schema)
        assert op.push_left(left).num_rows == 0
        assert op.push_right(right)["w"].to_pylist() == [0, 1, 2]
        op.advance_right(right["u"][2])
        assert op.watermarks.right is None or op.watermarks.right.as_py() is not None


def test_rows_in_too_many_windows_are_refused_before_they_are_stored() -> None:
    times = pa.array([0, 365 * 86_400 * 10**9], pa.timestamp("ns"))
    rows = pa.table({"k": [1, 1], "t": times})
    windows = wk.sliding("365 days", "1 nanosecond")
    join = wk.join(by="k", left_time="t", right_time="t", windows=windows)
    with pytest.raises(wk.InvalidValue, match="windows: 2 rows are in 63072000000000000 windows"):
        join.run(rows, rows)
    op = join.operator(rows.schema, rows.schema)
    for push in (op.push_left, op.push_right):
        with pytest.raises(wk.InvalidValue, match="allowed are 100000000"):
            push(rows)
    assert (op.stats().left_rows, op.stats().right_rows, op.close().num_rows) == (0, 0, 0)


@pytest.mark.parametrize("kind", [pa.binary(0), pa.list_(pa.int64(), 0), pa.struct([("x", pa.binary(0))])])
def test_keys_without_width_are_refused_by_their_type(kind: pa.DataType) -> None:
    schema = pa.schema([("k", kind), ("t", pa.int64())])
    with pytest.raises(wk.InvalidType, match="cannot be a key; allowed are all types but maps and types of"):
        wk.join(by="k", left_time="t", right_time="t", within=1).schema(schema, schema)
    query = wk.query(by="k", time="t", windows=wk.tumbling(3), aggs=[wk.count()])
    with pytest.raises(wk.InvalidType, match="cannot be a key"):
        query.schema(schema)


@pytest.mark.parametrize("how", ["left", "full", "right"])
def test_values_without_nulls_of_their_own_are_null_where_there_is_no_partner(how: str) -> None:
    """Unions and run-end encoded columns have no bits for that, nor have structs of them within."""
    of_union = pa.UnionArray.from_dense(
        pa.array([0, 1], pa.int8()),
        pa.array([0, 0], pa.int32()),
        [pa.array([7]), pa.array(["x"])],
    )
    runs = pa.RunEndEncodedArray.from_arrays([2], pa.array([8]))
    payload = {"u": of_union, "r": runs, "s": pa.StructArray.from_arrays([of_union], ["inner"])}
    one = pa.table({"k": [1, 2, 3], "t": [0, 0, 0]})
    other = pa.table({"k": [2, 9], "t": [0, 0], **payload})
    sides = (other, one) if how == "right" else (one, other)
    found = wk.join(by="k", left_time="t", right_time="t", within=0, how=how).run(*sides)
    keys = found["k"].to_pylist()
    values = [
        (row["u"], row["r"], None if row["s"] is None else row["s"]["inner"])
        for row in found.select(["u", "r", "s"]).to_pylist()
    ]
    wanted = {1: (None,) * 3, 2: (7, 8, 7), 3: (None,) * 3, 9: ("x", 8, "x")}
    assert values == [wanted[key] for key in keys]
    assert sorted(keys) == ([1, 2, 3, 9] if how == "full" else [1, 2, 3])
