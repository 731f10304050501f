"""Emission policies as values: how they are made, written and refused; no stream needed."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
import re
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import windowkit as wk
from support import samples
from windowkit.language.durations import Duration, plain
from windowkit.language.triggers import Term

LEAVES = st.one_of(
    st.integers(1, 2**32 - 1).map(wk.rows),
    st.integers(1, 2**63 - 1).map(wk.every),
    st.integers(1, 10**12).map(lambda micros: wk.every(timedelta(microseconds=micros))),
    st.tuples(st.integers(1, 10**12), st.sampled_from([None, "first row"])).map(
        lambda each: wk.every(timedelta(microseconds=each[0]), of="processing time", since=each[1])
    ),
    st.text(min_size=1, max_size=3).filter(str.isidentifier).map(wk.on),
)


def combined(inner: st.SearchStrategy[wk.Trigger]) -> st.SearchStrategy[wk.Trigger]:
    """Triggers of triggers, except those that could never fire."""

    def chained(pair: tuple[wk.Trigger, wk.Trigger]) -> wk.Trigger:
        try:
            return pair[0].then(pair[1])
        except wk.InvalidValue:
            return pair[0] | pair[1]

    return st.one_of(
        st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1]),
        st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1]),
        st.tuples(inner, inner).map(chained),
        inner.map(lambda each: each.repeat()),
    )


TRIGGERS = st.recursive(LEAVES, combined, max_leaves=8)
SHARES = st.floats(0, 1, exclude_min=True, exclude_max=True).map(wk.at)


@st.composite
def emissions(draw: st.DrawFn) -> wk.Emission:
    early = draw(st.none() | TRIGGERS | SHARES | st.tuples(TRIGGERS, SHARES).map(lambda p: p[0] | p[1]))
    refinements = ["accumulating", "retracting", "discarding"]
    if early is not None and "at(" in repr(early):
        refinements.remove("discarding")
    return wk.emit(early, draw(st.sampled_from(refinements)))


@given(emissions())
def test_a_policy_is_a_value_that_reads_like_its_code(policy: wk.Emission) -> None:
    others = [eval(repr(policy), dict(vars(wk))), pickle.loads(pickle.dumps(policy)), copy.deepcopy(policy)]
    for other in others:
        assert other == policy
        assert hash(other) == hash(policy)
        assert repr(other) == str(other) == repr(policy)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.refinement = "retracting"  # type: ignore[misc]


def asked(policy: wk.Emission) -> wk.Query:
    """Return a query with windows that a policy allows, so long that each share of them is less than all."""
    of_events = {type(each.length) for each in policy.terms if each.kind == "every"}
    assume(len(of_events) < 2)
    window = wk.tumbling(10**18 if of_events == {int} else "1000 days")
    return wk.query(by="k", time="t", windows=window, aggs=wk.count(), emit=policy)


@given(emissions())
def test_a_query_is_written_down_with_its_policy(policy: wk.Emission) -> None:
    query = asked(policy)
    form = query.to_dict()
    assert form["version"] == 1
    assert form.keys() - dataclasses.replace(query, emit=None).to_dict().keys() == {"emit"}
    assert wk.Query.from_dict(json.loads(json.dumps(form))) == query
    assert query != dataclasses.replace(query, emit=None)
    assert pickle.loads(pickle.dumps(query)) == query


@given(TRIGGERS)
def test_postfix_order_says_the_same(trigger: wk.Trigger) -> None:
    """What the core is given is read back, by a stack machine, as the trigger it was made of."""
    stack: list[wk.Trigger] = []
    for term in wk.emit(trigger).terms:
        number = term.number
        assert term.share == 0.0
        match term.kind:
            case "rows":
                stack.append(wk.rows(number))
            case "on":
                (column,) = term.columns
                stack.append(wk.on(column))
            case "every":
                stack.append(wk.every(plain(term.length)))
            case "ticks":
                stack.append(wk.every(plain(term.length), of="processing time"))
            case "waits":
                stack.append(wk.every(plain(term.length), of="processing time", since="first row"))
            case "repeat":
                assert number == 1
                stack.append(stack.pop().repeat())
            case kind:
                operands, stack = stack[-number:], stack[:-number]
                made = operands[0]
                for other in operands[1:]:
                    made = {"or": made.__or__, "and": made.__and__, "then": made.then}[kind](other)
                stack.append(made)
    assert stack == [trigger]


def test_what_the_core_is_given() -> None:
    early = wk.at(0.5) | wk.rows(10) & wk.on("b") | wk.every("5 seconds").then(wk.every(3)).repeat()
    policy = wk.emit(early, "retracting")
    assert (policy.terms, policy.refinement) == (
        [
            Term("at", share=0.5),
            Term("rows", 10),
            Term("on", columns=("b",)),
            Term("and", 2),
            Term("every", length=Duration(5 * 10**9)),
            Term("every", length=3),
            Term("then", 2),
            Term("repeat", 1),
            Term("or", 3),
        ],
        "retracting",
    )
    assert wk.emit(wk.every("2 minutes", of="processing time")).terms == [
        Term("ticks", length=Duration(120 * 10**9))
    ]
    assert (wk.emit().terms, wk.emit().refinement) == ([], "accumulating")


def test_how_triggers_combine() -> None:
    a, b, c = wk.rows(1), wk.on("b"), wk.every(7)
    assert (a | b) | c == a | (b | c)
    assert (a & b) & c == a & (b & c)
    assert a.then(b.then(c)) == a.then(b).then(c)
    assert (a | b) & c != a | b & c
    assert repr((a | b) & c) == "(rows(1) | on('b')) & every(7)"
    assert repr(a | b & c) == "rows(1) | on('b') & every(7)"
    assert repr((a & b).then(c)) == "(rows(1) & on('b')).then(every(7))"
    assert (a | b).repeat() == a | b
    assert a.then(b).repeat().repeat() == a.then(b).repeat() != a.then(b)
    assert repr(a.then(b.then(c).repeat())) == "rows(1).then(on('b').then(every(7)).repeat())"
    assert repr(wk.emit()) == "emit()"
    assert repr(wk.emit(a, "discarding")) == "emit(rows(1), refinement='discarding')"
    assert wk.every("60 seconds") == wk.every("1 minute") == wk.every(np.timedelta64(1, "m"))
    assert isinstance(wk.rows(3), wk.Trigger)
    assert str(wk.tumbling(wk.rows(3))) == "tumbling(3 rows)"


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: wk.emit(10), wk.InvalidType, "early: 10 is an int; allowed are triggers: windowkit.rows(n)"),
    (lambda: wk.emit("10 rows"), wk.InvalidType, "early: '10 rows' is a str"),
    (lambda: wk.emit(wk.rows(0)), wk.InvalidValue, "early: rows(0) is given; as a trigger, allowed are"),
    (lambda: wk.emit(wk.rows(-1)), wk.InvalidValue, "early: rows(-1) is given"),
    (lambda: wk.rows(0) | wk.rows(1), wk.InvalidValue, "|: rows(0) is given"),
    (lambda: wk.on("b") & wk.rows(0), wk.InvalidValue, "&: rows(0) is given"),
    (lambda: wk.rows(0).then(wk.rows(1)), wk.InvalidValue, "then: rows(0) is given"),
    (lambda: wk.rows(0).repeat(), wk.InvalidValue, "repeat: rows(0) is given"),
    (lambda: wk.rows(True), wk.InvalidType, "rows: True is a bool"),
    (lambda: wk.rows(1) | 5, wk.InvalidType, "|: 5 is an int; allowed are triggers"),
    (lambda: None | wk.rows(1), wk.InvalidType, "|: None is a NoneType; allowed are triggers"),
    (lambda: "x" & wk.rows(1), wk.InvalidType, "&: 'x' is a str; allowed are triggers"),
    (lambda: wk.rows(1).then("x"), wk.InvalidType, "then: 'x' is a str; allowed are triggers"),
    (lambda: wk.emit(refinement="deltas"), wk.InvalidValue, "refinement: 'deltas' is unknown; allowed are"),
    (lambda: wk.emit(refinement=None), wk.InvalidType, "refinement: None is a NoneType; allowed are"),
    (lambda: wk.every(5, since="first row"), wk.InvalidValue, "since: 'first row' is given for event time"),
    (
        lambda: wk.every("5 s", "processing time", "noon"),
        wk.InvalidValue,
        "since: 'noon' is unknown; allowed",
    ),
    (lambda: wk.every(0), wk.InvalidValue, "length: 0 is given; allowed are lengths above zero"),
    (lambda: wk.every("-5 seconds"), wk.InvalidValue, "length: '-5 seconds' is given; allowed are lengths"),
    (lambda: wk.every(True), wk.InvalidType, "length: True is a bool"),
    (lambda: wk.every(1.5), wk.InvalidType, "length: 1.5 is a float"),
    (lambda: wk.every("1 month"), wk.InvalidValue, "length: '1 month' has the calendar unit 'month'"),
    (lambda: wk.every("3 rows"), wk.InvalidType, "length: 3 rows is a number of rows; a length of time is"),
    (lambda: wk.every(wk.rows(3)), wk.InvalidType, "length: 3 rows is a number of rows"),
    (
        lambda: wk.every(5, of="processing time"),
        wk.InvalidType,
        "length: 5 is given; it is a duration of the clock",
    ),
    (
        lambda: wk.every("1 nanosecond", of="processing time"),
        wk.InvalidValue,
        "length: '1 nanosecond' is given; allowed are whole microseconds above zero",
    ),
    (lambda: wk.every(5, of="rows"), wk.InvalidValue, "of: 'rows' is unknown; allowed are 'event time'"),
    (lambda: wk.on(3), wk.InvalidType, "column: 3 is an int"),
    (lambda: wk.on(""), wk.InvalidValue, "column: "),
    (lambda: wk.at(0), wk.InvalidValue, "share: 0 is out of range; a share is a number above 0 and below 1"),
    (lambda: wk.at(1.0), wk.InvalidValue, "share: 1.0 is out of range"),
    (lambda: wk.at(-0.1), wk.InvalidValue, "share: -0.1 is out of range"),
    (lambda: wk.at(float("nan")), wk.InvalidValue, "share: nan is out of range"),
    (lambda: wk.at(True), wk.InvalidType, "share: True is a bool"),
    (lambda: wk.at("half"), wk.InvalidType, "share: 'half' is a str"),
    (lambda: wk.at(0.5) & wk.rows(1), wk.InvalidValue, "&: at(0.5) is given, which concerns single windows"),
    (lambda: wk.rows(1).then(wk.at(0.5)), wk.InvalidValue, "then: at(0.5) is given, which concerns single"),
    (lambda: wk.at(0.5).then(wk.rows(1)), wk.InvalidValue, "then: at(0.5) is given"),
    (lambda: (wk.at(0.5) | wk.rows(1)) & wk.on("b"), wk.InvalidValue, "&: at(0.5) | rows(1) is given"),
    (
        lambda: wk.rows(1).then(wk.rows(2)).repeat().then(wk.rows(3)),
        wk.InvalidValue,
        "then: rows(3) follows rows(1).then(rows(2)).repeat(), which never ends, so that it could never fire",
    ),
    (
        lambda: wk.rows(1).then(wk.rows(2).then(wk.rows(3)).repeat()).then(wk.rows(4)),
        wk.InvalidValue,
        "then: rows(4) follows rows(2).then(rows(3)).repeat()",
    ),
    (
        lambda: wk.emit(wk.at(0.5) | wk.rows(1), "discarding"),
        wk.InvalidValue,
        "refinement: 'discarding' is given with early=at(0.5) | rows(1)",
    ),
]


@pytest.mark.parametrize(("make", "error", "message"), REFUSED)
def test_what_is_no_policy_is_refused(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        make()


@pytest.mark.parametrize(
    ("share", "window"),
    [
        (0.5, wk.tumbling(1)),
        (0.99, wk.tumbling(10)),
        (0.91, wk.sliding(10, 5)),
        (0.75, wk.sliding(3, 1)),
        (1 - 2**-53, wk.tumbling("1 day")),
        (0.5, wk.landmark(1, period=10)),
        (0.95, wk.landmark(10, start=3)),
    ],
    ids=str,
)
def test_shares_of_windows_that_are_all_of_them_are_refused(share: float, window: wk.Window) -> None:
    with pytest.raises(
        wk.InvalidValue, match=r"emit: at\(.*is all of it, so that it would never fire; allowed"
    ):
        wk.query(by=[], time="t", windows=window, aggs=wk.count(), emit=wk.emit(wk.rows(9) | wk.at(share)))


DAYS = pa.schema({"t": pa.date32()})


@pytest.mark.parametrize(
    ("share", "window", "schema"),
    [
        (0.5, wk.tumbling("1 day"), DAYS),
        (0.9, wk.sliding("3 days", "1 day"), DAYS),
        (0.97, wk.tumbling("1 month"), DAYS),
        (0.999, wk.tumbling("100 milliseconds"), pa.schema({"t": pa.timestamp("ms")})),
        (0.9, wk.landmark("1 day", period="1 month"), DAYS),
        (0.5, wk.band("1970-01-05", "1970-01-06"), DAYS),
    ],
    ids=str,
)
def test_they_are_so_in_units_of_the_column(share: float, window: wk.Window, schema: pa.Schema) -> None:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count(), emit=wk.emit(wk.at(share)))
    with pytest.raises(wk.InvalidValue, match=r"emit: at\(0\..*is all of it, so that it would never fire"):
        query.operator(schema=schema)


@pytest.mark.parametrize(
    ("share", "window", "times"),
    [
        (0.9, wk.tumbling(10), [0, 9, 10]),
        (0.5, wk.tumbling(2), [0, 1, 2]),
        (0.66, wk.sliding(3, 1), [0, 2, 3]),
        (1e-9, wk.tumbling(2), [0, 1, 2]),
        (0.5, wk.landmark(10, period=50), [12, 14, 15]),
        (0.5, wk.landmark(10, start=-100), [12, 14, 15]),
        (0.25, wk.band(10, 50), [12, 19, 20]),
    ],
    ids=str,
)
def test_shares_that_leave_a_unit_of_time_fire(share: float, window: wk.Window, times: list[int]) -> None:
    query = wk.query(by=[], time="t", windows=window, aggs=wk.count(), emit=wk.emit(wk.at(share)))
    op = query.operator()
    labels = [label for t in times for label in op.push(pa.table({"t": [t]}))["emission"].to_pylist()]
    assert "early" in labels


def test_explain_says_how_streams_emit() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count())
    assert "results of streams" not in query.explain()
    policy = wk.emit(wk.rows(3), "retracting")
    text = dataclasses.replace(query, emit=policy).explain(pa.schema({"t": pa.int64()}))
    assert (
        "results of streams\n  emit(rows(3), refinement='retracting'); run and batches, to which all" in text
    )


@pytest.mark.parametrize("refinement", ["accumulating", "retracting"])
@pytest.mark.parametrize("window_columns", ["struct", "flat"])
@pytest.mark.parametrize("name", ["emission", "weight"])
def test_results_have_room_for_what_a_policy_adds(name: str, window_columns: Any, refinement: Any) -> None:
    def make(by: str = "k", **named: Any) -> wk.Query:
        aggs = [wk.count(), wk.sum("v").alias(named.get("alias", "v"))]
        return wk.query(
            by=by,
            time="t",
            windows=wk.tumbling(5),
            aggs=aggs,
            emit=wk.emit(refinement=refinement),
            window_columns=window_columns,
        )

    if (name, refinement) == ("weight", "accumulating"):
        assert name in make(alias=name).columns
        return
    for given_names in ({"by": name}, {"alias": name}):
        with pytest.raises(wk.InvalidValue, match=f"emit: results would have two columns '{name}'"):
            make(**given_names)


@pytest.mark.parametrize(
    ("policy", "window"),
    [
        (wk.emit(wk.every("5 seconds") | wk.rows(3)), wk.tumbling(10)),
        (wk.emit(wk.every(5)), wk.sliding("10 seconds", "5 seconds")),
        (wk.emit(later="5 seconds"), wk.session(10)),
        (wk.emit(later=5), wk.band("2024-01-01", "2025-01-01")),
        (wk.emit(wk.every(5)), wk.tumbling("1 month")),
    ],
    ids=str,
)
def test_policies_count_time_as_windows_do(policy: wk.Emission, window: wk.Window) -> None:
    with pytest.raises(wk.InvalidType, match=r"emit: .* does not match its lengths; allowed are"):
        wk.query(by=[], time="t", windows=window, aggs=wk.count(), emit=policy)


@pytest.mark.parametrize(
    "policy", [wk.emit(wk.every(5), later=9), wk.emit(wk.every("5 seconds", of="processing time"))], ids=str
)
@pytest.mark.parametrize("window", [wk.tumbling(10), wk.tumbling(rows=10), wk.global_window()], ids=str)
def test_they_are_taken_where_they_may_fit(policy: wk.Emission, window: wk.Window) -> None:
    assert wk.query(by=[], time="t", windows=window, aggs=wk.count(), emit=policy).emit == policy


def test_a_restored_operator_takes_queries_with_policies() -> None:
    query = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count().alias("n"))
    op = query.operator(order="out-of-order", allowed_lateness=5, schema=pa.schema({"t": pa.int64()}))
    again = wk.Operator.restore(op.snapshot(), query)
    with pytest.raises(
        wk.InvalidValue, match="refinement: it is 'discarding' for 'q2', whose allowed_lateness is 5"
    ):
        again.add(query, emit=wk.emit(refinement="discarding"))
    assert again.add(query, emit=wk.emit(wk.rows(1))) == "q2"
    assert again.push(pa.table({"t": [1]}))["emission"].to_pylist() == ["early"]


def test_discarding_and_late_rows_are_refused_before_any_schema() -> None:
    discarding = wk.emit(wk.rows(2), "discarding")
    query = wk.query(by=[], time="t", windows=wk.tumbling(5), aggs=wk.count().alias("n"))
    with pytest.raises(
        wk.InvalidValue, match="refinement: it is 'discarding' for 'q1', which has an allowed"
    ):
        query.operator(order="out-of-order", allowed_lateness=3, emit=discarding)
    op = query.operator(order="out-of-order", allowed_lateness=3)
    with pytest.raises(wk.InvalidValue, match="refinement: it is 'discarding' for 'more', which has an all"):
        op.add(query, name="more", emit=discarding)
    assert op.add(query, allowed_lateness=0, emit=discarding) == "q2"
    with pytest.raises(wk.InvalidValue, match="refinement: it is 'discarding' for 'q3'"):
        op.add(query, allowed_lateness=1, emit=discarding)


class Weeks(wk.ContextFree):
    longest = 7

    def next_edge(self, t: Any) -> Any:
        return t - t % 7 + 7

    def windows(self, since: Any, until: Any) -> Any:
        return [(end - 7, end) for end in range(since + 1, until + 1) if end % 7 == 0]


class Own(wk.ContextAware):
    def open(self) -> Any:
        raise NotImplementedError


BY_ROWS = [*samples.by_rows().values(), wk.custom(Own())]
MERGING = ("session",)
GROWING = ("landmark", "landmark by period")
UNKNOWN = (*MERGING, "global")
"""Names of windows whose extents are not known before their rows, or that are one window."""


def named(*names: str) -> list[wk.Window]:
    return [window for name, window in samples.by_time().items() if name in names]


def not_named(*names: str) -> list[wk.Window]:
    return [window for name, window in samples.by_time().items() if name not in names]


def query(window: wk.Window, policy: Any) -> wk.Query:
    return wk.query(by=[], time="t", windows=[wk.tumbling(10), window], aggs=wk.count(), emit=policy)


@pytest.mark.parametrize("window", [*named(*MERGING, *GROWING), *BY_ROWS], ids=str)
def test_windows_that_cannot_be_discarded(window: wk.Window) -> None:
    with pytest.raises(
        wk.InvalidValue, match=r"^emit: emit\(rows\(2\), refinement='discarding'\) is given for"
    ):
        query(window, wk.emit(wk.rows(2), "discarding"))
    for refinement in ("accumulating", "retracting"):
        assert query(window, wk.emit(wk.rows(2), refinement)).emit is not None


@pytest.mark.parametrize("window", not_named(*MERGING, *GROWING, "tumbling"), ids=str)
def test_windows_that_can_be(window: wk.Window) -> None:
    assert query(window, wk.emit(refinement="discarding")).emit is not None


@pytest.mark.parametrize("window", [*named(*UNKNOWN), *BY_ROWS], ids=str)
def test_windows_without_an_extent_before_their_rows(window: wk.Window) -> None:
    with pytest.raises(
        wk.InvalidValue, match=r"^emit: .* is given for .*; at\(\.\.\.\) is allowed for windows"
    ):
        query(window, wk.emit(wk.at(0.5) | wk.rows(3)))
    assert query(wk.custom(Weeks()), wk.emit(wk.at(0.5))).emit == wk.emit(wk.at(0.5))


def test_a_query_has_a_policy_or_none() -> None:
    with pytest.raises(wk.InvalidType, match=r"^emit: rows\(5\) is a Rows; it is what windowkit.emit"):
        query(wk.sliding(10, 5), wk.rows(5))
    with pytest.raises(wk.InvalidType, match=r"^emit: 'late' is a str; it is what"):
        wk.query(by=[], time="t", windows=wk.tumbling(1), aggs=wk.count()).operator(emit="late")  # type: ignore[arg-type]


FORM = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.count()).to_dict()


@pytest.mark.parametrize(
    ("form", "error", "message"),
    [
        ("rows", wk.InvalidType, "emit: 'rows' is a str; in a form it is a mapping; required keys are"),
        (
            {"early": None},
            wk.InvalidValue,
            "emit: the key 'refinement' is missing; required keys are 'early', 'refin",
        ),
        ({"early": None, "refinement": "x"}, wk.InvalidValue, "refinement: 'x' is unknown"),
        ({"early": 5, "refinement": "retracting"}, wk.InvalidType, "early: 5 is an int; in a form"),
        (
            ({"early": {}, "refinement": "retracting"}),
            wk.InvalidValue,
            "early: {} is not a trigger; it has one of",
        ),
        ({"early": {"often": 1}, "refinement": "retracting"}, wk.InvalidValue, "early: {'often': 1} is no"),
        ({"early": {"rows": 1, "on": "b"}, "refinement": "retracting"}, wk.InvalidValue, "early: {'rows': 1"),
        ({"early": {"rows": 1, "of": "b"}, "refinement": "retracting"}, wk.InvalidValue, "early: {'rows': 1"),
        ({"early": {"rows": 0}, "refinement": "retracting"}, wk.InvalidValue, "early: rows(0) is given"),
        ({"early": {"every": 1, "of": 5}, "refinement": "retracting"}, wk.InvalidType, "of: 5 is an int"),
        (
            {"early": {"or": {"rows": 1}}, "refinement": "retracting"},
            wk.InvalidType,
            "early: {'rows': 1} is a",
        ),
        (
            {"early": {"or": [{"rows": 1}]}, "refinement": "retracting"},
            wk.InvalidValue,
            "early: [{'rows': 1}]",
        ),
        (
            {"early": {"and": [{"at": 0.5}, {"rows": 1}]}, "refinement": "retracting"},
            wk.InvalidValue,
            "&: at",
        ),
    ],
)
def test_forms_of_no_policy_are_refused(form: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        wk.Query.from_dict({**FORM, "emit": form})


def test_a_form_may_say_that_there_is_none() -> None:
    assert wk.Query.from_dict({**FORM, "emit": None}) == wk.Query.from_dict(FORM)
    assert "emit" not in FORM
    early = {"of": "processing time", "every": "5 seconds"}
    read = wk.Query.from_dict({**FORM, "emit": {"early": early, "refinement": "accumulating"}})
    assert read.emit == wk.emit(wk.every("5 seconds", of="processing time"))


def test_what_is_no_emission_is_refused_with_what_makes_one() -> None:
    query = wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.sum("v"))
    for other, makes in [(wk.every(5), "windowkit.emit(every(5))"), (5, "windowkit.emit(...)")]:
        with pytest.raises(wk.InvalidType, match=re.escape(f"it is what {makes} returns")):
            query.operator(emit=other)  # type: ignore[arg-type]
