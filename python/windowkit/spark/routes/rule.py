"""The rule that chooses a route, from what is known before a job runs.

1. Rows are in Parquet files that tasks can read, and are many: ``scan``. They come into Python several times
   as fast from files as from the JVM.
2. One tumbling window, or sessions with a column of gaps, that Spark answers itself: ``catalyst``. Nothing is
   shared between windows, so that there is no stage 2.
3. Catalyst holds the partial aggregates, and a slice has `PANES_FROM` rows or more: ``catalyst-panes``. No
   row enters Python, and combining before the shuffle leaves few slices.
4. All else: ``packed``. Rows enter Python, and slices move packed, or rows where those are hardly more or
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
from windowkit.spark.routes import catalyst, packed, panes, rows, scan
from windowkit.spark.routes.route import Route

__all__ = [
    "DEFAULT_ROWS",
    "PANES_FROM",
    "ROUTES",
    "Choice",
    "Expected",
    "Refusals",
    "choose",
    "depends",
    "expected",
    "merit",
]

ROUTES: Final = (scan.ROUTE, catalyst.ROUTE, panes.ROUTE, packed.ROUTE, rows.ROUTE)

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
class Refusals:
    """Why routes cannot evaluate a job, or the job as they take it: each is asked once, when it matters."""

    job: Job
    by_route: dict[str, Job | str]

    @classmethod
    def of(cls, job: Job) -> Refusals:
        """Return those of a job."""
        return cls(job, {})

    def fitted(self, route: Route) -> Job | str:
        """Return the job as a route takes it, or why it cannot evaluate it."""
        if route.name not in self.by_route:
            self.by_route[route.name] = route.fitted(self.job)
        return self.by_route[route.name]

    def __getitem__(self, route: Route) -> str | None:
        found = self.fitted(route)
        return found if isinstance(found, str) else None


@dataclass(frozen=True)
class Choice:
    """A route, the rule that chose it, and why others cannot evaluate the job."""

    route: Route
    why: str
    expected: Expected
    refusals: Refusals

    @property
    def job(self) -> Job:
        """The job as the route takes it."""
        found = self.refusals.fitted(self.route)
        assert isinstance(found, Job), "a route that refuses is not chosen"
        return found


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


def depends(refusals: Refusals, requested: str | None, rows_per_slice: float | None) -> bool:
    """Whether the route depends on how many rows slices have, and nobody said that."""
    given = requested is not None or rows_per_slice is not None
    return (
        not given
        and refusals[catalyst.ROUTE] is not None
        and refusals[panes.ROUTE] is None
        and not is_read(refusals)
    )


def read_from(refusals: Refusals) -> int:
    """Return from how many rows on tasks had better read the files of a job."""
    return scan.FROM if refusals[catalyst.ROUTE] else scan.FROM_OF_SPARKS


def is_read(refusals: Refusals) -> bool:
    """Whether files are read by tasks, of which there have to be enough rows."""
    return refusals.job.most_rows >= read_from(refusals) and refusals[scan.ROUTE] is None


def merit(refusals: Refusals, other: Route) -> str:
    """Return when to prefer a route that is possible, and was not taken."""
    if other is not scan.ROUTE or is_read(refusals):
        return other.merit
    return (
        f"{other.merit}, which pays from about {read_from(refusals):,} rows on; there are about "
        f"{refusals.job.most_rows:,.0f}, as Spark estimates"
    )


def choose(refusals: Refusals, requested: str | None, expects: Expected) -> Choice:
    """Return the route to take: the requested one, or else that of the rule.

    Raises
    ------
    InvalidType, InvalidValue
        `requested` is not a route, or refuses the job.
    """
    route, why = ruled(refusals, expects) if requested is None else (named(refusals, requested), "requested")
    return Choice(route, f"as {why}", expects, refusals)


def ruled(refusals: Refusals, expects: Expected) -> tuple[Route, str]:
    """Return the route of the rule, and why it is that."""
    if is_read(refusals):
        return scan.ROUTE, "rows are in Parquet files"
    if refusals[catalyst.ROUTE] is None:
        is_session = refusals.job.query.windows[0].is_session
        what = "sessions with a column of gaps" if is_session else "one tumbling window"
        return catalyst.ROUTE, f"Spark answers {what} itself"
    held = refusals[panes.ROUTE]
    if held is None and expects.rows_per_slice >= PANES_FROM:
        return panes.ROUTE, (
            f"Catalyst holds the partial aggregates, and slices of at least {PANES_FROM:g} rows are expected"
        )
    return packed.ROUTE, held or f"slices of fewer than {PANES_FROM:g} rows are expected"


def named(refusals: Refusals, requested: str) -> Route:
    """Return the route of a name, unless it refuses the job."""
    routes = {route.name: route for route in ROUTES}
    route = routes[one_of("route", requested, tuple(routes))]
    if (reason := refusals[route]) is not None:
        names = ", ".join(repr(other.name) for other in ROUTES if refusals[other] is None)
        raise InvalidValue(
            f"route: {requested!r} cannot evaluate the query, as {reason}; allowed are {names}"
        )
    return route
