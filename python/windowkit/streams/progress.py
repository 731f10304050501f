"""How watermarks follow rows: sources by their names, and the clock by which they are judged."""

from __future__ import annotations

from typing import Any, Protocol

import pyarrow as pa

from windowkit.errors import InvalidValue
from windowkit.language.checks import as_given
from windowkit.language.processing import Clock, Stamps
from windowkit.language.progress import Delay
from windowkit.streams.watermarks import one_row

__all__ = ["Followed", "announce", "clock_for", "look_at_clock", "progress_of", "source_row"]


class Followed(Protocol):
    """A stream, as the core has it, whose watermark may follow its rows."""

    @property
    def source(self) -> int | None:
        """The position of the column that names sources, if there is one."""

    @property
    def has_clock(self) -> bool:
        """Whether the clock matters."""

    def set_clock(self, now: int, has_waited: bool) -> None:
        """Set the clock, until which the caller has waited for rows, or has done something else."""

    def add_source(self, source: pa.RecordBatch) -> Any:
        """Wait for rows of the source in a batch of one row."""

    def progress(self) -> Any:
        """Return what is known of the sources."""


def source_row(core: Followed, schema: pa.Schema, name: Any, argument: str = "source") -> pa.RecordBatch:
    """Return the name of a source of rows of this schema, as the core takes it."""
    if core.source is None:
        raise InvalidValue(
            f"{argument}: {as_given(name)} is given, but the rows of this operator have no column that "
            "names their source; progress=windowkit.delay(..., source=...) says which one does, "
            "left_progress and right_progress of a join"
        )
    return one_row(argument, [name], [schema.field(core.source)])


def announce(core: Followed, schema: pa.Schema, delay: Delay | None) -> None:
    """Have the watermark wait for the sources that are known from the beginning."""
    for source in () if delay is None else delay.sources:
        core.add_source(source_row(core, schema, source, "sources"))


def clock_for(core: Followed, clock: Clock | None) -> Stamps | None:
    """Return the clock by which sources are judged, if it matters; none may be given where it does not."""
    if core.has_clock:
        return Stamps(clock)
    if clock is not None:
        raise InvalidValue(
            "clock: it is given for an operator whose watermark does not depend on one; it requires "
            "progress=windowkit.delay(...) with idle= or heartbeat=, of a join left_progress or "
            "right_progress"
        )
    return None


def look_at_clock(
    core: Followed, clock: Stamps | None, last: int | None = None, *, has_waited: bool = False
) -> None:
    """Tell the core the time, not before `last`, and whether the caller has waited for rows until now."""
    # To ask the core takes longer than small calls do.
    if clock is not None and core.has_clock:
        core.set_clock(clock.now(last), has_waited)


def progress_of(core: Followed) -> pa.Table:
    """Return what is known of the sources as a table; see `windowkit.Operator.progress`."""
    return pa.Table.from_batches([pa.record_batch(core.progress())])
