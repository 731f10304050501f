"""Spark as two engines, of batches and of streams; `windowkit.spark` is imported for DataFrames alone."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Final

from windowkit.language.distinct import Distinct
from windowkit.language.foreign import is_spark
from windowkit.language.join import Join
from windowkit.language.query import Query
from windowkit.language.rolling import Rolling
from windowkit.language.running import Counted, Cut, CutByTime, SparkOptions, StreamOptions

__all__ = ["Spark", "SparkStreams"]

OPTIONS: Final[dict[type, type]] = {Query: SparkOptions, Rolling: Cut, Join: CutByTime, Distinct: Counted}


class Spark:
    """The engine of DataFrames, classic or Connect."""

    def takes(self, asked: object, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`."""
        return is_spark(data)

    def options(self, asked: object) -> Collection[str]:
        """Return the options that it has."""
        return OPTIONS[type(asked)].__annotations__.keys()

    def refusal(self, asked: object, option: str) -> str:
        """Return what the error says of an option of another engine."""
        if option == "result":
            return "with a Spark DataFrame, whose result is one, too; call .toPandas() or .toArrow() on that"
        return f"with a Spark DataFrame; {allowed(self.options(asked))}"

    def run(self, asked: Any, *data: Any, **options: Any) -> Any:
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

    def explain(self, asked: Any, *data: Any, **options: Any) -> str:
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

    def takes(self, asked: object, data: Any) -> bool:
        """Whether it evaluates `asked` over `data`."""
        return isinstance(asked, Query) and is_spark(data) and getattr(data, "isStreaming", False)

    def options(self, asked: object) -> Collection[str]:
        """Return the options that it has."""
        return StreamOptions.__annotations__.keys() if isinstance(asked, Query) else ()

    def refusal(self, asked: object, option: str) -> str:
        """Return what the error says of an option of another engine."""
        return f"with a streaming DataFrame; {allowed(self.options(asked))}"

    def run(self, asked: Any, *data: Any, **options: Any) -> Any:
        """Evaluate a query over a stream."""
        from windowkit import spark

        (df,) = data
        return spark.stream(df, asked, **options)

    def explain(self, asked: Any, *data: Any, **options: Any) -> str:
        """Describe how a query over a stream is evaluated."""
        from windowkit import spark

        (df,) = data
        return spark.explain_stream(df, asked, **options)


def allowed(options: Collection[str]) -> str:
    """Return what errors say that is allowed."""
    *others, last = options
    return f"allowed are {', '.join(others)} and {last}" if others else f"allowed is {last}"
