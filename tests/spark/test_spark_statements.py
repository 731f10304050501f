"""`spark.sql`: windows of tables, views and queries within SQL, against the queries themselves."""

import datetime as dt
import os
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import Row, functions

import windowkit as wk
from support.programs import ROOT, program
from support.statements import SCOPES, VIEWS, Statements, written
from windowkit.language.tokens import folded
from windowkit.spark.statements import Statement
from windowkit.spark.syntax import Syntax

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
OF_IDENTIFIER = OF_X.replace("(x)", "(identifier('X'))")


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


def test_what_a_with_defines_may_be_called_windowkit(spark):
    text = """
        with windowkit (k) as (select 1), x as (select k + 1 as k from windowkit)
        select * from x, windowkit
    """
    assert [tuple(row) for row in wk.spark.sql(spark, text).collect()] == [(2, 1)]
    text = f"with windowkit (d) as (select device from {CALL}) select count(*) from windowkit"
    assert wk.spark.sql(spark, text).collect()[0][0] == QUERY.run(spark.table("readings")).count() > 0


def test_other_statements_are_sparks(spark):
    assert wk.spark.sql(spark, "select '{' as windowkit").collect() == [("{",)]


def test_tables_and_aliases_may_be_called_windowkit(spark, two_views, tmp_path):
    spark.sql(f"create temporary view windowkit (k string, v long) using csv options (path '{tmp_path}')")
    try:
        text = "insert into windowkit (k, v) select k, sv from [[r]]"
        wk.spark.sql(spark, written(text, ours=True))
        for text in (
            "table windowkit union all select k, sv from [[r]]",
            "select windowkit.k, sv from r as windowkit (k, t, v) join [[r]] using (k)",
            "select windowkit.k, sv from r windowkit (k, t, v) join [[r]] using (k)",
        ):
            ours, theirs = (written(text, ours=each) for each in (True, False))
            assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []
    finally:
        spark.catalog.dropTempView("windowkit")
    assert Syntax("create table windowkit (k int) using csv").end_of_call(2) is None


def test_what_is_in_table_changes_nothing(spark, tmp_path):
    spark.sql(f"create or replace temporary view kept (v int) using csv options (path '{tmp_path}')")
    insert = f"select * from {CALL.replace('readings', 'from readings insert into kept select 1')}"
    with pytest.raises(ParseException):
        wk.spark.sql(spark, insert)
    assert not list(tmp_path.iterdir())


def test_comments_that_are_not_closed_are_refused(spark):
    with pytest.raises(ParseException, match="UNCLOSED_BRACKETED_COMMENT"):
        wk.spark.sql(spark, f"select * from {CALL} /* a comment")


def test_a_minus_before_a_negative_parameter_begins_no_comment(spark):
    """To versions of Spark that do not put text for parameters, it is the number 5."""
    text = f"select * from {CALL} where device = 'a' and `sum(v)` > -:n or device = 'b'"
    for value, is_read in ((5, True), (-5, False)):
        made = Statement(spark, text, {"n": value})
        at = [token.text for token in made.tokens].index("windowkit")
        assert (made.where(at, made.syntax.end_of_call(at)) is not None) is is_read


def test_names_that_are_given_as_parameters(spark, readings):
    text = f"with identifier(:name) as (table readings) select * from {OF_IDENTIFIER[14:]}"
    found = wk.spark.sql(spark, text.replace("'X'", ":name"), args={"name": "x", "other": 1})
    assert rows(found) == rows(QUERY.run(readings)) != []
    deep = f"with recursive x max recursion level :n as (table readings) select * from {OF_X[14:]}"
    assert rows(wk.spark.sql(spark, deep, args={"n": 3})) == rows(QUERY.run(readings))
    recursive = "with recursive identifier(:name) as (table readings union all {}) table x"
    with pytest.raises(wk.InvalidValue, match="takes windows of x, which is not there yet"):
        wk.spark.sql(spark, recursive.format(OF_IDENTIFIER), args={"name": "x"})


