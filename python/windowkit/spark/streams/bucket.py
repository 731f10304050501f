"""The state of a bucket of keys: a log of packed slices or rows and watermarks, and snapshots.

A call of Spark's state is a round trip, and its values are written whole, so there are few, large ones: each
batch appends what it brings to the log, and every ten batches the log is replaced by a snapshot. A bucket is
restored by replaying its log, so that it continues exactly where it stood.

A row is late by the watermark of the batch before, which a bucket only knows if it was called then. So each
task of rows calls all buckets, and in batches without rows they are called by timers, which expire whenever
the watermark moves. If no result is ready then, only the head of the bucket is written, and its log is not
read.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa

from windowkit.errors import InvalidValue, WindowKitError
from windowkit.spark.streams.work import Given, Work, differences, is_empty, refused
from windowkit.streams.operator import Operator

__all__ = ["ENTRY", "GUARD", "SEQUENCE", "TOP", "Bucket", "Head", "guard"]

SEQUENCE: Final = "sequence int"
ENTRY: Final = "kind int, data binary, since bigint, watermark bigint"
"""Of rows, the watermark by which they may be late, and the one that follows them.

Of the head, its `watermark` is that of the bucket, and all else is in `data`: it has no state of its own, as
each that a processor declares costs every task of every batch some round trips.
"""

GUARD: Final = -1
"""Number of the bucket that every task of every batch speaks to: it knows what the checkpoint belongs to.

