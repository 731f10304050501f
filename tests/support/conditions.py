"""Random conditions on results, as text and as what they mean: true, false or None, by SQL's definition."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

Row = Mapping[str, Any]
Truth = bool | None


@dataclass(frozen=True)
class Known:
    """A condition: its text, and what it is of a row."""

    text: str
    of: Callable[[Row], Truth]


@dataclass(frozen=True)
class Operand:
    """A column: how text names it, by which key rows have its value, and literals with their values."""

    text: str
    name: str
    literals: Sequence[tuple[str, Any]]
    likes: bool = False


CONSTANTS = [Known("true", lambda _: True), Known("false", lambda _: False)]


def conditions(operands: Sequence[Operand], leaves: int = 6) -> st.SearchStrategy[Known]:
    """Return conditions on these columns."""
    return st.recursive(
        st.integers(0, 9).flatmap(
            lambda drawn: (
                st.sampled_from(CONSTANTS) if drawn == 0 else st.sampled_from(operands).flatmap(tests)
            )
        ),
        lambda inner: st.one_of(
            inner.map(negated),
            st.lists(inner, min_size=2, max_size=3).map(lambda each: joined("and", each)),
            st.lists(inner, min_size=2, max_size=3).map(lambda each: joined("or", each)),
        ),
        max_leaves=leaves,
    )


def negated(inner: Known) -> Known:
    """Return NOT of a condition."""

    def of(row: Row) -> Truth:
        truth = inner.of(row)
        return None if truth is None else not truth

    return Known(f"not ({inner.text})", of)


def joined(word: str, members: Sequence[Known]) -> Known:
    """Return conditions of which all hold, or any."""

    def of(row: Row) -> Truth:
        truths = [each.of(row) for each in members]
        decides = word == "or"
        if decides in truths:
            return decides
        return None if None in truths else not decides

    return Known(f" {word} ".join(f"({each.text})" for each in members), of)


@st.composite
def tests(draw: st.DrawFn, operand: Operand) -> Known:
    """Return one test of a column."""
    literal = st.sampled_from(
        [*operand.literals, ("null", None)] if draw(st.booleans()) else operand.literals
    )
    name, column = operand.name, operand.text
    kinds = ["compare", "compare", "turned", "in", "between", "null", *(["like"] if operand.likes else [])]
    kind, is_not = draw(st.sampled_from(kinds)), draw(st.booleans())
    word = "not " if is_not else ""
    if kind == "null":
        return Known(f"{column} is {word}null", lambda row: (row[name] is None) != is_not)
    if kind == "like":
        start = draw(st.sampled_from(["a", "d", ""]))

        def like(row: Row) -> Truth:
            return None if row[name] is None else row[name].startswith(start)

        made = Known(f"{column} like '{start}%'", like)
    elif kind in ("compare", "turned"):
        (text, value), operator = draw(literal), draw(st.sampled_from(list(SIGNS)))
        if kind == "turned":
            return Known(f"{text} {operator} {column}", lambda row: SIGNS[operator](value, row[name]))
        return Known(f"{column} {operator} {text}", lambda row: SIGNS[operator](row[name], value))
    elif kind == "between":
        low, high = draw(literal), draw(literal)
        inner = joined(
            "and",
            [
                Known("", lambda row: at_most(low[1], row[name])),
                Known("", lambda row: at_most(row[name], high[1])),
            ],
        )
        made = Known(f"{column} between {low[0]} and {high[0]}", inner.of)
    else:
        several = draw(st.lists(literal, min_size=1, max_size=3))
        inner = joined("or", [Known("", lambda row, v=value: equal(row[name], v)) for _, value in several])
        made = Known(f"{column} in ({', '.join(text for text, _ in several)})", inner.of)
    if not is_not:
        return made
    return Known(made.text.replace(column, f"{column} not", 1), negated(made).of)


def order(value: Any) -> tuple[bool, Any]:
    """Return what values are compared by: NaN is the greatest, and both zeros are one."""
    is_nan = isinstance(value, float) and math.isnan(value)
    return is_nan, 0 if is_nan else value


def equal(one: Any, other: Any) -> Truth:
    """Return whether two values are equal."""
    return None if one is None or other is None else order(one) == order(other)


def less(one: Any, other: Any) -> Truth:
    """Return whether a value is less than another."""
    return None if one is None or other is None else order(one) < order(other)


def at_most(one: Any, other: Any) -> Truth:
    """Return whether a value is not greater than another."""
    return None if one is None or other is None else order(one) <= order(other)


def unequal(one: Any, other: Any) -> Truth:
    """Return whether two values differ."""
    return None if one is None or other is None else order(one) != order(other)


SIGNS: dict[str, Callable[[Any, Any], Truth]] = {
    "=": equal,
    "==": equal,
    "<>": unequal,
    "!=": unequal,
    "<": less,
    "<=": at_most,
    ">": lambda one, other: less(other, one),
    ">=": lambda one, other: at_most(other, one),
}
