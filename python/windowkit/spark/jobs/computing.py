"""Columns that expressions compute of a DataFrame, before a query looks at them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException
from pyspark.sql.functions import coalesce
from pyspark.sql.functions import expr as parsed

from windowkit.errors import InvalidType, InvalidValue, UnknownColumn
from windowkit.language.checks import article
from windowkit.language.expressions import Expression

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["computed"]


def computed(
    df: DataFrame, expressions: Sequence[Expression], others: Iterable[str] = (), *, replaces: bool = True
) -> DataFrame:
    """Return a DataFrame with the columns of expressions; starts no Spark job.

    Parameters
    ----------
    df : DataFrame
    expressions : sequence of Expression
        Columns of Spark, or SQL.
    others : iterable of str
        Names of columns that are read as they are.
    replaces : bool
        Whether they take the places of columns of the same names, rather than being refused.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        One is of another library, Spark cannot resolve it, or it is not one value for each row.
    """
    if not expressions:
        return df
    names = {str(each).lower() for each in expressions}
    for other in others:
        if other.lower() in names:
            raise InvalidValue(
                f"query: column {other!r} is read as it is, and an expression has the same name in another "
                "case; name the expression by its .alias(...), or by windowkit.expr(..., name=...)"
            )
    for each in expressions:
        if not replaces and str(each).lower() in map(str.lower, df.columns):
            raise InvalidValue(
                f"query: df has a column {str(each)!r}, which is the name of the {each.kind}, too; give that "
                "another, by its .alias(...) or by windowkit.expr(..., name=...)"
            )
    try:
        made = df.withColumns({str(each): column_of(df, each) for each in expressions})
        # Connect resolves columns when it is asked for the schema.
        _ = made.schema
    except PySparkException as error:
        named = ", ".join(repr(str(each)) for each in expressions)
        unresolved = (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")
        raise (UnknownColumn if unresolved else InvalidValue)(
            f"query: Spark does not evaluate the expressions {named} of df, row by row: "
            f"{str(error).strip().splitlines()[0]}"
        ) from None
    return made


def column_of(df: DataFrame, expression: Expression) -> Column:
    """Return what Spark evaluates as one value of each row."""
    if expression.library not in ("spark", "sql"):
        raise InvalidType(
            f"query: column {str(expression)!r} is {article(expression.kind)}, which Spark does not "
            "evaluate; use a Spark Column, or SQL by windowkit.expr"
        )
    given = expression.given
    if expression.library == "sql":
        given = parsed(given)
    elif is_remote(given) != is_remote(df):
        one, other = ("Connect", "classic") if is_remote(given) else ("classic", "Connect")
        raise InvalidType(
            f"query: column {str(expression)!r} is a Column of {one} Spark, but df a DataFrame of {other} "
            "Spark; both are of the same session"
        )
    # Within a function, Spark refuses what makes several rows of one.
    return coalesce(given)


def is_remote(given: object) -> bool:
    """Return whether a Column or DataFrame is one of Spark Connect."""
    return any(each.__module__.startswith("pyspark.sql.connect") for each in type(given).__mro__)
