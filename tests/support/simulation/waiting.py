"""Results that policies hold back: how many a call returns, and when a consumer must have them."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping

import pyarrow as pa

import windowkit as wk
from support.holding import Definition
from support.plain import in_units


def waits(query: wk.Query) -> bool:
    """Whether results may be held back."""
    return query.emit is not None and (query.emit.at_most, query.emit.later) != (None, None)


class Waiting:
    """What may be held back, by what calls have returned."""

    def __init__(self) -> None:
        # Queries of which something may be.
        self.perhaps: set[str] = set()
        # What the definition was after each call, for the queries whose results wait for a later one.
        self.past: list[Definition] = []
        self.is_closed = False

    def copy(self) -> Waiting:
        other = copy.copy(self)
        other.perhaps, other.past = set(self.perhaps), list(self.past)
        return other

    def take(
        self, emitted: pa.Table, queries: Mapping[str, wk.Query], definition: Definition, closes: bool
    ) -> None:
        """Let a call have returned these results."""
        first = next(iter(queries))
        names = (
            emitted["query_name"].to_pylist()
            if "query_name" in emitted.column_names
            else [first] * len(emitted)
        )
        counts = Counter(names)
        self.is_closed = self.is_closed or closes
        for name, query in queries.items():
            if closes or not waits(query):
                continue
            assert query.emit is not None
            if query.emit.later is None:
                most = query.emit.at_most
                assert most is not None
                assert counts[name] <= most, f"{name} has {counts[name]} results at once"
                # As many as may leave did, or all.
                self.perhaps = self.perhaps | {name} if counts[name] == most else self.perhaps - {name}
            else:
                self.perhaps = self.perhaps | {name}
        if any(query.emit is not None and query.emit.later is not None for query in queries.values()):
            self.past.append(definition.copy())

    def is_complete(self, name: str) -> bool:
        """Whether a consumer must have all results of a query."""
        return self.is_closed or name not in self.perhaps

    @staticmethod
    def is_by_calls(query: wk.Query) -> bool:
        """Whether all results of a call leave at once."""
        return query.emit is not None and query.emit.later is not None and query.emit.at_most is None

    def due(self, query: wk.Query, definition: Definition) -> Definition | None:
        """Return the definition after the last call whose results have waited long enough, if one has."""
        assert query.emit is not None
        later, now = in_units(query.emit.later, definition.time_type), definition.watermark
        for was in reversed(self.past if now is not None else []):
            if was.watermark is None or was.watermark + later <= now:
                return was
        return None

    def remove(self, name: str) -> None:
        """Forget a query: another of its name has other results."""
        self.perhaps.discard(name)
        self.past = [was.copy() for was in self.past]
        for was in (was for was in self.past if name in was.queries):
            was.remove(name)
