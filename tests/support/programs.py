"""Programs in processes of their own, for tests of what one session has to be started for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import windowkit as wk

ROOT = str(Path(wk.__file__).parents[1])


def program(text: str, path: str | None = None, timeout: float = 400, **environment: str) -> str:
    """Run a program in a process of its own; its workers find modules in `path`."""
    settings = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, **environment}
    settings["PYTHONPATH"] = ROOT if path is None else path
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text)],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=settings,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    return done.stdout
