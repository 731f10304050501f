"""Queries of operators, drawn: their windows, aggregates and policies, as far as they go with each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.failing import COMMUTATIVE, ORDERED, Rising, Terms
from support.oracle import counts_arrivals
from support.oracle_types import functions_of
from support.simulation.panes import NUMBERS
from support.simulation.places import Place, clock_window
from support.simulation.policies import any_policy
from support.streams import AGGREGATES, VALUES, is_aware, row_windows, time_window
from windowkit.language.processing import ProcessingTime
from windowkit.language.weights import is_invertible

KINDS = ["in-order", "patient", "patient", "strict", "sealed", "shed", "sampled", "sliced"]
"""How an operator takes rows: in order, or late by much or little; with results that are not replaced; with
little memory, for which it drops keys or rows; or with slices beside rows."""
BY_TIME = ("shed", "sampled", "sliced")
"""Kinds of which all windows are by time."""
GAP, WEIGHT = "g", "w"
"""Columns of the gaps of sessions, and of the weights of rows."""


def any_window(draw: st.DrawFn, place: Place) -> wk.Window:
    choices = ["time", "time", "rows", "rows", "rising", "growing"]
    if pa.types.is_integer(place.kind):
        choices.append("calendar")
    match draw(st.sampled_from(choices)):
        case "time":
            return by_time(draw, place)
        case "rows":
            return row_windows(draw, place.kind)
        case "rising":
            return wk.custom(Rising())
        case "growing":
            partial = draw(st.sampled_from(["none", "end"]))
            return wk.landmark(wk.rows(draw(st.integers(1, 9))), partial=partial)
    return wk.custom(Terms())


def by_time(draw: st.DrawFn, place: Place) -> wk.Window:
    return time_window(draw, place.kind) if place.zone is None else clock_window(draw, place)


AGGS = [
    each.alias(f"a{number}")
    for number, each in enumerate(
        [
            *AGGREGATES,
            *(each(name) for name, (kind, _) in VALUES.items() for each in functions_of(kind)),
            *(each.where("b") for each in [*COMMUTATIVE, *ORDERED]),
            # As often as some ten others.
            *([*COMMUTATIVE, *ORDERED] * 3),
        ]
    )
]
"""Each with a name of its own, as one name must mean one type in all queries of an operator."""
COUNT = wk.count().alias("rows")
"""For queries in which it matters how many rows a window has."""
RETRACTABLE = [
    *("count_all", "count", "count_distinct", "sum", "mean", "median", "quantile", "quantile_disc"),
    *("mode", "top_k", "frequent", "collect_set", "user"),
]
"""Functions that have no trace of rows that were retracted, where they are not of floats."""
EXACT = [
    each
    for each in AGGS
    if is_invertible(each)
    and each.function in RETRACTABLE
    and (each.column != "f" or each.function not in ("sum", "mean"))
]
ESTIMATED = [each for each in AGGS if each.function in ("count_all", "count", "sum", "mean")]
"""Functions that have an estimate from a sample of rows."""


@lru_cache(maxsize=1)
def sliced_aggs() -> list[wk.Aggregate]:
    """Return the functions that slices are enough for."""
    schema = pa.schema({"t": pa.int64(), **{name: kind for name, (kind, _) in VALUES.items()}})

    def suffices(each: wk.Aggregate) -> bool:
        query = wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=each)
        return query.operator(order="out-of-order", schema=schema).takes_slices

    return [each for each in AGGS if suffices(each)]


REFINEMENTS: Mapping[str, Sequence[str | None]] = {
    "plain": [None, None, None, "accumulating", "retracting", "retracting"],
    "panes": ["discarding"],
    "weights": [None, "retracting"],
    "sealed": [None],
    "sliced": [None],
    "shed": [None, None, "accumulating"],
    "sampled": [None, None, "accumulating"],
}
"""How results of a query relate, by its form or by the kind of the operator; None without a policy."""


class Allowed(NamedTuple):
    """What queries of an operator may be."""

    kind: str
    """How the operator takes rows: one of `KINDS`."""
    by: list[str]
    at: Any
    place: Place
    window_columns: str
    has_weights: bool
    """Whether rows may retract others."""
    has_gaps: bool
    """Whether all windows are sessions with a column of gaps, which go with no others."""

    @property
    def processing(self) -> bool:
        return isinstance(self.at, ProcessingTime)


@st.composite
def any_query(draw: st.DrawFn, allowed: Allowed, lateness: int) -> wk.Query:
    """Draw a query of a stream that allows a lateness."""
    kind, place = allowed.kind, allowed.place
    forms = ["plain"] * 6 + ["panes"] * 2 * (lateness == 0 and kind not in ("sealed", *BY_TIME))
    form = draw(st.sampled_from([*forms, *["weights"] * 12 * allowed.has_weights]))
    form = "gaps" if allowed.has_gaps else form
    windows = [
        draw(of_form(form, allowed)).alias(f"w{number}")
        for number in range(draw(st.sampled_from([1, 1, 2, 3])))
    ]
    pool, own = AGGS, []
    if form == "weights":
        pool, own = EXACT, [COUNT]
    elif form == "panes":
        own = [draw(st.sampled_from([wk.collect_list, wk.collect_set]))("id").alias(NUMBERS)]
    elif kind == "sliced":
        pool, own = sliced_aggs(), [COUNT]
    elif kind == "sampled":
        pool = ESTIMATED
    aggs = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=4, unique_by=lambda each: each.name))
    refinements = REFINEMENTS.get(form if form in ("panes", "weights") else kind, REFINEMENTS["plain"])
    emit = draw(any_policy(place, allowed.processing, refinements, may_wait=kind not in ("shed", "sampled")))
    return wk.query(
        by=allowed.by,
        time=allowed.at,
        windows=windows,
        aggs=[*aggs, *own],
        emit=emit,
        window_columns=allowed.window_columns,
        weight=WEIGHT if form == "weights" else None,
    )


@st.composite
def of_form(draw: st.DrawFn, form: str, allowed: Allowed) -> wk.Window:
    """Draw a window that goes with a form of queries, and with an operator."""
    place = allowed.place
    if form == "gaps":
        most = draw(st.none() | st.integers(1, 40))
        return wk.session(GAP, at_most=None if most is None else place.length(most))
    if allowed.kind == "sealed" and draw(st.booleans()):
        size, more = draw(st.integers(1, 25)), draw(st.none() | st.integers(0, 25))
        return wk.session(place.length(size), at_most=None if more is None else place.length(size + more))
    is_by_time = form != "plain" or allowed.kind in BY_TIME
    for _ in range(20):
        if is_by_time:
            calendar = pa.types.is_integer(place.kind) and draw(st.sampled_from([False] * 5 + [True]))
            window = wk.custom(Terms()) if calendar else by_time(draw, place)
        else:
            window = any_window(draw, place)
        if goes(window, form, allowed.kind):
            return window
    return wk.tumbling(place.length(10))


def goes(window: wk.Window, form: str, kind: str) -> bool:
    """Whether a window goes with a form of queries, and with an operator."""
    if kind == "sealed" and (is_aware(window) or counts_arrivals(window)):
        return False
    if kind == "sliced" and isinstance(window, wk.Landmark | wk.Global):
        return False
    if kind == "sampled" and isinstance(window, wk.Session | wk.Global | wk.Custom):
        return False
    if form == "panes":
        return not isinstance(window, wk.Session | wk.Landmark)
    return form != "weights" or window.is_fixed
