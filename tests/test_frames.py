"""Columns of pandas and Polars frames that nothing reads: in results they are as they were."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

TIMES = [datetime(2024, 1, 1), datetime(2024, 1, 2), datetime(2024, 1, 9)]
PLAIN = pd.DataFrame(
    {"user": ["a", "a", "b"], "ts": pd.Series(TIMES, dtype="datetime64[us]"), "v": [1.0, 2, 3]}
)
THING = object()
ODD: dict[str, Any] = {
    "objects": PLAIN.assign(x=pd.Series(["x", 1, THING], dtype=object)),
    "large": PLAIN.assign(x=pd.Series([2**70, 1, None], dtype=object)),
    "complex": PLAIN.assign(x=[1j, 2j, 3j]),
    "sparse": PLAIN.assign(x=pd.arrays.SparseArray([0, 1, 0])),
    "Int128": pl.DataFrame(PLAIN).with_columns(x=pl.Series([1, 2**100, 3], dtype=pl.Int128)),
    "Object": pl.DataFrame(PLAIN).with_columns(pl.Series("x", [THING, 2, "z"], dtype=pl.Object)),
}
TWICE = pd.concat([PLAIN, pd.DataFrame({"x": [1, 2, 3]}), pd.DataFrame({"x": [4, 5, 6]})], axis=1)

FEATURES = wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("1 day").alias("recent"))
QUERY = wk.query(by="user", time="ts", windows=wk.tumbling("1 day"), aggs=wk.sum("v"))
DISTINCT = wk.distinct("user", time="ts", within="3 days")


def nearby(how: str = "inner", **options: Any) -> wk.Join:
    return wk.join(by="user", left_time="ts", right_time="at", within="1 day", how=how, **options)


def column(frame: Any, name: str = "x") -> list[Any]:
    return list(frame[name])


def without(frame: Any, name: str) -> Any:
    return frame.drop(columns=name) if isinstance(frame, pd.DataFrame) else frame.drop(name)


def renamed(frame: Any) -> Any:
    names = {"ts": "at", "v": "w"}
    return frame.rename(columns=names) if isinstance(frame, pd.DataFrame) else frame.rename(names)


def alike(frame: Any, of: Any) -> Any:
    return pl.DataFrame(frame) if isinstance(of, pl.DataFrame) else frame


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
class TestWhatArrowDoesNotHold:
    def test_rows_keep_it(self, data: Any) -> None:
        result = FEATURES.run(data)
        assert column(result) == column(data)
        assert column(result, "recent") == [1, 3, 3]
        assert (
            result.dtypes["x" if isinstance(data, pd.DataFrame) else 3]
            == data.dtypes["x" if isinstance(data, pd.DataFrame) else 3]
        )
        assert "recent: double" in FEATURES.explain(data)

    def test_labels_keep_it(self, data: Any) -> None:
        result = FEATURES.at(without(data, "v"), alike(PLAIN, data))
        assert column(result) == column(data)
        assert column(result, "recent") == [1, 3, 3]

    def test_rows_that_are_no_duplicates_keep_it(self, data: Any) -> None:
        assert column(DISTINCT.run(data)) == [column(data)[at] for at in (0, 2)]

    def test_queries_do_not_look(self, data: Any) -> None:
        assert len(QUERY.run(data)) == 3
        assert QUERY.schema(data).names == QUERY.columns
        assert QUERY.explain(data) == QUERY.explain(alike(PLAIN, data))
        assert QUERY.batches(data).read_all().num_rows == 3
        assert QUERY.slices(data).num_rows == 3

    @pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
    def test_left_rows_of_joins_keep_it(self, data: Any, how: str) -> None:
        other = renamed(alike(PLAIN[:1], data))
        result = nearby(how).run(data, other)
        expected = {"inner": (0, 1), "semi": (0, 1), "anti": (2,)}.get(how, (0, 1, 2))
        assert column(result) == [column(data)[at] for at in expected]

    @pytest.mark.parametrize("how", ["inner", "left", "right", "full"])
    def test_right_rows_of_joins_keep_it(self, data: Any, how: str) -> None:
        left = alike(PLAIN[2:], data)
        result = nearby(how).run(left, renamed(data))
        wanted = column(data)[2:] + ([*column(data)[:2]] if how in ("right", "full") else [])
        assert sorted(map(str, column(result))) == sorted(map(str, wanted))


@pytest.mark.parametrize("data", ODD.values(), ids=ODD)
def test_a_result_of_arrow_names_what_arrow_does_not_hold(data: Any) -> None:
    for call in (FEATURES.run, DISTINCT.run):
        with pytest.raises(
            wk.WindowKitError, match=r"^data: column 'x': it is of (pandas|Polars), and Arrow"
        ):
            call(data, result="pyarrow")


class TestObjectsOfPolars:
    """Polars hands on the addresses of objects, which differ where the objects are equal."""

    DATA = pl.DataFrame(PLAIN).with_columns(pl.Series("x", [THING, (1, 2), (1, 2)], dtype=pl.Object))
    OTHER = DATA.rename({"ts": "at", "v": "w"})
    REFUSED = "column 'x': it is of Polars, and Arrow does not hold it: .* objects of Python; make it text"

    @pytest.mark.parametrize("asked", [pl.DataFrame, pl.DataFrame.lazy])
    @pytest.mark.parametrize(
        ("by", "aggs"),
        [("x", wk.count()), ([], wk.count_distinct("x")), ([], wk.last("x")), ([], wk.arg_max("user", "x"))],
    )
    def test_are_not_read(self, asked: Callable[..., Any], by: Any, aggs: wk.Aggregate) -> None:
        query = wk.query(by=by, time="ts", windows=wk.tumbling("1 day"), aggs=aggs)
        data = asked(self.DATA)
        for call in (query.run, query.schema, query.batches, query.explain, query.operator().push):
            with pytest.raises(wk.InvalidType, match=self.REFUSED):
                call(data)
        rolling = wk.rolling(by=by, time="ts", aggs=aggs.over("1 day"))
        for call in (rolling.run, rolling.schema, lambda rows: rolling.at(rows, rows)):
            with pytest.raises(wk.InvalidType, match=self.REFUSED):
                call(data)

    def test_are_no_keys_of_two_tables(self) -> None:
        join = wk.join(by="x", left_time="ts", right_time="at", within="1 day")
        with pytest.raises(wk.InvalidType, match=f"left: {self.REFUSED}"):
            join.run(self.DATA, self.OTHER)
        other = self.OTHER.with_columns(x=pl.lit("a"))
        with pytest.raises(wk.InvalidType, match=f"right: {self.REFUSED}"):
            join.run(self.DATA.with_columns(x=pl.lit("a")), self.OTHER)
        with pytest.raises(wk.InvalidType, match=f"left: {self.REFUSED}"):
            join.schema(self.DATA, other)
        with pytest.raises(wk.InvalidType, match=f"data: {self.REFUSED}"):
            wk.distinct("x", time="ts", within="1 day").run(self.DATA)

    def test_are_no_columns_of_kernels(self) -> None:
        with pytest.raises(wk.InvalidType, match=self.REFUSED):
            wk.kernels.sliding_max(self.DATA["x"], 2)

    def test_are_not_computed(self) -> None:
        made = pl.col("v").map_elements(lambda v: (v,), return_dtype=pl.Object).alias("pair")
        query = wk.query(by=made, time="ts", windows=wk.tumbling("1 day"), aggs=wk.count())
        with pytest.raises(wk.InvalidType, match="'pair' cannot be evaluated: it makes objects of Python"):
            query.run(self.DATA)

    def test_may_be_made_text(self) -> None:
        made = self.DATA.with_columns(pl.Series("x", list(map(str, self.DATA["x"]))))
        query = wk.query(by="x", time="ts", windows=wk.tumbling("1 week"), aggs=wk.count())
        assert set(query.run(made)["x"]) == {str(THING), "(1, 2)"}


def test_two_columns_of_one_name_stay() -> None:
    assert FEATURES.run(TWICE).columns.tolist() == ["user", "ts", "v", "x", "x", "recent"]
    assert DISTINCT.run(TWICE).columns.tolist() == TWICE.columns.tolist()
    assert len(QUERY.run(TWICE)) == 3
    # A join finds columns by name.
    with pytest.raises(wk.InvalidValue, match="left: it has two columns 'x'; rename one"):
        nearby().run(TWICE, renamed(PLAIN))
    assert len(nearby(left_columns=["user", "v"]).run(TWICE, renamed(PLAIN))) == 5


@pytest.mark.parametrize("name", ["user", "ts", "v"])
def test_a_number_is_not_the_text_that_names_a_column(name: str) -> None:
    data = PLAIN.rename(columns={name: "5"}).assign(x=0).rename(columns={"x": 5})
    by, time, value = ("5" if each == name else each for each in ("user", "ts", "v"))
    sums = wk.sum(value).over("1 day").alias("recent")
    rolling = wk.rolling(by=by, time=time, aggs=sums)
    found = rolling.run(data)
    assert found.columns.tolist() == [*data.columns, "recent"]
    assert found["recent"].tolist() == FEATURES.run(PLAIN)["recent"].tolist()
    assert (
        rolling.at(data, data)["recent"].tolist() == rolling.at(data, data.drop(columns=5))["recent"].tolist()
    )
    assert wk.distinct(by, time=time, within="2 days").run(data).columns.tolist() == data.columns.tolist()
    near: dict[str, Any] = {"by": by, "left_time": time, "right_time": time, "within": 0}
    with pytest.raises(wk.InvalidValue, match="left: it has two columns '5'; rename one"):
        wk.join(**near).run(data, PLAIN)
    with pytest.raises(wk.InvalidValue, match="right: it has two columns '5'; rename one"):
        wk.join(**near).run(data.drop(columns=5), data)
    assert len(wk.join(**near, left_columns=[]).run(data, data.drop(columns=5))) == 3


def test_names_of_results_do_not_hide_columns() -> None:
    named = wk.rolling(by="user", time="ts", aggs=wk.sum("v").over("1 day").alias("x"))
    with pytest.raises(wk.InvalidValue, match="the result would have two columns 'x'"):
        named.run(ODD["complex"])
    with pytest.raises(wk.UnknownColumn, match="there are user, ts, v, x"):
        wk.rolling(by="user", time="ts", aggs=wk.sum("w").over("1 day")).run(
            ODD["complex"][["user", "ts", "v", "x"]].assign(x=1)
        )


KINDS: dict[str, Callable[[list[int]], Any]] = {
    "int64": lambda ids: np.array(ids, dtype="int64"),
    "uint8": lambda ids: np.array(ids, dtype="uint8"),
    "float32": lambda ids: np.array(ids, dtype="float32"),
    "datetime64[s]": lambda ids: np.array(ids, dtype="datetime64[s]"),
    "timedelta64[ms]": lambda ids: np.array(ids, dtype="timedelta64[ms]"),
    "object": lambda ids: np.array([f"row {each}" for each in ids], dtype=object),
    "Int32": lambda ids: pd.array(ids, dtype="Int32"),
    "category": lambda ids: pd.Categorical([f"row {each}" for each in ids]),
    "string": lambda ids: pd.array([f"row {each}" for each in ids], dtype="string"),
    "int64[pyarrow]": lambda ids: pd.array(ids, dtype="int64[pyarrow]"),
    "period": lambda ids: pd.PeriodIndex.from_ordinals(ids, freq="D").array,
}
rows_of = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9)), max_size=6)


@given(rows_of, rows_of, st.sampled_from(sorted(KINDS)), st.sampled_from(["inner", "left", "right", "full"]))
def test_rows_that_pass_are_those_that_the_core_pairs(
    lefts: list[tuple[int, int]], rights: list[tuple[int, int]], kind: str, how: str
) -> None:
    """The oracle is the definition, over numbers of rows."""

    def side(rows: list[tuple[int, int]], time: str, number: str) -> pd.DataFrame:
        ids = list(range(len(rows)))
        frame = pd.DataFrame(rows, columns=["k", time], dtype="int64")
        return frame.assign(**{number: KINDS[kind](ids)})

    join = wk.join(by="k", left_time="t", right_time="u", within=2, how=how)
    result = join.run(side(lefts, "t", "left"), side(rights, "u", "right"))
    pairs = [
        (at, to)
        for at, (key, time) in enumerate(lefts)
        for to, (other, its) in enumerate(rights)
        if key == other and abs(time - its) <= 2
    ]
    if how in ("left", "full"):
        pairs += [(at, None) for at in range(len(lefts)) if at not in {one for one, _ in pairs}]  # type: ignore[misc]
    if how in ("right", "full"):
        pairs += [(None, to) for to in range(len(rights)) if to not in {other for _, other in pairs}]  # type: ignore[misc]

    def shown(values: Any) -> list[str]:
        return ["none" if pd.isna(each) else str(each) for each in values]

    given_left, given_right = (
        shown(pd.Series(KINDS[kind](list(range(len(rows)))))) for rows in (lefts, rights)
    )
    wanted = [
        ("none" if at is None else given_left[at], "none" if to is None else given_right[to])
        for at, to in pairs
    ]
    found = zip(shown(result["left"].astype(object)), shown(result["right"].astype(object)), strict=True)
    assert sorted(found) == sorted(wanted)


def test_text_that_nothing_reads_is_not_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Told by what pyarrow is asked to convert, rather than by times."""
    asked: list[str] = []
    original = pd.DataFrame.__arrow_c_stream__

    def watched(self: pd.DataFrame, requested_schema: object = None) -> object:
        asked.extend(map(str, self.columns))
        return original(self, requested_schema)

    monkeypatch.setattr(pd.DataFrame, "__arrow_c_stream__", watched)
    wide = PLAIN.assign(**{f"text{at}": "long text" for at in range(40)})
    FEATURES.run(wide)
    FEATURES.at(wide.drop(columns="v"), wide)
    DISTINCT.run(wide)
    nearby("full").run(wide, renamed(wide))
    assert set(asked) == {"user", "ts", "v", "at"}


