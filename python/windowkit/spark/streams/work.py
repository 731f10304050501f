"""What the workers of a stream compute: a query, its operators, and what a checkpoint belongs to."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from windowkit._native import Plan
from windowkit.errors import InvalidValue, WindowKitError
from windowkit.language.aggregates import count
from windowkit.language.durations import Length
from windowkit.language.identity import fingerprint
from windowkit.language.identity import identity as text_of
from windowkit.language.progress import of_measure
from windowkit.language.query import MAX_WINDOWS, Query
from windowkit.language.windows import units
from windowkit.language.written import form_of_query
from windowkit.local.query import plan
from windowkit.spark.routes import stages
from windowkit.spark.shipping import packing
from windowkit.streams.operator import Operator
from windowkit.streams.queried import first_end

__all__ = ["FORMAT", "LATE", "REASON", "Given", "Work", "differences"]

FORMAT: Final = 1
"""Of the state in a checkpoint: its fields, and what they mean."""
LATE: Final = "late_row"
"""The column of late rows."""
REASON: Final = "late_reason"
"""Why a row is late; the column of `Operator.take_late`."""


class Given(NamedTuple):
    """Rows, or slices, of a batch."""

    table: pa.Table
    are_slices: bool

    def push(self, operator: Operator) -> pa.Table:
        """Push them; return the results."""
        return operator.push_slices(self.table) if self.are_slices else operator.push(self.table)


@dataclass(frozen=True)
class Work:
    """What a bucket of keys is evaluated with.

    Parameters
    ----------
    query : Query
        With the emission policy that its operators have, and a count where they need one.
    what : str
        What errors call the job: the query as it was given.
    schema : pyarrow.Schema
        Of the rows: the columns that the query and its policy read.
    allowed_lateness : str, datetime.timedelta or int
    columns : tuple of str
        Of the operators' results, those that are returned.
    drops_final : bool
        Final results are not returned: in Spark's update mode they would repeat early ones.
    is_eager : bool
        Results may be ready at any time, rather than at the end of a slice: as soon as the watermark moves.
    rows_instead : str or None
        Why rows cross the shuffle; None if slices do.
    identity : str
        What a checkpoint belongs to, as JSON that maps names to values.
    late : tuple of str
        The columns of late rows, if these are returned: in a column `LATE`, which is null for results.
    """

    query: Query
    what: str
    schema: pa.Schema
    allowed_lateness: Length
    columns: tuple[str, ...]
    drops_final: bool
    is_eager: bool
    rows_instead: str | None
    identity: str
    late: tuple[str, ...] = ()

    @property
    def returns_late(self) -> bool:
        """Whether late rows are returned."""
        return bool(self.late)

    @cached_property
    def chunks_plan(self) -> bytes:
        """The fingerprint of chunks."""
        return packing.fingerprint(self.query, self.schema)

    @cached_property
    def plan(self) -> bytes:
        """The fingerprint of all that a checkpoint belongs to."""
        return fingerprint(self.identity)

    def operator(self) -> Operator:
        """Return an operator for the keys of a bucket, before any row."""
        operator = operator_of(
            self.query, self.schema, self.allowed_lateness, late_limit=None if self.returns_late else 0
        )
        # Where Spark's watermark begins, so that earlier rows are late here as they are there.
        operator.advance(0)
        return operator

    def restored(self, snapshot: bytes) -> Operator:
        """Return an operator that continues from a snapshot."""
        return Operator.restore(snapshot, self.query)

    def given(self, chunks: list[bytes], bucket: int) -> Given:
        """Return what packed chunks hold: as slices, if some of them hold slices."""
        rows, slices = list[pa.RecordBatch](), list[pa.RecordBatch]()
        for chunk in chunks:
            kind, batch = packing.unpack(chunk, self.chunks_plan, bucket, is_kept=True)
            if kind == packing.ROWS:
                rows.append(batch.cast(self.schema) if batch.schema != self.schema else batch)
            else:
                slices.append(batch)
        if not slices:
            return Given(pa.Table.from_batches(rows, self.schema), are_slices=False)
        if rows:
            # An operator that took in both, one after the other, would return some results twice.
            engine = plan(self.query, self.schema).engine()
            for batch in slices:
                engine.push_slices(batch)
            for batch in rows:
                engine.push(batch)
            slices = [pa.record_batch(batch) for _, batch in engine.slices(1)]
        return Given(pa.Table.from_batches(slices), are_slices=True)

    @cached_property
    def may_join(self) -> bool:
        """Whether several calls without late rows lead to the same state as one with all their rows."""
        is_limited = self.query.max_windows is not None and self.query.max_windows < MAX_WINDOWS
        lateness = units(of_measure("allowed_lateness", self.allowed_lateness))
        return not (self.is_eager or is_limited or lateness or self.query.emit is not None)

    def joins(self, given: Given, since: int) -> bool:
        """Whether a batch may be replayed in one call with those before it.

        So it may if none of its rows comes before the watermark, in ms, that was reached before them: then
        none is too late, nor in a window that has been returned, nor at the end of a session that has been:
        there it begins another one. No row of a slice comes before its start.
        """
        if not self.may_join:
            return False
        times = given.table["start" if given.are_slices else self.query.time]
        first = pc.min(times.cast(pa.int64())).as_py()
        has_session = any(window.is_session for window in self.query.windows)
        return first is None or first >= since * 1000 + has_session

    def selected(self, results: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield the part of an operator's results that the stream returns."""
        if self.drops_final and results.num_rows:
            results = results.filter(pc.not_equal(results["emission"], "final"))
        if not results.num_rows:
            return
        chosen = results.select(self.columns)
        if self.returns_late:
            none = pa.nulls(len(chosen), self.late_type)
            chosen = pa.Table.from_arrays([*chosen.columns, none], schema=self.with_late(results.schema))
        yield from chosen.combine_chunks().to_batches()

    @cached_property
    def late_type(self) -> pa.StructType:
        """The type of the column of late rows."""
        own = (self.schema.field(name).with_nullable(True) for name in self.late)
        return pa.struct([*own, pa.field(REASON, pa.string())])

    def with_late(self, results: pa.Schema) -> pa.Schema:
        """Return the schema of results beside late rows, any column of which may be null."""
        own = (results.field(name).with_nullable(True) for name in self.columns)
        return pa.schema([*own, pa.field(LATE, self.late_type)])

    def late_rows(self, operator: Operator) -> Iterator[pa.RecordBatch]:
        """Yield the rows that were late since the last call, if they are returned: results without values."""
        late = operator.take_late().combine_chunks() if self.returns_late else None
        if late is not None and late.num_rows:
            schema = self.with_late(operator.schema)
            values = [each.combine_chunks() for each in late.select([*self.late, REASON]).columns]
            rows = pa.StructArray.from_arrays(values, fields=list(self.late_type))
            none = [pa.nulls(late.num_rows, field.type) for field in list(schema)[:-1]]
            yield pa.RecordBatch.from_arrays([*none, rows], schema=schema)

    def ready_at(self, operator: Operator, watermark: int) -> int:
        """Return the least watermark at which the operator may have results, in ms; 0 if there will be none.

        A window ends where one of its slices does, so none is ready before the first of them ends.
        """
        if operator.watermark_out != operator.watermark:
            return watermark + 1
        if is_empty(operator):
            return 0
        first = None if self.is_eager else first_end(operator)
        return watermark + 1 if first is None else max(-(-first // 1000), watermark + 1)


def is_empty(operator: Operator) -> bool:
    """Whether an operator holds nothing: neither slices nor rows, which may wait without any."""
    stats = operator.stats()
    return not stats.keys and not stats.rows_kept


def operator_of(
    query: Query, schema: pa.Schema, allowed_lateness: Length, *, late_limit: int | None = 0
) -> Operator:
    """Return an operator for rows of this schema; late rows are counted and, by default, not held."""
    return query.operator(
        order="out-of-order",
        allowed_lateness=allowed_lateness,
        late_limit=late_limit,
        schema=schema,
        updates=has_updates(query, allowed_lateness),
    )


def has_updates(query: Query, allowed_lateness: Length) -> bool:
    """Whether a result may replace an earlier one, so that a column has to say so."""
    is_patient = units(of_measure("allowed_lateness", allowed_lateness)) > 0
    return query.emit is not None or is_patient or any(window.revises_itself for window in query.windows)


def rows_instead(query: Query, planned: Plan, operator: Operator, *, returns_late: bool) -> str | None:
    """Return why rows cross the shuffle, and not slices; None if slices do."""
    if returns_late:
        return "late rows are returned"
    if planned.has_session:
        return "some rows of a slice of a session may be late, and others not"
    why = stages.rows_instead(query, planned)
    if why is not None or operator.takes_slices:
        return why
    if query.emit is None:
        return "a function of the query needs the rows of a key in order"
    return "the emission policy counts rows or looks at them, or a function needs them in order"


def counting(query: Query) -> Query:
    """Return the query with a count of rows, so that operators know how many rows late slices are of."""
    if any(each.function == "count_all" and each.condition is None for each in query.aggs):
        return query
    name = "rows"
    while name in query.columns or name in (each.name for each in query.aggs):
        name += "_"
    return replace(query, aggs=(*query.aggs, count().alias(name)))


def identity(query: Query, schema: pa.Schema, settings: dict[str, Any]) -> str:
    """Return what a checkpoint belongs to.

    Users' own functions and windows are identified by their names, as in snapshots.
    """
    form = form_of_query(query)
    own: dict[str, Any] = {
        "format of the state": FORMAT,
        "keys": form["by"],
        "time column": form["time"],
        "windows": form["windows"],
        "answers": form["aggs"],
        "emission policy": form.get("emit"),
        # Absent by default, as in the checkpoints of earlier releases.
        **({} if query.weight is None else {"column of weights": query.weight}),
        "columns": {field.name: str(field.type) for field in schema},
    }
    return text_of({**own, **settings})


def differences(kept: str, given: str) -> str:
    """Describe how the query of a checkpoint differs from the one that is run.

    Examples
    --------
    >>> differences('{"keys": ["k"], "output mode": "append"}', '{"keys": ["k"], "output mode": "update"}')
    "output mode 'append', and the query has 'update'"
    """
    try:
        before, now = json.loads(kept), json.loads(given)
    except ValueError as error:
        raise InvalidValue(
            f"state: what the checkpoint belongs to cannot be read ({error}); give the query a "
            "checkpointLocation of its own"
        ) from error
    changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    return ", ".join(f"{name} {before.get(name)!r}, and the query has {now.get(name)!r}" for name in changed)


def is_eager(query: Query, planned_needs_rows: bool, *, has_policy: bool) -> bool:
    """Whether results may be ready at other times than the ends of slices."""
    return planned_needs_rows or has_policy or any(window.is_user_defined for window in query.windows)


def refused(bucket: int, error: WindowKitError) -> InvalidValue:
    """Return what is raised for state that cannot be used."""
    return InvalidValue(
        f"state: bucket {bucket} cannot be restored ({error}); restore the checkpoint from a copy, or give "
        "the query a checkpointLocation of its own"
    )
