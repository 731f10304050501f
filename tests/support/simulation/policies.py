"""Emission policies of simulated queries, and what their results must add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa
from hypothesis import strategies as st

import windowkit as wk
from support.plain import plain
from support.simulation.places import Place

WAITS: Final[Sequence[Mapping[str, int | None]]] = [
    *[{"at_most": None, "later": None}] * 5,
    {"at_most": 1, "later": None},
    {"at_most": 5, "later": None},
    {"at_most": None, "later": 0},
    {"at_most": None, "later": 20},
    {"at_most": 2, "later": 20},
]
"""How many results a call returns at most, and how long they wait."""

Weights = Counter[tuple[str, str]]
"""Of each row of a retracting query, by its name: how often it was emitted and not retracted."""

OWN: Final = ("query_name", "window_name", "update", "emission", "weight")
"""Columns that say what a result is, and not what its window has."""


@st.composite
def any_trigger(draw: st.DrawFn, place: Place, has_clock: bool) -> wk.Trigger:
    simple = st.sampled_from(
        [
            wk.rows(1),
            wk.rows(3),
            wk.rows(10),
            wk.every(place.length(7)),
            wk.on("m"),
            wk.on("n"),
            *([wk.every("9 microseconds", of="processing time")] if has_clock else []),
            *([wk.every("9 microseconds", of="processing time", since="first row")] if has_clock else []),
        ]
    )
    first, second = draw(simple), draw(simple)
    match draw(st.sampled_from(["one", "one", "either", "both", "chain", "cycle"])):
        case "either":
            return first | second
        case "both":
            return first & second
        case "chain":
            return first.then(second)
        case "cycle":
            return first.then(second).repeat()
    return first


@st.composite
def any_policy(
    draw: st.DrawFn, place: Place, has_clock: bool, refinements: Sequence[str | None], *, may_wait: bool
) -> wk.Emission | None:
    """Draw a policy of one of these refinements, whose results wait now and then; None is none."""
    refinement = draw(st.sampled_from(refinements))
    if refinement is None:
        return None
    waits = draw(st.sampled_from(WAITS if may_wait else WAITS[:1]))
    later = None if waits["later"] is None else place.length(waits["later"])
    trigger = draw(st.none() | any_trigger(place, has_clock))
    return wk.emit(trigger, refinement, at_most=waits["at_most"], later=later)


class Told(NamedTuple):
    """What results say of themselves, row by row."""

    name: str
    window: wk.Window
    update: bool
    emission: str

    @property
    def is_final(self) -> bool:
        return self.emission in ("final", "late")


def told(emitted: pa.Table, queries: Mapping[str, wk.Query]) -> list[Told]:
    """Return what results say of themselves."""
    count, first = emitted.num_rows, next(iter(queries))

    def values(name: str, otherwise: Any) -> list[Any]:
        return emitted[name].to_pylist() if name in emitted.column_names else [otherwise] * count

    windows = {name: {window.name: window for window in query.windows} for name, query in queries.items()}
    names = values("query_name", first)
    given = zip(
        names, values("window_name", None), values("update", False), values("emission", "final"), strict=True
    )
    return [
        Told(name, windows[name][window or queries[name].windows[0].name], update, emission)
        for name, window, update, emission in given
    ]


def weigh(weights: Weights, emitted: pa.Table, queries: Mapping[str, wk.Query]) -> None:
    """Add the weights of results; over any prefix, each is there or is not."""
    if "weight" not in emitted.column_names or not emitted.num_rows:
        return
    # Queries that were added since bring columns of nulls, and another name for windows.
    columns = {
        name.replace("session_window", "window"): plain(emitted[name])
        for name in emitted.column_names
        if name not in OWN
    }
    names = sorted(columns)
    values = zip(*(columns[name] for name in names), strict=True)
    for row, weight, of_row in zip(
        told(emitted, queries), emitted["weight"].to_pylist(), values, strict=True
    ):
        policy = queries[row.name].emit
        if policy is None or policy.refinement != "retracting":
            assert weight == 1, row
            continue
        assert (weight == -1) == (row.emission == "retraction"), row
        known = [(name, value) for name, value in zip(names, of_row, strict=True) if value is not None]
        at = (row.name, repr([row.window.name, *known]))
        weights[at] += weight
        assert weights[at] in (0, 1), (row, known)


def counted(weights: Weights, name: str) -> int:
    """Return how many rows of a query are left."""
    return sum(weight for (query, _), weight in weights.items() if query == name)


def retracting(queries: Mapping[str, Any]) -> list[str]:
    """Return the names of queries that retract."""
    return [
        name
        for name, query in queries.items()
        if query.emit is not None and query.emit.refinement == "retracting"
    ]
