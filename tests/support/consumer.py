"""What a consumer of an operator's results holds, who replaces by updates what they say that they replace."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

import windowkit as wk
from support.extents import ranks_of, spans_of
from support.oracle import counts_arrivals
from support.plain import key, plain
from support.rows_oracle import by_ranks, edge_after, numbered
from windowkit.language.windows import units

Held = dict[tuple[str, tuple[Any, ...], str, Any], list[Any]]
"""By query, keys, window and what tells it apart: its start, its end, its ranks, and the aggregates."""


def replace(last: Held, emitted: pa.Table, queries: Mapping[str, wk.Query], time: pa.DataType) -> None:
    """Let the windows that a call returned replace those that they are updates of."""
    if not emitted.num_rows:
        return
    columns = {name: plain(emitted[name]) for name in emitted.column_names}
    retracted: Held = {}
    for row, (span, told_ranks) in enumerate(zip(spans_of(emitted), ranks_of(emitted), strict=True)):
        of = columns["query_name"][row] if "query_name" in columns else next(iter(queries))
        query = queries[of]
        name = columns["window_name"][row] if "window_name" in columns else query.windows[0].name
        kind = next(window for window in query.windows if window.name == name)
        group = tuple(key(columns[by][row]) for by in query.by)
        values = [columns[each.name][row] for each in query.aggs]
        if numbered(kind) or counts_arrivals(kind):
            identity: Any = columns["window_number"][row]
        elif kind.counts_rows:
            identity = identity_of(kind, span, told_ranks, time)
        else:
            identity = span
        at = (of, group, name, identity)
        emission = columns["emission"][row] if "emission" in columns else "final"
        if emission == "retraction":
            if at in last:
                retracted[at] = last.pop(at)
            continue
        if emission == "early":
            # A final window that later rows go on to change is still final as it was.
            if at in retracted:
                last[at] = retracted[at]
            continue
        if isinstance(kind, wk.Session) and not numbered(kind) and columns["update"][row]:
            for other in [each for each in last if each[:3] == at[:3]]:
                if span is not None and span[0] <= other[3][0] and other[3][1] <= span[1]:
                    del last[other]
        if span is None:
            del last[at]
            continue
        if query.weight is not None and not rows_left(query, values):
            assert columns["update"][row], f"{at} has no rows, and replaces nothing"
            last.pop(at, None)
            continue
        assert columns["update"][row] or at not in last, f"{at} comes twice, and not as an update"
        last[at] = [*span, told_ranks, *values]


def rows_left(query: wk.Query, values: list[Any]) -> bool:
    """Whether rows of a window remain; a query of rows with weights that does not count them is not told."""
    counts = [
        value
        for each, value in zip(query.aggs, values, strict=True)
        if each.function == "count_all" and each.condition is None
    ]
    return all(counts)


def identity_by_ranks(kind: Any, ranks: Any) -> Any:
    """Return where a window begins, or which it is of those that begin with the first row."""
    if isinstance(kind, wk.Landmark):
        return -(-ranks[1] // units(kind.every))
    if ranks[0] == 0 and kind.partial in ("start", "both"):
        slide = kind.slide if isinstance(kind, wk.Sliding) else kind.size
        return "first", -(-ranks[1] // units(slide))
    return ranks[0]


def identity_of(kind: Any, span: Any, ranks: Any, time: pa.DataType) -> Any:
    """Return what tells a window of a number of rows apart."""
    if by_ranks(kind):
        return identity_by_ranks(kind, ranks)
    if isinstance(kind.size, wk.Rows):
        return edge_after(kind, span[1], time)
    return ranks[1]
