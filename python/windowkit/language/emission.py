"""Emission policies: when a stream emits windows that are not final, and how their results relate."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.arguments import hinted
from windowkit.language.checks import a_type, as_given, boolean, integer, one_of
from windowkit.language.durations import Duration, Length, Rows, plain
from windowkit.language.progress import of_measure
from windowkit.language.triggers import Term, Trigger, trigger
from windowkit.language.windows import Window, units

__all__ = ["Emission", "emit", "no_emission"]

Refinement: TypeAlias = Literal["accumulating", "discarding", "retracting"]
REFINEMENTS: Final[tuple[Refinement, ...]] = ("accumulating", "discarding", "retracting")


@dataclass(frozen=True)
class Emission:
    """When a stream emits windows before they are final, and how results relate; made by `windowkit.emit`."""

    early: Trigger | None = None
    refinement: Refinement = "accumulating"
    at_most: int | None = None
    later: Duration | int | None = None
    complete: bool = False

    def __post_init__(self) -> None:
        if self.early is not None:
            trigger("early", self.early)
        one_of("refinement", self.refinement, REFINEMENTS)
        if self.at_most is not None:
            allowed = "it is a number of rows of at least 1, or None"
            object.__setattr__(self, "at_most", integer("at_most", self.at_most, allowed, 1, 2**62))
        if self.later is not None:
            of_measure("later", self.later)
        boolean("complete", self.complete)
        if self.discards and self.shares:
            raise InvalidValue(
                f"refinement: 'discarding' is given with early={self.early!r}; at(...) emits whole windows, "
                "so allowed with it are 'accumulating' and 'retracting'"
            )

    @property
    def discards(self) -> bool:
        """Whether results are of the rows since the one before."""
        return self.refinement == "discarding"

    @property
    def has_clock(self) -> bool:
        """Whether it depends on the clock of the operator."""
        return self.early is not None and self.early.has_clock

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads."""
        return () if self.early is None else self.early.columns

    @property
    def shares(self) -> tuple[float, ...]:
        """The shares of windows after which these are emitted."""
        return () if self.early is None else self.early.shares

    @property
    def waits(self) -> dict[str, int | str]:
        """How many rows a call returns and how long they may wait, as far as they are given."""
        later = None if self.later is None else plain(self.later)
        return {
            name: value for name, value in (("at_most", self.at_most), ("later", later)) if value is not None
        }

    @property
    def terms(self) -> list[Term]:
        """The trigger in postfix order."""
        return [] if self.early is None else self.early.terms()

    def check_columns(self, columns: Iterable[str]) -> None:
        """Refuse results without room for what it adds.

        Raises
        ------
        InvalidValue
            A column has the name of one that it adds.
        """
        added = ["emission", *(["weight"] if self.refinement == "retracting" else [])]
        added += ["complete", "complete_error"] if self.complete else []
        for column in columns:
            if column in added:
                raise InvalidValue(
                    f"emit: results would have two columns {column!r}; an emission policy adds it, so give "
                    "the other one another name"
                )

    def check(self, windows: Iterable[Window]) -> None:
        """Refuse windows that cannot be emitted in this way.

        Raises
        ------
        InvalidType, InvalidValue
            It discards, and a row may move to other windows: to a session that merges with another, to the
            next window of a landmark, to windows by rows; or it has `windowkit.at`, and the extent of a
            window is not known before its rows, or it would never fire; or it counts time otherwise.
        """
        for window in windows:
            self.check_kind(window)
            if self.discards and window.rows_may_move:
                raise InvalidValue(
                    f"emit: {self!r} is given for {window}, whose rows may move to other windows, so "
                    "results would not add up; 'discarding' is allowed for tumbling and sliding windows by "
                    "time, calendars, bands and the global window"
                )
            if self.shares and not window.known_before_rows:
                raise InvalidValue(
                    f"emit: {self!r} is given for {window}; at(...) is allowed for windows whose start and "
                    "end are known before their rows: tumbling, sliding and landmark windows by time, bands "
                    "and calendars"
                )
            lengths = window.lengths()
            size = lengths.get("size", lengths.get("every"))
            if isinstance(size, int | Duration):
                for share in self.shares:
                    # The decimal number that is written, as the core has it. Times are whole numbers.
                    if units(size) * (1 - Fraction(repr(share))) < 1:
                        raise InvalidValue(
                            f"emit: at({as_given(share)}) is given for {window}, but this share of a "
                            "window, rounded up to the unit of the time column, is all of it, so that it "
                            "would never fire; allowed are smaller shares, and longer windows"
                        )

    def check_kind(self, window: Window) -> None:
        """Refuse durations where a window ranges over integers, and integers where it ranges over times.

        Raises
        ------
        InvalidType
            It does so.
        """
        lengths = [
            each for each in window.lengths().values() if each is not None and not isinstance(each, Rows)
        ]
        own = [] if self.early is None else [*self.early.lengths]
        if self.later is not None:
            own.append(self.later)
        for given in own if lengths else []:
            if isinstance(given, int) != isinstance(lengths[0], int):
                kind = "an integer" if isinstance(given, int) else "a duration"
                raise InvalidType(
                    f"emit: {self!r} is given for {window}, but {kind} does not match its lengths; "
                    "allowed are durations for windows over times, and integers for windows over integers"
                )

    def check_lateness(self, lateness: int, name: str) -> None:
        """Refuse late rows of a query of this name where results of a window add up.

        Raises
        ------
        InvalidValue
            It discards, and there is an allowed lateness.
        """
        if self.discards and lateness > 0:
            raise InvalidValue(
                f"refinement: it is 'discarding' for {name!r}, which has an allowed_lateness; an update "
                "covers all rows of a window, so allowed are 'accumulating' and 'retracting', or an "
                "allowed_lateness of 0"
            )

    def form(self) -> dict[str, Any]:
        """Return it as a dict that JSON holds."""
        return {
            "early": None if self.early is None else self.early.form(),
            "refinement": self.refinement,
            **self.waits,
            **({"complete": True} if self.complete else {}),
        }

    def __repr__(self) -> str:
        early = [] if self.early is None else [repr(self.early)]
        refinement = [] if self.refinement == "accumulating" else [f"refinement={self.refinement!r}"]
        given = [f"{name}={as_given(value)}" for name, value in self.waits.items()]
        given += ["complete=True"] if self.complete else []
        return f"emit({', '.join([*early, *refinement, *given])})"


