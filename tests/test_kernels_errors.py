"""What `wk.kernels` refuses, by class and with a message that says what was given and what is allowed."""

from __future__ import annotations

import re
import warnings
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk
from windowkit import kernels

VALUES = pa.array([1, 2, 3, 4])
TIMES = pa.array([0, 1, 2, 3])
STAMPS = pa.array([0, 1, 2, 3], pa.timestamp("s"))


def refused(kind: type[wk.WindowKitError], *parts: str) -> Any:
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))


def rolled(**changed: Any) -> pa.Array:
    return kernels.sliding(**({"array": VALUES, "size": 2, "agg": "sum"} | changed))


def timed(**changed: Any) -> Any:
    return kernels.sliding_by(**({"array": VALUES, "times": TIMES, "size": 2, "agg": "sum"} | changed))


class TestLengths:
    @pytest.mark.parametrize("length", [0, -1, -(2**62)])
    def test_sizes_and_slides_are_positive(self, length: int) -> None:
        for name in ("size", "slide"):
            with refused(wk.InvalidValue, f"{name}: {length} is too small; a {name} is at least 1 row"):
                rolled(**{name: length})
            with refused(
                wk.InvalidValue, f"{name}: {length} is not positive; a {name} must be greater than zero"
            ):
                timed(**({"size": 2} | {name: length}))
        with refused(wk.InvalidValue, "size: '0 seconds' is not positive"):
            timed(times=STAMPS, size="0 seconds")

    @pytest.mark.parametrize("length", [1.5, "2", None, True, [2]])
    def test_rows_are_ints(self, length: Any) -> None:
        for name in ("size", "slide"):
            with refused(
                wk.InvalidType, f"{name}: {length!r} is a ", "; a number of rows is an int of at least 1"
            ):
                rolled(**{name: length})

    def test_numpy_integers_are_ints(self) -> None:
        assert rolled(size=np.int8(2), slide=np.uint64(2)).to_pylist() == [3, 7]

    def test_lengths_that_fit_nowhere(self) -> None:
        with refused(wk.InvalidValue, f"size: {2**63} is out of range"):
            rolled(size=2**63)
        with refused(wk.InvalidValue, "size: ", "is out of range"):
            timed(size=2**63)
        with refused(wk.InvalidValue, "size: ", "is too long; allowed are lengths below 2^61 units"):
            timed(size=2**62)
        with refused(wk.InvalidValue, "size: there would be ", " windows, more than memory holds"):
            rolled(size=2**62, partial="both")
        with refused(wk.InvalidValue, "size: there would be ", " windows, more than memory holds"):
            timed(times=pa.array([0, 1, 2, 2**60]), size=2**60, slide=1)

    def test_a_slide_beyond_the_size_samples(self) -> None:
        assert rolled(size=1, slide=3).to_pylist() == [1, 4]
        assert timed(size=1, slide=2).to_pydict() == {"start": [0, 2], "end": [1, 3], "value": [1, 3]}

    @pytest.mark.parametrize("count", [3, 2**40])
    def test_min_periods_beyond_the_size(self, count: int) -> None:
        with refused(wk.InvalidValue, f"min_periods: {count} is greater than size 2; a window has"):
            rolled(min_periods=count)
        assert timed(min_periods=4).to_pylist() == [None] * 4

    def test_numbers_of_values(self) -> None:
        for call in (rolled, timed):
            with refused(wk.InvalidValue, "min_periods: -1 is out of range; it is an int of at least 0"):
                call(min_periods=-1)
            with refused(wk.InvalidType, "min_periods: 1.0 is a float; it is an int of at least 0"):
                call(min_periods=1.0)
            with refused(wk.InvalidValue, "ddof: -1 is out of range; it is an int of at least 0"):
                call(agg="var", ddof=-1)
            with refused(wk.InvalidType, "ddof: 'x' is a str"):
                call(agg="var", ddof="x")
            for agg in set(kernels.FUNCTIONS) - {"var", "std"}:
                with refused(wk.InvalidValue, f"ddof: 1 was given with agg '{agg}'; only 'var' and 'std'"):
                    call(agg=agg, ddof=1)

    def test_rows_of_a_call(self) -> None:
        for rows in (-1, 2**32, 2**63):
            with refused(wk.InvalidValue, f"rows: {rows} is out of range", "below 2**32"):
                kernels.extents(rows, 2)
        assert kernels.extents(2**32 - 1, 2**32 - 1).to_pydict() == {
            "segment": [0],
            "start": [0],
            "end": [2**32 - 1],
        }

    def test_algorithms_of_windows_over_streams(self) -> None:
        with refused(wk.InvalidValue, "algorithm: 'daba' is unknown", "kernels.Window, which has 'daba'"):
            rolled(algorithm="daba")

    def test_lengths_and_times_of_two_kinds(self) -> None:
        with refused(wk.InvalidType, "size: a duration was given, but times are integers; allowed are"):
            timed(size="2 seconds")
        with refused(wk.InvalidType, "size: 2 was given, but times count seconds; allowed are durations"):
            timed(times=STAMPS)
        with refused(wk.InvalidType, "slide: 1 is an int, but size is a duration; both are of one kind"):
            timed(times=STAMPS, size="2 seconds", slide=1)
        with refused(wk.InvalidValue, "slide: 1500000000 nanoseconds were given, but times count seconds"):
            timed(times=STAMPS, size="3 seconds", slide="1.5 seconds")
        with refused(wk.InvalidValue, "'1 month' has the calendar unit 'month'"):
            timed(times=STAMPS, size="1 month")


