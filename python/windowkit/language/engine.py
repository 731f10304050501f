"""What an engine is: it evaluates what the language describes, over one kind of data."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow
    from matplotlib.figure import Figure

    from windowkit.language.distinct import Distinct
    from windowkit.language.join import Join
    from windowkit.language.query import Query
    from windowkit.language.rolling import Rolling
    from windowkit.language.windows import Window

    Asked: TypeAlias = Query | Rolling | Join | Distinct
    """What is evaluated."""

__all__ = ["Asked", "Call", "Engine", "Process"]

Call: TypeAlias = Literal["run", "explain"]
"""What has options."""


class Engine(Protocol):
    """What evaluates queries, rolling aggregates, joins and removals of duplicates over one kind of data."""

    @property
    def data(self) -> str:
        """What errors call its data."""

    @property
    def given(self) -> str:
        """What errors say of an option that is given for its data."""

    @property
    def instead(self) -> Mapping[str, str]:
        """What errors say of some options that it does not have: why not, and what to do instead."""

    def takes(self, asked: Asked, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`; it must not import a library to find out."""

    def options(self, call: Call, asked: Asked) -> Collection[str]:
        """Return the options that it has for a call."""

    def run(self, asked: Asked, *data: Any, **options: Any) -> Any:
        """Evaluate a value of the language."""

    def at(self, rolling: Rolling, labels: Any, events: Any, **options: Any) -> Any:
        """Evaluate rolling aggregates for labels."""

    def explain(self, asked: Asked, *data: Any, **options: Any) -> str:
        """Describe how a value of the language is evaluated."""


class Process(Engine, Protocol):
    """The engine of this process, which takes all data, and alone has these calls."""

    def batches(self, asked: Asked, *data: Any, **options: Any) -> pyarrow.RecordBatchReader:
        """Evaluate a value of the language batch by batch."""

    def schema(self, asked: Asked, *data: Any) -> pyarrow.Schema:
        """Return the schema of a result."""

    def operator(self, asked: Query | Join | Distinct, *schemas: Any, **options: Any) -> Any:
        """Return what evaluates a value of the language over a stream."""

    def slices(self, query: Query, data: Any, **options: Any) -> pyarrow.Table:
        """Aggregate rows to slices."""

    def plot(self, query: Query, data: Any, **options: Any) -> Figure:
        """Draw the windows of a query."""

    def wids(self, window: Window, times: Any, validate: bool) -> pyarrow.StructArray:
        """Return the window ids of times."""

    def extent(self, window: Window, ids: Any, time_type: Any, validate: bool) -> pyarrow.StructArray:
        """Return the extents of windows."""

    def zone_name(self, zone: str) -> str:
        """Return what a time zone is called."""

    def name_types(self, library: str) -> str:
        """Let errors on this thread name types as a library does; return as which one they did before."""
