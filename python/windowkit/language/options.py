"""The options of each engine, and what is said of one that the engine of some data does not have.

They have one home: type checkers, editors and the engines read it here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from windowkit.errors import InvalidValue
from windowkit.language.checks import allowed_options, as_given, no_option
from windowkit.language.durations import Length
from windowkit.language.expressions import Expression

if TYPE_CHECKING:
    from windowkit.language.engine import Asked, Call, Engine

__all__ = [
    "Conditioned",
    "Counted",
    "Cut",
    "CutByTime",
    "CutByTimePlan",
    "CutPlan",
    "InProcessOptions",
    "LocalOptions",
]
__all__ += [
    "QueryPlan",
    "Routed",
    "RoutedAndCounted",
    "SparkOptions",
    "SparkPlan",
    "StreamOptions",
    "checked",
]

Form = Literal["pyarrow", "pandas", "polars", "polars-lazy", "duckdb", "ibis"]


class LocalOptions(TypedDict, total=False):
    """What the engine of this process takes, beside `threads` and `result`."""

    validate: bool | None
    # Of queries alone, as the engine says: in types, all values of the language share this.
    where: str | Expression | None


class InProcessOptions(LocalOptions, total=False):
    """All that the engine of this process takes."""

    threads: int | None
    result: Form | None


class Counted(TypedDict, total=False):
    """What Spark takes for whatever it evaluates."""

    metrics: Any


class Conditioned(TypedDict, total=False):
    """What every engine takes for a query."""

    where: str | Expression | None


class SparkPlan(Conditioned, total=False):
    """What Spark plans a query over a batch by."""

    route: str | None
    rows_per_slice: float | None
    partitioner: Any
    n: int | None


class SparkOptions(SparkPlan, Counted, total=False):
    """What Spark takes for a query over a batch."""


class StreamOptions(Conditioned, total=False):
    """What Spark takes for a query over a stream."""

    output_mode: str | None
    allowed_lateness: Length | None
    buckets: int | None
    metrics_name: str | None
    late_rows: bool | None
    route: str | None


class QueryPlan(SparkPlan, StreamOptions, total=False):
    """What Spark plans a query by, of which a type does not tell batches from streams."""


class Routed(TypedDict, total=False):
    """What Spark plans by whatever packs rows as they are."""

    route: str | None


class RoutedAndCounted(Routed, Counted, total=False):
    """What Spark takes for a removal of duplicates."""


class CutPlan(Routed, total=False):
    """What Spark plans rolling aggregates by."""

    split: bool | None


class Cut(CutPlan, Counted, total=False):
    """What Spark takes for rolling aggregates."""


class CutByTimePlan(Routed, total=False):
    """What Spark plans joins and labels by."""

    split: Length | None


class CutByTime(CutByTimePlan, Counted, total=False):
    """What Spark takes for joins and labels."""


def checked(
    engines: Sequence[Engine], engine: Engine, call: Call, asked: Asked, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the options that are not None, all of which the engine has for this call.

    Raises
    ------
    InvalidType
        No engine has one of them.
    InvalidValue
        Others have it, or `run` does, and this is `explain`.
    """
    own = engine.options(call, asked)
    having = {other.data: other.options(call, asked) for other in reversed(engines)}
    for name, value in options.items():
        if name in own:
            continue
        others = [data for data, known in having.items() if name in known]
        of_run = call == "explain" and any(name in each.options("run", asked) for each in engines)
        if not others and not of_run:
            raise no_option(name, dict.fromkeys(chain(*having.values())), own)
        if value is not None:
            reason = engine.instead.get(name, f"only {' and '.join(others)} have it")
            given, reason = (engine.given, reason) if others else ("to explain", "only run has it")
            raise InvalidValue(f"{name}: {as_given(value)} is given {given}; {reason}{allowed_options(own)}")
    return {name: value for name, value in options.items() if value is not None}
