"""Data on its way to the core: an Arrow stream that is checked and aligned, and remembers why it failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final, TypeAlias, TypeVar

import pyarrow as pa

from windowkit.arrow.alignment import aligned
from windowkit.arrow.computing import Computing, computing
from windowkit.arrow.datasets import described, is_dataset, of_dataset
from windowkit.arrow.frames import columns_of, has_each, is_frame, untyped
from windowkit.arrow.given import is_ibis, is_lazy, is_relation, legible, reader_of
from windowkit.arrow.moments import timed
from windowkit.arrow.reading import as_read, has_deep_structs, read_types, unsliced
from windowkit.arrow.validation import TABLES, checked, from_elsewhere, refusing
from windowkit.errors import InvalidValue
from windowkit.language.checks import refuse_nul
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling

__all__ = ["Source", "columns_read", "opened"]

OF_FILES: Final = "if it reads several files, give them as a pyarrow Dataset, whose errors name the file"
Asked = TypeVar("Asked", Query, Rolling)
Data: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader
T = TypeVar("T")


def narrowed(argument: str, data: Any, columns: Sequence[str]) -> Any:
    """Return `data` with no more than `columns`, where the others would be converted for nothing.

    What is Arrow already stays as it is, and so does data that lacks one of the columns: it is refused later,
    with the names of those there are.
    """
    if is_dataset(data):
        return of_dataset(data, columns, argument)
    if is_frame(data):
        return columns_of(data, columns) if has_each(data, columns) else data
    if is_lazy(data) and set(columns) <= set(data.collect_schema()):
        return data.select(columns)
    if is_ibis(data) and set(columns) <= set(data.columns):
        return data.select(*columns)
    if is_relation(data) and set(columns) <= set(data.columns):
        return data.select(*('"' + name.replace('"', '""') + '"' for name in columns))
    return data


def received(argument: str, data: Any, columns: Sequence[str] | None, full: bool) -> Data:
    """Return data as pyarrow has it, of which nothing is read yet; checked if it is there as a whole."""
    if isinstance(data, TABLES):
        known: Data = checked(argument, data, full)
    else:
        known = reader_of(data if columns is None else narrowed(argument, data, columns), argument)
    schema = known.schema
    read = legible(argument, schema)
    return known if read is schema else known.cast(read)


@dataclass(frozen=True)
class Steps:
    """What is done to each batch, in order, and the schema that it has then."""

    schema: pa.Schema
    each: tuple[Callable[[pa.RecordBatch], pa.RecordBatch], ...] = ()
    trust: bool = False
    """Whether they trust the values of batches."""

    @classmethod
    def between(cls, argument: str, given: pa.Schema, own: pa.Schema | None, *, aggregated: bool) -> Steps:
        """Return the steps from one schema to that of a stream, if it is of one; see `Source`."""
        steps = cls(given, (unsliced,)) if has_deep_structs(given) else cls(given)
        if own is not None and given.equals(own, check_metadata=True):
            return steps
        read = read_types(given) if aggregated else given
        if read is not given:
            steps = cls(read, (*steps.each, as_read), trust=True)
        align = None if own is None else aligned(argument, read, own)
        if own is None or align is None:
            return steps
        # Whether values may be null, and what else fields say, is up to each batch.
        plain = pa.schema(list(zip(own.names, own.types, strict=True)))
        return cls(plain, (*steps.each, align), trust=True)

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch after all steps."""
        for step in self.each:
            batch = step(batch)
        return batch


