"""Simulations of stream operators: seeds that are always the same; `make hunt` runs others."""

from __future__ import annotations

from typing import Any

import pytest

import windowkit as wk
from support.simulation import fails, passes, simulate


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 400, 50))
def test_consumers_hold_what_queries_mean_whatever_happens(first: int) -> None:
    assert sum(not passes(seed) for seed in range(first, first + 50)) == 0


def test_a_seed_determines_a_run() -> None:
    logs: list[list[str]] = [[], []]
    for log in logs:
        simulate(7, log=log.append)
    drawn = [[line for line in log if line not in ("  interrupted", "  failed")] for log in logs]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 5


@pytest.mark.parametrize("lost", ["push", "advance", "close"])
def test_a_lost_window_is_found(lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = getattr(wk.Operator, lost)

    def without_last(op: wk.Operator, *arguments: Any) -> Any:
        emitted = call(op, *arguments)
        return emitted.slice(0, max(0, emitted.num_rows - 1))

    monkeypatch.setattr(wk.Operator, lost, without_last)
    assert any(fails(seed, 40) for seed in range(10))


def test_a_call_that_fails_and_is_done_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a signal after a push has taken effect, and before its result is returned."""
    push, times = wk.Operator.push, iter(range(10**6))

    def interrupted(op: wk.Operator, batch: Any) -> Any:
        emitted = push(op, batch)
        if next(times) % 5 == 0:
            raise KeyboardInterrupt
        return emitted

    monkeypatch.setattr(wk.Operator, "push", interrupted)
    assert any(fails(seed, 40) for seed in range(10))
