"""What a stream operator means that keeps rows, evaluated naively over all rows taken so far.

Windows determined by rows are evaluated anew after each call; what is final and differs from what was emitted
must be handed out, and nothing else. Numbers of windows are not foreseen: what matters is that a consumer who
replaces by them has what the definition says.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support.extents import EXTENTS, ranks_of, spans_of
from support.oracle import arrivals, consecutive, counted, counts_arrivals, taken
from support.oracle_aggregates import aggregate, same
from support.plain import in_units, key, plain
from support.stream_oracle import Registered, Stream, by_ranks, by_rows, edge_after

Group = tuple[Any, ...]


class FinalWindow(NamedTuple):
    """A final window: what tells it apart, its name, its rows and ranks."""

    identity: Any
    start: int
    end: int
    rows: tuple[int, ...]
    ranks: tuple[int, int] | None


def numbered(window: wk.Window) -> bool:
    return by_rows(window) and not window.counts_rows


def needs_rows(query: wk.Query, order: str) -> bool:
    """Whether an operator keeps rows for a query."""
    emitted = any(by_rows(window) or isinstance(window, wk.Custom) for window in query.windows)
    return emitted or (order == "out-of-order" and any(each.function == "user" for each in query.aggs))


class Kept(Stream):
    """The part of an operator that keeps rows."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.final: dict[tuple[str, str, Group], dict[Any, FinalWindow]] = defaultdict(dict)
        self.points: list[tuple[int, int, Group | None]] = []
        self.closing = False

    def is_by_time(self, window: wk.Window) -> bool:
        return not by_rows(window)

    def push(self, batch: pa.Table) -> dict[Any, list[Any]]:
        before = self.watermark
        emitted = super().push(batch)
        return emitted | self.changes(before)

    def advance(self, watermark: int, group: Group | None = None) -> dict[Any, list[Any]]:
        before = self.watermark
        return super().advance(watermark, group) | self.changes(before)

    def close(self) -> dict[Any, list[Any]]:
        self.closing = True
        before = self.watermark
        return super().close() | self.changes(before)

    def punctuate(self, time: int, group: Group | None) -> dict[Any, list[Any]]:
        self.points.append((time, self.table.num_rows, group))
        before = self.watermark
        emitted = self.move(time) if self.order == "in-order" else {}
        self.latest = max(time, self.latest or time) if self.order == "in-order" else self.latest
        return emitted | self.changes(before)

    def changes(self, before: int | None) -> dict[Any, list[Any]]:
        """Return final windows determined by rows that differ from what was emitted.

        `before` is the watermark before the call. Where a window's end is the time of one row, whatever
        others come, it may have expired before that row came.
        """
        times = self.times()
        columns = {name: plain(self.table[name]) for name in self.schema.names}
        result: dict[Any, list[Any]] = {}
        for name, (query, _, lateness) in self.queries.items():
            for window in filter(by_rows, query.windows):
                least = None if before is None or not counts_arrivals(window) else before - lateness
                for group, rows in self.groups(name, window, columns).items():
                    ranked = sorted(rows, key=lambda row: (times[row], row))
                    known = self.final[(name, window.name, group)]
                    finals = self.finals(window, ranked, times, columns, group)
                    now = {each.identity: each for each in finals if least is None or each.end >= least}
                    for identity, each in now.items():
                        if known.get(identity) == each:
                            continue
                        values = [
                            aggregate(agg, taken(agg, each.rows, columns), times, columns, self.schema)
                            for agg in query.aggs
                        ]
                        update = None if numbered(window) else identity in known
                        ranks = each.ranks if window.counts_rows else each.rows
                        result[(name, *group, window.name, each.start, each.end, ranks, update)] = values
                    if self.seals and isinstance(window, wk.Session):
                        for each in now.values():
                            self.seal(name, window, each.rows)
                        now = known | now
                    self.final[(name, window.name, group)] = now
        return result

    def finals(
        self,
        window: wk.Window,
        ranked: list[int],
        times: list[int],
        columns: dict[str, list[Any]],
        group: Group,
    ) -> Iterator[FinalWindow]:
        ascending = [times[row] for row in ranked]
        reached = None if self.closing else self.reached(group)

        def emitted(identity: Any, lo: int, hi: int, extent: tuple[int, int] | None = None) -> FinalWindow:
            start, end = extent or (ascending[lo], ascending[hi - 1])
            ranks = (lo, hi) if window.counts_rows else None
            return FinalWindow(identity, start, end, tuple(ranked[lo:hi]), ranks)

        def final(time: int | None) -> bool:
            return self.closing or (time is not None and reached is not None and time <= reached)

        if isinstance(window, wk.Punctuation):
            marks = columns[window.column]
            lo = 0
            for hi in range(1, len(ranked) + 1):
                closed = list(self.cuts(ranked, hi, times, group))
                if window.at == "end" and marks[ranked[hi - 1]]:
                    closed.append(ascending[hi - 1])
                if window.at == "start" and hi < len(ranked) and marks[ranked[hi]]:
                    closed.append(ascending[hi])
                if closed or hi == len(ranked):
                    if final(min(closed, default=None)):
                        yield emitted(tuple(ranked[lo:hi]), lo, hi)
                    lo = hi
        elif isinstance(window, wk.Between | wk.Session):
            for lo, hi, extent, at in consecutive(window, ranked, times, self.time_type, columns):
                if final(extent[1] if self.seals and isinstance(window, wk.Session) else at):
                    yield emitted(tuple(ranked[lo:hi]), lo, hi, extent)
        elif isinstance(window, wk.Custom):
            prefix = [row for row in ranked if final(times[row])]
            for lo, hi in aware(window.implementation, prefix, times, columns, self.schema, self.closing):
                yield emitted(tuple(prefix[lo:hi]), lo, hi)
        elif by_ranks(window):
            for number, (lo, hi), has_ended in counted(window, len(ranked)):
                if self.closing or (has_ended and final(ascending[hi - 1])):
                    yield emitted(number, lo, hi)
        elif isinstance(window.size, wk.Rows):
            edges = {edge_after(window, time, self.time_type) for time in ascending}
            for edge in sorted(edges):
                hi = sum(time < edge for time in ascending)
                if final(edge):
                    yield emitted(edge, max(0, hi - window.size.count), hi)
        elif counts_arrivals(window):
            windows = arrivals(window, ranked, times, self.time_type)
            for number, (start, end, _, ranks) in enumerate(windows):
                if final(end):
                    assert ranks is not None
                    yield emitted(number, *ranks, (start, end))
        else:
            length = in_units(window.size, self.time_type)
            for hi in range(window.slide.count, len(ranked) + 1, window.slide.count):
                last = ascending[hi - 1]
                lo = next(at for at in range(hi) if ascending[at] > last - length)
                if final(last):
                    yield emitted(hi, lo, hi, (last - length, last))

    def cuts(self, ranked: list[int], hi: int, times: list[int], group: Group) -> Iterator[int]:
        """Yield the times of punctuations between a row and the next."""
        before = (times[ranked[hi - 1]], ranked[hi - 1])
        after = (times[ranked[hi]], ranked[hi]) if hi < len(ranked) else None
        for time, row, of in self.points:
            if of in (None, group) and before < (time, row) and (after is None or (time, row) <= after):
                yield time


