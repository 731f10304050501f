"""What the footers of Parquet files tell before a row is read: how many rows a slice will have."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import Final

import pyarrow as pa
import pyarrow.dataset as ds

from windowkit.files import File, Source
from windowkit.spark import parquet, pruning
from windowkit.spark.jobs import Job, identifier
from windowkit.spark.routes import LIMITS, Expected

__all__ = ["expected", "groups"]

SAMPLE: Final = 8
"""Files whose footers are read, spread over all."""


def expected(source: Source, job: Job, names: tuple[str, ...]) -> Expected | str:
    """Estimate the rows of a slice from below: no more keys and panes can there be, so no fewer rows.

    Rows are counted, panes follow from the least and greatest time, keys from the least and greatest integer.
    Of many files some are asked, and the others taken to be alike. Or say why that tells nothing: a statistic
    is missing, a key is no integer, or values lie far apart. Tasks find out for themselves then, from their
    first rows. What a filter takes away of files is not known.
    """
    sample = sampled(source)
    rows, size = 0, 0
    # A query may name a column of files in two cases.
    by_file = list(zip(names, job.query.inputs, strict=True))
    wanted = {name for name, column in by_file if column in (*job.query.by, job.query.time)}
    stored = wanted - set(source.partitioned.names)
    ends: dict[str, Ends] = {}
    for file in sample:
        opened = parquet.fragment(source.filesystem, file)
        rows, size = rows + opened.metadata.num_rows, size + file.size
        for name in sorted(stored):
            found = ends_in(opened, name)
            known = ends.get(name, found)
            if found is None or known is None or known.kind != found.kind:
                return f"statistics of files do not say between which values {name} lies; tasks look at rows"
            ends[name] = known.joined(found)
    if not rows:
        return "there are no rows"
    rows = ceil(rows * source.bytes / size)
    measure = next(name for name, column in by_file if column == job.query.time)
    keys = 1
    for name in sorted(wanted - {measure}):
        if name in stored:
            if not pa.types.is_integer(ends[name].kind):
                return f"how many {name} there are no statistics of files say; tasks look at rows"
            keys *= ends[name].values
        else:
            at = source.partitioned.names.index(name)
            keys *= len({file.values[at] for file in source.files})
    panes = None if measure not in stored else panes_between(job, ends[measure])
    if panes is None:
        return "statistics of files do not say how many panes there are; tasks look at rows"
    least = rows / max(keys * panes, 1)
    every = len(sample) == len(source.files)
    who = f"statistics of {asked(sample, source)}"
    told = f"{'' if every else 'about '}{rows:,} rows, at most {keys:,} keys in {panes:,} panes"
    if not every:
        # Keys and times of the files that were not asked may lie elsewhere.
        told += ", if the other files are alike"
    if least * LIMITS.share < 1:
        # That there can be as many slices as rows does not say that there are.
        return f"{who} allow for as many slices as rows: {told}; tasks look at rows"
    return Expected(least, f"or more, as {who} say: {told}")


def sampled(source: Source) -> tuple[File, ...]:
    """Return the files whose footers are read, spread over all."""
    step = max(len(source.files) // SAMPLE, 1)
    return source.files[::step][:SAMPLE]


def asked(sample: tuple[File, ...], source: Source) -> str:
    """Return in words of which files something is known."""
    if len(sample) < len(source.files):
        return f"{len(sample):,} of {len(source.files):,} files"
    return "the file" if len(sample) == 1 else f"all {len(sample):,} files"


def groups(source: Source, schema: pa.Schema, chosen: pruning.Chosen | None) -> str:
    """Say how many row groups the files that are asked have, and how many their statistics rule out."""
    sample = sampled(source)
    every, left = 0, 0
    silent: set[str] = set()
    for file in sample:
        opened = parquet.fragment(source.filesystem, file, source.partitioned)
        every += opened.num_row_groups
        if chosen is not None and opened.num_row_groups:
            own = parquet.schema_of(opened)
            left += pruning.pruned(opened, own, schema, chosen).num_row_groups
            silent |= pruning.untold(opened, own, schema, chosen)
    told = f"row groups: {every:,} in {asked(sample, source)}"
    if chosen is None:
        return told
    told += f", of which statistics rule out {every - left:,}"
    if silent:
        told += f"; they do not say between which values {', '.join(map(identifier, sorted(silent)))} lies"
    return told


@dataclass(frozen=True)
class Ends:
    """Between which values those of a column lie, as Parquet stores them, and whether there are nulls."""

    kind: pa.DataType
    low: int
    high: int
    nulls: bool

    def joined(self, other: Ends) -> Ends:
        """Return the ends of both."""
        return Ends(
            self.kind, min(self.low, other.low), max(self.high, other.high), self.nulls or other.nulls
        )

    @property
    def values(self) -> int:
        """How many values there can be, null among them."""
        return self.high - self.low + 1 + self.nulls


def ends_in(opened: ds.ParquetFileFragment, name: str) -> Ends | None:
    """Return the ends of a column of integers or times in a file, if it has such a column and statistics."""
    own = parquet.schema_of(opened)
    if own.names.count(name) != 1:
        # Of a file that has it twice the task that reads it tells.
        return None
    kind = own.field(name).type
    is_time = pa.types.is_timestamp(kind) or pa.types.is_date32(kind)
    if not is_time and not pa.types.is_integer(kind):
        return None
    ends: Ends | None = None
    for group in range(opened.metadata.num_row_groups):
        columns = opened.metadata.row_group(group)
        found = next(
            column.statistics
            for column in map(columns.column, range(columns.num_columns))
            if column.path_in_schema == name
        )
        if found is None or not found.has_min_max:
            return None
        # Of times what is stored: Python's own end with the year 9999.
        low, high = (found.min_raw, found.max_raw) if is_time else (found.min, found.max)
        group_ends = Ends(kind, low, high, not found.has_null_count or found.null_count > 0)
        ends = group_ends if ends is None else ends.joined(group_ends)
    return ends


def panes_between(job: Job, ends: Ends) -> int | None:
    """Return how many panes there are between two times; None if the windows have none."""
    edges = job.plan.pane_edges
    if not edges:
        return None
    span = ends.high - ends.low
    if pa.types.is_timestamp(ends.kind):
        # Spark's times are microseconds.
        span = span * 10**6 // {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[ends.kind.unit]
    return sum(span // period + 1 for period, _ in edges)
