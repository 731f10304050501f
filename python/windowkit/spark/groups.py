"""Aggregates of groups, with the columns by which they are grouped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import col

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["aggregated"]

RETAINS: Final = "spark.sql.retainGroupColumns"
"""Whether Spark itself returns groups beside aggregates of a DataFrame; in SQL it never does."""


def aggregated(frame: DataFrame, groups: Sequence[Column | str], aggregates: Sequence[Column]) -> DataFrame:
    """Return a row for each group: the groups, then the aggregates, whatever a session says of groups."""
    retains = str(frame.sparkSession.conf.get(RETAINS, "true")).lower() == "true"
    columns = [col(each) if isinstance(each, str) else each for each in groups]
    return frame.groupBy(*columns).agg(*([] if retains else columns), *aggregates)
