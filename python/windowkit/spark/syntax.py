"""Where calls of windowkit, WITHs and subqueries are in a statement of SQL, by its tokens alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from windowkit.errors import InvalidValue
from windowkit.language.tokens import closed, tokens_of

__all__ = ["AFTER_WHERE", "FORM", "QUERIES", "Syntax", "With"]

AFTER_WHERE: Final = (
    *("group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "qualify"),
    *("union", "intersect", "except", "minus"),
)
"""What follows a WHERE, and begins no operator within it."""
QUERIES: Final = ("select", "with", "from", "values", "table", "(")
"""With what a query begins, unlike a name."""
AFTER_CONDITION: Final = (")", "and", "or", "then", "=", "is")
"""What a column called WITH that is IN a query may be followed by, unlike definitions."""
AFTER_TABLE: Final = ("partition", "distribute", "order", "sort", "with")
"""With what begins, after a table's name, how Spark is to part and sort it."""
HAVE_COLUMNS: Final = ("select", "from", "values", "update", "merge", "|")
"""After what, in the same parentheses, there may be columns; the last begins a pipe."""
CLAUSES: Final = (*AFTER_WHERE, *HAVE_COLUMNS, "where", "set")
"""What a comma belongs to, which is between tables after FROM alone."""
SET_OPERATIONS: Final = ("union", "intersect", "except", "minus")
HAVE_FROM: Final = ("trim", "extract", "substring", "substr", "overlay")
"""Functions whose arguments have a FROM."""
FORM: Final = (
    "a call is windowkit(table(readings), by => 'device', time => 'ts', windows => 'tumbling(10 minutes)', "
    "aggs => 'sum(v); count(*)'), with the name of a table or view, or a query, in table(...)"
)


class With(NamedTuple):
    """A WITH of a statement: where its definitions are, as first and last token, and until where it holds."""

    definitions: list[tuple[int, int]]
    start: int
    until: int
    is_recursive: bool

    @property
    def last(self) -> int:
        """Where the last definition ends."""
        return self.definitions[-1][1]


