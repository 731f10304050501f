"""Joins of rows that may retract others, by the definition: of streams after each call, and of tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import windowkit as wk
from support.join_streams import by_windows, of_band
from support.joins import Case, Extents, cases, joined, numbers, of_windows, plain, windowed
from support.weighed_joins import Act, acts, run, weighed

WEIGHED = st.sampled_from([(True, True), (True, True), (True, False), (False, True)])


@given(case=cases(), made=acts(), has_weight=WEIGHED)
def test_results_of_a_band_add_up_to_those_of_the_rows_that_remain(
    case: Case, made: list[Act], has_weight: tuple[bool, bool]
) -> None:
    run(case.join, (case.left, case.right), case.rows, of_band(case), made, has_weight)


@given(case=windowed(), made=acts(), has_weight=WEIGHED)
def test_results_by_windows_add_up_to_those_of_the_rows_that_remain(
    case: tuple[pa.Table, pa.Table, wk.Window, Extents, str], made: list[Act], has_weight: tuple[bool, bool]
) -> None:
    left, right, windows, extents, how = case
    rows = plain(left, "k", "t", 1), plain(right, "q", "u", 1)
    model = by_windows(how, extents)
    run(of_windows(windows, how), (left, right), rows, model, made, has_weight)


EARLY = wk.emit(wk.rows(1), refinement="retracting")
ANY = st.sampled_from([(False, False), (False, False), (True, True), (True, False), (False, True)])


@given(case=cases(), made=acts(), has_weight=ANY)
def test_early_results_of_a_band_add_up_to_those_of_the_rows_so_far(
    case: Case, made: list[Act], has_weight: tuple[bool, bool]
) -> None:
    assume(case.how not in ("inner", "semi"))
    model = replace(of_band(case), early=True)
    run(case.join, (case.left, case.right), case.rows, model, made, has_weight, emit=EARLY)


@given(case=windowed(), made=acts(), has_weight=ANY)
def test_early_results_by_windows_add_up_to_those_of_the_rows_so_far(
    case: tuple[pa.Table, pa.Table, wk.Window, Extents, str], made: list[Act], has_weight: tuple[bool, bool]
) -> None:
    left, right, windows, extents, how = case
    assume(how not in ("inner", "semi"))
    rows = plain(left, "k", "t", 1), plain(right, "q", "u", 1)
    model = replace(by_windows(how, extents), early=True)
    run(of_windows(windows, how), (left, right), rows, model, made, has_weight, emit=EARLY)


@given(case=cases(), data=st.data())
def test_a_table_is_joined_by_the_rows_that_remain(case: Case, data: st.DataObject) -> None:
    kept, given_rows = [], []
    for table in (case.left, case.right):
        counts = [data.draw(st.sampled_from([0, 1, 1, 2]), "remain") for _ in range(len(table))]
        gone = [data.draw(st.sampled_from([0, 0, 1, 2]), "retracted") for _ in range(len(table))]
        signed = [(at, 1) for at, (n, m) in enumerate(zip(counts, gone, strict=True)) for _ in range(n + m)]
        signed += [(at, -1) for at, m in enumerate(gone) for _ in range(m)]
        signed = data.draw(st.permutations(signed), "order")
        kept.append([at for at, n in enumerate(counts) for _ in range(n)])
        given_rows.append(
            weighed(table, *(map(list, zip(*signed, strict=True)) if signed else ([], [])), True)
        )
    join = replace(case.join, left_weight="w", right_weight="w")
    result = join.run(*given_rows)
    assert result.schema == join.schema(*given_rows)
    assert set(result["weight"].to_pylist()) <= {1}
    left, right = ([side[at] for at in rows] for side, rows in zip(case.rows, kept, strict=True))
    expected = Counter(
        (None if own is None else kept[0][own], None if other is None else kept[1][other])
        for own, other, _ in joined(left, right, case.how, case.band)
    )
    assert Counter(numbers(result)) == expected


SIDE = pa.schema({"k": pa.string(), "t": pa.int64(), "v": pa.float64(), "w": pa.int8()})
BOTH: dict[str, Any] = {"left_weight": "w", "right_weight": "w"}


def band(**options: Any) -> wk.Join:
    made: dict[str, Any] = {"by": "k", "left_time": "t", "right_time": "t", "within": 5, **BOTH}
    return wk.join(**made | options)


def rows(*values: tuple[Any, ...], schema: pa.Schema = SIDE) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in values], schema)


@pytest.mark.parametrize("how", ["inner", "left", "full", "semi", "anti"])
def test_a_long_stream_adds_up_to_the_join_of_duckdb(how: str) -> None:
    """Few keys, times and values, so that rows are equal, and have many partners that come and go."""
    rng = np.random.default_rng(11)
    join = band(how=how, within=2)
    op, sums = join.operator(SIDE, SIDE), Counter[tuple[Any, ...]]()
    live: tuple[list[tuple[Any, ...]], ...] = ([], [])
    gone: tuple[list[tuple[Any, ...]], ...] = ([], [])
    reached = [0, 0]

    def take(result: pa.Table) -> None:
        for *row, weight in zip(*(column.to_pylist() for column in result.columns), strict=True):
            sums[tuple(row)] += weight
            assert sums[tuple(row)] >= 0

    for at in range(300):
        side = int(rng.integers(0, 2))
        push = op.push_left if side == 0 else op.push_right
        new = [
            (str(rng.choice(["a", "b"])), int(at // 4 + rng.integers(0, 8)), float(rng.integers(0, 2)))
            for _ in range(rng.integers(0, 6))
        ]
        open_rows = [row for row in live[side] if row[1] >= reached[side]]
        taken = [open_rows[each] for each in rng.permutation(len(open_rows))[: rng.integers(0, 5)]]
        take(push(rows(*((*row, 1) for row in new), *((*row, -1) for row in taken))))
        live[side].extend(row for row in new if row[1] >= reached[side])
        for row in taken:
            live[side].remove(row)
            gone[side].append(row)
        if rng.random() < 0.3:
            reached[side] = max(reached[side], at // 4 - int(rng.integers(0, 4)))
            take((op.advance_left if side == 0 else op.advance_right)(reached[side]))
        if rng.random() < 0.05:
            op = wk.JoinOperator.restore(op.snapshot(), join)
    take(op.close())
    assert min(map(len, gone)) > 100
    plain_schema = pa.schema(list(SIDE)[:3])
    left, right = (rows(*each, schema=plain_schema) for each in live)
    with duckdb.connect() as connection:
        connection.register("l", left)
        connection.register("r", right)
        kind = "" if how == "inner" else how
        columns = "l.*" if how in ("semi", "anti") else "coalesce(l.k, r.k), l.t, l.v, r.t, r.v"
        text = f"SELECT {columns} FROM l {kind} JOIN r ON l.k = r.k AND r.t BETWEEN l.t - 2 AND l.t + 2"
        assert +sums == Counter(connection.execute(text).fetchall())


def test_rows_are_equal_in_all_columns_that_are_read() -> None:
    schema = pa.schema(
        {
            "k": pa.dictionary(pa.int8(), pa.string()),
            "t": pa.int64(),
            "l": pa.list_(pa.float64()),
            "m": pa.map_(pa.string(), pa.int8()),
            "w": pa.int32(),
        }
    )
    nan = float("nan")
    first, other = ("a", 1, [1.0, nan, None], [("x", 1)]), ("a", 1, [1.0, nan], [("x", 2)])
    join = band(how="left")
    op = join.operator(schema, schema)
    op.push_left(rows((*first, 1), (*other, 1), schema=schema))
    for absent in [("a", 1, [1.0, None], [("x", 1)]), ("a", 2, *first[2:]), ("b", *first[1:])]:
        with pytest.raises(wk.InvalidValue, match="left_weight: row 1 has -1"):
            op.push_left(rows(("c", 1, None, None, 1), (*absent, -1), schema=schema))
    op = wk.JoinOperator.restore(op.snapshot(), join)
    # Each retracts one row, and two of one call retract two.
    with pytest.raises(wk.InvalidValue, match="left_weight: row 1 has -1"):
        op.push_left(rows((*first, -1), (*first, -1), schema=schema))
    assert op.push_left(rows((*first, -1), schema=schema)).num_rows == 0
    assert op.close()["m"].to_pylist() == [[("x", 2)]]
    # What is not read makes no difference.
    narrow = band(left_columns="t").operator(schema, schema)
    narrow.push_left(rows((*first, 1), schema=schema))
    narrow.push_left(rows((*other, -1), schema=schema))
    assert narrow.stats().left_kept == 0


def test_many_equal_rows_are_retracted() -> None:
    op = band(by=[]).operator(SIDE, SIDE)
    many = 20_000
    columns = {"k": ["a"] * many, "t": [1] * many, "v": [1.0] * many}
    op.push_left(pa.table({**columns, "w": [1] * many}, SIDE))
    op.push_left(pa.table({**columns, "w": [-1] * many}, SIDE))
    assert op.stats().left_kept == 0


def test_rows_by_windows_differ_in_their_times() -> None:
    join = band(within=None, windows=wk.sliding(4, 2), left_columns="v", how="left")
    op = join.operator(SIDE, SIDE)
    op.push_left(rows(("a", 4, 1.0, 1)))
    with pytest.raises(wk.InvalidValue, match="left_weight: row 0 has -1"):
        op.push_left(rows(("a", 5, 1.0, -1)))
    assert op.push_left(rows(("a", 4, 1.0, -1), ("a", 5, 2.0, 1))).num_rows == 0
    result = op.close()
    assert result.column_names == ["v", "t", "v_right", "window_start", "window_end", "weight"]
    assert [result[name].to_pylist() for name in ("v", "window_start", "weight")] == [
        [2.0] * 2,
        [2, 4],
        [1, 1],
    ]


def test_a_retraction_that_is_late_is_set_aside() -> None:
    op = band(how="left").operator(SIDE, SIDE)
    op.push_left(rows(("a", 3, 1.0, 1)))
    op.advance_left(4)
    assert op.push_left(rows(("a", 3, 1.0, -1))).num_rows == 0
    assert op.take_late_left()["w"].to_pylist() == [-1]
    assert op.close()["weight"].to_pylist() == [1]


def test_a_row_without_partner_that_was_returned_can_be_retracted() -> None:
    op = band(how="left").operator(SIDE, SIDE)
    op.push_left(rows(("a", 3, 1.0, 1), (None, 4, 1.0, 1), ("b", 3, 1.0, 1)))
    op.push_right(rows(("b", 3, 1.0, 1)))
    assert op.advance_right(20)["k"].to_pylist() == ["a"]
    result = op.push_left(rows(("a", 3, 1.0, -1), (None, 4, 1.0, -1), ("b", 3, 1.0, -1)))
    assert result.select(["k", "t_right", "weight"]).to_pylist() == [
        {"k": "a", "t_right": None, "weight": -1},
        {"k": None, "t_right": None, "weight": -1},
        {"k": "b", "t_right": 3, "weight": -1},
    ]


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_joined_by_the_rows_that_remain(library: str) -> None:
    table = rows(("a", 1, 1.0, 1), ("a", 1, 2.0, 1), ("a", 1, 1.0, -1))
    right = rows(("a", 2, 7.0, 1))
    frame = pl.from_arrow(table) if library == "polars" else table.to_pandas()
    result = band().run(frame, right)
    assert type(result).__module__.startswith(library)
    assert pa.table(result).select(["v", "v_right", "weight"]).to_pylist() == [
        {"v": 2.0, "v_right": 7.0, "weight": 1}
    ]


def test_what_is_refused_says_so() -> None:
    for options, message in [
        ({"left_weight": "k"}, "left_weight: 'k' is a key or the time, which a row"),
        ({"right_weight": "t"}, "right_weight: 't' is a key or the time, which a row"),
        ({"left_weight": 3}, "left_weight: 3 is an int; a name is a str"),
    ]:
        with pytest.raises(wk.WindowKitError, match=message):
            band(**options)
    for options, message in [
        ({"left_weight": "x"}, "left_weight: no column 'x'"),
        ({"left_weight": "v"}, "left_weight: column 'v' is .*; allowed are columns of signed integers"),
        ({"left_columns": ["t", "w"]}, "left_columns: 'w' is the column of weights"),
    ]:
        with pytest.raises(wk.WindowKitError, match=message):
            band(**options).schema(SIDE, SIDE)
    named = pa.schema({"k": pa.string(), "t": pa.int64(), "weight": pa.int8()})
    with pytest.raises(
        wk.InvalidValue, match="weight: the result has a column 'weight', and so would the left"
    ):
        band(left_weight=None).operator(named, SIDE)
    op = band().operator(SIDE, SIDE)
    for weight, message in [(2, "row 1 has 2 in column 'w'"), (None, "row 1 has null in column 'w'")]:
        bad = rows(("a", 1, 1.0, 1), ("a", 1, 1.0, weight))
        with pytest.raises(wk.InvalidValue, match=f"right_weight: {message}; allowed are 1, and -1"):
            op.push_right(bad)
        with pytest.raises(wk.InvalidValue, match=f"right_weight: {message}; allowed are 1, and -1"):
            band().run(rows(), bad)
    assert op.stats().right_rows == 0
    with pytest.raises(wk.InvalidValue, match="left_weight: row 1 has -1, but there is no row of weight 1"):
        band().run(rows(("a", 1, 1.0, 1), ("a", 1, 2.0, -1)), rows())


def test_weights_are_written_down() -> None:
    join = band(right_weight=None)
    assert wk.Join.from_dict(join.to_dict()) == join
    assert "left_weight" not in band(**dict.fromkeys(BOTH)).to_dict()
    assert str(join) == "by k over t and t, weighed by w: within 5, inner"


def test_rows_without_a_partner_are_returned_at_once() -> None:
    plain_side = SIDE.remove(3)
    op = band(how="full", **dict.fromkeys(BOTH)).operator(plain_side, plain_side, emit=EARLY)
    alone = op.push_left(rows(("a", 1, 1.0), schema=plain_side))
    assert alone.select(["t", "t_right", "weight"]).to_pylist() == [{"t": 1, "t_right": None, "weight": 1}]
    op = wk.JoinOperator.restore(op.snapshot(), op.join)
    pair = op.push_right(rows(("a", 2, 1.0), ("a", 3, 1.0), schema=plain_side))
    assert pair.select(["t", "t_right", "weight"]).to_pylist() == [
        {"t": 1, "t_right": None, "weight": -1},
        {"t": 1, "t_right": 2, "weight": 1},
        {"t": 1, "t_right": 3, "weight": 1},
    ]
    assert op.advance_left(20).num_rows + op.advance_right(20).num_rows + op.close().num_rows == 0


def test_other_policies_are_refused_by_name() -> None:
    join = band(how="left")
    for emission, message in [
        (wk.emit(wk.rows(2), "retracting"), r"early: emit\(rows\(2\).* is given for a join; allowed is"),
        (wk.emit(wk.every(5), "retracting"), "early: emit.*every.* is given for a join; allowed is"),
        (wk.emit(refinement="retracting"), "early: emit.* is given for a join; allowed is"),
        (wk.emit(wk.rows(1)), "refinement: .* a row without a partner is withdrawn once it has one; allowed"),
        (wk.emit(wk.rows(1), "discarding"), "refinement: .* is withdrawn once it has one"),
        (wk.emit(wk.rows(2), later=3), "early: .* is given for a join; allowed is"),
        (wk.emit(complete=True), "complete: .* is given for a join, which does not measure"),
        (wk.rows(1), r"emit: .* is a Rows; it is what windowkit.emit\("),
    ]:
        with pytest.raises(wk.WindowKitError, match=message):
            join.operator(SIDE, SIDE, emit=emission)  # type: ignore[arg-type]
    for how in ("inner", "semi"):
        with pytest.raises(wk.InvalidValue, match="emit: early results are rows without a partner, of which"):
            band(how=how).operator(SIDE, SIDE, emit=EARLY)
