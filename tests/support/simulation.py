"""A stream operator and all that may happen to it, drawn from one seed, against the definition.

A run is an operator with queries of any kind, and a sequence of calls: rows, watermarks, punctuations,
queries that come and go, late rows taken, snapshots, restarts, and kills, after which the calls since the
last snapshot are made again. Some calls are interrupted by a signal, and in some a user-defined function
raises: a call that fails must leave the operator as it was, and is made again. What a consumer then holds
must be what the queries mean (simulations of this kind: Zhou et al., FoundationDB, SIGMOD 2021, §4).

A seed determines a run but for the moments of interrupts, on which nothing may depend. In `tests`,
``python -m support.simulation`` runs new seeds for some time, and ``python -m support.simulation SEED`` one.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace as replaced
from random import Random, SystemRandom
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

import windowkit as wk
from support.consumer import Held, replace
from support.failing import COMMUTATIVE, FAILURE, ORDERED, InjectedError, Rising, Terms
from support.holding import Definition
from support.oracle_types import functions_of
from support.plain import assert_near, column, key, plain
from support.streams import (
    AGGREGATES,
    KEY_POOLS,
    KEYS,
    MARKS,
    POOLS,
    TIMES,
    VALUES,
    row_windows,
    scalar,
    scaled,
    time_window,
)

T = TypeVar("T")

STEPS = 40
"""Of a run, at most."""
INTERRUPTS = sys.version_info >= (3, 11)
"""CPython 3.10 handles signals even between a return and the assignment after it (docs/operator.md)."""
UNLIKE = {"bytes": 0, "keys": 0, "late_bytes": 0}
"""What a call that failed, or a restart, may change of the statistics: what memory is held for."""
KEYS_OF = {str(kind): values for (kind, _), values in zip(KEYS, KEY_POOLS, strict=True)}


class Setting(NamedTuple):
    """What an operator is made of, and the queries that come and go."""

    query: wk.Query
    schema: pa.Schema
    order: str
    lateness: int
    delay: int | None
    store: str
    others: list[tuple[wk.Query, int]]
    """With the lateness that each allows."""


@st.composite
def any_window(draw: st.DrawFn, kind: pa.DataType) -> wk.Window:
    choices = ["time", "time", "rows", "rows", "rising"]
    if pa.types.is_integer(kind):
        choices.append("calendar")
    match draw(st.sampled_from(choices)):
        case "time":
            return time_window(draw, kind)
        case "rows":
            return row_windows(draw, kind)
        case "rising":
            return wk.custom(Rising())
    return wk.custom(Terms())


AGGS = [
    each.alias(f"a{number}")
    for number, each in enumerate(
        [
            *AGGREGATES,
            *(each(name) for name, (kind, _) in VALUES.items() for each in functions_of(kind)),
            *(each.where("b") for each in [*COMMUTATIVE, *ORDERED]),
            # As often as some ten others.
            *([*COMMUTATIVE, *ORDERED] * 3),
        ]
    )
]
"""Each with a name of its own, as one name must mean one type in all queries of an operator."""


@st.composite
def any_setting(draw: st.DrawFn) -> Setting:
    time = draw(st.sampled_from(TIMES))
    keys = [draw(st.sampled_from(KEYS)) for _ in range(draw(st.sampled_from([0, 1, 1, 2])))]
    by = [f"k{number}" for number in range(len(keys))]
    names = (
        dict(zip(by, keys, strict=True)) | {"t": (time, None)} | VALUES | MARKS | {"id": (pa.int64(), None)}
    )
    schema = pa.schema({name: kind for name, (kind, _) in names.items()})
    kind = draw(st.sampled_from(["in-order", "patient", "patient", "strict"]))
    order = "in-order" if kind == "in-order" else "out-of-order"
    lateness = {"in-order": 0, "patient": 10_000, "strict": draw(st.sampled_from([0, 3, 20]))}[kind]

    def query() -> wk.Query:
        windows = [
            draw(any_window(time)).alias(f"w{number}")
            for number in range(draw(st.sampled_from([1, 1, 2, 3])))
        ]
        aggs = st.lists(st.sampled_from(AGGS), min_size=1, max_size=4, unique_by=lambda each: each.name)
        return wk.query(by=by, time="t", windows=windows, aggs=draw(aggs))

    return Setting(
        query(),
        schema,
        order,
        lateness,
        None if kind == "in-order" else draw(st.sampled_from([None, None, 0, 7])),
        draw(st.sampled_from(["lazy", "eager", "auto"])),
        [
            (query(), lateness if kind != "strict" else draw(st.sampled_from([0, 3, 20])))
            for _ in range(draw(st.integers(0, 4)))
        ],
    )


def drawn(strategy: st.SearchStrategy[T], random: Random) -> T:
    """Return a value of a strategy that is determined by a generator of random numbers."""
    values: list[T] = []

    @settings(database=None)
    @given(strategy)
    def take(value: T) -> None:
        values.append(value)

    while not values:
        # None is taken where the strategy refuses what the bytes say.
        take.hypothesis.fuzz_one_input(random.randbytes(8192))
    return values[0]


class Step(NamedTuple):
    """A call that changes an operator, with its argument; or a restart, a kill or a check."""

    kind: str
    argument: Any = None

    def __str__(self) -> str:
        if not isinstance(self.argument, pa.Table):
            return self.kind if self.argument is None else f"{self.kind} {self.argument}"
        return "\n  ".join([self.kind, *(str(tuple(row.values())) for row in self.argument.to_pylist())])


class Saved(NamedTuple):
    """A snapshot of the operator, and what the definition and the consumer were then."""

    snapshot: bytes | None
    queries: dict[str, wk.Query]
    definition: Definition
    held: Held
    late: list[int]


class Run:
    """One simulation."""

    def __init__(self, seed: int, log: Callable[[str], None]) -> None:
        # The one draws what happens, and the other what goes wrong in a step; it is seeded for each, since
        # nothing determines how often a call is interrupted.
        self.random, self.disturbances, self.log = Random(seed), Random(), log
        self.setting = drawn(any_setting(), self.random)
        self.time = self.setting.schema.field("t").type
        self.others = {f"other{at}": query for at, query in enumerate(self.setting.others)}
        self.steps = self.random.randint(5, STEPS)
        self.now, self.rows = self.random.randint(-30, 30), 0
        self.op = self.new()
        self.definition, self.held, self.late = self.defined(), Held(), list[int]()
        # Whatever is done to the operator, and is done again after a kill, with what it returned.
        self.since: list[tuple[Step, Any]] = []
        self.saved = self.save(None)
        log(f"{self.setting.order}, allowed_lateness={self.setting.lateness}, max_delay={self.setting.delay}")
        others = {name: query for name, (query, _) in self.others.items()}
        for name, query in {"q1": self.setting.query, **others}.items():
            log(f"{name}: {', '.join(map(str, [*query.windows, *query.aggs]))}")

    def new(self) -> wk.Operator:
        """Return the operator that the run begins with."""
        setting = self.setting
        return setting.query.operator(
            order=setting.order,
            allowed_lateness=scaled(setting.lateness, self.time),
            max_delay=None if setting.delay is None else scaled(setting.delay, self.time),
            store=setting.store,
            schema=setting.schema,
        )

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
        return Saved(
            snapshot, dict(self.op.queries), self.definition.copy(), dict(self.held), list(self.late)
        )

    def step(self) -> Step:
        """Draw what happens next."""
        kinds = ["push"] * 12 + ["advance"] * 4 + ["take_late", "snapshot", "snapshot", "restart", "kill"]
        kinds += ["check", "refused"]
        if self.others.keys() - self.definition.queries.keys():
            kinds += ["add", "add"]
        if len(self.definition.queries) > 1:
            kinds.append("remove")
        windows = [window for each in self.definition.queries.values() for window in each.query.windows]
        if any(isinstance(window, wk.Punctuation) for window in windows):
            kinds += ["punctuate"] * 3
        kind = self.random.choice(kinds)
        match kind:
            case "push":
                return Step(kind, self.batch())
            case "advance":
                return Step(kind, self.watermark())
            case "add":
                return Step(
                    kind, self.random.choice(sorted(self.others.keys() - self.definition.queries.keys()))
                )
            case "remove":
                return Step(kind, self.random.choice(sorted(self.definition.queries)))
            case "punctuate":
                return self.punctuation()
        return Step(kind)

    def batch(self) -> pa.Table:
        """Return rows in two chunks, some of them late and some without a time."""
        random, in_order = self.random, self.setting.order == "in-order"
        columns: dict[str, list[Any]] = {name: [] for name in self.setting.schema.names}
        for _ in range(random.choice([0, 1, 2, 3, 5, 8, 8, 13, 40])):
            self.now += random.choice([0, 0, 1, 1, 2, 5, 12])
            back = 0 if in_order else random.choice([0, 0, 0, 1, 4, 11, 30])
            for name, values in columns.items():
                if name == "t":
                    values.append(None if random.random() < 0.05 else self.now - back)
                elif name == "id":
                    values.append(self.rows)
                elif name.startswith("k"):
                    kind = self.setting.schema.field(name).type
                    values.append(random.choice(KEYS_OF[str(kind)]))
                else:
                    pool = POOLS.get(name, [True, False, False])
                    values.append(None if name != "n" and random.random() < 0.1 else random.choice(pool))
            self.rows += 1
        arrays = {
            name: column(values, self.setting.schema.field(name).type) for name, values in columns.items()
        }
        batch = pa.table(arrays, schema=self.setting.schema)
        cut = random.randint(0, batch.num_rows)
        return pa.concat_tables([batch.slice(0, cut), batch.slice(cut)])

    def watermark(self) -> int:
        """Return where to advance to: where rows are or, out of order, somewhere around the latest."""
        reached = [t for t in (self.definition.watermark, self.definition.latest) if t is not None]
        if self.setting.order == "in-order":
            self.now = max([self.now, *reached]) + self.random.choice([0, 0, 1, 30])
            return self.now
        target = max(reached, default=-40) - 15 + self.random.randint(0, 30)
        return target if self.definition.watermark is None else max(target, self.definition.watermark)

    def punctuation(self) -> Step:
        known = (self.now, self.definition.watermark, self.definition.latest)
        reached = max(t for t in known if t is not None)
        at = reached + (self.random.randint(-15, 5) if self.setting.order == "out-of-order" else 0)
        if not self.accepts_punctuation(at):
            return Step("check")
        self.now = max(self.now, at) if self.setting.order == "in-order" else self.now
        of: dict[str, Any] | None = None
        table, by = self.definition.table, self.setting.query.by
        if by and table.num_rows and self.random.random() < 0.5:
            row = self.random.randrange(table.num_rows)
            of = {name: table[name][row].as_py() for name in by}
        return Step("punctuate", (at, of))

    def accepts_punctuation(self, at: int) -> bool:
        """Whether rows of that time may still come, to all queries."""
        watermark = self.definition.watermark
        return self.setting.order == "in-order" or all(
            (since is None or at > since) and (watermark is None or at >= watermark - lateness)
            for _, since, lateness in self.definition.queries.values()
        )

    def perform(self, step: Step) -> None:
        match step.kind:
            case "check":
                self.check()
            case "refused":
                self.refuse()
            case "snapshot":
                self.saved, self.since = self.save(self.disturbed(self.op.snapshot)), []
            case "restart":
                before = self.op.stats()
                self.op = wk.Operator.restore(self.disturbed(self.op.snapshot), dict(self.op.queries))
                assert replaced(self.op.stats(), **UNLIKE) == replaced(before, **UNLIKE)
            case "kill":
                self.kill()
            case _:
                self.since.append((step, self.call(step)))

    def call(self, step: Step) -> Any:
        """Make a call of the operator; return what it returned."""
        op, definition, argument = self.op, self.definition, step.argument
        match step.kind:
            case "push":
                emitted = self.disturbed(lambda: op.push(argument))
                definition.push(argument)
            case "advance":
                emitted = self.disturbed(lambda: op.advance(scalar(argument, self.time)))
                definition.advance(argument)
            case "punctuate":
                at, of = argument
                emitted = self.disturbed(lambda: op.punctuate(scalar(at, self.time), of))
                group = None if of is None else tuple(self.key(name, value) for name, value in of.items())
                definition.punctuate(at, group)
            case "close":
                emitted = self.disturbed(op.close)
                definition.close()
            case "add":
                query, lateness = self.others[argument]
                scale = scaled(lateness, self.time)
                self.disturbed(lambda: op.add(query, name=argument, allowed_lateness=scale))
                definition.add(argument, query, lateness)
                return None
            case "remove":
                self.remove(argument)
                return None
            case "take_late":
                late = self.disturbed(op.take_late)
                self.late += late["id"].to_pylist()
                return late
        replace(self.held, emitted, op.queries, self.time)
        for end in ends(emitted):
            assert definition.watermark is not None
            assert end <= definition.watermark, "a window is emitted before it is final"
        return emitted

    def key(self, name: str, value: Any) -> Any:
        return key(plain(column([value], self.setting.schema.field(name).type))[0])

    def remove(self, name: str) -> None:
        def remove() -> None:
            if name in self.op.queries:
                self.op.remove(name)

        self.disturbed(remove)
        self.definition.remove(name)
        for at in [at for at in self.held if at[0] == name]:
            del self.held[at]

    def disturbed(self, call: Callable[[], T]) -> T:
        """Make a call until nothing fails in it; whenever something does, the operator is as it was."""
        for _ in range(100):
            how = self.disturbances.random()
            before, reached, queries = self.op.stats(), self.op.watermark, self.op.queries
            try:
                if how < 0.1:
                    FAILURE.left = self.disturbances.choice([0, 1, 2, 3, 5, 8, 13, 30])
                    return call()
                if how < 0.2 and INTERRUPTS:
                    return ALARM.interrupt(
                        call, self.disturbances.choice([1e-6, self.disturbances.uniform(1e-6, 2e-3)])
                    )
                return call()
            except KeyboardInterrupt:
                self.log("  interrupted")
            except wk.InvalidValue as error:
                if not isinstance(error.__cause__, InjectedError):
                    raise
                self.log("  failed")
            finally:
                FAILURE.left = None
            assert self.op.watermark == reached
            # A removal that is interrupted may have been made.
            if self.op.queries == queries:
                assert replaced(self.op.stats(), **UNLIKE) == replaced(before, **UNLIKE)
        raise AssertionError("what failed once fails for ever")

    def kill(self) -> None:
        """Drop the operator, go on from the last snapshot, and do again what was done since."""
        snapshot, queries, definition, held, late = self.saved
        again = self.since
        self.op = self.new() if snapshot is None else wk.Operator.restore(snapshot, queries)
        self.definition, self.held, self.late, self.since = definition.copy(), dict(held), list(late), []
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
        before = op.stats()
        try:
            self.disturbances.choice(calls)()
        except wk.WindowKitError:
            assert replaced(op.stats(), **UNLIKE) == replaced(before, **UNLIKE)
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
        stats = self.op.stats()
        assert (stats.slices, stats.rows_kept) == (0, 0)


def ends(emitted: pa.Table) -> list[int]:
    """Return where windows end."""
    names = [name for name in emitted.column_names if name in ("window", "session_window")]
    return [span["end"] for name in names for span in plain(emitted[name]) if span is not None]


def in_any_order(table: pa.Table) -> list[list[Any]]:
    """Return rows, sorted by whatever tells windows apart."""
    rows = zip(*(plain(each) for each in table.columns), strict=True)
    return sorted((list(row) for row in rows), key=repr)


class Alarm:
    """Interrupts within calls, and nowhere else."""

    armed = False

    def __call__(self, number: int, frame: object) -> None:
        if self.armed:
            raise KeyboardInterrupt

    def interrupt(self, call: Callable[[], T], after: float) -> T:
        """Return the result of a call, unless it is interrupted after some seconds."""
        # What is raised within a callback of the garbage collector is not raised by the call.
        gc.disable()
        signal.setitimer(signal.ITIMER_REAL, after)
        try:
            self.armed = True
            # No signal is handled between the call's return and the next line's end.
            result = call()
            self.armed = False
        finally:
            self.armed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            gc.enable()
        return result

    @contextmanager
    def handling(self) -> Iterator[None]:
        before = signal.signal(signal.SIGALRM, self)
        try:
            yield
        finally:
            signal.signal(signal.SIGALRM, before)


ALARM = Alarm()


def simulate(
    seed: int,
    steps: int = STEPS,
    without: Sequence[int] = (),
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Run a seed, up to a number of steps and without some of them."""
    with ALARM.handling():
        run = Run(seed, log)
        for at in range(min(steps, run.steps)):
            step = run.step()
            if at not in without:
                run.disturbances.seed(f"{seed} {at}")
                log(f"{at}: {step}")
                run.perform(step)
        log("close")
        run.finish()