class TestNames:
    def test_functions(self) -> None:
        for call in (rolled, timed):
            with refused(wk.InvalidValue, "agg: 'median' is unknown; allowed are 'sum', 'mean'", "'last'"):
                call(agg="median")
            with refused(wk.InvalidType, "agg: 3 is an int; it is a str"):
                call(agg=3)

    def test_ends(self) -> None:
        with refused(wk.InvalidValue, "partial: 'left' is unknown; allowed are 'none', 'start'"):
            rolled(partial="left")
        with refused(wk.InvalidValue, "closed: 'start' is unknown; allowed are 'both', 'right'"):
            timed(closed="start")

    def test_ends_that_have_no_meaning(self) -> None:
        with refused(wk.InvalidValue, "closed: 'both' was given with a slide; windows that begin at fixed"):
            timed(slide=1, closed="both")
        with refused(wk.InvalidValue, "start_time: 1 was given without a slide; windows that end with a row"):
            timed(start_time=1)

    def test_algorithms(self) -> None:
        for call in (rolled, timed):
            with refused(wk.InvalidValue, "algorithm: 'daba' is unknown; allowed are 'auto', 'recalculate'"):
                call(algorithm="daba")

    @pytest.mark.parametrize(
        ("algorithm", "agg", "kind", "why"),
        [
            (
                "subtract_on_evict",
                "sum",
                pa.float64(),
                "no exact inverse for sum of double",
            ),
            ("subtract_on_evict", "mean", pa.float32(), "no exact inverse for mean of float"),
            ("subtract_on_evict", "var", pa.int8(), "needs an inverse, and var has none"),
            ("subtract_on_evict", "first", pa.int8(), "needs an inverse, and first has none"),
            ("tumbling", "sum", pa.int8(), "is for windows that do not overlap, and these do"),
            (
                "two_stacks_simd",
                "count",
                pa.int8(),
                "nothing to compute for count",
            ),
            ("two_stacks_simd", "min", pa.decimal128(5, 2), "has no lanes for min of decimal128(5, 2)"),
        ],
    )
    def test_what_an_algorithm_cannot_do(self, algorithm: str, agg: str, kind: pa.DataType, why: str) -> None:
        with refused(wk.InvalidValue, f"algorithm: '{algorithm}' ", why, "; 'auto' takes one that can"):
            rolled(array=pa.array([1, 2, 3], pa.int8()).cast(kind), algorithm=algorithm, agg=agg)


