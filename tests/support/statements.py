"""Statements of SQL whose windows are written as calls of windowkit, or with Spark's own functions.

Statements are of the columns k, t and v, and read the views r and s, which `VIEWS` makes. What is between
brackets, `[[...]]`, stands for the windows of a name or query: see `written`.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable

__all__ = ["SCOPES", "VIEWS", "Statements", "written"]

VIEW = (
    "select k, timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, n) as t, {} + n as v "
    "from (select explode(array('a', 'b')) as k), range(90) as x(n) where n % 30 = 0"
)
VIEWS = {name: VIEW.format(base) for name, base in (("r", 1), ("s", 1000))}
OPTIONS = "by => 'k', time => 't', windows => {}, aggs => 'sum(v) as sv', windowColumns => 'struct'"
INNERMOST = re.compile(r"\[\[((?:(?!\[\[|\]\]).)*)\]\]", re.DOTALL)
NAME = re.compile(r"(?:\w|`[^`]*`|\.)+")


MORE = "select k, t, v + {} as v from {}"
SCOPES = [
    f"with r ({MORE.format(5, 's')}) (select k, sv from [[r]])",
    f"with q (select 1), r ({MORE.format(5, 's')}) (select k, sv from [[select * from r]])",
    "with r (table s) (select k, sv from [[r]])",
    "with r (table s) (select k, sv from [[r]]) union all (select k, sv from [[s]])",
    "with r (k, t, v) (table s) (select k, sv from [[r]])",
    "with r (identifier('k'), t, v) as (table s) select k, sv from [[r]]",
    "with r (identifier('k'), t, v) (table s) select k, sv from [[r]]",
    "with r (t, k, identifier('v')) (select t, k, v from s) select k, sv from [[r]]",
    "with `\u0131d` as (table s) select k, sv from [[ID]]",
    "with `\u03c3` as (table s) select k, sv from [[`\u03c2`]]",
    "with `in` as (table r) select k, sv from (select k, sv, 1 as with from "
    "[[select * from s where k in ('a')]]) where with in (select 1)",
    "select v as with from (select k, sv as v from [[r]])",
    "select k, 1 as with, with in (select 1) and k in (select k from [[s]]) as x from r",
    "select k from (select k, 1 as with from s) where (with in (select 1) and k in (select k from [[r]]))",
    "select k from (select k, 1 as with from s) where k in (select k from [[r]]) and (with in (select 1))",
    "with a as (table s), b as (table a) select k, sv from [[with c as (table b) table c]]",
    "with a as (table s), b as (select * from a where v > 1000) select k, sv from [[b]] union all "
    "select k, v from a",
    "with a as (table s) select * from (with b as (table a), c as (table b) select k, sv from [[b]])",
    "w\u0131th r (table s) \u017felect k, sv from [[r]]",
    "with r (table s) from [[r]] select k, sv where k = 'a'",
    "with r (k, t, v) as (with r as (table s) table r) select k, sv from [[r]]",
    "with r as (with s as (table r) table s) select k, sv from [[r]] union all select k, sv from [[s]]",
    "with s as (table r), r as (table s) select k, sv from [[r]]",
    "with s as (table r) select k, sv from "
    "[[with r as (select k, window.start as t, sv as v from [[s]]) table r]]",
    "with recursive r as (select 'a' as k, timestamp'2024-01-01' as t, 1 as v union all "
    "select k, t, v + 1 from r where v < 3) select k, sv from [[r]]",
    "with recursive x as (select 'a' as k, 1 as n union all select k, n + 1 from x where n < 3) "
    "select * from x join [[r]] using (k)",
    "select k, (with r as (table s) select max(sv) from [[r]]) as m, sv from [[r]]",
    "select k from s where exists (with s as (table r) select 1 from [[s]] where sv > 5)",
    "select k, v from s where v > (select max(w.sv) from [[r]] w where w.k = s.k)",
    "select k from s where exists (select 1 from [[r]] w where w.k = s.k and v = 1000)",
    "select s.k, w.sv from s, lateral [[r]] w",
    "select s.k, w.sv from s join lateral [[r]] as w (k, x, sv) on s.k = w.k where w.k = 'a'",
    "select k, sv from [[r]] union all select k, sv from [[s]] intersect "
    "(with r as (table s) select k, sv from [[r]])",
    "with r as (table s) table r |> join [[r]] w on r.k = w.k |> aggregate sum(w.sv) as z group by r.k",
    "from [[from r |> where v > 1 |> extend v * 2 as w |> set v = w]] |> where k = 'a' |> select k, sv",
    "select * from [[values ('q', timestamp'2024-01-01', 5) as x(k, t, v)]] pivot (sum(sv) for k in ('q'))",
    "select k, x, y from [[r]] tablesample (100 percent) unpivot (x for y in (sv))",
    "with `a.b (` as (table s) select k, sv from [[`a.b (`]]",
    "with r as (table s) select k, sv from [[identifier(' r /* a comment */')]]",
    "with identifier('`r` ') as (table s) select k, sv from [[r]]",
    "with r as (select k, t, v, r'\\' as w, R\"\\\" as x, 1.5e-3BD as y from s) select k, sv from [[r]]",
    "select k, sv from [[r]] where sv > 1 |> set k = 'b' |> where sv > 3 and k = 'b'",
]
"""What names mean that are defined where a call is, and elsewhere."""
CONDITIONS = (
    "w.k = 'a'",
    "k = 'a' or k = 'b'",
    "!(k = 'a')",
    "k = 'a' = false",
    "(k = 'b') is not true",
    "k like 'a%' escape '/'",
    "k = 'a' 'b'",
    "'a' < k",
    "k in (select k from s where v = 1000)",
    "window.start >= '2024-01-01 00:01:00'",
    "window.end < '2024-01-01 00:01:30'",
    "window.start between '2024-01-01' and timestamp'2024-01-01 00:00:59'",
    "case when k = 'a' then sv > 3 else k = 'b' end",
    "case when window.end > timestamp'2024-01-01 00:01:30' and k = 'a' and sv > 3 then false else true end",
    "sv > (select min(sv) from (select 40 as sv) where 'b' = 'b')",
    r"window.end > '2024-01-01 00:0\u0031:00' and k = '\u0061'",
)


NAMES = ("r", "S", "`r`", "s", "R", "identifier('s')")
NOISE = (
    "/* windowkit( /* nested ' ( */ still a comment ) \" */",
    "-- a comment with ' and ( that goes on \\\n and on with windowkit(\n",
    "/*+ COALESCE(1) */",
)
ALWAYS = (
    r"""r"\" <> ')'""",
    r"""'\'' <> '(' 'with r as (select 1)'""",
    """')' <> "" """,
    r"'it''s' <> '\\'",
    "`k` = `k`",
    "'{' <> '}'",
)
WINDOWS = (
    "'tumbling(1 minute)'",
    "r'tumbling(1 minute)'",
    "'tumbling(' '1 minute)'",
    r"'tumbling(1\u0020minute)'",
    '"tumbling(1 minute)"',
)


