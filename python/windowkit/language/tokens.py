"""SQL as tokens: words, numbers, strings and signs, as Spark's lexer has them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

__all__ = ["Token", "closed", "folded", "tokens_of"]

TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--(?:\\\n|[^\r\n])*)
    |(?P<comment>/\*(?!\+))
    |(?P<string>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*"|\$(?P<tag>\w*)\$.*?\$(?P=tag)\$)
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?(?!\w))
    |(?P<word>\w+|`(?:[^`]|``)*`)
    |(?P<sign>=>|<=>|==|!=|<>|<=|>=|.)""",
    re.DOTALL | re.VERBOSE,
)
"""Spark's hints, which begin as comments do, have words like all else."""
KINDS: Final = ("blank", "comment", "string", "number", "word", "sign")
COMMENT_EDGE: Final = re.compile(r"/\*(?!\+)|\*/")
CAPITALS: Final = str.maketrans("\u0131\u017f", "is")
"""Small letters that are not of ASCII, whose capitals are: Spark's lexer reads keywords in capitals."""
QUOTES: Final = ("`", '"')
"""Of names: the double ones in sessions with spark.sql.ansi.doubleQuotedIdentifiers."""


class Token(NamedTuple):
    """A word, a number, a string or a sign of a statement, and where it is."""

    kind: str
    text: str
    start: int
    end: int

    @property
    def keyword(self) -> str:
        """A word or sign as keywords are compared; of a string, which is none, nothing."""
        return "" if self.kind == "string" else self.text.translate(CAPITALS).lower()

    @property
    def is_name(self) -> bool:
        """Whether this may be a name."""
        return self.kind == "word" or self.text[0] in QUOTES

    @property
    def name(self) -> str:
        """The name that this is, without the quotes around it."""
        quote = self.text[:1]
        return self.text[1:-1].replace(quote * 2, quote) if quote in QUOTES else self.text


def folded(name: str) -> str:
    """Return a name as Spark compares names: letter by letter, in small letters of the capitals."""
    capitals = (letter.upper() if len(letter.upper()) == 1 else letter for letter in name)
    return "".join(letter.lower()[0] for letter in capitals)


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the words, numbers, strings and signs of a statement; a string that never ends is a sign."""
    at = 0
    while found := TOKEN.match(text, at):
        at = found.end()
        # `lastgroup` would be the tag of a string that has one.
        kind = next(name for name in KINDS if found[name] is not None)
        if kind == "sign" and found[0] in "'\"":
            # A string that never ends: another one that begins within it does not end, either.
            yield Token(kind, text[found.start() :], found.start(), len(text))
            return
        if kind == "comment":
            at = end_of_comment(text, at)
        elif kind != "blank":
            yield Token(kind, found[0], found.start(), at)


def end_of_comment(text: str, at: int) -> int:
    """Return where a comment ends whose beginning ends here; it may hold others."""
    depth = 1
    while depth and (edge := COMMENT_EDGE.search(text, at)):
        depth += -1 if edge[0] == "*/" else 1
        at = edge.end()
    return len(text) if depth else at


def closed(tokens: Sequence[Token], at: int) -> int:
    """Return where the parenthesis that holds a token is closed, or the end of the statement."""
    depth = 0
    for place in range(at, len(tokens)):
        if tokens[place].kind == "sign":
            depth += {"(": 1, ")": -1}.get(tokens[place].text, 0)
        if depth < 0:
            return place
    return len(tokens)
