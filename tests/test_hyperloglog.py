"""HyperLogLog beside Apache's own library, on every type, and against damaged bytes."""

from __future__ import annotations

import copy
import math
import pickle
import struct
from typing import Any

import datasketches
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.plain import INTEGER_TYPES

KINDS = {
    4: datasketches.tgt_hll_type.HLL_4,
    6: datasketches.tgt_hll_type.HLL_6,
    8: datasketches.tgt_hll_type.HLL_8,
}
SIZES = st.one_of(st.integers(0, 30), st.integers(90, 110), st.integers(0, 30_000))


def apaches(values: Any, precision: int = 12, bits: int = 8) -> datasketches.hll_sketch:
    sketch = datasketches.hll_sketch(precision, KINDS[bits])
    for value in values:
        sketch.update(value)
    return sketch


def content(image: bytes) -> tuple[bytes, Any]:
    """What is in an image, but for the order of coupons and a flag that registers do not need."""
    start = {0: 8, 1: 12}.get(image[7] & 3)
    if start is None:
        return image[:5] + bytes([image[5] & ~8]) + image[6:], None
    return image[:start], sorted(image[i : i + 4] for i in range(start, len(image), 4))


def read_or_refused(data: bytes) -> wk.HyperLogLog | None:
    """Read a sketch; None if it is refused, and by the right exception with the right words."""
    try:
        return wk.HyperLogLog.from_bytes(data)
    except wk.InvalidValue as error:
        if not str(error).startswith("data: the bytes are not a HyperLogLog sketch, or are damaged: "):
            raise
        return None


def assert_same(sketch: wk.HyperLogLog, apache: datasketches.hll_sketch) -> None:
    assert content(sketch.to_bytes()) == content(apache.serialize_compact())
    assert sketch.estimate() == apache.get_estimate()


@settings(deadline=None, max_examples=60)
@given(precision=st.integers(7, 14), size=SIZES, start=st.integers(-(2**63), 2**62))
def test_numbers_make_the_sketch_that_apache_makes(precision: int, size: int, start: int) -> None:
    values = np.arange(start, start + size, dtype=np.int64)
    sketch = wk.HyperLogLog(precision).update(pa.array(values))
    apache = apaches(values.tolist(), precision)
    assert_same(sketch, apache)
    for stddevs in (1, 2, 3):
        wanted = (apache.get_lower_bound(stddevs), apache.get_upper_bound(stddevs))
        assert sketch.bounds(stddevs) == pytest.approx(wanted, rel=1e-12)


@settings(deadline=None)
@given(st.lists(st.none() | st.floats(), max_size=50))
def test_floats_make_the_sketch_that_apache_makes(values: list[float | None]) -> None:
    sketch = wk.HyperLogLog().update(pa.array(values, pa.float64()))
    assert_same(sketch, apaches(value for value in values if value is not None))


@settings(deadline=None)
@given(st.lists(st.none() | st.text(max_size=40), max_size=50))
def test_strings_make_the_sketch_that_apache_makes(values: list[str | None]) -> None:
    apache = apaches(value for value in values if value is not None)
    column = pa.array(values, pa.string())
    views = [pa.string_view()] if hasattr(column, "cast") and hasattr(pa, "string_view") else []
    for kind in (pa.string(), pa.large_string(), pa.binary(), *views):
        assert_same(wk.HyperLogLog().update(column.cast(kind)), apache)
    assert_same(wk.HyperLogLog().update(column.dictionary_encode()), apache)


