"""How complete windows are by now: the share of their rows that can be expected to have arrived."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from windowkit import _native

__all__ = ["FIELDS", "Completeness", "with_completeness"]

FIELDS: Final = tuple(pa.field(name, pa.float64()) for name in ("complete", "complete_error"))
"""What results of policies with ``complete=True`` have as their last columns."""


@dataclass(frozen=True)
class Completeness:
    """Which share of a window's rows can be expected to have arrived; see `windowkit.Operator.completeness`.

    Parameters
    ----------
    share : float
        Between 0 and 1.
    error : float
        How much it may be wrong, but for one in twenty streams.
    """

    share: float
    error: float


def with_completeness(
    core: _native.Operator, rows: pa.Table, results: pa.Table, among: Container[str] | None
) -> pa.Table:
    """Return results with how complete their windows are, those of some queries or of all.

    Parameters
    ----------
    core : windowkit._native.Operator
        What knows how late rows are.
    rows : pyarrow.Table
        The results as the core has them.
    results : pyarrow.Table
        The same in the columns that are asked for.
    among : container of str or None
        The names of the queries whose results have it.
    """
    windows = rows["session_window" if "session_window" in rows.column_names else "window"]
    extents = pa.Table.from_arrays(
        [pc.struct_field(windows, 0), pc.struct_field(windows, 1)], ["start", "end"]
    ).combine_chunks()
    (batch,) = extents.to_batches() or [pa.RecordBatch.from_pylist([], extents.schema)]
    found = pa.record_batch(core.completeness(batch))
    # What takes a result back says nothing of now.
    has_none = pc.equal(rows["emission"], "retraction")
    if among is not None:
        names = rows["query_name"].to_pylist()
        has_none = pc.or_(has_none, pa.array([name not in among for name in names], pa.bool_()))
    for field, column in zip(FIELDS, found.columns, strict=True):
        results = results.append_column(field, pc.if_else(has_none, pa.scalar(None, field.type), column))
    return results
