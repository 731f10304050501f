"""Expressions of Polars, pyarrow and Spark in place of the names of columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.language.checks import (
    NAMES,
    Computed,
    a_type,
    article,
    as_given,
    checked_name,
    is_sequence,
    items,
    refuse_nul,
    suggested,
    wrong_type,
)

if TYPE_CHECKING:
    import polars
    import pyarrow
    import pyspark.sql

__all__ = [
    "Column",
    "Expression",
    "column",
    "columns",
    "expr",
    "expressions_of",
    "hinting",
    "is_computed",
    "meant",
    "refuse_expressions",
]


class ArrowExpression(Protocol):
    """An expression of pyarrow, which has no types of its own: an alias of it would be one of anything."""

    def is_valid(self) -> Any:
        """Return whether it is not null."""

    def isin(self, values: Any) -> Any:
        """Return whether it is one of these."""


Column: TypeAlias = "str | Expression | ArrowExpression | polars.Expr | pyspark.sql.Column"
"""What stands for a column: its name, or an expression that computes it."""

LIBRARIES: Final = {
    ("polars", "Expr"): "polars",
    ("pyarrow", "Expression"): "pyarrow",
    ("pyspark", "Column"): "spark",
}
KINDS: Final = {
    "polars": "Polars expression",
    "pyarrow": "pyarrow expression",
    "spark": "Spark Column",
    "sql": "expression in SQL",
}
"""What messages call an expression, by what evaluates it."""

IDENTITY: Final = re.compile("@[0-9a-f]{5,}")
"""What the text of a Spark Column has where an object has none, which differs from run to run."""

COMPUTING: Final = re.compile(r"[-+*/%<>=(|&]")
WORD: Final = re.compile(r"\w+")
TYPES: Final = (
    (
        r" is (?i:\w*string\w*|\w*utf8\w*|dictionary<values=string.*); a time column is a ",
        "text is parsed before, by pandas.to_datetime, str.to_datetime of Polars, pyarrow.compute.strptime, "
        "or to_timestamp of Spark",
    ),
    (
        r" is (?i:null|void); a time column is a ",
        "a column of nothing but nulls has no type: cast it, as by .cast('timestamp') of Spark, or give the "
        "operator a schema",
    ),
    (
        r" is (?i:float\d*|double|f\d+); a time column is a ",
        "numbers are made times before, as by pandas.to_datetime(..., unit='s'), which also gives the empty "
        "column of pandas its type, or timestamp_seconds of Spark",
    ),
    (
        r" takes gaps from column '.*', which is (?i:\w*int\d*|u\d+|i\d+); allowed are durations",
        "a number of seconds is one by an expression, polars.duration(seconds=...), "
        "pyarrow.compute.field(...).cast(pyarrow.duration('s')) or, in Spark, "
        "windowkit.expr('make_dt_interval(0, 0, 0, ...)'), or by pandas.to_timedelta(..., unit='s')",
    ),
    (
        r" takes gaps from column '.*', which is (?i:float\d*|double|f\d+); allowed are durations",
        "a number of seconds is one by pandas.to_timedelta(..., unit='s') or, as whole milliseconds, by an "
        "expression, polars.duration(milliseconds=(...).round().cast(polars.Int64)), or in Spark "
        "windowkit.expr('make_dt_interval(0, 0, 0, ...)')",
    ),
    (
        r" takes gaps from column '.*', which is (?i:\w*string\w*|\w*utf8\w*|dictionary<values=string.*); al",
        "text like '5 minutes' is one by pandas.to_timedelta(...) or, in Spark, by "
        "windowkit.expr('timestamp_seconds(0) + cast(... as interval) - timestamp_seconds(0)')",
    ),
)
"""What is said of a column's type, and how to get a column of another."""
UNKNOWN: Final = re.compile(r"(?P<argument>[^:]*): no column '(?P<name>.*)'; there are", re.DOTALL)
COMPUTED: Final = ("by", "time", "aggs", "where", "weight")
"""The arguments that take expressions."""


class Expression(Computed):
    """A column that is computed from others before a query looks at it: its name, and what computes it.

    Made by `expr`, and of every expression that is given for a column. It is the name of the column that it
    computes. Two of them are equal if they have the same name and compute the same; none equals a plain name.
    """

    __slots__ = ("_given", "_library")

    _given: Any
    _library: str

    def __new__(cls, name: str, library: str, given: Any) -> Expression:
        """Return the expression `given`, of a library of `KINDS`, under a name."""
        this = super().__new__(cls, name)
        this._given, this._library = given, library
        return this

    @property
    def given(self) -> Any:
        """The object of the library, or the text, if it is SQL."""
        return self._given

    @property
    def library(self) -> str:
        """What evaluates it: polars, pyarrow, spark or sql (also Spark)."""
        return self._library

    @property
    def kind(self) -> str:
        """What messages call it."""
        return KINDS[self._library]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Expression)
            and str(self) == str(other)
            and self._library == other._library
            and same(self._library, self._given, other._given)
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return super().__hash__()

    def __reduce__(self) -> tuple[type[Expression], tuple[str, str, Any]]:
        return Expression, (str(self), self._library, self._given)


