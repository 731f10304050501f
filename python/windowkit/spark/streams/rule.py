"""The rule that chooses between operators and Spark's own aggregation for a stream.

1. What Spark's aggregation does not compute, or what only operators have, such as an allowed lateness:
   ``operator``.
2. The session keeps state in a store that only Spark's aggregation supports: ``catalyst``.
3. State of a fixed size per window: ``catalyst``. No row enters Python, and a batch costs no more than
   Spark's own. A state of all values is read and written whole by Spark in each batch, so that it is left
   to operators, which append to theirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from windowkit.errors import InvalidValue
from windowkit.language.checks import one_of
from windowkit.spark.jobs import Job, identifier, sql
from windowkit.spark.routes import catalyst

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["CATALYST", "OPERATOR", "PROVIDER", "STORE", "Choice", "choose", "store_of"]

CATALYST: Final = "catalyst"
OPERATOR: Final = "operator"
STORE: Final = "spark.sql.streaming.stateStore.providerClass"
PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class Choice(NamedTuple):
    """A route of a stream, and why it is taken."""

    route: str
    why: str


def choose(job: Job, mode: str, requested: str | None, options: dict[str, object]) -> Choice:
    """Return the route that is requested, or else that of the rule.

    Parameters
    ----------
    job : Job
    mode : {"append", "update"}
    requested : str or None
    options : dict of str to object
        Those that only operators have; what was not given is None or False.

    Raises
    ------
    InvalidType, InvalidValue
        `requested` is not a route, or does not compute the query with these options.
    """
    if requested is None:
        return ruled(job, mode, options)
    if one_of("route", requested, (CATALYST, OPERATOR)) == CATALYST:
        for name, value in given(options).items():
            raise InvalidValue(
                f"{name}: {value!r} is given with route='catalyst', Spark's own aggregation, which has none; "
                "leave out the route"
            )
        if (reason := catalyst.stream_refusal(job, mode)) is not None:
            raise InvalidValue(f"route: 'catalyst' cannot evaluate the query over a stream: {reason}")
    return Choice(requested, "it is requested")


def ruled(job: Job, mode: str, options: dict[str, object]) -> Choice:
    for name, value in given(options).items():
        return Choice(OPERATOR, f"Spark's own aggregation does not have {name}={value!r}")
    reason = catalyst.stream_refusal(job, mode)
    if reason is not None:
        return Choice(OPERATOR, reason)
    store = store_of(job.frame)
    if "HDFSBacked" in store:
        return Choice(CATALYST, f"operators keep no state in {store.rpartition('.')[2]}")
    for partial in job.plan.partials:
        if (what := sql.UNHELD.get(partial.kind)) is not None:
            columns = ", ".join(map(identifier, partial.columns))
            return Choice(OPERATOR, f"Spark would read and write {what} of {columns} whole in each batch")
    what = "sessions" if job.query.windows[0].is_session else "one tumbling window"
    return Choice(CATALYST, f"Spark answers {what} itself")


def given(options: dict[str, object]) -> dict[str, object]:
    """Return the options that are given."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


def store_of(frame: DataFrame) -> str:
    """Return the class that keeps state in a DataFrame's session."""
    # Without a default given here, this is Spark's own where the session sets none.
    return frame.sparkSession.conf.get(STORE) or ""
