"""Data on its way to the core: an Arrow stream that is checked and aligned, and remembers why it failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, TypeVar

import pyarrow as pa

from windowkit.arrow.alignment import aligned
from windowkit.arrow.computing import Computing, computing
from windowkit.arrow.given import is_relation, legible, reader_of
from windowkit.arrow.reading import as_read, has_deep_structs, read_types, unsliced
from windowkit.arrow.validation import TABLES, checked, from_elsewhere, refusing
from windowkit.errors import InvalidValue
from windowkit.language.foreign import is_a
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling

__all__ = ["Source", "opened"]

Asked = TypeVar("Asked", Query, Rolling)


def narrowed(data: Any, columns: Sequence[str]) -> Any:
    """Return `data` with no more than `columns`, where the others would be converted for nothing.

    What is Arrow already stays as it is, and so does data that lacks one of the columns: it is refused later,
    with the names of those there are.
    """
    if is_a(data, "pandas", "DataFrame") or is_a(data, "polars", "DataFrame"):
        names = list(data.columns)
        return data[list(columns)] if all(names.count(name) == 1 for name in columns) else data
    if is_relation(data) and set(columns) <= set(data.columns):
        return data.select(*('"' + name.replace('"', '""') + '"' for name in columns))
    return data


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
        self._argument, self._full = argument, from_elsewhere(data, validate)
        is_arrow = isinstance(data, TABLES)
        names = columns if schema is None else schema.names
        self._data: pa.Table | pa.RecordBatch | pa.RecordBatchReader = (
            data if is_arrow else reader_of(data if names is None else narrowed(data, names), argument)
        )
        given: pa.Schema = self._data.schema
        is_as_known = schema is not None and given.equals(schema, check_metadata=True)
        if is_arrow:
            checked(argument, data, self._full)
        if not is_as_known:
            read = legible(argument, given)
            if read is not given:
                self._data, given = self._data.cast(read), read
        self._schema = read_types(given) if aggregated and not is_as_known else given
        self._is_read = self._schema is not given
        self._has_deep_structs = has_deep_structs(given)
        self._align = None if schema is None or is_as_known else aligned(argument, self._schema, schema)
        if schema is not None and self._align is not None:
            # Whether values may be null, and what else fields say, is up to each batch.
            self._schema = pa.schema(list(zip(schema.names, schema.types, strict=True)))
        self._compute, self._given = compute, self._schema
        self._computed = self._schema if compute is None else compute.schema(self._schema)
        if compute is not None:
            self._schema = read_types(self._computed)
        changes = self._is_read or self._has_deep_structs
        self._may_fail = self._align is not None or changes or compute is not None or not is_arrow
        self._failure: BaseException | None = None

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches."""
        return self._schema

    @property
    def names(self) -> list[str]:
        """Names of the columns that are there before any is computed."""
        return list(self._given.names)

    @property
    def shortest(self) -> Any:
        """What has the same rows and an Arrow interface: the data itself, if that cannot fail."""
        return self if self._may_fail else self._data

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
            if self._compute is None:
                yield from self._aligned()
            elif self._compute.is_by_row:
                for batch in self._aligned():
                    yield as_read(self._compute(batch, self._computed))
            else:
                rows = pa.Table.from_batches(list(self._aligned()), self._given)
                yield from as_read(self._compute(rows, self._computed)).to_batches()
        except BaseException as failure:
            self._note(failure)
            raise

    def _note(self, failure: BaseException) -> None:
        """Remember why the stream failed; what comes first is not yet what a generator makes of it."""
        # Those that handlers of signals raise, too; not the one that closes a generator.
        closes = isinstance(failure, GeneratorExit) and self._is_own(failure.__traceback__)
        if self._failure is None and not closes:
            self._failure = failure

    def _is_own(self, trace: TracebackType | None) -> bool:
        """Return whether an exception comes from these generators, and from no frame below them."""
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        own = (type(self)._batches.__code__, type(self)._aligned.__code__)
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
            with refusing(self._argument, "its stream failed"):
                for batch in reader_of(self._data):
                    self._check_types(batch.schema)
                    # What casts columns trusts them, and so does what computes others.
                    trusts = self._align is not None or self._is_read or self._compute is not None
                    own = checked(self._argument, batch, self._full or trusts)
                    if self._has_deep_structs:
                        own = unsliced(own)
                    if self._is_read:
                        own = as_read(own)
                    yield own if self._align is None else self._align(own)
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


def described(schema: pa.Schema) -> str:
    """Return what errors say of a schema."""
    return ", ".join(f"{field.name} {field.type}" for field in schema)


def opened(asked: Asked, data: Any, validate: bool | None, argument: str = "data") -> tuple[Asked, Source]:
    """Return what is asked and its data, with the columns of its expressions; others are not converted."""
    compute = computing(argument, asked.expressions)
    columns = asked.named if compute is None else compute.reads(asked.named)
    source = Source(
        argument,
        data,
        None if asked.reads_all else columns,
        validate=validate,
        aggregated=True,
        compute=compute,
    )
    return asked if compute is None else asked.resolved(source.names).plain, source
