"""Results of queries that discard: each has rows that came since the one before, and all have all rows."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support.extents import Span, spans_of
from support.holding import Definition, Expected
from support.oracle import extents
from support.oracle_aggregates import in_time, same
from support.plain import key, plain

NUMBERS = "numbers"
"""What the aggregate is called that has the numbers of rows."""


class Pane(NamedTuple):
    """A result of some rows of a window."""

    span: Span
    values: list[Any]
    numbers: list[int]


def discards(query: wk.Query) -> bool:
    return query.emit is not None and query.emit.refinement == "discarding"


class Panes:
    """The results of queries that discard, by query, keys, window and extent."""

    def __init__(self) -> None:
        self.of: dict[Any, tuple[Pane, ...]] = defaultdict(tuple)
        self.final: set[Any] = set()

    def copy(self) -> Panes:
        other = Panes()
        other.of.update(self.of)
        other.final = set(self.final)
        return other

    def remove(self, name: str) -> None:
        for at in [at for at in self.of if at[0] == name]:
            del self.of[at]
        self.final = {at for at in self.final if at[0] != name}

    def take(self, emitted: pa.Table, name: str, query: wk.Query) -> None:
        """Take the results of a query."""
        columns = {each: plain(emitted[each]) for each in emitted.column_names}
        for row, span in enumerate(spans_of(emitted)):
            window = columns["window_name"][row] if "window_name" in columns else query.windows[0].name
            kind = next(each for each in query.windows if each.name == window)
            group = tuple(key(columns[by][row]) for by in query.by)
            at = named(name, group, kind, span)
            assert span is not None
            assert not columns["update"][row]
            assert at not in self.final, f"a pane of {at} comes after its last"
            if columns["emission"][row] == "final":
                self.final.add(at)
            values = [columns[each.name][row] for each in query.aggs]
            self.of[at] += (Pane(span, values, columns[NUMBERS][row]),)

    def check(self, definition: Definition, expected: Sequence[Expected], complete: Container[str]) -> None:
        """Assert that panes have the rows of windows, those of final windows all of them, and none twice.

        Perhaps not all of them yet, if results of a query are not complete.
        """
        queries = {name: of for name, of in definition.queries.items() if discards(of.query)}
        times = definition.times() if queries else []
        columns = {name: plain(definition.table[name]) for name in definition.schema.names} if queries else {}
        numbers = columns.get("id", [])
        # The rows that each window has, and whether panes must have all of them.
        windows: dict[Any, tuple[Counter[int], bool]] = {}
        for name, (query, since, _) in queries.items():
            for window in query.windows:
                for group, rows in definition.groups(name, window, columns).items():
                    for start, end, inside, _ in extents(window, rows, times, definition.time_type, columns):
                        if since is None or start > since:
                            at = named(name, group, window, (start, end))
                            windows[at] = Counter(numbers[row] for row in inside), False
        for each in (each for each in expected if each.at[0] in queries):
            window = next(window for window in each.query.windows if window.name == each.at[2])
            at = named(each.at[0], each.at[1], window, (each.start, each.end))
            windows[at] = Counter(numbers[row] for row in each.rows), each.at[0] in complete
        rows_of = {number: row for row, number in enumerate(numbers)}
        for at, panes in ((at, panes) for at, panes in self.of.items() if at[0] in queries):
            assert at in windows, f"{at} is no window"
            for pane in panes:
                assert pane.numbers, f"{at} has an empty pane"
                inside = in_time([rows_of[number] for number in pane.numbers], times)
                aggs = queries[at[0]].query.aggs
                wanted = [definition.value(each, inside, times, columns) for each in aggs]
                assert all(map(same, wanted, pane.values)), f"a pane of {at}: {pane.values} is not {wanted}"
        for at, (wanted_rows, is_whole) in windows.items():
            got = Counter(number for pane in self.of.get(at, ()) for number in pane.numbers)
            assert got == wanted_rows if is_whole else got <= wanted_rows, f"{at}: {got}, of {wanted_rows}"


def named(name: str, group: tuple[Any, ...], window: wk.Window, span: Span) -> tuple[Any, ...]:
    """Return what tells a window apart; the extent of a pane of all rows is that of the pane."""
    return name, group, window.name, None if isinstance(window, wk.Global) else span