class Source:
    """Data as a stream that is checked, and remembers why it failed.

    The Arrow C stream carries errors as text. An error that its consumer raises within ``with source:``
    because the data failed is replaced by the data's own exception.

    Parameters
    ----------
    argument : str
        What errors call the data.
    data : Arrow data
    columns : sequence of str, optional
        The only ones that are read.
    validate : bool, optional
        Look at every value; by default where `from_elsewhere` says so.
    schema : pyarrow.Schema, optional
        The schema of the stream that the data belongs to: see `aligned`.
    aggregated : bool
        Whether columns are read in types that the core computes with: see `as_read`.
    compute : Computing, optional
        What adds columns that are computed from these, once they are aligned.

    Attributes
    ----------
    argument : str
    rows, without_time : int
        How many rows were read, and how many of them have no time, once `time` has said which column that is.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        The data has no Arrow interface, or does not fit the schema.
    """

    def __init__(
        self,
        argument: str,
        data: Any,
        columns: Sequence[str] | None = None,
        *,
        validate: bool | None = None,
        schema: pa.Schema | None = None,
        aggregated: bool = False,
        compute: Computing | None = None,
    ) -> None:
        self.argument = self._argument = argument
        self._aggregated, self._compute = aggregated, compute
        self._is_whole, self._full = isinstance(data, TABLES), from_elsewhere(data, validate)
        self._is_reader = isinstance(data, pa.RecordBatchReader)
        self._data = received(argument, data, columns if schema is None else schema.names, self._full)
        self._failure: BaseException | None = None
        self._time: str | None = None
        self._is_counted = False
        self.rows = self.without_time = 0
        self._keep: Callable[[pa.RecordBatch], pa.RecordBatch] | None = None
        refuse_nul(argument, self._data.schema.names)
        self.align(schema)

    def align(self, schema: pa.Schema | None) -> None:
        """Have the batches be of a schema, before any is read; see `aligned`."""
        compute = self._compute
        self._steps = Steps.between(self._argument, self._data.schema, schema, aggregated=self._aggregated)
        self._given = self._steps.schema
        self._computed = self._given if compute is None else compute.schema(self._given)
        self._schema = self._given if compute is None else read_types(self._computed)
        # What computes columns trusts the others, too.
        self._full = self._full or self._steps.trust or compute is not None
        self._may_fail = bool(self._steps.each) or compute is not None or not self._is_whole

    def time(self, name: str, kind: pa.DataType) -> None:
        """Say which column is the time, before any batch is read; if all are null, it is of type `kind`."""
        schema = timed(self._given, name, kind)
        if schema is not self._given:
            self.align(schema)
        self._time = name
        if not self._may_fail:
            # Each batch of a stream is looked at as it comes.
            self._count(self._data)
            self._is_counted = True

    def _count(self, rows: Any) -> None:
        """Count rows, and those without a time, which Arrow knows of each array."""
        if self._time is None or self._is_counted or rows.schema.get_field_index(self._time) < 0:
            return
        self.rows += rows.num_rows
        self.without_time += rows.column(self._time).null_count

    def keep(self, chosen: Callable[[pa.RecordBatch], pa.RecordBatch]) -> None:
        """Have batches be of the rows that are chosen of each, in the end, before any is read."""
        self._keep, self._may_fail = chosen, True

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def given(self) -> pa.Schema:
        """The columns that are there before any is computed."""
        return self._given

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        if self._may_fail:
            batches = self._batches()
            next(batches)
            stream = pa.RecordBatchReader.from_batches(self._schema, batches)
        else:
            stream = reader_of(self._data)
        return stream.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch | None]:
        try:
            # A generator handles signals as it starts, outside of any `try`. So the stream, which turns a
            # KeyboardInterrupt into text, is given one that has started.
            yield None
            yield from self._made()
        except BaseException as failure:
            self._note(failure)
            raise

    def _made(self) -> Iterator[pa.RecordBatch]:
        if self._compute is None or self._compute.is_by_row:
            for batch in self._aligned():
                made = batch if self._compute is None else as_read(self._compute(batch, self._computed))
                self._count(made)
                yield self._kept(made)
        else:
            rows = pa.Table.from_batches(list(self._aligned()), self._given)
            made = as_read(self._compute(rows, self._computed))
            self._count(made)
            for batch in made.to_batches():
                yield self._kept(batch)

    def _kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self._keep is None else self._keep(batch)

    def _note(self, failure: BaseException) -> None:
        """Remember why the stream failed: what came first, not what a generator made of it."""
        if isinstance(failure, RuntimeError) and isinstance(
            failure.__cause__, StopIteration | StopAsyncIteration
        ):
            # A generator that a handler's StopIteration leaves outside of any `try`, as it starts or yields.
            failure = failure.__cause__ if self._is_own(failure.__traceback__) else failure
        # Those that handlers of signals raise, too; not the one that closes a generator.
        closes = isinstance(failure, GeneratorExit) and self._is_own(failure.__traceback__)
        if self._failure is None and not closes:
            self._failure = failure

    def _is_own(self, trace: TracebackType | None) -> bool:
        """Return whether an exception comes from these generators, and from no frame below them."""
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        own = tuple(each.__code__ for each in (type(self)._batches, type(self)._made, type(self)._aligned))
        return trace is None or trace.tb_frame.f_code in own

    def _check_types(self, schema: pa.Schema) -> None:
        """Check the schema of a batch: a reader of what a Python function yields need not keep its own."""
        given = self._data.schema
        if schema is given or (schema.names == given.names and schema.types == given.types):
            return
        raise InvalidValue(
            f"{self._argument}: its stream has a batch with columns {described(schema)}, but its schema is "
            f"{described(given)}; all batches of a stream have its columns"
        )

    def _aligned(self) -> Iterator[pa.RecordBatch]:
        try:
            with refusing(self._argument, "its stream failed", OF_FILES if self._is_reader else ""):
                for batch in reader_of(self._data):
                    self._check_types(batch.schema)
                    yield self._steps(checked(self._argument, batch, self._full))
        except BaseException as failure:
            self._note(failure)
            raise

    def __enter__(self) -> Source:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None and self._failure is not None:
            raise self._failure from self._failure.__cause__
        refusing(self._argument).__exit__(kind, error, traceback)

    def fed(self, step: Callable[[Any], T]) -> T:
        """Return what a step makes of the rows, as what has an Arrow interface."""
        with self:
            return step(self if self._may_fail else self._data)

    def table(self) -> pa.Table:
        """Return the rows as a table."""
        return self.fed(lambda rows: pa.Table.from_batches(reader_of(rows), self._schema))


def columns_read(asked: Query | Rolling, compute: Computing | None) -> list[str] | None:
    """Return which columns are read, those of expressions included; None if these may be all."""
    if asked.reads_all:
        return None
    return asked.named if compute is None else compute.reads(asked.named)


def opened(asked: Asked, data: Any, validate: bool | None, argument: str = "data") -> tuple[Asked, Source]:
    """Return what is asked and its data, with the columns of its expressions; others are not converted."""
    compute = computing(argument, asked.expressions)
    source = Source(
        argument,
        untyped(data, asked.placing),
        columns_read(asked, compute),
        validate=validate,
        aggregated=True,
        compute=compute,
    )
    return asked if compute is None else asked.resolved(source.given.names).plain, source