def test_parameters_of_statements(spark, readings):
    call = CALL.replace("table(readings)", "table(select * from readings where v >= :least)")
    text = f"select * from {call} where window_start >= :since order by all"
    plainly = text.replace(":least", "2").replace(":since", "timestamp '1970-01-01 00:00:00Z'")
    given = {"least": 2, "since": dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)}
    found = wk.spark.sql(spark, text, args=given).collect()
    assert found == wk.spark.sql(spark, plainly).collect()
    assert found
    call = CALL.replace("'device'", ":by").replace("'sum(v)'", ": aggs")
    given = {"by": "device", "aggs": "sum(v)"}
    found = wk.spark.sql(spark, f"select * from {call}", args=given)
    assert rows(found) == rows(QUERY.run(readings))
    with pytest.raises(wk.InvalidValue, match="text: :by is null where a string is expected"):
        wk.spark.sql(spark, f"select * from {call}", args=given | {"by": None})
    assert wk.spark.sql(spark, "select :n as n", args={"n": 3}).collect() == [(3,)]
    for wrong in ([2], {1: 2}):
        with pytest.raises(wk.InvalidType, match=r"args: .* is given; args is a dict"):
            wk.spark.sql(spark, text, args=wrong)


@pytest.mark.parametrize("text", ["select :least as it", f"select :least as it from {CALL} limit 1"])
def test_values_of_parameters_are_literals_of_spark(spark, text):
    day = dt.datetime(2026, 1, 1)
    values = {3: 3, "'": "'", 1.5: 1.5, day: day, Decimal("1.5"): Decimal("1.5"), day.date(): day.date()}
    for given, expected in [
        *values.items(),
        (None, None),
        ([1, 2], [1, 2]),
        (np.str_("a"), "a"),
        (functions.create_map(functions.lit("a"), functions.lit(1)), {"a": 1}),
        (functions.struct(functions.lit(1).alias("n")), Row(n=1)),
    ]:
        assert wk.spark.sql(spark, text, args={"least": given}).collect() == [(expected,)]
    for wrong in (object(), [object()], 1j, int, np.complex128(1)):
        with pytest.raises(wk.InvalidType, match=r"args: .* is given for 'least', and Spark has no such lit"):
            wk.spark.sql(spark, text, args={"least": wrong})
    for wrong in (2**70, pd.NaT):
        with pytest.raises(
            wk.InvalidValue, match=r"args: .* is given for 'least', and Spark has no such lit"
        ):
            wk.spark.sql(spark, text, args={"least": wrong})


CLAUSES = ("offset", "limit", "order", "group", "sort", "having", "cluster", "minus", "qualify")


@pytest.mark.parametrize("name", CLAUSES)
def test_columns_that_are_called_as_clauses(spark, readings, name):
    """A WHERE does not end there, and what it says of rows is all that it says."""
    query = wk.query(by="device", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.sum("v").alias(name))
    call = CALL.replace("sum(v)", f"sum(v) as {name}")
    for where in (
        "device = 'a' and 3 < {} or device = 'b'",
        "w.device = 'a' and w.{} > 3 or w.device = 'b'",
        "device = 'a' and -{} < 0 or device = 'b'",
        "device = 'a' and case when {} > 1 then true else false end or device = 'b'",
        "{} > 2 and device = 'a' or device = 'b'",
    ):
        condition = where.format(name)
        expected = rows(query.run(readings).alias("w").where(condition))
        text = f"select w.* from {call}w where {condition} order by all limit 10000"
        assert rows(wk.spark.sql(spark, text)) == expected != [], text


