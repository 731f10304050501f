"""Sliding windows over one column: Arrow in, Arrow out, for user-defined functions and notebooks.

A column is anything with an Arrow interface (``__arrow_c_array__`` or ``__arrow_c_stream__``: a pyarrow
Array or ChunkedArray, a Polars Series), a numpy array, masked or not, or a pandas Series or Index. Chunks
are joined first, which copies them; one chunk is read where it lies. A call takes up to 2**32 - 1 rows.
Results are pyarrow Arrays. The GIL is released around all work.

Nulls are skipped, NaN is the greatest value and -0.0 equals 0.0, as in Spark: of both zeros an extreme may
be either. Which algorithm answers, and what each can do, is described in "Algorithms" in the document
"Kernels"; `explain` says it for one call.

Examples
--------
>>> import pyarrow as pa
>>> from windowkit import kernels
>>> kernels.sliding_sum(pa.array([1, 2, 3, 4]), 2).to_pylist()
[3, 5, 7]
>>> kernels.sliding_mean(pa.array([1, 2, 3, 4]), 3, partial="start").to_pylist()
[1.0, 1.5, 2.0, 3.0]
"""

from typing import TYPE_CHECKING

from windowkit.kernels.arguments import ALGORITHMS, FUNCTIONS
from windowkit.kernels.functions import explain, extents, sliding, sliding_by
from windowkit.kernels.short import (
    sliding_argmax,
    sliding_argmin,
    sliding_count,
    sliding_first,
    sliding_last,
    sliding_max,
    sliding_mean,
    sliding_min,
    sliding_std,
    sliding_sum,
    sliding_var,
)
from windowkit.kernels.stream import Window
from windowkit.language.hints import unknown

__all__ = [
    "ALGORITHMS",
    "FUNCTIONS",
    "Window",
    "explain",
    "extents",
    "sliding",
    "sliding_argmax",
    "sliding_argmin",
    "sliding_by",
    "sliding_count",
    "sliding_first",
    "sliding_last",
    "sliding_max",
    "sliding_mean",
    "sliding_min",
    "sliding_std",
    "sliding_sum",
    "sliding_var",
]


def __dir__() -> list[str]:
    return sorted(__all__)


if not TYPE_CHECKING:  # To which any name would be one of the module.

    def __getattr__(name: str) -> object:
        raise unknown(__name__, name, __all__)