Other numbers depend on how many buckets there are, so that none of the old ones need be met again."""

SNAPSHOT, BROUGHT, IDENTITY, HEAD = 0, 1, 2, 3
"""Kinds of entries; what batches brought are packed slices or rows."""
NOTE: Final = -1
"""Where the log says what the bucket belongs to."""
TOP: Final = -2
"""Where the head is."""
MORE: Final = -1
"""The watermark of an entry that is not the last one of its batch."""

EVERY: Final = 10
"""Batches after which a log is replaced by a snapshot: of 5, 10 and 20 the fewest bytes are written at 10."""
ENTRY_BYTES: Final = 1 << 20
"""About how much an entry holds: a state call takes 1 ms for 100 kB, and 100 ms for 10 MB."""
LENGTH: Final = struct.Struct("<Q")
FIELDS: Final = struct.Struct("<8sqii")
"""Of a head, but for the watermark."""


class Head(NamedTuple):
    """What is known of a bucket without its log.

    Parameters
    ----------
    plan : bytes
        The fingerprint of what it belongs to.
    ready_at : int
        The least watermark at which it may have results, in ms; 0 if it will have none without rows.
    batches : int
        In the log, since the snapshot.
    entries : int
        In the log.
    watermark : int
        Of the last batch, in ms. Its timer expires just after it.
    """

    plan: bytes
    ready_at: int
    batches: int
    entries: int
    watermark: int

    @classmethod
    def of(cls, entry: tuple[Any, ...] | None) -> Head | None:
        """Return what an entry of the log says; None without one.

        Raises
        ------
        InvalidValue
            The entry is no head.
        """
        if entry is None:
            return None
        if len(entry[1]) != FIELDS.size:
            raise InvalidValue(
                f"state: the head of a bucket has {len(entry[1])} bytes; it should have {FIELDS.size}; "
                "restore the checkpoint from a copy, or give the query a checkpointLocation of its own"
            )
        plan, ready_at, batches, entries = FIELDS.unpack(entry[1])
        return cls(plan, ready_at, batches, entries, entry[3])

    def kept_in(self, log: Log) -> None:
        """Replace the head of a log."""
        log.updateValue((TOP,), (HEAD, FIELDS.pack(*self[:-1]), 0, self.watermark))


class Log(Protocol):
    """A map state of Spark."""

    def getValue(self, key: tuple[Any, ...]) -> Any: ...  # noqa: N802
    def iterator(self) -> Iterator[tuple[Any, Any]]: ...
    def updateValue(self, key: tuple[Any, ...], value: tuple[Any, ...]) -> None: ...  # noqa: N802
    def clear(self) -> None: ...


class Timers(Protocol):
    """What registers timers for a key of Spark."""

    def registerTimer(self, expiry: int) -> None: ...  # noqa: N802
    def deleteTimer(self, expiry: int) -> None: ...  # noqa: N802


class Bucket:
    """A bucket of keys, for one step.

    Parameters
    ----------
    work : Work
    number : int
    log, timers
        Spark's, for the key that is this bucket.
    """

    def __init__(self, work: Work, number: int, log: Log, timers: Timers) -> None:
        self._work, self._number = work, number
        self._log, self._timers = log, timers
        self.late = 0

    def step(self, chunks: list[bytes], watermark: int, *, by_timer: bool) -> Iterator[pa.RecordBatch]:
        """Take in the rows of a batch, then the watermark; yield the results.

        Parameters
        ----------
        chunks : list of bytes
            Packed rows; none where the bucket's timer has expired.
        watermark : int
            What earlier batches set, in ms.
        by_timer : bool
            The step is taken because the bucket's timer has expired.

        Raises
        ------
        InvalidValue
            The state is of another query, or damaged.
        Overflow
            A result does not fit its type.
        """
        work, before = self._work, Head.of(self._log.getValue((TOP,)))
        if before is None:
            note(work, self._log)
        elif before.plan != work.plan:
            raise changed(work, self._log)
        self._watch(None if before is None else before.watermark, watermark, by_timer=by_timer)
        head = Head(work.plan, 0, 0, 0, 0) if before is None else before
        if not chunks and not 0 < head.ready_at <= watermark:
            if before is None or before.watermark != watermark:
                head._replace(watermark=watermark).kept_in(self._log)
            return
        operator = self._restored(head)
        missed = operator.late
        yield from self._taken(operator, chunks, watermark)
        yield from work.late_rows(operator)
        self.late = operator.late - missed
        ready_at = work.ready_at(operator, watermark)
        self._keep(operator, head, chunks, watermark, ready_at)

    def _taken(self, operator: Operator, chunks: list[bytes], watermark: int) -> Iterator[pa.RecordBatch]:
        if chunks:
            yield from self._work.selected(self._work.given(chunks, self._number).push(operator))
        yield from self._work.selected(operator.advance(watermark * 1000))

    def _watch(self, before: int | None, watermark: int, *, by_timer: bool) -> None:
        """Have one timer, just after the watermark. One that has expired is deleted by Spark itself."""
        if before == watermark:
            return
        if before is not None and not by_timer:
            self._timers.deleteTimer(before + 1)
        self._timers.registerTimer(watermark + 1)

    def _keep(
        self, operator: Operator, before: Head, chunks: list[bytes], watermark: int, ready_at: int
    ) -> None:
        """Append to the log, or write a snapshot instead of it."""
        batches, entries, since = before.batches + 1, before.entries, before.watermark
        if batches > EVERY or is_empty(operator):
            # Of nothing a snapshot is smaller than the rows that led to it.
            self._log.clear()
            note(self._work, self._log)
            snapshot = operator.snapshot()
            parts = [snapshot[at : at + ENTRY_BYTES] for at in range(0, len(snapshot), ENTRY_BYTES)]
            kind, batches, entries = SNAPSHOT, 0, 0
        else:
            kind, parts = BROUGHT, list(joined(chunks)) or [b""]
        for at, part in enumerate(parts, start=1):
            reached = watermark if at == len(parts) else MORE
            self._log.updateValue((entries,), (kind, part, since, reached))
            entries += 1
        Head(self._work.plan, ready_at, batches, entries, watermark).kept_in(self._log)

    def _restored(self, head: Head) -> Operator:
        """Return an operator that stands where the last step left it."""
        try:
            return self._replayed(head)
        except WindowKitError as error:
            raise refused(self._number, error) from error

    def _replayed(self, head: Head) -> Operator:
        log = {key[0]: value for key, value in self._log.iterator()} if head.entries else {}
        for beside in (NOTE, TOP):
            log.pop(beside, None)
        if sorted(log) != list(range(head.entries)):
            raise InvalidValue(f"log: it has the entries {sorted(log)}; it should have {head.entries}")
        entries = [log[entry] for entry in range(head.entries)]
        parts = list(takewhile(lambda entry: entry[0] == SNAPSHOT, entries))
        work = self._work
        operator = work.restored(b"".join(bytes(part[1]) for part in parts)) if parts else work.operator()
        run, chunks, first, last = list[Given](), list[bytes](), 0, 0
        for kind, data, since, reached in entries[len(parts) :]:
            if kind != BROUGHT:
                raise InvalidValue(
                    f"log: an entry is of kind {kind}; after a snapshot comes what batches brought"
                )
            chunks += parted(bytes(data))
            if reached == MORE:
                continue
            given, chunks = work.given(chunks, self._number), []
            if run and not (run[0].are_slices == given.are_slices and work.joins(given, since)):
                replay(operator, run, first, last)
                run = []
            first, last = first if run else since, reached
            run.append(given)
        replay(operator, run, first, last)
        reached = entries[-1][3] if entries else 0
        if not MORE < reached <= head.watermark:
            raise InvalidValue(f"log: it ends at watermark {reached}; the bucket is at {head.watermark}")
        # The log is not written by batches in which no result is ready.
        operator.advance(head.watermark * 1000)
        operator.take_late()  # They were returned by the batches that brought them.
        return operator


def replay(operator: Operator, run: list[Given], first: int, last: int) -> None:
    """Repeat the calls of batches, whose results were returned before."""
    if run:
        operator.advance(first * 1000)
        all_of_them = run[0]._replace(table=pa.concat_tables(given.table for given in run))
        if all_of_them.table.num_rows:
            all_of_them.push(operator)
        operator.advance(last * 1000)


def guard(work: Work, log: Log) -> None:
    """Note what the checkpoint belongs to, or refuse what it does not belong to.

    Raises
    ------
    InvalidValue
        The checkpoint is that of another query, or of other buckets.
    """
    before = Head.of(log.getValue((TOP,)))
    if before is None:
        note(work, log)
        Head(work.plan, 0, 0, 0, 0).kept_in(log)
    elif before.plan != work.plan:
        raise changed(work, log)


def note(work: Work, log: Log) -> None:
    """Note what a bucket belongs to."""
    log.updateValue((NOTE,), (IDENTITY, work.identity.encode(), 0, 0))


def changed(work: Work, log: Log) -> InvalidValue:
    """Return what is raised for a bucket that belongs to something else."""
    kept = b"".join(bytes(value[1]) for _, value in log.iterator() if value[0] == IDENTITY)
    how = differences(kept.decode(errors="replace"), work.identity)
    return InvalidValue(
        f"checkpointLocation: its state has {how}; start the query that the checkpoint belongs to, with its "
        "settings, or give this one a checkpointLocation of its own"
    )


def joined(chunks: list[bytes]) -> Iterator[bytes]:
    """Yield chunks in entries of about a MiB, each after its length."""
    parts, size = list[bytes](), 0
    for chunk in chunks:
        parts += [LENGTH.pack(len(chunk)), chunk]
        size += len(chunk)
        if size >= ENTRY_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    if parts:
        yield b"".join(parts)


def parted(entry: bytes) -> Iterator[bytes]:
    """Yield the chunks of an entry.

    Raises
    ------
    InvalidValue
        It does not consist of chunks.

    Examples
    --------
    >>> [list(parted(entry)) for entry in joined([b"ab", b"", b"c"])]
    [[b'ab', b'', b'c']]
    """
    at = 0
    while at < len(entry):
        if len(entry) < at + LENGTH.size:
            raise InvalidValue(f"log: an entry of {len(entry)} bytes ends within a length")
        (length,) = LENGTH.unpack_from(entry, at)
        at += LENGTH.size
        if len(entry) < at + length:
            raise InvalidValue(f"log: an entry of {len(entry)} bytes ends within a chunk of {length}")
        yield entry[at : at + length]
        at += length
