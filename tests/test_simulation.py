"""Simulations of operators of streams: seeds that are always the same; `make hunt` runs others."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest

import windowkit as wk
from support import holding, local_oracle, oracle
from support.failing import InjectedError
from support.holding import Definition
from support.simulation import fails, passes, received, simulate
from support.simulation.disturbances import FAILED, INTERRUPTED
from support.simulation.late import LateRows
from support.simulation.shedding import Keys, Rows
from support.simulation.waiting import Waiting


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


def by_standard_time(name: str | None, day: int) -> tuple[tuple[int, int, int], ...]:
    """Return one stretch of time, in which the clock is that of the year's beginning."""
    year = (date(1970, 1, 1) + timedelta(days=day)).replace(month=1, day=1)
    offset = local_oracle.offset_at(local_oracle.zone_of(name), (year - date(1970, 1, 1)).days * 86_400)
    return (((day - 3) * 86_400, (day + 4) * 86_400, offset),)


MISREAD: dict[str, tuple[Any, str, Any]] = {
    "rows that retract others": (holding, "remaining", lambda query, rows, columns: rows),
    "sessions that no row joins any more": (Definition, "seal_sessions", lambda of: None),
    "panes of rows since the last one": (received, "discards", lambda query: False),
    "at most so many results of a call": (Waiting, "is_complete", lambda of, name: True),
    "results that come later": (Waiting, "due", lambda of, query, definition: of.past[-1]),
    "late rows beyond the limit": (LateRows, "room", lambda of: 10**6),
    "keys that are dropped": (Keys, "may_lack", lambda of, group, share: False),
    "rows that are dropped": (Rows, "may_lack", lambda of, group, share: False),
    "changes of clocks": (local_oracle, "segments", by_standard_time),
    "gaps from a column": (oracle, "gap_of", lambda window, row, kind, columns: 5),
    "the watermark of results": (wk.Operator, "watermark_out", property(lambda op: op.watermark)),
}
"""What the simulation, or the operator, would take each draw for, if it did not know what it means."""


@pytest.fixture
def own_clocks() -> Iterator[None]:
    """Let nothing that is known of clocks come into a test, or out of it."""
    caches = (local_oracle.instant, local_oracle.landmark, local_oracle.numbered)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


@pytest.mark.usefixtures("own_clocks")
@pytest.mark.parametrize("draw", MISREAD)
def test_what_is_drawn_matters(draw: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MISREAD[draw])
    assert any(fails(seed, 40) for seed in range(0, 200, 2))


def test_a_lost_slice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    push = wk.Operator.push_slices
    monkeypatch.setattr(wk.Operator, "push_slices", lambda op, slices: push(op, slices.slice(1)))
    assert any(fails(seed, 40) for seed in range(0, 200, 2))


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