@pytest.mark.parametrize("bits", [4, 6, 8])
@pytest.mark.parametrize("form", ["compact", "updatable"])
@pytest.mark.parametrize("size", [0, 1, 7, 8, 9, 25, 383, 385, 5_000, 300_000])
def test_apaches_bytes_are_read_and_ours_by_apache(bits: int, form: str, size: int) -> None:
    apache = apaches(range(size), 12, bits)
    image = apache.serialize_compact() if form == "compact" else apache.serialize_updatable()
    sketch = wk.HyperLogLog.from_bytes(image)
    assert sketch.estimate() == apache.get_estimate()
    assert content(sketch.to_bytes()) == content(apaches(range(size)).serialize_compact())
    back = datasketches.hll_sketch.deserialize(sketch.to_bytes(bits))
    assert (back.tgt_type, back.lg_config_k) == (KINDS[bits], 12)
    assert back.get_estimate() == apache.get_estimate()


def test_a_sketch_that_began_with_all_its_registers_is_read() -> None:
    apache = datasketches.hll_sketch(10, KINDS[8], True)
    for value in range(3):
        apache.update(value)
    sketch = wk.HyperLogLog.from_bytes(apache.serialize_updatable())
    assert sketch.estimate() == pytest.approx(apache.get_estimate())


@settings(deadline=None, max_examples=60)
@given(st.integers(7, 13), st.integers(7, 13), SIZES, SIZES, st.integers(0, 1000))
def test_merges_are_apaches_unions(p: int, q: int, a: int, b: int, shared: int) -> None:
    left, right = range(a), range(a - min(a, shared), a + b)
    merged = wk.HyperLogLog(p).update(list(left)).merge(wk.HyperLogLog(q).update(list(right)))
    union = datasketches.hll_union(p)
    union.update(apaches(left, p))
    union.update(apaches(right, q))
    result = union.get_result(KINDS[8])
    assert merged.precision == result.lg_config_k
    # Where both still run, the order of coupons decides the last per cent.
    assert merged.estimate() == pytest.approx(result.get_estimate(), rel=4 / math.sqrt(2**merged.precision))
    mine, theirs = merged.to_bytes(), result.serialize_compact()
    if mine[7] & 3 == 2:
        assert mine[40:] == theirs[40:]
    else:
        assert content(mine) == content(theirs)


