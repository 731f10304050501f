"""Pictures of partitionings, and of a query's windows (`windows`); they need matplotlib, the extra ``plot``.

>>> import pyarrow as pa
>>> import windowkit as wk
>>> keys = pa.array(["hot"] * 9_000 + [f"key {i}" for i in range(1_000)])
>>> axes = wk.plot.partitioning(keys, workers=8)
>>> axes.get_xlabel()
'rows of the fullest worker / mean'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from windowkit.language.hints import unknown
from windowkit.plot.library import MissingMatplotlibError
from windowkit.plot.partitionings import partitioning

__all__ = ["MissingMatplotlibError", "partitioning"]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # To which any name would be one of the module.

    def __getattr__(name: str) -> object:
        raise unknown(__name__, name, __all__)
