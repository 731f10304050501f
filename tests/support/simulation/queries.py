"""An operator of queries, simulated."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import pyarrow as pa

import windowkit as wk
from support.consumer import Held, replace
from support.extents import spans_of
from support.holding import Definition
from support.plain import column, key, plain
from support.simulation.disturbances import assert_like
from support.simulation.policies import Weights, counted, final, retracting, weigh
from support.simulation.run import Run
from support.simulation.setting import any_setting, drawn
from support.simulation.step import Step
from support.simulation.steps import Steps
from support.streams import scalar, scaled


class Saved(NamedTuple):
    """A snapshot of the operator, and what the definition and the consumer were then."""

    snapshot: bytes | None
    queries: dict[str, wk.Query]
    definition: Definition
    held: Held
    weights: Weights
    late: list[int]
    clock: int


class QueryRun(Run):
    """Queries that come and go."""

    op: wk.Operator
    saved: Saved

    def __init__(self, random: Random, log: Callable[[str], None]) -> None:
        super().__init__(log)
        self.setting = drawn(any_setting(), random)
        self.time, self.steps = self.setting.time, Steps(random, self.setting)
        self.number = self.steps.number
        # What the operator's clock says, if it has one.
        self.clock = self.steps.now
        self.op = self.new()
        self.definition, self.held, self.late = self.defined(), Held(), list[int]()
        self.weights: Weights = Weights()
        self.saved = self.save(None)
        log(f"{self.setting.order}, allowed_lateness={self.setting.lateness}, max_delay={self.setting.delay}")
        others = {name: query for name, (query, _) in self.steps.others.items()}
        for name, query in {"q1": self.setting.query, **others}.items():
            log(f"{name}: {', '.join(map(str, [*query.windows, *query.aggs]))}")

    def new(self) -> wk.Operator:
        """Return the operator that the run begins with."""
        setting = self.setting
        return setting.query.operator(
            order=setting.order,
            allowed_lateness=scaled(setting.lateness, self.time),
            progress=None if setting.delay is None else wk.delay(scaled(setting.delay, self.time)),
            store=setting.store,
            schema=setting.given(setting.schema.empty_table()).schema,
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
        )

    def save(self, snapshot: bytes | None) -> Saved:
        queries, definition = dict(self.op.queries), self.definition.copy()
        held, weights = dict(self.held), self.weights.copy()
        return Saved(snapshot, queries, definition, held, weights, list(self.late), self.clock)

    def call(self, step: Step) -> Any:
        op, definition, argument = self.op, self.definition, step.argument
        match step.kind:
            case "push":
                rows = self.setting.given(argument)
                if argument.num_rows and self.setting.processing:
                    self.wind(plain(argument[self.setting.at])[0])
                emitted = self.surely(lambda: op.push(rows))
                definition.push(argument)
            case "advance":
                self.wind(argument)
                emitted = self.surely(lambda: op.advance(self.at(argument)))
                definition.advance(argument)
            case "advance_key":
                at, of = argument
                emitted = self.surely(lambda: op.advance(self.at(at), key=of))
                definition.advance(at, self.group(of))
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
                scale = scaled(lateness, self.time)
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
                late = self.surely(op.take_late)
                self.late += late["id"].to_pylist()
                return late
        weigh(self.weights, emitted, op.queries)
        replace(self.held, emitted, op.queries, self.time)
        for group, end in ends(final(emitted), self.setting.query.by):
            reached = definition.reached(group)
            assert reached is not None
            assert end <= reached, "a window is emitted before it is final"
        return emitted

    def group(self, of: Mapping[str, Any]) -> tuple[Any, ...]:
        """Return a key as the definition has it."""
        return tuple(self.key(name, value) for name, value in of.items())

    def at(self, time: int) -> Any:
        """Return a time as calls take it: that of the clock is not given."""
        return None if self.setting.processing else scalar(time, self.time)

    def key(self, name: str, value: Any) -> Any:
        return key(plain(column([value], self.setting.schema.field(name).type))[0])

    def remove(self, name: str) -> None:
        self.surely(lambda: self.op.remove(name), lambda: None)
        self.definition.remove(name)
        for at in [at for at in self.held if at[0] == name]:
            del self.held[at]
        for row in [row for row in self.weights if row[0] == name]:
            del self.weights[row]

    def go_back(self) -> None:
        snapshot, queries, definition, held, weights, late, self.clock = self.saved
        self.op = self.new() if snapshot is None else wk.Operator.restore(snapshot, queries, **self.timing())
        self.definition, self.held, self.late = definition.copy(), dict(held), list(late)
        self.weights = weights.copy()

    def refusals(self) -> list[Callable[[], object]]:
        op = self.op
        calls: list[Callable[[], object]] = [
            lambda: op.push(pa.table({"t": ["x"]})),
            lambda: op.remove("none of these"),
            lambda: op.add(self.setting.query, name=next(iter(op.queries))),
            lambda: wk.Operator.restore(op.snapshot()[:-1], dict(op.queries)),
        ]
        if self.definition.watermark is not None:
            behind = scalar(self.definition.watermark - 1, self.time)
            calls.append(lambda: op.advance(behind))
        if not self.setting.query.by:
            calls.append(lambda: op.advance(self.at(0), key=1))
        return calls

    def check(self) -> None:
        self.definition.check(self.held)
        stats = self.op.stats()
        assert (stats.rows, stats.late) == (self.definition.rows, len(self.definition.late))

    def finish(self) -> None:
        self.call(Step("close"))
        self.check()
        self.call(Step("take_late"))
        numbers = self.definition.table["id"].to_pylist()
        assert sorted(self.late) == sorted(numbers[row] for _, row, _ in self.definition.late)
        for name in retracting(self.op.queries):
            assert counted(self.weights, name) == sum(at[0] == name for at in self.held)
        stats = self.op.stats()
        assert (stats.slices, stats.rows_kept) == (0, 0)


def ends(emitted: pa.Table, by: Sequence[str]) -> list[tuple[tuple[Any, ...], int]]:
    """Return where windows end, with their keys."""
    keys = [[key(value) for value in plain(emitted[name])] for name in by]
    groups = list(zip(*keys, strict=True)) if keys else [()] * emitted.num_rows
    return [
        (group, span[1]) for group, span in zip(groups, spans_of(emitted), strict=True) if span is not None
    ]
