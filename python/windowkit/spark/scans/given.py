"""Tables that are scanned, by path or by name, and what tasks read of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyarrow import fs
from pyspark.sql.types import StructType

from windowkit.errors import InvalidValue, WindowKitError
from windowkit.language.conditions import Test, Tree, nested
from windowkit.spark.jobs import Job, identifier
from windowkit.spark.parquet import catalog, filters, survey, tables
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
    """

    table: tables.Table
    chosen: Filtered

    @property
    def frame(self) -> DataFrame:
        """All rows, with all columns."""
        return self.table.frame

    @property
    def has_plan(self) -> bool:
        """Whether Spark's plan of rows says what is read."""
        return self.table.source is None

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
        found = self.found(rows, names, needed)
        if isinstance(found, str):
            return found
        chosen = self.called(found)
        if isinstance(chosen, str):
            return chosen
        if also.chosen is not None:
            chosen = chosen.also(also.chosen, also.kinds)
        try:
            made = reading_files(job, found, chosen, is_whole=is_whole, never=never)
        except WindowKitError as error:
            if not self.has_plan:
                raise
            # What Spark makes of a damaged file is for its own reader to say.
            return reason_of(error)
        if isinstance(made, str) and not self.table.is_sparks:
            raise survey.unread(made)
        return made

    def found(self, rows: DataFrame, names: Sequence[str], needed: Sequence[str]) -> Planned | str:
        """Return the files of some columns, or why they are not known."""
        source = self.table.source
        if source is None:
            return planned(rows)
        if isinstance(source, str):
            return source
        own = self.frame.schema
        if [field.dataType for field in rows.schema] != [own[name].dataType for name in names]:
            return "a column is cast, as the other side has it in another type"
        for name in dict.fromkeys([*names, *needed, *self.chosen.kinds]):
            if (reason := changed(name, own[name].metadata)) is not None:
                return reason
        tests: list[Tree] = [Test((name,), "is not null") for name in needed]
        read = dict.fromkeys([*names, *needed])
        return Planned(
            source,
            tuple(names),
            StructType([own[name] for name in read]),
            nested("and", tests) if tests else None,
            is_sparks=self.table.is_sparks,
            has_nanos=self.table.has_nanos,
        )

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
    elif isinstance(paths, str) and catalog.is_table(session, paths):
        if merge_schema is not None:
            raise InvalidValue(
                f"merge_schema: {merge_schema} is given, and {paths!r} is a table, which has its columns; "
                f"leave merge_schema out, or write './{paths}' for a path"
            )
        table = catalog.of_name(session, paths)
    else:
        table = tables.of_spark(session, paths, merge_schema)
    any_case = str(session.conf.get("spark.sql.caseSensitive", "false")).lower() != "true"
    zone = session.conf.get("spark.sql.session.timeZone")
    columns = filters.columns_of(table.frame.schema)
    return Given(table, filters.chosen_of(filter, columns, any_case=any_case, zone=zone))
