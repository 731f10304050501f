"""The columns that hold windows in results: two, or one of structs, as `window_columns` says."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from support.plain import plain

Span = tuple[int, int] | None
STRUCTS = ("window", "session_window")
EXTENTS = (*STRUCTS, "window_rows", "window_start", "window_end", "window_rows_start", "window_rows_end")
"""What these columns may be called."""
FORMS: Final = ("flat", "struct")


def spans_of(result: pa.Table) -> list[Span]:
    """Return where windows start and end, in units of their column; None for those that are withdrawn."""
    names = [name for name in STRUCTS if name in result.column_names]
    return pairs(result, names[0] if names else "window")


def ranks_of(result: pa.Table) -> list[Span]:
    """Return the ranks of windows' rows; None for windows that have none."""
    has_ranks = {"window_rows", "window_rows_start"} & set(result.column_names)
    return pairs(result, "window_rows") if has_ranks else [None] * result.num_rows


def pairs(result: pa.Table, name: str) -> list[Span]:
    if name in result.column_names:
        return [pair and (pair["start"], pair["end"]) for pair in plain(result[name])]
    starts, ends = plain(result[f"{name}_start"]), plain(result[f"{name}_end"])
    assert [start is None for start in starts] == [end is None for end in ends]
    return [None if start is None else (start, end) for start, end in zip(starts, ends, strict=True)]
