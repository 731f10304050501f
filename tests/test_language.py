"""The language: windows, aggregates and queries as values, and their text forms."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, timezone
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

import windowkit as wk
from support.language import NAMES, any_aggregate, any_window
from support.programs import program
from windowkit.language import aggregates, windows


class TestWindows:
    @pytest.mark.parametrize(
        ("window", "text"),
        [
            (wk.tumbling("10 minutes"), "tumbling(10 minutes)"),
            (wk.sliding("10 minutes", "1 minute"), "sliding(10 minutes, 1 minute)"),
            (
                wk.sliding("10 minutes", "1 minute", start_time="15 seconds"),
                "sliding(10 minutes, 1 minute, start_time=15 seconds)",
            ),
            (wk.tumbling(timedelta(minutes=90)), "tumbling(1 hour 30 minutes)"),
            (wk.session("30 seconds"), "session(30 seconds)"),
            (wk.sliding(600, 60), "sliding(600, 60)"),
            (wk.tumbling(600, start_time=-5), "tumbling(600, start_time=-5)"),
            (wk.tumbling(600, start_time=0), "tumbling(600)"),
            (wk.sliding("1 year", "1 month", start_time="0 days"), "sliding(1 year, 1 month)"),
            (wk.tumbling("100 rows"), "tumbling(100 rows)"),
            (wk.tumbling(rows=1, partial="end"), "tumbling(1 row, partial=end)"),
            (wk.sliding("10 rows", "5 seconds"), "sliding(10 rows, 5 seconds)"),
            (
                wk.sliding("10 rows", "5 seconds", start_time="1 second"),
                "sliding(10 rows, 5 seconds, start_time=1 second)",
            ),
            (wk.sliding("10 seconds", wk.rows(100)), "sliding(10 seconds, 100 rows)"),
            (wk.sliding("3 rows", "1 row", partial="end"), "sliding(3 rows, 1 row, partial=end)"),
            (wk.punctuation("done"), "punctuation(done)"),
            (wk.between("hot", "lap, done"), "between(hot, `lap, done`)"),
            (wk.between("hot", "cold", exclusive=True), "between(hot, cold, exclusive)"),
            (wk.session("30 minutes", at_most="4 hours"), "session(30 minutes, at_most=4 hours)"),
            (wk.session("patience"), "session(patience)"),
            (wk.session("`time to wait`", at_most=9), "session(`time to wait`, at_most=9)"),
            (wk.session(column="30 minutes"), "session(`30 minutes`)"),
            (wk.punctuation("lap, done", at="start"), "punctuation(`lap, done`, at=start)"),
            (wk.band(0, 100), "band(0, 100)"),
            (wk.band("1 hour", timedelta(hours=2)), "band(1 hour, 2 hours)"),
            (
                wk.band(date(2024, 1, 31), "2024-02-01T12:00:00.000000001"),
                "band(2024-01-31 00:00:00, 2024-02-01 12:00:00.000000001)",
            ),
            (
                wk.band("2024-01-31 12:00+01:00", datetime(2024, 2, 1, tzinfo=timezone.utc)),
                "band(2024-01-31 11:00:00Z, 2024-02-01 00:00:00Z)",
            ),
            (wk.landmark("1 hour", period="1 day"), "landmark(1 hour, period=1 day)"),
            (
                wk.landmark("1 hour", period="1 day", start_time="6 hours"),
                "landmark(1 hour, period=1 day, start_time=6 hours)",
            ),
            (wk.landmark(5, start=-3), "landmark(5, start=-3)"),
            (wk.global_window(), "global_window()"),
        ],
    )
    def test_the_text_form_is_the_default_name(self, window: wk.Window, text: str) -> None:
        assert str(window) == window.name == text
        assert windows.parse(text) == window

    def test_an_alias_is_the_name_and_follows_the_text_form(self) -> None:
        window = wk.sliding("10 minutes", "1 minute").alias("recent")
        assert window.name == "recent"
        assert str(window) == "sliding(10 minutes, 1 minute) as recent"

    @given(any_window())
    def test_every_window_reads_back_from_its_text(self, window: wk.Window) -> None:
        assert windows.parse(str(window)) == window

    @given(any_window())
    def test_windows_are_values(self, window: wk.Window) -> None:
        copy = pickle.loads(pickle.dumps(window))
        assert copy == window
        assert hash(copy) == hash(window)

    def test_the_same_window_written_differently_is_equal(self) -> None:
        assert wk.tumbling("60 seconds") == wk.tumbling("1 minute") == wk.tumbling(timedelta(minutes=1))
        assert wk.tumbling("1 minute") != wk.tumbling("1 minute").alias("m")
        assert wk.tumbling(60) != wk.tumbling(wk.Duration(60))

    def test_the_text_form_is_read_leniently(self) -> None:
        assert windows.parse(" Sliding( 600 seconds ,1 minute,start_time = -15 seconds )  AS  x y ") == (
            wk.sliding("10 minutes", "1 minute", start_time="-15 seconds").alias("x y")
        )

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "sliding",
            "sliding()",
            "sliding(10 minutes)",
            "sliding(10 minutes, 1 minute, 5 seconds)",
            "sliding(10 minutes, 1 minute) recent",
            "sliding(10 minutes, 1 minute) as",
            "sliding(10 minutes, start_time=1 minute, 1 minute)",
            "sliding(10 minutes, 1 minute, start_time)",
            "sliding(10 minutes, 1 minute, start_times=1 second)",
            "tumbling(10 minutes, 1 minute)",
            "session(1 minute, start_time=1 second)",
            "hopping(10 minutes, 1 minute)",
            "slding(10 minutes, 1 minute)",
            "tumbling(10 minutes))",
            "sliding(10 minutes; 1 minute)",
            "sliding(10 rows, 1 row, partial=end, partial=end)",
            "session(1 minute, partial=end)",
            "band(0)",
            "band(0, end=1)",
            "landmark(1 hour, 1 day)",
            "punctuation()",
            "punctuation(v, start)",
            "punctuation(at=start)",
            "between(hot)",
            "between(hot, cold, at=end)",
            "between(hot, cold, inclusive)",
            "session(1 minute, 1 hour)",
            "session(at_most=1 hour)",
            "global_window(1)",
            "custom(Threshold)",
        ],
    )
    def test_what_is_no_window_is_refused(self, text: str) -> None:
        with pytest.raises(wk.InvalidValue, match=r"window: |size: ") as refusal:
            windows.parse(text)
        assert "10 minutes" in str(refusal.value)

    def test_a_text_form_is_a_str(self) -> None:
        with pytest.raises(wk.InvalidType, match=r"window: 600 is an int; the text form is a str"):
            windows.parse(600)  # type: ignore[arg-type]


class TestAggregates:
    @pytest.mark.parametrize(
        ("aggregate", "function", "name"),
        [
            (wk.count(), "count_all", "count(1)"),
            (wk.count("*"), "count_all", "count(1)"),
            (wk.count("v"), "count", "count(v)"),
            (wk.sum("v"), "sum", "sum(v)"),
            (wk.min("v"), "min", "min(v)"),
            (wk.max("v"), "max", "max(v)"),
            (wk.mean("v"), "mean", "avg(v)"),
            (wk.avg("v"), "mean", "avg(v)"),
            (wk.variance("v"), "var_samp", "variance(v)"),
            (wk.var_samp("v"), "var_samp", "var_samp(v)"),
            (wk.var_pop("v"), "var_pop", "var_pop(v)"),
            (wk.stddev("v"), "stddev_samp", "stddev(v)"),
            (wk.stddev_samp("v"), "stddev_samp", "stddev_samp(v)"),
            (wk.stddev_pop("v"), "stddev_pop", "stddev_pop(v)"),
            (wk.first("v"), "first", "first(v)"),
            (wk.first("v", ignore_nulls=True), "first_valid", "first(v)"),
            (wk.last("v"), "last", "last(v)"),
            (wk.last("v", ignore_nulls=True), "last_valid", "last(v)"),
        ],
    )
    def test_default_names_are_those_of_spark(
        self, aggregate: wk.Aggregate, function: str, name: str
    ) -> None:
        assert (aggregate.function, aggregate.name) == (function, name)
        assert aggregates.parse(str(aggregate)) == aggregate

    @given(any_aggregate())
    def test_every_aggregate_reads_back_from_its_text(self, aggregate: wk.Aggregate) -> None:
        assert aggregates.parse(str(aggregate)) == aggregate

    @given(NAMES)
    def test_a_count_of_rows_reads_back_under_any_name(self, name: str) -> None:
        assert aggregates.parse(str(wk.count().alias(name))) == wk.count().alias(name)

    @given(any_aggregate())
    def test_aggregates_are_values(self, aggregate: wk.Aggregate) -> None:
        copy = pickle.loads(pickle.dumps(aggregate))
        assert copy == aggregate
        assert hash(copy) == hash(aggregate)

    @pytest.mark.parametrize(
        ("text", "aggregate"),
        [
            ("count(*)", wk.count()),
            ("COUNT()", wk.count()),
            ("count(1)", wk.count()),
            ("count(`1`)", wk.count("1")),
            ("count( v ) as n", wk.count("v").alias("n")),
            ("Avg(v)", wk.mean("v")),
            ("mean(v)", wk.mean("v")),
            ("sum(some column) AS total cpu", wk.sum("some column").alias("total cpu")),
            ("sum(`a,b(c)`)", wk.sum("a,b(c)")),
            ("sum(`a``b`)", wk.sum("a`b")),
            ("first(v, ignore_nulls)", wk.first("v", ignore_nulls=True)),
            ("last(v,ignore_nulls) as x", wk.last("v", ignore_nulls=True).alias("x")),
        ],
    )
    def test_the_text_form_is_read_leniently(self, text: str, aggregate: wk.Aggregate) -> None:
        assert aggregates.parse(text) == aggregate

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "sum",
            "sum()",
            "sum(a, b)",
            "sum(a,)",
            "middle(v)",
            "sum(v, ignore_nulls)",
            "first(v, skip)",
            "sum(`v)",
            "sum(`a`b)",
            "sum(v) total",
            "sum(v) as",
            "sum(sum(v))",
            "sum(v) as `x",
        ],
    )
    def test_what_is_no_aggregate_is_refused(self, text: str) -> None:
        with pytest.raises(wk.InvalidValue, match=r"^aggregate: "):
            aggregates.parse(text)

    def test_ignore_nulls_is_a_bool(self) -> None:
        with pytest.raises(wk.InvalidType, match=r"ignore_nulls: 'v' is a str; it is True or False"):
            wk.first("v", "v")  # type: ignore[arg-type]


class TestQueries:
    def test_one_of_anything_needs_no_list(self) -> None:
        one = wk.query(by="k", time="ts", windows=wk.tumbling(10), aggs=wk.sum("v"))
        assert one == wk.query(by=["k"], time="ts", windows=[wk.tumbling(10)], aggs=[wk.sum("v")])

    def test_queries_are_values(self) -> None:
        query = wk.query(
            by=["a", "b"],
            time="ts",
            windows=[wk.sliding("10 minutes", "1 minute"), wk.session("30 seconds").alias("visit")],
            aggs=[wk.sum("v"), wk.first("v", ignore_nulls=True).alias("opening")],
        )
        copy = pickle.loads(pickle.dumps(query))
        assert copy == query
        assert hash(copy) == hash(query)
        with pytest.raises(AttributeError):
            query.time = "other"  # type: ignore[misc]

    @pytest.mark.parametrize(
        ("window_list", "struct"),
        [
            ([wk.tumbling(10)], ["k", "window", "sum(v)"]),
            ([wk.session(10)], ["k", "session_window", "sum(v)"]),
            ([wk.session(10), wk.session(20)], ["k", "window_name", "session_window", "sum(v)"]),
            ([wk.session(10), wk.tumbling(20)], ["k", "window_name", "window", "sum(v)"]),
        ],
    )
    def test_output_columns_are_keys_window_and_aggregates(
        self, window_list: list[wk.Window], struct: list[str]
    ) -> None:
        query = wk.query(by="k", time="ts", windows=window_list, aggs=wk.sum("v"))
        name = ["window_name"] if len(window_list) > 1 else []
        assert query.columns == ["k", *name, "window_start", "window_end", "sum(v)"]
        assert replace(query, window_columns="struct").columns == struct

    def test_inputs_are_each_column_once(self) -> None:
        query = wk.query(
            by=["k", "v"], time="ts", windows=wk.tumbling(1), aggs=[wk.sum("v"), wk.count(), wk.max("ts")]
        )
        assert query.inputs == ["k", "v", "ts"]


class TestExplain:
    QUERY = wk.query(
        by=["k", "j"],
        time="ts",
        windows=[
            wk.sliding("10 minutes", "7 minutes", start_time="1 minute"),
            wk.tumbling("1 hour"),
            wk.session("30 seconds").alias("visit"),
            wk.session("90 seconds"),
        ],
        aggs=[wk.sum("v"), wk.mean("v"), wk.count("v"), wk.stddev("v"), wk.var_pop("v"), wk.first("v", True)],
    )

    def test_it_tells_classes_slices_and_sharing(self) -> None:
        session = "context aware, but its fragments merge, so that no rows are stored"
        assert self.QUERY.explain().splitlines() == [
            "query by k, j over ts",
            "windows",
            "  sliding(10 minutes, 7 minutes, start_time=1 minute): context free; a row is in 1 or 2 of them",
            "  tumbling(1 hour): context free; a row is in one of them",
            f"  session(30 seconds) as visit: {session}",
            f"  session(1 minute 30 seconds): {session}",
            "slices, of each key",
            "  begin every 7 minutes shifted by 1 minute, and every 7 minutes shifted by 4 minutes, and "
            "every 1 hour, and after 30 seconds without rows",
            "  store sum(v), count(v), moments(v), first(v, ignore_nulls)",
            "panes, to compare (Li 2008, Eq. 6.1, 6.3)",
            "  sliding(10 minutes, 7 minutes, start_time=1 minute): 1 minute long, 10 per window; "
            "7 panes per slide, or 2 slices; they pay from 13 rows of a key per window on",
            "windows from slices",
            "  tumbling: a window joins its own slices",
            "  sliding: O(1) per window, by Subtract-on-Evict for what is invertible, else by Two-Stacks",
            "  session: slices no further apart than the gap are joined",
            "aggregates from what slices store",
            "  sum(v): sum(v); distributive, associative, commutative",
            "  avg(v): sum(v) and count(v); algebraic, associative, commutative",
            "  count(v): count(v); distributive, associative, commutative, invertible",
            "  stddev(v): moments(v); algebraic, associative, commutative",
            "  var_pop(v): moments(v); algebraic, associative, commutative",
            "  first(v): first(v, ignore_nulls); distributive, associative, commutative",
        ]

    @pytest.mark.parametrize(
        ("time", "unit"),
        [
            (pa.timestamp("s"), "seconds"),
            (pa.timestamp("ns", "UTC"), "nanoseconds"),
            (pa.duration("us"), "microseconds"),
        ],
        ids=str,
    )
    def test_a_schema_adds_units_and_output_types_and_changes_nothing_else(
        self, time: pa.DataType, unit: str
    ) -> None:
        # Without a schema, values are taken for floats, whose sums have no inverse.
        schema = pa.schema({"k": pa.string(), "j": pa.date32(), "ts": time, "v": pa.float32()})
        lines = self.QUERY.explain(schema).splitlines()
        without = self.QUERY.explain().splitlines()
        assert lines[0] == f"{without[0]}, which counts {unit}"
        assert lines[1 : len(without)] == without[1:]
        assert lines[len(without)] == "output"
        assert lines[len(without) + 1] == "  k: string"
        assert lines[-1] == "  first(v): float"
        assert self.QUERY.explain(schema.empty_table()).splitlines() == lines

    def test_dates_and_integers_have_units_too(self) -> None:
        days = wk.query(by=[], time="d", windows=wk.tumbling("7 days"), aggs=wk.count())
        text = days.explain(pa.schema({"d": pa.date32()}))
        assert text.startswith("query by nothing over d, which counts days\n")
        assert "slices, of all rows\n  begin every 7 days\n  store count(*)\n" in text
        assert "  tumbling: a window is a slice\n" in text
        integers = wk.query(by=[], time="n", windows=wk.sliding(10, 4), aggs=wk.count())
        text = integers.explain(pa.schema({"n": pa.uint8()}))
        assert text.startswith("query by nothing over n, which is an integer\n")
        assert "  begin every 4, and every 4 shifted by 2\n" in text

    def test_aggregates_share_what_slices_store(self) -> None:
        aggs = [
            wk.mean("v"),
            wk.sum("v"),
            wk.stddev("v"),
            wk.m4("v"),
            wk.m4("v", times=True).alias("line"),
            wk.max("v").where("ok"),
            wk.geometric_mean("v"),
            wk.median("v"),
            wk.quantile("v", 0.9),
            wk.count_distinct("v"),
            wk.collect_list("v"),
            wk.collect_rows("v", "is it"),
            wk.collect_rows(),
            wk.approx_quantile("v", 0.1),
            wk.approx_count_distinct("v"),
            wk.hll_sketch("v"),
            wk.approx_count_distinct("v", log2_k=10),
            wk.arg_max("w", by="v"),
            wk.count().where("is it"),
        ]
        lines = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=aggs).explain().splitlines()
        stored = "sum(v), count(v), moments(v), min(v), max(v), first(v, ignore_nulls), last(v, ignore_nulls)"
        stored += ", arg_min(t, v), arg_max(t, v), max(v) where ok, log_sum(v), values(v), list(v)"
        stored += ", rows(v, is it), rows(*), sketch(v)"
        stored += ", hyperloglog(v, 12), hyperloglog(v, 10), arg_max(w, v), count(*) where `is it`"
        assert f"  store {stored}" in lines
        commutes = "associative, commutative"
        assert lines[lines.index("aggregates from what slices store") + 1 :] == [
            f"  avg(v): sum(v) and count(v); algebraic, {commutes}",
            f"  sum(v): sum(v); distributive, {commutes}",
            f"  stddev(v): moments(v); algebraic, {commutes}",
            "  m4(v): min(v) and max(v) and first(v, ignore_nulls) and last(v, ignore_nulls); "
            f"algebraic, {commutes}",
            "  line: arg_min(t, v) and arg_max(t, v) and first(v, ignore_nulls) and last(v, ignore_nulls); "
            f"algebraic, {commutes}",
            f"  max(v) FILTER (WHERE ok): max(v) where ok; distributive, {commutes}",
            f"  geometric_mean(v): log_sum(v) and count(v); algebraic, {commutes}",
            f"  median(v): values(v); holistic, {commutes}, invertible",
            f"  percentile(v, 0.9, 1): values(v); holistic, {commutes}, invertible",
            f"  count(DISTINCT v): values(v); holistic, {commutes}, invertible",
            f"  collect_list(v): list(v); holistic, {commutes}",
            f"  collect_rows(v, is it): rows(v, is it); holistic, {commutes}",
            f"  collect_rows(): rows(*); holistic, {commutes}",
            f"  approx_quantile(v, 0.1): sketch(v); algebraic, {commutes}",
            f"  approx_count_distinct(v, 12): hyperloglog(v, 12); algebraic, {commutes}",
            f"  hll_sketch_agg(v, 12): hyperloglog(v, 12); algebraic, {commutes}",
            f"  approx_count_distinct(v, 10): hyperloglog(v, 10); algebraic, {commutes}",
            f"  max_by(w, v): arg_max(w, v); distributive, {commutes}",
            f"  count(1) FILTER (WHERE is it): count(*) where `is it`; distributive, {commutes}, invertible",
        ]

    @pytest.mark.parametrize("kind", [pa.int64(), pa.float64(), pa.decimal128(9, 2)], ids=str)
    def test_only_exact_sums_are_invertible(self, kind: pa.DataType) -> None:
        query = wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.sum("v"))
        (line,) = (
            line
            for line in query.explain(pa.schema({"t": pa.int64(), "v": kind})).splitlines()
            if line.startswith("  sum(v): sum(v); ")
        )
        assert line.endswith(", invertible") != pa.types.is_floating(kind)


def test_importing_the_package_needs_neither_spark_nor_pandas_nor_polars() -> None:
    printed = program(
        """
        import sys
        import windowkit as wk
        wk.query(by=[], time="t", windows=wk.tumbling("1 day"), aggs=wk.count())
        print([name for name in ("pyspark", "pandas", "polars", "duckdb") if name in sys.modules])
        """
    )
    assert printed == "[]\n"


@pytest.mark.parametrize(
    ("expression", "way"),
    [(pl.col("a") * 2, "df.with_columns"), (pc.field("a") * 2, "table.append_column")],
    ids=["polars", "pyarrow"],
)
def test_where_only_names_are_taken_expressions_are_refused(expression: Any, way: str) -> None:
    """The message says how the library makes a column of its expression."""
    sides = {"left_time": "t", "right_time": "t", "within": 1}
    calls: list[Callable[[], object]] = [
        lambda: wk.punctuation(expression),
        lambda: wk.between(expression, "b"),
        lambda: wk.on(expression),
        lambda: wk.join(by=expression, **sides),
        lambda: wk.join(by="k", **sides | {"left_time": expression}),
        lambda: wk.distinct(expression, time="t", within=1),
        lambda: wk.count().alias(expression),
    ]
    for call in calls:
        with pytest.raises(wk.InvalidType, match=rf"compute the column first, by {way}"):
            call()


def test_what_says_that_it_is_iterable_and_is_not() -> None:
    """As columns of Ibis and of Spark do."""
    import ibis

    column = ibis.memtable({"k": ["a"], "t": [1]}).k
    with pytest.raises(wk.InvalidType, match=r"(?s)by: .* is a StringColumn; by is a str or a sequence"):
        wk.query(by=column, time="t", windows=wk.tumbling(1), aggs=wk.count())


def test_sessions_are_not_told_of_zones() -> None:
    """They have none: only windows with a zone are pointed to it."""
    schema = pa.schema({"t": pa.timestamp("us", "America/New_York")})
    for each, is_told in [(wk.session("1 day"), False), (wk.tumbling("1 day"), True)]:
        explained = wk.query(by=[], time="t", windows=each, aggs=wk.count()).explain(schema)
        assert ("days are those of UTC" in explained) == is_told
