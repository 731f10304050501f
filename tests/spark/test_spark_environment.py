"""An environment that is packed and shipped to executors: the commands of the page, run as they stand.

In mode ``local-cluster``, of Spark's own tests, executors unpack what ``--archives`` names, as on a cluster.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from shutil import copy, copytree, ignore_patterns
from tempfile import TemporaryDirectory

import pyspark
import pytest

from support.documents import ROOT, blocks
from support.programs import ROOT as PACKAGES

PAGE = ROOT / "docs" / "how-to" / "troubleshooting.md"

JOB = """
import sys
import pyarrow
import windowkit as wk
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
rows = spark.sql("select id % 2 as device, timestamp_seconds(id * 60) as ts, id as v from range(100)")
query = wk.query(by="device", time="ts", windows=wk.sliding("1 hour", "10 minutes"), aggs=wk.median("v"))
print("windows", query.run(rows).count(), query.run(rows.toArrow()).num_rows)

def there(batches):
    import windowkit
    from windowkit import _native
    for _ in batches:
        where = [sys.executable, pyarrow.__file__, windowkit.__file__, _native.__file__]
        yield pyarrow.RecordBatch.from_pydict({"path": where})

print("paths", *[row.path for row in rows.mapInArrow(there, "path string").distinct().collect()])
spark.stop()
"""


@pytest.mark.slow
def test_the_environment_of_the_page_runs_on_executors() -> None:
    # Hundreds of megabytes: nothing is kept, as folders of tests are.
    with TemporaryDirectory() as folder:
        runs_on_executors(Path(folder))


def runs_on_executors(folder: Path) -> None:
    [block] = [block for block in blocks(PAGE, "sh") if "--archives" in block]
    make, pack, *submit = block.splitlines()
    made, installed = make.split(" && ")
    assert installed == 'job/bin/pip install "windowkit[spark]" venv-pack'
    home = spark_home(folder)
    environment = {
        **{name: value for name, value in os.environ.items() if "PYTHON" not in name},
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }

    def run(command: str) -> str:
        done = subprocess.run(
            command,
            shell=True,
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr[-6000:]
        return done.stdout

    run(f"{made} --without-pip")
    install(folder / "job")
    run(pack)
    (folder / "job.py").write_text(JOB)
    settings = ["spark.ui.enabled=false", "spark.driver.host=127.0.0.1", "spark.driver.bindAddress=127.0.0.1"]
    how = " --conf ".join(["spark-submit --master local-cluster[1,2,1024]", *settings])
    printed = run("\n".join(submit).replace("spark-submit", how)).splitlines()
    [windows] = [line.split()[1:] for line in printed if line.startswith("windows ")]
    assert windows[0] == windows[1] != "0"
    [paths] = [line.split()[1:] for line in printed if line.startswith("paths ")]
    assert len(paths) >= 4
    assert {path for path in paths if not re.match(rf"{home}/work/[^/]+/\d+/environment/", path)} == set()


def spark_home(folder: Path) -> Path:
    """Return a home of the Spark that pyspark has: executors unpack archives in its folder ``work``."""
    home = folder / "spark"
    home.mkdir()
    for part in Path(pyspark.__file__).parent.iterdir():
        if part.name != "work":
            (home / part.name).symlink_to(part)
    return home


def install(environment: Path) -> None:
    """Put into an environment what pip would, from here: a test has no index of packages."""
    [packages] = environment.glob("lib/python*/site-packages")
    copytree(f"{PACKAGES}/windowkit", packages / "windowkit", ignore=ignore_patterns("__pycache__"))
    # Of pyspark, executors have that of their Spark.
    for name in needed("pyarrow", "pandas", "venv-pack"):
        for file in distribution(name).files or []:
            # Headers and tests are a third of pyarrow, and take as long to compress.
            if not {"include", "tests", "__pycache__", ".."} & set(file.parts):
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                copy(file.locate(), packages / file)
    script = environment / "bin" / "venv-pack"
    script.write_text(f"#!{environment / 'bin' / 'python'}\nfrom venv_pack.__main__ import main\nmain()\n")
    script.chmod(0o755)


def needed(*names: str) -> set[str]:
    """Return packages with those that they need."""
    found = set(names)
    for name in names:
        for requirement in distribution(name).requires or []:
            if "extra ==" not in requirement:
                found |= needed(re.match(r"[\w.-]+", requirement)[0])
    return found