def written(text: str, *, ours: bool, seed: int = 0) -> str:
    """Return a statement with its windows as calls of windowkit, or by Spark's own functions."""
    draw = random.Random(seed)

    def windows(found: re.Match[str]) -> str:
        inner = found[1]
        if ours:
            options = OPTIONS.format(draw.choice(WINDOWS))
            return f"windowkit(table({inner}), {draw.choice(('', *NOISE[:2]))} {options})"
        rows = inner if NAME.fullmatch(inner) else f"({inner})"
        return f"(select k, window(t, '1 minute') as window, sum(v) as sv from {rows} group by 1, 2)"

    while (replaced := INNERMOST.sub(windows, text)) != text:
        text = replaced
    return text


class Statements:
    """Random queries of k, t and v, whose windows are in brackets."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def query(self, depth: int) -> str:
        """Return a query that has others within it, down to a depth."""
        if depth == 0:
            return f"select {self.noise()} k, t, v from {self.name()} where {self.draw.choice(ALWAYS)}"
        kinds: list[Callable[[int], str]] = [
            *(self.windows, self.windows, self.windows, self.within, self.within, self.within),
            *(self.more, self.union, self.lateral, self.piped, self.correlated, self.recursive, self.sampled),
        ]
        return self.draw.choice(kinds)(depth - 1)

    def name(self) -> str:
        return self.draw.choice(NAMES)

    def noise(self) -> str:
        return self.draw.choice(("", *NOISE[:2]))

    def more(self, depth: int) -> str:
        compared, hint = self.draw.choice(("in", "not in")), self.draw.choice(NOISE)
        return (
            f"select {hint} k, t, v + {self.draw.randrange(9)} as v from ({self.query(depth)})"
            f" where v {compared} (select max(v) {self.noise()} from {self.name()})"
        )

    def union(self, depth: int) -> str:
        how = self.draw.choice(("union all", "except all", "intersect", "union"))
        return f"({self.query(depth)}) {how} ({self.query(depth)})"

    def lateral(self, depth: int) -> str:
        if self.draw.random() < 0.5:
            return f"select w.k, a.t, w.sv as v from ({self.query(depth)}) a, lateral [[{self.name()}]] w"
        return f"select b.* from ({self.query(depth)}) a, lateral (select a.k, a.t, a.v * 3 as v) b"

    def piped(self, depth: int) -> str:
        pipe = self.draw.choice(("where k = 'a'", "set v = v + 1", "extend 1 as one |> drop one", "as p"))
        return f"from ({self.query(depth)}) {self.noise()} |> {pipe} |> select k, t, v"

    def correlated(self, depth: int) -> str:
        where = f"w.k = o.k and {self.condition()}"
        if self.draw.random() < 0.5:
            exists = f"exists (select 1 from [[{self.name()}]] w where {where})"
            return f"select * from ({self.query(depth)}) o where {exists}"
        value = f"(select max(w.sv) from [[{self.query(depth)}]] w where {where})"
        return f"select o.k, o.t, coalesce({value}, 0) as v from {self.name()} o"

    def recursive(self, depth: int) -> str:
        name = self.draw.choice(("r", "s", "other"))
        first = "select 'a' as k, timestamp'2024-01-01' as t, 1 as v"
        defined = f"{first} union all select k, t, v + 1 as v from {name} where v < 4"
        return f"with recursive {name} as ({defined}), last ({self.query(depth)}) table last"

    def sampled(self, depth: int) -> str:
        return f"select p.k, p.t, p.v from ({self.query(depth)}) tablesample (100 percent) as p"

    def within(self, depth: int) -> str:
        defined = []
        for _ in range(self.draw.randrange(1, 3)):
            name = ("r", "s")[len(defined)] if self.draw.random() < 0.8 else f"other{len(defined)}"
            name = f"identifier('{name}')" if self.draw.random() < 0.2 else name
            form = self.draw.choice(("{} as ({})", "{} ({})", "{} (k, t, v) as ({})", "{} (k, t, v) ({})"))
            defined.append(form.format(name, self.query(self.draw.randrange(depth + 1))))
        body = self.draw.choice(("select * from ({})", "({})")).format(self.query(depth))
        return f"with {', '.join(defined)} {self.noise()} {body}"

    def condition(self) -> str:
        joined = self.draw.choice((" and ", " or "))
        count = self.draw.randrange(1, 4)
        conditions = [
            f"w.k = '{self.draw.choice('ab')}'",
            *(self.draw.choice(CONDITIONS) for _ in range(count)),
        ]
        text = joined.join(conditions[-count:])
        return f"(not ({text}))" if self.draw.random() < 0.2 else f"({text})"

    def windows(self, depth: int) -> str:
        rows = self.name() if self.draw.random() < 0.4 else f"{self.noise()} {self.query(depth)}"
        where = f"where {self.condition()[1:-1]}" if self.draw.random() < 0.5 else ""
        return f"select w.k, w.window.start as t, w.sv as v from [[{rows}]] w {where}"
