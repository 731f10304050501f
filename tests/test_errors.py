"""Whatever is refused is refused by class, and with a message that says what, and what is allowed."""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pytest

import windowkit as wk
from support.refused import TABLE, query, refused


def test_every_class_is_a_windowkit_error_and_the_fitting_builtin() -> None:
    assert issubclass(wk.InvalidValue, ValueError)
    assert issubclass(wk.InvalidType, TypeError)
    assert issubclass(wk.UnknownColumn, KeyError)
    assert issubclass(wk.Overflow, OverflowError)
    assert issubclass(wk.InternalError, RuntimeError)
    for kind in (wk.InvalidValue, wk.InvalidType, wk.UnknownColumn, wk.Overflow, wk.InternalError):
        assert issubclass(kind, wk.WindowKitError)
        assert str(kind("time: 'x'; allowed")) == "time: 'x'; allowed"


class TestLengths:
    @pytest.mark.parametrize("size", ["0 seconds", "-1 second", 0, -5, timedelta(0), timedelta(seconds=-1)])
    def test_a_size_slide_or_gap_is_positive(self, size: wk.Length) -> None:
        with refused(wk.InvalidValue, "size: ", " is not positive; a size must be greater than zero"):
            wk.tumbling(size)
        with refused(wk.InvalidValue, "gap: ", " is not positive; a gap must be greater than zero"):
            wk.session(size)
        whole = 10 if isinstance(size, int) else "10 seconds"
        with refused(wk.InvalidValue, "slide: ", " is not positive; a slide must be greater than zero"):
            wk.sliding(whole, size)

    @pytest.mark.parametrize(
        "make",
        [wk.session, lambda size: wk.session("1 day", at_most=size), wk.every],
        ids=["session", "at most", "every"],
    )
    def test_calendar_units_are_refused_by_name(self, make: Any) -> None:
        with refused(
            wk.InvalidValue, "'1 month' has the calendar unit 'month'", "; a duration is", "week, day"
        ):
            make("1 month")
        with refused(
            wk.InvalidValue, "'2 years' has the calendar unit 'year'", "; a duration is", "week, day"
        ):
            make("2 years")

    def test_a_slide_is_at_most_the_size(self) -> None:
        with refused(
            wk.InvalidValue,
            "slide: '2 minutes' is greater than size '1 minute'; a sliding window's slide is at most its",
        ):
            wk.sliding("1 minute", "2 minutes")
        with refused(wk.InvalidValue, "slide: 3 is greater than size 2; a sliding window's slide is at most"):
            wk.sliding(2, 3)

    def test_a_start_time_is_less_than_the_slide_either_way(self) -> None:
        for start_time in ("1 minute", "-1 minute", "1 hour"):
            with refused(
                wk.InvalidValue, f"start_time: '{start_time}' is not less than slide '1 minute'; a start"
            ):
                wk.sliding("1 hour", "1 minute", start_time=start_time)
            with refused(
                wk.InvalidValue, f"start_time: '{start_time}' is not less than size '1 minute'; a start"
            ):
                wk.tumbling("1 minute", start_time=start_time)
        with refused(wk.InvalidValue, "start_time: -60 is not less than slide 60; a start_time"):
            wk.sliding(600, 60, start_time=-60)
        # As one gives who aligns windows to a moment.
        with refused(wk.InvalidValue, "backwards; to begin a window at a moment, give what is left of its"):
            wk.sliding("1 hour", "1 minute", start_time=datetime(2023, 1, 1) - datetime(1970, 1, 1))

    def test_the_lengths_of_one_window_are_of_one_kind(self) -> None:
        with refused(
            wk.InvalidType, "slide: 1 is an integer where size '1 minute' is a duration; the lengths of a"
        ):
            wk.sliding("1 minute", 1)
        with refused(
            wk.InvalidType, "start_time: '1 second' is a duration where size 60 is an integer; the len"
        ):
            wk.tumbling(60, start_time="1 second")

    @pytest.mark.parametrize("size", [1.5, None, True, b"1 second", ["1 second"]])
    def test_a_length_is_a_string_a_timedelta_or_an_int(self, size: Any) -> None:
        with refused(wk.InvalidType, f"size: {size!r} is a ", "; a length is a string like '10 minutes'"):
            wk.sliding(size, 5)

    @pytest.mark.parametrize("text", ["", "soon", "10", "10 min", "1.5 minutes"])
    def test_a_string_is_a_duration(self, text: str) -> None:
        with refused(wk.InvalidValue, f"size: {text!r} ", "; a duration is '<number> <unit>' once or more"):
            wk.tumbling(text)


