"""Programs in processes of their own, for tests of what one session has to be started for."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import windowkit as wk

ROOT = str(Path(wk.__file__).parents[1])


def program(text: str, *arguments: object, path: str = ROOT, **environment: str) -> str:
    """Run a program in a process of its own, which finds modules in `path`; return what it prints."""
    settings = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=600,
        env={**os.environ, **settings, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-6000:]
    return done.stdout
