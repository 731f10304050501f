"""The script that runs for an hour, for some seconds; and that it finds memory which grows."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from support.programs import ROOT, program
from support.signals import needs_whole_steps

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@needs_whole_steps
@pytest.mark.slow
def test_a_short_soak_writes_its_page(tmp_path: Path) -> None:
    output = tmp_path / "soak.md"
    # Within seconds, memory says nothing.
    options = ["--minutes", "0.1", "--bound", "1e9", "--record", "--output", str(output)]
    text = (
        "import runpy, sys; sys.argv[0] = sys.argv.pop(1); runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    program(text, BENCHMARKS / "soak.py", *options, path=f"{ROOT}:{BENCHMARKS}")
    page = output.read_text()
    assert "MiB an hour" in page
    (pushed,) = re.findall(r"([\d,]+) rows were pushed", page)
    assert int(pushed.replace(",", "")) > 0


@pytest.mark.parametrize("of", ["resident", "held"])
def test_memory_that_grows_after_the_warm_up_is_found(monkeypatch: pytest.MonkeyPatch, of: str) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    soak = runpy.run_path(str(BENCHMARKS / "soak.py"), run_name="soak")

    def samples(growth: float) -> list[dict[str, float]]:
        """An hour: quick growth for ten minutes, then up and down by some MiB, and slow growth."""
        found = []
        for seconds in range(0, 3600, 10):
            noise = 5 * (seconds % 70 / 35 - 1)
            flat = {"resident": min(seconds, 600) + 200 + noise, "held": min(seconds, 600) + 10 + noise}
            found.append(flat | {"seconds": seconds, of: flat[of] + growth * seconds / 3600})
        return found

    said, flat = soak["verdict"](samples(0), 16)
    assert flat, said
    said, flat = soak["verdict"](samples(20), 16)
    assert not flat, said
    assert abs(soak["slope"](samples(20), of) - 20) < 3
