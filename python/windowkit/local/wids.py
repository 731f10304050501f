"""Window ids of columns, computed by the core: what `windowkit.Window.wids` and `extent` call."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from windowkit import _native
from windowkit.arrow.validation import imported
from windowkit.errors import InvalidType
from windowkit.language.checks import a_type, as_given
from windowkit.language.windows import Window, time_type

__all__ = ["extent", "wids"]


def wids(window: Window, times: Any, validate: bool = False) -> pa.StructArray:
    """Return the range of window ids of each time; see `windowkit.Window.wids`."""
    return pa.array(_native.wids(window, column("times", times, validate)))


def extent(window: Window, ids: Any, of: Any = None, validate: bool = False) -> pa.StructArray:
    """Return start and end of each window; see `windowkit.Window.extent`."""
    kind = time_type([window]) if of is None else of
    if not hasattr(kind, "__arrow_c_schema__") or isinstance(kind, pa.Field | pa.Schema):
        raise InvalidType(
            f"time_type: {as_given(of):.60} is {a_type(of)}; it is an Arrow type such as "
            "pyarrow.timestamp('us'), or None"
        )
    if of is not None and not isinstance(of, pa.DataType):
        # A type itself takes no capsule, a field does.
        kind = imported("time_type", of, "__arrow_c_schema__", pa.field).type
    return pa.array(_native.extent(window, column("ids", ids, validate), kind))


def column(argument: str, data: Any, validate: bool) -> Any:
    # Kernels take time to import.
    from windowkit.kernels.arguments import column_of

    return column_of(argument, data, validate)