class TestQueries:
    def test_a_query_has_a_window_and_an_aggregate(self) -> None:
        with refused(wk.InvalidValue, "windows: () is empty; a query has at least one window"):
            query(windows=[])
        with refused(wk.InvalidValue, "aggs: () is empty; a query has at least one aggregate"):
            query(aggs=[])

    def test_keys_are_named(self) -> None:
        with refused(wk.InvalidValue, "by: '' is empty; a name has at least one character"):
            query(by="")
        with refused(wk.InvalidValue, "by: '' is empty; a name has at least one character"):
            query(by=["k", ""])

    @pytest.mark.parametrize("by", [1, None, ["k", 1], [None], b"k", [b"k"]])
    def test_keys_are_strings(self, by: Any) -> None:
        with refused(wk.InvalidType, "by: ", "; by is a str or a sequence of str"):
            query(by=by)

    def test_the_time_is_a_named_column(self) -> None:
        with refused(wk.InvalidValue, "time: '' is empty; a name has at least one character"):
            query(time="")
        with refused(wk.InvalidType, "time: ['ts'] is a list; a name is a str"):
            query(time=["ts"])

    @pytest.mark.parametrize("windows", ["tumbling(1 second)", 10, [10], [wk.tumbling(1), None], wk.tumbling])
    def test_windows_are_windows(self, windows: Any) -> None:
        with refused(wk.InvalidType, "windows: ", "; windows is tumbling(...), sliding(...), session(...)"):
            query(windows=windows)

    @pytest.mark.parametrize("aggs", ["sum(v)", wk.sum, [wk.sum], {"v": "sum"}, [wk.count(), None]])
    def test_aggregates_are_aggregates(self, aggs: Any) -> None:
        with refused(wk.InvalidType, "aggs: ", "; aggs is an aggregate like windowkit.sum('v')"):
            query(aggs=aggs)

    @pytest.mark.parametrize(
        ("changed", "name"),
        [
            ({"aggs": [wk.sum("v"), wk.sum("v")]}, "sum(v)"),
            ({"aggs": [wk.sum("v").alias("x"), wk.max("v").alias("x")]}, "x"),
            ({"aggs": [wk.first("v"), wk.first("v", ignore_nulls=True)]}, "first(v)"),
            ({"aggs": wk.sum("v").alias("k")}, "k"),
            ({"aggs": wk.sum("v").alias("window")}, "window"),
            ({"aggs": wk.sum("v").alias("window_end")}, "window_end"),
            ({"by": ["k", "k"]}, "k"),
            ({"by": ["window"]}, "window"),
            ({"by": ["window_start"]}, "window_start"),
            ({"by": "session_window", "windows": wk.session("1 second")}, "session_window"),
            (
                {"by": "window_name", "windows": [wk.tumbling("1 second"), wk.session("1 second")]},
                "window_name",
            ),
        ],
    )
    def test_output_columns_have_different_names(self, changed: dict[str, Any], name: str) -> None:
        with refused(
            wk.InvalidValue, f"query: output column {name!r} occurs twice; output columns must have different"
        ):
            query(**changed)

    @pytest.mark.parametrize(
        "kind", [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
    )
    def test_times_as_text_are_told_how_to_be_parsed(self, kind: pa.DataType) -> None:
        texts = pa.table({"k": ["a"], "ts": pa.array(["2026-01-01"]).cast(kind), "v": [1]})
        with refused(wk.InvalidType, "time: column 'ts' is ", "text is parsed before, by pandas.to_datetime"):
            query().run(texts)

    def test_gaps_as_numbers_are_told_how_to_be_durations(self) -> None:
        rows = TABLE.append_column("gap", pa.array([5] * TABLE.num_rows))
        with refused(
            wk.InvalidType, "'gap', which is int64; allowed are durations", "by pandas.to_timedelta("
        ):
            query(windows=wk.session(column="gap")).run(rows)

    def test_windows_have_different_names(self) -> None:
        with refused(
            wk.InvalidValue, "windows: window 'tumbling(1 minute)' occurs twice; windows must have differ"
        ):
            query(windows=[wk.tumbling("1 minute"), wk.tumbling("60 seconds")])

    def test_gaps_are_lengths_or_of_a_column(self) -> None:
        for series in (pd.Series([1] * 200), pl.Series([1] * 200)):
            for options in ({"gap": series}, {"column": series}):
                with pytest.raises(wk.InvalidType, match=r"is a Series; .* an expression") as raised:
                    wk.session(**options)
                assert len(str(raised.value)) < 300
                assert "\n" not in str(raised.value)
        with refused(wk.InvalidType, "gap: 1.5 is a float; a length is a string", "or the name of a column"):
            wk.session(1.5)  # type: ignore[arg-type]

    @pytest.mark.parametrize("empty", [pa.table({}), pd.DataFrame(), pl.DataFrame(), pl.LazyFrame()])
    def test_a_table_without_columns_has_none(self, empty: Any) -> None:
        for call in (query().run, wk.rolling(by=[], time="ts", aggs=wk.count().over(3)).run):
            with pytest.raises(wk.UnknownColumn, match=r"no column '[a-z]+'; there are none$"):
                call(empty)

    def test_a_column_of_several_types_is_found_by_its_rows(self) -> None:
        frame = pd.DataFrame({"k": [None, "a", 1], "ts": [1, 2, 3]})
        by_key = wk.query(by="k", time="ts", windows=wk.tumbling(5), aggs=wk.count())
        with refused(
            wk.WindowKitError,
            "data: column 'k': it is of pandas, and Arrow does not hold it: ",
            "; row 1 has a str, and row 2 has an int: make all of one type, as by .astype(str)",
        ):
            by_key.run(frame)
        frame["k"] = [0.5, "a", 1]
        with refused(wk.WindowKitError, "; row 0 has a float, and row 1 has a str: make all of one type"):
            by_key.run(frame)

    @pytest.mark.parametrize("make", [wk.sum, wk.count, wk.first])
    def test_an_aggregates_column_is_a_name(self, make: Any) -> None:
        with refused(wk.InvalidType, "column: 3 is an int; a name is a str"):
            make(3)
        with refused(wk.InvalidValue, "column: '' is empty; a name has at least one character"):
            make("")

    @pytest.mark.parametrize("made", [wk.sum("v"), wk.tumbling(1)])
    def test_an_alias_is_a_name(self, made: Any) -> None:
        with refused(wk.InvalidType, "alias: None is a NoneType; a name is a str"):
            made.alias(None)
        with refused(wk.InvalidValue, "alias: '' is empty; a name has at least one character"):
            made.alias("")

    @pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800", "x\udfff"])
    def test_a_name_is_one_that_arrow_can_hold(self, name: str) -> None:
        for make in (wk.sum, wk.sum("v").alias, wk.tumbling(1).alias, lambda by: query(by=by)):
            with refused(wk.InvalidValue, repr(name), "; a name is what Arrow can hold, UTF-8 without NUL"):
                make(name)

    def test_an_aggregate_made_by_hand_is_checked_too(self) -> None:
        with refused(wk.InvalidValue, "function: 'middle' is unknown; functions are ", "var_samp"):
            wk.Aggregate("middle", ("v",), "x")
        with refused(wk.InvalidValue, "columns: () is not for sum, which reads 1 columns"):
            wk.Aggregate("sum", (), "x")
        with refused(wk.InvalidValue, "columns: ('v',) is not for arg_min, which reads 2 columns"):
            wk.Aggregate("arg_min", ("v",), "x")
        with refused(wk.InvalidValue, "parameters: (0.5,) is not for median, which takes 0"):
            wk.Aggregate("median", ("v",), "x", parameters=(0.5,))

    @pytest.mark.parametrize("make", [wk.quantile, wk.approx_quantile])
    def test_a_quantile_is_from_0_to_1(self, make: Any) -> None:
        for q in (-0.1, 1.5, math.nan, 50):
            with refused(
                wk.InvalidValue, f"q: {q!r} is out of range; q is a number from 0 to 1 (0.5 is the median)"
            ):
                make("v", q)
        for wrong in ("0.5", None, True, [0.5]):
            with refused(wk.InvalidType, f"q: {wrong!r} is a ", "; q is a number from 0 to 1"):
                make("v", wrong)

    @pytest.mark.parametrize("make", [wk.approx_count_distinct, wk.hll_sketch])
    def test_the_size_of_a_sketch_is_a_whole_number(self, make: Any) -> None:
        for log2_k in (3, 22, -1, 12.5, math.nan, math.inf):
            with refused(
                wk.InvalidValue, f"log2_k: {log2_k!r} is out of range; log2_k is a whole number from 4 to 21"
            ):
                make("v", log2_k)
        for wrong in ("12", None, True, [12]):
            with refused(
                wk.InvalidType, f"log2_k: {wrong!r} is a ", "; log2_k is a whole number from 4 to 21"
            ):
                make("v", log2_k=wrong)

    def test_the_number_of_most_frequent_values_is_whole(self) -> None:
        for k in (0, -1, 2.5, 2**31, math.nan, math.inf):
            with refused(
                wk.InvalidValue, f"k: {k!r} is out of range; k is a whole number from 1 to 2147483647"
            ):
                wk.top_k("v", k)
        for wrong in ("3", None, True, [3]):
            with refused(wk.InvalidType, f"k: {wrong!r} is a ", "; k is a whole number from 1"):
                wk.top_k("v", wrong)  # type: ignore[arg-type]

    def test_the_share_of_frequent_values_is_above_0(self) -> None:
        for share in (0, 0.0, -0.1, 1.01, 5, math.nan):
            allowed = "share is a number above 0 and at most 1, the part of all values"
            with refused(wk.InvalidValue, f"share: {share!r} is out of range; {allowed}"):
                wk.frequent("v", share)
        for wrong in ("0.5", None, True, [0.5]):
            with refused(wk.InvalidType, f"share: {wrong!r} is a ", "; share is a number above 0"):
                wk.frequent("v", share=wrong)  # type: ignore[arg-type]

    def test_options_are_true_or_false(self) -> None:
        with refused(wk.InvalidType, "discrete: 1 is an int; it is True or False"):
            wk.quantile("v", 0.5, discrete=1)  # type: ignore[arg-type]
        with refused(wk.InvalidType, "times: 'yes' is a str; it is True or False"):
            wk.m4("v", times="yes")  # type: ignore[arg-type]

    def test_an_aggregate_has_one_filter_which_is_a_name(self) -> None:
        with refused(wk.InvalidValue, "where: 'b' is a second filter after 'a'; an aggregate has one"):
            wk.sum("v").where("a").where("b")
        with refused(wk.InvalidType, "where: None is a NoneType; a name is a str"):
            wk.sum("v").where(None)  # type: ignore[arg-type]

    def test_a_function_of_ones_own_is_made_of_functions(self) -> None:
        with refused(wk.InvalidType, "lift: 1 is an int; lift is a function of arrays"):
            wk.aggregate("f", lift=1, combine=max, lower=abs)  # type: ignore[arg-type]
        with refused(wk.InvalidType, "invert: 'x' is a str; invert is a function of arrays"):
            wk.aggregate("f", lift=abs, combine=max, lower=abs, invert="x")  # type: ignore[arg-type]
        with refused(wk.InvalidType, "commutative: None is a NoneType; it is True or False"):
            wk.aggregate("f", lift=abs, combine=max, lower=abs, commutative=None)  # type: ignore[arg-type]
        with refused(wk.InvalidValue, "name: 'f(x)' has a parenthesis"):
            wk.aggregate("f(x)", lift=abs, combine=max, lower=abs)


class TestSchemas:
    """What only the data's schema tells is refused before any row is read, by every way to run a query."""

    def refused(self, made: wk.Query, kind: type[wk.WindowKitError], *parts: str) -> None:
        for ask in (made.run, made.batches, made.schema, made.explain):
            with refused(kind, *parts):
                ask(TABLE)

    @pytest.mark.parametrize(
        ("changed", "argument"),
        [({"by": ["k", "Nope"]}, "by"), ({"time": "Nope"}, "time"), ({"aggs": wk.sum("Nope")}, "agg")],
    )
    def test_an_unknown_column_is_a_key_error_that_lists_the_columns(
        self, changed: dict[str, Any], argument: str
    ) -> None:
        self.refused(
            query(**changed), wk.UnknownColumn, argument, "'Nope'", "; ", "k", "ts", "second", "nested"
        )

    def test_a_column_whose_name_is_not_unique_is_not_guessed(self) -> None:
        table = TABLE.append_column("v", TABLE["n"])
        with pytest.raises(wk.WindowKitError, match=r"'v'.*; "):
            query(aggs=wk.sum("v")).run(table)

    @pytest.mark.parametrize("time", ["v", "k", "flag", "nested"])
    def test_a_time_column_is_an_advancing_measure(self, time: str) -> None:
        self.refused(
            query(time=time),
            wk.InvalidType,
            "time: ",
            f"'{time}'",
            "; ",
            "timestamp",
            "date",
            "duration",
            "integer",
        )

    @pytest.mark.parametrize(
        ("time", "window", "value"),
        [
            ("second", wk.tumbling("100 milliseconds"), "100 milliseconds"),
            ("second", wk.sliding("10 seconds", "1.5 seconds"), "1 second 500 milliseconds"),
            ("ts", wk.session("1 nanosecond"), "1 nanosecond"),
            ("ts", wk.tumbling("1 second", start_time="5 nanoseconds"), "5 nanoseconds"),
            ("day", wk.tumbling("12 hours"), "12 hours"),
            ("day", wk.session("36 hours"), "1 day 12 hours"),
        ],
        ids=str,
    )
    def test_a_duration_is_whole_units_of_its_column(self, time: str, window: wk.Window, value: str) -> None:
        made = query(time=time, windows=window)
        self.refused(made, wk.InvalidValue, window.name, "; ")

    def test_a_duration_does_not_fit_an_integer_column(self) -> None:
        made = query(time="n", windows=wk.sliding("10 minutes", "1 minute"))
        self.refused(made, wk.InvalidType, "sliding(10 minutes, 1 minute)", "'n'", "; ")

    @pytest.mark.parametrize("time", ["ts", "day"])
    def test_an_integer_does_not_fit_a_column_of_times(self, time: str) -> None:
        self.refused(
            query(time=time, windows=wk.session(30)), wk.InvalidType, "session(30)", f"'{time}'", "; "
        )

    @pytest.mark.parametrize(
        ("aggregate", "column"),
        [
            (make(column), column)
            for make in (wk.sum, wk.mean, wk.var_samp, wk.var_pop, wk.stddev_samp, wk.stddev_pop)
            for column in ("k", "day", "ts", "flag", "nested")
            # Sums and means of booleans count what is true.
            if column != "flag" or make not in (wk.sum, wk.mean)
        ],
        ids=str,
    )
    def test_an_aggregate_without_meaning_for_a_type_is_a_type_error(
        self, aggregate: wk.Aggregate, column: str
    ) -> None:
        self.refused(query(aggs=aggregate), wk.InvalidType, "agg", f"'{column}'", "; ", "integers")

    @pytest.mark.parametrize("kind", [pa.map_(pa.string(), pa.int32())], ids=str)
    def test_a_key_that_cannot_be_compared_is_a_type_error(self, kind: pa.DataType) -> None:
        table = pa.table({"k": pa.array([[("a", 1)], None], kind), "n": [1, 2]})
        with refused(wk.InvalidType, "by: ", "; "):
            query(time="n", windows=wk.tumbling(1)).run(table)


class TestTimes:
    @pytest.mark.parametrize("time", [2**63 - 1, -(2**63), 2**63 - 5, -(2**63) + 5])
    @pytest.mark.parametrize("kind", [pa.int64(), pa.timestamp("ns"), pa.duration("s")], ids=str)
    def test_windows_that_leave_the_range_of_times_are_refused(self, time: int, kind: pa.DataType) -> None:
        unit = {pa.timestamp("ns"): "nanoseconds", pa.duration("s"): "seconds"}.get(kind)
        size, slide = (100, 7) if unit is None else (f"100 {unit}", f"7 {unit}")
        table = pa.table({"t": pa.array([0, time], pa.int64()).view(kind)})
        for window in (wk.tumbling(size), wk.sliding(size, slide)):
            with refused(wk.Overflow, "time: ", "'t'", str(time), "; allowed are values from"):
                wk.query(by=[], time="t", windows=window, aggs=wk.count()).run(table)
        if time > 0:
            with refused(wk.Overflow, "time: ", "'t'", str(time), "; allowed are values from"):
                wk.query(by=[], time="t", windows=wk.session(size), aggs=wk.count()).run(table)

    def test_times_well_within_the_range_are_not(self) -> None:
        ends = [-(2**63) + 1_000, 2**63 - 1_000]
        made = wk.query(by=[], time="t", windows=[wk.sliding(100, 50), wk.session(100)], aggs=wk.count())
        result = made.run(pa.table({"t": ends}))
        spans = [*zip(result["window_start"].to_pylist(), result["window_end"].to_pylist(), strict=True)]
        assert {start <= time < end for start, end in spans for time in ends} == {True, False}
        assert len(spans) == 6

    def test_a_null_time_may_hide_any_value(self) -> None:
        hidden = pa.Array.from_buffers(
            pa.int64(), 2, [pa.py_buffer(b"\x01"), pa.array([5, 2**63 - 1]).buffers()[1]]
        )
        made = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
        assert made.run(pa.table({"t": hidden}))["count(1)"].to_pylist() == [1]

    def test_the_longest_lengths_do_not_overflow(self) -> None:
        longest = 2**61 - 1
        for window in (wk.tumbling(longest), wk.sliding(longest, longest - 1), wk.session(longest)):
            made = wk.query(by=[], time="t", windows=window, aggs=wk.count())
            assert made.run(pa.table({"t": [0, 1]}))["count(1)"].to_pylist()[-1] == 2
        for window in (wk.tumbling(longest + 1), wk.session(2**63 - 1)):
            with refused(
                wk.InvalidValue, "windows: ", window.name, "too long", "'t'", "; allowed are lengths below"
            ):
                wk.query(by=[], time="t", windows=window, aggs=wk.count()).run(pa.table({"t": [0]}))

    def test_dates_of_32_bits_bound_their_windows(self) -> None:
        made = wk.query(by=[], time="t", windows=wk.tumbling("7 days"), aggs=wk.count())
        table = pa.table({"t": pa.array([2**31 - 1], pa.int32()).view(pa.date32())})
        with refused(wk.Overflow, "time: ", "'t'", "; allowed are"):
            made.run(table)

    def test_unsigned_times_above_int64_are_refused(self) -> None:
        made = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count())
        with refused(
            wk.InvalidValue, "time: ", "'t'", str(2**63), "; allowed are values up to 9223372036854775807"
        ):
            made.run(pa.table({"t": pa.array([1, 2**63], pa.uint64())}))


