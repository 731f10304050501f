"""Options of an operator of queries, which stay as they are while queries come and go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal

from windowkit.errors import InvalidValue
from windowkit.language.checks import as_given, boolean, limit, one_of
from windowkit.language.durations import Duration, Length
from windowkit.language.progress import Delay, checked_delay, of_measure
from windowkit.language.query import LATE_LIMIT
from windowkit.language.shedding import Shed
from windowkit.language.windows import units

__all__ = ["Options"]

ORDERS: Final = ("in-order", "out-of-order")
STORES: Final = ("auto", "lazy", "eager")


@dataclass(frozen=True)
class Options:
    """As `windowkit.Query.operator` describes them; a snapshot tells Python of `order` and `shed` alone.

    Raises
    ------
    InvalidType, InvalidValue
        One of them is not as described there, or does not go with another.
    """

    order: Literal["in-order", "out-of-order"] = "in-order"
    store: str = "auto"
    late_limit: int | None = LATE_LIMIT
    allowed_lateness: Any = 0
    """A `Duration` or an int, made of a length."""
    progress: Delay | None = None
    shed: Shed | None = None
    updates: bool = True

    def __post_init__(self) -> None:
        one_of("order", self.order, ORDERS)
        one_of("store", self.store, STORES)
        object.__setattr__(self, "late_limit", limit("late_limit", self.late_limit, 0))
        object.__setattr__(self, "allowed_lateness", self.lateness(self.allowed_lateness))
        boolean("updates", self.updates)
        checked_delay("progress", self.progress)
        if self.order == "in-order" and self.progress is not None:
            raise InvalidValue(
                "progress: it is given for order='in-order', where each row is a watermark; it requires "
                "order='out-of-order'"
            )

    def lateness(self, given: Length) -> Duration | int:
        """Return an allowed lateness, of all queries or of one."""
        lateness = of_measure("allowed_lateness", given)
        if self.order == "in-order" and units(lateness):
            raise InvalidValue(
                f"allowed_lateness: {as_given(given)} is given for order='in-order', where no row is late; "
                "it requires order='out-of-order'"
            )
        return lateness
