"""`spark.sql`: windows of tables, views and queries within SQL, against the queries themselves."""

import datetime as dt
import random

import pytest
from pyspark.errors import AnalysisException

import windowkit as wk

OPTIONS = "by => 'device', time => 'ts', windows => 'tumbling(1 hour)', aggs => 'sum(v)'"
CALL = f"windowkit(table(readings), {OPTIONS})"
QUERY = wk.query(by="device", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("v"))


@pytest.fixture(autouse=True)
def view(readings):
    readings.createOrReplaceTempView("readings")


def rows(frame):
    return sorted(map(repr, frame.collect()))


def test_a_call_is_the_query_over_the_table(spark, readings):
    expected = QUERY.run(readings)
    found = wk.spark.sql(spark, f"select * from {CALL}")
    assert found.schema == expected.schema
    assert rows(found) == rows(expected) != []


def test_calls_in_a_larger_statement(spark, readings):
    """Over queries and over each other, beside strings and comments, joined, and with braces."""
    text = """
        with big as (select *, '{' as brace from readings where v > 0) -- windowkit(
        select a.device, a.window_start, a.`sum(v)`, b.n, 'windowkit(table(x))' as text, '{x}' as braces
        from WindowKit(
            table (select * from readings where v > 0), by => 'device', time => 'ts', /* ) */
            windows => 'tumbling(1 hour)', aggs => 'sum(v)'
        ) a
        join windowkit(table readings, `by` => 'device', time => "ts", windows => r'tumbling(1 hour)',
            aggs => 'count(v) as n', windowColumns => 'struct') b
        on a.device = b.device and a.window_start = b.window.start
    """
    hours = {"by": "device", "time": "ts", "windows": wk.tumbling("1 hour")}
    a = wk.query(**hours, aggs=wk.sum("v")).run(readings.where("v > 0")).drop("window_end")
    b = wk.query(**hours, aggs=wk.count("v").alias("n")).run(readings).drop("window_end")
    found = wk.spark.sql(spark, text)
    assert found.columns == ["device", "window_start", "sum(v)", "n", "text", "braces"]
    assert {(row["text"], row["braces"]) for row in found.collect()} == {("windowkit(table(x))", "{x}")}
    assert rows(found.drop("text", "braces")) == rows(a.join(b, ["device", "window_start"])) != []


def test_a_call_within_the_table_of_another(spark, readings):
    text = f"""
        select * from windowkit(
            table(select window_start as ts, `sum(v)` as s from {CALL}),
            time => 'ts', windows => 'tumbling(1 day)', aggs => 'max(s) as it''s'
        )
    """
    inner = QUERY.run(readings).selectExpr("window_start as ts", "`sum(v)` as s")
    query = wk.query(by=[], time="ts", windows=wk.tumbling("1 day"), aggs=wk.max("s").alias("it's"))
    found = wk.spark.sql(spark, text)
    assert found.columns == ["window_start", "window_end", "it's"]
    assert rows(found) == rows(query.run(inner)) != []


WITH_X = """
    with unused as (select 1), raw as (select * from readings where v > 0),
        x (device, ts, v) as (select device, ts, v from raw)
    {}
"""
OF_X = f"select * from windowkit(table(x), {OPTIONS})"


@pytest.mark.parametrize(
    "text",
    [
        WITH_X.format(OF_X),
        WITH_X.format(OF_X.replace("table(x)", "table X")),
        WITH_X.format(OF_X.replace("table(x)", "table(select * from `x`)")),
        WITH_X.format(OF_X.replace("table(x)", "table(with y as (select * from x) select * from y)")),
        WITH_X.format(f", w as ({OF_X}) select * from w"),
        f"select * from ({WITH_X.format(OF_X)})",
        f"with raw as (select 1) select * from ({WITH_X.format(OF_X)})",
    ],
)
def test_what_a_with_defines_is_a_table(spark, readings, text):
    expected = QUERY.run(readings.where("v > 0"))
    found = wk.spark.sql(spark, text)
    assert found.schema == expected.schema
    assert rows(found) == rows(expected) != []


def test_what_a_with_defines_may_hold_windows(spark, readings):
    text = f"""
        with hours as (select window_start as ts, `sum(v)` as s from {CALL})
        select * from windowkit(table(hours), time => 'ts', windows => 'tumbling(1 day)', aggs => 'max(s)')
    """
    inner = QUERY.run(readings).selectExpr("window_start as ts", "`sum(v)` as s")
    query = wk.query(by=[], time="ts", windows=wk.tumbling("1 day"), aggs=wk.max("s"))
    assert rows(wk.spark.sql(spark, text)) == rows(query.run(inner)) != []


def test_a_definition_holds_in_its_statement_alone(spark):
    text = f"select * from (with x as (select * from readings) select * from x) a, ({OF_X}) b"
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        wk.spark.sql(spark, text)


def test_other_statements_are_sparks(spark):
    assert wk.spark.sql(spark, "select '{' as windowkit").collect() == [("{",)]