class TestOverflow:
    @pytest.mark.parametrize(
        ("kind", "values"),
        [
            (pa.int64(), [2**63 - 1, 1]),
            (pa.int64(), [-(2**63), -1]),
            (pa.uint64(), [2**64 - 1, 1]),
            (pa.duration("us"), [2**63 - 1, 1]),
        ],
        ids=str,
    )
    @pytest.mark.parametrize("window", [wk.tumbling(10), wk.sliding(10, 5), wk.session(1)], ids=str)
    def test_a_sum_that_does_not_fit_is_an_overflow_not_a_wrap(
        self, kind: pa.DataType, values: list[int], window: wk.Window
    ) -> None:
        made = wk.query(by=[], time="t", windows=window, aggs=wk.sum("v"))
        column = (
            pa.array(values, pa.int64()).view(kind) if pa.types.is_temporal(kind) else pa.array(values, kind)
        )
        table = pa.table({"t": [5, 6], "v": column})
        with refused(wk.Overflow, "sum", "does not fit"):
            made.run(table)
        reader = made.batches(table)
        with refused(wk.Overflow, "sum", "does not fit"):
            reader.read_all()

    @pytest.mark.parametrize("count", [20_000, 2])
    def test_a_sum_of_decimals_beyond_38_digits_is_an_overflow(self, count: int) -> None:
        # The mean of the first fits its type, although their sum does not; of the others neither does.
        value = Decimal("9" * 34 if count > 2 else "9" * 38)
        values = pa.array([value], pa.decimal128(38, 0)).take(pa.array([0] * count))
        table = pa.table({"t": [5] * count, "v": values})

        def run(aggregate: wk.Aggregate) -> pa.Table:
            return wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=aggregate).run(table)

        with refused(wk.Overflow, "sum(v)", "does not fit"):
            run(wk.sum("v"))
        if count > 2:
            assert run(wk.mean("v"))["avg(v)"].to_pylist() == [value]
        else:
            with refused(wk.Overflow, "avg(v)", "does not fit"):
                run(wk.mean("v"))
