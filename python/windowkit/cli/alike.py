"""Columns of two inputs that are compared with each other: of text, they are read as one type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import types as is_a

from windowkit.cli.tables import Table
from windowkit.files.text import Text, is_text

__all__ = ["alike"]

Pair = tuple[str, str]
"""A column of one input, and the one of the other that it is compared with."""


def alike(one: Table, other: Table, keys: Sequence[Pair], times: Pair) -> tuple[Table, Table]:
    """Return the tables of two inputs with columns of one type, where text that was read has two.

    What values a file happens to have decides what its text is read as: of two inputs the values of both do.
    Types that were given stay, and so do those of files; times that are text are no times of any type.
    """
    for name, its in [*keys, times]:
        if name not in one.schema.names or its not in other.schema.names:
            continue
        kind = of_both(one.schema.field(name).type, other.schema.field(its).type)
        if kind is not None and not ((name, its) == times and is_text(kind)):
            because = one.because.get(name) or other.because.get(its)
            one, other = read_as(one, name, kind, because), read_as(other, its, kind, because)
    return one, other


def of_both(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the type of which values of both are; None if there is nothing to do, or none."""
    if one == other or is_a.is_null(one) or is_a.is_null(other):
        return None
    if is_text(one) or is_text(other):
        return pa.string()
    if all(is_a.is_integer(kind) or is_a.is_floating(kind) for kind in (one, other)):
        return pa.float64()
    times = [kind for kind in (one, other) if is_a.is_timestamp(kind)]
    if len(times) == 2 and times[0].tz == times[1].tz:
        return max(times, key=lambda kind: ("s", "ms", "us", "ns").index(kind.unit))
    if len(times) == 1 and times[0].tz is None and any(map(is_a.is_date, (one, other))):
        return times[0]
    return None


def read_as(table: Table, name: str, kind: pa.DataType, because: str | None) -> Table:
    """Return a table of which a column of text is read as another type, if it had none by itself."""
    text = table.texts.get(name)
    if text is None or text.is_given or text.time_format is not None or text.type == kind:
        return table
    schema = table.schema.set(table.schema.get_field_index(name), pa.field(name, kind))
    reasons = {name: because} if because is not None and is_text(kind) else {}
    return replace(
        table,
        schema=schema,
        texts={**table.texts, name: Text(kind)},
        because={**table.because, **reasons},
    )