def same(library: str, one: Any, other: Any) -> bool:
    """Return whether two expressions of a library compute the same, as far as it says."""
    if one is other:
        return True
    if library == "polars":
        return bool(one.meta.eq(other))
    if library == "pyarrow":
        return bool(one.equals(other))
    if library == "sql":
        return bool(one == other)
    if hasattr(one, "_jc") and hasattr(other, "_jc"):
        return bool(one._jc.equals(other._jc))
    # Columns of Spark Connect cannot be compared but by identity.
    return False


def expr(expression: Column, name: str | None = None) -> Expression:
    """Return an expression as a column, under a name of its own.

    Expressions of Polars, pyarrow and Spark may be given to `query`, `rolling` and aggregates as they are;
    this is for SQL, and for names.

    Parameters
    ----------
    expression : str, polars.Expr, pyarrow.compute.Expression or pyspark.sql.Column
        A str is SQL, which Spark evaluates, so that it is for queries over Spark DataFrames.
    name : str, optional
        What its column is called; by default its alias, or else its text.

    Returns
    -------
    Expression
        What stands in place of a column, or for a condition on results.

    Raises
    ------
    InvalidType, InvalidValue
        It is not an expression, or is one of several columns; or `name` is not a name.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import pyarrow.compute as pc
    >>> import windowkit as wk
    >>> wk.sum(wk.expr("price * amount", name="paid")).name
    'sum(paid)'
    >>> wk.sum(pc.field("v") * 2).name
    'sum(multiply_checked(v, 2))'
    >>> double = wk.expr(pc.field("v") * 2, name="double")
    >>> query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum(double))
    >>> query.run(pa.table({"t": [1, 2], "v": [3, 4]})).to_pydict()
    {'window_start': [0], 'window_end': [10], 'sum(double)': [14]}
    """
    if isinstance(expression, str) and not isinstance(expression, Expression):
        made: Expression | None = Expression(checked_name("expression", expression), "sql", expression)
    else:
        made = made_of("expression", expression)
    if made is None:
        raise InvalidType(
            f"expression: {as_given(expression):.60} is {a_type(expression)}; expression is a Polars or "
            "pyarrow expression, a Spark Column, or SQL as a str"
        )
    return made if name is None else Expression(checked_name("name", name), made.library, made.given)


def column(argument: str, given: Column, *, of_key: bool = False) -> str:
    """Return what names a column: a str, or an `Expression` if it is computed.

    Parameters
    ----------
    argument : str
        What errors call it.
    given : Column
    of_key : bool
        Whether it becomes a column of the result, which its library names.
    """
    made = made_of(argument, given, of_key=of_key)
    if made is None and isinstance(given, str):
        return checked_name(argument, given)
    if made is None:
        raise wrong_type(argument, given, "a name is a str, and an expression computes a column")
    return str(made) if is_bare(made) else made


def is_computed(given: object) -> bool:
    """Return whether something is an expression, of a library or as `expr` returns it."""
    return isinstance(given, Expression) or library_of(given) is not None


def columns(argument: str, given: Column | Iterable[Column]) -> tuple[str, ...]:
    """Return what names the columns that are keys."""
    several: Any = given
    if library_of(given) is not None:
        several = (given,)
    elif is_sequence(given):
        several = tuple(given)
    if isinstance(several, tuple):
        several = [
            each if library_of(each) is None else column(argument, each, of_key=True) for each in several
        ]
    several = items(argument, several, str, NAMES)
    return tuple(each if isinstance(each, Expression) else checked_name(argument, each) for each in several)


def library_of(given: object) -> str | None:
    """Return the library whose expression this is; None if it is none."""
    for each in type(given).__mro__:
        library = LIBRARIES.get((each.__module__.split(".")[0].lstrip("_"), each.__name__))
        if library is not None:
            return library
    return None