def aware(
    definition: Any,
    rows: list[int],
    times: list[int],
    columns: dict[str, list[Any]],
    schema: pa.Schema,
    closing: bool,
) -> Iterable[tuple[int, int]]:
    """Return the ranks that a context-aware definition tells of these rows."""
    if not rows:
        return []
    opened, emitted = definition.open(), {}
    given = [
        pa.array([columns[name][row] for row in rows], schema.field(name).type) for name in definition.columns
    ]
    changes = list(opened.notify(0, pa.array([times[row] for row in rows]), *given))
    for change in [*changes, *(opened.finish(len(rows)) if closing else [])]:
        if not isinstance(change, wk.Add):
            del emitted[change.start, change.end]
        if isinstance(change, wk.Shift):
            emitted[change.to] = None
        if isinstance(change, wk.Add):
            emitted[change.start, change.end] = None
    return emitted


class Both:
    """An operator: the part that keeps rows, and the part that has slices only."""

    def __init__(self, name: str, query: wk.Query, schema: pa.Schema, **options: Any) -> None:
        self.schema, self.options, self.parts = schema, options, {}
        self.rows = 0
        self.late: list[tuple[str, str]] = []
        self.watermark: int | None = None
        self.latest: int | None = None
        self.add(name, query)
        self.numbers: dict[Any, dict[int, Any]] = defaultdict(dict)

    @property
    def order(self) -> str:
        return str(self.options["order"])

    @property
    def queries(self) -> list[str]:
        return [name for part in self.parts.values() for name in part.queries]

    def add(self, name: str, query: wk.Query, allowed_lateness: int | None = None) -> None:
        kept = needs_rows(query, self.order)
        if kept in self.parts:
            self.parts[kept].add(name, query, allowed_lateness)
            return
        part = (Kept if kept else Stream)(name, query, self.schema, **self.options)
        so_far = [t for t in (self.latest, self.watermark) if t is not None]
        lateness = part.lateness if allowed_lateness is None else allowed_lateness
        part.queries[name] = Registered(query, max(so_far) if so_far else None, lateness)
        part.watermark, part.latest = self.watermark, self.latest
        part.ahead = {key: at for other in self.parts.values() for key, at in other.ahead.items()}
        self.parts[kept] = part

    def remove(self, name: str) -> None:
        for kept, part in list(self.parts.items()):
            if name in part.queries:
                part.remove(name)
                if not part.queries:
                    del self.parts[kept]

    def push(self, batch: pa.Table) -> dict[Any, list[Any]]:
        result: dict[Any, list[Any]] = {}
        fresh = set()
        for part in self.parts.values():
            late, before = len(part.late), part.table.num_rows
            result |= part.push(batch)
            self.late += [(name, why) for name, _, why in part.late[late:]]
            fresh |= {row - before for row in part.fresh}
        self.rows += len(fresh)
        return self.moved(result)

    def advance(self, watermark: int, group: Group | None = None) -> dict[Any, list[Any]]:
        return self.each(lambda part: part.advance(watermark, group))

    def close(self) -> dict[Any, list[Any]]:
        return self.each(lambda part: part.close())

    def punctuate(self, time: int, group: Group | None) -> dict[Any, list[Any]]:
        def one(part: Stream) -> dict[Any, list[Any]]:
            if isinstance(part, Kept):
                return part.punctuate(time, group)
            return part.move(time) if self.order == "in-order" else {}

        return self.each(one)

    def each(self, call: Any) -> dict[Any, list[Any]]:
        result: dict[Any, list[Any]] = {}
        for part in self.parts.values():
            result |= call(part)
        return self.moved(result)

    def moved(self, result: dict[Any, list[Any]]) -> dict[Any, list[Any]]:
        part = next(iter(self.parts.values()))
        self.watermark, self.latest = part.watermark, part.latest
        return result

    def reached(self, group: Group) -> int | None:
        return next(iter(self.parts.values())).reached(group)

    def cutoff_of(self, time: int, group: Group | None = None) -> bool:
        """Whether a punctuation at this time is not too late."""
        ahead = next(iter(self.parts.values())).ahead
        if group is None and any(time < mark for mark in ahead.values()):
            return False
        watermark = self.watermark if group is None else self.reached(group)
        if self.order == "in-order":
            reached = [t for t in (self.latest, watermark) if t is not None]
            return all(t <= time for t in reached)
        return any(
            (since is None or time > since) and (watermark is None or time >= watermark - lateness)
            for query, since, lateness in self.parts[True].queries.values()
            if any(isinstance(window, wk.Punctuation) for window in query.windows)
        )

    def check(self, op: wk.Operator, got: pa.Table, expected: dict[Any, list[Any]]) -> None:
        """Assert that a call returned what it must, and that a consumer then has the right windows."""
        plainly, emitted = self.read(op, got)
        wanted = {result: values for result, values in expected.items() if result[-1] is not None}
        assert set(plainly) == set(wanted), f"{sorted(map(str, plainly))} != {sorted(map(str, wanted))}"
        for result, values in wanted.items():
            assert all(map(same, values, plainly[result])), f"{result}: {plainly[result]} is not {values}"
        fresh = [(*result[:-2], values) for result, values in expected.items() if result[-1] is None]
        assert_alike(fresh, [(*at, *window, values) for at, _, window, values in emitted if window])
        for at, number, window, values in emitted:
            if window:
                self.numbers[at][number] = (*at, *window, values)
            else:
                del self.numbers[at][number]
        self.check_consumer()

    def check_late(self, op: wk.Operator) -> None:
        late = op.take_late()
        names = (
            late["query_name"].to_pylist() if "query_name" in late.column_names else ["q1"] * late.num_rows
        )
        assert sorted(zip(names, late["late_reason"].to_pylist(), strict=True)) == sorted(self.late)

    def check_consumer(self) -> None:
        if True not in self.parts:
            return
        part = self.parts[True]
        times = part.times()
        columns = {name: plain(part.table[name]) for name in self.schema.names}
        for (name, window, group), finals in part.final.items():
            query = part.queries[name].query if name in part.queries else None
            kind = query and next(each for each in query.windows if each.name == window)
            if query is None or not numbered(kind):
                continue
            all_there = [
                (
                    (name, *group, window, each.start, each.end),
                    [
                        aggregate(agg, taken(agg, each.rows, columns), times, columns, self.schema)
                        for agg in query.aggs
                    ],
                )
                for each in finals.values()
            ]
            held = [(each[:-1], each[-1]) for each in self.numbers[(name, *group, window)].values()]
            assert_alike([(*at, values) for at, values in all_there], [(*at, values) for at, values in held])

    def read(self, op: wk.Operator, table: pa.Table) -> tuple[dict[Any, list[Any]], list[Any]]:
        """Return the rows of a result: windows without numbers, and those with them."""
        if not table.num_rows:
            return {}, []
        queries = dict(op.queries)
        first = next(iter(queries.values()))
        columns = {name: plain(table[name]) for name in table.column_names if name not in EXTENTS}
        plainly: dict[Any, list[Any]] = {}
        emitted = []
        for row, (span, own) in enumerate(zip(spans_of(table), ranks_of(table), strict=True)):
            name = columns["query_name"][row] if "query_name" in columns else next(iter(queries))
            query = queries[name]
            window = columns["window_name"][row] if "window_name" in columns else query.windows[0].name
            kind = next(each for each in query.windows if each.name == window)
            group = tuple(key(columns[by][row]) for by in first.by)
            values = [columns[each.name][row] for each in query.aggs]
            number = columns["window_number"][row] if "window_number" in columns else None
            update = columns["update"][row]
            assert (number is not None) == (numbered(kind) or counts_arrivals(kind))
            assert (own is not None) == (kind.counts_rows and span is not None)
            at = (name, *group, window)
            if numbered(kind):
                known = self.numbers[at]
                assert update == (number in known), f"{at} {number}: {update}, known {known}"
                emitted.append((at, number, span, values))
                continue
            assert span is not None
            where = (*at, *span, *((own,) if own else ()), update)
            assert where not in plainly, f"{where} comes twice"
            plainly[where] = values
        return plainly, emitted


def assert_alike(expected: list[Any], got: list[Any]) -> None:
    """Assert that two lists have the same windows, in any order; the last of each is its values."""
    left: dict[Any, list[Any]] = defaultdict(list)
    for each in got:
        left[tuple(each[:-1])].append(each[-1])
    wanted = Counter(tuple(each[:-1]) for each in expected)
    there = Counter({at: len(values) for at, values in left.items()})
    assert wanted == there, f"missing: {wanted - there}; too many: {there - wanted}"
    for each in expected:
        values = left[tuple(each[:-1])]
        alike = [at for at, other in enumerate(values) if all(map(same, each[-1], other))]
        assert alike, f"{each} is not among {values}"
        del values[alike[0]]
