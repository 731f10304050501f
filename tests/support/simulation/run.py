"""What simulations of all operators have in common: steps, restarts, kills, and calls that fail."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

import windowkit as wk
from support.plain import assert_near, plain
from support.simulation.disturbances import Disturbances
from support.simulation.step import Step

T = TypeVar("T")


class Run(ABC):
    """One simulation: an operator, what happens to it, and what it should be."""

    op: Any
    saved: Any
    """What it takes to go back to the last snapshot."""
    number: int
    """How many steps it has."""

    def __init__(self, log: Callable[[str], None]) -> None:
        self.disturbances, self.log = Disturbances(log), log
        # Whatever is done to the operator, and is done again after a kill, with what it returned.
        self.since: list[tuple[Step, Any]] = []

    @abstractmethod
    def next(self) -> Step:
        """Draw what happens next."""

    @abstractmethod
    def call(self, step: Step) -> Any:
        """Make a call of the operator; return what it returned."""

    @abstractmethod
    def save(self, snapshot: bytes | None) -> Any:
        """Return what it takes to go back: the snapshot, and what the definition and the consumer are now."""

    @abstractmethod
    def go_back(self) -> None:
        """Go back to what was saved."""

    @abstractmethod
    def restored(self, snapshot: bytes) -> Any:
        """Return an operator that goes on from a snapshot."""

    @abstractmethod
    def noted(self) -> Callable[[], None]:
        """Return what asserts that the operator is still as it is now."""

    @abstractmethod
    def refusals(self) -> list[Callable[[], object]]:
        """Return calls that are refused."""

    @abstractmethod
    def check(self) -> None:
        """Assert that the consumer holds what it must."""

    @abstractmethod
    def finish(self) -> None:
        """Close the operator, and check all that it returned."""

    def surely(self, call: Callable[[], T], last: Callable[[], T] | None = None) -> T:
        return self.disturbances.surely(self.op, self.noted, call, last or self.op.last)

    def perform(self, step: Step) -> None:
        match step.kind:
            case "check":
                self.check()
            case "refused":
                self.refuse()
            case "snapshot":
                self.saved, self.since = self.save(self.surely(self.op.snapshot)), []
            case "restart":
                assert_same = self.noted()
                self.op = self.restored(self.surely(self.op.snapshot))
                assert_same()
            case "kill":
                self.kill()
            case _:
                self.since.append((step, self.call(step)))

    def kill(self) -> None:
        """Drop the operator, go on from the last snapshot, and do again what was done since."""
        again, self.since = self.since, []
        self.go_back()
        for step, emitted in again:
            self.log(f"  again: {step}")
            repeated = self.call(step)
            self.since.append((step, repeated))
            if emitted is not None:
                assert repeated.schema == emitted.schema
                self.assert_repeated(emitted, repeated)

    def assert_repeated(self, emitted: pa.Table, repeated: pa.Table) -> None:
        """Assert that a call returned the same when it was made again."""
        assert_near(in_any_order(emitted), in_any_order(repeated))

    def refuse(self) -> None:
        """Make a call that is refused."""
        assert_same = self.noted()
        try:
            self.disturbances.random.choice(self.refusals())()
        except wk.WindowKitError:
            assert_same()
        else:
            raise AssertionError("it was not refused")


def in_any_order(table: pa.Table) -> list[list[Any]]:
    """Return rows, sorted by whatever tells them apart."""
    rows = zip(*(plain(each) for each in table.columns), strict=True)
    return sorted((list(row) for row in rows), key=repr)
