"""Every function, type and algorithm of `wk.kernels` against the definition evaluated window by window."""

from __future__ import annotations

import inspect
import random
from decimal import Decimal
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk
from support import kernels_oracle as oracle
from support.plain import plain, same
from windowkit import kernels

INF, NAN = float("inf"), float("nan")
INTEGERS = [3, None, 1, 1, 127, 0, None, 2, 3, 3, 0, 5, None, None, None, 7, 1]
SIGNED = [None if value is None else value - 64 for value in INTEGERS]
FLOATS = [1.5, NAN, None, -0.25, INF, -0.0, 0.0, None, -INF, 2.0, 2.0, NAN, NAN, None, None, 1e30, -7.5]
FINITE = [None if value is None or value - value != 0 else value for value in FLOATS]
DECIMALS = [None if value is None else Decimal(value) / 4 for value in SIGNED]
TYPES: list[tuple[pa.DataType, list[Any]]] = [
    *((pa.type_for_alias(f"int{bits}"), SIGNED) for bits in (8, 16, 32, 64)),
    *((pa.type_for_alias(f"uint{bits}"), INTEGERS) for bits in (8, 16, 32, 64)),
    (pa.float32(), FINITE),
    (pa.float64(), FLOATS),
    (pa.float64(), FINITE),
    *((pa.decimal128(*digits), DECIMALS) for digits in ((5, 2), (28, 10), (38, 30))),
    (pa.bool_(), [None if value is None else value % 2 == 0 for value in INTEGERS]),
    (pa.date32(), SIGNED),
    (pa.date64(), [None if value is None else value * 86_400_000 for value in SIGNED]),
    *((pa.timestamp(unit, zone), SIGNED) for unit in ("s", "ns") for zone in (None, "Europe/Berlin")),
    *((pa.duration(unit), SIGNED) for unit in ("s", "ms", "us", "ns")),
    (pa.time32("ms"), INTEGERS),
    (pa.time64("ns"), INTEGERS),
    (pa.dictionary(pa.int8(), pa.int32()), SIGNED),
]
WINDOWS = [(1, 1), (2, 1), (3, 1), (5, 1), (17, 1), (40, 1), (4, 2), (5, 2), (7, 3), (3, 3), (2, 5), (40, 7)]


def array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_temporal(kind):
        width = pa.int32() if kind in (pa.date32(), pa.time32("ms")) else pa.int64()
        return pa.array(values, width).cast(kind)
    return pa.array(values, kind)


