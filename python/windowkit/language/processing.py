"""Processing time: rows are as late as the operator gets them, by its clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given, whole

__all__ = ["PROCESSING_TIME", "Clock", "ProcessingTime", "Stamps"]

Clock = Callable[[], int]
"""Microseconds since 1970-01-01 00:00:00 UTC."""

TYPE: Final = pa.timestamp("us", "UTC")


class ProcessingTime(str):
    """The type of `PROCESSING_TIME`: the name of a column that an operator adds and data does not have."""

    __slots__ = ()


PROCESSING_TIME: Final = ProcessingTime("processing_time")
"""The time of a query whose rows have that of their coming.

An operator gives all rows of a `windowkit.Operator.push` the time of its clock, in a column
``processing_time`` of ``timestamp("us", "UTC")``. Windows over it advance with each push, and with
`windowkit.Operator.advance` without an argument.
"""


class Stamps:
    """The times that rows get: those of a clock, which never goes back.

    Parameters
    ----------
    clock : callable or None
        Returns microseconds since the epoch; the system's clock by default.
    """

    def __init__(self, clock: Clock | None) -> None:
        if clock is not None and not callable(clock):
            raise InvalidType(
                f"clock: {as_given(clock)} is {a_type(clock)}; it is a function that returns "
                "microseconds since 1970-01-01 00:00:00 UTC, as an int"
            )
        self._clock = clock if clock is not None else (lambda: time.time_ns() // 1000)

    def now(self, last: int | None) -> int:
        """Return the time; while the clock, set back, is before `last`, that is the time."""
        returned: Any = self._clock()
        at = whole(returned)
        if at is None:
            raise InvalidType(
                f"clock: it returned {as_given(returned)}, {a_type(returned)}; expected microseconds as "
                "an int"
            )
        if not -(2**62) <= at < 2**62:
            raise InvalidValue(
                f"clock: it returned {as_given(at)}; allowed are microseconds from -2^62 to 2^62"
            )
        return at if last is None else max(at, last)

    @staticmethod
    def schema(schema: pa.Schema) -> pa.Schema:
        """Return the schema of rows with their time."""
        if str(PROCESSING_TIME) in schema.names:
            raise InvalidValue(
                f"batch: it has a column {str(PROCESSING_TIME)!r}, the name of the column "
                "of times that the operator adds; rename it"
            )
        return schema.append(pa.field(str(PROCESSING_TIME), TYPE, nullable=False))

    def stamped(self, reader: pa.RecordBatchReader, at: int) -> pa.RecordBatchReader:
        """Return rows with a time."""
        schema = self.schema(reader.schema)

        def with_time(batch: pa.RecordBatch) -> pa.RecordBatch:
            times = pa.repeat(pa.scalar(at, pa.int64()), batch.num_rows).view(TYPE)
            return pa.RecordBatch.from_arrays([*batch.columns, times], schema=schema)

        # All at once: what is raised while the core reads, such as by Ctrl-C, would reach the caller as text.
        return pa.RecordBatchReader.from_batches(schema, list(map(with_time, reader)))
