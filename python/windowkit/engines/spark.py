"""Spark as two engines, of batches and of streams; `windowkit.spark` is imported for DataFrames alone."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from windowkit.language.distinct import Distinct
from windowkit.language.foreign import is_spark
from windowkit.language.join import Join
from windowkit.language.options import (
    Cut,
    CutByTime,
    CutByTimePlan,
    CutPlan,
    Routed,
    RoutedAndCounted,
    SparkOptions,
    SparkPlan,
    StreamOptions,
)
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling

if TYPE_CHECKING:
    from windowkit.language.engine import Asked, Call

__all__ = ["Spark", "SparkStreams"]

OPTIONS: Final[dict[Call, dict[type, type]]] = {
    "run": {Query: SparkOptions, Rolling: Cut, Join: CutByTime, Distinct: RoutedAndCounted},
    "explain": {Query: SparkPlan, Rolling: CutPlan, Join: CutByTimePlan, Distinct: Routed},
}


class Spark:
    """The engine of DataFrames, classic or Connect."""

    data = "batch DataFrames of Spark"
    given = "with a batch DataFrame of Spark"
    instead: Mapping[str, str] = {"result": "its result is one, too: call .toPandas() or .toArrow() on that"}

    def takes(self, asked: Asked, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`."""
        return is_spark(data)

    def options(self, call: Call, asked: Asked) -> Collection[str]:
        """Return the options that it has."""
        options = OPTIONS[call].get(type(asked))
        return () if options is None else options.__annotations__.keys()

    def run(self, asked: Asked, *data: Any, **options: Any) -> Any:
        """Evaluate a value of the language."""
        from windowkit import spark

        calls: dict[type, Callable[..., Any]] = {
            Query: spark.aggregate,
            Rolling: spark.roll,
            Join: spark.join,
            Distinct: spark.distinct,
        }
        return calls[type(asked)](*data, asked, **options)

    def at(self, rolling: Rolling, labels: Any, events: Any, **options: Any) -> Any:
        """Evaluate rolling aggregates for labels."""
        from windowkit import spark

        return spark.as_of(labels, events, rolling, **options)

    def explain(self, asked: Asked, *data: Any, **options: Any) -> str:
        """Describe how a value of the language is evaluated."""
        from windowkit import spark

        calls: dict[type, Callable[..., str]] = {
            Query: spark.explain,
            Rolling: spark.explain_roll,
            Join: spark.explain_join,
            Distinct: spark.explain_distinct,
        }
        return calls[type(asked)](*data, asked, **options)


class SparkStreams(Spark):
    """The engine of queries over streaming DataFrames."""

    data = "streaming DataFrames"
    given = "with a streaming DataFrame"
    instead: Mapping[str, str] = {}

    def takes(self, asked: Asked, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`."""
        return isinstance(asked, Query) and is_spark(data) and getattr(data, "isStreaming", False)

    def options(self, call: Call, asked: Asked) -> Collection[str]:
        """Return the options that it has."""
        return StreamOptions.__annotations__.keys() if isinstance(asked, Query) else ()

    def run(self, asked: Asked, *data: Any, **options: Any) -> Any:
        """Evaluate a query over a stream."""
        from windowkit import spark

        assert isinstance(asked, Query), "it takes nothing else"
        (df,) = data
        return spark.stream(df, asked, **options)

    def explain(self, asked: Asked, *data: Any, **options: Any) -> str:
        """Describe how a query over a stream is evaluated."""
        from windowkit import spark

        assert isinstance(asked, Query), "it takes nothing else"
        (df,) = data
        return spark.explain_stream(df, asked, **options)
