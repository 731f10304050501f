"""SQL in which ``windowkit(table(...), ...)`` stands for the windows of a table, view or query.

Spark has table functions of Python, but not ones that take a table in Arrow batches and make columns that
depend on their arguments (SPARK-53286): those whose columns do are called for each row. So such calls are
evaluated here, by the same plans as `windowkit.Query.run`, and Spark gets the rest of the statement.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, suggested
from windowkit.language.conditions import Condition, Nested, Test, Tree, condition
from windowkit.language.tokens import Token, closed, tokens_of
from windowkit.spark.jobs import literal
from windowkit.spark.routes import aggregate, unfiltered
from windowkit.spark.scans import query_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["sql"]

PLAIN_STRING: Final = re.compile(r"'[^'\\]*'")
QUOTES: Final = '`"'
"""Of names: the double ones in sessions with spark.sql.ansi.doubleQuotedIdentifiers."""
OPTIONS: Final = ("by", "time", "windows", "aggs", "windowColumns", "weight", "fill")
AFTER_WHERE: Final = (
    *("group", "having", "order", "sort", "cluster", "distribute", "limit", "offset", "qualify"),
    *("union", "intersect", "except", "minus"),
)
"""What follows a WHERE, and begins no operator within it."""
OPERATORS: Final = (
    *("and", "or", "not", "in", "between", "is", "like", "ilike", "rlike", "regexp", "escape", "div"),
    *("case", "when", "then", "else", "from"),
)
"""After what, in a condition, an operand comes."""
QUERIES: Final = ("select", "with", "from", "values", "table", "(")
"""With what a query begins, unlike a name."""
AFTER_TABLE: Final = ("partition", "distribute", "order", "sort", "with")
"""With what begins, after a table's name, how Spark is to part and sort it."""
SET_OPERATIONS: Final = ("union", "intersect", "except", "minus")
HAVE_FROM: Final = ("trim", "extract", "substring", "substr", "overlay")
"""Functions whose arguments have a FROM."""
MADE: Final = ("create", "alter", "or", "replace", "global", "temporary", "temp")
"""With what a statement begins that makes a view, or something else."""
SHOWN: Final = ("spark.sql.debug.maxToStringFields", "spark.sql.maxPlanStringLength")
"""How many columns Spark shows of each step of a plan, and how many characters of all."""
VARIABLE: Final = re.compile(r"variablereference\((?:\w+\.)*(\w+|`(?:[^`]|``)*`)=")
"""How plans of Spark show that a name is a variable of the session."""
LEGACY: Final = "spark.sql.legacy.ctePrecedencePolicy"
DEEPEST: Final = 64
"""How many calls may be within each other, as reading them calls itself for each."""
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
    statement = Statement(session, text, values)
    if not statement.has_calls:
        return session.sql(text, args=values)
    statement.refuse_what_is_read_later()
    return statement.made()


