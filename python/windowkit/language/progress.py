"""Progress: how the watermark of a stream out of order follows its rows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.arguments import hinted
from windowkit.language.checks import a_type, as_given, checked_name
from windowkit.language.durations import Duration, Length, Rows, length
from windowkit.language.windows import require_no_rows, units

__all__ = ["Delay", "checked_delay", "delay"]


@dataclass(frozen=True)
class Delay:
    """How far the watermark is behind the latest row; made by `windowkit.delay`."""

    time: Duration | int | None
    rows: int | None
    share: float | None
    source: str | None
    sources: tuple[Any, ...]
    idle: Duration | None
    future: Duration | int | None
    heartbeat: Duration | None = None

    @property
    def has_clock(self) -> bool:
        """Whether the clock matters: to sources that are silent."""
        return self.idle is not None or self.heartbeat is not None


@hinted
def delay(
    time: Length | None = None,
    *,
    rows: int | None = None,
    share: float | None = None,
    source: str | None = None,
    sources: Iterable[Any] = (),
    idle: Length | None = None,
    future: Length | None = None,
    heartbeat: Length | None = None,
) -> Delay:
    """Return how the watermark of an out-of-order stream follows its rows.

    Exactly one of `time`, `rows` and `share` is given.

    Parameters
    ----------
    time : str, datetime.timedelta or int, optional
        The watermark is this far behind the latest row: a duration, or an int in the units of an integer
        time column.
    rows : int, optional
        No row arrives more than so many rows after one with a later time: the watermark is the latest time,
        ignoring the last `rows` rows to arrive, and up to `rows`/256 more. There is no watermark until more
        rows than that have arrived.
    share : float, optional
        Between 0 and 1: the watermark is so far behind the latest row that this share of the rows so far
        would have been in time. A KLL sketch holds how far each row was behind the latest before it (ranks
        are exact to 1.33 %). There is no watermark before 1 / (1 - `share`) rows have arrived.
    source : str, optional
        A column that says which source a row is from. Each source has its own watermark, and that of the
        stream is the least of them. Sources are known from their first row on, or by name:
    sources : iterable, optional
        Values of that column: sources which hold the watermark before their first row, too, so that none of
        their rows is late when another is read first. `windowkit.Operator.add_source` adds one later, and
        ``end_source`` says that there are no more rows of one.
    idle : str or datetime.timedelta, optional
        A source is left out once no row of it has come for so long, by the clock of the operator, until it
        has rows again. With all sources idle, the watermark is the greatest of theirs. Only calls of the
        operator read the clock, and while nobody calls it, no source can speak: of a pause before a call, a
        tenth of `idle` counts at most, and an operator that is restored begins anew. Where no rows come, call
        `windowkit.Operator.advance` without an argument: it says that you have waited for rows until now, so
        that the whole pause counts.
    future : str, datetime.timedelta or int, optional
        A row that is further ahead of the latest row before it is set aside as late (``from the future``),
        and does not move the watermark. If several rows agree, the stream has jumped: where more than half of
        a batch of at least three rows are that far ahead, its median counts as the latest row; and where
        three rows in succession are, in batches of one or two, no further than this from each other, the
        third one does. Before three rows have come, there is no watermark: their median is the first to count
        as the latest row.
    heartbeat : str or datetime.timedelta, optional
        While no row of a source has come for so long, its watermark follows the clock of the operator at this
        distance: you know that a row comes no later than this after its time. A stream without `source` is
        one source, and need not have had a row. For columns of timestamps and
        dates, of which those without a zone are taken as UTC. Time is counted as for `idle`, so that after a
        pause, rows that were waiting meanwhile come first (Li 2008, §8.1).

    Raises
    ------
    InvalidType, InvalidValue
        An argument is not as described above.

    Notes
    -----
    O(1) per row. Progress of streams and Meld: Li 2008, §2.1 and §7.2.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    >>> op = query.operator(order="out-of-order", progress=wk.delay(5, source="shard", future=1000))
    >>> op.push(pa.table({"t": [3, 18, 9, 4000], "shard": ["a", "a", "b", "b"]})).num_rows
    0
    >>> op.push(pa.table({"t": [16], "shard": ["b"]})).to_pylist()
    [{'window_start': 0, 'window_end': 10, 'n': 2, 'update': False}]
    >>> op.progress().select(["source", "latest", "watermark"]).to_pylist()
    [{'source': 'a', 'latest': 18, 'watermark': 13}, {'source': 'b', 'latest': 16, 'watermark': 11}]
    >>> op.take_late().to_pylist()
    [{'t': 4000, 'shard': 'b', 'late_reason': 'from the future'}]
    """
    named = {"time": time, "rows": rows, "share": share}
    chosen = [name for name, value in named.items() if value is not None]
    if len(chosen) != 1:
        given = ", ".join(f"{name}={as_given(named[name])}" for name in chosen) or "nothing"
        raise InvalidValue(f"delay: {given} is given; give exactly one of time, rows and share")
    of_time = None if time is None else of_measure("delay", time)
    if rows is not None:
        if isinstance(rows, bool) or not isinstance(rows, int):
            raise InvalidType(f"rows: {as_given(rows)} is {a_type(rows)}; it is a number of rows, an int")
        if not 0 <= rows < 2**62:
            raise InvalidValue(f"rows: {as_given(rows)} is given; allowed are numbers from 0 and below 2^62")
    if share is not None:
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise InvalidType(f"share: {as_given(share)} is {a_type(share)}; it is a float between 0 and 1")
        if not 0 < share < 1:
            raise InvalidValue(f"share: {as_given(share)} is given; allowed are shares above 0 and below 1")
    if source is not None:
        checked_name("source", source)
    if isinstance(sources, str | bytes | bytearray) or not isinstance(sources, Iterable):
        raise InvalidType(
            f"sources: {as_given(sources)} is {a_type(sources)}; it is a list of values of the column source="
        )
    named_sources = tuple(sources)
    if named_sources and source is None:
        raise InvalidValue(
            f"sources: {as_given(named_sources)} is given without source=, the column that names them"
        )
    if idle is not None and source is None:
        raise InvalidValue(
            f"idle: {as_given(idle)} is given without source=; it leaves out idle sources, so it needs a "
            "column that names them; in a stream without sources, heartbeat= has the watermark follow the "
            "clock while no rows come"
        )
    return Delay(
        of_time,
        rows,
        None if share is None else float(share),
        source,
        named_sources,
        None if idle is None else of_clock("idle", idle),
        None if future is None else of_measure("future", future),
        None if heartbeat is None else of_clock("heartbeat", heartbeat),
    )


def checked_delay(argument: str, given: Delay | None) -> Delay | None:
    """Return what is given for how a watermark follows rows, if that is what `delay` returns, or None."""
    if given is not None and not isinstance(given, Delay):
        raise InvalidType(
            f"{argument}: {as_given(given)} is {a_type(given)}; it is what windowkit.delay(...) returns"
        )
    return given


def of_measure(argument: str, given: Length) -> Duration | int:
    """Return a length of time of at least zero."""
    measure = length(argument, given)
    require_no_rows(argument, measure)
    assert not isinstance(measure, Rows)
    if units(measure) < 0:
        raise InvalidValue(f"{argument}: {as_given(given)} is below zero; it is a length of at least zero")
    return measure


def of_clock(argument: str, given: Length) -> Duration:
    """Return a time of the clock, in whole microseconds."""
    measure = length(argument, given)
    if not isinstance(measure, Duration):
        raise InvalidType(
            f"{argument}: {as_given(given)} is given; it is a duration of the clock, such as '30 seconds'"
        )
    if measure.nanoseconds <= 0 or measure.nanoseconds % 1000:
        raise InvalidValue(
            f"{argument}: {as_given(given)} is given; allowed are whole microseconds above zero"
        )
    return measure