class TestColumns:
    @pytest.mark.parametrize(
        ("kind", "agg", "allowed"),
        [
            (pa.string(), "sum", "integers, floats, decimal128 and durations"),
            (
                pa.string(),
                "min",
                "integers, floats, decimal128, booleans, dates",
            ),
            (pa.bool_(), "sum", "integers, floats, decimal128 and durations"),
            (pa.timestamp("s"), "mean", "integers, floats, decimal128 and durations"),
            (pa.date32(), "sum", "integers, floats, decimal128 and durations"),
            (pa.duration("s"), "var", "integers, floats and decimal128"),
            (pa.list_(pa.int8()), "argmax", "integers, floats, decimal128, booleans"),
            (pa.decimal256(50, 2), "sum", "integers, floats, decimal128 and durations"),
            (pa.dictionary(pa.int8(), pa.string()), "max", "integers, floats, decimal128, booleans"),
        ],
        ids=str,
    )
    def test_types_without_meaning(self, kind: pa.DataType, agg: str, allowed: str) -> None:
        with refused(wk.InvalidType, f"array: {agg} is not defined for values of ", allowed):
            rolled(array=pa.array([None, None], kind), agg=agg)
        with refused(wk.InvalidType, f"array: {agg} is not defined for values of type "):
            kernels.explain(pa.array([None, None], kind), 2, agg=agg)

    @pytest.mark.parametrize(
        "data", [[1, 2], 3, None, "values", iter([1])], ids=lambda data: type(data).__name__
    )
    def test_what_is_no_column(self, data: Any) -> None:
        with refused(wk.InvalidType, "array: ", "has no Arrow interface; allowed are"):
            rolled(array=data)
        with refused(wk.InvalidType, "times: "):
            timed(times=data)

    def test_tables_are_no_columns(self) -> None:
        class Plain:
            def __init__(self) -> None:
                self.columns = ["v"]

        for table in (
            pa.table({"v": [1]}),
            pa.record_batch({"v": [1]}),
            pl.DataFrame(),
            pl.LazyFrame({"v": [1]}),
            pd.DataFrame(),
            Plain(),
        ):
            # A lazy frame warns whoever asks which columns it has.
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                with refused(wk.InvalidType, "array: a ", " is a table; give one of its columns"):
                    rolled(array=table)
                with refused(wk.InvalidType, "values: a ", " is a table; give one of its columns"):
                    kernels.Window("sum", "int64").insert(table)

    def test_arrays_that_pyarrow_cannot_make(self) -> None:
        for data in (np.array([[1, 2]]), np.array([object()]), pd.Series([1j])):
            with refused(wk.InvalidType, "array: pyarrow cannot convert a ", " to an array"):
                rolled(array=data)


class TestTimes:
    def test_unsorted(self) -> None:
        for slide in (None, 1):
            with refused(wk.InvalidValue, "times: row 2 is before row 1; times must not decrease"):
                timed(times=pa.array([0, 5, 4, 6]), slide=slide)
        assert timed(times=pa.array([5, 6, 0, 1]), segments=[0, 2, 4]).to_pylist() == [1, 3, 3, 7]
        with refused(wk.InvalidValue, "times: row 3 is before row 2; times must not decrease within a group"):
            timed(times=pa.array([5, 6, 1, 0]), segments=[0, 2, 4])

    def test_nulls(self) -> None:
        for times in (pa.array([0, None, 2, 3]), pa.array([0, None, 2, 3]).dictionary_encode()):
            with refused(wk.InvalidValue, "times: row 1 is null; every value has a time"):
                timed(times=times)

    def test_as_many_as_values(self) -> None:
        with refused(wk.InvalidValue, "times: 2 times for 4 values; every value has a time"):
            timed(times=pa.array([0, 1]))

    @pytest.mark.parametrize("kind", [pa.float64(), pa.string(), pa.bool_(), pa.time32("s")], ids=str)
    def test_types(self, kind: pa.DataType) -> None:
        with refused(wk.InvalidType, "times: an array of ", "; times are timestamps, dates"):
            timed(times=pa.array([None] * 4, kind))

    def test_beyond_the_range(self) -> None:
        with refused(wk.Overflow, "times: a window would reach beyond the range of 64-bit integers"):
            timed(times=pa.array([0, 1, 2, 2**63 - 1]), slide=1)
        assert timed(times=pa.array([-(2**63), 1, 2, 2**63 - 1])).to_pylist() == [1, 2, 5, 4]
        with refused(wk.InvalidValue, f"holds {2**63}; allowed are values up to {2**63 - 1}"):
            timed(times=pa.array([0, 1, 2, 2**63], pa.uint64()))
        days = pa.array([0, 1, 2, 2**31 - 2], pa.int32()).cast(pa.date32())
        with refused(wk.Overflow, "would end at day"):
            timed(times=days, size="3 days", slide="3 days")


