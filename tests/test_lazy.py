"""LazyFrames of Polars: their results are those of DataFrames, and filters and projections reach the rows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from itertools import product
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.io.plugins import register_io_source
from polars.testing import assert_frame_equal

import windowkit as wk

ENGINES = ("in-memory", "streaming")
ROWS = {
    "k": pl.String,
    "n": pl.Int8,
    "f": pl.Float64,
    "e": pl.Enum(["a", "b"]),
    "t": pl.Int64,
    "m": pl.Boolean,
    "v": pl.Int64,
    "x": pl.Int64,
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "k": st.sampled_from(["a", "b", None]),
    "n": st.sampled_from([0, 1, None]),
    "f": st.sampled_from([0.0, -0.0, 1.5, float("nan"), None]),
    "e": st.sampled_from(["a", "b", None]),
    "t": st.integers(-5, 14) | st.none(),
    "m": st.sampled_from([True, False, None]),
    "v": st.sampled_from([-1, 1, 2, None]),
    "x": st.integers(0, 3),
}
WINDOWS: list[tuple[Any, str | dict[str, str] | None]] = [
    (wk.tumbling(10), None),
    (wk.tumbling(10), "previous"),
    (wk.sliding(10, 5), {"n_rows": "zero", "sum(v)": "previous"}),
    (wk.session(4), None),
    (wk.tumbling(rows=3), None),
    (wk.punctuation("m"), None),
    (wk.between("m", "m"), None),
    ([wk.tumbling(10), wk.landmark(7, period=14)], None),
]
AGGS = [
    wk.count().alias("n_rows"),
    wk.sum("v"),
    wk.last("e").alias("last"),
    wk.max(pl.col("v") * 2).alias("double"),
    wk.sum(pl.col("v").cum_sum()).alias("of_all_rows"),
]
ON: dict[str, list[pl.Expr]] = {
    "k": [pl.col("k") == "a", pl.col("k").is_in(["a", "c"]), pl.col("k").is_null(), pl.col("k") > "a"],
    "n": [pl.col("n") > 0, pl.col("n").is_not_null(), ~(pl.col("n") == 1)],
    # Both zeros are one key, so that only one of them is in the result.
    "f": [1 / pl.col("f") > 0, pl.col("f").is_nan(), pl.col("f").cast(pl.String) == "-0.0", pl.col("f") > 1],
    "e": [pl.col("e") == "b", pl.col("e") >= "a"],
    "v": [pl.col("v") > 0, pl.col("v").is_null()],
    "t": [pl.col("t") > 5],
    "n_rows": [pl.col("n_rows") > 1],
    "window_start": [pl.col("window_start") >= 0],
    "s": [pl.col("s") > 0],
}


@st.composite
def frames(draw: st.DrawFn) -> pl.DataFrame:
    rows = draw(st.lists(st.fixed_dictionaries(VALUES), max_size=8))
    return pl.DataFrame({name: [row[name] for row in rows] for name in ROWS}, schema=ROWS)


@st.composite
def conditions(draw: st.DrawFn, names: Sequence[str]) -> pl.Expr:
    """A condition on columns of a result: parts that all hold, some of which are of one column or another."""
    own = [each for name in names for each in ON.get(name, [])]
    parts = draw(st.lists(st.sampled_from(own), min_size=1, max_size=3))
    made = parts[0]
    for each in parts[1:]:
        made = made | each if draw(st.integers(0, 3)) == 0 else made & each
    return made


def check(draw: Any, lazy: pl.LazyFrame, eager: pl.DataFrame) -> None:
    """Compare the rows of both that meet conditions, and those that are taken by place."""
    check_conditions(draw, lazy, eager)
    check_pipelines(draw, lazy, eager)


def check_conditions(draw: Any, lazy: pl.LazyFrame, eager: pl.DataFrame) -> None:
    """Compare some columns of the rows of both that meet a condition, in no order."""
    assert lazy.collect_schema() == eager.schema
    for _ in range(3):
        condition = draw(conditions(eager.columns))
        columns = draw(st.lists(st.sampled_from(eager.columns), min_size=1, unique=True))
        found = lazy.filter(condition).select(columns).collect(engine=draw(st.sampled_from(ENGINES)))
        wanted = eager.filter(condition).select(columns)
        as_text = [pl.col(name).cast(pl.String) for name, kind in wanted.schema.items() if kind == pl.Float64]
        # As text, the zeros differ.
        found, wanted = found.with_columns(as_text), wanted.with_columns(as_text)
        assert_frame_equal(found, wanted, check_row_order=False)


def check_pipelines(draw: Any, lazy: pl.LazyFrame, eager: pl.DataFrame) -> None:
    """Compare the rows of both after some of them are taken, by place or by condition, in any order."""
    for _ in range(3):
        engine = draw(st.sampled_from(ENGINES))
        found, wanted = lazy, eager
        for _ in range(draw(st.integers(1, 4))):
            step = draw(steps(wanted.columns))
            found, wanted = step(found), step(wanted)
        # As text, the zeros differ.
        assert list(map(str, found.collect(engine=engine).rows())) == list(map(str, wanted.rows()))


@st.composite
def steps(draw: st.DrawFn, columns: Sequence[str]) -> Callable[[Any], Any]:
    """Return what takes rows or columns of a frame, whether it is lazy or not."""
    kind = draw(st.sampled_from(["head", "slice", "tail", "select", "filter", "filter"]))
    first, count = draw(st.integers(0, 3)), draw(st.integers(0, 5))
    if kind == "select":
        names = draw(st.lists(st.sampled_from(columns), min_size=1, unique=True))
        return lambda frame: frame.select(names)
    if kind == "filter" and any(name in ON for name in columns):
        condition = draw(conditions(columns))
        return lambda frame: frame.filter(condition)
    taken = {
        "slice": lambda frame: frame.slice(first, count),
        "tail": lambda frame: frame.tail(count),
    }
    return taken.get(kind, lambda frame: frame.head(count))


@given(st.data(), frames())
def test_a_filter_on_a_lazy_result_is_one_on_the_result(data: st.DataObject, rows: pl.DataFrame) -> None:
    windows, fill = data.draw(st.sampled_from(WINDOWS))
    aggs = [*AGGS[:2], *data.draw(st.lists(st.sampled_from(AGGS[2:]), unique_by=str))]
    by = data.draw(st.lists(st.sampled_from(["k", "n", "f", "e"]), min_size=1, unique=True))
    # Called as the column that it is made of.
    other = pl.when(pl.col("k") == "a").then(pl.lit("b")).otherwise(pl.lit("a")).alias("k")
    keys: list[Any] = [other if each == "k" and data.draw(st.booleans()) else each for each in by]
    query = wk.query(by=keys, time="t", windows=windows, aggs=aggs, fill=fill)
    check_conditions(data.draw, query.run(rows.lazy()), query.run(rows))
    # Windows are in no order that is promised. They are in one order, unless keys first come without a time.
    rows = rows.drop_nulls("t")
    check_pipelines(data.draw, query.run(rows.lazy()), query.run(rows))


@given(st.data(), frames())
def test_a_filter_on_lazy_rolling_features_is_one_on_them(data: st.DataObject, rows: pl.DataFrame) -> None:
    frame = data.draw(st.sampled_from(["3 rows", 5]))
    value = data.draw(st.sampled_from(["v", pl.col("v").cum_sum(), pl.col("v") + 1]))
    by = data.draw(st.lists(st.sampled_from(["k", "n", "f", "e"]), unique=True))
    aggs = [wk.sum(value).over(frame).alias("s"), wk.count().over(2).alias("n_rows")]
    rolling = wk.rolling(by=by, time="t", aggs=aggs)
    check(data.draw, rolling.run(rows.lazy()), rolling.run(rows))


@given(st.data(), frames(), frames())
def test_a_filter_on_lazy_labels_is_one_on_them(
    data: st.DataObject, labels: pl.DataFrame, events: pl.DataFrame
) -> None:
    by = data.draw(st.lists(st.sampled_from(["k", "n", "e"]), unique=True))
    rolling = wk.rolling(by=by, time="t", aggs=wk.sum("v").over(8).alias("s"))
    check(data.draw, rolling.at(labels.lazy(), events.lazy()), rolling.at(labels, events))


@given(st.data(), frames())
def test_a_filter_on_lazy_rows_without_duplicates_is_one_on_them(
    data: st.DataObject, rows: pl.DataFrame
) -> None:
    by = data.draw(st.lists(st.sampled_from(["k", "n", "f", "e"]), min_size=1, unique=True))
    distinct = wk.distinct(by, time="t", within=data.draw(st.integers(1, 9)))
    check(data.draw, distinct.run(rows.lazy()), distinct.run(rows))


@given(st.data(), frames(), frames())
def test_a_filter_on_a_lazy_join_is_one_on_it(
    data: st.DataObject, left: pl.DataFrame, right: pl.DataFrame
) -> None:
    by = data.draw(st.lists(st.sampled_from(["k", "n", "f", "e"]), unique=True))
    how = data.draw(st.sampled_from(["inner", "left", "right", "full", "semi", "anti"]))
    columns = data.draw(st.sampled_from([None, ["v", "e"]]))
    near: dict[str, Any] = data.draw(st.sampled_from([{"within": 3}, {"windows": wk.tumbling(10)}]))
    join = wk.join(by=by, left_time="t", right_time="t", how=how, left_columns=columns, **near)
    right = right.rename({"x": "y"})
    check(data.draw, join.run(left.lazy(), right.lazy()), join.run(left, right))


KEYS_AND_ZEROS = pl.DataFrame(
    {"k": ["a", "b", "a"], "f": [-0.0, 0.0, 0.0], "t": [1, 2, 3], "v": [1, 2, None]},
)
OTHER = pl.when(pl.col("k") == "a").then(pl.lit("b")).otherwise(pl.lit("a")).alias("k")


@pytest.mark.parametrize(
    ("made", "condition"),
    [
        (
            # Both zeros are one key.
            lambda rows: wk.rolling(by="f", time="t", aggs=wk.count().over(9).alias("s")).run(rows),
            1 / pl.col("f") > 0,
        ),
        (
            # The key is computed, and called as the column that it is computed of.
            lambda rows: wk.query(by=OTHER, time="t", windows=wk.tumbling(9), aggs=wk.count()).run(rows),
            pl.col("k") == "a",
        ),
        (
            # A row without a partner is in the result, too.
            lambda rows: wk.join(by="k", left_time="t", right_time="t", within=0, how="full").run(rows, rows),
            pl.col("v").is_null(),
        ),
    ],
    ids=["zeros", "computed", "full"],
)
def test_rows_that_others_depend_on_are_not_left_out(made: Callable[[Any], Any], condition: pl.Expr) -> None:
    wanted = made(KEYS_AND_ZEROS).filter(condition)
    assert wanted.height > 0
    assert_frame_equal(made(KEYS_AND_ZEROS.lazy()).filter(condition).collect(), wanted, check_row_order=False)


@pytest.mark.parametrize("engine", ENGINES)
def test_rows_are_cut_before_they_are_filtered_where_the_cut_comes_first(engine: Any) -> None:
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s"))
    calls: list[Callable[[Any], Any]] = [
        lambda data: QUERY.run(data),
        lambda data: rolling.run(data),
        lambda data: rolling.at(data, TABLE),
        lambda data: wk.join(by="k", left_time="t", right_time="t", within=1).run(data, TABLE),
        lambda data: wk.distinct("k", time="t", within=1).run(data),
    ]
    for call in calls:
        lazy, eager = call(TABLE.lazy()), call(TABLE)
        for count, key in product(range(eager.height), "ab"):
            found = lazy.head(count).filter(pl.col("k") == key).collect(engine=engine)
            assert_frame_equal(found, eager.head(count).filter(pl.col("k") == key))


@pytest.mark.parametrize("columns", [None, ["o", "x"]])
@pytest.mark.parametrize("texts", [["p", "q", None], [None] * 3])
def test_objects_of_pandas_beside_a_lazy_frame_have_the_type_of_their_values(
    columns: Any, texts: Any
) -> None:
    other = pd.DataFrame({"k": ["a", "b", "a"], "t": [3, 4, 12], "o": texts, "x": [date(2026, 1, 1)] * 3})
    other = other.astype(object).astype({"t": "int64"})
    join = wk.join(by="k", left_time="t", right_time="t", within=1, how="left", right_columns=columns)
    rolling = wk.rolling(by="k", time="t", aggs=wk.last("o").over(5).alias("last"))
    calls: list[Callable[[Any], Any]] = [
        lambda data: join.run(data, other),
        lambda data: rolling.at(data, other),
    ]
    for call in calls:
        lazy = call(TABLE.lazy())
        assert lazy.collect_schema() == call(TABLE).schema
        assert_frame_equal(lazy.collect(), call(TABLE), check_row_order=False)
    if columns is not None:
        # What Arrow does not hold, and is not read.
        other["z"] = [1j, 2j, 3j]
        assert_frame_equal(join.run(TABLE.lazy(), other).collect(), join.run(TABLE, other))
        assert_frame_equal(rolling.at(TABLE.lazy(), other).collect(), rolling.at(TABLE, other))


@pytest.mark.parametrize("columns", [None, ["wide", "x"]])
def test_what_arrow_does_not_hold_passes_as_it_is(columns: Any) -> None:
    wide = TABLE.with_columns(wide=pl.Series([2**100, None, -1], dtype=pl.Int128))
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s"))
    options: dict[str, Any] = {"left_time": "t", "right_time": "t", "within": 1}
    join = wk.join(by="k", **options, how="full", left_columns=columns, right_columns=columns)
    calls: list[Callable[[Any], Any]] = [
        lambda data: join.run(data, data),
        lambda data: join.run(data, wide),
        lambda data: rolling.run(data),
        lambda data: rolling.at(data, data),
        lambda data: wk.distinct("k", time="t", within=1).run(data),
    ]
    for call in calls:
        lazy, eager = call(wide.lazy()), call(wide)
        assert_frame_equal(lazy.collect(), eager)
        assert_frame_equal(lazy.select("wide", "x").collect(), eager.select("wide", "x"))
    by_wide = wk.join(by="wide", **options)
    with pytest.raises(wk.InvalidValue, match=r"^left: column 'wide': .* Arrow does not hold it"):
        by_wide.run(wide.lazy(), wide.lazy())
    with pytest.raises(wk.InvalidValue, match=r"^right: column 'wide': .* Arrow does not hold it"):
        by_wide.run(wide.lazy().with_columns(pl.lit(1).alias("wide")), wide.lazy())


class Asked:
    """A LazyFrame that notes which columns and conditions are asked of it."""

    def __init__(self, rows: pl.DataFrame) -> None:
        self.columns: list[set[str]] = []
        self.conditions: list[str] = []
        self._rows = rows
        self.frame = register_io_source(self._source, schema=rows.schema)

    def _source(
        self, columns: list[str] | None, condition: pl.Expr | None, rows: int | None, size: int | None
    ) -> Iterator[pl.DataFrame]:
        self.columns.append(set(self._rows.columns if columns is None else columns))
        self.conditions.append("" if condition is None else str(condition))
        made = self._rows if condition is None else self._rows.filter(condition)
        yield made if columns is None else made.select(columns)


ROW = {"k": "a", "n": 1, "f": 0.5, "e": "a", "t": 3, "m": True, "v": 2, "x": 1}
TABLE = pl.DataFrame([ROW, {**ROW, "k": "b", "t": 4}, {**ROW, "t": 12}], schema=ROWS)
QUERY = wk.query(
    by=["k", "f"],
    time="t",
    windows=wk.tumbling(10),
    aggs=[wk.sum("v"), wk.max("x").alias("peak")],
)


def of_a(column: str = "k") -> pl.Expr:
    return pl.col(column) == "a"


REACHED: list[tuple[str, Callable[[pl.LazyFrame], pl.LazyFrame], set[str], str]] = [
    ("query", lambda rows: QUERY.run(rows), {"k", "f", "t", "v", "x"}, ""),
    ("its columns", lambda rows: QUERY.run(rows).select("k", "peak"), {"k", "f", "t", "x"}, ""),
    (
        "its columns and its condition's",
        lambda rows: QUERY.run(rows, where="k = 'a' and peak > 0").select("k"),
        {"k", "f", "t", "x"},
        "",
    ),
    ("its keys", lambda rows: QUERY.run(rows).filter(of_a()), {"k", "f", "t", "v", "x"}, "k"),
    (
        "part",
        lambda rows: QUERY.run(rows).filter(of_a() & (pl.col("peak") > 0)),
        {"k", "f", "t", "v", "x"},
        "k",
    ),
    ("floats", lambda rows: QUERY.run(rows).filter(pl.col("f") > 0), {"k", "f", "t", "v", "x"}, ""),
    (
        "rolling",
        lambda rows: (
            wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s"))
            .run(rows)
            .filter(of_a())
            .select("s", "n")
        ),
        {"k", "t", "v", "n"},
        "k",
    ),
    (
        "distinct",
        lambda rows: wk.distinct("k", time="t", within=5).run(rows).filter(of_a()).select("n"),
        {"k", "t", "n"},
        "k",
    ),
    (
        "labels",
        lambda rows: (
            wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s"))
            .at(rows, TABLE)
            .filter(pl.col("m"))
            .select("s")
        ),
        {"k", "t", "m"},
        "m",
    ),
    (
        "events",
        lambda rows: (
            wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s"))
            .at(TABLE.lazy(), rows)
            .filter(of_a())
        ),
        {"k", "t", "v"},
        "k",
    ),
    (
        "left",
        lambda rows: (
            wk.join(by="k", left_time="t", right_time="u", within=5)
            .run(rows, TABLE.select("k", u="t", w="v"))
            .filter(pl.col("m"))
            .select("w")
        ),
        {"k", "t", "m"},
        "m",
    ),
    (
        "right",
        lambda rows: (
            wk.join(by="k", left_time="u", right_time="t", within=5, how="left")
            .run(TABLE.lazy().select("k", u="t"), rows)
            .filter(of_a())
            .select("v")
        ),
        {"k", "t", "v"},
        "k",
    ),
]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("made", "columns", "condition"), [each[1:] for each in REACHED], ids=[each[0] for each in REACHED]
)
def test_what_reaches_the_rows(
    made: Callable[[pl.LazyFrame], pl.LazyFrame], columns: set[str], condition: str, engine: Any
) -> None:
    asked = Asked(TABLE)
    result = made(asked.frame)
    assert asked.columns == [], "nothing is read before the result is collected"
    assert_frame_equal(result.collect(engine=engine), made(TABLE.lazy()).collect(), check_row_order=False)
    assert asked.columns == [columns]
    (reached,) = asked.conditions
    assert f'col("{condition}")' in reached if condition else reached == ""
    assert "peak" not in reached


def test_rows_are_never_in_memory_as_a_whole() -> None:
    alive = []
    before = pa.total_allocated_bytes()

    def source(*_: Any) -> Iterator[pl.DataFrame]:
        for at in range(100):
            times = pa.array(range(at * 20_000, (at + 1) * 20_000), pa.int64())
            alive.append(pa.total_allocated_bytes() - before)
            frame = pl.from_arrow(pa.table({"t": times, "v": times}), rechunk=False)
            assert isinstance(frame, pl.DataFrame)
            del times
            yield frame

    rows = register_io_source(source, schema={"t": pl.Int64, "v": pl.Int64})
    query = wk.query(by=[], time="t", windows=wk.tumbling(1000), aggs=wk.sum("v").alias("s"))
    found = query.run(rows).select(pl.col("s").sum()).collect().item()
    assert found == sum(range(2_000_000))
    assert len(alive) == 100
    whole = 100 * 20_000 * 8
    assert max(alive) < whole // 4


class TestErrors:
    def test_what_does_not_fit_is_refused_at_once(self) -> None:
        lazy = TABLE.lazy().drop("v")
        with pytest.raises(wk.UnknownColumn, match="'v'"):
            QUERY.run(lazy)
        with pytest.raises(wk.InvalidType, match="column 't' is String"):
            QUERY.run(TABLE.lazy().with_columns(pl.col("t").cast(pl.String)))
        with pytest.raises(wk.InvalidValue, match="threads: 0"):
            QUERY.run(TABLE.lazy(), threads=0)
        with pytest.raises(wk.InvalidValue, match="route: 'rows' is given without a Spark DataFrame"):
            QUERY.run(TABLE.lazy(), route="rows")

    @pytest.mark.parametrize("engine", ENGINES)
    def test_what_the_rows_bring_comes_out_as_it_is(self, engine: Any) -> None:
        huge = TABLE.lazy().with_columns(v=pl.lit(2**62))
        query = wk.query(by=[], time="t", windows=wk.tumbling(100), aggs=wk.sum("v"))
        with pytest.raises(wk.Overflow, match=r"sum\(v\)"):
            query.run(huge).collect(engine=engine)
        few = wk.query(by=[], time="t", windows=wk.sliding(100, 1), aggs=wk.sum("v"), max_windows=5)
        with pytest.raises(wk.InvalidValue, match="max_windows"):
            few.run(TABLE.lazy()).collect(engine=engine)
        broken = TABLE.lazy().with_columns(v=pl.col("k").cast(pl.Int64))
        with pytest.raises(pl.exceptions.InvalidOperationError, match="conversion from"):
            query.run(broken).collect(engine=engine)
        with pytest.raises(pl.exceptions.InvalidOperationError, match="conversion from"):
            query.run(broken, result="pyarrow")

    def test_a_polars_that_is_too_old_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.delattr(pl.LazyFrame, "collect_batches")
        with pytest.raises(wk.InvalidType, match=r"cannot collect it in batches; install .*\.collect\(\)"):
            QUERY.run(TABLE.lazy(), result="pyarrow")


class TestPolars:
    """What Polars calls unstable, and this depends on."""

    def test_a_source_has_these_parameters(self) -> None:
        taken = inspect.signature(register_io_source).parameters
        assert {"io_source", "schema", "validate_schema", "is_pure"} <= taken.keys()
        taken = inspect.signature(pl.LazyFrame.collect_batches).parameters
        assert {"chunk_size", "maintain_order", "lazy"} <= taken.keys()
        assert taken["maintain_order"].default is True, "rows of one time are in the order of their arrival"

    @pytest.mark.parametrize("engine", ENGINES)
    def test_a_source_must_do_what_it_is_asked_for(self, engine: Any) -> None:
        """Polars neither filters nor limits again: a source that ignores it has too many rows."""

        def source(*_: Any) -> Iterator[pl.DataFrame]:
            yield pl.DataFrame({"a": [1, 2, 3]})

        ignoring = register_io_source(source, schema={"a": pl.Int64})
        assert ignoring.filter(pl.col("a") > 1).collect(engine=engine).height == 3

    def test_one_result_that_is_used_twice_is_computed_once(self) -> None:
        asked = Asked(TABLE)
        result = QUERY.run(asked.frame)
        both = result.join(result.select("k", "f", other="peak"), on=["k", "f"]).collect()
        assert both.height == 5
        assert len(asked.columns) in (1, 2)

    def test_it_is_collected_as_often_as_one_likes(self) -> None:
        reader = TABLE.select("k", u="t").to_arrow().to_reader()
        join = wk.join(by="k", left_time="t", right_time="u", within=1)
        result = join.run(TABLE.lazy(), reader)
        assert result.collect().height == result.collect().height == 3

    @pytest.mark.parametrize("engine", ENGINES)
    def test_results_are_data_of_others(self, engine: Any) -> None:
        twice = wk.query(by="k", time="window_start", windows=wk.tumbling(100), aggs=wk.sum("peak"))
        nested = twice.run(QUERY.run(TABLE.lazy())).collect(engine=engine)
        assert sorted(nested.select("k", "sum(peak)").rows()) == [("a", 2), ("b", 1)]
        many = pl.concat([QUERY.run(TABLE.lazy()) for _ in range(8)]).collect(engine=engine)
        assert many.height == 24


@pytest.mark.parametrize("form", ["pyarrow", "pandas", "polars", "duckdb"])
def test_other_forms_of_a_lazy_frames_result_are_computed_at_once(form: Any) -> None:
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5).alias("s"))
    join = wk.join(by="k", left_time="t", right_time="t", within=1)
    calls: list[Callable[[Any], Any]] = [
        lambda data: QUERY.run(data, result=form),
        lambda data: rolling.run(data, result=form),
        lambda data: rolling.at(data, data, result=form),
        lambda data: join.run(data, data, result=form),
        lambda data: wk.distinct("k", time="t", within=1).run(data, result=form),
    ]
    for call in calls:
        lazy, eager = call(TABLE.lazy()), call(TABLE)
        assert type(lazy) is type(eager)
        assert str(lazy) == str(eager)


def test_calls_of_this_process_take_lazy_frames() -> None:
    assert QUERY.batches(TABLE.lazy()).read_all().num_rows == 3
    assert QUERY.schema(TABLE.lazy()) == QUERY.schema(TABLE)
    assert QUERY.explain(TABLE.lazy()) == QUERY.explain(TABLE)
    op = QUERY.operator()
    assert op.push(TABLE.lazy()) == QUERY.operator().push(TABLE)