class Statement:
    """A statement of SQL whose calls of windowkit are replaced, one after the other, by DataFrames.

    Only tokens, parentheses and WITHs are looked for. What a name means is for Spark to say: a query in
    table(...) is run below all WITHs that it is in, each in its place.
    """

    def __init__(self, session: SparkSession, text: str, args: dict[str, Any] | None) -> None:
        self.session, self.text, self.args = session, text, args
        self.tokens = list(tokens_of(text))
        self.words = [token.keyword for token in self.tokens]
        self.withs = list(withs(self.tokens))
        self.defined = {begin for each in self.withs for begin, _ in each.definitions}
        """Where names are defined."""
        self.calls: dict[int, tuple[int, str, DataFrame]] = {}
        """Where calls begin: where they end, their names in braces, and what they stand for."""

    @property
    def has_calls(self) -> bool:
        """Whether there is a call of windowkit."""
        return any(self.end_of_call(at) is not None for at in range(len(self.tokens)))

    def end_of_call(self, at: int) -> int | None:
        """Return where a call of windowkit ends that begins here; None if none does."""
        # What looks like one may be a definition with the names of its columns.
        return None if at in self.defined else end_of_call(self.tokens, at)

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
            last = self.end_of_call(at)
            if last is None:
                at += 1
                continue
            if depth == DEEPEST:
                raise InvalidValue(f"text: more than {DEEPEST} calls of windowkit are within each other")
            windows = self.windows_of(at, last, depth + 1)
            self.calls[at] = last, f"windowkit_{len(self.calls)}", windows
            at = last + 1

    def replaced(self, first: int, end: int) -> tuple[str, dict[str, DataFrame]]:
        """Return the text of a range of tokens with names in braces for calls, and what these stand for."""
        pieces: list[str] = []
        frames: dict[str, DataFrame] = {}
        at = first
        done = self.tokens[first].start
        while at < end:
            if at not in self.calls:
                at += 1
                continue
            last, name, frames[name] = self.calls[at]
            # After LATERAL, Spark takes a function of tables or a query, but not a name.
            is_lateral = at > first and self.words[at - 1] == "lateral"
            # A name may follow without a space.
            stands = f" (table {{{name}}}) " if is_lateral else f" {{{name}}} "
            pieces += [braced(self.text[done : self.tokens[at].start]), stands]
            at, done = last + 1, self.tokens[last].end
        return "".join([*pieces, braced(self.text[done : self.tokens[end - 1].end])]), frames

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
        around = [each for each in self.withs if each.start < first < each.until]
        self.refuse_legacy_names([each for each in self.withs if each.start < end and first < each.until])
        for each in reversed(around):
            defined = list[str]()
            for begin, last in reversed(each.definitions):
                # What is not read may hold windows, whose plans would be repeated with each call.
                if not self.is_named(self.name_at(begin), inside):
                    continue
                if begin < first < last and each.is_recursive:
                    self.refuse_recursion(begin)
                if last < first:
                    inside.append((begin, last + 1))
                    definition, used = self.replaced(begin, last + 1)
                    defined.insert(0, definition)
                    frames |= used
            if defined:
                begins = "with recursive" if each.is_recursive else "with"
                text = f"{begins} {', '.join(defined)} select * from ({text})"
        found = self.run(text, frames)
        if self.may_name_columns_of_others(first):
            self.refuse_variables(text, frames, inside)
        return found

    def is_named(self, name: str, ranges: Sequence[tuple[int, int]]) -> bool:
        """Whether a name is in ranges of tokens, outside the calls in them."""
        return any(name == self.name_at(at) for at in self.outside_calls(ranges))

    def outside_calls(self, ranges: Sequence[tuple[int, int]]) -> Iterator[int]:
        """Yield where the tokens of ranges are, but for calls that have been evaluated."""
        for first, end in ranges:
            at = first
            while at < end:
                if at in self.calls:
                    at = self.calls[at][0]
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
        written = self.tokens[at].text
        # A definition may be called so, and have columns.
        is_name = at in self.defined and not is_identifier_clause(self.tokens, at)
        if self.words[at : at + 2] == ["identifier", "("] and not is_name:
            last = closed(self.tokens, at + 2)
            said = self.value_of(self.text[self.tokens[at + 2].start : self.tokens[last - 1].end])
            # Spark parses it: it may have blanks and comments, and fields after the name.
            written = next((token.text for token in tokens_of(said)), "")
        return written.strip(QUOTES).lower()

    def may_name_columns_of_others(self, at: int) -> bool:
        """Whether a query here may name columns of one that it is in.

        A query in a FROM is in what this is in, and so are definitions of a WITH.
        """
        return any(self.is_subquery(place) for place in self.opened(at))

    def opened(self, at: int) -> list[int]:
        """Return where the parentheses are opened that a token is in."""
        places = [place for place in range(at) if self.words[place] == "("]
        return [place for place in places if closed(self.tokens, place + 1) >= at]

    def is_subquery(self, at: int) -> bool:
        """Whether a parenthesis opens a subquery, or what is after LATERAL, rather than a table."""
        is_call = self.words[at - 1 : at] == ["windowkit"]
        first, before = ["", "", *self.words[: at - is_call]][-2:]
        if is_call or before == "lateral":
            return before == "lateral"
        if before == "(" or self.words[at + 1] not in QUERIES:
            return False
        if closed(self.tokens, at + 1) in {last for each in self.withs for _, last in each.definitions}:
            return False
        if before in ("all", "distinct"):
            return first not in SET_OPERATIONS
        if before == "from":
            around = self.opened(at)[-1:]
            return first == "distinct" or any(self.words[each - 1] in HAVE_FROM for each in around if each)
        # Before it there may be a string: a function's name in double quotes.
        return at > 0 and before not in ("join", "table", *SET_OPERATIONS)

    def refuse_variables(
        self, text: str, frames: dict[str, DataFrame], inside: Sequence[tuple[int, int]]
    ) -> None:
        """Refuse variables of the session in a query, whose names may be columns of another query there."""
        before = {name: self.session.conf.get(name) for name in SHOWN}
        try:
            for name in SHOWN:
                self.session.conf.set(name, "1000000000")
            # What Spark cannot plan is explained in several rows.
            explained = self.run(f"explain extended {text}", frames).collect()
        finally:
            for name, value in before.items():
                self.session.conf.set(name, str(value))
        variables = {
            name.strip("`").lower() for name in VARIABLE.findall("\n".join(row[0] for row in explained))
        }
        for at in self.outside_calls(inside) if variables else ():
            name = self.name_at(at)
            if name in variables and self.words[at - 1] != ".":
                raise InvalidValue(
                    f"text: {name} is a variable of the session where windowkit(...) is evaluated, and may "
                    "be a column of the query that this is in, which windowkit does not read; say that it is "
                    f"the variable by session.{name}, or give the value by args"
                )

    def refuse_recursion(self, begin: int) -> None:
        """Refuse a definition, which begins here, that takes windows of itself."""
        name = self.name_at(begin)
        raise InvalidValue(
            f"text: the definition of {name} takes windows of {name}, which is not there yet; WITH "
            "RECURSIVE may define it without them, for windowkit(...) to read it afterwards"
        )

    def windows_of(self, at: int, last: int, depth: int) -> DataFrame:
        """Return the windows that a call stands for."""
        (first, end), *others = arguments(self.tokens, at + 2, last)
        words = self.words[first:end]
        if len(words) < 2 or words[0] != "table":
            raise InvalidValue(f"text: the first argument of windowkit is not table(...); {FORM}")
        is_enclosed = words[1] == "("
        within = first + 1 + is_enclosed
        after = closed(self.tokens, within) if is_enclosed else end_of_name(self.tokens, within, end)
        if within == after:
            raise InvalidValue(f"text: nothing is in table(...); {FORM}")
        rest = after + is_enclosed
        if rest < end:
            written = self.text[self.tokens[rest].start : self.tokens[end - 1].end]
            raise InvalidValue(
                f"text: {written!r} follows table(...), where nothing may; by => '...' names the keys, and "
                f"time => '...' the column by which rows are sorted; {FORM}"
            )
        frame = self.table(within, after, depth)
        if frame.isStreaming:
            raise InvalidValue(
                "text: what is in table(...) is a stream, and SQL has windows of batches; query.run(df) "
                "takes a streaming DataFrame, such as spark.table(name)"
            )
        given: dict[str, str] = {}
        for begin, stop in others:
            each = self.tokens[begin:stop]
            written = self.text[each[0].start : each[-1].end] if each else ""
            kinds = [token.kind for token in each]
            is_named = kinds[:2] == ["word", "sign"] and each[1].text == "=>"
            # A string may be in several pieces.
            is_string = {*kinds[2:]} == {"string"}
            is_parameter = kinds[2:] == ["sign", "word"] and each[2].text == ":"
            if not is_named or not (is_string or is_parameter):
                raise InvalidValue(f"text: {written!r} is not an argument such as time => 'ts'; {FORM}")
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
        """Return the text of a range of tokens, with strings and numbers in place of their parameters."""
        pieces, done = list[str](), self.tokens[first].start
        for at in range(first, end - 1):
            name, given = self.tokens[at + 1], None
            if self.tokens[at].text == ":" and name.kind == "word":
                given = (self.args or {}).get(name.text)
            if isinstance(given, str | int) and not isinstance(given, bool):
                value = literal(given) if isinstance(given, str) else str(given)
                if value.startswith("-") and self.text[: self.tokens[at].start].endswith("-"):
                    raise InvalidValue("text: a minus before a negative number would begin a comment")
                pieces += [self.text[done : self.tokens[at].start], value]
                done = name.end
        return "".join([*pieces, self.text[done : self.tokens[end - 1].end]])

    def value_of(self, text: str) -> str:
        """Return what a string of SQL says, which is for Spark to say of any but the plainest."""
        if PLAIN_STRING.fullmatch(text):
            return text[1:-1]
        found = self.session.sql(f"select {text}", args=self.args).collect()
        if len(found) != 1 or found[0][0] is None:
            given = "is null" if len(found) == 1 else f"has {len(found)} values"
            raise InvalidValue(f"text: {text} {given} where a string is expected")
        return str(found[0][0])


