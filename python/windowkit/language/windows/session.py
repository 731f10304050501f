"""Windows of activity."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import pyarrow as pa

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.arguments import hinted
from windowkit.language.checks import as_given
from windowkit.language.durations import Length, Measure
from windowkit.language.expressions import Column, is_computed
from windowkit.language.expressions import column as named
from windowkit.language.windows.base import (
    Assembly,
    Window,
    optional_length,
    require_no_rows,
    require_positive,
    require_same_kind,
    shown,
    units,
)
from windowkit.language.windows.grammar import bare, unquoted


@dataclass(frozen=True, repr=False)
class Session(Window):
    """Windows that end once no row has come for a gap; see `session`."""

    kind: ClassVar[str] = "session"
    gap: Measure | None
    column: str | None = None
    at_most: Measure | None = None

    def __post_init__(self) -> None:
        if (self.gap is None) == (self.column is None):
            raise InvalidValue(
                f"gap: {as_given(self.gap)} and column {as_given(self.column)} are given; give a gap, or the "
                "column of gaps"
            )
        if self.gap is not None:
            require_no_rows("gap", self.gap)
            require_positive("gap", self.gap)
        else:
            # An expression was checked as it was made.
            object.__setattr__(self, "column", named("column", self.column))  # type: ignore[arg-type]
        if self.at_most is None:
            return
        require_no_rows("at_most", self.at_most)
        require_positive("at_most", self.at_most)
        if self.gap is not None:
            require_same_kind("at_most", self.at_most, "gap", self.gap)
            if units(self.at_most) < units(self.gap):
                raise InvalidValue(
                    f"at_most: {shown(self.at_most)} is less than gap {shown(self.gap)}; a session "
                    "is at least as long as its gap"
                )

    def arguments(self) -> Iterable[str]:
        """Return the arguments of the text form."""
        yield bare(self.column) if self.column is not None else str(self.gap)
        if self.at_most is not None:
            yield f"at_most={self.at_most}"

    @property
    def merges(self) -> bool:
        """Whether fragments of sessions merge, so that no rows are needed."""
        return self.column is None and self.at_most is None

    def character(self, context: str) -> str:
        """Describe how many windows a row is in, or which rows are in one."""
        if self.merges:
            return "context aware, but its fragments merge, so that no rows are stored"
        if self.column is None:
            return f"{context}; where a long one is cut depends on its first row"
        return f"{context}; each row has its own gap, and a row without one is dropped"

    @property
    def assembly(self) -> Assembly:
        """Of which slices a window is made."""
        return "fragments" if self.merges else "range"

    def lengths(self) -> Mapping[str, Measure | None]:
        """Return the gap, and the maximum length."""
        return {"gap": self.gap, "at_most": self.at_most}

    @property
    def plain(self) -> Session:
        """The session over a column of gaps that is there by name, also if it is computed."""
        return self if self.column is None else replace(self, column=str(self.column))

    @property
    def columns(self) -> tuple[str, ...]:
        """The column of gaps, if there is one."""
        return () if self.column is None else (self.column,)

    def column_types(self, time: pa.DataType) -> Mapping[str, pa.DataType]:
        """Return the type of gaps: that of distances in the time column."""
        return dict.fromkeys(self.columns, time if time == pa.int64() else pa.duration("us"))

    @property
    def is_session(self) -> bool:
        """Whether it is a session: it is."""
        return True


@hinted
def session(
    gap: Length | Column | None = None, *, column: Column | None = None, at_most: Length | None = None
) -> Session:
    """Windows of activity: rows of one key with no pause longer than a gap.

    Parameters
    ----------
    gap : str, datetime.timedelta, int or expression
        Greater than zero: a duration, of which a day is 24 hours, or an ``int`` in the units of an integer
        column. A row exactly `gap` after the last one still joins its session, as in Spark. A string of one
        word, as no duration is, or in backticks, is the name of a column instead, and an expression computes
        one.
    column : str or expression, optional
        Instead of `gap`, the name of any column, with the gap of each row, or an expression of Polars,
        pyarrow or Spark that computes it (see `windowkit.expr`): durations, or integers for an integer time
        column. A row at t keeps its session open until t + gap, and one without a gap, or with
        one that is not above zero, is in no session, both as in Spark's ``session_window(time, gap)``. All
        windows of such a query, and of an operator that has it, then have their gaps from this column.
    at_most : str, datetime.timedelta or int, optional
        No session is longer: a row that is `at_most` or more after the first row of its session begins a new
        one. Not less than `gap`.

    Returns
    -------
    Session
        The windows ``[first row, last row + gap)``; with a column, up to the latest of the rows' t + gap;
        with `at_most`, cut off at ``first row + at_most``. Context aware, but out-of-order rows only ever
        join fragments, so partial aggregates suffice and no rows are stored (Traub et al. 2019, §5.1):
        O(log n) work and O(1) memory per fragment. With a column or `at_most` fragments do not merge, and
        rows are stored: O(1) work per row.

    Raises
    ------
    InvalidType, InvalidValue
        A length is malformed or not positive, or `at_most` is less than `gap`; both or neither of `gap` and
        `column` are given.

    Examples
    --------
    >>> print(session("30 seconds").alias("visit"))
    session(30 seconds) as visit
    >>> print(session("30 minutes", at_most="4 hours"))
    session(30 minutes, at_most=4 hours)
    >>> print(session("patience"), session(column="time to wait"))
    session(patience) session(`time to wait`)

    Gaps of so many seconds, which are integers in the data:

    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> import windowkit as wk
    >>> seconds = wk.expr(pc.field("patience").cast(pa.duration("s")), name="gap")
    >>> print(session(seconds))
    session(gap)
    """
    if column is None and is_computed(gap):
        return session(column=named("gap", gap), at_most=at_most)  # type: ignore[arg-type]
    if isinstance(gap, str) and column is None and ("`" in gap or re.fullmatch(r"[^\W\d]\w*", gap)):
        return session(column=unquoted("gap", gap), at_most=at_most)
    if gap is None and column is None:
        raise InvalidType("gap: None is given, and no column; give a gap, or the column of gaps")
    column = None if column is None else named("column", column)
    try:
        length = optional_length("gap", gap)  # type: ignore[arg-type]  # What it is not, it refuses.
    except InvalidType as error:
        raise InvalidType(f"{error}; or the name of a column of gaps, or an expression") from None
    return Session(length, column, optional_length("at_most", at_most))
