"""Aggregates as of the times of labels: against the definition, label by label, and DuckDB's joins."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.oracle import taken
from support.oracle_aggregates import aggregate, same
from support.plain import in_units, key, plain
from support.rolling import Case, cases
from support.tables import INTEGERS, KEYS, NUMBERS, OTHERS, columns_of


class Labelled(NamedTuple):
    case: Case
    labels: pa.Table
    by: list[str]


@st.composite
def labelled(draw: st.DrawFn, values: list[tuple[pa.DataType, st.SearchStrategy[Any]]]) -> Labelled:
    """Draw events, and labels with keys and times of the same types under other names."""
    case = draw(cases(values, ahead=False))
    schema, rows = case.table.schema, draw(st.integers(0, 15))
    time_type, strategies = schema.field("t").type, dict(KEYS)
    low = 0 if pa.types.is_unsigned_integer(time_type) else -60
    columns = {"asked": columns_of(draw, time_type, st.integers(low, 80) | st.sampled_from([5, 10]), rows)}
    for name in case.rolling.by:
        kind = schema.field(name).type
        columns[f"own {name}"] = columns_of(draw, kind, strategies[kind], rows)
    columns["v"] = columns_of(draw, pa.int8(), st.integers(0, 9), rows)
    order = draw(st.permutations(sorted(columns)))
    return Labelled(
        case, pa.table({name: columns[name] for name in order}), [f"own {name}" for name in case.rolling.by]
    )


def known(frame: wk.Frame, moment: int, events: list[tuple[int, int]], time_type: pa.DataType) -> list[int]:
    """Return the events, (time, row) in order, of the frame that ends at a moment."""
    start, end = frame.closed in ("both", "left"), frame.closed in ("both", "right")
    before = [(time, row) for time, row in events if time < moment or (end and time == moment)]
    if frame.before is None:
        return [row for _, row in before]
    if frame.by_rows:
        assert isinstance(frame.before, wk.Rows)
        number = frame.before.count + start + end - 1
        return [row for _, row in before[len(before) - min(number, len(before)) :]]
    first = moment - in_units(frame.before, time_type)
    if frame.tail is not None:
        first -= first % in_units(frame.tail, time_type)
    return [row for time, row in before if time > first or (start and time == first)]


def evaluate(given: Labelled) -> list[list[Any]]:
    """Return the aggregates of each label: those of what a query for it alone would select."""
    (table, rolling), labels, by = given
    times = plain(table[rolling.time])
    keys = [[key(value) for value in plain(table[name])] for name in rolling.by]
    own = [[key(value) for value in plain(labels[name])] for name in by]
    columns = {name: plain(table[name]) for name in rolling.inputs}
    result = []
    for label, moment in enumerate(plain(labels["asked"])):
        of_key = [
            (time, row)
            for row, time in enumerate(times)
            if time is not None
            and moment is not None
            and all(each[row] == mine[label] for each, mine in zip(keys, own, strict=True))
        ]
        values = []
        for each in rolling.aggs:
            rows = known(each.frame, moment, sorted(of_key), table.schema.field("t").type) if of_key else []
            rows = taken(each.aggregate, rows, columns)
            values.append(aggregate(each.aggregate, rows, times, columns, table.schema))
        result.append(values)
    return result


def check(given: Labelled, threads: int) -> None:
    (table, rolling), labels, by = given
    try:
        expected = evaluate(given)
    except OverflowError:
        with pytest.raises(wk.Overflow):
            rolling.at(labels, table, by=by, time="asked", threads=threads)
        return
    result = rolling.at(labels, table, by=by, time="asked", threads=threads)
    assert result.column_names == [*labels.column_names, *(each.name for each in rolling.aggs)]
    assert result.schema.types[: labels.num_columns] == labels.schema.types
    for name in labels.column_names:
        assert repr(plain(result[name])) == repr(plain(labels[name]))
    types = rolling.schema(table)
    for each in rolling.aggs:
        assert result.schema.field(each.name) == types.field(each.name)
        got = plain(result[each.name])
        for label, value in enumerate(got):
            wanted = expected[label][rolling.aggs.index(each)]
            assert same(wanted, value), f"label {label}, {each}: wanted {wanted}, got {value}"


@settings(max_examples=200)
@given(labelled(NUMBERS), st.integers(1, 3))
def test_numbers_equal_the_definition(given: Labelled, threads: int) -> None:
    check(given, threads)


@settings(max_examples=50)
@given(labelled(INTEGERS), st.integers(1, 2))
def test_integers_equal_the_definition_or_overflow_with_it(given: Labelled, threads: int) -> None:
    check(given, threads)


@settings(max_examples=120)
@given(labelled(OTHERS), st.integers(1, 3))
def test_types_without_arithmetic_equal_the_definition(given: Labelled, threads: int) -> None:
    check(given, threads)


EVENTS = 30_000
LABELS = 2_000
CHANCE = np.random.default_rng(19)
TABLE = pa.table(
    {
        "k": pa.array(CHANCE.integers(0, 9, EVENTS), mask=CHANCE.random(EVENTS) < 0.02),
        "t": pa.array(CHANCE.integers(0, 4_000, EVENTS), mask=CHANCE.random(EVENTS) < 0.01),
        "v": pa.array(CHANCE.integers(-(10**6), 10**6, EVENTS), mask=CHANCE.random(EVENTS) < 0.1),
        "shop": pa.array([f"shop {number}" for number in CHANCE.geometric(0.05, EVENTS)]),
        "ok": pa.array(CHANCE.random(EVENTS) < 0.5, mask=CHANCE.random(EVENTS) < 0.1),
    }
)
ASKED = pa.table(
    {
        "id": np.arange(LABELS),
        "who": pa.array(CHANCE.integers(-2, 11, LABELS), mask=CHANCE.random(LABELS) < 0.02),
        "asked_at": pa.array(CHANCE.integers(-50, 4_200, LABELS), mask=CHANCE.random(LABELS) < 0.01),
    }
)
FUNCTIONS: list[tuple[wk.Aggregate, str]] = [
    (wk.count(), "count(t)"),
    (wk.count("v"), "count(v)"),
    (wk.sum("v"), "sum(v)::BIGINT"),
    (wk.max("v").where("ok"), "max(v) FILTER (WHERE ok)"),
    (wk.count_distinct("shop"), "count(DISTINCT shop)"),
    (wk.quantile("v", 0.4, discrete=True), "quantile_disc(v, 0.4)"),
]


@pytest.mark.parametrize(
    ("over", "condition"),
    [
        ({"size": 100}, "t BETWEEN asked_at - 100 AND asked_at"),
        ({"size": 100, "closed": "left"}, "t >= asked_at - 100 AND t < asked_at"),
        ({"size": 100, "closed": "right"}, "t > asked_at - 100 AND t <= asked_at"),
        ({"size": "unbounded", "closed": "neither"}, "t < asked_at"),
        ({"size": 700, "tail": 60}, "t BETWEEN floor((asked_at - 700) / 60) * 60 AND asked_at"),
    ],
)
def test_many_labels_equal_duckdbs_join(over: dict[str, Any], condition: str) -> None:
    connection = duckdb.connect()
    connection.register("asked", ASKED)
    connection.register("events", TABLE)
    each = ", ".join(f"{expression} AS a{at}" for at, (_, expression) in enumerate(FUNCTIONS))
    wanted = connection.sql(
        f"SELECT {each} FROM asked LEFT JOIN events ON who IS NOT DISTINCT FROM k AND {condition} "
        "GROUP BY id ORDER BY id"
    ).to_arrow_table()
    aggs = [function.over(**over).alias(f"a{at}") for at, (function, _) in enumerate(FUNCTIONS)]
    batches = pa.RecordBatchReader.from_batches(TABLE.schema, iter(TABLE.to_batches(max_chunksize=4_999)))
    features = wk.rolling(by="k", time="t", aggs=aggs)
    result = features.at(ASKED, batches, by="who", time="asked_at", threads=2)
    assert result.select(ASKED.column_names).equals(ASKED)
    for at, (function, _) in enumerate(FUNCTIONS):
        assert result[f"a{at}"].to_pylist() == wanted[f"a{at}"].to_pylist(), function


@pytest.mark.parametrize(("closed", "operator"), [("right", ">="), ("left", ">")])
def test_the_last_event_is_that_of_duckdbs_asof_join(closed: str, operator: str) -> None:
    # Of times that do not repeat, so that there is one last event.
    events = TABLE.set_column(1, "t", pa.array(np.random.default_rng(2).permutation(EVENTS)))
    times = np.random.default_rng(3).integers(-9, EVENTS + 9, LABELS)
    asked = ASKED.set_column(2, "asked_at", pa.array(times))
    connection = duckdb.connect()
    connection.register("asked", asked.filter(asked["who"].is_valid()))
    connection.register("events", events)
    wanted = connection.sql(
        f"SELECT id, v FROM asked ASOF LEFT JOIN events ON who = k AND asked_at {operator} t ORDER BY id"
    ).fetchall()
    last = wk.first("v").over("1 row", closed=closed).alias("v")
    # Null is the value of an event, and not what first passes over.
    there = wk.count().over("1 row", closed=closed).alias("there")
    result = wk.rolling(by="k", time="t", aggs=[last, there]).at(asked, events, by="who", time="asked_at")
    got = {row["id"]: (row["v"], row["there"]) for row in result.to_pylist() if row["who"] is not None}
    assert dict(wanted) == {name: value for name, (value, _) in got.items()}
    assert {there for _, there in got.values()} == {0, 1}


def test_many_keys_blocks_and_threads_do_not_matter() -> None:
    chance = np.random.default_rng(4)
    rows, asked = 200_000, 150_000
    events = pa.table(
        {"k": chance.integers(0, 40_000, rows), "t": chance.integers(0, 99, rows), "v": np.ones(rows)}
    )
    labels = pa.table({"k": chance.integers(20_000, 60_000, asked), "t": chance.integers(0, 99, asked)})
    features = wk.rolling(
        by="k", time="t", aggs=[wk.sum("v").over(30).alias("s"), wk.collect_list("t").over(30).alias("l")]
    )
    one = features.at(labels, events, threads=1)
    assert one.select(["k", "t"]).equals(labels)
    assert features.at(labels, events, threads=3).equals(one)
    kept = duckdb.connect()
    kept.register("labels", labels.append_column("id", pa.array(np.arange(asked))))
    kept.register("events", events)
    wanted = kept.sql(
        "SELECT sum(v) s FROM labels LEFT JOIN events ON labels.k = events.k AND events.t "
        "BETWEEN labels.t - 30 AND labels.t GROUP BY id ORDER BY id"
    ).to_arrow_table()
    assert one["s"].to_pylist() == wanted["s"].to_pylist()
    assert [sum(1 for _ in each or ()) or None for each in one["l"].to_pylist()] == [
        None if value is None else int(value) for value in wanted["s"].to_pylist()
    ]


BEGIN = datetime(2024, 5, 1, 12)
PAID = pa.table(
    {
        "user": ["ann", "bob", "ann", "ann", None],
        "ts": pa.array([BEGIN + timedelta(minutes=at) for at in (0, 1, 4, 13, 9)], pa.timestamp("us")),
        "amount": [10.0, 20.0, 30.0, 40.0, 50.0],
    }
)
LOANS = pa.table(
    {
        "user": ["bob", "ann", "eve", "ann", None],
        "ts": pa.array([BEGIN + timedelta(minutes=at) for at in (30, 4, 5, 14, 9)], pa.timestamp("us")),
        "repaid": [True, False, None, True, False],
    }
)
RECENT = wk.rolling(
    by="user",
    time="ts",
    aggs=[
        wk.sum("amount").over("10 minutes").alias("recent"),
        wk.count().over("1 day", closed="left").alias("n"),
    ],
)


@pytest.mark.parametrize("form", ["pyarrow", "pandas", "polars"])
def test_labels_and_events_may_be_of_any_library(form: str) -> None:
    forms = {"pyarrow": lambda table: table, "pandas": pa.Table.to_pandas, "polars": pl.from_arrow}
    labels, paid = forms[form](LOANS), forms[form](PAID)
    # Keys of equal types, in another library.
    for events in (paid, pa.RecordBatchReader.from_stream(paid)):
        result = RECENT.at(labels, events)
        assert isinstance(result, type(labels))
        table = result if form == "pyarrow" else pa.table(result)
        assert table["recent"].to_pylist() == [None, 40.0, None, 70.0, 50.0]
        assert table["n"].to_pylist() == [1, 1, 0, 3, 0]
        assert table.column_names[:3] == ["user", "ts", "repaid"]
    other = RECENT.at(LOANS, PAID, result="polars" if form == "pandas" else "pandas")
    assert list(other["n"]) == [1, 1, 0, 3, 0]


def test_data_frames_keep_their_index_and_categories_are_those_of_the_events() -> None:
    events = pd.DataFrame({"t": [1, 2], "c": pd.Categorical(["a", "b"], categories=["b", "a"], ordered=True)})
    labels = pd.DataFrame({"t": [1, 2, 0], "c": [1.5, 2.5, 3.5]}, index=pd.Index([7, 7, 9], name="id"))
    result = wk.rolling(by=[], time="t", aggs=wk.last("c").over(5).alias("last")).at(labels, events)
    expected = labels.assign(last=pd.Categorical(["a", "b", None], categories=["b", "a"], ordered=True))
    pd.testing.assert_frame_equal(result, expected)
    mine = pl.DataFrame({"t": [1, 2], "c": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"]))})
    result = wk.rolling(by=[], time="t", aggs=wk.last("c").over(5).alias("last")).at(
        pl.DataFrame({"t": [2]}), mine
    )
    assert result.equals(
        pl.DataFrame({"t": [2], "last": pl.Series(["b"], dtype=pl.Enum(["b", "a"]))}), null_equal=True
    )


def test_no_events_no_labels_and_no_batches_have_a_result() -> None:
    features = wk.rolling(
        by="user",
        time="ts",
        aggs=[
            each.over("1 hour")
            for each in (wk.sum("amount"), wk.count(), wk.median("amount"), wk.collect_list("amount"))
        ],
    )
    for events in (PAID.slice(0, 0), pa.RecordBatchReader.from_batches(PAID.schema, [])):
        result = features.at(LOANS, events)
        assert [result.column(at).to_pylist() for at in (3, 4, 5)] == [[None] * 5, [0] * 5, [None] * 5]
        assert not any(result.column(6).to_pylist())
    result = features.at(LOANS.slice(0, 0), PAID)
    assert result.num_rows == 0
    assert result.schema.names == [*LOANS.column_names, *(each.name for each in features.aggs)]


def test_all_columns_of_events_and_names_that_labels_share_with_them() -> None:
    rows = wk.rolling(by="user", time="ts", aggs=wk.collect_rows().over("1 row").alias("amount"))
    result = rows.at(LOANS.select(["user", "ts"]), PAID)
    assert result["amount"][1].as_py() == [
        {"user": "ann", "ts": BEGIN + timedelta(minutes=4), "amount": 30.0}
    ]
    repeated = pa.table(
        [LOANS["user"], LOANS["ts"], LOANS["repaid"], LOANS["repaid"]], ["user", "ts", "x", "x"]
    )
    assert RECENT.at(repeated, PAID).column_names == ["user", "ts", "x", "x", "recent", "n"]


def test_a_users_own_function_is_evaluated_as_of_a_moment() -> None:
    import pyarrow.compute as pc

    joined = wk.aggregate(
        "joined",
        lift=lambda v: pc.cast(v, pa.string()),
        combine=lambda a, b: pc.binary_join_element_wise(a, b, ","),
        lower=lambda states: states,
    )
    features = wk.rolling(by="user", time="ts", aggs=joined("amount").over("2 rows").alias("last two"))
    assert features.at(LOANS, PAID)["last two"].to_pylist() == ["20", "10,30", None, "30,40", "50"]


class TestRefusals:
    """Each before anything is computed."""

    @pytest.mark.parametrize(
        ("arguments", "kind", "says"),
        [
            ({"by": "nosuch"}, wk.UnknownColumn, "by: no column 'nosuch'; there are user, ts, repaid"),
            ({"time": "nosuch"}, wk.UnknownColumn, "time: no column 'nosuch'; there are user"),
            (
                {"by": ["user", "repaid"]},
                wk.InvalidValue,
                "by: user, repaid is given; labels have as many keys",
            ),
            ({"by": []}, wk.InvalidValue, r"by: \(\) is given; .*, whose keys are user"),
            ({"by": 5}, wk.InvalidType, "by: 5 is an int"),
            ({"time": ""}, wk.InvalidValue, "time: "),
            (
                {"by": "repaid"},
                wk.InvalidType,
                "by: column 'repaid' of the labels is bool, and key 'user' of the",
            ),
            ({"time": "repaid"}, wk.InvalidType, "time: column 'repaid' is bool"),
            ({"metrics": 1}, wk.InvalidValue, "metrics: 1 is given without a Spark DataFrame"),
            ({"threads": 0}, wk.InvalidValue, "threads: 0"),
            ({"result": "numpy"}, wk.InvalidValue, "result: 'numpy' is unknown"),
        ],
    )
    def test_arguments(self, arguments: dict[str, Any], kind: type[Exception], says: str) -> None:
        with pytest.raises(kind, match=says):
            RECENT.at(LOANS, PAID, **arguments)

    def test_data_that_is_none(self) -> None:
        with pytest.raises(wk.InvalidType, match="labels: "):
            RECENT.at(5, PAID)
        with pytest.raises(wk.InvalidType, match="events: "):
            RECENT.at(LOANS, [1])
        with pytest.raises(wk.InvalidType, match="events: None has no Arrow interface"):
            RECENT.at(LOANS, None)
        reader = PAID.to_reader()
        with pytest.raises(wk.InvalidValue, match="events: it is the same reader as labels"):
            RECENT.at(reader, reader)

    @pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.date32()])
    def test_times_of_another_type(self, kind: pa.DataType) -> None:
        other = LOANS.set_column(1, "ts", LOANS["ts"].cast(kind, safe=False))
        with pytest.raises(
            wk.InvalidType, match=r"time: column 'ts' of the labels is .*must have one type: cast one"
        ):
            RECENT.at(other, PAID)

    def test_frames_that_look_ahead(self) -> None:
        for over in (
            {"after": "1 hour"},
            {"before": "1 hour", "after": "unbounded"},
            {"before": "5 rows", "after": "1 row"},
        ):
            features = wk.rolling(by="user", time="ts", aggs=wk.count().over(**over))
            with pytest.raises(
                wk.InvalidValue, match=r"aggs: .* reaches beyond its row; what happens after a label"
            ):
                features.at(LOANS, PAID)

    def test_names_that_clash(self) -> None:
        features = wk.rolling(by="user", time="ts", aggs=wk.count().over("1 hour").alias("repaid"))
        with pytest.raises(
            wk.InvalidValue, match=r"two columns 'repaid'; give one of them another name with \.alias"
        ):
            features.at(LOANS, PAID)
        same_name = wk.rolling(by="user", time="ts", aggs=wk.max("amount").over("1 hour").alias("amount"))
        assert same_name.at(LOANS, PAID)["amount"].to_pylist() == [20.0, 30.0, None, 40.0, 50.0]

    def test_times_at_the_limit(self) -> None:
        far = pa.table({"t": pa.array([-(2**63), 5, None])})
        with pytest.raises(wk.Overflow, match="column 't' holds -9223372036854775808"):
            wk.rolling(by=[], time="t", aggs=wk.count().over(5)).at(far, far.slice(1))

    def test_sums_that_overflow_name_the_aggregate(self) -> None:
        big = pa.table({"t": [1, 2], "n": [2**62, 2**62]})
        features = wk.rolling(by=[], time="t", aggs=wk.sum("n").over(5).alias("all of it"))
        with pytest.raises(wk.Overflow, match="all of it"):
            features.at(big, big)
        assert features.at(big.slice(0, 1).select(["t"]), big)["all of it"].to_pylist() == [2**62]


def test_labels_in_another_zone_ask_at_the_same_moments() -> None:
    events = pa.table({"t": pa.array([0, 50, 7200], pa.timestamp("s", "Asia/Tokyo")), "v": [1, 2, 4]})
    labels = pa.table({"t": pa.array([60, 7200], pa.timestamp("s", "UTC"))})
    features = wk.rolling(by=[], time="t", aggs=[wk.sum("v").over("1 minute").alias("total")])
    assert features.at(labels, events)["total"].to_pylist() == [3, 4]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
@pytest.mark.parametrize("other", [pa.string(), pa.large_string(), pa.string_view()])
def test_keys_of_labels_are_strings_of_any_layout(kind: pa.DataType, other: pa.DataType) -> None:
    events = pa.table({"k": pa.array(["a", "b", None], kind), "t": [1, 2, 3]})
    labels = pa.table({"k": pa.array([None, "b", "c"], other), "t": [4, 4, 4]})
    rolling = wk.rolling(by="k", time="t", aggs=wk.count().over(5).alias("n"))
    assert rolling.at(labels, events)["n"].to_pylist() == [1, 1, 0]
