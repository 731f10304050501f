"""What settings of a session make of a Parquet file that is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa

from windowkit.directories import Inference
from windowkit.errors import InvalidType, InvalidValue
from windowkit.spark.instants import CONVERSION, Reading, leaves
from windowkit.spark.kinds import Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_settings", "inference", "is_set", "reading"]


def is_set(session: SparkSession, name: str, default: str) -> bool:
    """Whether a setting of the session is true."""
    return str(session.conf.get(name, default)).lower() == "true"


def inference(session: SparkSession) -> Inference:
    """Return how the session types what directories say."""
    return Inference(
        is_set(session, "spark.sql.sources.partitionColumnTypeInference.enabled", "true"),
        session.conf.get("spark.sql.session.timeZone"),
        session.conf.get("spark.sql.timestampType", "TIMESTAMP_LTZ") != "TIMESTAMP_NTZ",
        not is_set(session, "spark.sql.caseSensitive", "false"),
    )


def reading(session: SparkSession) -> Reading:
    """Return what settings of a session say of times in files."""

    def old(setting: str) -> bool:
        return str(session.conf.get(f"spark.sql.parquet.{setting}", "CORRECTED")).upper() != "CORRECTED"

    int96 = None
    if not is_set(session, "spark.sql.parquet.int96AsTimestamp", "true"):
        int96 = "spark.sql.parquet.int96AsTimestamp=false"
    elif is_set(session, CONVERSION, "false"):
        int96 = CONVERSION
    return Reading(old("datetimeRebaseModeInRead"), old("int96RebaseModeInRead"), int96)


def kinds_in(kind: pa.DataType) -> set[pa.DataType]:
    """Return the types that a type is made of, within structs, lists and maps."""
    return {leaf.type for leaf in leaves(pa.array([], kind))}


def check_settings(
    session: SparkSession,
    read: dict[str, pa.DataType],
    columns: dict[str, Kind],
    numbered: Iterator[set[str]],
) -> None:
    """Refuse settings by which Spark reads columns in another way than `scan` does.

    `numbered` are the columns of files that have numbers, read where a setting asks for them.
    """

    def refuse(setting: str, what: str) -> None:
        raise InvalidValue(f"query: spark.sql.{setting} is true, and {what}")

    has_binary = any(pa.binary() in kinds_in(kind) for kind in read.values())
    if has_binary and is_set(session, "spark.sql.parquet.binaryAsString", "false"):
        refuse("parquet.binaryAsString", "a column is binary; scan takes binary for what it is")
    is_fine = [name for name in read if "timestamp[ns" in str(columns[name])]
    if is_fine and is_set(session, "spark.sql.legacy.parquet.nanosAsLong", "false"):
        refuse(
            "legacy.parquet.nanosAsLong",
            f"column {is_fine[0]!r} is {columns[is_fine[0]]}; scan takes such for times",
        )
    if is_set(session, "spark.sql.parquet.fieldId.read.enabled", "false"):
        given = sorted(set(read) & set().union(*numbered))
        if given:
            refuse(
                "parquet.fieldId.read.enabled",
                f"column {given[0]!r} has a number in files; scan finds columns by their names",
            )
    times = [name for name, kind in read.items() if pa.time64("ns") in kinds_in(kind)]
    if times and not is_set(session, "spark.sql.timeType.enabled", "false"):
        raise InvalidType(
            f"query: column {times[0]!r} is {columns[times[0]]}, which Spark reads only where "
            "spark.sql.timeType.enabled is true; set it, or read the files with pyarrow and query.run(table)"
        )
