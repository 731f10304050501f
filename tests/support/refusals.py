"""Calls of an operator that fail, and code of a user's own that makes them fail."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import windowkit as wk


def unchanged(op: wk.Operator, call: Callable[[], Any], error: type[Exception], says: str) -> None:
    """Assert that a call raises, and that the operator is what it was."""
    before = op.snapshot()
    with pytest.raises(error, match=re.escape(says)):
        call()
    assert op.snapshot() == before


class RefusalError(Exception):
    """What a user's own code raises."""


class Fragile:
    """A user's own sum, `total`, of whose functions one raises while it is `broken`."""

    def __init__(self, where: str, **options: bool) -> None:
        self.where, self.broken = where, False
        self.total = wk.aggregate(
            "total",
            lift=lambda v: self.call("lift", v),
            combine=lambda a, b: self.call("combine", pc.add(a, b)),
            lower=lambda s: self.call("lower", s),
            **options,
        )

    def call(self, name: str, result: pa.Array) -> pa.Array:
        if self.broken and name == self.where:
            raise RefusalError("not today")
        return result
