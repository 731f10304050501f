"""An operator of queries, simulated."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support.extents import spans_of
from support.holding import TWIN, Definition
from support.plain import column, key, plain
from support.simulation.disturbances import assert_like
from support.simulation.forms import WEIGHT
from support.simulation.panes import discards
from support.simulation.policies import told
from support.simulation.received import Received
from support.simulation.run import Run
from support.simulation.setting import any_setting, drawn
from support.simulation.shedding import Keys, Rows, Shedding
from support.simulation.step import Step
from support.simulation.steps import Steps
from support.stream_oracle import by_rows
from support.streams import scalar, scaled


class Saved(NamedTuple):
    """A snapshot of the operator, and what the definition and the consumer were then."""

    snapshot: bytes | None
    queries: dict[str, wk.Query]
    definition: Definition
    received: Received
    clock: int


class QueryRun(Run):
    """Queries that come and go."""

    op: wk.Operator
    saved: Saved

    def __init__(self, random: Random, log: Callable[[str], None]) -> None:
        super().__init__(log)
        self.setting = drawn(any_setting(), random)
        self.place, self.steps = self.setting.place, Steps(random, self.setting)
        self.number = self.steps.number
        # What the operator's clock says, if it has one.
        self.clock = self.steps.now
        self.op = self.new()
        self.takes_slices = self.op.takes_slices
        self.definition, self.received = self.defined(), Received(self.setting.options.get("late_limit"))
        # What is kept does not depend on what happens.
        shed = self.setting.shed
        self.shedding: Shedding | None = None if shed is None else Keys() if shed.keep == "keys" else Rows()
        self.saved = self.save(None)
        setting = self.setting
        log(f"{setting.order}, allowed_lateness={setting.lateness}, max_delay={setting.delay}")
        log(str(setting.options))
        others = {name: query for name, (query, _) in self.steps.others.items()}
        for name, query in {"q1": setting.query, **others}.items():
            log(f"{name}: {', '.join(map(str, [*query.windows, *query.aggs]))}, {query.emit}, {query.weight}")

    def new(self) -> wk.Operator:
        """Return the operator that the run begins with."""
        setting = self.setting
        return setting.query.operator(
            order=setting.order,
            allowed_lateness=scaled(setting.lateness, self.place.kind),
            progress=None if setting.delay is None else wk.delay(scaled(setting.delay, self.place.kind)),
            schema=setting.given(setting.schema.empty_table()).schema,
            **setting.options,
            **self.timing(),
        )

    def timing(self) -> dict[str, Any]:
        """Return how the operator knows the time, if not from rows."""
        return {"clock": lambda: self.clock} if self.setting.processing else {}

    def wind(self, at: int) -> None:
        """Set the clock; back, where the operator has reached that time, for which it stands still then."""
        reached = self.definition.watermark
        back = self.disturbances.random.randint(0, 9) if reached is not None and at <= reached else 0
        self.clock = at - back

    def next(self) -> Step:
        return self.steps.next(self.definition)

    def restored(self, snapshot: bytes) -> wk.Operator:
        return wk.Operator.restore(snapshot, dict(self.op.queries), **self.timing())

    def noted(self) -> Callable[[], None]:
        before, reached, queries = self.op.stats(), self.op.watermark, self.op.queries

        def assert_same() -> None:
            assert self.op.watermark == reached
            assert self.op.queries == queries
            after = self.op.stats()
            # Rows that nothing needs are dropped now and then: also when a query comes or goes.
            assert after.rows_kept <= before.rows_kept
            assert_like(after, dataclasses.replace(before, rows_kept=after.rows_kept))

        return assert_same

    def defined(self) -> Definition:
        setting = self.setting
        return Definition(
            "q1",
            setting.query,
            setting.schema,
            order=setting.order,
            allowed_lateness=setting.lateness,
            max_delay=setting.delay,
            updates=setting.updates,
        )

    def save(self, snapshot: bytes | None) -> Saved:
        queries, definition = dict(self.op.queries), self.definition.copy()
        return Saved(snapshot, queries, definition, self.received.copy(), self.clock)

    def call(self, step: Step) -> Any:
        op, definition, argument = self.op, self.definition, step.argument
        share, out = op.stats().shed_share if self.setting.shed else 1.0, op.watermark_out
        late = len(definition.late)
        match step.kind:
            case "push":
                rows = self.without_strangers(argument)
                given = self.setting.given(rows)
                if rows.num_rows and self.setting.processing:
                    self.wind(plain(rows[self.setting.at])[0])
                emitted = self.surely(lambda: op.push(given))
                definition.push(rows)
            case "push_slices":
                emitted, is_sliced = self.push_slices(argument)
                definition.push(argument)
                if is_sliced:
                    # Those without a time are in no slice.
                    times = definition.times()
                    lost = [row for _, row, _ in definition.late[late:] if times[row] is not None]
                    self.received.late.lose(len(lost))
                    late = len(definition.late)
            case "advance":
                self.wind(argument)
                emitted = self.surely(lambda: op.advance(self.at(argument)))
                definition.advance(argument)
            case "advance_key":
                at, of = argument
                emitted = self.surely(lambda: op.advance(self.at(at), key=of))
                definition.advance(at, self.group(of))
            case "end_key":
                emitted = self.surely(lambda: op.end_key(argument))
                self.check_ahead(self.group(argument), definition.end_key(self.group(argument)))
            case "punctuate":
                at, of = argument
                self.wind(at)
                emitted = self.surely(lambda: op.punctuate(self.at(at), of))
                definition.punctuate(at, None if of is None else self.group(of))
            case "fire":
                emitted = self.surely(lambda: op.fire(argument))
            case "close":
                emitted = self.surely(op.close)
                definition.close()
            case "add":
                query, lateness = self.steps.others[argument]
                scale = scaled(lateness, self.place.kind)
                named = self.surely(
                    lambda: op.add(query, name=argument, allowed_lateness=scale), lambda: argument
                )
                assert named == argument
                definition.add(argument, query, lateness)
                return None
            case "remove":
                self.remove(argument)
                return None
            case "take_late":
                taken = self.surely(op.take_late)
                self.take_late(taken["id"].to_pylist())
                return taken
        self.received.late.add(self.numbers(row for _, row, _ in definition.late[late:]))
        self.received.take(emitted, op.queries, definition, step.kind == "close")
        self.assert_in_time(emitted, out)
        if not self.setting.updates:
            assert True not in emitted["update"].to_pylist()
            assert None not in spans_of(emitted)
        if self.shedding is not None:
            said, after = self.shedding.hear(emitted, share, self.setting.query.by), op.stats().shed_share
            assert after <= share
            # Before anything is dropped, `check` looks now and then, as at other operators.
            if after < 1.0:
                self.shedding.check(self.received.held, share, definition, said)
        return emitted

    def check_ahead(self, ended: tuple[Any, ...], has_windows: bool) -> None:
        """Assert that the keys which are complete further than the stream are those of the definition."""
        table, by = self.op.keys_ahead(), self.setting.query.by
        columns = [[key(value) for value in plain(table[name])] for name in by]
        told = dict(zip(zip(*columns, strict=True), plain(table["watermark"]), strict=True))
        reached, ahead = self.definition.watermark, self.definition.ahead
        if not has_windows or any(discards(query) for query in self.op.queries.values()):
            # A window all of whose panes have come out is not returned; keys without any may be forgotten.
            ahead.pop(ended, None)
            ahead |= {ended: told[ended]} if ended in told else {}
        expected = {group: mark for group, mark in ahead.items() if reached is None or mark > reached}
        assert told == expected, f"{told}, not {expected}"

    def numbers(self, rows: Iterable[int]) -> list[int]:
        """Return the numbers of rows of the definition's table."""
        numbers = self.definition.table["id"].to_pylist()
        return [numbers[row] for row in rows]

    def without_strangers(self, rows: pa.Table) -> pa.Table:
        """Return rows without those that retract one that was left out."""
        if not self.setting.is_weighted:
            return rows
        known, kept = set(self.definition.table[TWIN].to_pylist()), []
        for number, weight in zip(rows[TWIN].to_pylist(), rows[WEIGHT].to_pylist(), strict=True):
            known |= {number} if weight > 0 else set()
            kept.append(number in known)
        return rows.filter(pa.array(kept, pa.bool_()))

    def push_slices(self, rows: pa.Table) -> tuple[pa.Table, bool]:
        """Push rows as slices, if they may be; return results, and whether they were slices."""
        op, query = self.op, self.setting.query
        assert op.takes_slices == (self.takes_slices and not op.stats().keys_ahead)
        if op.takes_slices:
            slices = query.slices(rows)
            try:
                return self.surely(lambda: op.push_slices(slices)), True
            except wk.InvalidValue as error:
                if "has rows before and after" not in str(error):
                    raise
                assert any(isinstance(window, wk.Session) for window in query.windows)
        return self.surely(lambda: op.push(rows)), False

    def take_late(self, numbers: list[int]) -> None:
        """Take the numbers of late rows: all that are held, but for those that may be dropped."""
        late = self.received.late
        if self.shedding is not None:
            share, missing = self.op.stats().shed_share, Counter(late.held)
            missing.subtract(numbers)
            assert min(missing.values(), default=0) >= 0, f"{numbers} are not all late"
            columns = {name: plain(self.definition.table[name]) for name in self.setting.query.by}
            rows = {number: row for row, number in enumerate(self.definition.table["id"].to_pylist())}
            for number in +missing:
                group = self.definition.group_of(rows[number], columns)
                assert self.shedding.may_lack(group, share), f"{number} of {group} is missing"
            late.count -= missing.total()
            numbers = late.held
        late.take(numbers)

    def assert_in_time(self, emitted: pa.Table, out: Any) -> None:
        """Assert that windows are emitted when they are final, and after the watermark of earlier results."""
        if not emitted.num_rows:
            return
        before = None if out is None else plain(pa.array([out]))[0]
        keys = [[key(value) for value in plain(emitted[name])] for name in self.setting.query.by]
        groups = list(zip(*keys, strict=True)) if keys else [()] * emitted.num_rows
        rows = zip(told(emitted, self.op.queries), groups, spans_of(emitted), strict=True)
        reached = self.definition.all_reached()
        for row, group, span in ((row, group, span) for row, group, span in rows if span and row.is_final):
            of_group = reached(group)
            assert of_group is not None
            assert span[1] <= of_group, "a window is emitted before it is final"
            window, lateness = row.window, self.definition.queries[row.name].lateness
            is_by_time = not (by_rows(window) or isinstance(window, wk.Global))
            if is_by_time and lateness == 0 and not row.update and before is not None:
                late = span[1] < before or (span[1] == before and not isinstance(window, wk.Session))
                assert not late, "the watermark of results was past a result that comes now"

    def group(self, of: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a key as the definition has it."""
        return tuple(self.key(name, value) for name, value in of.items())

    def at(self, time: int) -> Any:
        """Return a time as calls take it: that of the clock is not given."""
        return None if self.setting.processing else scalar(time, self.place.kind)

    def key(self, name: str, value: Any) -> Any:
        return key(plain(column([value], self.setting.schema.field(name).type))[0])

    def remove(self, name: str) -> None:
        try:
            self.surely(lambda: self.op.remove(name), lambda: None)
        except wk.InvalidValue as error:
            if "still held back" not in str(error):
                raise
            assert not self.received.waiting.is_complete(name)
            return
        self.definition.remove(name)
        self.received.remove(name)

    def go_back(self) -> None:
        snapshot, queries, definition, received, self.clock = self.saved
        self.op = self.new() if snapshot is None else wk.Operator.restore(snapshot, queries, **self.timing())
        self.definition, self.received = definition.copy(), received.copy()

    def assert_repeated(self, emitted: pa.Table, repeated: pa.Table) -> None:
        if self.shedding is None or self.shedding.is_repeatable(emitted, repeated):
            super().assert_repeated(emitted, repeated)

    def refusals(self) -> list[Callable[[], object]]:
        op = self.op
        calls: list[Callable[[], object]] = [
            lambda: op.push(pa.table({"t": ["x"]})),
            lambda: op.remove("none of these"),
            lambda: op.add(self.setting.query, name=next(iter(op.queries))),
            lambda: wk.Operator.restore(op.snapshot()[:-1], dict(op.queries)),
        ]
        if self.definition.watermark is not None:
            behind = scalar(self.definition.watermark - 1, self.place.kind)
            calls.append(lambda: op.advance(behind))
        if not self.setting.query.by:
            calls.append(lambda: op.advance(self.at(0), key=1))
        return calls

    def check(self) -> None:
        stats, late, total = self.op.stats(), self.received.late, self.definition.table.num_rows
        if self.shedding is None:
            self.received.check(self.definition)
            assert (stats.rows, stats.late) == (self.definition.rows, late.count)
            assert stats.late_dropped == late.dropped
            return
        if stats.shed_share == 1.0:
            self.shedding.check(self.received.held, 1.0, self.definition)
        assert stats.keys_shed + stats.rows_shed == 0 or stats.shed_share < 1
        assert stats.rows <= self.definition.rows
        assert stats.rows_shed <= total
        if len(self.definition.queries) == 1 and not self.setting.others:
            assert stats.rows + stats.late + stats.rows_shed == total

    def finish(self) -> None:
        self.call(Step("close"))
        self.check()
        self.call(Step("take_late"))
        self.received.check_weights(self.op.queries)
        stats = self.op.stats()
        assert (stats.slices, stats.rows_kept) == (0, 0)
