"""What a stream operator means, evaluated naively: after each call, every window over all rows that came.

Nothing here knows slices or partial aggregates. Windows are those of ``oracle.extents`` over all rows that
were taken; which of them a call returns follows from their ends and the watermarks alone.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support.oracle import extents, has_gap, taken
from support.oracle_aggregates import aggregate, same
from support.plain import key, plain

Result = tuple[Any, ...]
"""Query name, keys, window name, start, end, update."""


NEVER = 2**63 - 1
"""The watermark of a closed stream, and the end of the global window."""


def over(window: wk.Window, end: int) -> int:
    """Return where a window ends, if not with its last row."""
    return NEVER if isinstance(window, wk.Global) else end


class Registered(NamedTuple):
    """A query, and the time after which its stream begins."""

    query: wk.Query
    since: int | None


class Stream:
    """The same calls as `windowkit.Operator` has, with what they must return."""

    def __init__(
        self,
        name: str,
        query: wk.Query,
        schema: pa.Schema,
        *,
        order: str,
        allowed_lateness: int = 0,
        max_delay: int | None = None,
    ) -> None:
        self.queries = {name: Registered(query, None)}
        self.schema, self.order, self.lateness, self.delay = schema, order, allowed_lateness, max_delay
        self.table = schema.empty_table()
        self.time_type = schema.field(query.time).type
        self.watermark: int | None = None
        self.latest: int | None = None
        self.taken: list[int] = []
        self.late: list[tuple[int, str]] = []
        # Rows of sessions that were over, by query and window.
        self.emitted: dict[tuple[str, str, tuple[Any, ...]], set[int]] = defaultdict(set)

    def add(self, name: str, query: wk.Query) -> None:
        so_far = [t for t in (self.latest, self.watermark) if t is not None]
        self.queries[name] = Registered(query, max(so_far) if so_far else None)

    def remove(self, name: str) -> None:
        del self.queries[name]

    def push(self, batch: pa.Table) -> dict[Result, list[Any]]:
        """Return what the call must return; refused rows are not for this oracle."""
        before = self.table.num_rows
        self.table = pa.concat_tables([self.table, batch])
        times = self.times()
        gaps = [name for window in self.any_query().windows for name in window.columns]
        given = {name: plain(self.table[name]) for name in gaps}
        fresh = set()
        watermark = self.watermark
        for row in range(before, self.table.num_rows):
            if times[row] is None:
                self.late.append((row, "null time"))
            elif not all(has_gap(window, row, given) for window in self.any_query().windows):
                self.late.append((row, "no gap"))
            elif not self.is_waited_for(times[row]):
                self.late.append((row, "too late"))
            else:
                self.taken.append(row)
                fresh.add(row)
        seen = [t for t in times[before:] if t is not None]
        if seen:
            self.latest = max([*seen] if self.latest is None else [*seen, self.latest])
        result = self.emit(lambda end, past: watermark is not None and past(end, watermark), fresh, True)
        if self.latest is not None:
            if self.order == "in-order":
                result |= self.move(max(self.latest, self.latest if watermark is None else watermark))
            elif self.delay is not None:
                moved = self.latest - self.delay
                result |= self.move(moved if watermark is None else max(moved, watermark))
        return result

    def advance(self, watermark: int) -> dict[Result, list[Any]]:
        return self.move(watermark)

    def close(self) -> dict[Result, list[Any]]:
        return self.move(NEVER)

    def times(self) -> list[Any]:
        return plain(self.table[self.any_query().time])

    def is_by_time(self, window: wk.Window) -> bool:
        """Whether windows of a type are determined by times; this oracle has no others."""
        return True

    def any_query(self) -> wk.Query:
        return next(iter(self.queries.values())).query

    def is_waited_for(self, t: int) -> bool:
        """Whether windows have not come so far, or one that a row alone would open has not expired."""
        if self.watermark is None:
            return True
        horizon = self.watermark - self.lateness
        for query, since in self.queries.values():
            if since is not None and t <= since:
                continue
            if t >= horizon:
                return True
            for window in query.windows:
                for _, last, *_ in extents(window, [0], [t], self.time_type, {}):
                    end = over(window, last)
                    if end > horizon or (isinstance(window, wk.Session) and end == horizon):
                        return True
        return False

    def move(self, watermark: int) -> dict[Result, list[Any]]:
        before = self.watermark

        def is_final(end: int, past: Any) -> bool:
            return past(end, watermark) and (before is None or not past(end, before))

        self.watermark = watermark
        return self.emit(is_final, None, False)

    def emit(self, is_final: Any, fresh: set[int] | None, update: bool) -> dict[Result, list[Any]]:
        """Return windows whose end is final; with `fresh` rows those that have one and have not expired."""
        times, result = self.times(), {}
        columns = {name: plain(self.table[name]) for name in self.schema.names}
        for name, (query, since) in self.queries.items():
            groups: dict[tuple[Any, ...], list[int]] = defaultdict(list)
            for row in self.taken:
                if since is None or times[row] > since:
                    groups[tuple(key(columns[by][row]) for by in query.by)].append(row)
            for window in filter(self.is_by_time, query.windows):
                session = isinstance(window, wk.Session)

                def past(end: int, watermark: int, session: bool = session) -> bool:
                    return end < watermark if session else end <= watermark

                for group, rows in groups.items():
                    for start, end, inside, _ in extents(window, rows, times, self.time_type, columns):
                        if not is_final(over(window, end), past) or (since is not None and start <= since):
                            continue
                        if fresh is not None:
                            assert self.watermark is not None
                            expired = past(over(window, end), self.watermark - self.lateness)
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
        return result


def results(op: wk.Operator, table: pa.Table) -> dict[Result, list[Any]]:
    """Return the rows of a result in the form of the oracle's."""
    if not table.num_rows:
        return {}
    queries = dict(op.queries)
    first = next(iter(queries.values()))
    columns = {name: plain(table[name]) for name in table.column_names if not name.endswith("window")}
    extent = next(name for name in table.column_names if name in ("window", "session_window"))
    struct = table[extent].combine_chunks()
    starts, ends = plain(struct.field("start")), plain(struct.field("end"))
    found: dict[Result, list[Any]] = {}
    for row in range(table.num_rows):
        name = columns["query_name"][row] if "query_name" in columns else next(iter(queries))
        query = queries[name]
        window = columns["window_name"][row] if "window_name" in columns else query.windows[0].name
        keys = tuple(key(columns[by][row]) for by in first.by)
        result = (name, *keys, window, starts[row], ends[row], columns["update"][row])
        assert result not in found, f"{result} comes twice"
        found[result] = [columns[each.name][row] for each in query.aggs]
    return found


def assert_same(expected: dict[Result, list[Any]], got: dict[Result, list[Any]]) -> None:
    """Assert that a call returned these windows, no more, and these values."""
    assert set(got) == set(expected), f"{sorted(map(str, got))} != {sorted(map(str, expected))}"
    for result, values in expected.items():
        for value, other in zip(values, got[result], strict=True):
            assert same(value, other), f"{result}: {other!r} is not {value!r}"
