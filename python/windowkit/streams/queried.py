"""What calls of an operator of queries have in common: how they ask its core, and return what is emitted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pyarrow as pa

from windowkit import _native
from windowkit.errors import InvalidValue
from windowkit.language.processing import Stamps
from windowkit.local.query import shaped
from windowkit.streams.calls import Called, released, table
from windowkit.streams.completeness import with_completeness
from windowkit.streams.known import Known
from windowkit.streams.progress import look_at_clock

__all__ = ["Queried", "first_end"]

T = TypeVar("T")


class Queried(Called[Known]):
    """An operator of queries, whose calls ask its core for something."""

    _clock: Stamps

    @property
    def _state(self) -> Known:
        return self._calls.state

    def _is_bound(self, call: str) -> bool:
        """Whether the schema of rows is known, so that there is a core."""
        if self._state.released:
            raise released(call)
        return self._state.core is not None

    def _ask(self, call: str, work: Callable[[_native.Operator, Known], T], *, closed: bool = False) -> T:
        """Make a call of the core, which has to be there; `closed` as in `Calls.make`."""

        def bound(state: Known) -> T:
            if state.core is None:
                raise InvalidValue(
                    f"{call}: the schema of the stream is not known yet; push a batch before, or give "
                    "schema=... to query.operator()"
                )
            return work(state.core, state)

        return self._calls.make(call, bound, closed=closed)

    def _look_at_clock(self, core: _native.Operator, state: Known, *, has_waited: bool = False) -> None:
        """Tell the core the time, and whether the caller has waited for rows until now."""
        last = core.watermark if state.is_stamped else None
        look_at_clock(core, self._clock, last, has_waited=has_waited)

    def _emitted(self, state: Known, step: Callable[..., Any], *arguments: Any) -> pa.Table:
        """Return the windows that a step of the core emits, in the columns that the queries ask for."""
        nothing = state.nothing
        stream = step(*arguments)
        # Most small pushes emit nothing, and take less time than making a table does.
        return nothing if stream is None else returned(state, table(stream))

    def _shown(self, state: Known, rows: pa.Table, are_late: bool) -> pa.Table:
        return self._late(rows) if are_late else returned(state, rows)

    def _late(self, rows: pa.Table) -> pa.Table:
        """Return late rows without the computed columns: pushing them again computes these again."""
        expressions = set(map(str, self._state.expressions))
        return rows.select([name for name in rows.column_names if name not in expressions])


def returned(state: Known, rows: pa.Table) -> pa.Table:
    """Return results of the core in the columns that the queries ask for."""
    results = shaped(rows, state.leader)
    if not state.completes or state.core is None:
        return results
    return with_completeness(state.core, rows, results, state.completes if len(state.queries) > 1 else None)


def first_end(operator: Queried) -> int | None:
    """Return when the first slice ends, or the first window of rows that wait, in units of the time. O(keys).

    No window of the operator ends before.
    """
    return operator._ask("first_end", lambda core, _: core.first_end())
