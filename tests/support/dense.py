"""Examples in which a trigger, a window or a function matters, and a wrong reading of it.

A generator of everything draws so many things that a rare one seldom decides what is returned, and a wrong
implementation passes. Here each kind has examples of its own, and a *mutant*: what the oracle would say if it
meant something a little different by it. A comparison that does not catch the mutant would not catch such a
mistake in the package either. `tests/test_registries.py` compares both, and fails until a new kind is here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final, NamedTuple

import pyarrow as pa

import windowkit as wk
from support import samples
from support.firings import Emitter, Policy, Spec, assert_emitted, emitted_by, has_clock, made
from support.oracle import assert_equal, evaluate, rows_of
from support.rows_oracle import Both
from support.streams import Call, Case, call, operator, oracle_of

SCHEMA: Final = pa.schema(
    {
        "k": pa.string(),
        "t": pa.int64(),
        "v": pa.int64(),
        "f": pa.float64(),
        "s": pa.string(),
        "m": pa.bool_(),
        "n": pa.bool_(),
        "g": pa.int64(),
    }
)


def batch(draw: Random, now: int, rows: int, backs: list[int]) -> pa.Table:
    """Return rows of two keys at about a time, up to as far before it as one of `backs`."""
    some = [
        {
            "k": draw.choice("ab"),
            "t": now + draw.choice([0, 0, 1, 2, 4]) - draw.choice(backs),
            "v": draw.choice([None, None, None, *range(7)]),
            "f": draw.choice([0.5, 2.0, 8.0]),
            "s": draw.choice(["a", "b", "c", "d", "e"]),
            "m": draw.random() < 0.35,
            "n": draw.random() < 0.35,
            "g": draw.randint(1, 6),
        }
        for _ in range(rows)
    ]
    return pa.Table.from_pylist(some, SCHEMA)


def batches(draw: Random, count: int, backs: list[int], most: int = 6) -> Iterator[pa.Table]:
    """Yield so many batches, up to as far apart as `most`."""
    now = 0
    for _ in range(count):
        yield batch(draw, now, draw.randint(2, 5), backs)
        now += draw.randint(1, most)


def is_caught(check: Callable[[], None]) -> bool:
    """Whether a comparison finds a difference."""
    try:
        check()
    except AssertionError:
        return True
    return False


class Firing(NamedTuple):
    """Triggers of one kind, as `support.firings` writes them, and what is taken for one of them."""

    draw: Callable[[Random], Spec]
    mutant: Callable[[Spec], Spec]


FIRINGS: Final = {
    "rows": Firing(lambda draw: ("rows", draw.randint(2, 4)), lambda spec: ("rows", spec[1] + 1)),
    "every": Firing(
        lambda draw: ("every", draw.randint(3, 6), "event time"),
        lambda spec: ("every", spec[1] + 1, spec[2]),
    ),
    "every of processing time": Firing(
        lambda draw: ("every", draw.randint(3, 6), "processing time"),
        lambda spec: ("every", spec[1] + 1, spec[2]),
    ),
    "every since the first row": Firing(
        lambda draw: ("wait", draw.randint(3, 9)), lambda spec: ("every", spec[1], "processing time")
    ),
    "on": Firing(lambda draw: ("on", draw.choice("mn")), lambda spec: ("on", "n" if spec[1] == "m" else "m")),
    "at": Firing(lambda draw: ("at", draw.choice([0.2, 0.4])), lambda spec: ("at", spec[1] + 0.3)),
    "or": Firing(
        lambda draw: ("or", (("rows", draw.randint(4, 6)), ("on", "m"))), lambda spec: ("and", spec[1])
    ),
    "and": Firing(
        lambda draw: ("and", (("rows", draw.randint(2, 3)), ("on", "m"))), lambda spec: ("or", spec[1])
    ),
    "then": Firing(
        lambda draw: ("then", (("rows", 1), ("rows", draw.randint(3, 5)))), lambda spec: spec[1][0]
    ),
    "repeat": Firing(
        lambda draw: ("repeat", ("then", (("rows", 1), ("rows", draw.randint(3, 5))))), lambda spec: spec[1]
    ),
}
"""By its key in a form, and perhaps a variant of it."""


def check_trigger(name: str, seed: int, *, mutated: bool) -> None:
    """Compare a stream with what the definition says of its trigger, or of the mutant."""
    draw, clock = Random(f"{name} {seed}"), [0]
    spec = FIRINGS[name].draw(draw)
    query = wk.query(by="k", time="t", windows=wk.tumbling(20), aggs=wk.count().alias("n"))
    refinements = ["accumulating"] if name == "at" else ["accumulating", "discarding"]
    policy = Policy(FIRINGS[name].mutant(spec) if mutated else spec, draw.choice(refinements))
    oracle = Emitter("q1", query, SCHEMA, policy, order="out-of-order", allowed_lateness=0, max_delay=4)
    read = (lambda: clock[0]) if has_clock(spec) else None
    op = query.operator(
        order="out-of-order",
        progress=wk.delay(4),
        schema=SCHEMA,
        emit=wk.emit(made(spec, lambda units: units), policy.refinement),
        clock=read,
    )
    for rows in batches(draw, 12, [0, 0, 3]):
        clock[0] += draw.randint(0, 5)
        if draw.random() < 0.2:
            op = wk.Operator.restore(op.snapshot(), dict(op.queries), clock=read)
        assert_emitted(oracle.push(rows, clock[0]), emitted_by(op, op.push(rows)))
    assert_emitted(oracle.close(), emitted_by(op, op.close()))


MISTAKEN: Final[dict[str, wk.Window]] = {
    "tumbling": wk.tumbling(10, start_time=1),
    "sliding": wk.sliding(10, 4),
    "session": wk.session(4),
    "band": wk.band(0, 9),
    "landmark": wk.landmark(5, start=1),
    "landmark by period": wk.landmark(5, period=25),
    "global": wk.band(-(2**40), 2**40),
    "custom": wk.tumbling(10),
    "rows": wk.tumbling(rows=3),
    "sliding rows": wk.sliding("4 rows", "1 row"),
    "growing rows": wk.landmark("2 rows"),
    "rows from the start": wk.sliding("5 rows", "2 rows", partial="end"),
    "rows by time": wk.sliding("3 rows", 5),
    "time by rows": wk.sliding(4, "2 rows"),
    "time by arrivals": wk.sliding(5, "2 rows"),
    "punctuation": wk.punctuation("m", at="start"),
    "punctuation at start": wk.punctuation("m"),
    "between": wk.between("m", "m", exclusive=True),
    "long session": wk.session(5),
    "session by gap": wk.session("g", at_most=7),
}
"""By the name of each of `samples.windows`: the window that is taken for it."""


def check_window(name: str, seed: int, *, mutated: bool) -> None:
    """Compare all rows at once, and a stream of them, with the definition of a window, or of the mutant."""
    draw = Random(f"{name} {seed}")
    given = samples.windows()[name]
    meant = MISTAKEN[name] if mutated else given
    query, definition = (
        wk.query(by="k", time="t", windows=window.alias("w"), aggs=[wk.sum("v"), wk.count("v")])
        for window in (given, meant)
    )
    parts = list(batches(draw, 8, [0, 0, 0, 3, 9]))
    everything = pa.concat_tables(parts)
    assert_equal(evaluate(definition, everything), rows_of(query, query.run(everything)))
    case = Case(query, SCHEMA, "out-of-order", 5, 4, [Call(part) for part in parts])
    op, oracle = operator(case), oracle_of(case._replace(query=definition), Both)
    for each in case.calls:
        expected, emitted = call(op, oracle, each, pa.int64())
        oracle.check(op, emitted, expected)
    oracle.check(op, op.close(), oracle.close())


Mutant = Callable[[pa.Table], pa.Table] | wk.Aggregate
"""Rows that are taken for others, or a function that is taken for another."""


def without_a_row(table: pa.Table) -> pa.Table:
    """Leave out one row in five, as where a slice is not combined."""
    kept = [row for row in range(table.num_rows) if row % 5]
    return table.take(kept)


def in_reverse(table: pa.Table) -> pa.Table:
    """Have rows arrive in the reverse order, which matters among rows of one time."""
    return table.take(list(range(table.num_rows))[::-1])


FUNCTIONS: Final[dict[str, tuple[wk.Aggregate, list[Mutant]]]] = {
    "count_all": (wk.count(), [without_a_row, wk.count("v")]),
    "count": (wk.count("v"), [without_a_row, wk.count()]),
    "sum": (wk.sum("v"), [without_a_row]),
    "mean": (wk.mean("f"), [without_a_row]),
    "min": (wk.min("v"), [without_a_row, wk.max("v")]),
    "max": (wk.max("v"), [without_a_row, wk.min("v")]),
    "min_count": (wk.min_count("s"), [without_a_row, wk.max_count("s")]),
    "max_count": (wk.max_count("s"), [without_a_row, wk.min_count("s")]),
    "first": (wk.first("v"), [without_a_row, in_reverse, wk.first("v", ignore_nulls=True)]),
    "last": (wk.last("v"), [without_a_row, in_reverse, wk.last("v", ignore_nulls=True)]),
    "first_valid": (wk.first("v", ignore_nulls=True), [without_a_row, in_reverse, wk.first("v")]),
    "last_valid": (wk.last("v", ignore_nulls=True), [without_a_row, in_reverse, wk.last("v")]),
    "arg_min": (wk.arg_min("s", by="f"), [without_a_row, in_reverse, wk.arg_max("s", by="f")]),
    "arg_max": (wk.arg_max("s", by="f"), [without_a_row, in_reverse, wk.arg_min("s", by="f")]),
    "m4": (wk.m4("f"), [without_a_row, in_reverse]),
    "m4_times": (wk.m4("f", times=True), [without_a_row, in_reverse]),
    "count_distinct": (wk.count_distinct("s"), [without_a_row, wk.count("s")]),
    "approx_count_distinct": (wk.approx_count_distinct("s"), [without_a_row, wk.count("s")]),
    "hll_sketch": (wk.hll_sketch("s"), [without_a_row]),
    "mode": (wk.mode("s"), [without_a_row, wk.min("s")]),
    "top_k": (wk.top_k("s", 2), [without_a_row, wk.top_k("s", 3)]),
    "frequent": (wk.frequent("s", 0.25), [without_a_row, wk.frequent("s", 0.5)]),
    "median": (wk.median("f"), [without_a_row, wk.quantile("f", 0.4)]),
    "quantile": (wk.quantile("f", 0.3), [without_a_row, wk.quantile("f", 0.3, discrete=True)]),
    "quantile_disc": (wk.quantile("f", 0.3, discrete=True), [without_a_row, wk.quantile("f", 0.3)]),
    "approx_quantile": (wk.approx_quantile("f", 0.3), [wk.approx_quantile("f", 0.6)]),
    "collect_list": (wk.collect_list("s"), [without_a_row, in_reverse]),
    "collect_rows": (wk.collect_rows("s", "v"), [without_a_row, in_reverse]),
    "collect_set": (wk.collect_set("s"), [without_a_row, wk.collect_list("s")]),
    "var_pop": (wk.var_pop("f"), [without_a_row, wk.var_samp("f")]),
    "var_samp": (wk.var_samp("f"), [without_a_row, wk.var_pop("f")]),
    "stddev_pop": (wk.stddev_pop("f"), [without_a_row, wk.stddev_samp("f")]),
    "stddev_samp": (wk.stddev_samp("f"), [without_a_row, wk.stddev_pop("f")]),
    "geometric_mean": (wk.geometric_mean("f"), [without_a_row, wk.mean("f")]),
}
"""By the name of the core's function: an aggregate, and its mutants."""


def check_function(name: str, seed: int, mutant: Mutant | None = None) -> None:
    """Compare windows that share slices with what the definition says of a function, or of a mutant."""
    draw = Random(f"{name} {seed}")
    given, _ = FUNCTIONS[name]
    table = pa.concat_tables(batches(draw, 30, [0, 0, 3], most=2))
    meant = mutant if isinstance(mutant, wk.Aggregate) else given
    rows = table if mutant is None or isinstance(mutant, wk.Aggregate) else mutant(table)
    query, definition = (
        wk.query(by="k", time="t", windows=wk.sliding(9, 3), aggs=each.alias("a")) for each in (given, meant)
    )
    assert_equal(evaluate(definition, rows), rows_of(query, query.run(table)))


def all_mutants() -> Iterator[tuple[str, str, Any]]:
    """Yield each function with the name of a mutant, and the mutant."""
    for name, (_, mutants) in FUNCTIONS.items():
        for mutant in mutants:
            yield name, getattr(mutant, "__name__", str(mutant)), mutant
