"""What a consumer of an operator's results must hold, evaluated naively over the rows taken so far.

Unlike the oracles of single calls it foresees no call's result, and so can be asked after any number of
calls, however often they failed and were made again, and by whichever operator.
"""

from __future__ import annotations

import copy
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import windowkit as wk
from support.consumer import Held
from support.failing import MEANINGS
from support.oracle import arrivals, counts_arrivals, extents, taken
from support.oracle_aggregates import aggregate
from support.plain import plain
from support.rows_oracle import FinalWindow, Kept, assert_alike
from support.stream_oracle import NEVER, by_rows, over

TWIN = "twin"
"""The column of numbers that a row and the one that retracts it share."""


class Expected(NamedTuple):
    """A window that is final by now, and the rows in it."""

    at: tuple[str, tuple[Any, ...], str]
    start: int
    end: int
    ranks: Any
    rows: Sequence[int]
    query: wk.Query


def windows_of(held: Held) -> list[Any]:
    """Return the windows that a consumer holds: query, keys and window; start, end, ranks and aggregates."""
    return [(tuple(at), start, end, ranks, values) for (*at, _), (start, end, ranks, *values) in held.items()]


class Definition(Kept):
    """Rows that were taken, and the windows that a consumer must hold by now."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        # Up to when its key was complete when a row came.
        self.watermarks: dict[int, int | None] = {}
        # Sessions that no row may join any more, as they were emitted.
        self.sealed: dict[Any, list[FinalWindow]] = defaultdict(list)

    def copy(self) -> Definition:
        other = copy.copy(self)
        other.queries, other.watermarks = dict(self.queries), dict(self.watermarks)
        other.ahead = dict(self.ahead)
        other.taken = defaultdict(dict, {window: dict(rows) for window, rows in self.taken.items()})
        other.late, other.points = list(self.late), list(self.points)
        other.sealed = defaultdict(list, {at: list(sessions) for at, sessions in self.sealed.items()})
        return other

    def remove(self, name: str) -> None:
        super().remove(name)
        for at in [at for at in self.sealed if at[0] == name]:
            del self.sealed[at]

    def emit(self, is_final: Any, fresh: set[int] | None, update: bool) -> dict[Any, list[Any]]:
        columns = {name: plain(self.table[name]) for name in self.any_query().by} if fresh else {}
        for row in fresh or ():
            self.watermarks[row] = self.reached(self.group_of(row, columns))
        return {}

    def changes(self, _: int | None) -> dict[Any, list[Any]]:
        if self.seals:
            self.seal_sessions()
        return {}

    def seal_sessions(self, of: tuple[Any, ...] | None = None) -> None:
        """Keep the sessions that are over as they are, perhaps only those of a key."""
        sessions = [
            (name, window)
            for name, (query, *_) in self.queries.items()
            for window in query.windows
            if isinstance(window, wk.Session)
        ]
        times = self.times() if sessions else []
        columns = {name: plain(self.table[name]) for name in self.schema.names} if sessions else {}
        for name, window in sessions:
            groups = self.groups(name, window, columns)
            for group, rows in groups.items() if of is None else [(of, groups[of])]:
                for each in list(self.sessions(window, rows, times, columns, group)):
                    self.sealed[name, group, window.name].append(each)
                    self.seal(name, window, each.rows)

    def sessions(
        self,
        window: wk.Session,
        rows: list[int],
        times: list[Any],
        columns: dict[str, list[Any]],
        group: tuple[Any, ...],
    ) -> Iterator[FinalWindow]:
        """Yield the sessions of some rows that are over, where no row joins those that are emitted."""
        if by_rows(window):
            ranked = sorted(rows, key=lambda row: (times[row], row))
            yield from self.finals(window, ranked, times, columns, group)
            return
        reached = self.reached(group)
        for start, end, inside, _ in extents(window, rows, times, self.time_type, columns):
            if reached is not None and end <= reached:
                yield FinalWindow(None, start, end, tuple(inside), None)

    def end_key(self, group: tuple[Any, ...]) -> bool:
        """Keep all windows of a key, which begins anew later, as they are; return whether any ends now."""
        known = [each for each in self.expected()[0] if each.at[1] == group]
        ahead, self.ahead[group], self.closing = self.ahead.pop(group, None), NEVER, True
        if self.seals:
            self.seal_sessions(group)
        final = [each for each in self.expected()[0] if each.at[1] == group]
        self.closing = False
        lateness = max(each.lateness for each in self.queries.values())
        ends = [reached + lateness for reached in (ahead, self.watermark) if reached is not None]
        for at in {each.at for each in final}:
            own = [each for each in final if each.at == at]
            self.sealed[at] = [
                FinalWindow(None, each.start, each.end, tuple(each.rows), each.ranks) for each in own
            ]
            window = next(each for each in own[0].query.windows if each.name == at[2])
            after = lateness + isinstance(window, wk.Session)
            ends += [each.end + after for each in own if each not in known]
        for (name, _), rows in self.taken.items():
            columns = {by: plain(self.table[by]) for by in self.queries[name].query.by}
            for row in [row for row in rows if self.group_of(row, columns) == group]:
                del rows[row]
        self.points = [point for point in self.points if point[2] != group]
        del self.ahead[group]
        if ends and (self.watermark is None or max(ends) > self.watermark):
            self.ahead[group] = max(ends)
        return any(each not in known for each in final)

    def check(
        self, held: Held, asked: Callable[[tuple[str, tuple[Any, ...], str]], bool] = lambda at: True
    ) -> None:
        """Assert that a consumer holds the windows that are final by now, and no others.

        Perhaps only of some queries, keys and windows.
        """
        expected, growing = self.expected()
        self.compare(held, [each for each in expected if asked(each.at)], growing, asked)

    def compare(
        self,
        held: Held,
        expected: Sequence[Expected],
        growing: dict[Any, list[tuple[int, int]]],
        asked: Callable[[tuple[str, tuple[Any, ...], str]], bool],
    ) -> None:
        """Assert that a consumer holds these windows; of those that it was asked for, no others."""
        assert_alike(self.valued(expected), [each for each in self.of(held, growing) if asked(each[0])])

    def of(self, held: Held, growing: dict[Any, list[tuple[int, int]]]) -> list[Any]:
        """Return the windows that a consumer holds of its queries, without parts of sessions that grow."""
        return [
            (at, start, end, ranks, values)
            for at, start, end, ranks, values in windows_of(held)
            if at[0] in self.queries
            and not any(first <= start and end <= last for first, last in growing.get(at, ()))
        ]

    def final_windows(self) -> tuple[list[Any], dict[Any, list[tuple[int, int]]]]:
        """Return the windows that are final, and sessions that are not, but parts of which may have been."""
        expected, growing = self.expected()
        return self.valued(expected), growing

    def valued(self, expected: Sequence[Expected]) -> list[Any]:
        """Return windows with their aggregates."""
        times = self.times()
        columns = {name: plain(self.table[name]) for name in self.schema.names}
        return [
            (*window, [self.value(each, rows, times, columns) for each in query.aggs])
            for *window, rows, query in expected
        ]

    def expected(self) -> tuple[list[Expected], dict[Any, list[tuple[int, int]]]]:
        """Return the windows that are final, and sessions that are not, but parts of which may have been."""
        times = self.times()
        columns = {name: plain(self.table[name]) for name in self.schema.names}
        expected = [
            Expected(at, each.start, each.end, each.ranks, each.rows, self.queries[at[0]].query)
            for at, sessions in self.sealed.items()
            for each in sessions
        ]
        growing: dict[Any, list[tuple[int, int]]] = defaultdict(list)
        for name, (query, since, lateness) in self.queries.items():
            windows = (
                (window, group, rows)
                for window in query.windows
                for group, rows in self.groups(name, window, columns).items()
                if not (self.seals and isinstance(window, wk.Session))
            )
            for window, group, rows in windows:
                at, counted = (name, group, window.name), self.counted(name, window, times)
                rows = sorted(rows, key=lambda row: (times[row], row))
                if by_rows(window):
                    for each in self.finals(window, rows, times, columns, group):
                        ranks, inside = each.ranks if window.counts_rows else None, each.rows
                        if counts_arrivals(window):
                            as_it_was = self.before_it_expired(window, each, rows, times, lateness)
                            if as_it_was is None:
                                continue
                            inside, ranks = as_it_was
                        expected.append(Expected(at, each.start, each.end, ranks, inside, query))
                    continue
                for start, end, inside, _ in extents(window, rows, counted, self.time_type, columns):
                    if since is not None and start <= since:
                        continue
                    if not self.is_final(window, over(window, end), group):
                        growing[at] += [(start, end)] if isinstance(window, wk.Session) else []
                        continue
                    within = [row for row in inside if self.came_in_time(row, window, end, lateness)]
                    # A landmark window exists if there are rows since the one before.
                    if (start, end) in self.windows_of(window, within, counted, columns):
                        left = remaining(query, within, columns)
                        expected += [Expected(at, start, end, None, left, query)] if left else []
        return expected, growing

    def is_final(self, window: wk.Window, end: int, group: tuple[Any, ...]) -> bool:
        reached = self.reached(group)
        if reached is None:
            return False
        return end < reached or (end == reached and not isinstance(window, wk.Session))

    def windows_of(
        self, window: wk.Window, rows: list[int], times: list[Any], columns: dict[str, list[Any]]
    ) -> set[tuple[int, int]]:
        found = extents(window, rows, times, self.time_type, columns) if rows else ()
        return {(start, end) for start, end, *_ in found}

    def before_it_expired(
        self, window: wk.Window, found: FinalWindow, rows: Sequence[int], times: list[int], lateness: int
    ) -> tuple[Sequence[int], Any] | None:
        """Return the rows and ranks of a window when the last row came before it expired, if it ever was.

        Rows that come later may be in its stretch of time, and shift its ranks, but change it no more.
        """
        known = [
            row
            for row in rows
            if (watermark := self.watermarks[row]) is None or found.end >= watermark - lateness
        ]
        windows = list(arrivals(window, known, times, self.time_type))
        if found.identity >= len(windows):
            return None
        _, _, inside, ranks = windows[found.identity]
        return inside, ranks

    def came_in_time(self, row: int, window: wk.Window, end: int, lateness: int) -> bool:
        """Whether a window had not expired when the row arrived."""
        watermark = self.watermarks[row]
        return isinstance(window, wk.Session) or watermark is None or over(window, end) > watermark - lateness

    def value(
        self, each: wk.Aggregate, rows: Sequence[int], times: list[Any], columns: dict[str, list[Any]]
    ) -> Any:
        rows = taken(each, rows, columns)
        if each.user is None:
            return aggregate(each, rows, times, columns, self.schema)
        values = [columns[each.columns[0]][row] for row in rows]
        return MEANINGS[each.user.name]([value for value in values if value is not None])


def remaining(query: wk.Query, rows: Sequence[int], columns: dict[str, list[Any]]) -> Sequence[int]:
    """Return the rows that others do not retract, if rows of a query have weights.

    A row and the one that retracts it have the same number in a column for that.
    """
    if query.weight is None:
        return rows
    weights, numbers = columns[query.weight], columns[TWIN]
    left = Counter(numbers[row] for row in rows if weights[row] > 0)
    left.subtract(numbers[row] for row in rows if weights[row] < 0)
    return [row for row in rows if weights[row] > 0 and left[numbers[row]]]
