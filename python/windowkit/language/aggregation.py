"""What an aggregate is as a value: a function, its columns, a filter, a name; and its text form.

The functions that make aggregates, as `sum`, are in `windowkit.language.aggregates`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from windowkit.errors import InvalidValue
from windowkit.language import checks
from windowkit.language.arguments import hinted
from windowkit.language.checks import checked_name
from windowkit.language.durations import Length
from windowkit.language.expressions import Column
from windowkit.language.expressions import column as column_of
from windowkit.language.frames import FRAME_FORMS, Frame, frame
from windowkit.language.frames import parse as parse_frame
from windowkit.language.functions import (
    AGGREGATE_FORMS,
    BY_FUNCTION,
    FORMS,
    FUNCTIONS,
    Form,
    parameter,
    shown,
)
from windowkit.language.hints import Hinting, here, in_text
from windowkit.language.windows.grammar import QUOTED, bare, name_after, quoted, read_call, unquoted

__all__ = ["FRAMED_FORMS", "Aggregate", "Framed", "UserFunction", "make", "parse", "parse_framed"]

FRAMED_FORMS: Final = (
    f"aggregates are over frames, as in sum(v) over (10 minutes); {FRAME_FORMS}; the frame follows the "
    "aggregate and an optional 'where column', and an optional 'as name' follows it"
)
FRAMED: Final = re.compile(
    # Words are looked for once behind each run of spaces, and not behind each space.
    rf"(?P<aggregate>(?:{QUOTED}|[^`])*?)(?<!\s)\s*\bover\s*\((?P<frame>[^()`]*)\)(?:\s+as\s+(?P<name>\S.*))?",
    re.IGNORECASE | re.DOTALL,
)


@dataclass(frozen=True, repr=False)
class Aggregate(Hinting):
    """One aggregate function of columns, its filter, and the name of its output.

    Made by `sum` and the other functions of `windowkit.language.aggregates`. ``str(aggregate)`` is a text
    form, and `parse` reads it back, unless the function is a user's own.

    Parameters
    ----------
    function : str
        What the core calls it, such as count_all, mean, first_valid or quantile; "user" for a user's own.
    columns : tuple of str
        The columns it reads; () for count_all, and for collect_rows of all columns of the input.
    name : str
        The output column.
    condition : str, optional
        The boolean column that says which rows are taken.
    parameters : tuple of float
        Numbers that the function takes besides its columns: a share, a number of values, or the logarithm of
        a sketch's size.
    user : UserFunction, optional
        A user's own function.
    """

    function: str
    columns: tuple[str, ...]
    name: str
    condition: str | None = None
    parameters: tuple[float, ...] = ()
    user: UserFunction | None = None

    def __repr__(self) -> str:
        return f"<windowkit.Aggregate {self}>"

    def __post_init__(self) -> None:
        if self.user is not None:
            return
        if self.function not in FUNCTIONS:
            raise InvalidValue(
                f"function: {self.function!r} is unknown; functions are {', '.join(sorted(FUNCTIONS))}"
            )
        form = BY_FUNCTION.get(self.function)
        expected = 0 if form is None else form.columns
        if form is not None and form.several:
            twice = checks.repeated(self.columns)
            if twice is not None:
                raise InvalidValue(
                    f"columns: {self.function} reads column {twice!r} twice; the fields of a row have "
                    "different names"
                )
        elif len(self.columns) != expected:
            raise InvalidValue(
                f"columns: {self.columns!r} is not for {self.function}, which reads {expected} columns"
            )
        numbers = 0 if form is None else form.numbers
        if len(self.parameters) != numbers:
            raise InvalidValue(
                f"parameters: {self.parameters!r} is not for {self.function}, which takes {numbers}"
            )

    @property
    def column(self) -> str | None:
        """The first of the columns; None if there is none."""
        return self.columns[0] if self.columns else None

    @property
    def reads_all(self) -> bool:
        """Whether it reads all columns of the input, whichever they are."""
        return not self.columns and self.user is None and self.function != "count_all"

    def resolved(self, names: Sequence[str]) -> Aggregate:
        """Return the same aggregate, of these columns by name if it reads all that there are.

        Raises
        ------
        InvalidValue
            It does, and two of them have one name.

        Examples
        --------
        >>> from windowkit import collect_rows
        >>> collect_rows().resolved(["k", "t"]).columns
        ('k', 't')
        """
        return replace(self, columns=tuple(names)) if self.reads_all else self

    @property
    def inputs(self) -> list[str]:
        """The columns it names, with its filter."""
        return [*self.columns, *([] if self.condition is None else [self.condition])]

    @property
    def plain(self) -> Aggregate:
        """The aggregate over columns that are there by name, those of expressions included."""
        return replace(
            self,
            columns=tuple(map(str, self.columns)),
            condition=None if self.condition is None else str(self.condition),
        )

    @property
    def default_names(self) -> list[str]:
        """The names that its output has unless it is given another: one per spelling of the function."""
        if self.user is not None:
            titles = [f"{self.user.name}({', '.join(self.columns)})"]
        elif self.function == "count_all":
            titles = ["count(1)"]
        else:
            forms = [form for form in FORMS.values() if self.function in (form.function, form.optional)]
            titles = list(dict.fromkeys(self.title(form) for form in forms))
        where = "" if self.condition is None else f" FILTER (WHERE {self.condition})"
        return [f"{title}{where}" for title in titles]

    def title(self, form: Form) -> str:
        """Return the default name under one spelling, without the filter."""
        number = shown(self.parameters[0], form) if self.parameters else ""
        # Not str.format: a column's name may hold braces.
        pieces = {"{columns}": ", ".join(self.columns), "{number}": number}
        pieces |= {f"{{{at}}}": column for at, column in enumerate(self.columns)}
        title = form.title
        parts = []
        while title:
            place = next((place for place in pieces if title.startswith(place)), None)
            parts.append(title[0] if place is None else pieces[place])
            title = title[1 if place is None else len(place) :]
        return "".join(parts)

    def alias(self, name: str) -> Aggregate:
        """Return the same aggregate under another output name.

        Raises
        ------
        InvalidType, InvalidValue
            `name` is not a string, or is empty.

        Examples
        --------
        >>> from windowkit import max
        >>> max("v").alias("peak").name
        'peak'
        """
        return replace(self, name=checked_name("alias", name))

    def where(self, column: Column) -> Aggregate:
        """Return the same aggregate over only those rows in which a boolean column is true.

        Parameters
        ----------
        column : str or expression
            A boolean column; a null takes no row. ``first`` and ``last`` are then the first and the last of
            the rows taken. A window none of whose rows is taken is still in the result.

        Returns
        -------
        Aggregate
            Named ``<name> FILTER (WHERE <column>)``, as Spark does, unless it has an alias.

        Raises
        ------
        InvalidType, InvalidValue
            `column` is not a name, or the aggregate has a filter already.

        Examples
        --------
        >>> from windowkit import count, sum
        >>> sum("v").where("valid").name
        'sum(v) FILTER (WHERE valid)'
        >>> print(count().where("valid").alias("n"))
        count(*) where valid as n
        """
        column = column_of("where", column)
        if self.condition is not None:
            raise InvalidValue(
                f"where: {column!r} is a second filter after {self.condition!r}; an aggregate has one; "
                "compute a column from both"
            )
        filtered = replace(self, condition=column)
        if self.name in self.default_names:
            at = self.default_names.index(self.name)
            return replace(filtered, name=filtered.default_names[at])
        return filtered

    @hinted
    def over(
        self,
        size: Length | None = None,
        *,
        before: Length | None = None,
        after: Length | None = None,
        closed: str | None = None,
        tail: Length | None = None,
    ) -> Framed:
        """Return the aggregate over a frame of each row, for `windowkit.rolling`.

        By time, a row at t has the frame ``[t - before, t + after]`` of the rows of its key, SQL's ``RANGE``:
        rows at the same time have the same frame. By rows, it has the ``before`` rows ahead of it in order of
        time (and then of arrival) and the ``after`` rows behind it, with itself: SQL's ``ROWS``.

        Parameters
        ----------
        size : str, datetime.timedelta, int or Rows, optional
            The length of a frame that ends with its row: ``"10 minutes"`` for `before` alone, an int in the
            units of an integer time column, ``"100 rows"`` for the row and the 99 before it. ``"unbounded"``
            (or ``"unbounded rows"``) for all rows up to it.
        before, after : optional
            As `size`, and instead of it; 0 if not given. By rows, they do not count the row itself.
        closed : "both", "left", "right" or "neither", optional
            Which of its two ends are in the frame. By default both, as in SQL; but with a `size` in rows
            only the right one, so that the frame has `size` rows. In a frame that ends with its row,
            ``"left"`` leaves out the row and, by time, all others at its time.
        tail : optional
            By time, the frame begins at the last multiple of so much time (counted from 1970, or from 0) that
            is not after ``t - before``: it is longer than `before` by less than `tail`, and its start moves
            in hops.

        Returns
        -------
        Framed
            Named ``<name> OVER (<frame>)``, unless the aggregate has an alias.

        Raises
        ------
        InvalidType, InvalidValue
            A length is malformed, negative, or not fixed, as that of a month; one end is by rows and the
            other by time; no length is given; or a tail is given for a frame by rows or without start.

        Examples
        --------
        >>> import windowkit as wk
        >>> wk.sum("v").over("10 minutes").name
        'sum(v) OVER (10 minutes)'
        >>> wk.max("v").over(before="5 minutes", after="5 minutes", closed="left").name
        'max(v) OVER (5 minutes before, 5 minutes after, closed left)'
        >>> wk.count().alias("so far").over("unbounded").name
        'so far'
        """
        return Framed(self, frame(size, before, after, closed, tail))

    def __str__(self) -> str:
        """Return the text form: the call, ``where`` its filter, ``as`` its alias, where there are any."""
        filtered = "" if self.condition is None else f" where {bare(self.condition)}"
        aliased = "" if self.name in self.default_names else f" as {quoted(self.name)}"
        return f"{self.call}{filtered}{aliased}"

    @property
    def call(self) -> str:
        """The call in the text form: under the spelling whose name the output has, if there is one."""
        if self.user is not None:
            return f"{self.user.name}({', '.join(map(quoted, self.columns))})"
        if self.function == "count_all":
            return "count(*)"
        forms = {
            spelling: form
            for spelling, form in FORMS.items()
            if self.function in (form.function, form.optional)
        }
        named = [spelling for spelling, form in forms.items() if self.name.startswith(self.title(form))]
        spelling = (named or list(forms))[0 if named else -1]
        form = forms[spelling]
        option = form.option if self.function == form.optional else ""
        numbers = [shown(number, form) for number in self.parameters]
        arguments = [*map(quoted, self.columns), *numbers, *([option] if option else [])]
        return f"{spelling}({', '.join(arguments)})"


@dataclass(frozen=True, repr=False)
class Framed(Hinting):
    """An aggregate over a frame of each row; made by `Aggregate.over`, for `windowkit.rolling`.

    Parameters
    ----------
    aggregate : Aggregate
        What is computed of the rows of a frame.
    frame : Frame
        Which rows these are.
    label : str, optional
        The alias, if one was given after the frame.
    """

    aggregate: Aggregate
    frame: Frame
    label: str | None = None

    def __repr__(self) -> str:
        return f"<windowkit.Framed {self}>"

    @property
    def name(self) -> str:
        """The output column: an alias, or else the aggregate's name with the frame."""
        if self.label is not None:
            return self.label
        return self.aggregate.name if self.is_aliased else f"{self.aggregate.name} OVER ({self.frame})"

    @property
    def is_aliased(self) -> bool:
        """Whether it was given a name."""
        return self.label is not None or self.aggregate.name not in self.aggregate.default_names

    @property
    def inputs(self) -> list[str]:
        """The columns it reads, with its filter."""
        return self.aggregate.inputs

    def alias(self, name: str) -> Framed:
        """Return the same under another output name.

        Raises
        ------
        InvalidType, InvalidValue
            `name` is not a string, or is empty.

        Examples
        --------
        >>> from windowkit import sum
        >>> sum("v").over("1 hour").alias("recent").name
        'recent'
        """
        return replace(self, label=checked_name("alias", name))

    def where(self, column: Column) -> Framed:
        """Return the same of only those rows where a boolean column is true; see `Aggregate.where`.

        Frames by rows count all rows, also those that are not taken.

        Raises
        ------
        InvalidType, InvalidValue
            `column` is not a name, or the aggregate has a filter already.

        Examples
        --------
        >>> from windowkit import sum
        >>> sum("v").over("1 hour").where("valid").aggregate == sum("v").where("valid")
        True
        """
        return replace(self, aggregate=self.aggregate.where(column))

    def __str__(self) -> str:
        """Return it for messages and descriptions: the aggregate, its frame, its alias."""
        own = (
            replace(self.aggregate, name=self.aggregate.default_names[0])
            if self.is_aliased
            else self.aggregate
        )
        return f"{own} over ({self.frame})" + (f" as {quoted(self.name)}" if self.is_aliased else "")


