"""Emission policies of simulated queries, and what their results must add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import strategies as st

import windowkit as wk
from support.plain import plain
from support.streams import scaled

Weights = Counter[tuple[str, str]]
"""Of each row of a retracting query, by its name: how often it was emitted and not retracted."""

OWN: Final = ("query_name", "window_name", "update", "emission", "weight")
"""Columns that say what a result is, and not what its window has."""


@st.composite
def any_trigger(draw: st.DrawFn, kind: pa.DataType, has_clock: bool) -> wk.Trigger:
    simple = st.sampled_from(
        [
            wk.rows(1),
            wk.rows(3),
            wk.rows(10),
            wk.every(scaled(7, kind)),
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
def any_policy(draw: st.DrawFn, kind: pa.DataType, has_clock: bool) -> wk.Emission | None:
    """Draw a policy whose final results are those of a query without one."""
    refinement = draw(st.sampled_from([None, None, None, "accumulating", "retracting", "retracting"]))
    if refinement is None:
        return None
    return wk.emit(draw(st.none() | any_trigger(kind, has_clock)), refinement)


def final(emitted: pa.Table) -> pa.Table:
    """Return the results of windows that are final."""
    if "emission" not in emitted.column_names:
        return emitted
    return emitted.filter(pc.is_in(emitted["emission"], pa.array(["final", "late"])))


def weigh(weights: Weights, emitted: pa.Table, queries: Mapping[str, wk.Query]) -> None:
    """Add the weights of results; over any prefix, each is there or is not."""
    if "weight" not in emitted.column_names:
        return
    # As numbers, times are the same in every zone: which one results are in depends on all queries.
    columns = map(plain, emitted.columns)
    for row in (
        dict(zip(emitted.column_names, values, strict=True)) for values in zip(*columns, strict=True)
    ):
        name = row.get("query_name") or next(iter(queries))
        policy = queries[name].emit
        if policy is None or policy.refinement != "retracting":
            assert row["weight"] == 1, row
            continue
        assert (row["weight"] == -1) == (row["emission"] == "retraction"), row
        # Queries that were added since bring columns of nulls, and another name for windows.
        known = {
            column.replace("session_window", "window"): value
            for column, value in row.items()
            if value is not None and column not in OWN
        }
        at = (name, repr([row.get("window_name") or queries[name].windows[0].name, *sorted(known.items())]))
        weights[at] += row["weight"]
        assert weights[at] in (0, 1), row


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