def made_of(argument: str, given: Any, *, of_key: bool = False) -> Expression | None:
    """Return an expression under the name that it gives its column; None of anything else."""
    if isinstance(given, Expression):
        return given
    library = library_of(given)
    if library is None:
        return None
    if library == "polars":
        if given.meta.has_multiple_outputs():
            raise InvalidValue(
                f"{argument}: the Polars expression {given} may be of several columns; give one for each"
            )
        own, bare = given.meta.output_name(), given.meta.undo_aliases()
        # Without an alias, what Polars calls a result is often a column that it was made of. Keys are called
        # that, as in group_by; elsewhere such a column may be read, too.
        is_named = of_key or not given.meta.eq(bare)
        name = own if is_named or is_bare(Expression(own, library, given)) else str(given)
    elif library == "pyarrow":
        name = str(given)
    else:
        # Its text, as in Column<'(a * 2) AS double'>.
        name = repr(given).removeprefix("Column<'").removesuffix("'>")
        alias = alias_of(name)
        if alias is not None:
            name = alias
        elif IDENTITY.search(name) is not None:
            raise InvalidValue(
                f"{argument}: the Spark Column is of a function of Python's, which has no text; name it by "
                "its .alias(...)"
            )
    return Expression(checked_name(argument, name), library, given)


def alias_of(text: str) -> str | None:
    """Return the alias in the text of a Spark Column, which stands last and outside of any call.

    Examples
    --------
    >>> alias_of("*(v, 2) AS in two (EUR)"), alias_of("CAST(v AS INT)")
    ('in two (EUR)', None)
    """
    for found in reversed(list(re.finditer(" AS ", text))):
        before = text[: found.start()]
        if before.count("(") == before.count(")"):
            return text[found.end() :]
    return None


def is_bare(made: Expression) -> bool:
    """Return whether an expression is a column as it is."""
    if made.library == "polars":
        import polars as pl

        return bool(made.given.meta.eq(pl.col(str(made))))
    if made.library == "pyarrow":
        import pyarrow.compute as pc

        return bool(made.given.equals(pc.field(str(made))))
    return False


def expressions_of(names: Iterable[str]) -> tuple[Expression, ...]:
    """Return those of some columns that are computed, each once.

    Raises
    ------
    InvalidValue
        Two different ones have one name, or one has that of a column that is read as it is.
    """
    read: dict[str, str] = {}
    for each in names:
        other = read.setdefault(str(each), each)
        if other != each:
            given = next(one for one in (each, other) if isinstance(one, Expression))
            what = "another expression" if type(each) is type(other) else "a column that is read as it is"
            raise InvalidValue(
                f"query: {article(given.kind)} and {what} are both called {str(each)!r}; give the "
                "same expression, or another name to one, by its .alias(...) or windowkit.expr(..., name=...)"
            )
    return tuple(each for each in read.values() if isinstance(each, Expression))


def meant(text: str, names: Iterable[str]) -> str:
    """Return what a message adds that knows no column `text`: what is probably meant, if anything is.

    Examples
    --------
    >>> meant("V", ["ts", "v"])
    "; did you mean 'v'?"
    >>> meant("v * 2", ["ts", "v"])
    "; a text names a column, and expressions are those of Polars and pyarrow, or in Spark wk.expr('v * 2')"
    """
    known = list(names)
    if text not in known and COMPUTING.search(text) and not set(known).isdisjoint(WORD.findall(text)):
        return (
            "; a text names a column, and expressions are those of Polars and pyarrow, or in Spark "
            f"wk.expr({text!r})"
        )
    return suggested(text, known)


@contextmanager
def hinting(*schemas: pyarrow.Schema) -> Iterator[None]:
    """Add to the core's error of a column what is probably meant: another column, or to parse it first.

    Raises
    ------
    InvalidValue
        As `refuse_nul`.
    """
    for schema in schemas:
        refuse_nul("data", schema.names)
    try:
        yield
    except InvalidType as error:
        hint = next((hint for said, hint in TYPES if re.search(said, str(error), re.DOTALL)), None)
        if hint is None:
            raise
        raise InvalidType(f"{error}; {hint}") from None
    except UnknownColumn as error:
        found = UNKNOWN.match(str(error))
        names = [name for schema in schemas for name in schema.names]
        # Windows, joins and what else is not computed take names only.
        of = meant if found is not None and found["argument"] in COMPUTED else suggested
        none = "none" if str(error).endswith("; there are ") else ""
        raise UnknownColumn(f"{error}{none}{'' if found is None else of(found['name'], names)}") from None


def refuse_expressions(names: Iterable[str], argument: str, why: str) -> None:
    """Refuse columns that are computed, where nothing evaluates them."""
    for each in names:
        if isinstance(each, Expression):
            raise InvalidType(f"{argument}: column {str(each)!r} is {article(each.kind)}, {why}")
