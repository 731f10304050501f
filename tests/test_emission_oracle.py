"""Emission policies against their definition: random policies, windows, batches, watermarks, restarts."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.firings import Emitter, Policy, Spec, assert_emitted, emitted_by, leaves, made
from support.firings import has_clock as needs_clock
from support.plain import NAN, in_units, nanoseconds_per_unit
from support.streams import (
    Call,
    Case,
    a_key,
    cases,
    group_of,
    queries,
    reached,
    row_windows,
    scalar,
    scaled,
    time_window,
)
from windowkit.language.durations import Months

ROOMY = 10**9


def event_leaves() -> st.SearchStrategy[Spec]:
    return st.one_of(
        st.tuples(st.just("rows"), st.integers(1, 6)),
        st.tuples(st.just("every"), st.integers(1, 20), st.just("event time")),
        st.tuples(st.just("every"), st.integers(1, 20), st.just("processing time")),
        st.tuples(st.just("wait"), st.integers(1, 20)),
        st.tuples(st.just("on"), st.just("b")),
    )


def combined(inner: st.SearchStrategy[Spec]) -> st.SearchStrategy[Spec]:
    several = st.lists(inner, min_size=2, max_size=3).map(tuple)
    chain = several.map(lambda stages: ("then", flat(stages))).filter(ends)
    return st.one_of(
        st.tuples(st.sampled_from(["or", "and"]), several),
        chain,
        chain.map(lambda one: ("repeat", one)),
    )


def flat(stages: tuple[Spec, ...]) -> tuple[Spec, ...]:
    """Chains within a chain are part of it, unless they are repeated."""
    return tuple(each for stage in stages for each in (stage[1] if stage[0] == "then" else (stage,)))


def ends(chain: Spec) -> bool:
    return all(stage[0] != "repeat" for stage in chain[1][:-1])


TRIGGERS = st.recursive(event_leaves(), combined, max_leaves=5)
SHARES = st.tuples(st.just("at"), st.sampled_from([0.1, 0.25, 0.5, 0.7, 0.99]))


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    refinement = draw(st.sampled_from(["accumulating", "retracting", "retracting", "discarding"]))
    early = draw(st.none() | TRIGGERS | TRIGGERS | TRIGGERS)
    if refinement != "discarding" and draw(st.integers(0, 3)) == 0:
        share = draw(SHARES)
        early = share if early is None else ("or", (share, early))
    return Policy(early, refinement)


def leaves_time(window: wk.Window, share: float, kind: pa.DataType) -> bool:
    """Whether this share of a window is over before the window is, in whole units of the time column."""
    lengths = window.lengths()
    match lengths.get("size", lengths.get("every")):
        case wk.Duration(nanoseconds=nanoseconds):
            length = nanoseconds // nanoseconds_per_unit(kind)
        case Months(count=months):
            # The shortest ones.
            length = 28 * months * 86_400 * 10**9 // nanoseconds_per_unit(kind)
        case int(length):
            pass
        case None if isinstance(window, wk.Band):
            length = in_units(window.end, kind) - in_units(window.start, kind)
        case _:
            return False
    return math.ceil(Fraction(str(share)) * length) < length


def fitting(query: wk.Query, policy: Policy | None, kind: pa.DataType) -> wk.Query:
    """Return the query with those of its windows that a policy allows."""
    if policy is None:
        return query
    windows = list(query.windows)
    if policy.refinement == "discarding":
        windows = [each for each in windows if not isinstance(each, wk.Session | wk.Landmark)]
    for share in (leaf[1] for leaf in leaves(policy.early) if leaf[0] == "at"):
        windows = [
            each for each in windows if isinstance(each, wk.Tumbling | wk.Sliding | wk.Landmark | wk.Band)
        ]
        windows = [each for each in windows if leaves_time(each, share, kind)]
        windows = windows or [wk.tumbling(scaled(150, kind))]
    windows = windows or [each for each in query.windows if isinstance(each, wk.Tumbling)]
    return replace(query, windows=tuple(windows))


class Emitting(NamedTuple):
    """Queries by name with policies, and the calls."""

    case: Case
    queries: dict[str, tuple[wk.Query, Policy | None, int]]


@st.composite
def emitting(draw: st.DrawFn, order: str | None = None) -> Emitting:
    case = draw(cases(order))._replace(updates=True)
    time, form = case.schema.field("t").type, case.query.window_columns
    found: list[tuple[wk.Query, Policy | None, int]] = []
    for number in range(1, 1 + draw(st.sampled_from([1, 1, 2, 3]))):
        query = case.query if number == 1 else draw(queries(time, list(case.query.by), [form]))
        policy = draw(policies() if number == 1 else st.none() | policies())
        try:
            query = fitting(query, policy, time)
        except wk.InvalidValue:
            query = replace(query, windows=(wk.tumbling(scaled(150, time)),))
        lateness = 0 if policy is not None and policy.refinement == "discarding" else case.lateness
        found.append((query, policy, lateness))
    # An operator is given a clock if its first query needs one.
    found.sort(key=lambda each: not has_clock(each[1]))
    return Emitting(case, {f"q{number}": each for number, each in enumerate(found, 1)})


def has_clock(policy: Policy | None) -> bool:
    return policy is not None and needs_clock(policy.early)


class Clock:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


class Run:
    """An operator and its oracle, call by call."""

    def __init__(self, given: Emitting) -> None:
        self.case = case = given.case
        self.time = time = case.schema.field("t").type
        self.clock, self.order = Clock(), case.order
        self.emitters: dict[str, Emitter] = {}
        self.rows: list[dict[str, Any]] = []
        op: wk.Operator | None = None
        for name, (query, policy, lateness) in given.queries.items():
            how = {"order": case.order, "allowed_lateness": lateness, "max_delay": case.delay}
            self.emitters[name] = Emitter(name, query, case.schema, policy, **how)
            emit = None
            if policy is not None:
                early = policy.early and made(policy.early, lambda units: scaled(units, time))
                emit = wk.emit(early, policy.refinement)
            ours = scaled(lateness, time)
            if op is None:
                op = query.operator(
                    order=case.order,
                    allowed_lateness=ours,
                    progress=None if case.delay is None else wk.delay(scaled(case.delay, time)),
                    schema=case.schema,
                    store=case.store,
                    emit=emit,
                    clock=self.clock if has_clock(policy) else None,
                )
            else:
                op.add(query, emit=emit, allowed_lateness=ours)
        assert op is not None
        self.op = op

    @property
    def leader(self) -> Emitter:
        return next(iter(self.emitters.values()))

    def step(self, call: Call) -> None:
        if call.batch is not None:
            expected = [each.push(call.batch, self.clock.now) for each in self.emitters.values()]
            return self.check(expected, self.op.push(call.batch))
        stream = self.leader.stream
        given = a_key(self.op, stream, call)
        if given is not None:
            group = group_of(stream.schema, given)
            known = stream.reached(group)
            target = max(-40 if known is None else known, reached(stream) - 15 + call.advance)
            expected = [each.advance(target, self.clock.now, group) for each in self.emitters.values()]
            return self.check(expected, self.op.advance(scalar(target, self.time), key=given))
        least = stream.watermark if stream.watermark is not None else -40
        target = max(least, reached(stream) - 15 + call.advance) if self.order == "out-of-order" else least
        expected = [each.advance(target, self.clock.now) for each in self.emitters.values()]
        return self.check(expected, self.op.advance(scalar(target, self.time)))

    def look_at_clock(self) -> None:
        """Have what is due by the clock, which is what a watermark brings that does not move."""
        watermark = self.leader.stream.watermark
        if watermark is not None:
            expected = [each.advance(watermark, self.clock.now) for each in self.emitters.values()]
            self.check(expected, self.op.advance())

    def fire(self, group: tuple[Any, ...] | None) -> None:
        expected = [each.fire(group) for each in self.emitters.values()]
        values = [math.nan if value == NAN else value for value in group or ()]
        key = None if group is None else dict(zip(self.leader.query.by, values, strict=True))
        self.check(expected, self.op.fire(key))

    def restart(self) -> None:
        queries = dict(self.op.queries)
        clock = self.clock if has_clock(self.leader.policy) else None
        self.op = wk.Operator.restore(self.op.snapshot(), queries, clock=clock)

    def close(self) -> None:
        self.check([each.close() for each in self.emitters.values()], self.op.close())

    def check(self, expected: list[Any], got: pa.Table) -> None:
        assert got.schema == self.op.schema or not got.num_rows
        assert_emitted(
            {row: values for each in expected for row, values in each.items()}, emitted_by(self.op, got)
        )
        self.rows += got.to_pylist()
        emissions = got["emission"].to_pylist() if got.num_rows else []
        # What is early comes after everything else, but for what is taken back for it.
        firsts = [at for at, each in enumerate(emissions) if each == "early"]
        assert all(
            each in ("early", "retraction") for each in emissions[min(firsts, default=len(emissions)) :]
        )


@settings(max_examples=300, deadline=None)
@given(emitting(), st.data())
def test_every_call_says_what_the_definition_does(given: Emitting, data: st.DataObject) -> None:
    run = Run(given)
    for call in given.case.calls:
        run.clock.now += data.draw(st.sampled_from([0, 1, 3, 12]))
        run.step(call)
        if has_clock(run.leader.policy) and given.case.delay is None and data.draw(st.booleans()):
            run.look_at_clock()
        if data.draw(st.integers(0, 3)) == 0:
            run.restart()
        if data.draw(st.integers(0, 3)) == 0:
            known = list(run.leader.keys)
            run.fire(data.draw(st.none() | st.sampled_from(known)) if known else None)
    run.close()
    assert_weights(run)


def assert_weights(run: Run) -> None:
    """Over any prefix, each row of a query that retracts came as often as it was taken back, or once more."""
    sums: Counter[str] = Counter()
    for row in run.rows:
        name = row.get("query_name", "q1")
        if run.emitters[name].refinement == "retracting":
            at = repr([value for name, value in row.items() if name not in ("update", "emission", "weight")])
            sums[at] += row["weight"]
            assert sums[at] in (0, 1), row


KINDS = {
    "k": pa.string(),
    "t": pa.int64(),
    "i": pa.int64(),
    "b": pa.bool_(),
    "m": pa.bool_(),
    "n": pa.bool_(),
}
SCHEMA = pa.schema(KINDS)
AGGS = [wk.count().alias("c"), wk.sum("i").alias("s"), wk.max("i").alias("x"), wk.first("i").alias("f")]
WINDOW = ("k", "window_start", "window_end", "window_name")
VALUES = {
    "k": st.sampled_from(["a", "b"]),
    "t": st.integers(0, 60),
    "i": st.integers(-3, 5) | st.none(),
    "b": st.booleans() | st.none(),
    "m": st.booleans() | st.none(),
    "n": st.sampled_from([False, False, True]),
}


class Stretch(NamedTuple):
    """Batches, and what follows each of them: the watermark moves on, a key fires, there is a restart."""

    order: str
    batches: list[pa.Table]
    between: list[str]


@st.composite
def stretches(draw: st.DrawFn) -> Stretch:
    order = draw(st.sampled_from(["in-order", "out-of-order"]))
    rows = draw(st.lists(st.fixed_dictionaries(VALUES), max_size=25))
    if order == "in-order":
        rows = sorted(rows, key=lambda row: row["t"])
    cuts = sorted(draw(st.lists(st.integers(0, len(rows)), max_size=6)))
    batches = [rows[lo:hi] for lo, hi in pairwise([0, *cuts, len(rows)])]
    between = [draw(st.sampled_from(["", "", "advance", "fire", "restart"])) for _ in batches]
    return Stretch(order, [pa.Table.from_pylist(batch, SCHEMA) for batch in batches], between)


def results_of(query: wk.Query, stretch: Stretch) -> list[dict[str, Any]]:
    """Return all that a stream says of rows none of which is too late."""
    discards = query.emit is not None and query.emit.discards
    lateness = 0 if stretch.order == "in-order" or discards else ROOMY
    op = query.operator(order=stretch.order, allowed_lateness=lateness, schema=SCHEMA)
    emitted, latest = [], 0
    for batch, then in zip(stretch.batches, stretch.between, strict=True):
        emitted.append(op.push(batch))
        latest = max([latest, *batch["t"].to_pylist()])
        if then == "advance" and not (discards and stretch.order == "out-of-order"):
            emitted.append(op.advance(latest))
        elif then == "fire":
            emitted.append(op.fire("a"))
        elif then == "restart":
            op = wk.Operator.restore(op.snapshot(), query)
    emitted.append(op.close())
    return [row for table in emitted for row in table.to_pylist()]


def of_keys(policy: Policy) -> wk.Trigger | None:
    """Return a policy's trigger, unless it concerns single windows."""
    is_of_windows = any(leaf[0] == "at" for leaf in leaves(policy.early))
    return None if is_of_windows or policy.early is None else made(policy.early, int)