class Syntax:
    """The tokens of a statement, and what of its syntax windowkit needs to know."""

    def __init__(self, text: str) -> None:
        self.tokens = list(tokens_of(text))
        self.words = [token.keyword for token in self.tokens]
        self.parents = list(parents(self.words))
        """In which parenthesis each token is: where that is opened, or -1."""
        self.withs = {each.start: each for each in self.found_withs()}
        """Each WITH that defines queries, by where it begins: an outer one before those in it."""
        self.defined = {begin for each in self.withs.values() for begin, _ in each.definitions}
        """Where names are defined."""
        self.ends = {last for each in self.withs.values() for _, last in each.definitions}
        """Where their definitions end."""

    def word(self, at: int) -> str:
        """Return the word or sign at a place; nothing if none is there."""
        return self.words[at] if 0 <= at < len(self.words) else ""

    def level(self, at: int) -> list[int]:
        """Return which tokens are before one in the same parentheses."""
        return [place for place in range(at) if self.parents[place] == self.parents[at]]

    def end_of_call(self, at: int) -> int | None:
        """Return where a call of windowkit ends that begins here; None if none does."""
        before = self.word(at - 1)
        if self.words[at : at + 2] != ["windowkit", "("] or at in self.defined or before == ".":
            return None
        # A table or its alias may be called so, and have the names of columns.
        is_read = before == "lateral" or (before != "table" and self.expects_table(at))
        if self.word(at + 2) != "table" and not is_read:
            return None
        last = closed(self.tokens, at + 2)
        if last == len(self.tokens):
            raise InvalidValue(f"text: the parenthesis of windowkit( is not closed; {FORM}")
        return last

    def subquery(self, at: int) -> int | None:
        """Return where the outermost subquery begins that a token is in, whose names may be others' columns.

        A query in a FROM is in what this is in, and so are definitions of a WITH.
        """
        outermost = None
        while (at := self.parents[at]) >= 0:
            outermost = at if self.is_subquery(at) else outermost
        return outermost

    def is_subquery(self, at: int) -> bool:
        """Whether a parenthesis opens a subquery, or what is after LATERAL, rather than a table."""
        is_call = self.word(at - 1) == "windowkit"
        before, first = self.word(at - 1 - is_call), self.word(at - 2 - is_call)
        if is_call or before == "lateral":
            return before == "lateral"
        if before in ("(", ")", "as", *SET_OPERATIONS) or self.word(at + 1) not in QUERIES:
            return False
        if self.expects_table(at) or closed(self.tokens, at + 1) in self.ends:
            return False
        if before in ("all", "distinct"):
            return first not in SET_OPERATIONS
        # Before it there may be a string: a function's name in double quotes.
        return self.parents[at] >= 0 or self.is_after_columns(at)

    def is_after_columns(self, at: int) -> bool:
        """Whether there may be columns here of a query that has begun in the same parentheses."""
        return any(self.words[place] in HAVE_COLUMNS for place in self.level(at))

    def expects_table(self, at: int) -> bool:
        """Whether a table is named here: after FROM or JOIN, or a comma in a FROM."""
        before = self.word(at - 1)
        if before == "(":
            return self.expects_table(at - 1)
        if before == ",":
            clauses = [self.words[place] for place in self.level(at) if self.begins_clause(place)]
            return clauses[-1:] == ["from"]
        return before in ("join", "table", "stream") or (before == "from" and self.begins_clause(at - 1))

    def begins_clause(self, at: int) -> bool:
        """Whether a clause begins here: FROM may also be an operator's or a function's, and a field any."""
        around, before = self.parents[at], self.word(at - 1)
        if self.words[at] == "from" and (before == "distinct" or self.word(around - 1) in HAVE_FROM):
            return False
        return self.words[at] in CLAUSES and before != "."

    def found_withs(self) -> Iterator[With]:
        """Yield each WITH that defines queries; a column may be called so."""
        for start, word in enumerate(self.words):
            if word != "with" or self.is_after_columns(start):
                continue
            is_recursive = self.word(start + 1) == "recursive" and self.word(start + 2) != "("
            found: list[tuple[int, int]] = []
            at = start + 1 + is_recursive
            while (last := self.end_of_definition(at)) is not None:
                found.append((at, last))
                at = last + 2
                if self.word(last + 1) != ",":
                    break
            if found and self.word(found[-1][1] + 1) not in AFTER_CONDITION:
                yield With(found, start, closed(self.tokens, start), is_recursive)

    def end_of_definition(self, at: int) -> int | None:
        """Return where ``name (columns) max recursion level n as (query)`` ends that begins here, or None.

        All but the name and the query may be left out.
        """
        place = closed(self.tokens, at + 2) + 1 if self.is_identifier_clause(at) else at + 1
        if self.word(place) == "(":
            after = closed(self.tokens, place + 1) + 1
            are_names = self.word(place + 2) in (",", ")") or self.is_identifier_clause(place + 1)
            # Without AS, what is in parentheses may be the query, and what follows another one.
            if self.word(after) == "as" or are_names:
                place = after
        if self.words[place : place + 3] == ["max", "recursion", "level"]:
            # A number, or a parameter.
            place += 4 + (self.word(place + 3) == ":")
        place += self.word(place) == "as"
        last = closed(self.tokens, place + 1)
        return last if self.word(place) == "(" and last < len(self.tokens) else None

    def is_identifier_clause(self, at: int) -> bool:
        """Whether IDENTIFIER('name') or IDENTIFIER(:name) begins here; a name has columns after it."""
        if self.words[at : at + 2] != ["identifier", "("]:
            return False
        within = self.tokens[at + 2 : closed(self.tokens, at + 2)]
        return any(each.kind != "word" and each.text != "," for each in within)

    def end_of_name(self, first: int, end: int) -> int:
        """Return where the name of a table ends that begins here, in an argument that ends at `end`."""
        for at in range(first + 1, end):
            if self.words[at] in AFTER_TABLE and self.words[at - 1] != ".":
                return at
        return end

    def arguments(self, first: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges between the commas of a call."""
        begin = first
        for at in range(first, end):
            if self.words[at] == "," and self.parents[at] == self.parents[first]:
                yield begin, at
                begin = at + 1
        yield begin, end


def parents(words: Sequence[str]) -> Iterator[int]:
    """Yield in which parenthesis each token is: where it is opened, or -1; one is in those around it."""
    opened = [-1]
    for at, word in enumerate(words):
        if word == ")" and len(opened) > 1:
            opened.pop()
        yield opened[-1]
        if word == "(":
            opened.append(at)