def unqualified(tree: Tree, alias: str) -> Tree:
    """Return a condition whose columns are named without the alias of their table."""
    if isinstance(tree, Nested):
        return replace(tree, members=tuple(unqualified(each, alias) for each in tree.members))
    is_of_alias = isinstance(tree, Test) and len(tree.path) > 1 and tree.path[0].lower() == alias.lower()
    return replace(tree, path=tree.path[1:]) if isinstance(tree, Test) and is_of_alias else tree


def end_of_call(tokens: Sequence[Token], at: int) -> int | None:
    """Return where the parenthesis is closed of a call of windowkit that begins here; None if none does."""
    begins = [token.keyword for token in tokens[at : at + 2]] == ["windowkit", "("]
    if not begins or (at and tokens[at - 1].text == "."):
        return None
    depth = 0
    for place in range(at + 1, len(tokens)):
        depth += {"(": 1, ")": -1}.get(tokens[place].keyword, 0)
        if depth == 0:
            return place
    raise InvalidValue(f"text: the parenthesis of windowkit( is not closed; {FORM}")


def end_of_name(tokens: Sequence[Token], first: int, end: int) -> int:
    """Return where the name of a table ends that begins here, in an argument that ends at `end`."""
    for at in range(first + 1, end):
        if tokens[at].keyword in AFTER_TABLE and tokens[at - 1].text != ".":
            return at
    return end