def test_an_index_that_has_a_name_is_a_column_of_joins() -> None:
    frame = ODD["complex"].set_index(pd.Index([7, 8, 9], name="id"))
    result = nearby().run(frame, renamed(PLAIN[:1]))
    assert result["id"].tolist() == [7, 8]
    assert result["x"].tolist() == [1j, 2j]
    assert FEATURES.run(frame).index.equals(frame.index)


INDEXES: dict[str, Any] = {
    "several types": [1, "a", 2.5],
    "large": [2**70, 1, 2],
    "complex": [1j, 2j, 3j],
    "objects": [THING, THING, None],
    "levels": pd.MultiIndex.from_tuples([(1, "a"), ("b", 2), (THING, None)]),
    "levels, of which one has a name": pd.MultiIndex.from_tuples(
        [(1, "a"), ("b", 2), (2, 3)], names=[None, "id"]
    ),
    "a name": pd.Index([THING, 1j, "a"], dtype=object, name="id"),
    "the name of a column": pd.Index([THING, 1j, "a"], dtype=object, name="v"),
}


@pytest.mark.parametrize("index", INDEXES.values(), ids=INDEXES)
class TestAnIndexThatArrowDoesNotHold:
    def test_is_not_read(self, index: Any) -> None:
        data = PLAIN.set_axis(index)
        assert QUERY.run(data).equals(QUERY.run(PLAIN))
        assert QUERY.batches(data).schema == QUERY.schema(data) == QUERY.schema(PLAIN)
        assert QUERY.operator().push(data).equals(QUERY.operator().push(PLAIN))
        right = data.rename(columns={"ts": "at", "v": "w"})
        found = nearby(left_columns=["user", "v"], right_columns=["w"]).run(data, right)
        assert found.equals(
            nearby(left_columns=["user", "v"], right_columns=["w"]).run(PLAIN, renamed(PLAIN))
        )

    def test_is_that_of_the_result(self, index: Any) -> None:
        data = PLAIN.set_axis(index)
        for found in (FEATURES.run(data), FEATURES.at(data, data), DISTINCT.run(data)):
            assert list(found.index) == list(data.index.take(found["v"].astype(int) - 1))
            assert found.index.names == data.index.names
        assert FEATURES.schema(data).names[:3] == DISTINCT.schema(data).names[:3] == ["user", "ts", "v"]

    def test_passes_through_joins_if_it_is_a_column(self, index: Any) -> None:
        data = PLAIN.set_axis(index)
        found = nearby("full").run(data, renamed(PLAIN))
        assert len(found) == 5
        is_column = "id" in data.index.names
        assert found.columns.tolist() == ["user", "ts", "v", *["id"] * is_column, "at", "w"]
        if is_column:
            assert set(found["id"]) == set(data.index.get_level_values("id"))