def test_estimates_of_merged_sketches_are_apaches() -> None:
    for size in (1_000, 10_000, 200_000):
        merged = (
            wk.HyperLogLog().update(range(size)).merge(wk.HyperLogLog().update(range(size // 2, 2 * size)))
        )
        union = datasketches.hll_union(12)
        union.update(apaches(range(size)))
        union.update(apaches(range(size // 2, 2 * size)))
        assert merged.estimate() == pytest.approx(union.get_estimate(), rel=1e-12)
        assert merged.bounds(2) == pytest.approx(
            (union.get_lower_bound(2), union.get_upper_bound(2)), rel=1e-12
        )
        assert merged.relative_error == pytest.approx(1.04 / 64, rel=0.01)


@pytest.mark.parametrize(
    ("values", "distinct"),
    [
        (pa.array([1, None, 1, 2], pa.int8()), 2),
        (pa.array([True, False, None]), 2),
        (pa.array([0, 1, None], pa.timestamp("ns", tz="UTC")), 2),
        (pa.array([0, 1, 1], pa.date32()), 2),
        (pa.array([0, 1, 1], pa.duration("ms")), 2),
        (pa.array([0, 1, 1], pa.time32("s")), 2),
        (pa.array([0.0, -0.0, math.nan, -math.nan], pa.float32()), 2),
        (pa.nulls(5), 0),
        (pa.array([], pa.int64()), 0),
        (pa.chunked_array([[1, 2], [], [2, 3]], pa.int64()), 3),
        (pa.chunked_array([], pa.int64()), 0),
        (pa.array([1, 2, 3, 4]).slice(1, 2), 2),
        (pa.array(["a", "b", "c"]).dictionary_encode().slice(0, 1), 1),
        (pa.DictionaryArray.from_arrays(pa.array([0, None]), pa.array(["a", "unused"])), 1),
        (pa.array(["", "a"]), 1),
        (pa.array([b"ab", b"cd"], pa.binary(2)), 2),
        (pl.Series(["a", "b", None, "a"]), 2),
        (pl.Series([1, 2, 2]), 2),
        (pl.Series(["a", "b", "a"], dtype=pl.Categorical), 2),
        (pd.Series([1.5, None, 2.5]), 2),
        (np.array([1, 1, 2]), 2),
        ([1, 2, 2, None], 2),
        (range(10), 10),
        ([], 0),
    ],
    ids=lambda value: str(getattr(value, "type", type(value).__name__)) if not isinstance(value, int) else "",
)
def test_columns_of_every_kind_are_counted(values: Any, distinct: int) -> None:
    assert round(wk.HyperLogLog().update(values).estimate()) == distinct


def test_integers_of_every_width_are_one_value() -> None:
    sketch = wk.HyperLogLog()
    for kind in INTEGER_TYPES:
        sketch.update(pa.array([5, 100], kind))
    assert round(sketch.estimate()) == 2
    assert round(sketch.update(pa.array([5.0])).estimate()) == 3


@pytest.mark.parametrize("precision", [4, 8, 12, 18, 21])
@pytest.mark.parametrize("size", [1, 100, 100_000, 1_000_000])
def test_estimates_are_within_four_standard_errors(precision: int, size: int) -> None:
    sketch = wk.HyperLogLog(precision).update(np.arange(size))
    assert abs(sketch.estimate() - size) <= max(4 * sketch.relative_error, 1e-4) * size
    lower, upper = sketch.bounds(3)
    assert lower <= sketch.estimate() <= upper


def test_sketches_are_copied_and_pickled() -> None:
    sketch = wk.HyperLogLog(10).update(range(5_000))
    for copied in (
        copy.copy(sketch),
        copy.deepcopy(sketch),
        pickle.loads(pickle.dumps(sketch)),
        sketch.copy(),
    ):
        assert copied.to_bytes() == sketch.to_bytes()
        copied.update(range(5_000, 50_000))
        assert copied.estimate() > 2 * sketch.estimate()
    before = sketch.to_bytes()[40:]
    assert sketch.merge(sketch).to_bytes()[40:] == before


IMAGES = [
    wk.HyperLogLog(precision).update(range(size)).to_bytes(bits)
    for precision, size in ((4, 3), (4, 1_000), (8, 20), (8, 2_000), (9, 40))
    for bits in (4, 6, 8)
] + [apaches(range(size), 9, bits).serialize_updatable() for size in (3, 40, 3_000) for bits in (4, 6, 8)]


@pytest.mark.parametrize("image", IMAGES, ids=lambda image: f"mode {image[7]:x}, {len(image)} bytes")
def test_no_flipped_byte_makes_another_sketch(image: bytes) -> None:
    sketch = wk.HyperLogLog.from_bytes(image)
    registers = image[7] & 3 == 2
    unnoticed, swaps = set(), set()
    for position in range(len(image)):
        for change in (0x01, 0x80, 0xFF):
            damaged = bytearray(image)
            damaged[position] ^= change
            read = read_or_refused(bytes(damaged))
            if read is not None:
                unnoticed.add(position)
                if registers:
                    # No sum tells that registers were swapped, as all bits of a byte may do.
                    was, now = sketch.to_bytes()[40:], read.to_bytes()[40:]
                    if now != was:
                        assert change == 0xFF
                        assert sorted(now) == sorted(was)
                        swaps.add(position)
    if registers:
        # Bytes without a meaning in this mode, the flags, the running estimate, and swaps.
        assert unnoticed - swaps <= {4, 5, 7, *range(8, 16)}
    else:
        first = 8 if image[7] & 3 == 0 else 12
        assert unnoticed <= {3, 4, 5, 6, 7, *range(first, len(image))}


@settings(deadline=None, max_examples=300)
@given(
    st.binary(max_size=200)
    | st.binary(max_size=100).map(lambda rest: b"\x0a\x01\x07\x04\x00\x00\x00\x0a" + rest)
)
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    sketch = read_or_refused(data)
    assert sketch is None or math.isfinite(sketch.estimate())


def test_damage_is_told() -> None:
    image = bytearray(wk.HyperLogLog(10).update(range(5_000)).to_bytes())
    with pytest.raises(wk.InvalidValue, match=r"data: .*1063 bytes, where their preamble says 1064"):
        wk.HyperLogLog.from_bytes(image[:-1])
    with pytest.raises(wk.InvalidValue, match="family 8, version 1"):
        wk.HyperLogLog.from_bytes(image[:2] + b"\x08" + image[3:])
    with pytest.raises(wk.InvalidValue, match="running estimate of 123456"):
        wk.HyperLogLog.from_bytes(image[:8] + struct.pack("<d", 123_456.0) + image[16:])
    image[100] ^= 1
    with pytest.raises(wk.InvalidValue, match=r"sums of 2\^-rank"):
        wk.HyperLogLog.from_bytes(image)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wk.HyperLogLog(3), wk.InvalidValue, "precision: 3 was given; allowed is 4 to 21"),
        (lambda: wk.HyperLogLog(22), wk.InvalidValue, "precision: 22 was given"),
        (lambda: wk.HyperLogLog(-1), wk.InvalidValue, "precision: -1 is out of range"),
        (lambda: wk.HyperLogLog(12.0), wk.InvalidType, "precision: 12.0 is a float"),
        (lambda: wk.HyperLogLog(True), wk.InvalidType, "precision: True is a bool"),
        (lambda: wk.HyperLogLog().update(None), wk.InvalidType, "values: a NoneType was given"),
        (lambda: wk.HyperLogLog().update("text"), wk.InvalidType, "values: a str was given"),
        (lambda: wk.HyperLogLog().update([1, "a"]), wk.InvalidType, "values: a list was given"),
        (lambda: wk.HyperLogLog().update([[1]]), wk.InvalidType, "values: a column of type list"),
        (
            lambda: wk.HyperLogLog().update(pa.table({"a": [1]})),
            wk.InvalidType,
            "values: a column of type struct",
        ),
        (
            lambda: wk.HyperLogLog().update(pa.chunked_array([], pa.decimal128(9, 2))),
            wk.InvalidType,
            "values: a column of type decimal128.* allowed are integers, floats",
        ),
        (lambda: wk.HyperLogLog().merge(b""), wk.InvalidType, "other: a bytes was given"),
        (lambda: wk.HyperLogLog().bounds(4), wk.InvalidValue, "stddevs: 4 was given; allowed are 1"),
        (lambda: wk.HyperLogLog().bounds(1.5), wk.InvalidType, "stddevs: 1.5 is a float"),
        (
            lambda: wk.HyperLogLog().to_bytes(7),
            wk.InvalidValue,
            "bits: 7 was given; allowed are registers of 8, 6",
        ),
        (
            lambda: wk.HyperLogLog.from_bytes("text"),
            wk.InvalidType,
            "data: a str was given; allowed are bytes",
        ),
        (lambda: wk.HyperLogLog.from_bytes(b""), wk.InvalidValue, "data: .*0 bytes are too few"),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


def test_bounds_are_in_order_even_where_the_estimate_of_other_bytes_is_too_low() -> None:
    """Found by the fuzz target from_bytes: 29 registers are above zero, and the estimate is 21."""
    whole = bytes.fromhex(
        "0a0107050000000a4324c952562235400000000000482740000000000000000003000000000000000002010701020301010005010102070104010101"
    )
    sketch = wk.HyperLogLog(5)
    sketch.update(pa.array(range(60), pa.uint16()))
    image = whole + sketch.to_bytes(8)[len(whole) :]
    low, high = wk.HyperLogLog.from_bytes(image).bounds()
    assert 21 < wk.HyperLogLog.from_bytes(image).estimate() < low <= high
