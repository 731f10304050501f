"""What the footers of Parquet files tell before a row is read: how many rows a slice will have."""

from __future__ import annotations

from datetime import date, datetime
from math import ceil
from typing import Any, Final

from windowkit.spark import parquet
from windowkit.spark.choice import Expected
from windowkit.spark.files import Source
from windowkit.spark.job import Job
from windowkit.spark.stages import LIMITS

__all__ = ["expected"]

SAMPLE: Final = 8
"""Files whose footers are read, spread over all."""


def expected(source: Source, job: Job, names: tuple[str, ...]) -> Expected | None:
    """Estimate the rows of a slice, from below: no more keys and panes can there be, so no fewer rows.

    Rows are counted, or estimated from some files; panes follow from the least and greatest time, keys from
    the least and greatest integer. None if that says nothing: a statistic is missing, a key is no integer, or
    values lie far apart.
    """
    step = max(len(source.files) // SAMPLE, 1)
    sample = source.files[::step][:SAMPLE]
    rows, size = 0, 0
    ends: dict[str, tuple[Any, Any]] = {}
    by_file = dict(zip(names, job.query.inputs, strict=True))
    wanted = {name for name, column in by_file.items() if column in (*job.query.by, job.query.time)}
    for file in sample:
        metadata = parquet.fragment(source.filesystem, file).metadata
        rows, size = rows + metadata.num_rows, size + file.size
        for group in range(metadata.num_row_groups):
            columns = metadata.row_group(group)
            for at in range(columns.num_columns):
                column = columns.column(at)
                if column.path_in_schema not in wanted:
                    continue
                found = column.statistics
                if found is None or not found.has_min_max:
                    return None
                low, high = ends.get(column.path_in_schema, (found.min, found.max))
                ends[column.path_in_schema] = (min(low, found.min), max(high, found.max))
    if not rows or wanted - set(ends) - set(source.partitioned.names):
        return None
    rows = ceil(rows * source.bytes / size)
    measure = next(name for name, column in by_file.items() if column == job.query.time)
    keys = 1
    for name in wanted - {measure}:
        if name in source.partitioned.names:
            at = source.partitioned.names.index(name)
            keys *= len({file.values[at] for file in source.files})
            continue
        low, high = ends[name]
        if not isinstance(low, int) or isinstance(low, bool):
            return None
        keys *= high - low + 1
    panes = None if measure not in ends else panes_between(job, *ends[measure])
    if panes is None:
        return None
    least = rows / max(keys * panes, 1)
    if least * LIMITS.share < 1:
        # That there can be as many slices as rows does not say that there are.
        return None
    return Expected(
        least,
        f"at least, as the statistics of {len(sample):,} of {len(source.files):,} files say: about {rows:,} "
        f"rows, at most {keys:,} keys in {panes:,} panes",
    )


def panes_between(job: Job, low: Any, high: Any) -> int | None:
    """Return how many panes there are between two times of Parquet's statistics; None if unknown."""
    if isinstance(low, datetime):
        span = (high - low).total_seconds() * 1e6
    elif isinstance(low, date):
        span = (high - low).days
    elif isinstance(low, int) and not isinstance(low, bool):
        span = high - low
    else:
        return None
    if job.plan.pane_edges is None:
        return None
    return sum(int(span // period) + 1 for period, _ in job.plan.pane_edges)