def no_emission(given: object) -> InvalidType:
    """Return what is raised for what is given as ``emit`` and is no emission, as a trigger is none."""
    meant = f"windowkit.emit({given!r})" if isinstance(given, Trigger) else "windowkit.emit(...)"
    return InvalidType(f"emit: {as_given(given):.60} is {a_type(given)}; it is what {meant} returns")


@hinted
def emit(
    early: Trigger | None = None,
    refinement: Refinement = "accumulating",
    *,
    at_most: int | None = None,
    later: Length | None = None,
    complete: bool = False,
) -> Emission:
    """Return a policy: when a stream emits windows that are not final, and how their results relate.

    Parameters
    ----------
    early : Trigger, optional
        When: `windowkit.rows`, `windowkit.every`, `windowkit.on`, `windowkit.at`, or combinations of them.
        When a key fires, the stream emits all its open windows that have rows since it last fired. Without
        triggers, only `windowkit.Operator.fire` emits early results.
    refinement : {"accumulating", "discarding", "retracting"}
        How results of one window relate to each other. Accumulating: each covers all its rows so far, and
        replaces the one before. Discarding: each covers the rows since the key last fired; their sums and
        counts add up. Retracting: each covers all rows so far, and before it comes a row that retracts the
        previous result: the same values with weight -1.
    at_most : int, optional
        A call returns at most this many rows of the query; the rest wait, in order, for later calls.
        `close` returns everything.
    later : str, datetime.timedelta or int, optional
        Results wait until the watermark has advanced by this much, in event time, since the call that made
        them: few calls then return many rows. With `at_most`, a call returns that many rows, and all those
        that have waited this long. `windowkit.Operator.watermark_out` is held back with them.
    complete : bool
        Whether results say how complete their windows are, as `windowkit.Operator.completeness` does, in the
        columns ``complete`` and ``complete_error``, null of retractions. It requires an operator with
        ``progress=windowkit.delay(share=...)``, which measures how late rows are.

    Returns
    -------
    Emission
        For `windowkit.query`, `windowkit.Query.operator` or `windowkit.Operator.add`. Results of an operator
        with such a policy have the column ``emission``: ``early``, ``final``, ``late`` (an update of a final
        window) or ``retraction``; and if a policy retracts, ``weight``, an int8 of 1 or -1.

    Raises
    ------
    InvalidType, InvalidValue
        An argument is not as described above. `windowkit.query` raises where a policy does not fit the
        windows: discarding sessions, landmark windows and windows determined by rows; `windowkit.at` with
        windows whose extent depends on their rows, or so short that it would never fire; durations for
        windows over integers; and where a column of the results has the name of one that it adds.
        `windowkit.Query.operator` raises for discarding with an allowed lateness.

    Notes
    -----
    Accumulating stores the times of rows that no result contains yet, at most a few per slice; retracting
    adds a copy of each result until its window has expired; discarding needs less memory than no policy, as
    rows are dropped once a result contains them.
    Triggers keep a few words per key. Triggers and refinement: Akidau et al., *The Dataflow Model*, VLDB
    2015, §2.3. Results that wait: slow flush and lazy flush, Li 2008, §8.3.3.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> query = wk.query(
    ...     by=[],
    ...     time="t",
    ...     windows=wk.tumbling(10),
    ...     aggs=wk.count().alias("n"),
    ...     emit=wk.emit(wk.rows(2), refinement="retracting"),
    ... )
    >>> op = query.operator()
    >>> for times in ([1, 2], [3, 4], [10]):
    ...     results = op.push(pa.table({"t": times})).to_pylist()
    ...     print([(row["n"], row["emission"], row["weight"]) for row in results])
    [(2, 'early', 1)]
    [(2, 'retraction', -1), (4, 'early', 1)]
    [(4, 'retraction', -1), (4, 'final', 1)]
    """
    waits = None if later is None else of_measure("later", later)
    return Emission(early, refinement, at_most, waits, complete)
