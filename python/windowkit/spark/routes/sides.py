"""Rows that are packed as they are: those of one DataFrame, or of each side of a join, or labels and events.

Tasks read the files of a DataFrame that is a read of Parquet files; of any other, Spark hands its rows over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from windowkit.errors import InvalidValue
from windowkit.language.checks import one_of
from windowkit.spark.jobs import Job, identifier
from windowkit.spark.routes import packed, scan, stages
from windowkit.spark.routes.blocks import PackBlocks
from windowkit.spark.shipping import shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Side", "side", "sides"]

ROUTES: Final = (scan.ROUTE.name, packed.ROUTE.name)


@dataclass(frozen=True)
class Side:
    """Rows, and who reads them.

    Parameters
    ----------
    rows : DataFrame
        All that are packed, with the columns of the schema of `job`, in that order.
    job : Job
    files : Scan or str
        With which tasks read them, or why Spark does.
    """

    rows: DataFrame
    job: Job
    files: scan.Scan | str

    def chunks(self, pack: stages.Pack | PackBlocks, what: str) -> DataFrame:
        """Return the rows in chunks; errors call what they are part of `what`."""
        if isinstance(self.files, scan.Scan):
            return self.files.uncounted(what, pack)
        return self.rows.mapInArrow(shipped(pack, what), packed.CHUNKS)

    def described(self, of: str = "", less: str = "") -> list[str]:
        """Describe stage 1: of which side it is, and which rows Spark leaves out."""
        if isinstance(self.files, scan.Scan):
            return [*self.files.described(of), "  rows are packed with all their columns"]
        columns = ", ".join(map(identifier, self.job.schema.names))
        return [
            f"stage 1{of}, inside one mapInArrow: rows of {columns} are packed{less}",
            f"  not read from files by tasks, as {self.files}",
        ]


def side(
    rows: DataFrame, job: Job, route: str | None = None, *, of: str = "", instead: str | None = None
) -> Side:
    """Return rows, read from files where that pays, or as a route says; starts no Spark job.

    Parameters
    ----------
    rows, job
        As those of `Side`.
    route : str, optional
        ``"scan"`` or ``"packed"``.
    of : str
        Of which DataFrame they are, for errors.
    instead : str, optional
        Why Spark has to read them in any case.

    Raises
    ------
    InvalidType, InvalidValue
        There is no such route, or tasks are to read files by it, and cannot.
    """
    if route is not None:
        one_of("route", route, ROUTES)
    files: scan.Scan | str
    if instead is not None:
        files = instead
    elif route == packed.ROUTE.name:
        files = f"the route {route!r} was requested"
    elif route is None and job.most_rows < scan.FROM:
        files = "there are few rows"
    else:
        files = scan.of_files(job, rows)
    if route == scan.ROUTE.name and isinstance(files, str):
        raise InvalidValue(
            f"route: {route!r} is given, and tasks cannot read the files{of} themselves, as {files}; allowed "
            f"is {packed.ROUTE.name!r}, or None for whatever is possible"
        )
    return Side(rows, job, files)


def sides(
    names: Sequence[str], rows: Sequence[DataFrame], jobs: Sequence[Job], route: str | None
) -> list[Side]:
    """Return the rows of several DataFrames, which errors call by these names, as `side` does of one."""
    every = zip(names, rows, jobs, strict=True)
    return [side(own, job, route, of=f" of {name}") for name, own, job in every]