def functions(kind: pa.DataType) -> list[str]:
    """Return the functions that mean something for a type."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    names = ["min", "max", "count", "argmin", "argmax", "first", "last"]
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    if numeric or pa.types.is_duration(kind):
        names += ["sum", "mean"]
    return [*names, "var", "std"] if numeric else names


def can(algorithm: str, agg: str, kind: pa.DataType, disjoint: bool) -> bool:
    """Return whether an algorithm answers a function, as the document has it."""
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    if algorithm == "tumbling":
        return disjoint
    if algorithm == "subtract_on_evict":
        exact = agg in ("sum", "mean") and not pa.types.is_floating(kind)
        return exact or agg in ("count", "min", "max", "argmin", "argmax")
    if algorithm == "two_stacks_simd":
        if agg in ("count", "first", "last"):
            return False
        if agg == "mean" and pa.types.is_duration(kind):
            return False
        return not pa.types.is_decimal(kind) or agg in ("var", "std")
    return True


def check(result: pa.Array, wanted: list[Any], where: object) -> None:
    got = plain(result)
    assert len(got) == len(wanted), where
    for at, (mine, theirs) in enumerate(zip(got, wanted, strict=True)):
        assert same(mine, theirs), f"{where}, window {at}: {mine!r} is not {theirs!r}"


@pytest.mark.parametrize(("kind", "values"), TYPES, ids=lambda value: str(value)[:30])
@pytest.mark.parametrize("nulls", [True, False])
def test_every_algorithm_answers_as_the_definition(kind: pa.DataType, values: list[Any], nulls: bool) -> None:
    kept = values if nulls else [value for value in values if value is not None]
    column = array(kept, kind)
    numbers = plain(column)
    checked = set()
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    for (size, slide), partial in ((w, p) for w in WINDOWS for p in ("none", "start", "end", "both")):
        ranges = [range(*rows) for rows in oracle.rolling(len(kept), size, slide, partial)]
        for agg in functions(kind):
            for least in (None, 2) if size >= 2 else (None,):
                wanted = [oracle.evaluate(agg, numbers, rows, value_type, least) for rows in ranges]
                for algorithm in kernels.ALGORITHMS:
                    if not can(algorithm, agg, kind, slide >= size):
                        continue
                    arguments = {"partial": partial, "min_periods": least, "algorithm": algorithm}
                    result = kernels.sliding(column, size, slide, agg=agg, **arguments)
                    check(result, wanted, (agg, size, slide, arguments))
                    result.validate(full=True)
                    checked.add((agg, algorithm))
    assert len(checked) > 4 * len(functions(kind))


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "values"), TYPES, ids=lambda value: str(value)[:30])
def test_long_columns_take_the_blocked_kernels(kind: pa.DataType, values: list[Any]) -> None:
    # Long enough for SIMD blocks, segments of many rows, and a slice that begins within a byte of the bitmap.
    chosen = random.Random(str(kind))
    for pool in (values, [value for value in values if value is not None]):
        whole = array([chosen.choice(pool) for _ in range(700)], kind)
        column = whole.slice(13, 650)
        numbers = plain(column)
        value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
        for size, slide, partial, offsets in [
            (37, 1, "none", None),
            (64, 16, "both", None),
            (100, 30, "none", [0, 300, 300, 650]),
            (80, 1, "start", [0, 200, 650]),
            (20, 25, "none", None),
            (5, 1, "end", [0, 1, 3, 10, 10, 650]),
        ]:
            ranges = [range(*rows) for rows in oracle.rolling(650, size, slide, partial, offsets)]
            for agg in functions(kind):
                wanted = [oracle.evaluate(agg, numbers, rows, value_type, None) for rows in ranges]
                for algorithm in kernels.ALGORITHMS:
                    if can(algorithm, agg, kind, slide >= size):
                        arguments = {"partial": partial, "segments": offsets, "algorithm": algorithm}
                        result = kernels.sliding(column, size, slide, agg=agg, **arguments)
                        check(result, wanted, (agg, size, slide, arguments))


@given(st.data())
def test_any_windows_over_any_column(data: st.DataObject) -> None:
    kind = data.draw(
        st.sampled_from([pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.decimal128(38, 2)])
    )
    if pa.types.is_floating(kind):
        value: Any = st.floats(-1e6, 1e6) | st.sampled_from([NAN, INF, -INF, -0.0])
    elif pa.types.is_decimal(kind):
        value = st.integers(-(10**30), 10**30).map(lambda n: Decimal(n).scaleb(-2))
    else:
        value = st.integers(0 if kind == pa.uint64() else -(2**31), 2**31 - 1)
    values = data.draw(st.lists(st.none() | value, max_size=150))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(values)), max_size=6)))
    segments = data.draw(st.sampled_from([None, [0, *cuts, len(values)]]))
    size, slide = data.draw(st.integers(1, 60)), data.draw(st.sampled_from([1, 1, 2, 3, 7, 50]))
    partial = data.draw(st.sampled_from(["none", "start", "end", "both"]))
    least = data.draw(st.none() | st.integers(0, size))
    agg = data.draw(st.sampled_from(functions(kind)))
    algorithm = data.draw(
        st.sampled_from([name for name in kernels.ALGORITHMS if can(name, agg, kind, slide >= size)])
    )
    column = pa.array(values, kind)
    ranges = [range(*rows) for rows in oracle.rolling(len(values), size, slide, partial, segments)]
    wanted = [oracle.evaluate(agg, column.to_pylist(), rows, kind, least) for rows in ranges]
    arguments = {"partial": partial, "segments": segments, "min_periods": least, "algorithm": algorithm}
    got = kernels.sliding(column, size, slide, agg=agg, **arguments)
    # Accuracy is looked at elsewhere; here the scale is the column's.
    for mine, theirs in zip(plain(got), wanted, strict=True):
        assert same(mine, theirs, 1e-7), (mine, theirs)
    windows = kernels.extents(len(values), size, slide, partial=partial, segments=segments).to_pydict()
    assert list(zip(windows["start"], windows["end"], strict=True)) == [(r.start, r.stop) for r in ranges]
    offsets = segments or [0, len(values)]
    assert all(
        offsets[g] <= r.start < offsets[g + 1] for g, r in zip(windows["segment"], ranges, strict=True)
    )


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.list_(pa.int8()), pa.struct([("a", pa.int8())]), pa.null()], ids=str
)
def test_any_type_is_counted_and_has_a_first_and_a_last(kind: pa.DataType) -> None:
    values: dict[str, list[Any]] = {
        "string": ["b", None, "", "a long one, beyond twelve bytes", None],
        "list<item: int8>": [[1], None, [], [2, None], None],
        "struct<a: int8>": [{"a": 1}, None, {"a": None}, {"a": 2}, None],
        "null": [None] * 5,
    }
    given_values = values[str(kind)]
    column = pa.array(given_values, kind)
    for agg in ("count", "first", "last"):
        for algorithm in ("auto", "recalculate", "two_stacks"):
            got = kernels.sliding(column, 2, agg=agg, algorithm=algorithm)
            wanted = [oracle.evaluate(agg, given_values, (row, row + 1), kind, None) for row in range(4)]
            assert got.to_pylist() == wanted
            assert got.type == (pa.int64() if agg == "count" else kind)


@pytest.mark.parametrize(
    ("kind", "agg", "wanted"),
    [
        (pa.int8(), "sum", pa.int64()),
        (pa.uint16(), "sum", pa.uint64()),
        (pa.float32(), "sum", pa.float64()),
        (pa.decimal128(7, 2), "sum", pa.decimal128(17, 2)),
        (pa.decimal128(38, 2), "sum", pa.decimal128(38, 2)),
        (pa.duration("ms"), "sum", pa.duration("ms")),
        (pa.int8(), "mean", pa.float64()),
        (pa.decimal128(7, 2), "mean", pa.decimal128(11, 6)),
        (pa.duration("ms"), "mean", pa.duration("ms")),
        (pa.float16(), "max", pa.float16()),
        (pa.timestamp("ms", "Asia/Tokyo"), "min", pa.timestamp("ms", "Asia/Tokyo")),
        (pa.bool_(), "max", pa.bool_()),
        (pa.dictionary(pa.int8(), pa.float32()), "max", pa.float32()),
        (pa.dictionary(pa.int8(), pa.string()), "first", pa.dictionary(pa.int8(), pa.string())),
        (pa.uint8(), "argmin", pa.int64()),
        (pa.string(), "count", pa.int64()),
        (pa.int8(), "std", pa.float64()),
    ],
)
def test_types_of_answers(kind: pa.DataType, agg: str, wanted: pa.DataType) -> None:
    for values in ([], [None, None, None]):
        assert kernels.sliding(pa.array(values, kind), 2, agg=agg).type == wanted


@pytest.mark.parametrize("agg", kernels.FUNCTIONS)
def test_empty_columns_and_windows_beyond_them(agg: str) -> None:
    for partial in ("none", "start", "end", "both"):
        assert len(kernels.sliding(pa.array([], pa.int32()), 3, agg=agg, partial=partial)) == 0
        assert len(kernels.sliding(pa.chunked_array([], pa.int32()), 3, agg=agg, partial=partial)) == 0
    ones = pa.array([1, 1], pa.int32())
    assert len(kernels.sliding(ones, 3, agg=agg)) == 0
    assert len(kernels.sliding(ones, 2**63 - 1, agg=agg)) == 0
    assert len(kernels.sliding(ones, 2**63 - 1, agg=agg, partial="start")) == 2
    assert len(kernels.sliding(ones, 2**63 - 1, 2**63 - 1, agg=agg, partial="both")) == 1
    assert len(kernels.sliding(ones, 3, agg=agg, partial="both")) == 4


def test_a_window_of_half_floats() -> None:
    column = pa.array([1.5, None, float("nan"), -2.0], pa.float16())
    assert kernels.sliding_min(column, 2).to_pylist()[::2] == [1.5, -2.0]
    assert kernels.sliding_sum(column, 2).to_pylist()[0] == 1.5
    assert kernels.sliding_argmax(column, 2).to_pylist() == [0, 2, 2]


def test_chunks_and_slices_are_one_column() -> None:
    values = [None if at % 7 == 3 else at * 31 % 50 for at in range(200)]
    whole = pa.array(values, pa.int16())
    chunked = pa.chunked_array([whole.slice(0, 5), whole.slice(5, 0), whole.slice(5, 90), whole.slice(95)])
    for agg in kernels.FUNCTIONS:
        wanted = [oracle.evaluate(agg, values, range(at, at + 9), whole.type, None) for at in range(200 - 8)]
        check(kernels.sliding(chunked, 9, agg=agg), wanted, agg)
        check(
            kernels.sliding(whole.slice(3, 100), 9, agg=agg),
            [oracle.evaluate(agg, values[3:103], range(at, at + 9), whole.type, None) for at in range(92)],
            agg,
        )


def test_columns_of_other_libraries() -> None:
    for column in (
        np.array([1, 2, 4]),
        np.ma.array([1, 2, 4]),
        np.array([1, 2, 4]).view(type("Own", (np.ndarray,), {})),
        pd.Series([1, 2, 4], name="v"),
        type("Own", (pd.Series,), {})([1, 2, 4]),
        pd.Index([1, 2, 4]),
        pd.RangeIndex(1, 4).map({1: 1, 2: 2, 3: 4}),
        pd.array([1, 2, 4], dtype="Int64"),
        pl.Series([1, 2, 4]),
        pa.chunked_array([[1], [], [2, 4]]),
    ):
        assert kernels.sliding_sum(column, 2).to_pylist() == [3, 6]
    masked = np.ma.array([1, 2, 4], mask=[False, True, False])
    assert kernels.sliding_count(masked, 2).to_pylist() == [1, 1]
    assert kernels.sliding_sum(pd.Series([1.0, None, 4.0]), 2, min_periods=2).to_pylist() == [None, None]
    seconds = pd.to_datetime([0, 3, 4], unit="s")
    for size in ("3 seconds", np.timedelta64(3, "s"), np.timedelta64(3_000, "ms"), pd.Timedelta("3s")):
        assert kernels.sliding_by(pd.Index([1, 2, 4]), seconds, size, agg="sum").to_pylist() == [1, 3, 6]


@pytest.mark.parametrize("agg", kernels.FUNCTIONS)
def test_runs_are_values(agg: str) -> None:
    values = [1, 1, None, None, None, 5, 5, 5, 2, None]
    runs = pc.run_end_encode(pa.array(values))
    for column in (runs, pa.chunked_array([runs.slice(0, 4), runs.slice(4)])):
        wanted = [oracle.evaluate(agg, values, range(at, at + 3), pa.int64(), None) for at in range(8)]
        check(kernels.sliding(column, 3, agg=agg), wanted, agg)
        times = pa.array(range(10))
        wanted = [
            oracle.evaluate(agg, values, range(max(at - 2, 0), at + 1), pa.int64(), None) for at in range(10)
        ]
        check(kernels.sliding_by(column, times, 2, agg=agg), wanted, agg)
        assert kernels.explain(column, 3, agg=agg)


def test_segments_are_offsets_or_runs() -> None:
    keys = pa.array(["a", "a", "b", "b", "b", "c"])
    values = pa.array([1, 2, 3, 4, 5, 6])
    wanted = [1, 3, 3, 7, 9, 6]
    lists = pa.array([[1, 2], [3, 4, 5], [6]])
    for segments in (
        [0, 2, 5, 6],
        (0, 2, 5, 6),
        pa.array([0, 2, 5, 6], pa.uint8()),
        pa.chunked_array([[0, 2], [5, 6]]),
        lists.offsets,
        pc.run_end_encode(keys),
        pc.run_end_encode(keys, run_end_type=pa.int16()),
        pc.run_end_encode(pa.concat_arrays([pa.array(["a", "a"]), keys])).slice(2),
    ):
        assert kernels.sliding_sum(values, 2, partial="start", segments=segments).to_pylist() == wanted
    assert kernels.sliding_sum(pa.array([], pa.int8()), 2, segments=[0, 0, 0]).to_pylist() == []
    assert kernels.sliding_sum(pa.array([], pa.int8()), 2, segments=[0]).to_pylist() == []


def test_wk_kernels_needs_no_import_of_its_own() -> None:
    assert wk.kernels.sliding_sum(pa.array([1, 2, 3]), 2).to_pylist() == [3, 5]


@pytest.mark.parametrize("partial", ["none", "start", "end", "both"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.97])
def test_counts_and_validity_over_long_groups(partial: str, share: float) -> None:
    # A pass over the bitmap for each group; windows of all lengths beside words and tiles of it.
    chosen = random.Random(partial + str(share))
    values = [None if chosen.random() < share else chosen.randrange(100) for _ in range(4007)]
    column = pa.array([1, None, 3, *values], pa.int32()).slice(3)
    before = list(accumulate((value is not None for value in values), initial=0))
    for offsets in (None, [0, 1500, 1500, 1501, 4007]):
        for size, slide in [(2, 1), (64, 1), (700, 1), (1600, 3), (4100, 5), (130, 200), (2**40, 2**39)]:
            ranges = windows_of(len(values), size, slide, partial, offsets)
            valid = [before[end] - before[start] for start, end in ranges[::17]]
            options: dict[str, Any] = {"partial": partial, "segments": offsets}
            counts = kernels.sliding_count(column, size, slide, **options)
            assert len(counts) == len(ranges)
            assert counts.to_pylist()[::17] == valid
            for least in {1, 2, min(size, 40), min(size, 1000)}:
                got = kernels.sliding_max(column, size, slide, min_periods=least, **options)
                got.validate(full=True)
                assert got.is_valid().to_pylist()[::17] == [count >= least for count in valid], (size, least)
                some = kernels.sliding_count(column, size, slide, min_periods=least, **options)
                wanted = [count if count >= least else None for count in valid]
                assert some.to_pylist()[::17] == wanted, (size, slide, least)


def windows_of(
    rows: int, size: int, slide: int, partial: str, offsets: list[int] | None
) -> list[tuple[int, int]]:
    """Return the rows of each window, by trying those that could hold a row."""
    found = []
    bounds = [0, rows] if offsets is None else offsets
    for begin, end in pairwise(bounds):
        if begin == end:
            continue
        starts = range(-((size - 1) // slide) * slide, end - begin, slide)
        for start in starts:
            over = (start < 0, start + size > end - begin)
            if (over[0] and partial not in ("start", "both")) or (over[1] and partial not in ("end", "both")):
                continue
            found.append((begin + max(start, 0), begin + min(start + size, end - begin)))
    return found


@pytest.mark.parametrize("partial", ["start", "end", "both"])
@pytest.mark.parametrize("agg", kernels.FUNCTIONS)
@pytest.mark.parametrize("kind", [pa.int32(), pa.float64(), pa.uint8()], ids=str)
def test_windows_over_the_ends_of_long_groups(partial: str, agg: str, kind: pa.DataType) -> None:
    chosen = random.Random(agg)
    for share in (0.0, 0.4):
        values = [None if chosen.random() < share else chosen.randrange(200) for _ in range(600)]
        column = array(values, kind)
        numbers = plain(column)
        for size, slide, offsets in [
            (90, 1, None),
            (590, 7, None),
            (900, 1, [0, 80, 600]),
            (200, 64, [0, 600]),
        ]:
            ranges = [range(*rows) for rows in windows_of(len(values), size, slide, partial, offsets)]
            got = plain(kernels.sliding(column, size, slide, agg=agg, partial=partial, segments=offsets))
            assert len(got) == len(ranges)
            for at in {*range(0, len(ranges), 13), 0, len(ranges) - 1}:
                wanted = oracle.evaluate(agg, numbers, ranges[at], kind, None)
                assert same(got[at], wanted), (agg, size, slide, offsets, at, got[at], wanted)


def test_short_forms_show_the_keywords_they_pass_on() -> None:
    passed = ["algorithm", "min_periods", "partial", "segments", "validate"]
    assert list(inspect.signature(kernels.sliding_sum).parameters) == ["array", "size", "slide", *passed]
    assert list(inspect.signature(kernels.sliding_std).parameters) == [
        "array",
        "size",
        "slide",
        *passed,
        "ddof",
    ]
