"""What an operator knows of itself: its options, its queries and the schema of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.computing import Computing, computing
from windowkit.arrow.incoming import Incoming
from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given, checked_name
from windowkit.language.durations import Duration
from windowkit.language.expressions import Expression, expressions_of
from windowkit.language.fills import refuse_stream
from windowkit.language.processing import ProcessingTime, Stamps
from windowkit.language.query import Query
from windowkit.language.window_columns import day_of, refuse_other_days
from windowkit.language.windows import units
from windowkit.local.query import shaped_schema, slices_schema, stream_plan
from windowkit.streams.calls import State
from windowkit.streams.completeness import FIELDS
from windowkit.streams.options import Options
from windowkit.streams.progress import announce, source_row
from windowkit.streams.sampled import refuse
from windowkit.streams.watermarks import one_key, time_type

__all__ = ["NO_SPARK", "Entry", "Known", "of_queries", "refuse_unlike"]

NO_SPARK: Final = " to an operator; operators take Arrow data, and query.run takes streams of Spark"


@dataclass(frozen=True)
class Known(State[_native.Operator]):
    """What an operator of queries knows of itself."""

    options: Options = field(default_factory=Options)
    queries: Mapping[str, Query] = field(default_factory=lambda: MappingProxyType({}))
    """By name, in the order they were added."""
    lateness: Mapping[str, Duration | int | None] = field(default_factory=lambda: MappingProxyType({}))
    """Of the same queries, where it is not the operator's."""
    added: int = 0
    """How many were, including those removed."""
    schema: pa.Schema | None = None
    """That of rows, known from the first batch on."""
    expressions: tuple[Expression, ...] = ()
    """The columns that are computed of each batch, also of queries that were removed."""

    @cached_property
    def leader(self) -> Query:
        """A query, which has the keys, the time column and the form of windows that all of them have."""
        return next(iter(self.queries.values()))

    @cached_property
    def is_stamped(self) -> bool:
        """Whether rows get the time of the clock, in a last column."""
        return isinstance(self.leader.time, ProcessingTime)

    @cached_property
    def has_clock(self) -> bool:
        """Whether the clock matters: to the times of rows, to sources that are silent, or to a policy."""
        if self.core is not None:
            return self.is_stamped or self.core.has_clock
        delay = self.options.progress
        listens = delay is not None and delay.has_clock
        policies = [query.emit for query in self.queries.values() if query.emit is not None]
        return self.is_stamped or listens or any(policy.has_clock for policy in policies)

    @cached_property
    def incoming(self) -> Incoming:
        """How batches of rows are read."""
        compute, own = computing("batch", self.expressions), self.schema
        if own is not None and self.is_stamped:
            own = own.remove(len(own) - 1)
        if own is not None and compute is not None:
            own = compute.removed_from(own)
        return Incoming(
            own,
            NO_SPARK,
            aggregated=True,
            compute=compute,
            as_given=not self.is_stamped,
            reads=self.reads(compute),
        )

    def reads(self, compute: Computing | None) -> list[str]:
        """Return the columns that are read, as far as they have names."""
        named = [name for query in self.queries.values() for name in query.named]
        fired = [
            name for query in self.queries.values() if query.emit is not None for name in query.emit.columns
        ]
        source = None if self.options.progress is None else self.options.progress.source
        every = [*named, *fired, *([] if source is None else [source])]
        return list(map(str, every)) if compute is None else compute.reads(every) or []

    @cached_property
    def time_type(self) -> pa.DataType:
        """The type of times, as watermarks have it."""
        assert self.schema is not None, "bound before"
        return time_type(self.schema, self.leader.time)

    def key(self, key: Any) -> pa.RecordBatch | None:
        """Return a key as the core takes it; None for all keys."""
        assert self.schema is not None, "bound before"
        return None if key is None else one_key(key, tuple(map(str, self.leader.by)), self.schema)

    def source(self, name: Any) -> pa.RecordBatch:
        """Return the name of a source as the core takes it."""
        assert self.schema is not None, "bound before"
        assert self.core is not None, "bound before"
        return source_row(self.core, self.schema, name)

    @cached_property
    def results(self) -> pa.Schema:
        """The schema of results."""
        assert self.core is not None, "bound before"
        schema = shaped_schema(pa.schema(self.core.schema), self.leader)
        return pa.schema([*schema, *(FIELDS if self.completes else ())], schema.metadata)

    @cached_property
    def completes(self) -> frozenset[str]:
        """The queries whose results say how complete their windows are."""
        asked = {name: query.emit for name, query in self.queries.items() if query.emit is not None}
        return frozenset(name for name, policy in asked.items() if policy.complete)

    @cached_property
    def nothing(self) -> pa.Table:
        """Results without rows."""
        return pa.Table.from_batches([], self.results)

    @cached_property
    def sliced(self) -> pa.Schema:
        """The schema of slices of rows, for which the query is planned."""
        assert self.schema is not None, "bound before"
        return slices_schema(self.leader, self.schema)

    def without(self, name: str) -> Known:
        """Return what is known without this query."""
        left = {other: query for other, query in self.queries.items() if other != name}
        lateness = {other: own for other, own in self.lateness.items() if other != name}
        return replace(self, queries=MappingProxyType(left), lateness=MappingProxyType(lateness))

    def with_query(
        self, query: Query, name: str | None, lateness: Duration | int | None = None
    ) -> tuple[Known, str]:
        """Return what is known with one more query, and its name."""
        if not isinstance(query, Query):
            raise InvalidType(f"query: {as_given(query)} is {a_type(query)}; query is a windowkit.Query")
        refuse_stream(query.fill)
        refuse(self.options.shed, query)
        added = self.added + 1
        while name is None and f"q{added}" in self.queries:
            added += 1
        given = f"q{added}" if name is None else checked_name("name", name)
        if given in self.queries:
            raise InvalidValue(
                f"name: {as_given(given)} is taken; queries of one operator must have different names"
            )
        for other in self.queries.values():
            if (other.by, other.time) != (query.by, query.time):
                raise InvalidValue(
                    f"query: it is by {list(query.by)} over {query.time!r}, but the operator's queries by "
                    f"{list(other.by)} over {other.time!r}; queries of one operator share keys and time"
                )
            refuse_unlike("query", [query, other])
        if "update" in query.columns:
            argument, how = ("by", "rename the key") if "update" in query.by else ("aggs", "use .alias()")
            raise InvalidValue(
                f"{argument}: results would have two columns 'update', one of which an operator adds; {how}"
            )
        self.check_completeness(query)
        # Where there is a core, it knows the operator's, also of a snapshot, and does the same.
        if query.emit is not None and self.core is None:
            query.emit.check_lateness(
                units(self.options.allowed_lateness if lateness is None else lateness), given
            )
            # In order, no row is late.
            if not self.options.updates and self.options.order == "out-of-order":
                raise InvalidValue(
                    "updates: False is given for a query with an emission policy, whose early results are "
                    "updated; leave out one of them"
                )
        queries = MappingProxyType({**self.queries, given: query})
        expressions = of_queries(queries.values())
        if self.core is not None and self.schema is not None:
            if not set(expressions) <= set(self.expressions):
                raise InvalidValue(
                    f"query: it has the expressions {', '.join(map(repr, map(str, query.expressions)))}; the "
                    "columns of a stream that has begun are known, so that a query that is added has only "
                    "expressions that the operator's queries have"
                )
            expressions = self.expressions
        of_each = MappingProxyType({**self.lateness, given: lateness})
        return replace(self, queries=queries, lateness=of_each, added=added, expressions=expressions), given

    def check_completeness(self, query: Query) -> None:
        """Refuse a query whose results are to say how complete they are, where nothing tells.

        Raises
        ------
        InvalidValue
        """
        if query.emit is None or not query.emit.complete:
            return
        delay = self.options.progress
        if not (
            self.core.measures if self.core is not None else delay is not None and delay.share is not None
        ):
            raise InvalidValue(
                f"emit: {query.emit!r} is given, but nothing measures how late rows are; it requires "
                "progress=windowkit.delay(share=...)"
            )

    def begun(self, given: pa.Schema) -> Known:
        """Return what is known once there is a core for rows of this schema, without times of the clock."""
        schema = Stamps.schema(given) if self.is_stamped else given
        plans = [
            Entry(name, stream_plan(query, schema, self.expressions), self.lateness.get(name))
            for name, query in self.queries.items()
        ]
        own = self.options
        core = _native.Operator(
            plans,
            own.order,
            own.allowed_lateness,
            own.progress,
            own.store,
            own.late_limit,
            own.shed,
            own.updates,
        )
        announce(core, schema, own.progress)
        return replace(self, schema=schema, core=core)


@dataclass(frozen=True)
class Entry:
    """A query of an operator, as the core takes it, and an allowed lateness of its own, if it has one."""

    name: str
    plan: _native.Plan
    allowed_lateness: Duration | int | None = None


def of_queries(queries: Iterable[Query]) -> tuple[Expression, ...]:
    """Return the expressions of queries, whose values a row has by itself.

    Raises
    ------
    InvalidType, InvalidValue
        One looks at other rows, or is not evaluated in this process; or queries call different ones the same.
    """
    expressions = expressions_of(name for query in queries for name in query.named)
    Computing("query", expressions).check_rows()
    return expressions


def refuse_unlike(argument: str, queries: Sequence[Query]) -> None:
    """Refuse queries that hold windows differently, as the results of an operator have the same columns.

    Raises
    ------
    InvalidValue
    """
    own = queries[0]
    for other in queries[1:]:
        if other.window_columns != own.window_columns:
            raise InvalidValue(
                f"{argument}: window_columns is {own.window_columns!r} for {own}, and "
                f"{other.window_columns!r} for {other}; queries of one operator have the same"
            )
        if own.window_columns == "date":
            days = {str(each): day_of(each.windows) for each in (own, other)}
            refuse_other_days(argument, days)