def test_a_level_of_an_index_is_a_key() -> None:
    index = pd.MultiIndex.from_arrays([["a", "a", "b"], TIMES, [THING] * 3], names=["user", "ts", "x"])
    data = PLAIN[["v"]].set_axis(index)
    assert QUERY.run(data).to_dict("list") == QUERY.run(PLAIN).to_dict("list")
    assert FEATURES.run(data)["recent"].tolist() == FEATURES.run(PLAIN)["recent"].tolist()
    assert FEATURES.at(data, data)["recent"].tolist() == FEATURES.run(PLAIN)["recent"].tolist()
    assert DISTINCT.run(data)["v"].tolist() == DISTINCT.run(PLAIN)["v"].tolist()
    found = nearby().run(data, renamed(data.reset_index()))
    assert found["user"].tolist() == nearby().run(PLAIN, renamed(PLAIN))["user"].tolist()
    with pytest.raises(wk.WindowKitError, match="data: column 'x': it is of pandas, and Arrow does not hold"):
        wk.query(by="x", time="ts", windows=wk.tumbling("1 day"), aggs=wk.sum("v")).run(data)
    with pytest.raises(wk.WindowKitError, match="data: column 'x': it is of pandas, and Arrow does not hold"):
        FEATURES.run(data, result="pyarrow")