def fails(seed: int, steps: int, without: Sequence[int] = ()) -> bool:
    try:
        simulate(seed, steps, without)
    except Exception:  # in whatever way: shrinking asks only whether a run fails
        return True
    return False


def shrunk(seed: int) -> str:
    """Return the command that runs the fewest first steps of a seed that fail, and of these what must be."""
    steps = next((steps for steps in range(STEPS) if fails(seed, steps)), STEPS)
    without: list[int] = []
    for at in reversed(range(steps)):
        if fails(seed, steps, [*without, at]):
            without.append(at)
    left_out = f" --without {' '.join(map(str, sorted(without)))}" if without else ""
    return f"python -m support.simulation {seed} --steps {steps}{left_out}"


def passes(seed: int) -> bool:
    """Run a seed; if it fails, print why, and how to run it again."""
    try:
        simulate(seed)
    except Exception:  # printed with its traceback; the hunt goes on with the next seed
        traceback.print_exc()
        print(f"seed {seed} fails; in tests: {shrunk(seed)}", flush=True)
        return False
    return True


def hunt(seconds: float, first: int) -> int:
    """Run new seeds for some time; return how many failed."""
    end, seed, failed = time.monotonic() + seconds, first, 0
    while time.monotonic() < end:
        print(f"seeds {seed} to {seed + 99}", flush=True)
        failed += sum(not passes(each) for each in range(seed, seed + 100))
        seed += 100
    print(f"{seed - first} seeds, of which {failed} failed", flush=True)
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description="Simulate stream operators.")
    parser.add_argument("seed", type=int, nargs="?", help="run this one, and print what happens")
    parser.add_argument("--steps", type=int, default=STEPS, help="how many of the seed's, at most")
    parser.add_argument("--without", type=int, nargs="*", default=[], help="steps to leave out")
    parser.add_argument("--seconds", type=float, default=180, help="how long to run new seeds")
    parser.add_argument("--first", type=int, help="the first of the new seeds; any by default")
    given = parser.parse_args()
    if given.seed is not None:
        simulate(given.seed, given.steps, given.without, print)
        return
    first = SystemRandom().randrange(2**32) if given.first is None else given.first
    sys.exit(hunt(given.seconds, first) > 0)


if __name__ == "__main__":
    main()
