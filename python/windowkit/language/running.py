"""How `run` and `at` are called: the options of each engine, and which data lead to which results.

A method has one signature and one docstring. `by_data`, `by_sides` and `by_labels` add what type checkers and
editors say of a call: the type of its result, and the options of the engine that takes the data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

from windowkit.language.durations import Length

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow
    import pyspark.sql
    from typing_extensions import Unpack

__all__ = ["DistinctOptions", "JoinOptions", "LabelOptions", "LocalOptions", "QueryOptions", "RollingOptions"]
__all__ += [
    "Counted",
    "Cut",
    "CutByTime",
    "SparkOptions",
    "StreamOptions",
    "by_data",
    "by_labels",
    "by_sides",
]
__all__ += ["distinct_options", "join_options", "label_options", "query_options", "rolling_options"]

Form = Literal["pyarrow", "pandas", "polars"]
Bound = TypeVar("Bound", covariant=True)
InSpark = ParamSpec("InSpark")
Given = ParamSpec("Given")


class LocalOptions(TypedDict, total=False):
    """What the engine of this process takes, beside `threads` and `result`."""

    validate: bool | None


class Counted(TypedDict, total=False):
    """What Spark takes for whatever it evaluates."""

    metrics: Any


class SparkOptions(TypedDict, total=False):
    """What Spark takes for a query over a batch."""

    route: str | None
    rows_per_slice: float | None
    metrics: Any
    partitioner: Any
    n: int | None


class StreamOptions(TypedDict, total=False):
    """What Spark takes for a query over a stream."""

    output_mode: str | None
    allowed_lateness: Length | None
    buckets: int | None
    metrics_name: str | None
    late_rows: bool | None
    route: str | None


class Cut(Counted, total=False):
    """What Spark takes for rolling aggregates."""

    split: bool | None


class CutByTime(Counted, total=False):
    """What Spark takes for joins and labels."""

    split: Length | None


class QueryInSpark(SparkOptions, StreamOptions, total=False):
    """What Spark takes for a query, of which a type does not tell batches from streams."""


class QueryOptions(QueryInSpark, LocalOptions, total=False):
    """What some engine takes for a query, beside `threads`."""

    result: Form | None


class RollingOptions(Cut, LocalOptions, total=False):
    """What some engine takes for rolling aggregates, beside `threads`."""

    result: Form | None


class DistinctOptions(Counted, LocalOptions, total=False):
    """What some engine takes for a removal of duplicates, beside `threads`."""

    result: Form | None


class JoinOptions(CutByTime, LocalOptions, total=False):
    """What some engine takes for a join, beside `threads`."""

    result: Form | None


class LabelOptions(JoinOptions, total=False):
    """What some engine takes for labels."""

    threads: int | None


class ArrowStream(Protocol):
    """A table or a stream with the Arrow PyCapsule interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the stream as a capsule."""


class ArrowArray(Protocol):
    """A record batch with the Arrow PyCapsule interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return schema and array as capsules."""


class Method(Protocol[Bound]):
    """A method whose calls are those of `Bound`."""

    @overload
    def __get__(self, of: None, kind: type) -> Callable[..., Any]: ...

    @overload
    def __get__(self, of: object, kind: type) -> Bound: ...


class Run(Protocol[InSpark, Given]):
    """A call with some data: its result is of the library of the data, unless `result` says which."""

    @overload
    def __call__(
        self,
        data: Any,
        threads: int | None = None,
        *,
        result: Literal["pandas"],
        **options: Unpack[LocalOptions],
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(
        self,
        data: Any,
        threads: int | None = None,
        *,
        result: Literal["polars"],
        **options: Unpack[LocalOptions],
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self,
        data: Any,
        threads: int | None = None,
        *,
        result: Literal["pyarrow"],
        **options: Unpack[LocalOptions],
    ) -> pyarrow.Table: ...

    @overload
    def __call__(
        self,
        data: polars.DataFrame,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self, data: pyspark.sql.DataFrame, *args: InSpark.args, **options: InSpark.kwargs
    ) -> pyspark.sql.DataFrame: ...

    @overload
    def __call__(
        self,
        data: pandas.DataFrame,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(  # type: ignore[overload-cannot-match]  # Where pandas has no stubs, its DataFrame is anything.
        self,
        data: ArrowStream | ArrowArray,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pyarrow.Table: ...

    @overload
    def __call__(self, *args: Given.args, **options: Given.kwargs) -> Any: ...


class RunSides(Protocol[InSpark, Given]):
    """A call with two sides: its result is of the library of the left one."""

    @overload
    def __call__(
        self,
        left: Any,
        right: Any,
        threads: int | None = None,
        *,
        result: Literal["pandas"],
        **options: Unpack[LocalOptions],
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(
        self,
        left: Any,
        right: Any,
        threads: int | None = None,
        *,
        result: Literal["polars"],
        **options: Unpack[LocalOptions],
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self,
        left: Any,
        right: Any,
        threads: int | None = None,
        *,
        result: Literal["pyarrow"],
        **options: Unpack[LocalOptions],
    ) -> pyarrow.Table: ...

    @overload
    def __call__(
        self,
        left: polars.DataFrame,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self,
        left: pyspark.sql.DataFrame,
        right: pyspark.sql.DataFrame,
        *args: InSpark.args,
        **options: InSpark.kwargs,
    ) -> pyspark.sql.DataFrame: ...

    @overload
    def __call__(
        self,
        left: pandas.DataFrame,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(  # type: ignore[overload-cannot-match]  # Where pandas has no stubs, its DataFrame is anything.
        self,
        left: ArrowStream | ArrowArray,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pyarrow.Table: ...

    @overload
    def __call__(self, *args: Given.args, **options: Given.kwargs) -> Any: ...


class Labelled(TypedDict, total=False):
    """The columns of labels, by default those of the same names as in the events."""

    by: str | Sequence[str] | None
    time: str | None


class LocalLabels(Labelled, LocalOptions, total=False):
    """What a call with labels takes in this process, beside `result`."""

    threads: int | None


class SparkLabels(Labelled, CutByTime, total=False):
    """What a call with labels takes in Spark."""


class At(Protocol[InSpark, Given]):
    """A call with labels and events: its result is of the library of the labels."""

    @overload
    def __call__(
        self, labels: Any, events: Any, *, result: Literal["pandas"], **options: Unpack[LocalLabels]
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(
        self, labels: Any, events: Any, *, result: Literal["polars"], **options: Unpack[LocalLabels]
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self, labels: Any, events: Any, *, result: Literal["pyarrow"], **options: Unpack[LocalLabels]
    ) -> pyarrow.Table: ...

    @overload
    def __call__(
        self, labels: polars.DataFrame, events: Any, *, result: None = None, **options: Unpack[LocalLabels]
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self,
        labels: pyspark.sql.DataFrame,
        events: pyspark.sql.DataFrame,
        *args: InSpark.args,
        **options: InSpark.kwargs,
    ) -> pyspark.sql.DataFrame: ...

    @overload
    def __call__(
        self, labels: pandas.DataFrame, events: Any, *, result: None = None, **options: Unpack[LocalLabels]
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(  # type: ignore[overload-cannot-match]  # Where pandas has no stubs, its DataFrame is anything.
        self,
        labels: ArrowStream | ArrowArray,
        events: Any,
        *,
        result: None = None,
        **options: Unpack[LocalLabels],
    ) -> pyarrow.Table: ...

    @overload
    def __call__(self, *args: Given.args, **options: Given.kwargs) -> Any: ...


def query_options(**options: Unpack[QueryInSpark]) -> None:
    """Take the options of a query in Spark."""


def rolling_options(**options: Unpack[Cut]) -> None:
    """Take the options of rolling aggregates in Spark."""


def distinct_options(**options: Unpack[Counted]) -> None:
    """Take the options of a removal of duplicates in Spark."""


def join_options(**options: Unpack[CutByTime]) -> None:
    """Take the options of a join in Spark."""


def label_options(**options: Unpack[SparkLabels]) -> None:
    """Take the options of labels in Spark."""


def by_data(
    in_spark: Callable[InSpark, None],
) -> Callable[[Callable[Concatenate[Any, Given], Any]], Method[Run[InSpark, Given]]]:
    """Let a method be called as `Run` says, with these options in Spark."""
    return as_it_is


def by_sides(
    in_spark: Callable[InSpark, None],
) -> Callable[[Callable[Concatenate[Any, Given], Any]], Method[RunSides[InSpark, Given]]]:
    """Let a method be called as `RunSides` says, with these options in Spark."""
    return as_it_is


def by_labels(
    in_spark: Callable[InSpark, None],
) -> Callable[[Callable[Concatenate[Any, Given], Any]], Method[At[InSpark, Given]]]:
    """Let a method be called as `At` says, with these options in Spark."""
    return as_it_is


def as_it_is(method: Any) -> Any:
    """Return a method: only its type is another."""
    return method
