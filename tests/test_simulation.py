"""Simulations of operators of streams: seeds that are always the same; `make hunt` runs others."""

from __future__ import annotations

from typing import Any

import pytest

import windowkit as wk
from support.failing import InjectedError
from support.simulation import fails, passes, simulate
from support.simulation.disturbances import FAILED, INTERRUPTED


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 800, 100))
def test_consumers_hold_what_they_must_whatever_happens(first: int) -> None:
    assert sum(not passes(seed) for seed in range(first, first + 100)) == 0


@pytest.mark.parametrize("seed", [6, 7, 9])
def test_a_seed_determines_a_run(seed: int) -> None:
    logs: list[list[str]] = [[], []]
    for log in logs:
        simulate(seed, log=log.append)
    drawn = [[line for line in log if not line.startswith((INTERRUPTED, FAILED))] for log in logs]
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


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        (wk.JoinOperator, "push_left"),
        (wk.JoinOperator, "push_right"),
        (wk.JoinOperator, "advance_left"),
        (wk.JoinOperator, "advance_right"),
        (wk.JoinOperator, "close"),
        (wk.JoinOperator, "take_late_left"),
        (wk.DistinctOperator, "push"),
        (wk.DistinctOperator, "advance"),
        (wk.DistinctOperator, "close"),
        (wk.DistinctOperator, "take_late"),
    ],
)
def test_a_lost_row_is_found(kind: type, lost: str, monkeypatch: pytest.MonkeyPatch) -> None:
    call = getattr(kind, lost)

    def without_last(op: object, *arguments: Any) -> Any:
        emitted = call(op, *arguments)
        return emitted.slice(0, max(0, emitted.num_rows - 1))

    monkeypatch.setattr(kind, lost, without_last)
    own = (1, 61, 4) if kind is wk.JoinOperator else (3, 63, 4)
    assert any(fails(seed, 40) for seed in range(*own))


@pytest.mark.parametrize(
    ("kind", "call"), [(wk.Operator, "push"), (wk.JoinOperator, "push_left"), (wk.DistinctOperator, "push")]
)
def test_a_call_that_fails_and_is_done_is_found(
    kind: type, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a push has taken effect. A signal then is no failure: the result can be asked for again."""
    push, times = getattr(kind, call), iter(range(10**6))

    def failing(op: Any, batch: Any) -> Any:
        emitted = push(op, batch)
        if next(times) % 5 == 0:
            raise InjectedError
        return emitted

    monkeypatch.setattr(kind, call, failing)
    assert any(fails(seed, 40) for seed in range(10))
