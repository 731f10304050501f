"""`where=`: a condition on results is that of filtering them, whatever it says of rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from itertools import product
from random import Random
from typing import Any
from zoneinfo import ZoneInfo

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

import windowkit as wk
from support.conditions import SIGNS, Known, Operand, Row, Truth, conditions, joined
from windowkit.language.conditions import condition
from windowkit.language.pushdown import split
from windowkit.local import where as evaluation

PARIS = ZoneInfo("Europe/Paris")
BEGIN = datetime(2026, 1, 3, tzinfo=timezone.utc)
NAN = math.nan

KEYS: dict[str, tuple[pa.DataType, list[Any], list[tuple[str, Any]]]] = {
    "text": (pa.string(), ["a", "d'1", "", "da", None], [("'a'", "a"), ("'d''1'", "d'1"), ("''", "")]),
    "long text": (pa.large_string(), ["a", "b", None], [("'a'", "a"), ("'aa'", "aa")]),
    "view": (pa.string_view(), ["a", "b", None], [("'a'", "a"), ("'b'", "b")]),
    "codes": (pa.dictionary(pa.int8(), pa.string()), ["b", "a", None], [("'a'", "a"), ("'b'", "b")]),
    "int": (pa.int64(), [-1, 0, 2**60, None], [("-1", -1), ("0", 0), ("0.5", 0.5), ("'2'", 2)]),
    "byte": (pa.uint8(), [0, 1, 255, None], [("-1", -1), ("1", 1), ("256", 256), ("1e0", 1)]),
    "float": (pa.float64(), [0.0, -0.0, 1.5, NAN, -math.inf, None], [("0", 0), ("1.5", 1.5), ("-1e0", -1)]),
    "single": (pa.float32(), [0.0, -0.0, 1.5, NAN, None], [("0.0", 0), ("1.5", 1.5), ("'NaN'", NAN)]),
    "truth": (pa.bool_(), [True, False, None], [("true", True), ("false", False)]),
    "decimal": (
        pa.decimal128(5, 2),
        [Decimal("1.50"), Decimal("-0.01"), None],
        [("1.5", Decimal("1.5")), ("0", 0), ("'1.50'", Decimal("1.5"))],
    ),
    "date": (
        pa.date32(),
        [date(2026, 1, 3), date(2026, 1, 4), None],
        [("'2026-01-03'", date(2026, 1, 3)), ("date '2026-01-04'", date(2026, 1, 4))],
    ),
    "moment": (
        pa.timestamp("ms", "Europe/Paris"),
        [BEGIN, BEGIN + timedelta(hours=1), None],
        # Clocks of the column's zone show an hour more.
        [("'2026-01-03 01:00:00'", BEGIN), ("timestamp '2026-01-03T01:00:00Z'", BEGIN + timedelta(hours=1))],
    ),
    "bytes": (pa.binary(), [b"a", b"b", None], [("'a'", b"a"), ("'c'", b"c")]),
}
PATTERNS = ("text", "long text", "view", "codes")

MINUTE = 60_000_000_000
TIMES: dict[str, tuple[pa.DataType, int]] = {
    "int": (pa.int64(), 1),
    "naive": (pa.timestamp("us"), MINUTE // 1000),
    "nanos": (pa.timestamp("ns", "UTC"), MINUTE),
    "seconds": (pa.timestamp("s", "Europe/Paris"), 60),
}
"""Types of times, and a minute in their units, or one of integers."""


def lengths(time: str, count: int) -> Any:
    """Return a number of minutes, or of integers."""
    return count if time == "int" else f"{count} minutes"


def band(time: str) -> wk.Window:
    if time == "int":
        return wk.band(-20, 30)
    zone = None if time == "naive" else timezone.utc
    start = BEGIN.replace(tzinfo=zone)
    return wk.band(start - timedelta(minutes=20), start + timedelta(minutes=30))


WINDOWS: dict[str, Any] = {
    "tumbling": lambda time: wk.tumbling(lengths(time, 10)),
    "offset": lambda time: wk.tumbling(lengths(time, 10), start_time=lengths(time, 3)),
    "sliding": lambda time: wk.sliding(lengths(time, 25), lengths(time, 10), start_time=lengths(time, 3)),
    "session": lambda time: wk.session(lengths(time, 7)),
    "limited session": lambda time: wk.session(lengths(time, 7), at_most=lengths(time, 12)),
    "gaps": lambda time: wk.session(column="g" if time == "int" else "d"),
    "rows": lambda time: wk.tumbling(rows=2, partial="end"),
    "last rows": lambda time: wk.sliding("3 rows", lengths(time, 10)),
    "time by rows": lambda time: wk.sliding(lengths(time, 15), "2 rows"),
    "landmark": lambda time: wk.landmark(lengths(time, 10), period=lengths(time, 60)),
    "global": lambda time: wk.global_window(),
    "marks": lambda time: wk.punctuation("m"),
    "between": lambda time: wk.between("m", "o"),
    "band": band,
    "days": lambda time: wk.tumbling("1 day", zone="Asia/Kathmandu"),
    "months": lambda time: wk.tumbling("1 month", start_time="2 days"),
    "two": lambda time: [wk.tumbling(lengths(time, 10)), wk.sliding(lengths(time, 30), lengths(time, 15))],
    "two kinds": lambda time: [wk.tumbling(lengths(time, 10)), wk.session(lengths(time, 7))],
    "filled": lambda time: wk.tumbling(lengths(time, 10)),
}
OF_CALENDAR = {"days": ("nanos", "seconds"), "months": ("naive", "nanos", "seconds")}


def literals_of(time: str, units: Sequence[int], kind: pa.DataType) -> list[tuple[str, Any]]:
    """Return times as text, with their values in units of a column."""
    if time == "int":
        return [(str(unit), unit) for unit in units]
    made = []
    for unit in units:
        moment = pa.scalar(unit, pa.timestamp(kind.unit)).cast(pa.timestamp("us"), safe=False).as_py()
        exact = pa.scalar(moment, pa.timestamp(kind.unit)).value
        shown = moment.replace(tzinfo=timezone.utc).astimezone(ZoneInfo(kind.tz or "UTC"))
        made.append((f"'{shown:%Y-%m-%d %H:%M:%S}'", exact))
        typed = f"timestamp '{shown:%Y-%m-%d %H:%M:%S}'" if kind.tz else f"'{shown:%Y-%m-%dT%H:%M:%S}'"
        made.append((typed, exact))
        midnight = shown.replace(hour=0, minute=0)
        of_day = int(midnight.replace(tzinfo=midnight.tzinfo).timestamp())
        made.append((f"date '{midnight:%Y-%m-%d}'", of_day * (TIMES[time][1] // 60)))
    return made


def rows_of(result: pa.Table, names: Sequence[str]) -> list[dict[str, Any]]:
    """Return results with times of windows as integers."""
    columns = []
    for name in names:
        column = result[name]
        is_edge = name.startswith("window_") and pa.types.is_temporal(column.type)
        columns.append((column.cast(pa.int64()) if is_edge else column).to_pylist())
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def counted(rows: list[dict[str, Any]]) -> Counter[str]:
    """Return rows to be compared in any order; both zeros are one key."""
    return Counter(
        repr({name: value + 0.0 if isinstance(value, float) else value for name, value in row.items()})
        for row in rows
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[wk.Query, pa.Table, str, str]:
    """Return a query and rows, with the names of their time and key."""
    named = draw(st.sampled_from(list(WINDOWS)))
    time = draw(st.sampled_from(OF_CALENDAR.get(named, tuple(TIMES))))
    key = draw(st.sampled_from(list(KEYS)))
    kind, values, _ = KEYS[key]
    begin = 0 if time == "int" else int(BEGIN.timestamp()) * (TIMES[time][1] // 60)
    wide = 20_000 if named in OF_CALENDAR else 60
    drawn = draw(
        st.lists(
            st.tuples(
                st.sampled_from(values),
                st.integers(-wide, wide) | st.integers(-4, 4),
                st.none() | st.integers(-3, 3),
                st.booleans(),
            ),
            max_size=25,
        )
    )
    return query_of(named, time), table_of(drawn, kind, time, begin), time, key


def table_of(drawn: Sequence[tuple[Any, ...]], kind: pa.DataType, time: str, begin: int) -> pa.Table:
    """Return rows of a key, minutes from `begin`, a value, and whether the row is marked."""
    kind_of_time, unit = TIMES[time]
    return pa.table(
        {
            "k": pa.array([row[0] for row in drawn], kind),
            "t": pa.array([begin + row[1] * unit for row in drawn], pa.int64()).cast(kind_of_time),
            "v": pa.array([row[2] for row in drawn], pa.int64()),
            "m": pa.array([row[3] for row in drawn], pa.bool_()),
            "o": pa.array([not row[3] for row in drawn], pa.bool_()),
            "g": pa.array([3 + abs(row[1]) % 9 for row in drawn], pa.int64()),
            "d": pa.array([timedelta(minutes=3 + abs(row[1]) % 9) for row in drawn], pa.duration("s")),
        }
    )


def query_of(named: str, time: str) -> wk.Query:
    """Return a query of some windows."""
    return wk.query(
        by="k",
        time="t",
        windows=WINDOWS[named](time),
        aggs=[wk.count().alias("n"), wk.sum("v").alias("s"), wk.first("v").alias("first")],
        fill={"n": "zero", "first": "previous"} if named == "filled" else None,
    )


def operands(query: wk.Query, result: pa.Table, time: str, key: str) -> list[Operand]:
    """Return the columns of a result, with literals at the edges of its windows and elsewhere."""
    # Windows of a zone are shown in it.
    kind, unit = result["window_start"].type, TIMES[time][1]
    edges = {edge: result[f"window_{edge}"].cast(pa.int64()).to_pylist()[:6] for edge in ("start", "end")}
    begin = 0 if time == "int" else int(BEGIN.timestamp()) * (unit // 60)
    times = literals_of(time, sorted({begin, begin + 17 * unit, *edges["start"], *edges["end"]}), kind)
    return [
        Operand("k", "k", KEYS[key][2], likes=key in PATTERNS),
        Operand("`window_start`", "window_start", times),
        Operand("window_end", "window_end", times),
        Operand("n", "n", [("1", 1), ("2", 2)]),
        Operand("s", "s", [("0", 0), ("-1", -1)]),
        Operand("first", "first", [("0", 0)]),
    ]


@given(st.data())
def test_it_is_filtering_the_result(data: st.DataObject) -> None:
    query, table, time, key = data.draw(cases())
    result = query.run(table)
    rows = rows_of(result, query.columns)
    several = st.lists(conditions(operands(query, result, time, key)), min_size=4, max_size=8)
    for known in data.draw(several):
        with pytest.MonkeyPatch.context() as patch:
            # Large conditions are evaluated in parts.
            patch.setattr(evaluation, "MOST", data.draw(st.sampled_from([1, evaluation.MOST])))
            check(query, table, rows, known)
            batches = query.batches(table, where=known.text).read_all()
        assert len(batches) == sum(known.of(row) is True for row in rows)


def check(query: wk.Query, table: pa.Table, rows: list[dict[str, Any]], known: Known) -> None:
    """Compare windows for which a condition holds with those of all windows for which it does."""
    found = query.run(table, where=known.text)
    assert found.schema == query.schema(table)
    expected = counted([row for row in rows if known.of(row) is True])
    assert counted(rows_of(found, query.columns)) == expected, known.text


@pytest.mark.parametrize("named", WINDOWS)
def test_every_comparison_of_starts_and_ends(named: str) -> None:
    """At the edges of windows and beside them, for each way to compare, also beside aggregates."""
    chance = Random(named)
    times = OF_CALENDAR.get(named, tuple(TIMES))
    time = times[list(WINDOWS).index(named) % len(times)]
    unit = TIMES[time][1]
    begin = 0 if time == "int" else int(BEGIN.timestamp()) * (unit // 60)
    wide = 50_000 if named in OF_CALENDAR else 60
    drawn = [(chance.choice("ab"), chance.randint(-wide, wide), chance.randint(-3, 3)) for _ in range(40)]
    table = table_of([(*row, chance.random() < 0.3) for row in drawn], pa.string(), time, begin)
    query = query_of(named, time)
    result = query.run(table)
    rows, kind = rows_of(result, query.columns), result["window_start"].type
    places = [chance.choice(rows)[f"window_{edge}"] + shift for edge in ("start", "end") for shift in (0, 1)]
    if time == "nanos":
        places = [place // 1000 * 1000 for place in places]
    few = Known("n < 2", lambda row: SIGNS["<"](row["n"], 2))
    for edge in ("window_start", "window_end"):
        for sign, place in product(SIGNS, places):
            text = str(place) if time == "int" else f"'{text_of(place, kind)}'"
            one = Known(f"{edge} {sign} {text}", partial(compared, edge, sign, place))
            for known in (one, joined("and", [one, few])):
                check(query, table, rows, known)


def compared(name: str, sign: str, place: int, row: Row) -> Truth:
    """Return whether a column of a row is before, at or after a place."""
    return SIGNS[sign](row[name], place)


def text_of(place: int, kind: pa.DataType) -> str:
    """Return a time as clocks of its zone show it, to the microsecond."""
    moment = pa.scalar(place, pa.timestamp(kind.unit)).cast(pa.timestamp("us")).as_py()
    shown = moment.replace(tzinfo=timezone.utc).astimezone(ZoneInfo(kind.tz or "UTC"))
    return f"{shown:%Y-%m-%d %H:%M:%S}" + (f"{shown:.%f}" if shown.microsecond else "")


def said_of_rows(query: wk.Query, where: str, table: pa.Table) -> str:
    """Return what `explain` says that a condition says of rows."""
    lines = query.explain(table, where=where).splitlines()
    return next(line for line in lines if "of rows, before" in line).split(": ", 1)[1]


TABLE = pa.table(
    {
        "k": ["a", "b"],
        "f": [0.0, NAN],
        "t": pa.array([BEGIN, BEGIN + timedelta(hours=3)], pa.timestamp("us", "UTC")),
        "v": [1, 2],
    }
)
HOUR = wk.tumbling("1 hour")
HOURS = wk.query(by="k", time="t", windows=HOUR, aggs=wk.count().alias("n"))
START = "window_start >= '2026-01-03 01:00:00'"


@pytest.mark.parametrize(
    ("windows", "where", "said"),
    [
        (HOUR, "k = 'a' and n > 1", "k = 'a'"),
        (HOUR, "not (k in ('a', 'b') or n > 1)", "k not in ('a', 'b')"),
        (HOUR, "k = 'a' or n > 1", "nothing"),
        (HOUR, "(k = 'a' and n > 1) or k is null", "k = 'a' or k is null"),
        (HOUR, START, "t >= '2026-01-03 01:00:00'"),
        (HOUR, "window_start <= '2026-01-03'", "t < '2026-01-03' + 1 hour"),
        (
            wk.sliding("2 hours", "1 hour"),
            "window_end > date '2026-01-03'",
            "t > date '2026-01-03' - 2 hours",
        ),
        (
            HOUR,
            "window_end = '2026-01-03 01:00'",
            "t >= '2026-01-03 01:00' - 1 hour and t < '2026-01-03 01:00'",
        ),
        (HOUR, "window_start <> '2026-01-03'", "nothing"),
        (wk.tumbling("1 month"), "window_end >= '2026-01-03'", "t >= '2026-01-03' - 33 days"),
        (wk.session("1 hour"), f"{START} and k = 'a'", "k = 'a'"),
        (wk.tumbling(rows=3), START, "nothing"),
        (wk.global_window(), START, "nothing"),
        (wk.landmark("1 hour", period="1 day"), START, "nothing"),
        ([HOUR, wk.session("1 hour")], START, "nothing"),
        ([HOUR, wk.tumbling("2 hours")], "window_start < '2026-01-03'", "t < '2026-01-03' + 2 hours"),
    ],
)
def test_what_is_said_of_rows(windows: Any, where: str, said: str) -> None:
    query = wk.query(by="k", time="t", windows=windows, aggs=wk.count().alias("n"))
    assert said_of_rows(query, where, TABLE) == said
    assert where in query.explain(TABLE, where=where)


def test_rows_are_not_chosen_by_time_where_windows_are_filled() -> None:
    query = wk.query(by="k", time="t", windows=HOUR, aggs=wk.sum("v"), fill="zero")
    assert said_of_rows(query, f"{START} and k = 'a'", TABLE) == "k = 'a'"


def test_fractions_are_compared_where_readers_that_skip_by_statistics_agree() -> None:
    query = wk.query(by="f", time="t", windows=HOUR, aggs=wk.sum("v"))
    said = {where: said_of_rows(query, where, TABLE) for where in ("f < 1", "f > 1", "f = 0", "f is null")}
    assert said == {"f < 1": "f < 1", "f > 1": "nothing", "f = 0": "nothing", "f is null": "f is null"}
    assert query.run(TABLE, where="f > 1")["sum(v)"].to_pylist() == [2]


def test_rows_are_left_out_before_windows_are_made() -> None:
    """A sum that overflows for a key that is not asked for says so."""
    table = pa.table({"k": ["a", "b", "b"], "t": [1, 1, 1], "v": [1, 2**62, 2**62]})
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("s"))
    with pytest.raises(wk.Overflow):
        query.run(table)
    assert query.run(table, where="k = 'a'")["s"].to_pylist() == [1]
    assert query.run(table, where=wk.expr("k = 'a'"))["s"].to_pylist() == [1]


def test_columns_that_are_computed_and_structs_of_windows() -> None:
    key = pl.col("k").str.to_uppercase().alias("key")
    query = wk.query(by=key, time="t", windows=HOUR, aggs=wk.count(), window_columns="struct")
    where = "key = 'B' and window.end > '2026-01-03 02:00:00' and `count(1)` = 1"
    found = query.run(pl.DataFrame(pl.from_arrow(TABLE)), where=where)
    assert isinstance(found, pl.DataFrame)
    assert found["key"].to_list() == ["B"]
    assert said_of_rows(query, where, TABLE) == "key = 'B' and t > '2026-01-03 02:00:00' - 1 hour"
    with pytest.raises(
        wk.UnknownColumn, match=r"it has 'key', 'window\.start', .* did you mean 'window\.start'"
    ):
        query.explain(TABLE, where="window_start = 1")


@pytest.mark.parametrize(
    ("where", "error", "match"),
    [
        (3, wk.InvalidType, "where: an int is given; where is a condition in SQL"),
        ("", wk.InvalidValue, "where: '' is not a condition, as a condition is missing"),
        ("k = 'a' and", wk.InvalidValue, "as a condition is missing"),
        ("(k = 'a'", wk.InvalidValue, "as a parenthesis is not closed"),
        ("k = 'a')", wk.InvalidValue, r"goes on after a condition, with '\)'"),
        ("K = 'a'", wk.UnknownColumn, "no column 'K'; it has 'k', .*; did you mean 'k'"),
        ("window.begin = 1", wk.UnknownColumn, "no column 'window.begin'; it has 'k', 'window_start', "),
        ("window.start = 1", wk.UnknownColumn, "did you mean 'window_start'"),
        ("upper(k) = 'A'", wk.InvalidValue, r"upper\(k\) = 'A' is not compared in this process"),
        ("k = 'a' or k = v", wk.InvalidValue, "k = v is not compared in this process"),
        ('k = "a"', wk.InvalidValue, "is not compared in this process"),
        ("k = 1", wk.InvalidType, "where: 1 is compared with 'k', a column of string"),
        ("k = 'a\\n'", wk.InvalidValue, "has a backslash"),
        ("n = 'x'", wk.InvalidValue, "where: 'x' is compared with 'n'"),
        ("n like '1%'", wk.InvalidType, "like is asked of n, a column of int64"),
        ("n = date '2026-01-03'", wk.InvalidType, "is compared with n, a column of int64"),
        ("window_start = '2026-13-01'", wk.InvalidValue, "where: '2026-13-01' is compared with"),
        ("(" * 20_000, wk.InvalidValue, "where: .* has too many parentheses within each other"),
        # No quote ends a string; to look for its end from each of them would take minutes.
        ("k = " + "'\\" * 100_000, wk.InvalidValue, "is not compared in this process"),
    ],
    ids=range(19),
)
def test_what_is_no_condition_on_the_result(where: Any, error: type[Exception], match: str) -> None:
    for call in (HOURS.run, HOURS.explain, HOURS.batches):
        with pytest.raises(error, match=match):
            call(TABLE, where=where)


@pytest.mark.parametrize("deep", [1, 32, 63, 64, 65, 66, 100, 120, 150, 200, 300])
@pytest.mark.parametrize("stack", [0, 300])
def test_and_and_or_within_each_other(deep: int, stack: int) -> None:
    text = "k = 'a'"
    for at in range(deep):
        text = f"(n > 5 or {text})" if at % 2 else f"(n > 0 and {text})"

    def call(frames: int, made: Callable[[], Any]) -> Any:
        return made() if frames == 0 else call(frames - 1, made)

    for where in (text, f"not {text}"):
        if deep <= 64:
            assert f"where {where}" in call(stack, lambda where=where: HOURS.explain(TABLE, where=where))
            found = call(stack, lambda where=where: HOURS.run(TABLE, where=where))
            assert found["k"].to_pylist() == (["b"] if where.startswith("not") else ["a"])
            continue
        with pytest.raises(wk.InvalidValue, match="has too many parentheses within each other; AND and OR"):
            call(stack, lambda where=where: HOURS.run(TABLE, where=where))


TEXTS = [pl.String(), pl.Categorical(), pl.Enum(["b", "a", "c"])]


@pytest.mark.parametrize("kind", TEXTS, ids=str)
@pytest.mark.parametrize(
    "test",
    [
        *(
            "{} = 'a'",
            "{} <> 'a'",
            "{} in ('a', 'x')",
            "{} not in ('a', 'x')",
            "{} like 'a%'",
            "not {} like 'a%'",
        ),
        *("{} < 'b'", "{} >= 'b'", "{} is null", "{} between 'a' and 'b' and n = 1", "'b' = {}"),
    ],
)
def test_categories_of_polars_are_compared_as_text(kind: Any, test: str) -> None:
    rows = pl.DataFrame({"k": ["a", "b", None, "c", "a"], "t": [1, 2, 3, 4, 15]})
    aggs = [wk.count().alias("n"), wk.last("k").alias("last"), wk.collect_list("k").alias("all")]
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=aggs, window_columns="flat")
    data = rows.with_columns(pl.col("k").cast(kind))
    for column in ("k", "last"):
        where = test.format(column)
        wanted = query.run(rows, where=where)
        found = query.run(data, where=where)
        assert found.schema == query.run(data).schema
        assert sorted(map(str, found.rows())) == sorted(map(str, wanted.rows()))
        assert_frame_equal(query.run(data.lazy(), where=where).collect(), found, check_row_order=False)
        assert query.batches(data, where=where).read_all().num_rows == found.height
    nested = wk.query(by="s", time="t", windows=wk.tumbling(10), aggs=aggs[0])
    structs = data.select("t", s=pl.struct("k"))
    held = nested.run(structs, where=test.format("s.k"))
    assert held.height == query.run(rows, where=test.format("k")).height


@pytest.mark.parametrize(
    ("where", "wanted"),
    [("v > .5", [1.0]), ("-.5 <= v", [1.0, 0.25]), ("v in (.25, .1)", [0.25]), ("v < .5e0", [0.25, -2.0])],
)
def test_a_number_may_begin_with_its_point(where: str, wanted: list[float]) -> None:
    rows = pa.table({"t": [1, 11, 21], "v": [1.0, 0.25, -2.0]})
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("v").alias("v"))
    assert query.run(rows, where=where)["v"].to_pylist() == wanted


MOMENTS = ["0001-01-01", "1970-01-01", "1970-01-01 00:00:00.5", "1970-01-01 00:00:00.123456", "9999-12-31"]


@given(st.data())
def test_times_are_compared_as_moments_whether_the_column_holds_them_or_not(data: st.DataObject) -> None:
    unit = data.draw(st.sampled_from(["s", "ms", "us", "ns"]))
    zone = data.draw(st.sampled_from([None, "Europe/Paris"]))
    times = [None, datetime(1970, 1, 1, tzinfo=zone and PARIS), datetime(2200, 1, 1, tzinfo=zone and PARIS)]
    table = pa.table({"k": pa.array(times, pa.timestamp(unit, zone)), "t": [1, 2, 3]})
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    literals = [(text, datetime.fromisoformat(text).replace(tzinfo=zone and PARIS)) for text in MOMENTS]
    several = data.draw(st.lists(st.sampled_from(literals), min_size=1, max_size=3))
    sign = data.draw(st.sampled_from([*SIGNS, "in"]))
    if sign == "in":
        written = ", ".join(f"'{text}'" for text, _ in several)
        where, wanted = f"k in ({written})", [each for each in times if each in [one for _, one in several]]
    else:
        text, moment = several[0]
        typed = data.draw(st.sampled_from(["", "date "])) if len(text) == 10 else ""
        where, wanted = f"k {sign} {typed}'{text}'", [each for each in times if SIGNS[sign](each, moment)]
    found = query.run(table, where=where)["k"].cast(pa.timestamp("us", zone)).to_pylist()
    assert sorted(found) == wanted, where


@pytest.mark.parametrize("zone", [None, "Europe/Paris"])
def test_more_digits_of_a_second_are_of_nanoseconds(zone: str | None) -> None:
    where = "k < '1970-01-01 00:00:00.123456789'"
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count())
    begin = 0 if zone is None else -3_600_000_000_000
    keys = pa.array([begin + 123456788, begin + 123456789], pa.int64()).cast(pa.timestamp("ns", zone))
    table = pa.table({"k": keys, "t": [1, 2]})
    assert query.run(table, where=where)["k"].to_pylist() == table["k"][:1].to_pylist()
    micros = table.set_column(0, "k", keys.cast(pa.timestamp("us", zone), safe=False))
    with pytest.raises(
        wk.InvalidValue, match=r"k', a column of timestamp.*; give at most six digits of a second"
    ):
        query.run(micros, where=where)


@pytest.mark.parametrize(
    ("kind", "where", "error", "match"),
    [
        (
            pa.duration("s"),
            "k = 'a'",
            wk.InvalidType,
            r"where: k is a column of duration\[s\], which no literal",
        ),
        (
            pa.time64("us"),
            "k > '10:00'",
            wk.InvalidType,
            "ask whether it is null, or filter the result instead",
        ),
        (pa.list_(pa.int8()), "k in ('a')", wk.InvalidType, "where: k is a column of list"),
        (
            pa.decimal128(20, 2),
            "k = 1e1",
            wk.InvalidValue,
            "rounds to doubles; .* write the number without an exponent, as 10.0",
        ),
        (
            pa.timestamp("s", "Europe/Paris"),
            "k = '2024-03-31 02:30:00'",
            wk.InvalidValue,
            r"in zone 'Europe/Paris' \(.*; give the time with a zone",
        ),
        (pa.int64(), "k = 1" + "0" * 5000, wk.InvalidValue, "where: 1000.* has too many digits"),
        (pa.int64(), "f(k) = '" + "x" * 5000, wk.InvalidValue, r"where: f\(k\) = 'x* \.\.\. is not compared"),
        (pa.int64(), "k = 1 " + "x" * 5000, wk.InvalidValue, r"where: k = 1 x* \.\.\. is not compared"),
        (pa.int64(), "(k = 1 " + "x" * 5000, wk.InvalidValue, "as a parenthesis is not closed"),
        (pa.int64(), "k = 1) " + "x" * 5000, wk.InvalidValue, "goes on after a condition, with"),
    ],
    ids=range(10),
)
def test_messages_say_what_to_do_and_are_short(kind: Any, where: str, error: Any, match: str) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=wk.count())
    with pytest.raises(error, match=match) as raised:
        query.run(pa.table({"k": pa.nulls(1, kind), "t": [1]}), where=where)
    assert len(str(raised.value)) < 600


@pytest.mark.parametrize(
    ("test", "word", "wanted"),
    [("k = 'k{}'", "or", 3), ("s <> {}", "and", 0)],
)
def test_conditions_of_thousands_of_tests(test: str, word: str, wanted: int) -> None:
    """As programs write them; pyarrow alone would end the process."""
    table = pa.table({"k": ["k0", "k1", "k9999", "other"], "t": [1, 2, 3, 4], "v": [5, 6, 7, 8]})
    aggs = [wk.count().alias("n"), wk.sum("v").alias("s")]
    query = wk.query(by="k", time="t", windows=wk.tumbling(10), aggs=aggs)
    text = f" {word} ".join(test.format(number) for number in range(10_000))
    assert len(query.run(table, where=text)) == wanted


def test_explain_needs_types() -> None:
    with pytest.raises(wk.InvalidValue, match=r"where: .* is given without data"):
        HOURS.explain(where="k = 'a'")
    assert "of rows, before anything else: k = 'a'" in HOURS.explain(TABLE.schema, where="k = 'a'")


def test_what_is_not_read_is_taken_whole() -> None:
    """Spark evaluates it; what matters is where it ends."""
    text = (
        "x + 1 between 2 and 3 and case when a and b then c end = 1 and k = 'a' or (a + b) * 2 > c "
        "and not f(k)"
    )
    assert str(condition(text).tree) == (
        "(x + 1 between 2 and 3 and case when a and b then c end = 1 and k = 'a') or "
        "((a + b) * 2 > c and not (f(k)))"
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        # A field may be called as CASE and its end are.
        ("k = 'a' and 3 + w.case > 4 or k = 'b'", "(k = 'a' and 3 + w.case > 4) or k = 'b'"),
        ("case when w.end > 3 and k = 'a' then 1 else 0 end = 1", None),
        ("case when (case when w.end > 3 then a end) and k = 'a' then 1 else 0 end = 1", None),
        # Of columns it is not known where a CASE ends: nothing is said of rows.
        ("k = 'b' and case when end > 3 then true else false end or k = 'a'", None),
        ("k = 'b' and case > 3 or k = 'a' and end < 3", None),
        ("k = 'b' and end > 3", None),
        ("(k = 'b' and case > 3) or k = 'a'", None),
    ],
)
def test_where_a_case_ends(text: str, read: str | None) -> None:
    made = condition(text)
    assert str(made.tree) == (text if read is None else read)
    rows = split(made, HOURS, TABLE.schema).rows
    assert rows is None or read is not None


@pytest.mark.parametrize("sign", ["-", "- ", "-\n", "-\t", "-/* of */", "- -- of\n"])
def test_a_number_may_be_apart_from_its_sign(sign: str) -> None:
    rows = pa.table({"t": [1, 11, 21], "v": [1.0, 0.25, -2.0]})
    query = wk.query(by="v", time="t", windows=wk.tumbling(10), aggs=wk.count())
    assert query.run(rows, where=f"v < {sign}1 and window_start > {sign}\n5")["v"].to_pylist() == [-2.0]
    assert query.run(rows, where="v > +\n0.5")["v"].to_pylist() == [1.0]


@pytest.mark.parametrize(
    "text",
    [
        *(
            "k = 'a' || 'b'",
            "k = 'a' = true",
            "k = 'a' collate x",
            "-k = 1",
            "k is true",
            "k = 5L",
            'k = "a"',
        ),
        *(
            "k in (select 'a')",
            "k like 'a' escape '/'",
            "not k = f('a')",
            "k.x = 1",
            "'a' = 'a'",
            "! k = 'b'",
        ),
    ],
)
def test_what_is_not_read_says_nothing_of_rows(text: str) -> None:
    made = split(condition(f"{text} and k = 'b'"), HOURS, TABLE.schema)
    assert str(made.rows) == "k = 'b'"


@pytest.mark.parametrize(
    ("where", "rows", "windows"),
    [
        ("true", None, True),
        ("false", "false", False),
        ("TRUE", None, True),
        ("not false", None, True),
        ("(true or true) and false", "false", False),
        ("false or not (true and false)", None, True),
        ("k = 'a' and true", "k = 'a'", None),
        ("k = 'a' or false", "k = 'a'", None),
        ("k = 'a' or true", None, True),
        ("k = 'a' and false", "k = 'a' and false", False),
    ],
)
def test_true_and_false_are_conditions(where: str, rows: str | None, windows: bool | None) -> None:
    made = split(condition(where), HOURS, TABLE.schema)
    assert (None if made.rows is None else str(made.rows)) == rows
    every = HOURS.run(TABLE)
    found = HOURS.run(TABLE, where=where)
    assert found.schema == every.schema
    if windows is not None:
        assert found.num_rows == (every.num_rows if windows else 0)
    assert HOURS.batches(TABLE, where=where).read_all() == found
    assert where in HOURS.explain(TABLE, where=where)


def test_a_constant_does_not_hide_what_is_wrong_beside_it() -> None:
    with pytest.raises(wk.UnknownColumn, match="the result has no column 'nope'"):
        HOURS.run(TABLE, where="false and nope = 1")


@pytest.mark.parametrize(
    "given", ["n like 'x%'", "n not like 'x'", "n > timestamp '2026-01-01'", "n in (1, 2)"]
)
def test_nothing_holds_of_a_column_of_no_type(given: str) -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(1), aggs=wk.max("n").alias("n"))
    data = pa.table({"k": ["a", "b"], "t": [1, 2], "n": pa.nulls(2)})
    assert query.run(data, where=given).num_rows == 0
    assert query.run(data, where=f"{given} or k = 'a'")["k"].to_pylist() == ["a"]
    of_keys = wk.query(by="n", time="t", windows=wk.tumbling(1), aggs=wk.count())
    assert of_keys.run(data, where=given).num_rows == 0
