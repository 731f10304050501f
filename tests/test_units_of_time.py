"""Tables whose times have different units are compared by moments: joins, and labels against events."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import windowkit as wk

NANOSECONDS: Final = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
WITHIN: Final = 2_000_000
"""Nanoseconds."""
ZONES: Final = {False: (None, None), True: ("UTC", "Asia/Tokyo")}

UNITS: Final = st.sampled_from(sorted(NANOSECONDS))


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[int | None], list[int | None], list[pa.DataType]]:
    """Draw the moments of two tables in nanoseconds, and types that hold them."""
    zones = ZONES[draw(st.booleans())]
    is_duration = draw(st.booleans())
    moments, kinds = [], []
    for zone in zones:
        unit = draw(UNITS)
        places = st.integers(
            -4_000_000 // min(NANOSECONDS[unit], 10**6), 4_000_000 // min(NANOSECONDS[unit], 10**6)
        )
        drawn = draw(st.lists(st.none() | places, max_size=8))
        moments.append([None if each is None else each * NANOSECONDS[unit] for each in drawn])
        kinds.append(pa.duration(unit) if is_duration else pa.timestamp(unit, zone))
    return moments[0], moments[1], kinds


def column(moments: list[int | None], kind: pa.DataType) -> pa.Array:
    units = [None if each is None else each // NANOSECONDS[kind.unit] for each in moments]
    return pa.array(units, pa.int64()).cast(kind)


def nanoseconds(column: pa.ChunkedArray) -> list[int | None]:
    units = column.cast(pa.int64()).to_pylist()
    return [None if each is None else each * NANOSECONDS[column.type.unit] for each in units]


@given(drawn=sides())
def test_a_join_has_the_pairs_whose_moments_are_near(
    drawn: tuple[list[int | None], list[int | None], list[pa.DataType]],
) -> None:
    lefts, rights, (own, other) = drawn
    join = wk.join(by=[], left_time="t", right_time="u", within=f"{WITHIN} nanoseconds")
    left = pa.table({"t": column(lefts, own), "n": range(len(lefts))})
    right = pa.table({"u": column(rights, other), "m": range(len(rights))})
    finest = min(NANOSECONDS[own.unit], NANOSECONDS[other.unit])
    if WITHIN % finest:
        with pytest.raises(wk.InvalidValue, match="within: it is finer than column"):
            join.run(left, right)
        return
    wanted = [
        (n, m)
        for n, one in enumerate(lefts)
        for m, another in enumerate(rights)
        if one is not None and another is not None and abs(one - another) <= WITHIN
    ]
    whole = join.run(left, right)
    assert sorted(zip(*(whole[name].to_pylist() for name in "nm"), strict=True)) == wanted
    assert nanoseconds(whole["t"]) == [lefts[n] for n in whole["n"].to_pylist()]
    assert nanoseconds(whole["u"]) == [rights[m] for m in whole["m"].to_pylist()]
    op = join.operator(left, right)
    op.push_left(left)
    parts = op.push_right(right)
    assert parts.schema == whole.schema == join.schema(left, right)
    assert sorted(zip(*(parts[name].to_pylist() for name in "nm"), strict=True)) == wanted


@given(drawn=sides())
def test_labels_ask_for_the_events_before_their_moments(
    drawn: tuple[list[int | None], list[int | None], list[pa.DataType]],
) -> None:
    asking, moments, (own, other) = drawn
    labels = pa.table({"t": column(asking, own)})
    events = pa.table({"t": column(moments, other), "v": range(len(moments))})
    rolling = wk.rolling(by=[], time="t", aggs=wk.collect_list("v").over("unbounded").alias("before"))
    found = rolling.at(labels, events)
    assert found["t"].type == own
    for at, listed in zip(asking, found["before"].to_pylist(), strict=True):
        known = [(each, v) for v, each in enumerate(moments) if each is not None]
        assert listed == ([] if at is None else [v for each, v in sorted(known) if each <= at])


def test_a_watermark_is_of_the_finer_unit() -> None:
    left = pa.table({"t": pa.array([1_000], pa.timestamp("us"))})
    right = pa.table({"t": pa.array([1_500_000], pa.timestamp("ns"))})
    op = wk.join(by=[], left_time="t", right_time="t", within="1 microsecond", how="left").operator(
        left, right
    )
    assert op.push_left(left).num_rows == 0
    assert op.advance_right(pa.scalar(1_000_999, pa.timestamp("ns"))).num_rows == 0
    assert op.advance_right(pa.scalar(1_001_001, pa.timestamp("ns"))).num_rows == 1
    op.advance_left(pa.scalar(5, pa.timestamp("us")))
    assert op.watermarks.left == pa.scalar(5_000, pa.timestamp("ns"))


@pytest.mark.parametrize("is_label", [True, False])
def test_a_moment_that_the_finer_unit_does_not_hold_is_refused(is_label: bool) -> None:
    far = pa.table({"t": pa.array([-60_000_000_000_000_000], pa.timestamp("us")), "v": [1]})
    near = pa.table({"t": pa.array([1], pa.timestamp("ns")), "v": [1]})
    labels, events = (far, near) if is_label else (near, far)
    rolling = wk.rolling(by=[], time="t", aggs=wk.sum("v").over("unbounded"))
    with pytest.raises(
        wk.InvalidValue, match=f"{'labels' if is_label else 'events'}: column 't' has a value that"
    ):
        rolling.at(labels.drop_columns(["v"]), events)
    with pytest.raises(wk.InvalidValue, match="column 't' has a value that timestamp"):
        wk.join(by=[], left_time="t", right_time="t", within="1 second").run(labels, events)


@pytest.mark.parametrize("other", [pa.timestamp("us", "UTC"), pa.date32(), pa.int64(), pa.duration("us")])
def test_what_differs_in_more_than_its_unit_is_refused(other: pa.DataType) -> None:
    labels = pa.table({"t": pa.array([1], pa.timestamp("ns"))})
    events = pa.table(
        {
            "t": pa.array([1], pa.int32())
            .cast(pa.int64() if other != pa.date32() else pa.int32())
            .cast(other),
            "v": [1],
        }
    )
    with pytest.raises(wk.InvalidType, match="cast one of them"):
        wk.rolling(by=[], time="t", aggs=wk.sum("v").over("unbounded")).at(labels, events)
    with pytest.raises(wk.InvalidType, match="cast one of them"):
        wk.join(by=[], left_time="t", right_time="t", within="1 second").run(labels, events)
