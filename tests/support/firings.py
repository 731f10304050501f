"""What emission policies mean, evaluated naively: after each call, every window over all rows that came.

Triggers are nested tuples here, such as ``("or", [("rows", 3), ("every", 10, "event time")])``, of which
`made` makes those of the package. Which windows are final or late is what `Stream` says of a query without a
policy; everything else follows from lists of rows: which came since a key last fired, and the results of a
window so far.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import reduce
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support import local_oracle
from support.extents import EXTENTS, spans_of
from support.oracle import extents, taken
from support.oracle_aggregates import Close, RootClose, aggregate, same
from support.plain import in_units, key, nanoseconds_per_unit, plain
from support.stream_oracle import Result, Stream, over

Spec = tuple[Any, ...]
Group = tuple[Any, ...]
Before = Callable[[Group], int | None]
"""Up to when keys were complete."""


class Policy(NamedTuple):
    """A trigger, or None, and a refinement."""

    early: Spec | None
    refinement: str


class Window(NamedTuple):
    """A window that has rows."""

    group: Group
    of: wk.Window
    start: int
    end: int
    rows: tuple[int, ...]


Results = dict[tuple[Any, ...], list[Any]]
"""Values by query, keys, window, start, end, update, emission and weight."""


class Perhaps(list[Any]):
    """Values of an early result that are as near to those before as rounding allows.

    If they are equal, neither they are emitted nor is the result before retracted.
    """


def may_be_same(value: Any, old: Any) -> bool:
    """Whether two values are equal, or may be by what is known of them."""
    if isinstance(value, RootClose) and isinstance(old, RootClose):
        return may_be_same(value.square, old.square)
    if isinstance(value, Close) and isinstance(old, Close) and math.isfinite(value.value):
        return abs(value.value - old.value) <= value.tolerance + old.tolerance
    return repr(value) == repr(old)


def made(spec: Spec, length: Any) -> wk.Trigger:
    """Return the trigger of the package; `length` makes a length of the time column of units."""
    match spec:
        case ("rows", number):
            return wk.rows(number)
        case ("every", number, "event time"):
            return wk.every(length(number))
        case ("every", number, of):
            return wk.every(f"{number} microseconds", of=of)
        case ("wait", number):
            return wk.every(f"{number} microseconds", of="processing time", since="first row")
        case ("on", column):
            return wk.on(column)
        case ("at", share):
            return wk.at(share)
        case ("repeat", chain):
            return made(chain, length).repeat()
    combine = {"or": lambda a, b: a | b, "and": lambda a, b: a & b, "then": lambda a, b: a.then(b)}[spec[0]]
    return reduce(combine, (made(each, length) for each in spec[1]))


class Key:
    """What triggers know of a key."""

    def __init__(self) -> None:
        self.pending: set[int] = set()
        # The clock when the first of these came.
        self.since = 0
        self.held: set[Spec] = set()
        self.stages: dict[tuple[int, ...], int] = defaultdict(int)

    def holds(self, spec: Spec, path: tuple[int, ...] = ()) -> bool:
        match spec[0]:
            case "rows":
                return len(self.pending) >= spec[1]
            case "on" | "every" | "wait":
                return spec in self.held
            case "at":
                return False
            case "or":
                return any(self.holds(each, (*path, at)) for at, each in enumerate(spec[1]))
            case "and":
                return all(self.holds(each, (*path, at)) for at, each in enumerate(spec[1]))
        at = self.stages[path]
        return self.holds(stages_of(spec)[at], (*path, at))

    def fire(self, spec: Spec | None) -> None:
        """Move on the stages that held; everything else begins anew."""
        if spec is not None:
            moved = dict(self.moved(spec, ()))
            self.stages.update(moved)
        self.pending, self.held = set(), set()

    def moved(self, spec: Spec, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], int]]:
        if spec[0] in ("or", "and"):
            for at, each in enumerate(spec[1]):
                yield from self.moved(each, (*path, at))
        elif spec[0] in ("then", "repeat"):
            stages, at = stages_of(spec), self.stages[path]
            yield from self.moved(stages[at], (*path, at))
            if self.holds(stages[at], (*path, at)):
                yield path, (at + 1) % len(stages) if spec[0] == "repeat" else min(at + 1, len(stages) - 1)


def has_clock(spec: Spec | None) -> bool:
    """Whether the clock matters to a trigger."""
    return any(leaf[0] == "wait" or leaf[2:] == ("processing time",) for leaf in leaves(spec))


def stages_of(spec: Spec) -> list[Spec]:
    """Return the stages of a chain, repeated or not."""
    return list(spec[1][1] if spec[0] == "repeat" else spec[1])


def leaves(spec: Spec | None) -> Iterator[Spec]:
    if spec is None:
        return
    if spec[0] == "repeat":
        yield from leaves(spec[1])
    elif spec[0] in ("or", "and", "then"):
        for each in spec[1]:
            yield from leaves(each)
    else:
        yield spec


class Emitter:
    """One query of an operator, with or without a policy; each call returns the results that it must emit."""

    def __init__(
        self, name: str, query: wk.Query, schema: pa.Schema, policy: Policy | None, **how: Any
    ) -> None:
        self.name, self.query, self.policy = name, query, policy
        self.stream = Stream(name, query, schema, **how)
        self.keys: dict[Group, Key] = defaultdict(Key)
        # The latest results, and whether they were final.
        self.latest: dict[tuple[Group, str], list[tuple[int, int, list[Any], bool]]] = defaultdict(list)
        self.clock: int | None = None

    @property
    def refinement(self) -> str:
        return "accumulating" if self.policy is None else self.policy.refinement

    @property
    def early(self) -> Spec | None:
        return None if self.policy is None else self.policy.early

    def push(self, batch: pa.Table, clock: int) -> Results:
        before = self.stream.all_reached()
        finals = self.stream.push(batch)
        columns = self.columns()
        for row in self.stream.fresh:
            own = self.keys[self.group(row, columns)]
            own.since = own.since if own.pending else clock
            own.pending.add(row)
            own.held |= {leaf for leaf in leaves(self.early) if leaf[0] == "on" and columns[leaf[1]][row]}
        return self.results(finals, before, clock)

    def advance(self, watermark: int, clock: int, group: Group | None = None) -> Results:
        before = self.stream.all_reached()
        return self.results(self.stream.advance(watermark, group), before, clock)

    def fire(self, group: Group | None) -> Results:
        """Fire by hand; neither watermark nor clock are looked at."""
        if self.policy is None:
            return {}
        emitted: Results = {}
        self.emit_early([one for one in list(self.keys) if group in (None, one)], {}, emitted)
        return emitted

    def close(self) -> Results:
        emitted: Results = {}
        self.emit_final(self.stream.close(), emitted)
        for (group, window), known in self.latest.items():
            for start, end, values, is_final in known:
                if not is_final:
                    emitted[(self.name, *group, window, start, end, False, "retraction", -1)] = values
        return emitted

    def results(self, finals: dict[Result, list[Any]], before: Before, clock: int) -> Results:
        emitted: Results = {}
        self.emit_final(finals, emitted)
        if self.policy is not None:
            # Even of a window of which nothing is left to emit.
            for _, *keys, _, _, _, update in finals:
                if not update:
                    self.keys[tuple(keys)].stages.clear()
            self.hold_every(before, clock)
            early = self.early
            fired = [group for group, own in self.keys.items() if early is not None and own.holds(early)]
            self.emit_early(fired, self.reached(before), emitted)
        self.clock = clock
        return emitted

    def hold_every(self, before: Before, clock: int) -> None:
        """Latch what watermark and clock passed, for the keys that have pending rows."""
        for leaf in leaves(self.early):
            if leaf[0] == "wait":
                for own in self.keys.values():
                    own.held |= {leaf} if own.pending and clock - own.since >= leaf[1] else set()
            if leaf[0] == "every":
                event, now = leaf[2] == "event time", self.stream.all_reached()
                for group, own in self.keys.items():
                    old, new = (before(group), now(group)) if event else (self.clock, clock)
                    if old is not None and new is not None and old // leaf[1] < new // leaf[1]:
                        own.held |= {leaf} if own.pending else set()

    def reached(self, before: Before) -> dict[tuple[Any, ...], None]:
        """Return the windows that the watermark came through by a share of them."""
        shares = [leaf[1] for leaf in leaves(self.early) if leaf[0] == "at"]
        found: dict[tuple[Any, ...], None] = {}
        for each in self.windows() if shares else []:
            was, now = before(each.group), self.stream.reached(each.group)
            for share in shares:
                start = news(each.of, each.start, each.end, self.stream.time_type)
                at = start + math.ceil(Fraction(str(share)) * (each.end - start))
                if now is not None and at <= now and (was is None or was < at):
                    found[each.group, each.of.name, each.start, each.end] = None
        return found

    def emit_final(self, finals: dict[Result, list[Any]], emitted: Results) -> None:
        windows = {(each.group, each.of.name, each.start, each.end): each for each in self.windows()}
        for (name, *keys, window, start, end, update), whole in finals.items():
            group, extent, values = tuple(keys), (start, end), whole
            if self.refinement == "discarding":
                pane = sorted(self.keys[group].pending & set(windows[group, window, start, end].rows))
                if not pane:
                    continue
                extent, values = self.pane(windows[group, window, start, end], pane)
            self.emit(group, windows[group, window, start, end].of, extent, values, update, emitted, True)
            assert name == self.name

    def emit_early(self, fired: list[Group], reached: dict[tuple[Any, ...], None], emitted: Results) -> None:
        for each in self.windows():
            watermark = self.stream.reached(each.group)
            if watermark is not None:
                end = over(each.of, each.end)
                if end < watermark or (end == watermark and not isinstance(each.of, wk.Session)):
                    continue
            pending = self.keys[each.group].pending & set(each.rows) if each.group in fired else set()
            if pending or (each.group, each.of.name, each.start, each.end) in reached:
                rows = sorted(pending) if self.refinement == "discarding" else list(each.rows)
                extent, values = self.pane(each, rows)
                self.emit(each.group, each.of, extent, values, False, emitted, False)
        for group in fired:
            self.keys[group].fire(self.early)

    def emit(
        self,
        group: Group,
        window: wk.Window,
        extent: tuple[int, int],
        values: list[Any],
        update: bool,
        emitted: Results,
        is_final: bool,
    ) -> None:
        """Emit a result of a window, after retracting the previous one."""
        if self.refinement == "retracting":
            known = self.latest[group, window.name]
            replaced = [old for old in known if is_same_window(window, old[:2], extent)]
            is_perhaps = False
            if not is_final and len(replaced) == 1:
                ((start, end, old, was_final),) = replaced
                if (start, end) == extent and not was_final:
                    if repr(values) == repr(old):
                        return
                    is_perhaps = all(map(may_be_same, values, old))
            for old_said in replaced:
                start, end, old, _ = old_said
                taken_back = Perhaps(old) if is_perhaps else old
                emitted[(self.name, *group, window.name, start, end, False, "retraction", -1)] = taken_back
                known.remove(old_said)
            values = Perhaps(values) if is_perhaps else values
            known.append((*extent, values, is_final))
        emission = ("late" if update else "final") if is_final else "early"
        emitted[(self.name, *group, window.name, *extent, update, emission, 1)] = values

    def pane(self, window: Window, rows: list[int]) -> tuple[tuple[int, int], list[Any]]:
        """Return the extent that a result of some rows of a window has, and its values."""
        extent, columns, times = (window.start, window.end), self.columns(), self.stream.times()
        if isinstance(window.of, wk.Global):
            at = sorted(times[row] for row in rows)
            extent = at[0], at[-1]
        schema = self.stream.schema
        return extent, [
            aggregate(each, taken(each, rows, columns), times, columns, schema) for each in self.query.aggs
        ]

    def windows(self) -> Iterator[Window]:
        """Yield all windows that have rows, over all rows that were not late for them."""
        columns, times = self.columns(), self.stream.times()
        for window in self.query.windows:
            counted = self.stream.counted(self.name, window, times)
            for group, rows in self.stream.groups(self.name, window, columns).items():
                for start, end, inside, _ in extents(window, rows, counted, self.stream.time_type, columns):
                    yield Window(group, window, start, end, tuple(inside))

    def columns(self) -> dict[str, list[Any]]:
        return {name: plain(self.stream.table[name]) for name in self.stream.schema.names}

    def group(self, row: int, columns: dict[str, list[Any]]) -> Group:
        return tuple(key(columns[by][row]) for by in self.query.by)


def is_same_window(window: wk.Window, old: tuple[int, int], new: tuple[int, int]) -> bool:
    """Whether a result replaces an earlier one: of a session that it covers, or of the same window."""
    if isinstance(window, wk.Session):
        return old[0] < new[1] and new[0] < old[1]
    return isinstance(window, wk.Global) or old == new


def emitted_by(op: wk.Operator, table: pa.Table) -> Results:
    """Return the rows of a result in the form of the oracle's."""
    queries = dict(op.queries)
    found: Results = {}
    if not table.num_rows:
        return found
    columns = {name: plain(table[name]) for name in table.column_names if name not in EXTENTS}
    edges = spans_of(table)
    for row in range(table.num_rows):
        name = columns["query_name"][row] if "query_name" in columns else next(iter(queries))
        query = queries[name]
        window = columns["window_name"][row] if "window_name" in columns else None
        keys = tuple(key(columns[by][row]) for by in query.by)
        start, end = edges[row] or (None, None)
        result = (
            name,
            *keys,
            query.windows[0].name if window is None else window,
            start,
            end,
            columns["update"][row],
            columns["emission"][row],
            columns["weight"][row] if "weight" in columns else 1,
        )
        assert result not in found, f"{result} comes twice"
        found[result] = [columns[each.name][row] for each in query.aggs]
    return found


def news(window: wk.Window, start: int, end: int, kind: pa.DataType) -> int:
    """Return where the stretch of a window begins that the one before does not have, if windows grow."""
    if not isinstance(window, wk.Landmark):
        return start
    if not window.is_local:
        return end - in_units(window.every, kind)
    per, at = nanoseconds_per_unit(kind), start * nanoseconds_per_unit(kind)
    while (following := local_oracle.landmark(window, at)[1]) < end * per:
        at = following
    return at // per


def assert_emitted(expected: Results, got: Results) -> None:
    """Assert that a call emitted this, no more, and these values."""
    perhaps = {result for result, values in expected.items() if isinstance(values, Perhaps)}
    left_out = perhaps - got.keys()
    # A result is retracted if and only if another one follows.
    assert {result[:-2] for result in left_out}.isdisjoint(result[:-2] for result in perhaps - left_out)
    expected = {result: values for result, values in expected.items() if result not in left_out}
    missing, more = expected.keys() - got.keys(), got.keys() - expected.keys()
    assert not missing, f"missing {missing}; more than expected {more}"
    assert not more, f"more than expected {more}"
    for result, values in expected.items():
        assert all(map(same, values, got[result])), f"{result}: {got[result]} is not {values}"