@pytest.mark.parametrize(
    "text",
    [
        "select * from {}w",
        "select * from {}where device = 'a'",
        "select w.* from {}as w",
        "from {}limit 1000",
    ],
)
def test_no_space_is_needed_after_a_call(spark, readings, text):
    expected = QUERY.run(readings)
    if "where" in text:
        expected = expected.where("device = 'a'")
    assert rows(wk.spark.sql(spark, text.format(CALL))) == rows(expected) != []


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("windowkit(readings, time => 'ts')", r"the first argument of windowkit is not table\(\.\.\.\)"),
        ("windowkit(table(), time => 'ts')", r"nothing is in table\(\.\.\.\)"),
        ("windowkit(table(readings), 'ts')", "\"'ts'\" is not an argument such as time => 'ts'"),
        (CALL.replace("'sum(v)')", "'sum(v)',)"), "nothing is after a comma in windowkit"),
        (CALL.replace("(readings)", "(readings), "), "nothing is after a comma in windowkit"),
        *(
            (
                CALL.replace("'sum(v)'", f"{value} partition by k"),
                "'partition by k' follows the value of aggs",
            )
            for value in ("'sum(v)'", "'sum' '(v)'", ":aggs", ": aggs")
        ),
        ("windowkit(table(readings), times => 'ts')", "argument times is unknown; did you mean 'time'"),
        ("windowkit(table(readings), time => 'ts', time => 'ts')", "argument time is given twice"),
        ("windowkit(table(readings), time => 'ts', aggs => 'sum(v)')", "argument windows is not given"),
        ("windowkit(table(readings), ", "the parenthesis of windowkit\\( is not closed"),
        (CALL.replace("(readings)", "(readings) partition by device"), "'partition by device' follows table"),
        (CALL.replace("(readings)", " readings with single partition"), "'with single partition' follows"),
        (
            f"(with x as (table readings) select * from {CALL.replace('(readings)', '(table x) limit (1)')})",
            "'limit",
        ),
        (
            f"(with recursive x as (table readings union all select * from {OF_X[14:]}) table x)",
            "windows of x",
        ),
        (
            f"(with recursive identifier('x') as (table readings union all {OF_IDENTIFIER}) table x)",
            "windows of x",
        ),
        (CALL.replace("readings", "${name}"), r"it has \$\{...\}, in whose place Spark puts a setting"),
        ("windowkit(table(select * from " * 65 + CALL + f"), {OPTIONS})" * 65, "more than 64 calls"),
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
    for cached in ("cache table w as", "cache lazy table w"):
        with pytest.raises(wk.InvalidValue, match="it caches windowkit"):
            wk.spark.sql(spark, f"{cached} select * from {CALL}")
    with pytest.raises(wk.InvalidValue, match="it creates a view"):
        wk.spark.sql(spark, f"create or replace global temp view if not exists w as select * from {CALL}")
    Statement(spark, f"create table view as select * from {CALL}", None).refuse_what_is_read_later()
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


@pytest.fixture
def two_views(spark):
    for name, text in VIEWS.items():
        spark.sql(text).createOrReplaceTempView(name)


@pytest.mark.parametrize("text", SCOPES)
def test_names_mean_what_they_do_in_spark(spark, two_views, text):
    ours, theirs = (written(text, ours=each) for each in (True, False))
    assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []


@pytest.mark.parametrize("seed", range(30))
def test_random_statements_mean_what_spark_says(spark, variable, seed):
    """Also where a column has the name of a variable."""
    text = Statements(seed).query(3)
    ours = written(text, ours=True, seed=seed)
    found = wk.spark.sql(spark, ours)
    assert rows(found) == rows(spark.sql(written(text, ours=False))), ours
    if seed % 5 == 0:
        found.createOrReplaceTempView("found")
        again = "with p as (table found) select k, sv from [[p]]"
        ours, theirs = (written(again, ours=each) for each in (True, False))
        assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)), text


READ_BY_CALLS = [
    "with base as (select * from r where v > 0), clean as (select k, t, v from base) {} from [[clean]]",
    "with base as (table r) {} from [[with clean as (select * from base where v > 1) table clean]]",
    "with base as (table r) select * from (with clean as (table base) {} from [[clean]])",
]


@pytest.mark.parametrize("text", READ_BY_CALLS)
def test_definitions_that_calls_alone_read_are_not_left_for_spark(spark, two_views, text):
    """Spark fails to optimise those that nothing reads, where a plan has them twice."""
    text = text.format("select k, window.start as t, sv as v")
    found = wk.spark.sql(spark, written(text, ours=True))
    found.createOrReplaceTempView("hours")
    again = "with p as (table hours) select k, sv from [[p]] union all select k, v from hours"
    ours, theirs = (written(again, ours=each) for each in (True, False))
    assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []


@pytest.mark.parametrize("text", ["with q as (table r), select", "with q as (table r) slect"])
def test_a_with_that_is_none_is_a_mistake_of_syntax(spark, two_views, text):
    with pytest.raises(ParseException, match="PARSE_SYNTAX_ERROR"):
        wk.spark.sql(spark, written(f"{text} k, sv from [[q]]", ours=True))


