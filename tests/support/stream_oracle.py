"""What a stream operator means, evaluated naively: after each call, every window over all rows that came.

Nothing here knows slices or partial aggregates. Windows are those of ``oracle.extents`` over all rows that
they accepted, each by itself; which of them a call returns follows from their ends and the watermarks alone.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support import local_oracle
from support.extents import EXTENTS, spans_of
from support.oracle import by_row_sessions, counts_arrivals, extents, has_gap, taken
from support.oracle_aggregates import aggregate, same
from support.plain import in_units, key, plain

Result = tuple[Any, ...]
"""Query name, keys, window name, start, end, update."""


NEVER = 2**63 - 1
"""The watermark of a closed stream, and the end of the global window."""


def over(window: wk.Window, end: int) -> int:
    """Return where a window ends, if not with its last row."""
    return NEVER if isinstance(window, wk.Global) else end


class Registered(NamedTuple):
    """A query, the time after which its stream begins, and its allowed lateness."""

    query: wk.Query
    since: int | None
    lateness: int


class Stream:
    """The calls that `windowkit.Operator` has, with what they must return."""

    def __init__(
        self,
        name: str,
        query: wk.Query,
        schema: pa.Schema,
        *,
        order: str,
        allowed_lateness: int = 0,
        max_delay: int | None = None,
        updates: bool = True,
    ) -> None:
        self.seals = not updates and order == "out-of-order"
        self.queries = {name: Registered(query, None, allowed_lateness)}
        self.schema, self.order, self.lateness, self.delay = schema, order, allowed_lateness, max_delay
        self.table = schema.empty_table()
        self.time_type = schema.field(query.time).type
        self.watermark: int | None = None
        self.latest: int | None = None
        # Keys that are complete further than the stream, and up to when.
        self.ahead: dict[tuple[Any, ...], int] = {}
        # Rows that each window accepted, with the time at which they count for it.
        self.taken: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
        self.late: list[tuple[str, int, str]] = []
        # Rows of the last push that some window accepted.
        self.fresh: set[int] = set()
        self.rows = 0
        # Rows of sessions that were over, by query and window.
        self.emitted: dict[tuple[str, str, tuple[Any, ...]], set[int]] = defaultdict(set)

    def add(self, name: str, query: wk.Query, allowed_lateness: int | None = None) -> None:
        so_far = [t for t in (self.latest, self.watermark) if t is not None]
        lateness = self.lateness if allowed_lateness is None else allowed_lateness
        self.queries[name] = Registered(query, max(so_far) if so_far else None, lateness)

    def remove(self, name: str) -> None:
        for window in self.queries.pop(name).query.windows:
            self.taken.pop((name, window.name), None)

    def push(self, batch: pa.Table) -> dict[Result, list[Any]]:
        """Return what the call must return; refused rows are not for this oracle."""
        before = self.table.num_rows
        self.table = pa.concat_tables([self.table, batch])
        times = self.times()
        watermark, reached = self.watermark, self.all_reached()
        self.fresh = set()
        read = [name for window in self.any_query().windows for name in window.columns]
        given = {name: plain(self.table[name]) for name in [*read, *self.any_query().by]}
        for row, name in itertools.product(range(before, self.table.num_rows), self.queries):
            why = self.offer(name, row, times[row], given)
            if why is None:
                self.fresh.add(row)
            else:
                self.late.append((name, row, why))
        self.rows += len(self.fresh)
        seen = [t for t in times[before:] if t is not None]
        if seen:
            self.latest = max([*seen] if self.latest is None else [*seen, self.latest])

        def was_final(end: int, past: Any, group: tuple[Any, ...]) -> bool:
            of_group = reached(group)
            return of_group is not None and past(end, of_group)

        result = self.emit(was_final, self.fresh, True)
        if self.latest is not None:
            if self.order == "in-order":
                result |= self.move(max(self.latest, self.latest if watermark is None else watermark))
            elif self.delay is not None:
                moved = self.latest - self.delay
                result |= self.move(moved if watermark is None else max(moved, watermark))
        return result

    def advance(self, watermark: int, group: tuple[Any, ...] | None = None) -> dict[Result, list[Any]]:
        return self.move(watermark, group)

    def close(self) -> dict[Result, list[Any]]:
        return self.move(NEVER)

    def times(self) -> list[Any]:
        return plain(self.table[self.any_query().time])

    def is_by_time(self, window: wk.Window) -> bool:
        """Whether windows of a type are determined by times; this oracle has no others."""
        return True

    def any_query(self) -> wk.Query:
        return next(iter(self.queries.values())).query

    def offer(self, name: str, row: int, t: int | None, given: dict[str, list[Any]]) -> str | None:
        """Give a row to a query; return why no window of the query accepts it, if none does."""
        query, since, lateness = self.queries[name]
        if t is None:
            return "null time"
        if not all(has_gap(window, row, given) for window in query.windows):
            return "no gap"
        if since is not None and t <= since:
            return "before the query"
        reached = self.reached(self.group_of(row, given))
        horizon = None if reached is None else reached - lateness
        why: str | None = "too late"
        for window in query.windows:
            if horizon is None or self.is_open(window, t, horizon):
                why = None
                at = t if horizon is None or not self.is_cumulative(window, query) else max(t, horizon)
                self.taken[name, window.name][row] = at
        return why

    def is_open(self, window: wk.Window, t: int, horizon: int) -> bool:
        """Whether windows have not come so far, or one that a row alone would open has not expired."""
        if t >= horizon:
            return True
        if isinstance(window, wk.Sliding) and counts_arrivals(window):
            # A window that ends at the horizon has not expired.
            return t > horizon - in_units(window.size, self.time_type)
        if isinstance(window, wk.Landmark) and not window.counts_rows:
            return last_end(window, t, self.time_type) > horizon
        if isinstance(window, wk.Sliding) and isinstance(window.size, wk.Rows) and not by_ranks(window):
            return edge_after(window, t, self.time_type) > horizon
        if isinstance(window, wk.Session) and window.column is None and window.at_most is not None:
            return self.is_before_end(horizon, t + in_units(window.gap, self.time_type))
        if by_rows(window):
            return False
        for _, last, *_ in extents(window, [0], [t], self.time_type, {}):
            end = over(window, last)
            if end > horizon or (isinstance(window, wk.Session) and self.is_before_end(horizon, end)):
                return True
        return False

    def is_before_end(self, watermark: int, end: int) -> bool:
        """Whether a session is not over: a row at its end joins it, unless none may that is emitted."""
        return watermark < end if self.seals else watermark <= end

    def is_cumulative(self, window: wk.Window, query: wk.Query) -> bool:
        """Whether a late row counts as one of the first window that has not expired."""
        ordered = any(
            each.function in ("collect_list", "collect_rows")
            or (each.user is not None and not each.user.commutative)
            for each in query.aggs
        )
        return isinstance(window, wk.Landmark) and not window.counts_rows and not ordered

    def group_of(self, row: int, columns: dict[str, list[Any]]) -> tuple[Any, ...]:
        return tuple(key(columns[by][row]) for by in self.any_query().by)

    def reached(self, group: tuple[Any, ...]) -> int | None:
        """Return up to when a key is complete."""
        return self.all_reached()(group)

    def all_reached(self) -> Callable[[tuple[Any, ...]], int | None]:
        """Return the same of all keys, as it is now."""
        watermark, ahead = self.watermark, dict(self.ahead)

        def reached(group: tuple[Any, ...]) -> int | None:
            return max([t for t in (watermark, ahead.get(group)) if t is not None], default=None)

        return reached

    def move(self, watermark: int, group: tuple[Any, ...] | None = None) -> dict[Result, list[Any]]:
        before = self.all_reached()

        def is_final(end: int, past: Any, of: tuple[Any, ...]) -> bool:
            was, now = before(of), after(of)
            return now is not None and past(end, now) and (was is None or not past(end, was))

        if group is None:
            self.watermark = watermark
        else:
            self.ahead[group] = watermark
        after = self.all_reached()
        return self.emit(is_final, None, False)

    def emit(self, is_final: Any, fresh: set[int] | None, update: bool) -> dict[Result, list[Any]]:
        """Return windows whose end is final; with `fresh` rows those that have one and have not expired."""
        times, result = self.times(), {}
        columns = {name: plain(self.table[name]) for name in self.schema.names}
        for name, (query, since, lateness) in self.queries.items():
            for window in filter(self.is_by_time, query.windows):
                session = isinstance(window, wk.Session)
                groups = self.groups(name, window, columns)
                counted = self.counted(name, window, times)

                def past(end: int, watermark: int, session: bool = session) -> bool:
                    return not self.is_before_end(watermark, end) if session else end <= watermark

                for group, rows in groups.items():
                    for start, end, inside, _ in extents(window, rows, counted, self.time_type, columns):
                        if not is_final(over(window, end), past, group):
                            continue
                        if since is not None and start <= since:
                            continue
                        if fresh is not None:
                            reached = self.reached(group)
                            assert reached is not None
                            expired = past(over(window, end), reached - lateness)
                            if expired or fresh.isdisjoint(inside):
                                # It ended before it could be emitted: a longer one will be an update too.
                                self.emitted[(name, window.name, group)].update(inside if session else ())
                                continue
                        again = update
                        if session:
                            emitted = self.emitted[(name, window.name, group)]
                            again = again or not emitted.isdisjoint(inside)
                            emitted.update(inside)
                        result[(name, *group, window.name, start, end, again)] = [
                            aggregate(each, taken(each, inside, columns), times, columns, self.schema)
                            for each in query.aggs
                        ]
                        if session:
                            self.seal(name, window, inside)
        return result

    def seal(self, name: str, window: wk.Window, rows: Iterable[int]) -> None:
        """Take rows that a session was emitted with from the rows that others join."""
        if self.seals:
            for row in rows:
                del self.taken[name, window.name][row]

    def groups(
        self, name: str, window: wk.Window, columns: dict[str, list[Any]]
    ) -> dict[tuple[Any, ...], list[int]]:
        """Return the rows that a window accepted, by key."""
        groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
        for row in self.taken[name, window.name]:
            groups[tuple(key(columns[by][row]) for by in self.queries[name].query.by)].append(row)
        return groups

    def counted(self, name: str, window: wk.Window, times: list[Any]) -> list[Any]:
        """Return the times at which rows count for a window."""
        own = self.taken[name, window.name]
        return [own.get(row, time) for row, time in enumerate(times)]


def by_rows(window: wk.Window) -> bool:
    """Whether rows determine the windows of a type."""
    if isinstance(window, wk.Custom):
        return isinstance(window.implementation, wk.ContextAware)
    return isinstance(window, wk.Punctuation | wk.Between) or by_row_sessions(window) or window.counts_rows


def by_ranks(window: Any) -> bool:
    measures = [each for each in window.lengths().values() if each is not None]
    return all(isinstance(each, wk.Rows) for each in measures)


def edge_after(window: Any, time: int, kind: pa.DataType) -> int:
    every, offset = in_units(window.slide, kind), in_units(window.start_time or 0, kind)
    return time - (time - offset) % every + every


def last_end(window: wk.Landmark, t: int, kind: pa.DataType) -> int:
    """Return where the last window of a landmark ends that contains a time; that of none is over."""
    if window.period is None:
        return NEVER if in_units(window.start, kind) <= t else -NEVER
    if window.is_local:
        return local_oracle.last_end(window, t, kind)
    offset, period = in_units(window.start_time or 0, kind), in_units(window.period, kind)
    return t - (t - offset) % period + period


def results(op: wk.Operator, table: pa.Table) -> dict[Result, list[Any]]:
    """Return the rows of a result in the form of the oracle's."""
    if not table.num_rows:
        return {}
    queries = dict(op.queries)
    first = next(iter(queries.values()))
    columns = {name: plain(table[name]) for name in table.column_names if name not in EXTENTS}
    edges = spans_of(table)
    found: dict[Result, list[Any]] = {}
    for row in range(table.num_rows):
        name = columns["query_name"][row] if "query_name" in columns else next(iter(queries))
        query = queries[name]
        window = columns["window_name"][row] if "window_name" in columns else query.windows[0].name
        keys = tuple(key(columns[by][row]) for by in first.by)
        start, end = edges[row] or (None, None)
        result = (name, *keys, window, start, end, columns["update"][row])
        assert result not in found, f"{result} comes twice"
        found[result] = [columns[each.name][row] for each in query.aggs]
    return found


def assert_same(expected: dict[Result, list[Any]], got: dict[Result, list[Any]]) -> None:
    """Assert that a call returned these windows, no more, and these values."""
    assert set(got) == set(expected), f"{sorted(map(str, got))} != {sorted(map(str, expected))}"
    for result, values in expected.items():
        for value, other in zip(values, got[result], strict=True):
            assert same(value, other), f"{result}: {other!r} is not {value!r}"
