"""Settings and fixtures all tests share."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# Assertions of the oracles explain themselves as those of tests do.
pytest.register_assert_rewrite("support")

# A slow or busy machine is no failure, so nothing here is timed. `make test` draws the same examples each
# time, so that what fails is what changed; `make hunt` draws others, to find what no one thought of.
settings.register_profile(
    "hunt", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("windowkit", settings.get_profile("hunt"), derandomize=True)
settings.load_profile("windowkit")