def shown(row: dict[str, Any], *without: str) -> str:
    return repr([value for name, value in sorted(row.items()) if name not in without])


@st.composite
def sessions(draw: st.DrawFn) -> Emitting:
    """Few rows in a short time, of one key, so that sessions that were over are often extended."""
    sizes = draw(st.lists(st.integers(1, 12), min_size=1, max_size=2, unique=True))
    query = wk.query(by=[], time="t", windows=[wk.session(size) for size in sizes], aggs=AGGS)
    calls = []
    for _ in range(draw(st.integers(2, 7))):
        times = draw(st.lists(st.integers(0, 30), max_size=2))
        batch = pa.Table.from_pylist([{"t": time, "i": time} for time in times], SCHEMA)
        calls.append(Call(batch) if times else Call(None, draw(st.integers(10, 30))))
    lateness = draw(st.sampled_from([0, 0, 3, 20]))
    policy = Policy(("rows", draw(st.integers(1, 2))), "retracting")
    case = Case(query, SCHEMA, "out-of-order", lateness, None, calls)
    return Emitting(case, {"q1": (query, policy, lateness)})


@settings(max_examples=300, deadline=None)
@given(sessions())
def test_sessions_take_back_what_they_cover(given: Emitting) -> None:
    run = Run(given)
    for call in given.case.calls:
        run.step(call)
    run.close()
    assert_weights(run)