WAYS_OUT: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "large": (
        [1, 2**70, None],
        "row 1 has an int of more than 64 bits: .* decimals",
        lambda x: x.map(Decimal),
    ),
    "larger": ([10**5000, 1, 2], "row 0 has an int of more than 64 bits: .* text", lambda x: x.map(hash)),
    "complex": ([1j, 2j, 3j], r"row 0 has 1j: .* numpy.abs\(\.\.\.\)", np.abs),
    "complex of numpy": (np.array([1j, 2j, 3j]), r"row 0 has 1j: .* numpy.abs\(\.\.\.\)", np.abs),
    "surrogate": (
        ["a", "b\ud800", None],
        "surrogates not allowed; row 1 has .* half of a character: replace it, as by .str.encode",
        lambda x: x.str.encode("utf-8", "replace").str.decode("utf-8"),
    ),
    "mixed": (
        ["a", pd.NA, 1],
        "row 0 has a str, and row 2 has an int: make all of one",
        lambda x: x.astype(str),
    ),
}


@pytest.mark.parametrize(("values", "message", "way"), WAYS_OUT.values(), ids=WAYS_OUT)
def test_a_way_out_is_named(values: Any, message: str, way: Callable[[Any], Any]) -> None:
    data = PLAIN.assign(x=pd.Series(values, dtype=object if isinstance(values, list) else None))
    query = wk.query(by="x", time="ts", windows=wk.tumbling("1 day"), aggs=wk.count())
    with pytest.raises(wk.WindowKitError, match=f"column 'x': it is of pandas, and Arrow .*{message}"):
        query.run(data)
    given = data["x"].dropna()
    assert len(query.run(PLAIN.assign(x=way(given)).dropna())) == len(given)


