"""One seed: which operator it simulates, and its steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

from support.simulation.distinct import DistinctRun
from support.simulation.joined import JoinRun
from support.simulation.queries import QueryRun
from support.simulation.run import Run
from support.simulation.step import STEPS

RUNS: Final[Sequence[Callable[[Random, Callable[[str], None]], Run]]] = (
    QueryRun,
    JoinRun,
    QueryRun,
    DistinctRun,
)
"""What seeds simulate, in turn."""


def simulate(
    seed: int,
    steps: int = STEPS,
    without: Sequence[int] = (),
    log: Callable[[str], None] = lambda line: None,
) -> None:
    """Run a seed, up to a number of steps and without some of them."""
    run = RUNS[seed % len(RUNS)](Random(seed), log)
    with run.disturbances.alarm.handling():
        for at in range(min(steps, run.number)):
            step = run.next()
            if at not in without:
                run.disturbances.random.seed(f"{seed} {at}")
                log(f"{at}: {step}")
                run.perform(step)
        log("close")
        run.finish()
