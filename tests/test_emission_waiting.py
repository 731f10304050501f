"""Results that wait: at most so many rows a call, or until the watermark has moved on."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk

SCHEMA = pa.schema({"k": pa.int64(), "t": pa.int64(), "v": pa.int64()})


def query(window: wk.Window, emit: wk.Emission | None) -> wk.Query:
    return wk.query(by="k", time="t", windows=window, aggs=wk.sum("v").alias("s"), emit=emit)


def rows(*given: tuple[int, int, int]) -> pa.Table:
    columns = zip(*given, strict=True) if given else ([], [], [])
    return pa.table(dict(zip(SCHEMA.names, map(list, columns), strict=True)), schema=SCHEMA)


def sums(result: pa.Table) -> list[int]:
    return result["s"].to_pylist() if result.num_rows else []


class Waits:
    """What the policy lets pass, of results given call by call with the watermark before and after."""

    def __init__(self, at_most: int | None, later: int | None) -> None:
        self.at_most, self.later = at_most, later
        self.waiting: list[tuple[Any, int | None, int | None]] = []

    def call(
        self, made: list[Any], before: int | None, after: int | None, *, closes: bool = False
    ) -> list[Any]:
        self.waiting += [(result, before, after) for result in made]
        leaving: list[Any] = []
        while self.waiting:
            result, _, since = self.waiting[0]
            is_due = (
                self.later is not None
                and after is not None
                and (since is None or since + self.later <= after)
            )
            has_room = self.at_most is not None and len(leaving) < self.at_most
            if not (closes or is_due or has_room):
                break
            leaving.append(result)
            self.waiting.pop(0)
        return leaving

    def out(self, watermark: int | None) -> int | None:
        return self.waiting[0][1] if self.waiting else watermark


CALLS = st.lists(
    st.one_of(
        st.lists(st.tuples(st.integers(0, 2), st.integers(0, 60), st.integers(0, 9)), min_size=1, max_size=6),
        st.integers(0, 70),
        st.sampled_from(["restart", "fire"]),
    ),
    max_size=12,
)


@given(
    st.one_of(st.none(), st.integers(1, 4)),
    st.one_of(st.none(), st.integers(0, 30)),
    st.sampled_from(["accumulating", "retracting"]),
    CALLS,
)
@settings(deadline=None)
def test_they_leave_in_order_and_none_is_lost(
    at_most: int | None, later: int | None, refinement: str, calls: list[Any]
) -> None:
    """Beside an operator whose results never wait."""
    if at_most is None and later is None:
        later = 5
    window = wk.sliding(20, 10)
    at_once = query(window, wk.emit(wk.rows(2), refinement)).operator(
        order="out-of-order", allowed_lateness=20, schema=SCHEMA
    )
    waiting = query(window, wk.emit(wk.rows(2), refinement, at_most=at_most, later=later)).operator(
        order="out-of-order", allowed_lateness=20, schema=SCHEMA
    )
    waits = Waits(at_most, later)
    watermark: int | None = None
    for call in calls:
        before = watermark
        if call == "restart":
            waiting = wk.Operator.restore(waiting.snapshot(), dict(waiting.queries))
            continue
        if call == "fire":
            made, left = at_once.fire(), waiting.fire()
        elif isinstance(call, int):
            watermark = call if watermark is None else max(call, watermark)
            made, left = at_once.advance(watermark), waiting.advance(watermark)
        else:
            made, left = at_once.push(rows(*call)), waiting.push(rows(*call))
        assert left.to_pylist() == waits.call(made.to_pylist(), before, watermark)
        out = waiting.watermark_out
        assert (None if out is None else out.as_py()) == waits.out(watermark)
    assert waiting.close().to_pylist() == waits.call(
        at_once.close().to_pylist(), watermark, None, closes=True
    )
    assert waiting.watermark_out is None


def test_queries_without_a_policy_do_not_wait() -> None:
    op = query(wk.tumbling(10), wk.emit(at_most=1)).operator(name="slow")
    op.add(query(wk.tumbling(10), None), name="plain")
    op.push(rows((1, 1, 1), (2, 2, 2)))
    shown = op.push(rows((1, 10, 4))).select(["query_name", "s"]).to_pylist()
    sums_of = sorted((each["query_name"], each["s"]) for each in shown)
    assert sums_of == [("plain", 1), ("plain", 2), ("slow", 1)]
    with pytest.raises(wk.InvalidValue, match=r"results of 'slow' are still held back by .* \(1\)"):
        op.remove("slow")
    assert sums(op.push(rows())) == [2]
    op.remove("slow")
    assert sums(op.close()) == [4]


def test_waiting_results_get_the_columns_of_added_queries() -> None:
    op = query(wk.tumbling(10), wk.emit(at_most=1)).operator()
    op.push(rows((1, 1, 1), (2, 2, 2)))
    assert sums(op.push(rows((1, 10, 4)))) == [1]
    other = wk.query(
        by="k",
        time="t",
        windows=[wk.tumbling(5), wk.session(3)],
        aggs=wk.max("v").alias("m"),
        emit=wk.emit(refinement="retracting"),
    )
    op.add(other, name="other")
    (row,) = op.push(rows()).to_pylist()
    assert row == {
        "k": 2,
        "query_name": "q1",
        "window_name": "tumbling(10)",
        "window_start": 0,
        "window_end": 10,
        "s": 2,
        "m": None,
        "update": False,
        "emission": "final",
        "weight": 1,
    }


@pytest.mark.parametrize(
    ("waits", "error", "match"),
    [
        ({"at_most": 0}, wk.InvalidValue, "at_most: 0"),
        ({"at_most": 1.5}, wk.InvalidType, "at_most"),
        ({"at_most": True}, wk.InvalidType, "at_most"),
        ({"later": -1}, wk.InvalidValue, "later: -1"),
        ({"later": "3 rows"}, wk.InvalidType, "later"),
        ({"later": "1 month"}, wk.InvalidValue, "later"),
    ],
)
def test_errors(waits: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        wk.emit(**waits)


def test_lengths_must_fit_the_time_column() -> None:
    with pytest.raises(wk.InvalidType, match=r"later: it is a duration, but column 't' is an integer"):
        query(wk.global_window(), wk.emit(later="1 minute")).operator(schema=SCHEMA)


def test_forms() -> None:
    policy = wk.emit(wk.rows(3), at_most=100, later="1 minute")
    assert repr(policy) == "emit(rows(3), at_most=100, later='1 minute')"
    asked = query(wk.tumbling("10 minutes"), policy)
    assert wk.Query.from_dict(asked.to_dict()) == asked