@dataclass(frozen=True)
class UserFunction:
    """An aggregate function of a user's own, made by `windowkit.aggregate`; columns make it an aggregate.

    Parameters
    ----------
    name : str
        What its default output names and its errors begin with.
    lift, combine, lower : callable
        See `windowkit.aggregate`.
    invert : callable, optional
        See `windowkit.aggregate`.
    identity : object, optional
        See `windowkit.aggregate`.
    commutative : bool, default False
        See `windowkit.aggregate`.
    """

    name: str
    lift: Callable[..., Any]
    combine: Callable[[Any, Any], Any]
    lower: Callable[[Any], Any]
    invert: Callable[[Any, Any], Any] | None = None
    identity: Any = None
    commutative: bool = False

    def __call__(self, column: Column, *others: Column) -> Aggregate:
        """Return the aggregate of these columns, named ``<name>(<columns>)``."""
        columns = tuple(column_of("column", each) for each in (column, *others))
        return Aggregate("user", columns, f"{self.name}({', '.join(columns)})", user=self)


def make(spelling: str, *columns: Column, numbers: tuple[float, ...] = (), option: bool = False) -> Aggregate:
    """Return an aggregate under its default name."""
    form = FORMS[spelling]
    names = tuple(column_of("column", column) for column in columns)
    parameters = tuple(parameter(form.number, number) for number in numbers)
    function = form.optional if checks.boolean(form.option, option) else form.function
    unnamed = Aggregate(function, names, "", parameters=parameters)
    return replace(unnamed, name=unnamed.title(form))


