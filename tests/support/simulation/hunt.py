"""Seeds that fail, and the fewest of their steps that do."""

from __future__ import annotations

import faulthandler
import time
import traceback
from collections.abc import Sequence

from support.simulation.seeds import simulate
from support.simulation.step import STEPS

# Seconds that no seed needs: the extension is in a loop that does not end.
LONGEST = 300


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
    """Run a seed; if it fails, print why, and how to run it again; if it does not end, end the process."""
    faulthandler.dump_traceback_later(LONGEST, exit=True)
    try:
        simulate(seed)
    except Exception:  # printed with its traceback; the hunt goes on with the next seed
        traceback.print_exc()
        print(f"seed {seed} fails; in tests: {shrunk(seed)}", flush=True)
        return False
    finally:
        faulthandler.cancel_dump_traceback_later()
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
