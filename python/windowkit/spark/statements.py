"""SQL in which ``windowkit(table(...), ...)`` stands for the windows of a table, view or query.

Spark has table functions of Python, but not ones that take a table in Arrow batches and make columns that
depend on their arguments (SPARK-53286): those whose columns do are called for each row. So such calls are
evaluated here, by the same plans as `windowkit.Query.run`, and Spark gets the rest of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.functions import lit

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, suggested
from windowkit.language.conditions import Condition, Nested, Test, Tree, condition
from windowkit.language.tokens import closed, folded, tokens_of
from windowkit.spark.jobs import literal
from windowkit.spark.routes import aggregate, unfiltered
from windowkit.spark.scans import query_of
from windowkit.spark.syntax import AFTER_WHERE, FORM, QUERIES, Syntax, With

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sql"]

PLAIN_STRING: Final = re.compile(r"'[^'\\]*'")
OPTIONS: Final = ("by", "time", "windows", "aggs", "windowColumns", "weight", "fill")
OPERATORS: Final = (
    *("and", "or", "not", "in", "between", "is", "like", "ilike", "rlike", "regexp", "escape", "div"),
    *("case", "when", "then", "else", "from"),
)
"""After what, in a condition, an operand comes."""
MADE: Final = ("create", "alter", "or", "replace", "global", "temporary", "temp")
"""With what a statement begins that makes a view, or something else."""
SCOPES: Final = frozenset(("session", "system"))
"""By what variables may be qualified."""
LEGACY: Final = "spark.sql.legacy.ctePrecedencePolicy"
DEEPEST: Final = 64
"""How many calls may be within each other, as reading them calls itself for each."""


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
        by semicolons; and ``windowColumns => 'struct'`` makes one column of a window. ``weight => '...'`` and
        ``fill => '...'`` are those of `windowkit.query`, the latter for all aggregates.
    args : Mapping, optional
        Values for the parameters of the statement, such as ``:least``, by name, as ``session.sql`` takes
        them; also for those in queries within ``table(...)``, and for options, such as ``by => :keys``.

    Returns
    -------
    DataFrame
        What ``session.sql`` returns, with `windowkit.Query.run` in place of each call: lazy, by the same
        routes, as fast. What the WHERE of a SELECT from a call alone says of rows is applied to these first,
        as `where` of `windowkit.Query.run` is.

    Raises
    ------
    UnknownColumn, InvalidType, InvalidValue
        A call is not of that form, or its query does not fit its table; or the statement creates a view, or
        caches a table, which would refer to what is there only while it is made: call
        ``createOrReplaceTempView`` of the result instead; or it has ``${...}``, which Spark replaces.

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
    for name, value in (values or {}).items():
        refuse_value(name, value)
    statement = Statement(session, text, values)
    if not statement.has_calls:
        return session.sql(text, args=values)
    statement.refuse_what_is_read_later()
    return statement.made()


def refuse_value(name: str, value: object) -> None:
    """Refuse a value that Spark does not take as a literal: py4j says only which attribute it lacks."""
    try:
        lit(value)
    except (AttributeError, ValueError, PySparkException, Py4JError) as error:
        is_type = isinstance(error, AttributeError | TypeError)
        raise (InvalidType if is_type else InvalidValue)(
            f"args: {value!r:.60} is given for {name!r}, and Spark has no such literal; values are what "
            "pyspark.sql.functions.lit takes: numbers, text, times, lists of these, and Columns"
        ) from error


class Statement:
    """A statement of SQL whose calls of windowkit are replaced, one after the other, by DataFrames.

    What a name means is for Spark to say: a query in table(...) is run below all WITHs that it is in, each in
    its place.
    """

    def __init__(self, session: SparkSession, text: str, args: dict[str, Any] | None) -> None:
        self.session, self.text, self.args = session, text, args
        self.syntax = Syntax(text)
        self.tokens, self.words = self.syntax.tokens, self.syntax.words
        self.calls: dict[int, tuple[int, str, DataFrame]] = {}
        """Where calls begin: where they end, their names in braces, and what they stand for."""
        self.read = set[int]()
        """Where definitions begin that calls have read."""
        self.lefts: dict[int, list[tuple[int, int]]] = {}
        """The definitions that are left of WITHs, by where these begin."""
        self.said: dict[str, str] = {}
        """What strings say, by how they are written."""

    @property
    def has_calls(self) -> bool:
        """Whether there is a call of windowkit."""
        return any(self.syntax.end_of_call(at) is not None for at in range(len(self.tokens)))

    def refuse_what_is_read_later(self) -> None:
        """Refuse a statement that Spark reads otherwise, or at another time, than its calls are evaluated."""
        if "${" in self.text and self.session.conf.get("spark.sql.variable.substitute", "true") == "true":
            raise InvalidValue(
                "text: it has ${...}, in whose place Spark puts a setting before it reads the statement, and "
                "windowkit does not; format the text in Python, or give values by args"
            )
        words = self.words
        made = next((word for word in words if word not in MADE), "")
        if words[0] in MADE and made in ("view", "function"):
            raise InvalidValue(
                "text: it creates a view of windowkit(...), which Spark would look up when the view is read; "
                "give the select alone, and call createOrReplaceTempView of its result"
            )
        if words[0] == "cache":
            raise InvalidValue(
                "text: it caches windowkit(...), which Spark would look up when the name is read; give the "
                "select alone, and call cache and createOrReplaceTempView of its result"
            )
        if words[0] == "begin":
            raise InvalidValue(
                "text: it is a script, of which windowkit(...) would be evaluated before its statements; "
                "give statements one by one"
            )

    def made(self) -> DataFrame:
        """Return what the statement is."""
        self.replace_calls(0, len(self.tokens))
        text, frames = self.replaced(0, len(self.tokens))
        # Spark refuses comments that are not closed.
        before, after = self.text[: self.tokens[0].start], self.text[self.tokens[-1].end :]
        return self.run(f"{braced(before)}{text}{braced(after)}", frames)

    def replace_calls(self, first: int, end: int, depth: int = 0) -> None:
        """Evaluate the calls in a range of tokens, which is within `depth` others."""
        at = first
        while at < end:
            last = self.syntax.end_of_call(at)
            if last is None:
                at += 1
                continue
            if depth == DEEPEST:
                raise InvalidValue(f"text: more than {DEEPEST} calls of windowkit are within each other")
            windows = self.windows_of(at, last, depth + 1)
            self.calls[at] = last, f"windowkit_{len(self.calls)}", windows
            at = last + 1

    def replaced(self, first: int, end: int) -> tuple[str, dict[str, DataFrame]]:
        """Return the text of a range of tokens with names in braces for calls, and what these stand for.

        Definitions that calls alone read are left out, as Spark fails to optimise some plans with them twice.
        """
        pieces: list[str] = []
        frames: dict[str, DataFrame] = {}
        at = first
        done = self.tokens[first].start
        while at < end:
            if at in self.calls:
                last, name, frames[name] = self.calls[at]
                # After LATERAL, Spark takes a function of tables or a query, but not a name.
                is_lateral = at > first and self.words[at - 1] == "lateral"
                stands = f"(table {{{name}}})" if is_lateral else f"{{{name}}}"
            elif at in self.syntax.withs:
                each = self.syntax.withs[at]
                last = each.last
                stands, used = self.defining(each, self.left(each))
                frames |= used
            else:
                at += 1
                continue
            # A name may follow without a space.
            pieces += [braced(self.text[done : self.tokens[at].start]), f" {stands} "]
            at, done = last + 1, self.tokens[last].end
        return "".join([*pieces, braced(self.text[done : self.tokens[end - 1].end])]), frames

    def defining(
        self, each: With, definitions: Sequence[tuple[int, int]]
    ) -> tuple[str, dict[str, DataFrame]]:
        """Return the WITH of some definitions, with names in braces for calls, and what these stand for."""
        replaced = [self.replaced(begin, last + 1) for begin, last in definitions]
        begins = "with recursive" if each.is_recursive else "with"
        frames = {name: frame for _, used in replaced for name, frame in used.items()}
        return f"{begins} {', '.join(text for text, _ in replaced)}" if replaced else "", frames

    def left(self, each: With) -> list[tuple[int, int]]:
        """Return the definitions of a WITH but for those that calls alone read, where they were analysed."""
        if each.start not in self.lefts:
            others = {begin for begin, _ in each.definitions} - self.read
            self.lefts[each.start] = self.named(each.definitions, [(each.last + 1, each.until)], others)
        return self.lefts[each.start]

    def named(
        self, definitions: list[tuple[int, int]], ranges: list[tuple[int, int]], always: Collection[int] = ()
    ) -> list[tuple[int, int]]:
        """Return the definitions that ranges of tokens name, that such ones name, or that are given."""
        if len(always) == len(definitions):
            return definitions
        found: list[tuple[int, int]] = []
        names = {self.name_at(at) for at in self.outside_calls(ranges)}
        for begin, last in reversed(definitions):
            if begin in always or self.name_at(begin) in names:
                found.insert(0, (begin, last))
                names |= {self.name_at(at) for at in self.outside_calls([(begin + 1, last + 1)])}
        return found

    def run(self, text: str, frames: dict[str, DataFrame]) -> DataFrame:
        """Return what a text with names in braces is."""
        if not frames:
            return self.session.sql(text.replace("{{", "{").replace("}}", "}"), args=self.args)
        given: dict[str, Any] = dict(frames)
        return self.session.sql(text, args=self.args, **given)

    def table(self, first: int, end: int, depth: int) -> DataFrame:
        """Return what is in table(...): a query or a name, as it is meant there."""
        self.replace_calls(first, end, depth)
        text, frames = self.replaced(first, end)
        if self.words[first] not in QUERIES:
            text = f"table {text}"
        # In parentheses, as Spark has it, it cannot be a statement that changes something.
        text = f"select * from ({text})"
        inside = [(first, end)]
        withs = self.syntax.withs.values()
        self.refuse_legacy_names([each for each in withs if each.start < end and first < each.until])
        subquery = self.syntax.subquery(first)
        # In a subquery, and around it.
        texts: tuple[list[str], list[str]] = [], []
        for each in reversed([each for each in withs if each.start < first < each.until]):
            self.refuse_recursion(each, first, inside)
            # What is not read may hold windows, whose plans would be repeated with each call.
            defined = self.named([(begin, last) for begin, last in each.definitions if last < first], inside)
            self.read.update(begin for begin, _ in defined)
            inside += [(begin + 1, last + 1) for begin, last in defined]
            defining, used = self.defining(each, defined)
            texts[subquery is None or each.start < subquery].append(defining)
            frames |= used
        within = below(texts[False], text)
        found = self.run(below(texts[True], within), frames)
        if subquery is not None:
            found.schema  # noqa: B018  # Through Connect, too, what Spark does not take is its own error.
            self.refuse_variables(
                [each for each in inside if each[0] > subquery], within, texts[True], frames
            )
        return found

    def outside_calls(self, ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
        """Yield where the tokens of ranges are, but for calls, and definitions that only these read."""
        for first, end in ranges:
            at = first
            while at < end:
                if at in self.calls:
                    at = self.calls[at][0] + 1
                elif at in self.syntax.withs:
                    each = self.syntax.withs[at]
                    yield from self.outside_calls([(begin, last + 1) for begin, last in self.left(each)])
                    at = each.last + 1
                else:
                    yield at
                    at += 1

    def refuse_legacy_names(self, withs: Sequence[With]) -> None:
        """Refuse a name that several WITHs define, where the outer of two may come first."""
        names = [self.name_at(begin) for each in withs for begin, _ in each.definitions]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None and str(self.session.conf.get(LEGACY)).upper() == "LEGACY":
            raise InvalidValue(
                f"text: {twice} is defined twice; with {LEGACY}=LEGACY, Spark takes the inner definition in "
                "some places and the outer in others; give them different names"
            )

    def name_at(self, at: int) -> str:
        """Return the name that a token is, or that IDENTIFIER(...) says, as Spark compares names."""
        return folded(self.written_at(at))

    def written_at(self, at: int) -> str:
        """Return the name that a token is, or that IDENTIFIER(...) says."""
        # A definition may be called so, and have columns.
        is_name = at in self.syntax.defined and not self.syntax.is_identifier_clause(at)
        if self.words[at : at + 2] != ["identifier", "("] or is_name:
            return self.tokens[at].name
        last = closed(self.tokens, at + 2)
        said = self.value_of(self.text[self.tokens[at + 2].start : self.tokens[last - 1].end])
        # Spark parses it: it may have blanks and comments, and fields after the name.
        return next((token.name for token in tokens_of(said)), "")

    def refuse_variables(
        self, inside: list[tuple[int, int]], within: str, around: list[str], frames: dict[str, DataFrame]
    ) -> None:
        """Refuse variables of the session in a subquery, whose names may be columns of the query around it.

        Spark takes columns first. So if all names there were columns around it, they would be used where
        variables are now, which Spark refuses of a FULL JOIN.
        """

        def are_read(names: Collection[str]) -> bool:
            # A map has all fields, and fits nothing else.
            columns = ", ".join(f"map('', map('', map('', ''))) as {quoted(name)}" for name in names)
            joined = f"select 1 from ({within}) full join (select 1) on true"
            text = f"select 1 from (select {columns}) where exists ({joined})"
            return not self.is_analysed(below(around, text), frames)

        places = [at for at in self.outside_calls(inside) if self.tokens[at].is_name]
        written = {self.name_at(at): self.written_at(at) for at in places}
        names = [name for name in written.values() if name.lower() not in SCOPES]
        after = zip(self.tokens, [*self.words[1:], ""], strict=True)
        scopes = SCOPES & {token.name.lower() for token, following in after if following != "."}
        for name in [*names, *scopes] if are_read([*names, *scopes]) else ():
            is_read = are_read([name])
            if is_read and (name in scopes or self.is_analysed(f"select system.session.{quoted(name)}", {})):
                given = f"what is after {name}." if name in scopes else name
                raise InvalidValue(
                    f"text: {given} is a variable of the session where windowkit(...) is evaluated, and may "
                    "be a column of the query that this is in, which windowkit does not read; give the value "
                    "by args, or write session. before it, if no table or column is called session"
                )

    def is_analysed(self, text: str, frames: dict[str, DataFrame]) -> bool:
        """Whether Spark finds all that a query names, and takes it."""
        try:
            self.run(text, frames).schema  # noqa: B018  # Through Connect, this is when it is analysed.
        except AnalysisException:
            return False
        return True

    def refuse_recursion(self, each: With, first: int, inside: list[tuple[int, int]]) -> None:
        """Refuse a definition of a WITH that takes windows of itself, in a call that is at `first`."""
        around = [begin for begin, last in each.definitions if begin < first < last and each.is_recursive]
        for name in map(self.name_at, around):
            places = (at for at in self.outside_calls(inside) if self.name_at(at) == name)
            if any(self.syntax.expects_table(at) for at in places):
                raise InvalidValue(
                    f"text: the definition of {name} takes windows of {name}, which is not there yet; WITH "
                    "RECURSIVE may define it without them, for windowkit(...) to read it afterwards"
                )

    def windows_of(self, at: int, last: int, depth: int) -> DataFrame:
        """Return the windows that a call stands for."""
        (first, end), *others = self.syntax.arguments(at + 2, last)
        words = self.words[first:end]
        if len(words) < 2 or words[0] != "table":
            raise InvalidValue(f"text: the first argument of windowkit is not table(...); {FORM}")
        is_enclosed = words[1] == "("
        within = first + 1 + is_enclosed
        after = closed(self.tokens, within) if is_enclosed else self.syntax.end_of_name(within, end)
        if within == after:
            raise InvalidValue(f"text: nothing is in table(...); {FORM}")
        rest = after + is_enclosed
        if rest < end:
            raise self.unexpected(rest, end, "table(...)")
        frame = self.table(within, after, depth)
        if frame.isStreaming:
            raise InvalidValue(
                "text: what is in table(...) is a stream, and SQL has windows of batches; query.run(df) "
                "takes a streaming DataFrame, such as spark.table(name)"
            )
        given: dict[str, str] = {}
        for begin, stop in others:
            each = self.tokens[begin:stop]
            if not each:
                raise InvalidValue(f"text: nothing is after a comma in windowkit(...); {FORM}")
            kinds = [token.kind for token in each]
            is_named = kinds[:2] == ["word", "sign"] and each[1].text == "=>"
            is_parameter = kinds[2:4] == ["sign", "word"] and each[2].text == ":"
            # A string may be in several pieces.
            length = 4 if is_parameter else 2 + len([*takewhile("string".__eq__, kinds[2:])])
            if not is_named or length == 2:
                written = self.text[each[0].start : each[-1].end]
                raise InvalidValue(f"text: {written!r} is not an argument such as time => 'ts'; {FORM}")
            if length < len(each):
                raise self.unexpected(begin + length, stop, f"the value of {each[0].text}")
            name = each[0].text.strip("`").lower()
            if name not in map(str.lower, OPTIONS) or name in given:
                why = "is given twice" if name in given else f"is unknown{suggested(name, OPTIONS)}"
                raise InvalidValue(f"text: argument {each[0].text} {why}; arguments are {', '.join(OPTIONS)}")
            given[name] = self.value_of(self.text[each[2].start : each[-1].end])
        for name in ("time", "windows", "aggs"):
            if name not in given:
                raise InvalidValue(f"text: argument {name} is not given; {FORM}")
        query = query_of(given)
        where = self.where(at, last)
        return aggregate(frame, query) if where is None else unfiltered(frame, query, where)

    def unexpected(self, first: int, end: int, before: str) -> InvalidValue:
        """Return what is raised for a range of tokens in a call, after what is complete without it."""
        written = self.text[self.tokens[first].start : self.tokens[end - 1].end]
        return InvalidValue(
            f"text: {written!r} follows {before}, where nothing may; by => '...' names the keys, and "
            f"time => '...' the column by which rows are sorted; {FORM}"
        )

    def where(self, at: int, last: int) -> Condition | None:
        """Return the WHERE of a SELECT from a call alone, for what it says of rows; None if there is none.

        The statement keeps it. So where it is not understood, nothing is said of rows.
        """
        after, alias = last + 1, None
        words = self.words
        if at == 0 or words[at - 1] != "from":
            return None
        after += words[after : after + 1] == ["as"]
        if any(each.kind == "word" and each.keyword != "where" for each in self.tokens[after : after + 1]):
            alias, after = self.tokens[after].text.strip("`"), after + 1
        end = self.end_of_where(after + 1)
        if words[after : after + 1] != ["where"] or end == after + 1:
            return None
        try:
            read = condition(self.with_values(after + 1, end))
        except InvalidValue:
            return None
        return read if alias is None else replace(read, tree=unqualified(read.tree, alias))

    def end_of_where(self, first: int) -> int:
        """Return where a WHERE ends whose condition begins here."""
        words, end = self.words, closed(self.tokens, first)
        depth = 0
        for place in range(first, end):
            token = self.tokens[place]
            depth += {"(": 1, ")": -1}.get(words[place], 0)
            # A window may also be a column.
            is_named = words[place] == "window" and words[place + 2 : place + 3] == ["as"]
            is_pipe = self.text[token.start : token.start + 2] == "|>"
            begins = is_pipe or token.text == ";" or words[place] in AFTER_WHERE or is_named
            if depth == 0 and begins and not (place == first or self.misses_operand(place)):
                return place
        return end

    def misses_operand(self, place: int) -> bool:
        """Whether the token before this one is followed by an operand, such as a column called limit."""
        before = self.tokens[place - 1]
        is_field = self.tokens[place - 2].text == "."
        return (before.kind == "sign" and before.text not in ")]") or (
            self.words[place - 1] in OPERATORS and not is_field
        )

    def with_values(self, first: int, end: int) -> str:
        """Return the text of a range of tokens, with the values of parameters and of strings with escapes."""
        pieces, done = list[str](), self.tokens[first].start
        for at, token in enumerate(self.tokens[first:end], first):
            given: Any = None
            if token.text == ":" and at + 1 < end and self.tokens[at + 1].kind == "word":
                token = self.tokens[at + 1]
                given = (self.args or {}).get(token.text)
            elif token.kind == "string" and "\\" in token.text and token.text[0] != '"':
                given = self.value_of(token.text)
            if isinstance(given, str | int) and not isinstance(given, bool):
                value = literal(given) if isinstance(given, str) else str(given)
                if value.startswith("-") and self.text[: self.tokens[at].start].endswith("-"):
                    raise InvalidValue("text: a minus before a negative number would begin a comment")
                pieces += [self.text[done : self.tokens[at].start], value]
                done = token.end
        return "".join([*pieces, self.text[done : self.tokens[end - 1].end]])

    def value_of(self, text: str) -> str:
        """Return what a string of SQL says, which is for Spark to say of any but the plainest."""
        if PLAIN_STRING.fullmatch(text):
            return text[1:-1]
        if text not in self.said:
            found = self.session.sql(f"select {text}", args=self.args).collect()
            if len(found) != 1 or found[0][0] is None:
                given = "is null" if len(found) == 1 else f"has {len(found)} values"
                raise InvalidValue(f"text: {text} {given} where a string is expected")
            self.said[text] = str(found[0][0])
        return self.said[text]


def unqualified(tree: Tree, alias: str) -> Tree:
    """Return a condition whose columns are named without the alias of their table."""
    if isinstance(tree, Nested):
        return replace(tree, members=tuple(unqualified(each, alias) for each in tree.members))
    is_of_alias = isinstance(tree, Test) and len(tree.path) > 1 and tree.path[0].lower() == alias.lower()
    return replace(tree, path=tree.path[1:]) if isinstance(tree, Test) and is_of_alias else tree


def below(defining: Sequence[str], text: str) -> str:
    """Return a query within WITHs, of which the first is the innermost."""
    for each in filter(None, defining):
        text = f"{each} select * from ({text})"
    return text


def quoted(name: str) -> str:
    """Return a name as Spark takes any, beside names in braces."""
    return braced(f"`{name.replace('`', '``')}`")


def braced(text: str) -> str:
    """Return text as Spark takes it beside names in braces."""
    return text.replace("{", "{{").replace("}", "}}")
