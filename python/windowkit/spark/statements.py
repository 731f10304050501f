"""SQL in which ``windowkit(table(...), ...)`` stands for the windows of a table, view or query.

Spark has table functions of Python, but not ones that take a table in Arrow batches and make columns that
depend on their arguments (SPARK-53286): those whose columns do are called for each row. So such calls are
evaluated here, by the same plans as `windowkit.Query.run`, and Spark gets the rest of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, suggested
from windowkit.spark.parquet import query_of
from windowkit.spark.routes import aggregate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sql"]

TOKEN: Final = re.compile(
    r"""(?P<blank>\s+|--[^\n]*|/\*.*?\*/)
    |(?P<string>[rR]'[^']*'|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    |(?P<word>\w+|`(?:[^`]|``)*`)
    |(?P<sign>=>|.)""",
    re.DOTALL | re.VERBOSE,
)
OPTIONS: Final = ("by", "time", "windows", "aggs", "windowColumns", "weight", "fill")
QUERIES: Final = ("select", "with", "from", "values", "table", "(")
"""With what a query begins, unlike a name."""
FORM: Final = (
    "a call is windowkit(table(readings), by => 'device', time => 'ts', windows => 'tumbling(10 minutes)', "
    "aggs => 'sum(v); count(*)'), with the name of a table or view, or a query, in table(...)"
)


class Token(NamedTuple):
    """A word, a string or a sign of a statement, and where it is."""

    kind: str
    text: str
    start: int
    end: int


class Definition(NamedTuple):
    """What WITH calls a query, as ``name as (...)``; where it ends, and until where it holds, in tokens."""

    name: str
    text: str
    last: int
    until: int
    is_recursive: bool


def sql(session: SparkSession, text: str, args: Mapping[str, Any] | None = None) -> DataFrame:
    """Run a statement of SQL in which windows are a function of a table.

    Parameters
    ----------
    session : SparkSession
        Classic or Connect.
    text : str
        SQL, where ``windowkit(table(...), by => '...', time => '...', windows => '...', aggs => '...')``
        stands for a table: the windows of a table or view of that name, of what a WITH before it defines, or
        of a query. The options are those of the data source ``windowkit``: `by` are names, separated by
        commas, and may be omitted; `windows` and `aggs` are in the text forms of the command line, separated
        by semicolons; and ``windowColumns => 'flat'`` makes two columns of a window. ``weight => '...'`` and
        ``fill => '...'`` are those of `windowkit.query`, the latter for all aggregates.
    args : Mapping, optional
        Values for the parameters of the statement, such as ``:least``, by name, as ``session.sql`` takes
        them; also for those in queries within ``table(...)``.

    Returns
    -------
    DataFrame
        What ``session.sql`` returns, with `windowkit.Query.run` in place of each call: lazy, by the same
        routes, as fast.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        A call is not of that form, or its query does not fit its table; or the statement creates a view,
        which would refer to what is there only while it is made: call ``createOrReplaceTempView`` of the
        result instead.

    Examples
    --------
    >>> import windowkit as wk
    >>> df.createOrReplaceTempView("readings")
    >>> wk.spark.sql(
    ...     df.sparkSession,
    ...     '''
    ...     select device, max(peak) as highest
    ...     from windowkit(
    ...         table(select * from readings where v > 0),
    ...         by => 'device',
    ...         time => 'ts',
    ...         windows => 'sliding(10 minutes, 1 minute)',
    ...         aggs => 'avg(v) as peak'
    ...     )
    ...     group by device
    ...     ''',
    ... )
    DataFrame[device: string, highest: double]
    """
    if not isinstance(text, str):
        raise InvalidType(f"text: {a_type(text)} is given; text is SQL, a str")
    given: Any = args
    if given is not None and not (
        isinstance(given, Mapping) and all(isinstance(name, str) for name in given)
    ):
        raise InvalidType(
            f"args: {args!r:.60} is given; args is a dict of values by the names of parameters, such as "
            "{'least': 3} for :least"
        )
    values = None if args is None else dict(args)
    tokens = list(tokens_of(text))
    defined = list(definitions(text, tokens))
    pieces: list[str] = []
    frames: dict[str, Any] = {}
    done = at = 0
    while at < len(tokens):
        end = end_of_call(tokens, at)
        if end is None:
            at += 1
            continue
        name = f"windowkit_{len(frames)}"
        visible = [each for each in defined if each.last < at < each.until]
        frames[name] = windows_of(session, text, tokens[at + 2 : end], visible, args)
        pieces += [braced(text[done : tokens[at].start]), f"{{{name}}}"]
        done, at = tokens[end].end, end + 1
    if not frames:
        return session.sql(text, args=values)
    words = [token.text.lower() for token in tokens[:6]]
    if words[0] == "create" and "view" in words:
        raise InvalidValue(
            "text: it creates a view of windowkit(...), which Spark would look up when the view is read; "
            "give the select alone, and call createOrReplaceTempView of its result"
        )
    return session.sql("".join([*pieces, braced(text[done:])]), args=values, **frames)


def tokens_of(text: str) -> Iterator[Token]:
    """Yield the words, strings and signs of a statement."""
    for found in TOKEN.finditer(text):
        if found.lastgroup != "blank":
            yield Token(str(found.lastgroup), found[0], found.start(), found.end())


def end_of_call(tokens: Sequence[Token], at: int) -> int | None:
    """Return where the parenthesis is closed of a call of windowkit that begins here; None if none does."""
    begins = [token.text.lower() for token in tokens[at : at + 2]] == ["windowkit", "("]
    if not begins or (at and tokens[at - 1].text == "."):
        return None
    depth = 0
    for place in range(at + 1, len(tokens)):
        if tokens[place].kind == "sign":
            depth += {"(": 1, ")": -1}.get(tokens[place].text, 0)
        if depth == 0:
            return place
    raise InvalidValue(f"text: the parenthesis of windowkit( is not closed; {FORM}")


def closed(tokens: Sequence[Token], at: int) -> int:
    """Return where the parenthesis that holds a token is closed, or the end of the statement."""
    depth = 0
    for place in range(at, len(tokens)):
        if tokens[place].kind == "sign":
            depth += {"(": 1, ")": -1}.get(tokens[place].text, 0)
        if depth < 0:
            return place
    return len(tokens)


def definitions(text: str, tokens: Sequence[Token]) -> Iterator[Definition]:
    """Yield what each WITH of a statement defines: names for queries, each seen by those after it."""
    words = [token.text.lower() if token.kind != "string" else "" for token in tokens]
    for start, word in enumerate(words):
        if word != "with":
            continue
        until, at = closed(tokens, start), start + 1
        is_recursive = words[at : at + 1] == ["recursive"]
        at += is_recursive
        while at + 1 < len(tokens):
            place = at + 1
            if words[place] == "(":
                place = closed(tokens, place + 1) + 1
            if words[place : place + 2] != ["as", "("]:
                break
            last = closed(tokens, place + 2)
            if last == len(tokens):
                break
            own = text[tokens[at].start : tokens[last].end]
            yield Definition(plain(tokens[at]), own, last, until, is_recursive)
            if words[last + 1 : last + 2] != [","]:
                break
            at = last + 2


def plain(name: Token) -> str:
    """Return a name as Spark compares it."""
    return name.text.strip("`").lower()


def under(visible: Sequence[Definition], text: str, tokens: Sequence[Token]) -> str:
    """Return a query that sees the definitions of the statement around it, if it may need them."""
    known = {each.name: each.text for each in visible}
    if not any(token.kind == "word" and plain(token) in known for token in tokens):
        return text[tokens[0].start : tokens[-1].end]
    words = [token.text.lower() for token in tokens[:2]]
    defines, is_recursive = words[0] == "with", words == ["with", "recursive"]
    rest = text[tokens[defines + is_recursive].start : tokens[-1].end]
    begins = "with recursive" if is_recursive or any(each.is_recursive for each in visible) else "with"
    return f"{begins} {', '.join(known.values())}{',' if defines else ''} {rest}"


def arguments(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield what is between the commas of a call."""
    own: list[Token] = []
    depth = 0
    for token in tokens:
        sign = token.text if token.kind == "sign" else ""
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield own
            own = []
        else:
            own.append(token)
    yield own


