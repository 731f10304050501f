"""A query, a table that fits it, and how a refusal is expected."""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk

TABLE = pa.table(
    {
        "k": ["a", "b", "a"],
        "ts": pa.array([0, 1, 2], pa.timestamp("us")),
        "second": pa.array([0, 1, 2], pa.timestamp("s")),
        "day": pa.array([0, 1, 2], pa.date32()),
        "n": pa.array([1, 2, 3], pa.int64()),
        "v": [1.0, 2.0, 3.0],
        "flag": [True, False, True],
        "nested": [[1], [2], [3]],
    }
)


def query(**changed: Any) -> wk.Query:
    """Return a query that TABLE fits but for what is `changed`."""
    arguments: dict[str, Any] = {
        "by": "k",
        "time": "ts",
        "windows": wk.tumbling("1 second"),
        "aggs": wk.count(),
    }
    return wk.query(**(arguments | changed))


def refused(kind: type[wk.WindowKitError], *parts: str) -> Any:
    """Expect `kind` with a message that has `parts` in order; the last says what is allowed."""
    return pytest.raises(kind, match=".*".join(map(re.escape, parts)))