class TestSegments:
    @pytest.mark.parametrize(
        ("segments", "why"),
        [
            ([0, 3, 2, 4], "offset 2 is 2, after 3; offsets must not decrease, as groups do not overlap"),
            ([1, 4], "the first offset is 1; offsets begin with 0"),
            ([2, 4], "put a 0 before run ends"),
            ([0, 3], "the last offset is 3; offsets end with the number of rows, 4"),
            ([0, 5], "the last offset is 5; offsets end with the number of rows, 4"),
            ([], "no offsets; there is one more than there are groups"),
            (pa.array([0, None, 4]), "1 offsets are null"),
            (pa.array([0, 2**63], pa.uint64()), "an offset is above 2^63"),
            (pa.RunEndEncodedArray.from_arrays([2, 3], ["a", "b"]), "the last offset is 3"),
        ],
        ids=str,
    )
    def test_offsets_cover_all_rows_once(self, segments: Any, why: str) -> None:
        for call in (rolled, timed):
            with refused(wk.InvalidValue, "segments: ", why):
                call(segments=segments)
        with refused(wk.InvalidValue, "segments: ", why):
            kernels.extents(4, 2, segments=segments)

    def test_types(self) -> None:
        with refused(wk.InvalidType, "segments: an array of double was given; segments are integer offsets"):
            rolled(segments=pa.array([0.0, 4.0]))
        with refused(wk.InvalidType, "segments: 'a' is a str; offsets are ints"):
            rolled(segments=["a"])
        with refused(wk.InvalidType, "segments: an int has no Arrow interface"):
            rolled(segments=4)

    def test_ranges_are_offsets(self) -> None:
        assert rolled(segments=range(0, 5, 2)).to_pylist() == [3, 7]
        with refused(
            wk.InvalidValue, "segments: the last offset is 3; offsets end with the number of rows, 4"
        ):
            rolled(segments=range(4))

    def test_runs_are_in_one_chunk(self) -> None:
        # A run that ends a chunk may go on in the next.
        runs = pc.run_end_encode(pa.array(["a", "a", "b"]))
        chunked = pa.chunked_array([runs.slice(0, 1), runs.slice(1)])
        with refused(wk.InvalidValue, "segments: run-end encoded data in 2 chunks; combine the chunks"):
            kernels.extents(3, 2, segments=chunked)
        assert kernels.extents(3, 2, segments=pa.chunked_array([runs]))["start"].to_pylist() == [0]

    def test_rows_of_extents(self) -> None:
        with refused(wk.InvalidValue, "rows: -1 is out of range"):
            kernels.extents(-1, 2)


class TestExplain:
    def test_it_takes_what_a_call_takes(self) -> None:
        floats = pa.array([1.0, 2.0, 3.0])
        times = pa.array([0, 1, 2])
        both = kernels.explain(floats, 1, agg="sum", times=times)
        assert both.startswith("two_stacks_simd: ")
        alone = kernels.explain(floats, 1, agg="sum", times=times, closed="right", min_periods=1)
        assert alone == "tumbling: windows do not overlap"
        kernels.explain(floats, 2, 2, agg="var", times=times, start_time=1, ddof=0)

    def test_groups_of_one_window_each_are_disjoint(self) -> None:
        column = pa.array(range(8))
        assert kernels.explain(column, 4, agg="min", segments=[0, 4, 8]).startswith("tumbling: ")
        assert kernels.explain(column, 4, agg="min", segments=[0, 3, 8]).startswith("two_stacks_simd: ")
        for segments, windows in (([0, 4, 8], 2), ([0, 2, 8], 3), ([0, 0, 4, 8], 2)):
            for algorithm in ("auto", "recalculate"):
                found = kernels.sliding_min(column, 4, segments=segments, algorithm=algorithm)
                assert len(found) == windows
                assert found.to_pylist() == [
                    lo
                    for lo in range(8)
                    if any(from_ <= lo and lo + 4 <= to for from_, to in pairwise(segments))
                ]

    def test_what_a_call_has_not_is_refused(self) -> None:
        floats, times = pa.array([1.0]), pa.array([0])
        with refused(wk.InvalidValue, "closed: 'right' was given without times"):
            kernels.explain(floats, 1, agg="sum", closed="right")
        with refused(wk.InvalidValue, "start_time: 1 was given without times"):
            kernels.explain(floats, 1, agg="sum", start_time=1)
        with refused(wk.InvalidValue, "partial: 'start' was given with times"):
            kernels.explain(floats, 1, agg="sum", times=times, partial="start")