def test_parameters_of_statements(spark):
    call = CALL.replace("table(readings)", "table(select * from readings where v >= :least)")
    text = f"select * from {call} where window_start >= :since order by all"
    plainly = text.replace(":least", "2").replace(":since", "timestamp '1970-01-01 00:00:00Z'")
    given = {"least": 2, "since": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)}
    found = wk.spark.sql(spark, text, args=given).collect()
    assert found == wk.spark.sql(spark, plainly).collect()
    assert found
    assert wk.spark.sql(spark, "select :n as n", args={"n": 3}).collect() == [(3,)]
    for wrong in ([2], {1: 2}):
        with pytest.raises(wk.InvalidType, match=r"args: .* is given; args is a dict"):
            wk.spark.sql(spark, text, args=wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("windowkit(readings, time => 'ts')", r"the first argument of windowkit is not table\(\.\.\.\)"),
        ("windowkit(table(), time => 'ts')", r"nothing is in table\(\.\.\.\)"),
        ("windowkit(table(readings), 'ts')", "\"'ts'\" is not an argument such as time => 'ts'"),
        ("windowkit(table(readings), times => 'ts')", "argument times is unknown; did you mean 'time'"),
        ("windowkit(table(readings), time => 'ts', time => 'ts')", "argument time is given twice"),
        ("windowkit(table(readings), time => 'ts', aggs => 'sum(v)')", "argument windows is not given"),
        ("windowkit(table(readings), ", "the parenthesis of windowkit\\( is not closed"),
        (CALL.replace("'sum(v)'", "'sum(w)'"), "no column 'w'"),
        (CALL.replace("sum(v)", "total(v)"), "'total\\(v\\)' is not an aggregate"),
    ],
)
def test_malformed_calls_are_refused(spark, call, message):
    with pytest.raises(wk.WindowKitError, match=message):
        wk.spark.sql(spark, f"select * from {call}")


def test_views_are_made_of_results(spark):
    with pytest.raises(wk.InvalidValue, match="it creates a view"):
        wk.spark.sql(spark, f"create or replace temporary view w as select * from {CALL}")
    with pytest.raises(wk.InvalidType, match="text is SQL, a str"):
        wk.spark.sql(spark, 3)


def test_calls_take_weight_and_fill(spark):
    spark.sql(
        "select timestamp_seconds(t) as ts, w from values (0, 1), (130, 1), (130, 1), (131, -1) as of(t, w)"
    ).createOrReplaceTempView("weighted")
    options = "time => 'ts', windows => 'tumbling(1 minute)', aggs => 'count(*) as n'"
    text = f"select n from windowkit(table(weighted), {options}, weight => 'w') order by window_start"
    assert [row["n"] for row in wk.spark.sql(spark, text).collect()] == [1, 1]
    text = f"select n from windowkit(table(weighted), {options}, fill => 'zero') order by window_start"
    assert [row["n"] for row in wk.spark.sql(spark, text).collect()] == [1, 0, 3]
    with pytest.raises(wk.InvalidValue, match="fill: 'none' is unknown"):
        wk.spark.sql(spark, text.replace("'zero'", "'none'"))


NAMES = ("r", "S", "`r`", "s", "R")
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


class Statements:
    """Random queries of k, t and v, in which the windows of a query are written in one of two ways."""

    def __init__(self, seed, ours):
        self.draw, self.ours = random.Random(seed), ours

    def query(self, depth):
        if depth == 0:
            return f"select {self.noise()} k, t, v from {self.name()} where {self.draw.choice(ALWAYS)}"
        kinds = [self.more, self.union, self.windows, self.windows, self.within, self.within, self.lateral]
        return self.draw.choice(kinds)(depth - 1)

    def name(self):
        return self.draw.choice(NAMES)

    def noise(self):
        return self.draw.choice(("", *NOISE[:2]))

    def more(self, depth):
        compared, added, hint = (
            self.draw.choice(("in", "not in")),
            self.draw.randrange(9),
            self.draw.choice(NOISE),
        )
        return (
            f"select {hint} k, t, v + {added} as v from ({self.query(depth)})"
            f" where v {compared} (select max(v) {self.noise()} from {self.name()})"
        )

    def union(self, depth):
        how = self.draw.choice(("union all", "except all", "intersect", "union"))
        return f"({self.query(depth)}) {how} ({self.query(depth)})"

    def lateral(self, depth):
        return f"select b.* from ({self.query(depth)}) a, lateral (select a.k, a.t, a.v * 3 as v) b"

    def within(self, depth):
        defined = []
        for _ in range(self.draw.randrange(1, 3)):
            name = ("r", "s")[len(defined)] if self.draw.random() < 0.8 else f"other{len(defined)}"
            form = self.draw.choice(("{} as ({})", "{} ({})", "{} (k, t, v) as ({})"))
            defined.append(form.format(name, self.query(self.draw.randrange(depth + 1))))
        return f"with {', '.join(defined)} {self.noise()} select * from ({self.query(depth)})"

    def windows(self, depth):
        name, inner = self.name(), self.query(depth)
        named = self.draw.random() < 0.4
        length = self.draw.choice(WINDOWS)
        before, between = "" if named else self.noise(), self.noise()
        if self.ours:
            table = name if named else f"{before} {inner}"
            options = f"by => 'k', time => 't', windows => {length}, aggs => 'sum(v) as sv'"
            options += ", windowColumns => 'struct'"
            made = f"windowkit(table({table}), {between} {options})"
        else:
            rows = name if named else f"({inner})"
            made = f"(select k, window(t, '1 minute') as window, sum(v) as sv from {rows} group by 1, 2)"
        return f"select k, window.start as t, sv as v from {made}"


@pytest.fixture
def two_views(spark):
    row = "select k, timestamp'2024-01-01 00:00:00' + make_interval(0, 0, 0, 0, 0, 0, n) as t, v + n as v"
    for name, base in (("r", 1), ("s", 1000)):
        frame = spark.sql(
            f"{row} from (select explode(array('a', 'b')) as k, {base} as v), range(90) as x(n)"
        )
        frame.where("n % 30 = 0").createOrReplaceTempView(name)


@pytest.mark.parametrize("seed", range(30))
def test_random_statements_mean_what_spark_says(spark, two_views, seed):
    ours, theirs = (Statements(seed, ours).query(3) for ours in (True, False))
    assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)), ours
