"""Route "catalyst-panes": Catalyst makes slices where the rows are, one `mapInArrow` makes windows of them.

A pane lies between two neighbouring edges of all windows of a query, so that it is inside a window or outside
of it, never across (Li 2008, §6.2); of a session it is as wide as the gap, so that its rows are in one
session. Slices, not rows, cross the shuffle and enter Python, and their number does not depend on how many
windows overlap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import types as spark
from pyspark.sql.functions import expr

from windowkit.spark.groups import aggregated
from windowkit.spark.jobs import Job, identifier, result_schema, sql
from windowkit.spark.routes import shuffles, worker
from windowkit.spark.routes.catalyst import overflowing
from windowkit.spark.routes.route import Route
from windowkit.spark.routes.rows import by_key
from windowkit.spark.shipping import observed_count, shipped

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["ROUTE"]

HELD: Final = 1 << 20
"""Slices that a worker may hold at once, of some hundred bytes each; a slice has a row at least."""
BUCKETS: Final = 64
"""Of the keys of a partition that has more."""


def refusal(job: Job) -> str | None:
    if job.query.weight is not None:
        return f"slices hold rows by their weight in {identifier(job.query.weight)}, and Catalyst's do not"
    for window, traits in zip(job.query.windows, job.plan.windows, strict=True):
        if traits.needs_rows:
            return f"windows of {window} need rows in order, and panes do not keep it"
    if job.plan.timetables:
        return "Catalyst cannot cut panes where periods of a calendar begin"
    if job.plan.pane_edges is None:
        return "Catalyst cannot cut panes at single edges, as of a band, a landmark or the global window"
    if isinstance(job.type_of(job.query.time), spark.DayTimeIntervalType):
        return f"Catalyst cannot round the intervals of {identifier(job.query.time)} to panes"
    for partial in job.plan.partials:
        kind, columns = partial.kind, partial.columns
        if kind in sql.UNHELD or kind.startswith("user:"):
            what = sql.UNHELD.get(kind, kind.removeprefix("user:"))
            return f"Catalyst cannot hold {what} of {', '.join(map(identifier, columns))} in columns"
        if kind == "sum" and (reason := overflowing(job, columns[0])) is not None:
            return reason
    return None


def run(job: Job, within: tuple[str, ...] = ()) -> DataFrame:
    return in_turn(job, slices(job, within)).mapInArrow(shipped(stage_2(job)), result_schema(job))


def stage_2(job: Job) -> worker.Slices:
    """Return what makes windows of the `slices` of a job."""
    partials = held(job, internal=True)
    first = len(job.keys) + (not job.plan.has_session)
    lost = tuple(at for at, text in enumerate(partials, first) if text == sql.LOST)
    return worker.Slices(job.asked, job.schema, lost)


def in_buckets(job: Job) -> bool:
    """Whether the slices of a partition might be more than a worker is to hold.

    Sorting takes a tenth of a job whose slices are many, and saves nothing where they are few.
    """
    if not job.keys:
        return False
    # Only where there are many rows Spark is asked how many partitions there are.
    return job.most_rows > HELD and job.most_rows > HELD * shuffles.partitions(job.frame.sparkSession)


def in_turn(job: Job, placed: DataFrame) -> DataFrame:
    """Return slices in order of buckets of keys, so that a worker holds one after the other.

    Spark sorts integers, and spills as it does. The hash is another than that which partitions rows, of which
    the keys of a partition share a remainder.
    """
    if not in_buckets(job):
        return placed
    bucket = f"pmod(xxhash64({', '.join(job.keys)}), {BUCKETS})"
    return placed.selectExpr("*", f"int({bucket}) as {worker.BUCKET}").sortWithinPartitions(worker.BUCKET)


def slices(job: Job, within: tuple[str, ...] = ()) -> DataFrame:
    """Return what `stage_2` takes, by key in partitions: keys, start, with sessions the last time, partials.

    Columns of ``job.rows`` that are named `within` part slices further; stage 2 joins the parts.
    """
    frame = observed_count(job.metrics, "rows in", job.read(bounded=True))
    *others, last = panes(job, job.time)
    # Spark takes one window() per projection.
    for position, text in enumerate(others):
        frame = frame.selectExpr("*", f"{text} as p{position}")
    pane = latest([*(f"p{position}" for position in range(len(others))), last])
    computed = [text for text in held(job, internal=True) if text != sql.LOST]
    groups: list[Column | str] = [*within, *job.keys, expr(f"{pane} as pane")]
    sliced = aggregated(frame, groups, [expr(f"{sql.struct(computed)} as a")])
    times = [] if job.plan.has_session else ["pane"]
    made = sliced.selectExpr(*job.keys, *times, *(f"a.a{at}" for at in range(len(computed))))
    return by_key(job, observed_count(job.metrics, "slices", made))


def panes(job: Job, time: str) -> list[str]:
    """Return an expression per family of edges: where the pane of a row would start, were there no other."""
    kind = job.type_of(job.query.time)
    return [sql.pane(period, offset, kind, time) for period, offset in families(job)]


def families(job: Job) -> list[tuple[int, int]]:
    """Return periods and offsets of panes; a job without them is refused before."""
    return job.plan.pane_edges or []


def latest(edges: list[str]) -> str:
    """Return the last of the edges that several families have before a row."""
    return edges[0] if len(edges) == 1 else f"greatest({', '.join(edges)})"


def held(job: Job, *, internal: bool) -> list[str]:
    """Return what a slice holds besides its keys and pane, by internal or by user's names.

    With sessions that begins with its first and last time, for which its pane is too coarse.
    """

    def name(column: str) -> str:
        return job.internal(column) if internal else identifier(column)

    time = name(job.query.time)
    measure = time
    if isinstance(job.type_of(job.query.time), spark.IntegralType):
        measure = f"bigint({time})"
    texts = [f"min({measure})", f"max({measure})"] if job.plan.has_session else []
    for partial in job.plan.partials:
        types = [job.type_of(column) for column in partial.columns]
        taken = None if partial.condition is None else name(partial.condition)
        texts += sql.partial(partial.kind, types, list(map(name, partial.columns)), time, taken)
    return texts


def explain(job: Job) -> list[str]:
    query = job.query
    pane = latest(panes(job, identifier(query.time)))
    keys = ", ".join(map(identifier, query.by))
    return [
        "stage 1, in Catalyst: a slice per key and pane; no row enters Python",
        f"  group by: {keys + ', ' if keys else ''}{pane}",
        *(f"  partial: {text}" for text in held(job, internal=False) if text != sql.LOST),
        f"shuffle: slices, {f'by {keys}' if keys else 'to one partition'}",
        "stage 2, in Rust inside one mapInArrow: slices into windows, "
        + ("one bucket of keys after the other" if in_buckets(job) else "all keys of a partition at once"),
    ]


MERIT: Final = "possible, and slices instead of rows in Python"
ROUTE: Final = Route("catalyst-panes", MERIT, refusal, run, explain)