class TestOverflow:
    @pytest.mark.parametrize("algorithm", [name for name in kernels.ALGORITHMS if name != "tumbling"])
    @pytest.mark.parametrize("kind", [pa.int64(), pa.uint64(), pa.duration("s")], ids=str)
    def test_only_a_windows_true_sum_overflows(self, kind: pa.DataType, algorithm: str) -> None:
        most = 2**64 - 1 if kind == pa.uint64() else 2**63 - 1
        plain = pa.uint64() if kind == pa.uint64() else pa.int64()
        fits = pa.array([most, 0, most, 0, most], plain).cast(kind)
        assert kernels.sliding_sum(fits, 2, algorithm=algorithm).cast(plain).to_pylist() == [most] * 4
        beyond = pa.array([1, 2, 3, most - 2, 4], plain).cast(kind)
        with refused(wk.Overflow, "array: the sum of rows 2 to 3 does not fit ", "; cast it to a wider type"):
            kernels.sliding_sum(beyond, 2, algorithm=algorithm)
        assert kernels.sliding_sum(beyond, 2, segments=[0, 3, 4, 5], algorithm=algorithm).cast(
            plain
        ).to_pylist() == [3, 5]

    def test_sums_may_cancel(self) -> None:
        most = 2**63 - 1
        values = pa.array([most, 5, -6, most, -(2**63)])
        for algorithm in ("auto", "recalculate", "subtract_on_evict", "two_stacks", "two_stacks_simd"):
            got = kernels.sliding_sum(values, 3, algorithm=algorithm)
            assert got.to_pylist() == [most - 1, most - 1, -7]

    @pytest.mark.parametrize("algorithm", ["auto", "recalculate", "two_stacks", "two_stacks_simd"])
    @pytest.mark.parametrize("size", [3, 40])
    def test_the_sum_of_a_window_that_is_null_does_not_overflow(self, algorithm: str, size: int) -> None:
        values = [2**63 - 1, 1, None, -1, *range(60)]
        array = pa.array(values, pa.int64())
        options = {"partial": "start", "min_periods": size, "algorithm": algorithm}
        expected = [
            sum(window) if len(window) == size else None
            for window in (
                [v for v in values[max(0, at - size + 1) : at + 1] if v is not None] for at in range(64)
            )
        ]
        assert kernels.sliding_sum(array, size, **options).to_pylist() == expected
        if algorithm != "two_stacks_simd":
            wide = pa.array(
                [None if v is None else Decimal(v) * Decimal(10**19) for v in values], pa.decimal128(38, 0)
            )
            found = kernels.sliding_mean(wide, size, **options)
            assert [v is None for v in found.to_pylist()] == [v is None for v in expected]

    def test_means_do_not_overflow(self) -> None:
        values = pa.array([2**63 - 1] * 5)
        assert kernels.sliding_mean(values, 3).to_pylist() == [float(2**63 - 1)] * 3
        durations = values.cast(pa.duration("s"))
        assert kernels.sliding_mean(durations, 3).cast(pa.int64()).to_pylist() == [2**63 - 1] * 3

    def test_decimals(self) -> None:
        digits = Decimal(9 * 10**37)
        values = pa.array([digits, digits, -digits, digits], pa.decimal128(38, 0))
        for algorithm in ("auto", "recalculate", "subtract_on_evict", "two_stacks"):
            # Two of them are beyond 128 bits, three are not.
            got = kernels.sliding_sum(values, 3, algorithm=algorithm)
            assert got.to_pylist() == [digits, digits]
            with refused(wk.Overflow, "array: the sum of rows 0 to 1 does not fit decimal128(38, 0)"):
                kernels.sliding_sum(values, 2, algorithm=algorithm)
        with refused(wk.Overflow, "array: the mean of rows 0 to 1 does not fit decimal128(38, 4)"):
            kernels.sliding_mean(values, 2)