def withs(tokens: Sequence[Token]) -> Iterator[With]:
    """Yield each WITH of a statement that defines queries, an outer one before those in it."""
    words = [token.keyword for token in tokens]
    for start, word in enumerate(words):
        if word != "with":
            continue
        is_recursive = words[start + 1 : start + 2] == ["recursive"] and words[start + 2 : start + 3] != ["("]
        found: list[tuple[int, int]] = []
        at = start + 1 + is_recursive
        while (last := end_of_definition(tokens, words, at)) is not None:
            found.append((at, last))
            if words[last + 1 : last + 2] != [","]:
                break
            at = last + 2
        if found:
            yield With(found, start, closed(tokens, start), is_recursive)


def end_of_definition(tokens: Sequence[Token], words: Sequence[str], at: int) -> int | None:
    """Return where the query ends of ``name (columns) max recursion level n as (query)``; None if it is none.

    All but the name and the query may be left out.
    """
    place = closed(tokens, at + 2) + 1 if is_identifier_clause(tokens, at) else at + 1
    if words[place : place + 1] == ["("]:
        after = closed(tokens, place + 1) + 1
        # Without AS, what is in parentheses may be the query, and what follows another one.
        if words[after : after + 1] == ["as"] or are_names(tokens[place + 1 : after - 1]):
            place = after
    if words[place : place + 3] == ["max", "recursion", "level"]:
        # A number, or a parameter.
        place += 4 + (words[place + 3 : place + 4] == [":"])
    if words[place : place + 1] == ["as"]:
        place += 1
    if words[place : place + 1] != ["("]:
        return None
    last = closed(tokens, place + 1)
    return None if last == len(tokens) else last


def is_identifier_clause(tokens: Sequence[Token], at: int) -> bool:
    """Whether IDENTIFIER('name') or IDENTIFIER(:name) begins here; a name has columns after it."""
    words = [token.keyword for token in tokens[at : at + 2]]
    within = tokens[at + 2 : closed(tokens, at + 2)]
    return words == ["identifier", "("] and any(each.kind != "word" and each.text != "," for each in within)


def are_names(tokens: Sequence[Token]) -> bool:
    """Whether tokens are names that are separated by commas."""
    return len(tokens) % 2 == 1 and all(
        token.text == "," if at % 2 else token.kind in ("word", "string") for at, token in enumerate(tokens)
    )


def arguments(tokens: Sequence[Token], first: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the ranges between the commas of a call."""
    depth, begin = 0, first
    for at in range(first, end):
        sign = tokens[at].keyword
        depth += {"(": 1, ")": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield begin, at
            begin = at + 1
    yield begin, end


def braced(text: str) -> str:
    """Return text as Spark takes it beside names in braces."""
    return text.replace("{", "{{").replace("}", "}}")
