"""Which Pythons handle signals where a test can say what they interrupt."""

from __future__ import annotations

import sys

import pytest

__all__ = ["needs_whole_steps"]

needs_whole_steps = pytest.mark.skipif(
    sys.version_info < (3, 11),
    reason="CPython 3.10 handles signals between any two steps, also while it leaves the lock of calls",
)
