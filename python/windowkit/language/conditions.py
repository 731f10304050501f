"""Conditions on columns, in SQL: read once, here, for every engine.

A condition is true, false or unknown, as in SQL, and what it is asked is only whether it is true. So NOT is
moved down to single tests: of these each is true or not, and AND and OR need no third value. What is not one
of the tests below is kept as text, which Spark evaluates and nothing else looks into.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type
from windowkit.language.expressions import Expression
from windowkit.language.tokens import tokens_of

__all__ = [
    "TYPED",
    "Condition",
    "Nested",
    "Opaque",
    "Test",
    "Tree",
    "Value",
    "condition",
    "names_of",
    "nested",
    "quoted_path",
    "renamed",
    "shortened",
]

ALLOWED: Final = (
    "where is a condition in SQL on the columns of the result, such as \"device = 'd1' and `avg(v)` > 3\""
)
NEGATED: Final = {
    "=": "!=",
    "<": ">=",
    "<=": ">",
    "in": "not in",
    "like": "not like",
    "is null": "is not null",
}
"""Tests, and what is true where they are false: NaN is the greatest value, so that numbers have an order."""
NEGATED.update({negated: plain for plain, negated in list(NEGATED.items())})
CONSTANTS: Final[dict[Literal["and", "or"], str]] = {"and": "true", "or": "false"}
"""What conditions of which all hold, or any, are if there are none."""
SAME: Final = {"==": "=", "<>": "!="}
TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
TYPED: Final = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz")
"""Words before a string that say which type it is of."""
WORDS: Final = ("and", "or", "not", "in", "between", "is", "null", "like", "true", "false", "case", "end")
"""Words that name no column, unless they stand in backticks."""
SHOWN: Final = 200
"""How much of a condition messages show."""
DEEPEST: Final = 64
"""How many conditions may be within each other, as all that reads them calls itself for each."""


@dataclass(frozen=True)
class Value:
    """A literal: of which kind, and as it was written."""

    kind: str
    text: str

    @property
    def string(self) -> str:
        """What is between the quotes of a string, or of a date or time."""
        quoted = self.text[self.text.index("'") :]
        if "\\" in quoted:
            raise InvalidValue(
                f"where: {self.text} has a backslash, which is the beginning of an escape in Spark alone; "
                "compare with a string without, or filter the result"
            )
        return quoted[1:-1].replace("''", "'")

    @property
    def integer(self) -> int:
        """What digits state."""
        try:
            return int(self.text)
        except ValueError:
            # Python reads some thousands of digits.
            raise InvalidValue(f"where: {shortened(self.text)} has too many digits") from None

    @property
    def given(self) -> Any:
        """The value as Python has it; dates and times as text."""
        if self.kind == "null":
            return None
        if self.kind == "boolean":
            return self.text.lower() == "true"
        if self.kind == "number":
            if self.text.lstrip("+-").isdigit():
                return self.integer
            return float(self.text) if "e" in self.text.lower() else Decimal(self.text)
        return self.string


@dataclass(frozen=True)
class Test:
    """A column, or a field of one, compared with literals.

    `shift` is added to each literal, if it is a time: nanoseconds, or units of an integer column.
    """

    path: tuple[str, ...]
    operator: str
    values: tuple[Value, ...] = ()
    shift: int = 0

    __test__ = False  # It is none of pytest's.

    def negated(self) -> Test:
        """Return what is true where this is false."""
        return Test(self.path, NEGATED[self.operator], self.values)

    def __str__(self) -> str:
        values = ", ".join(value.text for value in self.values)
        if self.operator.endswith("in"):
            values = f"({values})"
        return " ".join([quoted_path(self.path), self.operator, *([values] if values else [])])


@dataclass(frozen=True)
class Opaque:
    """What is not read here, as it was written."""

    text: str
    is_negated: bool = False

    def negated(self) -> Opaque:
        """Return what is true where this is false."""
        return Opaque(self.text, not self.is_negated)

    def __str__(self) -> str:
        return f"not ({self.text})" if self.is_negated else self.text


@dataclass(frozen=True)
class Nested:
    """Conditions of which all hold, or any: of none that is true, or false."""

    word: Literal["and", "or"]
    members: tuple[Tree, ...]

    def negated(self) -> Nested:
        """Return what is true where this is false."""
        members = tuple(member.negated() for member in self.members)
        return Nested("or" if self.word == "and" else "and", members)

    def __str__(self) -> str:
        if not self.members:
            return CONSTANTS[self.word]
        return f" {self.word} ".join(
            f"({each})" if isinstance(each, Nested) and each.members else str(each) for each in self.members
        )


Tree: TypeAlias = Test | Opaque | Nested


@dataclass(frozen=True)
class Condition:
    """A condition: as it was given, and as it was read."""

    text: str
    tree: Tree


def names_of(tree: Tree | None) -> Iterator[str]:
    """Yield the names of the columns that a condition reads; nothing reads none."""
    if isinstance(tree, Test):
        yield tree.path[0]
    elif isinstance(tree, Nested):
        for each in tree.members:
            yield from names_of(each)


def renamed(tree: Tree, names: Mapping[str, str]) -> Tree:
    """Return a condition whose columns have other names."""
    if isinstance(tree, Nested):
        return Nested(tree.word, tuple(renamed(each, names) for each in tree.members))
    if isinstance(tree, Test):
        return replace(tree, path=(names[tree.path[0]], *tree.path[1:]))
    return tree


def shortened(text: str) -> str:
    """Return what a message shows of a condition, which programs may have written."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} ..."


