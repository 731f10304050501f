"""Batches of a stream on their way to an operator: nearly all of them are small tables with its schema."""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow.types import is_floating

from windowkit.arrow.computing import Computing
from windowkit.arrow.frames import held_part, is_frame, untyped
from windowkit.arrow.given import refuse_spark
from windowkit.arrow.reading import has_deep_structs
from windowkit.arrow.source import Source
from windowkit.arrow.validation import TABLES
from windowkit.errors import InvalidType, InvalidValue

__all__ = ["Incoming"]

T = TypeVar("T")


class Incoming:
    """How the batches of a stream are read.

    Parameters
    ----------
    schema : pyarrow.Schema or None
        That of the stream, without the columns that are computed; None before its first batch.
    instead : str
        What errors say of a Spark DataFrame, after that it is given.
    aggregated, compute
        As for `Source`.
    as_given : bool
        Whether the core takes batches of the schema as they are given.
    reads : collection of str
        The columns that are read of the first batch: of a frame, others that Arrow does not hold are left
        out.
    """

    def __init__(
        self,
        schema: pa.Schema | None,
        instead: str,
        *,
        aggregated: bool = False,
        compute: Computing | None = None,
        as_given: bool = True,
        reads: Collection[str] = (),
    ) -> None:
        self._schema, self._instead = schema, instead
        self._aggregated, self._compute, self._reads = aggregated, compute, reads
        as_given = as_given and compute is None and schema is not None and not has_deep_structs(schema)
        self._expected = schema if as_given else None

    def push(self, step: Callable[[Any], T], batch: Any, validate: bool | None) -> T:
        """Return what a step of the core makes of the rows of a batch, or of anything that has batches."""
        rows = self._as_given(batch, validate)
        return self.opened(batch, validate).fed(step) if rows is None else step(rows)

    def opened(self, batch: Any, validate: bool | None) -> Source:
        """Return rows as a source that is checked, and has the columns of the stream."""
        refuse_spark("batch", batch, self._instead)
        if self._schema is not None:
            # No generator: an exception that a handler of signals raises within one would be lost.
            batch = untyped(batch, [each.name for each in self._schema if not is_floating(each.type)])
        opened = partial(
            Source,
            "batch",
            validate=validate,
            schema=self._schema,
            aggregated=self._aggregated,
            compute=self._compute,
        )
        try:
            source = opened(batch)
        except (InvalidType, InvalidValue):
            if self._schema is not None or not is_frame(batch):
                raise
            # What no query reads is in no result, whether or not Arrow holds it.
            source = opened(held_part(batch, self._reads))
        if self._schema is None and self._compute is not None:
            self._compute.check_names(source.given.names)
        return source

    def _as_given(self, data: Any, validate: bool | None) -> pa.Table | pa.RecordBatch | None:
        """Return a table or a batch of the schema as the core reads it; None if it takes more to read.

        Only the lengths of its buffers are looked at: offsets of arrays, as `checked` has it, would take as
        long as all else that a push of few rows does in Python.
        """
        if self._expected is None or (validate is not None and validate is not False):
            return None
        if not isinstance(data, TABLES) or not data.schema.equals(self._expected, check_metadata=True):
            return None
        try:
            data.validate()
        except pa.ArrowException:
            # A reader says what is wrong.
            return None
        if isinstance(data, pa.RecordBatch):
            return data
        batches = data.to_batches()
        # The core imports a batch in less time than a stream of one.
        return batches[0] if len(batches) == 1 else data