def windows_of(
    session: SparkSession,
    text: str,
    tokens: Sequence[Token],
    visible: Sequence[Definition],
    args: Mapping[str, Any] | None,
) -> DataFrame:
    """Return the windows that a call stands for, where a statement has defined these names."""
    first, *others = arguments(tokens)
    if len(first) < 2 or first[0].text.lower() != "table":
        raise InvalidValue(f"text: the first argument of windowkit is not table(...); {FORM}")
    within = first[2:-1] if first[1].text == "(" else first[1:]
    if not within:
        raise InvalidValue(f"text: nothing is in table(...); {FORM}")
    inner = under(visible, text, within)
    if within[0].text.lower() in QUERIES:
        frame = sql(session, inner, args)
    elif len(within) == 1 and plain(within[0]) in {each.name for each in visible}:
        frame = sql(session, inner.removesuffix(within[0].text) + f"select * from {within[0].text}", args)
    else:
        frame = session.table(text[within[0].start : within[-1].end])
    given: dict[str, str] = {}
    for each in others:
        if [token.kind for token in each] != ["word", "sign", "string"] or each[1].text != "=>":
            written = text[each[0].start : each[-1].end] if each else ""
            raise InvalidValue(f"text: {written!r} is not an argument such as time => 'ts'; {FORM}")
        name = each[0].text.strip("`").lower()
        if name not in map(str.lower, OPTIONS) or name in given:
            why = "is given twice" if name in given else f"is unknown{suggested(name, OPTIONS)}"
            raise InvalidValue(f"text: argument {each[0].text} {why}; arguments are {', '.join(OPTIONS)}")
        given[name] = literal_of(each[2].text)
    for name in ("time", "windows", "aggs"):
        if name not in given:
            raise InvalidValue(f"text: argument {name} is not given; {FORM}")
    return aggregate(frame, query_of(given))


def literal_of(text: str) -> str:
    """Return what a string of SQL says."""
    if text[0] in "rR":
        return text[2:-1]
    quote, within = text[0], text[1:-1]
    return re.sub(r"\\(.)|" + quote * 2, lambda found: found[1] or quote, within, flags=re.DOTALL)


def braced(text: str) -> str:
    """Return text as Spark takes it beside names in braces."""
    return text.replace("{", "{{").replace("}", "}}")