def quoted_path(path: Sequence[str]) -> str:
    """Return a column, or a field of one, as SQL writes it."""
    plain = [name.isidentifier() and (at > 0 or name.lower() not in WORDS) for at, name in enumerate(path)]
    return ".".join(
        name if is_plain else "`" + name.replace("`", "``") + "`"
        for name, is_plain in zip(path, plain, strict=True)
    )


def condition(given: Any) -> Condition:
    """Read a condition.

    Parameters
    ----------
    given : str or Expression
        SQL, as it is or by `windowkit.expr`.

    Raises
    ------
    InvalidType, InvalidValue
        It is no text, or not one condition: a parenthesis or a side is missing.

    Examples
    --------
    >>> print(condition("not (k = 'a' or n between 2 and 3)").tree)
    k != 'a' and (n < 2 or n > 3)
    """
    text = given.given if isinstance(given, Expression) else given
    if not isinstance(text, str):
        what = f"{given.kind}" if isinstance(given, Expression) else a_type(given)
        raise InvalidType(f"where: {what} is given; {ALLOWED}")
    reader = Reader(text)
    tree: Tree
    try:
        try:
            tree = reader.alternatives()
        except Unread:
            tree, reader.at = Opaque(text), len(reader.tokens)
        # Tests are a level, too.
        is_deep = depth_of(tree) > DEEPEST + 1
    except RecursionError:
        is_deep = True
    if is_deep:
        raise InvalidValue(
            f"where: {shortened(text)} has too many parentheses within each other; AND and OR may take "
            f"turns {DEEPEST} times"
        )
    if reader.at < len(reader.tokens):
        raise InvalidValue(
            f"where: {shortened(text)!r} goes on after a condition, with {shortened(reader.rest)!r}; "
            f"{ALLOWED}"
        )
    return Condition(text, tree)


def depth_of(tree: Tree) -> int:
    """Return how many conditions are within each other."""
    level: list[Tree] = [tree]
    depth = 0
    while level:
        depth += 1
        level = [member for each in level if isinstance(each, Nested) for member in each.members]
    return depth


class Unread(Exception):  # noqa: N818  # It is caught here, and what is left is opaque.
    """Raised where tokens are not one of the tests."""


