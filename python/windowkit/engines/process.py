"""The engine of this process: tables by `windowkit.local`, streams by `windowkit.streams`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.given import is_lazy
from windowkit.arrow.results import MADE_AS, finished, form_of
from windowkit.language.distinct import Distinct
from windowkit.language.join import Join
from windowkit.language.options import Conditioned, InProcessOptions
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.language.windows import Window
from windowkit.local import distinct, explain, join, lazy, wids
from windowkit.local import query as queries
from windowkit.local import rolling as rolled
from windowkit.streams.distinct import DistinctOperator
from windowkit.streams.join import JoinOperator
from windowkit.streams.operator import Operator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from windowkit.language.engine import Asked, Call

__all__ = ["InProcess"]


@dataclass(frozen=True)
class Evaluation:
    """How a value of the language is evaluated in this process."""

    run: Callable[..., Any]
    schema: Callable[..., pa.Schema]
    explain: Callable[..., str]
    batches: Callable[..., pa.RecordBatchReader] | None = None
    operator: Callable[..., Any] | None = None


EVALUATIONS: Final[dict[type, Evaluation]] = {
    Query: Evaluation(queries.run, queries.schema, explain.explain, queries.batches, Operator),
    Rolling: Evaluation(rolled.run, rolled.schema, rolled.explain),
    Join: Evaluation(join.run, join.schema, join.explain, join.batches, JoinOperator),
    Distinct: Evaluation(distinct.run, distinct.schema, distinct.explain, distinct.batches, DistinctOperator),
}


class InProcess:
    """The engine of this process, which takes all data."""

    data = "tables"
    given = "without a Spark DataFrame"
    instead: Mapping[str, str] = {}

    def takes(self, asked: Asked, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`."""
        return True

    def options(self, call: Call, asked: Asked) -> Collection[str]:
        """Return the options that it has."""
        own = InProcessOptions.__annotations__ if call == "run" else {}
        of_query = Conditioned.__annotations__
        if isinstance(asked, Query):
            return {**of_query, **own}
        # In order, as messages list them.
        return [name for name in own if name not in of_query]

    def run(self, asked: Asked, *data: Any, **options: Any) -> Any:
        """Evaluate a value of the language."""
        with _native.Call():
            return evaluated(EVALUATIONS[type(asked)].run, asked, data, **options)

    def at(self, rolling: Rolling, labels: Any, events: Any, **options: Any) -> Any:
        """Evaluate rolling aggregates for labels."""
        with _native.Call():
            return evaluated(rolled.at, rolling, (labels, events), **options)

    def explain(self, asked: Asked, *data: Any, **options: Any) -> str:
        """Describe how a value of the language is evaluated."""
        return EVALUATIONS[type(asked)].explain(asked, *data, **options)

    def batches(self, asked: Asked, *data: Any, **options: Any) -> pa.RecordBatchReader:
        """Evaluate a value of the language batch by batch."""
        batches = EVALUATIONS[type(asked)].batches
        assert batches is not None, "rolling aggregates have every row of the input"
        with _native.Call():
            return batches(asked, *data, **options)

    def schema(self, asked: Asked, *data: Any) -> pa.Schema:
        """Return the schema of a result."""
        return EVALUATIONS[type(asked)].schema(asked, *data)

    def operator(self, asked: Query | Join | Distinct, *schemas: Any, **options: Any) -> Any:
        """Return what evaluates a value of the language over a stream."""
        operator = EVALUATIONS[type(asked)].operator
        assert operator is not None, "rolling aggregates are of tables"
        return operator(asked, *schemas, **options)

    def slices(self, query: Query, data: Any, **options: Any) -> pa.Table:
        """Aggregate rows to slices."""
        with _native.Call():
            return queries.slices(query, data, **options)

    def plot(self, query: Query, data: Any, **options: Any) -> Figure:
        """Draw the windows of a query."""
        # Pictures take time to import.
        from windowkit.plot import windows

        return windows.plot(query, data, **options)

    def wids(self, window: Window, times: Any, validate: bool) -> pa.StructArray:
        """Return the window ids of times."""
        return wids.wids(window, times, validate)

    def extent(self, window: Window, ids: Any, time_type: Any, validate: bool) -> pa.StructArray:
        """Return the extents of windows."""
        return wids.extent(window, ids, time_type, validate)

    def zone_name(self, zone: str) -> str:
        """Return what a time zone is called."""
        return _native.zone_name(zone)

    def name_types(self, library: str) -> str:
        """Let errors on this thread name types as a library does; return as which one they did before."""
        return _native.name_types(library)


def evaluated(
    evaluate: Callable[..., Any], asked: Asked, data: Sequence[Any], result: str | None = None, **options: Any
) -> Any:
    """Evaluate a value of the language over data by a function, and return its result in its form."""
    form = form_of(data[0], result)
    if form == "polars-lazy" and is_lazy(data[0]):
        return lazy.scan(evaluate, asked, data, options)
    if not isinstance(asked, Query):
        # Their rows are in memory in any case, and keep their types as they are.
        data = [lazy.collected(each) for each in data]
    return finished(evaluate(asked, *data, form=MADE_AS.get(form, form), **options), form, data[0])
