"""Rows without their duplicates; bound to no data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from windowkit import engines
from windowkit.checks import checked_name, distinct_names
from windowkit.durations import Duration, Length
from windowkit.join import reach
from windowkit.query import LATE_LIMIT

if TYPE_CHECKING:
    from windowkit.distinct_stream import DistinctOperator

__all__ = ["Distinct", "distinct"]


@dataclass(frozen=True)
class Distinct:
    """A removal of duplicates, to be run on any data; made by `distinct`.

    A plain value: frozen, hashable, picklable, and bound to no data and no engine.

    Parameters
    ----------
    by : tuple of str
        The columns in which duplicates are equal.
    time : str
        The time column.
    within : Duration or int
        How long after a row another one is its duplicate.
    """

    by: tuple[str, ...]
    time: str
    within: Duration | int

    def run(
        self,
        data: Any,
        threads: int | None = None,
        *,
        validate: bool | None = None,
        result: str | None = None,
    ) -> Any:
        """Return the rows of a table that are not duplicates.

        Parameters
        ----------
        data : object with ``__arrow_c_stream__`` or ``__arrow_c_array__``
            As for `windowkit.Query.run`. Rows need no order.
        threads, validate, result
            As for `windowkit.Rolling.run`.

        Returns
        -------
        pyarrow.Table, pandas.DataFrame or polars.DataFrame
            The rows that are no duplicates, with all their columns, in the order of the data. Columns of
            pandas and Polars stay as they are, and so does the index.

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            The data is not Arrow data, or malformed, or a Spark DataFrame, or it does not have the columns,
            or `within` does not fit the time column.
        Overflow
            A time is at the limits of 64 bits.

        Notes
        -----
        One sort by key and time, none where a key's rows are in order.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> table = pa.table({"id": ["a", "b", "a", "a"], "t": [8, 9, 3, 30]})
        >>> wk.distinct("id", time="t", within=10).run(table).to_pylist()
        [{'id': 'b', 't': 9}, {'id': 'a', 't': 3}, {'id': 'a', 't': 30}]
        """
        return engines.evaluate("distinct", self, data, threads=threads, validate=validate, result=result)

    def operator(self, schema: Any, *, late_limit: int | None = LATE_LIMIT) -> DistinctOperator:
        """Remove the duplicates of a stream, whose rows come in any order.

        Parameters
        ----------
        schema : pyarrow.Schema, object with ``__arrow_c_schema__``, or data as for `run`
            The schema of rows; data is not read.
        late_limit : int, optional
            How many late rows are held until they are taken; any number if None.

        Returns
        -------
        DistinctOperator

        Raises
        ------
        UnknownColumn, InvalidType, InvalidValue
            As `run`.

        Examples
        --------
        >>> import pyarrow as pa
        >>> import windowkit as wk
        >>> schema = pa.schema({"id": pa.string(), "t": pa.int64()})
        >>> op = wk.distinct("id", time="t", within=10).operator(schema)
        >>> op.push(pa.table({"id": ["a", "a"], "t": [8, 3]})).num_rows
        0
        >>> op.advance(9).to_pylist()
        [{'id': 'a', 't': 3}]
        """
        operator: DistinctOperator = engines.find("distinct_operator")(self, schema, late_limit=late_limit)
        return operator


def distinct(by: str | Sequence[str], *, time: str, within: Length) -> Distinct:
    """Describe a removal of duplicates: of equal rows that are close in time, the first is kept.

    A row is a duplicate if another row that is equal in `by` is at most `within` before it in time; of equal
    rows of one time, all but the first to come are duplicates. A row may be the duplicate of a duplicate,
    too: of rows that follow each other at distances of up to `within`, only the first is left, however many
    there are. Which times these have does not depend on the order in which rows come.

    Parameters
    ----------
    by : str or sequence of str
        The columns in which duplicates are equal, as keys of queries are: nulls are equal, NaN equals NaN,
        and 0.0 equals -0.0. ``[]`` for all rows.
    time : str
        The time column: timestamps of any unit and zone, dates, durations or integers. A row without time
        is no duplicate.
    within : length
        A duration such as ``"10 minutes"``, or an integer if times are; 0 or more.

    Returns
    -------
    Distinct

    Raises
    ------
    InvalidType, InvalidValue
        An argument has the wrong type, a name is given twice, or the length is negative, a number of rows or
        of months.

    Examples
    --------
    >>> import windowkit as wk
    >>> wk.distinct("id", time="ts", within="10 minutes")
    Distinct(by=('id',), time='ts', within=Duration('10 minutes'))
    """
    return Distinct(distinct_names("by", by), checked_name("time", time), reach(within))
