"""The rule that chooses a route, from what is known before a job runs.

1. One tumbling window, or sessions with a column of gaps, that Spark answers itself: ``catalyst``. Nothing is
   shared between windows, so that there is no stage 2.
2. Catalyst holds the partial aggregates, and a slice has `PANES_FROM` rows or more: ``catalyst-panes``. No
   row enters Python, and combining before the shuffle leaves few slices.
3. All else: ``packed``. Rows enter Python, and slices move packed, or rows where those are hardly more or
   where windows need them.

Route ``rows`` is only taken on request: its rows enter Python once, and its memory is a partition.

How many rows a slice has is the caller's hint, or follows from statistics of the source or a sample of
its rows, or else is `DEFAULT_ROWS`: to take route ``packed`` wrongly was measured to cost more than to take
the other wrongly. Within a job of route ``packed`` what is observed decides whether slices are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Final

from windowkit.errors import InvalidValue
from windowkit.language.checks import number, one_of
from windowkit.spark.jobs import Job
from windowkit.spark.routes import catalyst, packed, panes, rows
from windowkit.spark.routes.route import Route

__all__ = ["DEFAULT_ROWS", "PANES_FROM", "ROUTES", "Choice", "Expected", "choose", "depends", "expected"]

ROUTES: Final = (catalyst.ROUTE, panes.ROUTE, packed.ROUTE, rows.ROUTE)

PANES_FROM: Final = 4.0
"""Rows per slice from which Catalyst's slices are expected to be the cheaper ones: in
docs/benchmarks/spark.md slices of 3.1 rows come sooner by route ``packed``, slices of 5.9 rows by Catalyst,
and none lie between."""

DEFAULT_ROWS: Final = 8.0
"""Rows per slice that are expected of a source without statistics."""


@dataclass(frozen=True)
class Expected:
    """How many rows a slice is expected to have, and who says so.

    Parameters
    ----------
    rows_per_slice : float
    source : str
        Of `explain`: "as rows_per_slice says", for instance.
    """

    rows_per_slice: float
    source: str

    def __str__(self) -> str:
        return f"{self.rows_per_slice:,.4g} rows per slice, {self.source}"


@dataclass(frozen=True)
class Choice:
    """A route, and the rule that chose it."""

    route: Route
    why: str
    expected: Expected


def expected(rows_per_slice: float | None, known: Expected | str | None = None) -> Expected:
    """Return what is expected: the hint, else what is known of the source, else the default.

    Of what is not known, `known` may say why.

    Raises
    ------
    InvalidType, InvalidValue
        The hint is not a number, or is below 1.
    """
    if rows_per_slice is None:
        if isinstance(known, Expected):
            return known
        return Expected(DEFAULT_ROWS, f"the default, as {known or 'nothing is known of the source'}")
    hint = number("rows_per_slice", rows_per_slice, "it is a number of at least 1, or None", 1, inf)
    return Expected(hint, "as rows_per_slice says")


def depends(job: Job, requested: str | None, rows_per_slice: float | None) -> bool:
    """Whether the route depends on how many rows slices have, and nobody said that."""
    given = requested is not None or rows_per_slice is not None
    return not given and catalyst.ROUTE.refusal(job) is not None and panes.ROUTE.refusal(job) is None


def choose(job: Job, requested: str | None, expects: Expected) -> Choice:
    """Return the route to take: the requested one, or else that of the rule.

    Raises
    ------
    InvalidType, InvalidValue
        `requested` is not a route, or refuses the job.
    """
    if requested is not None:
        return Choice(named(job, requested), "as requested", expects)
    if catalyst.ROUTE.refusal(job) is None:
        what = "sessions with a column of gaps" if job.query.windows[0].is_session else "one tumbling window"
        return Choice(catalyst.ROUTE, f"as Spark answers {what} itself", expects)
    held = panes.ROUTE.refusal(job)
    if held is None and expects.rows_per_slice >= PANES_FROM:
        return Choice(
            panes.ROUTE,
            "as Catalyst holds the partial aggregates, and slices of at least "
            f"{PANES_FROM:g} rows are expected",
            expects,
        )
    why = held or f"slices of fewer than {PANES_FROM:g} rows are expected"
    return Choice(packed.ROUTE, f"as {why}", expects)


def named(job: Job, requested: str) -> Route:
    routes = {route.name: route for route in ROUTES}
    route = routes[one_of("route", requested, tuple(routes))]
    reason = route.refusal(job)
    if reason is not None:
        names = ", ".join(repr(other.name) for other in ROUTES if other.refusal(job) is None)
        raise InvalidValue(
            f"route: {requested!r} cannot evaluate the query, as {reason}; allowed are {names}"
        )
    return route