@settings(max_examples=300, deadline=None)
@given(stretches(), policies(), st.data())
def test_what_retracts_adds_up_to_all_rows(stretch: Stretch, policy: Policy, data: st.DataObject) -> None:
    """At any time each result is there or not; in the end, those are there that a batch has."""
    draw, kind = data.draw, pa.int64()
    kinds = [row_windows if draw(st.booleans()) else time_window for _ in range(draw(st.integers(1, 2)))]
    windows = [each(draw, kind) for each in kinds]
    query = wk.query(
        by="k",
        time="t",
        windows=[window.alias(f"w{number}") for number, window in enumerate(windows)],
        aggs=AGGS,
        emit=wk.emit(of_keys(policy), "retracting"),
    )
    sums: Counter[str] = Counter()
    total: Counter[str] = Counter()
    extra = ("emission", "weight", "update")
    for row in results_of(query, stretch):
        sums[shown(row, *extra)] += row["weight"]
        assert sums[shown(row, *extra)] in (0, 1), row
        total[shown(row, *extra, "window_number")] += row["weight"]
    everything = pa.concat_tables(stretch.batches)
    expected = Counter(shown(row) for row in query.run(everything).to_pylist())
    assert +total == expected
    assert -total == Counter()


@settings(max_examples=200, deadline=None)
@given(stretches(), policies(), st.data())
def test_what_is_discarded_adds_up_to_all_rows(stretch: Stretch, policy: Policy, data: st.DataObject) -> None:
    """Sums and counts of the panes of a window are those of its rows; so are the greatest of maxima."""
    windows = [time_window(data.draw, pa.int64()) for _ in range(3)]
    windows = [each for each in windows if not isinstance(each, wk.Session | wk.Landmark | wk.Global)]
    query = wk.query(
        by="k",
        time="t",
        windows=[window.alias(f"w{number}") for number, window in enumerate([wk.tumbling(7), *windows])],
        aggs=AGGS,
        emit=wk.emit(of_keys(policy), "discarding"),
    )
    panes: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in results_of(query, stretch):
        panes[shown({name: row.get(name) for name in WINDOW})].append(row)
    expected = query.run(pa.concat_tables(stretch.batches)).to_pylist()
    assert len(expected) == len(panes)
    for row in expected:
        own = panes[shown({name: row.get(name) for name in WINDOW})]
        assert all(pane["c"] > 0 for pane in own)
        assert sum(pane["c"] for pane in own) == row["c"]
        for name, whole in (("s", sum), ("x", max)):
            values = [pane[name] for pane in own if pane[name] is not None]
            assert (whole(values) if values else None) == row[name]