def test_definitions_that_nothing_reads_are_checked_by_spark(spark, two_views):
    for text in ("with q as (select w from r)", "with q as (table r), p as (select w from q)"):
        with pytest.raises(AnalysisException, match="UNRESOLVED_COLUMN"):
            wk.spark.sql(spark, written(f"{text} select k, sv from [[r]]", ours=True))


def test_names_are_compared_as_spark_does(spark):
    resolution = getattr(spark._jvm.org.apache.spark.sql.catalyst.analysis, "package$")
    are_same = getattr(resolution, "MODULE$").caseInsensitiveResolution().apply
    for letter in map(chr, range(0x600)):
        for other in {*letter.upper(), *letter.lower()}:
            same = are_same(f"a{letter}", f"A{other}")
            assert (folded(f"a{letter}") == folded(f"A{other}")) is same, (letter, other)


@pytest.fixture
def variable(spark, two_views):
    variables = {"x": "32", "one": "named_struct('f', 32)", "named": "'r'", "k": "'a'"}
    for name, value in variables.items():
        spark.sql(f"declare or replace variable {name} = {value}")
    yield
    for name in variables:
        spark.sql(f"drop temporary variable {name}")


MAY_BE_COLUMNS = [
    "select s.k, w.sv from (select k, t, v - 999 as x from s) s, lateral [[select * from r where v > x]] w",
    "select s.k, w.sv from s, lateral (select * from [[select * from r where v > X]]) w",
    "select k from (select k, v as x from s) where exists (select 1 from [[select * from r where v < `x`]])",
    "select k, (select max(sv) from (select * from [[with q as (from r |> where v < x) table q]])) from s",
    "select k, (with q as (select * from r where v < x) select max(sv) from [[q]]) as m from s",
    "select k from s where k in (select k from [[select k, t, v from [[select * from r where v < x]] "
    "lateral view explode(array(window.start)) e as t lateral view explode(array(sv)) e as v]])",
    *(
        f"select {text} as m from (select k, v as x from s)"
        for text in (
            "distinct (select max(sv) from [[select * from r where v < x]])",
            "all (select max(sv) from [[select * from r where v < x]])",
            "count(distinct (select max(sv) from [[select * from r where v < x]]))",
            "v is not distinct from (select max(sv) from [[select * from r where v < x]])",
            "trim('a' from (select max(k) from [[select * from r where v < x]]))",
            "trim(from (select max(k) from [[select * from r where v < x]]))",
            "extract(day from (select max(window.end) from [[select * from r where v < x]]))",
            "overlay(k placing 'a' from (select count(*) from [[select * from r where v < x]]))",
            "(select max(sv) from [[select * from r where v < identifier('X')]])",
            "(select max(sv) from [[select * from r where v < identifier(' x /* */')]])",
            "(select max(sv) from [[select * from r where v < identifier(concat('', 'x'))]])",
            "v is distinct from x, (select max(sv) from [[select * from r where v < x]])",
            "(select max(sv) from [[select k, t, lag(v, x) over (order by t) as v from r]])",
        )
    ),
    "select k, (select max(sv) from [[select * from r where v < session.x]]) from (table s) session",
    "select (select max(sv) from [[select * from r where v < session.x]]) as m "
    "from (select named_struct('x', v) as session from s)",
    "select k, (select max(sv) from [[select * from r where v < identifier('session.x')]]) from s session",
    "select k, (select max(sv) from [[select * from r where v < system.session.x]]) from s system",
    "select k, (select max(sv) from [[select * from r where v < one.f]]) from (select k, v as f from s) one",
    "select k, (select max(sv) from [[identifier(named)]]) from s",
    "table s |> extend v as x, (select max(sv) from [[select * from r where v < x]]) as m",
    "from s |> extend v as x |> extend 1, (select max(sv) from [[select * from r where v < x]]) as m",
    "select k from s a join s b on a.k = b.k, lateral (select * from [[select * from r where v < x]])",
]
"""Statements with a variable x where a column x may be meant, and in most is."""
ARE_VARIABLES = [
    "select k, sv from [[select * from r where v < x]]",
    "select k, sv from (select * from [[select * from r where v < x]]) where sv >= x",
    "with q as (select * from [[select * from r where v < x]]) select k, sv from q",
    "select a.k from s a join (select k, sv from [[select * from r where v < x]]) b on a.k = b.k",
    "(select k, sv from [[select * from r where v < x]]) union all (select k, sv from [[r]])",
    "select k from s where k in (select k from [[select * from r where v < session.x]])",
    "select k from s where k in (select k from [[select * from r where v < system.session.x]])",
    "select k from s where k in (select k from [[select k, t, x as v from (select k, t, v as x from r)]])",
    "select k from s where k in (select k from [[r]] where sv > x)",
    "select k from s where exists (select 1 from [[select * from r where v < session.x]] w where sv <= x)",
    "table s union distinct (select k, t, v from (select k, window.start as t, sv as v from "
    "[[select * from r where v < x]]))",
    "with q as (select * from r where v < x) select k, (select max(sv) from [[q]]) from s",
    "select k, (select max(sv) from [[select * from r where k = session.k and "
    "v < identifier('session.x')]]) from s",
    "select k, (select max(sv) from [[select * from r where v < session.one.f]]) from "
    "(select k, v as f from s) one",
    "select k from s where k in (select k from [["
    "select k, t, transform(array(v), x -> x + 1)[0] as v from r]])",
    "select a.k from s a, (select k, sv from [[select * from r where v < x]]) b where a.k = b.k",
    "select a.k from s a join s c on a.k = c.k, (select k, sv from [[select * from r where v < x]]) b",
    "with q (a) as (select 1) (select k, sv from [[select * from r where v < x]])",
]


