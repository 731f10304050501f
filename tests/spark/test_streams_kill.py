"""A stream whose driver and JVM are killed in the middle writes every window once."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.killed_streams import killed


@pytest.mark.slow
def test_every_window_is_written_once(tmp_path: Path) -> None:
    """One of the seeds that `make hunt-streams` draws: sliding windows and sessions, with a median."""
    killed(17, tmp_path, kills=1)
