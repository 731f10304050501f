"""Tables that are scanned, by path or by name, and what tasks read of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyarrow import fs
from pyspark.sql.types import StructType

from windowkit.errors import InvalidValue, WindowKitError
from windowkit.language.conditions import Test, Tree, nested
from windowkit.spark.jobs import Job, identifier
from windowkit.spark.parquet import filters, survey, tables
from windowkit.spark.parquet.catalog import Listing, files_of, frame_of, is_table
from windowkit.spark.parquet.filters import ALL, Filter, Filtered
from windowkit.spark.parquet.planned import Planned, changed, planned, reason_of
from windowkit.spark.routes import Scan, reading_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Given", "given"]


@dataclass(frozen=True)
class Given:
    """A table, and which of its rows are read.

    Parameters
    ----------
    table : Table
    chosen : Filtered
        By the columns of `table.frame`.
    name : str, optional
        Of the table, where no plan of Spark says what is read.
    """

    table: tables.Table
    chosen: Filtered
    name: str | None = None

    @property
    def frame(self) -> DataFrame:
        """All rows, with all columns."""
        return self.table.frame

    @property
    def has_plan(self) -> bool:
        """Whether Spark's plan of rows says what is read."""
        return self.table.source is None and self.name is None

    def scanned(
        self,
        job: Job,
        rows: DataFrame,
        names: Sequence[str],
        needed: Sequence[str] = (),
        also: Filtered = ALL,
        *,
        is_whole: bool,
        never: bool = False,
    ) -> Scan | str:
        """Return a job as one whose tasks read the files, or why Spark's reader has to.

        Parameters
        ----------
        job : Job
        rows : DataFrame
            What the job reads, of `frame`.
        names, needed : sequence of str
            What `frame` calls the columns of `rows`, and those without which a row is left out.
        also : Filtered
            What else says which rows are read.
        is_whole, never : bool
            As those of `reading_files`.

        Raises
        ------
        InvalidValue
            Spark's reader cannot be given the table.
        """
        found = self.found(rows, names, needed, also)
        chosen = found if isinstance(found, str) else self.called(found)
        if isinstance(found, str) or isinstance(chosen, str):
            made: Scan | str = str(chosen)
        else:
            if also.chosen is not None:
                chosen = chosen.also(also.chosen, also.kinds)
            try:
                made = reading_files(job, found, chosen, is_whole=is_whole, never=never)
            except WindowKitError as error:
                if not self.has_plan:
                    raise
                # What Spark makes of a damaged file is for its own reader to say.
                made = reason_of(error)
        if isinstance(made, str) and not self.table.is_sparks:
            raise survey.unread(made)
        return made

    def found(
        self, rows: DataFrame, names: Sequence[str], needed: Sequence[str], also: Filtered
    ) -> Planned | str:
        """Return the files of some columns, or why they are not known."""
        if self.has_plan:
            return planned(rows)
        listing = self.listing(also)
        if isinstance(listing, str):
            return listing
        own = self.frame.schema
        if [field.dataType for field in rows.schema] != [own[name].dataType for name in names]:
            return "a column is cast, as the other side has it in another type"
        for name in dict.fromkeys([*names, *needed, *self.chosen.kinds]):
            if (reason := changed(name, own[name].metadata)) is not None:
                return reason
        tests: list[Tree] = [Test((name,), "is not null") for name in needed]
        read = dict.fromkeys([*names, *needed])
        return Planned(
            listing.source,
            tuple(names),
            StructType([own[name] for name in read]),
            nested("and", tests) if tests else None,
            () if listing.condition is None else (listing.condition,),
            described=listing.described,
            is_sparks=self.table.is_sparks,
            has_nanos=self.table.has_nanos,
        )

    def listing(self, also: Filtered) -> Listing | str:
        """Return the files of the table, or why they are not known."""
        if self.name is not None:
            return files_of(self.frame, self.name, [self.chosen, also])
        source = self.table.source
        assert source is not None, "only of names"
        return source if isinstance(source, str) else Listing(source)

    def called(self, found: Planned) -> Filtered | str:
        """Return the filter by the names that files are known by, which a view may have changed."""
        if not self.has_plan or self.chosen.chosen is None:
            return self.chosen
        names = list(self.chosen.kinds)
        own = planned(self.frame.select(*map(identifier, names)))
        if isinstance(own, str):
            return own
        if own.names == tuple(names):
            return self.chosen
        return "the filter is of columns that the view renames"


def given(
    session: SparkSession,
    paths: str | Sequence[str],
    filter: Filter | None,  # noqa: A002  # Called as pyarrow calls it.
    filesystem: fs.FileSystem | None,
    merge_schema: bool | None,
) -> Given:
    """Find a table by its name, or by the paths of its files.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        It is not there, or the filter does not fit it.
    """
    if filesystem is not None:
        table = tables.of_pyarrow(session, paths, filesystem, merge_schema)
    elif isinstance(paths, str) and is_table(session, paths):
        if merge_schema is not None:
            raise InvalidValue(
                f"merge_schema: {merge_schema} is given, and {paths!r} is a table, which has its columns; "
                f"leave merge_schema out, or write './{paths}' for a path"
            )
        table = tables.Table(frame_of(session, paths), None, is_sparks=True, has_nanos=False)
    else:
        table = tables.of_spark(session, paths, merge_schema)
    any_case = str(session.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"
    zone = session.conf.get("spark.sql.session.timeZone")
    frame = table.frame
    chosen = filters.chosen_of(filter, filters.columns_of(frame.schema), any_case=any_case, zone=zone)
    if table.source is not None:
        return Given(table, chosen)
    if not hasattr(frame, "_jdf"):
        assert isinstance(paths, str), "a name"
        return Given(table, chosen, paths)
    # Spark's plan then says which files there are, and what views call columns.
    if (condition := chosen.condition()) is not None:
        table = replace(table, frame=frame.where(condition))
    return Given(table, filters.ALL._replace(lists=chosen.lists) if chosen.is_sql else chosen)