@pytest.mark.parametrize("text", MAY_BE_COLUMNS)
def test_what_may_be_a_column_of_another_query_is_no_variable(spark, variable, text):
    with pytest.raises(wk.InvalidValue, match="is a variable of the session where windowkit"):
        wk.spark.sql(spark, written(text, ours=True))


@pytest.mark.parametrize("text", ARE_VARIABLES)
def test_variables_mean_what_they_do_in_spark(spark, variable, text):
    ours, theirs = (written(text, ours=each) for each in (True, False))
    assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []


QUERIES = [
    "create table made using parquet as (select k, sv from [[select * from r where v < x]])",
    "insert into made (select k, sv from [[select * from r where v < x]])",
    "insert into made (k, sv) (select k, sv from [[select * from r where v < x]])",
    "insert into made with q as (select * from r where v < x) (select k, sv from [[q]])",
    "explain (select k, sv from [[select * from r where v < x]])",
    "set variable x = (select max(sv) from [[select * from r where v < x]])",
]


def test_statements_hold_queries_in_parentheses(spark, variable, tmp_path):
    """They are in no query whose columns they could name."""
    expected = rows(spark.sql(written("select k, sv from [[select * from r where v < x]]", ours=False)))
    try:
        for number, text in enumerate(QUERIES):
            wk.spark.sql(spark, written(text.replace("parquet", f"parquet location '{tmp_path}'"), ours=True))
            assert rows(spark.table("made")) == sorted(expected * min(number + 1, 4))
        assert spark.sql("select x").collect() == [(32,)]
    finally:
        spark.sql("drop table if exists made")


TWICE = [
    "with r as (table s) select k, (with r as (select k, t, 7 as v from r) select max(sv) from [[r]]) from s",
    "with r as (table s) select k, (select max(sv) from [[with `R` as (select k, t, 7 as v from r) table r]])"
    " from s",
    "with r as (table s) select k, sv from (with r as (select k, t, 7 as v from r) select * from [[r]])",
]


@pytest.mark.parametrize("text", TWICE)
def test_names_that_are_defined_twice_are_refused_where_the_outer_may_come_first(spark, two_views, text):
    ours, theirs = (written(text, ours=each) for each in (True, False))
    assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []
    spark.conf.set("spark.sql.legacy.ctePrecedencePolicy", "legacy")
    try:
        with pytest.raises(wk.InvalidValue, match="r is defined twice; with spark"):
            wk.spark.sql(spark, ours)
        once = "with r as (table s) select k, sv from [[r]]"
        ours, theirs = (written(once, ours=each) for each in (True, False))
        assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []
    finally:
        spark.conf.unset("spark.sql.legacy.ctePrecedencePolicy")


IN_DOUBLE_QUOTES = [
    'with "r" ("k", "t", "v") as (table s) select k, sv from [["r"]]',
    'with "r" ("k", "t", "v") (table s) select k, sv from [[select * from "r"]]',
    'with "a`b" as (table s) select k, sv from [["a`b"]]',
    """with `a"b` as (table s) select k, sv from [["A""b"]]""",
]