def parse(text: str) -> Aggregate:
    """Read an aggregate from its text form.

    Parameters
    ----------
    text : str
        ``count(*)`` or ``function(column)`` with a function of `windowkit.language.aggregates`, in any case.
        ``arg_min`` and ``arg_max`` take a second column, ``collect_rows`` any number of them (none, or
        ``*``, for all), ``quantile`` and its like, ``top_k`` and ``frequent`` a number,
        ``approx_count_distinct`` and ``hll_sketch`` one that may be left out, ``first`` and
        ``last`` ``ignore_nulls`` last, ``m4`` ``times``; an optional ``where column`` and an optional ``as
        name`` follow. A column or name that is more than words stands in backticks.

    Returns
    -------
    Aggregate
        ``parse(str(aggregate)) == aggregate`` holds for every aggregate but those of users' own functions.

    Raises
    ------
    InvalidValue
        `text` is not an aggregate.

    Examples
    --------
    >>> from windowkit import sum
    >>> parse("sum(v) as total") == sum("v").alias("total")
    True
    >>> parse("first(v, ignore_nulls)").function
    'first_valid'
    >>> parse("quantile(v, 0.9) where valid").name
    'percentile(v, 0.9, 1) FILTER (WHERE valid)'
    """
    try:
        call = read_call("aggregate", text, AGGREGATE_FORMS, filters=True)
    except InvalidValue:
        if not FRAMED.fullmatch(text.strip()):
            raise
        raise InvalidValue(
            f"aggregate: {text!r} has a frame, and windows have none; rows have aggregates over frames by "
            "windowkit.rolling"
        ) from None
    refused = InvalidValue(f"aggregate: {text!r} is not an aggregate; {AGGREGATE_FORMS}")
    form = FORMS.get(call.function)
    if form is None:
        meant = in_text(call.function) or checks.suggested(here(call.function), FORMS, call.function)
        raise InvalidValue(f"{refused}{meant}")
    # A column that is named `*` or `1` stands in backticks; bare they count rows, as in SQL.
    if call.function == "count" and list(call.arguments) in ([], ["*"], ["1"]):
        aggregate = Aggregate("count_all", (), "count(1)")
    else:
        option = bool(form.option) and call.arguments[form.columns :] == [form.option]
        given = call.arguments[: len(call.arguments) - option]
        if form.default is not None and len(given) == form.columns:
            given = [*given, shown(form.default, form)]
        if form.several and given == ["*"]:
            given = []
        read = len(given) if form.several else form.columns
        if len(given) != read + form.numbers:
            raise refused
        columns = [checked_name("aggregate", unquoted("aggregate", each)) for each in given[:read]]
        numbers = tuple(number(text, each) for each in given[read:])
        aggregate = make(call.function, *columns, numbers=numbers, option=option)
    if call.filter is not None:
        aggregate = aggregate.where(call.filter)
    return aggregate if call.name is None else aggregate.alias(call.name)