def test_a_column_that_is_read_is_there_once() -> None:
    query = wk.query(by="user", time="ts", windows=wk.tumbling("1 day"), aggs=wk.sum("x"))
    for call in (query.run, query.schema, wk.rolling(by=[], time="ts", aggs=wk.sum("x").over(1)).run):
        with pytest.raises(
            wk.InvalidValue, match="data: it has 2 columns 'x', and Arrow finds columns by name"
        ):
            call(TWICE)


class TestTimesWithAndWithoutAZone:
    """Arrow has all of a column with a zone, or none, as the first of them has it."""

    ZONED = datetime(2024, 1, 2, tzinfo=timezone.utc)
    MIXED: ClassVar[dict[str, list[Any]]] = {
        "naive first": [None, TIMES[0], ZONED],
        "zoned first": [ZONED, pd.NaT, TIMES[0]],
        "of pandas": [pd.Timestamp(ZONED), pd.NA, pd.Timestamp(TIMES[0])],
    }

    @pytest.mark.parametrize("times", MIXED.values(), ids=MIXED)
    @pytest.mark.parametrize("form", ["pandas", "pyarrow", "polars"])
    def test_are_refused(self, times: list[Any], form: Any) -> None:
        data = PLAIN.assign(ts=pd.Series(times, dtype=object))
        rows = [row for row, time in enumerate(times) if not pd.isna(time)]
        match = (
            "^(data|labels|events|left): column 'ts': it has times with a zone and times without one; "
            f"row ({rows[0]} has .* row {rows[1]}|{rows[1]} has .* row {rows[0]}) has .*to_datetime"
        )
        for call in (
            QUERY.run,
            FEATURES.run,
            DISTINCT.run,
            lambda data, **form: FEATURES.at(data, PLAIN, **form),
            lambda data, **form: FEATURES.at(PLAIN, data, **form),
            lambda data, **form: nearby().run(data, renamed(PLAIN), **form),
        ):
            with pytest.raises(wk.InvalidValue, match=match):
                call(data, result=form)
        with pytest.raises(wk.InvalidValue, match=match.replace("^(data", "^(schema")):
            DISTINCT.operator(data)

    @pytest.mark.parametrize("times", MIXED.values(), ids=MIXED)
    def test_pass_where_nothing_reads_them(self, times: list[Any]) -> None:
        data = PLAIN.assign(x=pd.Series(times, dtype=object))
        assert len(QUERY.run(data)) == 3
        assert FEATURES.run(data)["x"].equals(data["x"])
        assert FEATURES.schema(data).field("x").type == pa.null()

    def test_of_several_zones_are_moments(self) -> None:
        there = self.ZONED.astimezone(timezone(timedelta(hours=5)))
        data = PLAIN.assign(ts=pd.Series([self.ZONED, there, pd.Timestamp(there)], dtype=object))
        assert QUERY.run(data)["window_start"].nunique() == 1

    def test_of_an_index_are_refused_too(self) -> None:
        data = PLAIN[["user", "v"]].set_axis(pd.Index([*TIMES[:2], self.ZONED], dtype=object, name="ts"))
        with pytest.raises(wk.InvalidValue, match="data: column 'ts': it has times with a zone and times w"):
            QUERY.run(data)


def test_what_is_malformed_is_called_so() -> None:
    bad = pa.table({"user": pa.array([b"\xff"]).view(pa.string()), "ts": [TIMES[0]], "v": [1.0]})
    with pytest.raises(wk.InvalidValue, match="malformed Arrow data"):
        QUERY.run(bad, validate=True)
