"""What a consumer was given by an operator of queries."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

import windowkit as wk
from support.consumer import Held, replace
from support.holding import Definition
from support.simulation.late import LateRows
from support.simulation.panes import Panes, discards
from support.simulation.policies import Weights, counted, retracting, weigh
from support.simulation.waiting import Waiting


class Received:
    """The results that a consumer holds, by what they say of each other, and the late rows that it took."""

    def __init__(self, late_limit: int | None) -> None:
        self.held: Held = {}
        self.weights: Weights = Weights()
        self.panes, self.waiting, self.late = Panes(), Waiting(), LateRows(late_limit)

    def copy(self) -> Received:
        other = Received(self.late.limit)
        other.held, other.weights = dict(self.held), self.weights.copy()
        other.panes, other.waiting, other.late = self.panes.copy(), self.waiting.copy(), self.late.copy()
        return other

    def take(
        self, emitted: pa.Table, queries: Mapping[str, wk.Query], definition: Definition, closes: bool
    ) -> None:
        """Take what a call returned."""
        weigh(self.weights, emitted, queries)
        self.waiting.take(emitted, queries, definition, closes)
        of_panes = [name for name, query in queries.items() if discards(query)]
        for name in of_panes:
            self.panes.take(of_query(emitted, name, queries), name, queries[name])
        if of_panes and "query_name" in emitted.column_names:
            emitted = emitted.filter(pc.invert(pc.is_in(emitted["query_name"], pa.array(of_panes))))
        if len(of_panes) < len(queries):
            replace(self.held, emitted, queries, definition.time_type)

    def remove(self, name: str) -> None:
        """Forget the results of a query."""
        for at in [at for at in self.held if at[0] == name]:
            del self.held[at]
        for row in [row for row in self.weights if row[0] == name]:
            del self.weights[row]
        self.panes.remove(name)
        self.waiting.remove(name)

    def check(self, definition: Definition) -> None:
        """Assert that these are the windows that are final by now, but for those that policies hold back."""
        expected, growing = definition.expected()
        waiting = self.waiting
        complete = {name for name in definition.queries if waiting.is_complete(name)}
        now = [each for each in expected if each.at[0] in complete and not discards(each.query)]
        definition.compare(self.held, now, growing, lambda at: at[0] in complete)
        self.panes.check(definition, expected, complete)
        for name, (query, *_) in definition.queries.items():
            if name not in complete and waiting.is_by_calls(query) and not discards(query):
                self.check_delayed(name, query, definition)

    def check_delayed(self, name: str, query: wk.Query, definition: Definition) -> None:
        """Assert that results of a query are those that have waited long enough."""
        was = self.waiting.due(query, definition)
        if was is None or name not in was.queries:
            assert not any(at[0] == name for at in self.held), f"results of {name} came before they were due"
            return
        was.check(self.held, lambda at: at[0] == name)

    def check_weights(self, queries: Mapping[str, wk.Query]) -> None:
        """Assert that of queries that retract, exactly the results that are held are not retracted."""
        for name in retracting(queries):
            assert counted(self.weights, name) == sum(at[0] == name for at in self.held)


def of_query(emitted: pa.Table, name: str, queries: Mapping[str, wk.Query]) -> pa.Table:
    """Return the results of one of the queries."""
    if "query_name" in emitted.column_names:
        return emitted.filter(pc.equal(emitted["query_name"], name))
    return emitted if name == next(iter(queries)) else emitted.slice(0, 0)
