"""How `run` and `at` are called: which data lead to which results, and have which options.

A method has one signature and one docstring. `by_data`, `by_sides` and `by_labels` add what type checkers and
editors say of a call: the type of its result, and the options of the engine that takes the data. DataFrames
of Spark come before others, as they have an Arrow interface, too: with options of this process alone, their
call returns nothing, which is an error where its result is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, Protocol, TypedDict, TypeVar, overload

from windowkit.language.options import (
    Cut,
    CutByTime,
    LocalOptions,
    RoutedAndCounted,
    SparkOptions,
    StreamOptions,
)

if TYPE_CHECKING:
    import duckdb
    import pandas
    import polars
    import pyarrow
    import pyspark.sql
    from typing_extensions import Unpack

__all__ = ["by_data", "by_labels", "by_sides"]
__all__ += ["distinct_options", "join_options", "label_options", "query_options", "rolling_options"]

InSpark = ParamSpec("InSpark")
Bound = TypeVar("Bound", covariant=True)
Alike = TypeVar("Alike", bound="LazyRows | Relation | IbisTable | OfNarwhals")
"""Data of which results are of the same class."""


class QueryInSpark(SparkOptions, StreamOptions, total=False):
    """What Spark takes for a query, of which a type does not tell batches from streams."""


class SparkFrame(Protocol):
    """A DataFrame of Spark, classic or Connect: its class is not known where pyspark is missing."""

    @property
    def isStreaming(self) -> bool:  # noqa: N802  # Spark's name.
        """Whether it is a stream."""


class PandasFrame(Protocol):
    """A DataFrame of pandas, which may have no types."""

    @property
    def iloc(self) -> Any:
        """Its rows by their numbers."""

    @property
    def columns(self) -> Any:
        """The names of its columns."""


class LazyRows(Protocol):
    """A LazyFrame of Polars."""

    @property
    def collect_batches(self) -> Any:
        """Its rows, in batches."""


class Relation(Protocol):
    """A relation of DuckDB."""

    @property
    def sql_query(self) -> Any:
        """It as SQL."""


class IbisTable(Protocol):
    """A table of Ibis."""

    @property
    def to_pyarrow_batches(self) -> Any:
        """Its rows, in batches."""


class OfNarwhals(Protocol):
    """A frame of narwhals."""

    @property
    def to_native(self) -> Any:
        """What it holds."""


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


class Run(Protocol[InSpark]):
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
        data: Any,
        threads: int | None = None,
        *,
        result: Literal["polars-lazy"],
        **options: Unpack[LocalOptions],
    ) -> polars.LazyFrame: ...

    @overload
    def __call__(
        self,
        data: Any,
        threads: int | None = None,
        *,
        result: Literal["duckdb"],
        **options: Unpack[LocalOptions],
    ) -> duckdb.DuckDBPyRelation: ...

    @overload
    def __call__(
        self,
        data: Any,
        threads: int | None = None,
        *,
        result: Literal["ibis"],
        **options: Unpack[LocalOptions],
    ) -> Any: ...

    @overload
    def __call__(
        self, data: SparkFrame, *args: InSpark.args, **options: InSpark.kwargs
    ) -> pyspark.sql.DataFrame: ...

    @overload
    def __call__(
        self,
        data: SparkFrame,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> None: ...

    @overload
    def __call__(
        self,
        data: Alike,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> Alike: ...

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
        self,
        data: PandasFrame,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(
        self,
        data: ArrowStream | ArrowArray,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pyarrow.Table: ...


class RunSides(Protocol[InSpark]):
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
        left: Any,
        right: Any,
        threads: int | None = None,
        *,
        result: Literal["polars-lazy"],
        **options: Unpack[LocalOptions],
    ) -> polars.LazyFrame: ...

    @overload
    def __call__(
        self,
        left: Any,
        right: Any,
        threads: int | None = None,
        *,
        result: Literal["duckdb"],
        **options: Unpack[LocalOptions],
    ) -> duckdb.DuckDBPyRelation: ...

    @overload
    def __call__(
        self,
        left: Any,
        right: Any,
        threads: int | None = None,
        *,
        result: Literal["ibis"],
        **options: Unpack[LocalOptions],
    ) -> Any: ...

    @overload
    def __call__(
        self,
        left: SparkFrame,
        right: SparkFrame,
        *args: InSpark.args,
        **options: InSpark.kwargs,
    ) -> pyspark.sql.DataFrame: ...

    @overload
    def __call__(
        self,
        left: SparkFrame,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> None: ...

    @overload
    def __call__(
        self,
        left: Alike,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> Alike: ...

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
        left: PandasFrame,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(
        self,
        left: ArrowStream | ArrowArray,
        right: Any,
        threads: int | None = None,
        *,
        result: None = None,
        **options: Unpack[LocalOptions],
    ) -> pyarrow.Table: ...


class Labelled(TypedDict, total=False):
    """The columns of labels, by default those of the same names as in the events."""

    by: str | Sequence[str] | None
    time: str | None


class LocalLabels(Labelled, LocalOptions, total=False):
    """What a call with labels takes in this process, beside `result`."""

    threads: int | None


class SparkLabels(Labelled, CutByTime, total=False):
    """What a call with labels takes in Spark."""


class At(Protocol[InSpark]):
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
        self,
        labels: Any,
        events: Any,
        *,
        result: Literal["polars-lazy"],
        **options: Unpack[LocalLabels],
    ) -> polars.LazyFrame: ...

    @overload
    def __call__(
        self,
        labels: Any,
        events: Any,
        *,
        result: Literal["duckdb"],
        **options: Unpack[LocalLabels],
    ) -> duckdb.DuckDBPyRelation: ...

    @overload
    def __call__(
        self,
        labels: Any,
        events: Any,
        *,
        result: Literal["ibis"],
        **options: Unpack[LocalLabels],
    ) -> Any: ...

    @overload
    def __call__(
        self,
        labels: SparkFrame,
        events: SparkFrame,
        *args: InSpark.args,
        **options: InSpark.kwargs,
    ) -> pyspark.sql.DataFrame: ...

    @overload
    def __call__(
        self, labels: SparkFrame, events: Any, *, result: None = None, **options: Unpack[LocalLabels]
    ) -> None: ...

    @overload
    def __call__(
        self,
        labels: Alike,
        events: Any,
        *,
        result: None = None,
        **options: Unpack[LocalLabels],
    ) -> Alike: ...

    @overload
    def __call__(
        self, labels: polars.DataFrame, events: Any, *, result: None = None, **options: Unpack[LocalLabels]
    ) -> polars.DataFrame: ...

    @overload
    def __call__(
        self, labels: PandasFrame, events: Any, *, result: None = None, **options: Unpack[LocalLabels]
    ) -> pandas.DataFrame: ...

    @overload
    def __call__(
        self,
        labels: ArrowStream | ArrowArray,
        events: Any,
        *,
        result: None = None,
        **options: Unpack[LocalLabels],
    ) -> pyarrow.Table: ...


def query_options(**options: Unpack[QueryInSpark]) -> None:
    """Take the options of a query in Spark."""


def rolling_options(**options: Unpack[Cut]) -> None:
    """Take the options of rolling aggregates in Spark."""


def distinct_options(**options: Unpack[RoutedAndCounted]) -> None:
    """Take the options of a removal of duplicates in Spark."""


def join_options(**options: Unpack[CutByTime]) -> None:
    """Take the options of a join in Spark."""


def label_options(**options: Unpack[SparkLabels]) -> None:
    """Take the options of labels in Spark."""


def by_data(
    in_spark: Callable[InSpark, None],
) -> Callable[[Callable[..., Any]], Method[Run[InSpark]]]:
    """Let a method be called as `Run` says, with these options in Spark."""
    return as_it_is


def by_sides(
    in_spark: Callable[InSpark, None],
) -> Callable[[Callable[..., Any]], Method[RunSides[InSpark]]]:
    """Let a method be called as `RunSides` says, with these options in Spark."""
    return as_it_is


def by_labels(
    in_spark: Callable[InSpark, None],
) -> Callable[[Callable[..., Any]], Method[At[InSpark]]]:
    """Let a method be called as `At` says, with these options in Spark."""
    return as_it_is


def as_it_is(method: Any) -> Any:
    """Return a method: only its type is another."""
    return method