class Reader:
    """Reads a condition from the tokens of a text, from `at` on."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(tokens_of(text))
        self.at = 0

    @property
    def rest(self) -> str:
        """What is not read yet."""
        return self.text[self.tokens[self.at].start :]

    def word(self, ahead: int = 0) -> str:
        """Return the word or sign that comes, in lower case; nothing for strings and at the end."""
        place = self.at + ahead
        if place >= len(self.tokens) or self.tokens[place].kind == "string":
            return ""
        return self.tokens[place].text.lower()

    def took(self, *words: str) -> bool:
        """Take these words, if they come."""
        if [self.word(ahead) for ahead in range(len(words))] != list(words):
            return False
        self.at += len(words)
        return True

    def take(self, word: str) -> None:
        """Take a word or sign, which has to come."""
        if not self.took(word):
            raise Unread

    def alternatives(self) -> Tree:
        """Read conditions that are separated by OR."""
        members = [self.conjunction()]
        while self.took("or"):
            members.append(self.conjunction())
        return nested("or", members)

    def conjunction(self) -> Tree:
        """Read conditions that are separated by AND."""
        members = [self.negation()]
        while self.took("and"):
            members.append(self.negation())
        return nested("and", members)

    def negation(self) -> Tree:
        """Read a condition, perhaps after NOT."""
        if self.took("not"):
            return self.negation().negated()
        start = self.at
        for read in (self.group, self.test):
            try:
                found = read()
                if self.at == len(self.tokens) or self.word() in ("and", "or", ")"):
                    return found
            except Unread:
                pass
            self.at = start
        return self.opaque()

    def group(self) -> Tree:
        """Read a condition in parentheses."""
        self.take("(")
        found = self.alternatives()
        self.take(")")
        return found

    def test(self) -> Tree:
        """Read a comparison of a column with literals, or one literal that is true or false."""
        start = self.at
        for joined, constant in CONSTANTS.items():
            if self.word() == constant and self.word(1) in ("", "and", "or", ")"):
                self.at += 1
                return Nested(joined, ())
        try:
            path = self.path()
        except Unread:
            # A literal may be on the left.
            self.at = start
            value, operator = self.value(), self.operator()
            return Test(self.path(), TURNED.get(operator, operator), (value,))
        if self.took("is", "null"):
            return Test(path, "is null")
        if self.took("is", "not", "null"):
            return Test(path, "is not null")
        if self.word() in ("", "and", "or", ")"):
            # A column of booleans. A string is no word either, and is refused after this.
            return Test(path, "=", (Value("boolean", "true"),))
        is_negated = self.took("not")
        if self.took("between"):
            low = self.value()
            self.take("and")
            between = (Test(path, ">=", (low,)), Test(path, "<=", (self.value(),)))
            found: Tree = Nested("and", between)
        elif self.took("in", "("):
            values = [self.value()]
            while self.took(","):
                values.append(self.value())
            self.take(")")
            found = Test(path, "in", tuple(values))
        elif self.took("like"):
            pattern = self.value()
            if pattern.kind != "string" or "\\" in pattern.text:
                raise Unread
            found = Test(path, "like", (pattern,))
        elif is_negated:
            raise Unread
        else:
            found = Test(path, self.operator(), (self.value(),))
        return found.negated() if is_negated else found

    def operator(self) -> str:
        """Read a sign that compares."""
        operator = SAME.get(self.word(), self.word())
        if operator not in NEGATED or not self.took(self.word()) or operator.isalpha():
            raise Unread
        return operator

    def path(self) -> tuple[str, ...]:
        """Read a column, or a field of one."""
        following = self.tokens[self.at + 1 : self.at + 2]
        is_typed = self.word() in TYPED and bool(following) and following[0].kind == "string"
        if is_typed or self.word() in WORDS:
            raise Unread
        names = [self.name()]
        while self.took("."):
            names.append(self.name())
        return tuple(names)

    def name(self) -> str:
        """Read one name."""
        if self.at == len(self.tokens) or self.tokens[self.at].kind != "word":
            raise Unread
        token = self.tokens[self.at]
        self.at += 1
        return token.text[1:-1].replace("``", "`") if token.text[0] == "`" else token.text

    def value(self) -> Value:
        """Read a literal."""
        start = self.at
        word = self.word()
        for each in ("true", "false", "null"):
            if self.took(each):
                return Value("null" if each == "null" else "boolean", word)
        kind = "string"
        if word in TYPED:
            kind, self.at = word, start + 1
        is_negative = self.took("-")
        is_signed = is_negative or self.took("+")
        if self.at == len(self.tokens):
            raise Unread
        token = self.tokens[self.at]
        is_string = token.kind == "string" and token.text[0] == "'" and not is_signed
        if not is_string and (token.kind != "number" or kind != "string"):
            raise Unread
        self.at += 1
        if is_string:
            return Value(kind, self.text[self.tokens[start].start : token.end])
        # What is between a sign and its number may be a line or a comment.
        return Value("number", "-" * is_negative + token.text)

    def opaque(self) -> Opaque:
        """Take all up to the next AND or OR outside of parentheses, but for those of BETWEEN and CASE.

        Raises
        ------
        Unread
            A column may be called CASE or END, so that it is not known where a CASE ends.
        """
        first = self.at
        depth = cases = betweens = 0
        keywords = list[str]()
        while self.at < len(self.tokens):
            is_field = self.at > first and self.word(-1) == "."
            word = "" if is_field else self.word()
            keywords.append(word)
            if word in (")", "]"):
                if depth == 0:
                    break
                depth -= 1
            elif word in ("(", "["):
                depth += 1
            elif depth == 0 and (word == "case" or (word == "end" and cases)):
                cases += 1 if word == "case" else -1
            elif depth == 0 and cases == 0 and word == "between":
                betweens += 1
            elif depth == 0 and cases == 0 and word == "and" and betweens:
                betweens -= 1
            elif depth == 0 and cases == 0 and word in ("and", "or"):
                break
            self.at += 1
        if self.at == first or depth:
            why = "a parenthesis is not closed" if depth else "a condition is missing"
            raise InvalidValue(f"where: {shortened(self.text)!r} is not a condition, as {why}; {ALLOWED}")
        begun, ended = keywords.count("case"), keywords.count("end")
        if begun != ended or begun > keywords.count("when"):
            raise Unread
        return Opaque(self.text[self.tokens[first].start : self.tokens[self.at - 1].end])


def nested(word: Literal["and", "or"], members: list[Tree]) -> Tree:
    """Return several conditions as one, those of the same word side by side."""
    flat: list[Tree] = []
    for each in members:
        flat += each.members if isinstance(each, Nested) and each.word == word else [each]
    return flat[0] if len(flat) == 1 else Nested(word, tuple(flat))
