"""Rows that are packed as they are: those of one DataFrame, or of each side of a join, or labels and events.

Tasks read the files of a DataFrame that is a read of Parquet files; of any other, Spark hands its rows over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from windowkit.errors import InvalidValue
from windowkit.language.checks import one_of
from windowkit.spark.jobs import Job, identifier
from windowkit.spark.routes import packed, scan, stages
from windowkit.spark.routes.blocks import PackBlocks
from windowkit.spark.shipping import Metrics, shipped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Operation", "Rows", "Side", "side"]

ROUTES: Final = (scan.ROUTE.name, packed.ROUTE.name)


@dataclass(frozen=True)
class Rows:
    """Rows of a DataFrame that are packed.

    Parameters
    ----------
    name : str
        What errors call the DataFrame, if there are several.
    frame : DataFrame
        The rows, with the columns of the schema of `job`, in that order.
    job : Job
    needed : tuple of str
        Of these columns, those without which a row is left out.
    """

    name: str
    frame: DataFrame
    job: Job
    needed: tuple[str, ...] = ()

    def own(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return what the DataFrame calls some columns of the schema."""
        names, positions = self.job.frame.columns, self.job.positions
        return tuple(names[positions[column]] if column in positions else column for column in columns)


@dataclass(frozen=True)
class Side:
    """Rows, and who reads them.

    Parameters
    ----------
    rows : Rows
    files : Scan or str
        With which tasks read them, or why Spark does.
    """

    rows: Rows
    files: scan.Scan | str

    def chunks(self, pack: stages.Pack | PackBlocks, what: str) -> DataFrame:
        """Return the rows in chunks; errors call what they are part of `what`."""
        if isinstance(self.files, scan.Scan):
            return self.files.uncounted(what, pack)
        return self.rows.frame.mapInArrow(shipped(pack, what), packed.CHUNKS)

    def described(self, of: str = "", less: str = "") -> list[str]:
        """Describe stage 1: of which side it is, and which rows Spark leaves out."""
        if isinstance(self.files, scan.Scan):
            return [*self.files.described(of), "  rows are packed with all their columns"]
        columns = ", ".join(map(identifier, self.rows.job.schema.names))
        return [
            f"stage 1{of}, inside one mapInArrow: rows of {columns} are packed{less}",
            f"  not read from files by tasks, as {self.files}",
        ]


@dataclass(frozen=True)
class Operation:
    """What is done with packed rows, of one DataFrame or two: checked, and ready to run.

    Parameters
    ----------
    rows : tuple of Rows
    run : callable
        Returns the result, lazily, of the sides that these rows became, and counts with metrics if any.
    explain : callable
        Returns lines that say how, of the same sides.
    """

    rows: tuple[Rows, ...]
    run: Callable[[Sequence[Side], Metrics | None], DataFrame]
    explain: Callable[[Sequence[Side]], list[str]]

    def sides(self, route: str | None) -> list[Side]:
        """Return the rows as `side` does."""
        return [side(rows, route) for rows in self.rows]


def side(rows: Rows, route: str | None = None, *, instead: str | None = None) -> Side:
    """Return rows, read from files where that pays, or as a route says.

    Starts no Spark job, but for those by which Delta and Iceberg find files.

    Parameters
    ----------
    rows : Rows
    route : str, optional
        ``"scan"`` or ``"packed"``.
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
    elif route is None and rows.job.most_rows < scan.FROM:
        files = "there are few rows"
    else:
        files = scan.of_files(rows.job, rows.frame)
    if route == scan.ROUTE.name and isinstance(files, str):
        of = f" of {rows.name}" if rows.name else ""
        raise InvalidValue(
            f"route: {route!r} is given, and tasks cannot read the files{of} themselves, as {files}; allowed "
            f"is {packed.ROUTE.name!r}, or None for whatever is possible"
        )
    return Side(rows, files)
