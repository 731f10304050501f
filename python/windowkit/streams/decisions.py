"""What an operator decided, by general stream slicing, described for `windowkit.Operator.explain`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from windowkit import _native
from windowkit.language.lines import text_of
from windowkit.language.query import Query
from windowkit.language.shedding import Shed
from windowkit.language.windows import quoted

__all__ = ["Decisions", "decisions_of", "described", "summary"]

LAZILY: Final = "their slices are combined when a window is ready, whatever store= says"
KEPT: Final = {
    "in-order": (
        "as long as a window that is not final may need them, in the order of time and arrival",
        LAZILY,
    ),
    "out-of-order": (
        "as long as a row or a window to come may need them, in the order of time and arrival",
        LAZILY,
    ),
}


class Decisions(NamedTuple):
    """What the core reports of itself."""

    strategy: list[_native.Decision]
    with_rows: list[str]
    """Names of the queries for which rows are stored."""
    stores: list[tuple[str, str]]


def decisions_of(core: _native.Operator) -> Decisions:
    """Return what a core decided."""
    return Decisions(core.strategy(), core.queries_with_rows(), core.stores())


def summary(query: Query) -> str:
    """Return what distinguishes a query from others of the same keys and time."""
    windows, aggs = (", ".join(map(str, each)) for each in (query.windows, query.aggs))
    policy = "" if query.emit is None else f"; {query.emit}"
    return f"{windows}; {aggs}{policy}"


def described(
    order: str, queries: Mapping[str, Query], decisions: Decisions | None, shed: Shed | None = None
) -> str:
    """Describe an operator; None if the schema of its rows is not known yet."""
    first = next(iter(queries.values()))
    orders = "in order" if order == "in-order" else "out of order"
    lines = [f"stream operator, rows {orders}, by {', '.join(first.by) or 'nothing'} over {first.time}"]
    lines += ["queries"]
    lines += [f"  {quoted(name)}: {summary(query)}" for name, query in queries.items()]
    if shed is not None:
        lines += [f"shed: {shed.keep} are kept where the state would take more than {shed.bytes:,} bytes"]
    if decisions is None:
        return text_of([*lines, "decisions", "  none before the schema is known"])
    lines.append("decisions (Traub et al. 2019)")
    for each in decisions.strategy:
        lines += [f"  {each.what}: {each.answer} ({each.source})", f"    {each.because}"]
    if decisions.with_rows:
        lines.append(f"rows are stored for {', '.join(map(quoted, decisions.with_rows))} (§5.1)")
        lines += [f"  {line}" for line in KEPT[order]]
    for form, why in decisions.stores:
        lines += [f"store: {form} (§5.2)", f"  {why}"]
    return text_of(lines)