@pytest.mark.parametrize("text", IN_DOUBLE_QUOTES)
def test_names_in_double_quotes_mean_what_they_do_in_spark(spark, two_views, text):
    ours, theirs = (written(text, ours=each) for each in (True, False))
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(theirs)) != []
        recursive = 'with recursive "r" as (table s union all select k, t, sv as v from [["r"]]) table "r"'
        with pytest.raises(wk.InvalidValue, match="takes windows of r, which is not there yet"):
            wk.spark.sql(spark, written(recursive, ours=True))
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def test_what_spark_cannot_plan_is_its_own_error(spark, two_views):
    text = "select k from s where k in (select k from [[select k, t, 1 / v as v from values "
    text += "('a', timestamp'2024-01-01', 0) as q(k, t, v)]])"
    with pytest.raises(PySparkException, match="DIVIDE_BY_ZERO"):
        wk.spark.sql(spark, written(text, ours=True)).collect()
    twice = "with s as (table r) select k, sv from [[identifier(explode(array('r', 's')))]]"
    with pytest.raises(wk.InvalidValue, match="has 2 values where a string is expected"):
        wk.spark.sql(spark, written(twice, ours=True))


def test_variables_may_be_in_double_quotes(spark, variable):
    text = 'select {}(select max(sv) from [[select * from r where v < "X"]]){} from (select k, v as x from s)'
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    try:
        for around in (("", ""), ('"coalesce"(', ", 0)")):
            with pytest.raises(wk.InvalidValue, match="X is a variable of the session where windowkit"):
                wk.spark.sql(spark, written(text.format(*around), ours=True))
    finally:
        spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")


def test_plans_of_definitions_with_windows_grow_with_their_number(spark, two_views):
    def size(depth):
        names = ["r", *(f"q{at}" for at in range(depth))]
        each = "{} as (select k, window.start as t, sv as v from [[{}]])"
        defined = ", ".join(each.format(name, before) for before, name in pairwise(names))
        found = wk.spark.sql(spark, written(f"with {defined} table {names[-1]}", ours=True))
        return len(found._jdf.queryExecution().analyzed().treeString())

    two, four, eight = (size(depth) for depth in (2, 4, 8))
    # The statement keeps its definitions, each with the plan of those it reads.
    assert eight / four < 4.5 > four / two


def test_scopes_hold_through_connect(remote):
    printed = program(
        """
        import sys

        from pyspark.sql import SparkSession
        import windowkit as wk
        from support.statements import SCOPES, VIEWS, Statements, written

        spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
        assert "connect" in type(spark).__module__
        for name, text in VIEWS.items():
            spark.sql(text).createOrReplaceTempView(name)

        def rows(frame):
            return sorted(map(repr, frame.collect()))

        texts = [*SCOPES[::9], Statements(0).query(2)]
        for text in texts:
            ours = written(text, ours=True)
            assert rows(wk.spark.sql(spark, ours)) == rows(spark.sql(written(text, ours=False))), ours
        call = "windowkit(table(${x}), time => 't', windows => 'tumbling(1 minute)', aggs => 'sum(v)')"
        for begin in ("select", "cache table w as select"):
            text = f"{begin} * from {call}".replace("${x}", "r" if "cache" in begin else "${x}")
            try:
                wk.spark.sql(spark, text)
            except wk.InvalidValue as error:
                print("refused", error)
        spark.sql("declare or replace variable x bigint default 32")
        for name in ("session.x", "x"):
            text = f"select k from s where k in (select k from [[select * from r where v < {name}]])"
            try:
                assert rows(wk.spark.sql(spark, written(text, ours=True)))
            except wk.InvalidValue as error:
                print("refused", error)
        print("equal", len(texts))
        spark.stop()
        """,
        remote,
        path=os.pathsep.join([ROOT, str(Path(__file__).parents[1])]),
    )
    refused = [line for line in printed.splitlines() if line.startswith("refused")]
    assert "${...}" in refused[0]
    assert "it caches windowkit" in refused[1]
    assert "x is a variable" in refused[2]
    assert f"equal {len(SCOPES[::9]) + 1}" in printed
