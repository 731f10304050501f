"""Which queries can be answered from a sample of their keys or rows."""

from __future__ import annotations

from typing import Final

from windowkit.errors import InvalidValue
from windowkit.language.query import Query
from windowkit.language.shedding import Shed, checked_shed

__all__ = ["refuse"]

ESTIMATED: Final = ("count_all", "count", "sum", "mean")
"""What the core calls the functions that have an unbiased estimate."""


def refuse(shed: Shed | None, query: Query) -> None:
    """Refuse a query that cannot be answered from a sample; the core does so again, once it knows the schema.

    Raises
    ------
    InvalidType, InvalidValue
        It has no keys, a function without an estimate, weights, or results that are retracted.
    """
    limit = checked_shed(shed)
    if limit is None:
        return
    if query.emit is not None and query.emit.refinement == "retracting":
        raise InvalidValue(
            "shed: it is given with refinement='retracting'; early results of what is dropped would never be "
            "retracted, so allowed are 'accumulating' and 'discarding'"
        )
    if limit.keep == "keys":
        if not query.by:
            raise InvalidValue(
                "shed: keep='keys' is given for a query without keys (by=[]); allowed are queries with keys, "
                "and keep='rows'"
            )
        return
    for agg in query.aggs:
        if agg.user is not None or agg.function not in ESTIMATED:
            raise InvalidValue(
                f"shed: keep='rows' is given, and {agg.name} has no unbiased estimate from a sample of the "
                "rows; allowed are count, sum and mean, and keep='keys', with which all functions are exact"
            )
    if query.weight is not None:
        raise InvalidValue(
            f"shed: keep='rows' is given for a query with weight={query.weight!r}; a row and the one that "
            "retracts it would not be dropped together. Allowed is keep='keys'"
        )
