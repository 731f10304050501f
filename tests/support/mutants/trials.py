"""A plugin of pytest that tries mutants: each in a process of its own, on the tests that reach it.

The processes are forked once the tests are collected. Time is that of the processor, so that a busy machine
changes nothing.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import time
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import Phase, settings

import windowkit as wk

FOUND: Final = 1
"""How a process ends in which a test has failed."""
FAILED: Final[list[str]] = []
"""Tests that have failed in this process."""
# An endless loop takes as much as this, beside what the tests take without a mutant.
MORE_SECONDS: Final = 30
MORE_BYTES: Final = 2**32


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--mutants", type=Path, help="the folder that `python -m support.mutants` has made")
    parser.addoption("--mutant-seconds", type=float, default=30, help="of tests, for a mutant")
    parser.addoption("--mutant-workers", type=int, default=2, help="processes that try mutants side by side")


def pytest_configure() -> None:
    # The smallest example is of no interest.
    settings.register_profile("mutants", settings(), phases=[Phase.explicit, Phase.generate], database=None)
    settings.load_profile("mutants")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        FAILED.append(report.nodeid)


def run(item: pytest.Item, following: pytest.Item | None) -> None:
    """Run a test, whose fixtures stay for the test that follows if it has them, too."""
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)


def forked(work: Callable[[], int], seconds: float) -> int:
    """How a process ended that did this: its exit code, or the number of a signal as a negative one."""
    child = os.fork()
    if child == 0:
        code = 2
        try:
            silent = os.open(os.devnull, os.O_WRONLY)
            os.dup2(silent, 1)
            os.dup2(silent, 2)
            resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, resource.RLIM_INFINITY))
            size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (size + MORE_BYTES, resource.RLIM_INFINITY))
            code = work()
        finally:
            os._exit(code)
    # Threads that wait for each other take no time of the processor.
    deadline = time.monotonic() + 20 * seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.01)


class Module:
    """The switch of the compiled mutants, and which have been asked for."""

    def __init__(self, count: int) -> None:
        library = ctypes.CDLL(wk._native.__file__)
        self.mutant = ctypes.c_uint32.in_dll(library, "WINDOWKIT_MUTANT")
        self.reached = (ctypes.c_uint8 * count).in_dll(library, "WINDOWKIT_REACHED")

    def take_reached(self) -> list[int]:
        reached = [number for number, asked in enumerate(self.reached) if asked]
        ctypes.memset(self.reached, 0, len(self.reached))
        return reached


def recorded(items: list[pytest.Item], module: Module, to: Path) -> dict[str, dict[str, Any]]:
    """For each test that passes without a mutant, its time and what it reaches; read, once that is known."""
    partial = to.with_suffix(".partial")

    def record() -> int:
        with partial.open("w") as file:
            module.take_reached()
            for item, following in pairwise([*items, None]):
                assert item is not None
                began = time.process_time()
                run(item, following)
                now = time.process_time()
                line = {"test": item.nodeid, "seconds": now - began, "reached": module.take_reached()}
                if not FAILED:
                    file.write(json.dumps(line) + "\n")
                FAILED.clear()
        return 0

    if not to.exists():
        assert forked(record, 10**6) == 0, "the tests do not end without a mutant, either"
        partial.rename(to)
    return {line["test"]: line for line in map(json.loads, to.read_text().splitlines())}


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    out: Path | None = session.config.option.mutants
    if out is None or session.config.option.collectonly:
        return None
    given = json.loads((out / "mutants.json").read_text())
    module = Module(len(given["mutants"]))
    to = out / "reached.jsonl"
    tests = recorded(session.items, module, to)
    print(f"{len(tests)} of {len(session.items)} tests, {sum(t['seconds'] for t in tests.values()):.0f} s")
    reaching: dict[int, list[pytest.Item]] = {}
    for item in session.items:
        for number in tests.get(item.nodeid, {"reached": []})["reached"]:
            reaching.setdefault(number, []).append(item)
    before = [json.loads(line) for line in (out / "tried.jsonl").read_text().splitlines()]
    left = sorted(set(given["viable"]) - {line["mutant"] for line in before})
    workers = session.config.option.mutant_workers

    def work(worker: int) -> None:
        noticed: Counter[str] = Counter(line["test"] for line in before)
        for number in left[worker::workers]:
            # What has noticed most others for the time that it takes comes first.
            own = sorted(
                reaching.get(number, []),
                key=lambda item: (tests[item.nodeid]["seconds"] + 0.1) / (noticed[item.nodeid] + 1),
            )
            chosen, seconds = [], 0.0
            for item in own:
                seconds += tests[item.nodeid]["seconds"]
                if chosen and seconds > session.config.option.mutant_seconds:
                    break
                chosen.append(item)
            outcome, test = tried(number, chosen, module, seconds, out / f"current-{worker}")
            noticed[test] += 1
            line = {
                "mutant": number,
                "outcome": outcome,
                "test": test,
                "reached": len(own),
                "ran": len(chosen),
                "seconds": session.config.option.mutant_seconds,
            }
            # Workers append whole lines.
            with (out / "tried.jsonl").open("a") as file:
                file.write(json.dumps(line) + "\n")
            print(f"{outcome}: {given['mutants'][number]['name']} ({test or len(chosen)})", flush=True)

    children = []
    for worker in range(workers):
        child = os.fork()
        if child == 0:
            code = FOUND
            try:
                work(worker)
                code = 0
            finally:
                os._exit(code)
        children.append(child)
    ended = [os.waitpid(child, 0)[1] for child in children]
    assert not any(ended), "a worker has failed"
    return True


def tried(
    number: int, items: list[pytest.Item], module: Module, seconds: float, current: Path
) -> tuple[str, str]:
    """Whether tests notice a mutant, and which does."""

    def attempt() -> int:
        module.mutant.value = number
        os.environ["WINDOWKIT_MUTANT"] = str(number)
        for item, following in pairwise([*items, None]):
            assert item is not None
            current.write_text(item.nodeid)
            run(item, following)
            if FAILED:
                return FOUND
        return 0

    current.write_text("")
    code = forked(attempt, 3 * seconds + MORE_SECONDS)
    if code == 0:
        return "missed", ""
    ended = {FOUND: "noticed", -signal.SIGXCPU: "endless", -signal.SIGKILL: "endless"}
    return ended.get(code, f"ended by {code}"), current.read_text()
