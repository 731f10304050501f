"""One simulation: an operator, what happens to it, and what it should be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

import windowkit as wk
from support.consumer import Held, replace
from support.holding import Definition
from support.plain import assert_near, column, key, plain
from support.simulation.disturbances import Disturbances, assert_like
from support.simulation.policies import Weights, counted, final, retracting, weigh
from support.simulation.setting import any_setting, drawn
from support.simulation.steps import STEPS, Step, Steps
from support.streams import scalar, scaled

T = TypeVar("T")


class Saved(NamedTuple):
    """A snapshot of the operator, and what the definition and the consumer were then."""

    snapshot: bytes | None
    queries: dict[str, wk.Query]
    definition: Definition
    held: Held
    weights: Weights
    late: list[int]
    clock: int


class Run:
    """One simulation."""

    def __init__(self, seed: int, log: Callable[[str], None]) -> None:
        random, self.disturbances, self.log = Random(seed), Disturbances(log), log
        self.setting = drawn(any_setting(), random)
        self.time, self.steps = self.setting.time, Steps(random, self.setting)
        # What the operator's clock says, if it has one.
        self.clock = self.steps.now
        self.op = self.new()
        self.definition, self.held, self.late = self.defined(), Held(), list[int]()
        self.weights: Weights = Weights()
        # Whatever is done to the operator, and is done again after a kill, with what it returned.
        self.since: list[tuple[Step, Any]] = []
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

    def restored(self, snapshot: bytes, queries: Mapping[str, wk.Query]) -> wk.Operator:
        return wk.Operator.restore(snapshot, queries, **self.timing())

    def surely(self, call: Callable[[], T]) -> T:
        return self.disturbances.surely(self.op, call)

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

    def perform(self, step: Step) -> None:
        match step.kind:
            case "check":
                self.check()
            case "refused":
                self.refuse()
            case "snapshot":
                self.saved, self.since = self.save(self.surely(self.op.snapshot)), []
            case "restart":
                before = self.op.stats()
                self.op = self.restored(self.surely(self.op.snapshot), dict(self.op.queries))
                assert_like(self.op.stats(), before)
            case "kill":
                self.kill()
            case _:
                self.since.append((step, self.call(step)))

    def call(self, step: Step) -> Any:
        """Make a call of the operator; return what it returned."""
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
                self.surely(lambda: op.add(query, name=argument, allowed_lateness=scale))
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
        def remove() -> None:
            if name in self.op.queries:
                self.op.remove(name)

        self.surely(remove)
        self.definition.remove(name)
        for at in [at for at in self.held if at[0] == name]:
            del self.held[at]
        for row in [row for row in self.weights if row[0] == name]:
            del self.weights[row]

    def kill(self) -> None:
        """Drop the operator, go on from the last snapshot, and do again what was done since."""
        snapshot, queries, definition, held, weights, late, self.clock = self.saved
        again = self.since
        self.op = self.new() if snapshot is None else self.restored(snapshot, queries)
        self.definition, self.held, self.late, self.since = definition.copy(), dict(held), list(late), []
        self.weights = weights.copy()
        for step, emitted in again:
            self.log(f"  again: {step}")
            repeated = self.call(step)
            self.since.append((step, repeated))
            if emitted is not None:
                assert repeated.schema == emitted.schema
                assert_near(in_any_order(emitted), in_any_order(repeated))

    def refuse(self) -> None:
        """Make a call that is refused."""
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
        before = op.stats()
        try:
            self.disturbances.random.choice(calls)()
        except wk.WindowKitError:
            assert_like(op.stats(), before)
        else:
            raise AssertionError("it was not refused")

    def check(self) -> None:
        self.definition.check(self.held)
        stats = self.op.stats()
        assert (stats.rows, stats.late) == (self.definition.rows, len(self.definition.late))

    def finish(self) -> None:
        """Close the operator, and check all that it returned."""
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
    names = [name for name in emitted.column_names if name in ("window", "session_window")]
    keys = [[key(value) for value in plain(emitted[name])] for name in by]
    groups = list(zip(*keys, strict=True)) if keys else [()] * emitted.num_rows
    return [
        (group, span["end"])
        for name in names
        for group, span in zip(groups, plain(emitted[name]), strict=True)
        if span is not None
    ]


def in_any_order(table: pa.Table) -> list[list[Any]]:
    """Return rows, sorted by whatever tells windows apart."""
    rows = zip(*(plain(each) for each in table.columns), strict=True)
    return sorted((list(row) for row in rows), key=repr)


def simulate(
    seed: int,
    steps: int = STEPS,
    without: Sequence[int] = (),
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Run a seed, up to a number of steps and without some of them."""
    run = Run(seed, log)
    with run.disturbances.alarm.handling():
        for at in range(min(steps, run.steps.number)):
            step = run.steps.next(run.definition)
            if at not in without:
                run.disturbances.random.seed(f"{seed} {at}")
                log(f"{at}: {step}")
                run.perform(step)
        log("close")
        run.finish()