def parse_framed(text: str) -> Framed:
    """Read an aggregate over a frame from its text form.

    Parameters
    ----------
    text : str
        The text form of an aggregate, then ``over (...)`` with a frame as names of results show it, and an
        optional ``as name``.

    Returns
    -------
    Framed
        ``str`` of it is `text` again, of the text of any but those of users' own functions.

    Raises
    ------
    InvalidType, InvalidValue
        `text` is not an aggregate over a frame.

    Examples
    --------
    >>> import windowkit as wk
    >>> framed = wk.sum("v").where("ok").over("1 hour", closed="left").alias("recent")
    >>> parse_framed(str(framed)).name, str(parse_framed(str(framed))) == str(framed)
    ('recent', True)
    """
    found = FRAMED.fullmatch(text.strip())
    if found is None:
        if re.search(r"\)\s*over\b", text, re.IGNORECASE):
            raise InvalidValue(f"aggregate: {text!r} is not an aggregate over a frame; {FRAMED_FORMS}")
        aggregate = parse(text)
        raise InvalidValue(
            f"aggregate: {text!r} has no frame; write {aggregate.call} over (10 minutes), or (100 rows), "
            "(unbounded), (5 minutes before, 1 minute after)"
        )
    framed = Framed(parse(found["aggregate"]), parse_frame(found["frame"]))
    name = found["name"]
    return framed if name is None else framed.alias(name_after("aggregate", text, name.strip()))


def number(text: str, given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise InvalidValue(f"aggregate: {given!r} in {text!r} is not a number; {AGGREGATE_FORMS}") from None
