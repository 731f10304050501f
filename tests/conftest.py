"""Settings and fixtures all tests share."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A slow or busy machine is no failure, so nothing here is timed.
settings.register_profile(
    "windowkit", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("windowkit")


@pytest.fixture(scope="session")
def samples() -> Path:
    """The directory of real data samples beside the project's root."""
    return Path(__file__).resolve().parents[2] / "shared" / "data"
