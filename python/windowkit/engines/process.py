"""The engine of this process: tables by `windowkit.local`, streams by `windowkit.streams`."""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from windowkit import _native
from windowkit.language.distinct import Distinct
from windowkit.language.join import Join
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.language.windows import Window
from windowkit.local import distinct, explain, join, wids
from windowkit.local import query as queries
from windowkit.local import rolling as rolled
from windowkit.streams.distinct import DistinctOperator
from windowkit.streams.join import JoinOperator
from windowkit.streams.operator import Operator

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["InProcess"]

MODULES: Final[dict[type, ModuleType]] = {Query: queries, Rolling: rolled, Join: join, Distinct: distinct}
"""What evaluates the values of the language."""
OPERATORS: Final[dict[type, type]] = {Query: Operator, Join: JoinOperator, Distinct: DistinctOperator}


class InProcess:
    """The engine of this process, which takes all data."""

    def takes(self, asked: object, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`."""
        return True

    def options(self, asked: object) -> Collection[str]:
        """Return the options that it has."""
        return ("threads", "validate", "result")

    def refusal(self, asked: object, option: str) -> str:
        """Return what the error says of an option of Spark."""
        return "without a Spark DataFrame; only Spark has routes and partitions"

    def run(self, asked: Any, *data: Any, **options: Any) -> Any:
        """Evaluate a value of the language."""
        return MODULES[type(asked)].run(asked, *data, **options)

    def at(self, rolling: Rolling, labels: Any, events: Any, **options: Any) -> Any:
        """Evaluate rolling aggregates for labels."""
        return rolled.at(rolling, labels, events, **options)

    def explain(self, asked: Any, *data: Any, **options: Any) -> str:
        """Describe how a value of the language is evaluated."""
        module = explain if isinstance(asked, Query) else MODULES[type(asked)]
        text: str = module.explain(asked, *data, **options)
        return text

    def batches(self, asked: Any, *data: Any, **options: Any) -> pa.RecordBatchReader:
        """Evaluate a value of the language batch by batch."""
        return MODULES[type(asked)].batches(asked, *data, **options)

    def schema(self, asked: Any, *data: Any) -> pa.Schema:
        """Return the schema of a result."""
        return MODULES[type(asked)].schema(asked, *data)

    def operator(self, asked: Any, *schemas: Any, **options: Any) -> Any:
        """Return what evaluates a value of the language over a stream."""
        return OPERATORS[type(asked)](asked, *schemas, **options)

    def slices(self, query: Query, data: Any, **options: Any) -> pa.Table:
        """Aggregate rows to slices."""
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
