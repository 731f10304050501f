"""The command that runs new seeds for some time, or one seed."""

from __future__ import annotations

import argparse
import sys
from random import SystemRandom

from support.simulation.hunt import hunt
from support.simulation.seeds import simulate
from support.simulation.step import STEPS


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
