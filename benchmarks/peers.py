"""windowkit beside Bytewax and Pathway: sums of sliding windows of 10 minutes by 1 minute, 16 keys.

The peers run in an environment of their own, as their dependencies are none of this project's:

    python3.11 -m venv /tmp/peers
    /tmp/peers/bin/pip install "bytewax==0.21.*" "pathway==0.33.*" numpy pandas
    python benchmarks/peers.py --python /tmp/peers/bin/python

All sides must return as many windows, and the same sum of their sums. They get fewer rows than windowkit, as
they are slower; all rates are of rows in.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path
from statistics import median

import pages
import peer_sides
import pyarrow as pa
import pyarrow.compute as pc

import windowkit as wk

PEERS = ("bytewax", "pathway")
BATCHES = (10_000, 100)


def own(rows: int, keys: int, seed: int, size: int) -> pages.Record:
    """Return what windowkit does with these rows, in batches of this size."""
    table = pa.table(peer_sides.columns(rows, keys, seed))
    windows = wk.sliding(peer_sides.SIZE, peer_sides.SLIDE)
    op = wk.query(by="k", time="t", windows=windows, aggs=wk.sum("v").alias("total")).operator()
    given = [table.slice(at, size) for at in range(0, rows, size)]
    began = time.perf_counter()
    results = [op.push(batch) for batch in given] + [op.close()]
    seconds = time.perf_counter() - began
    totals = pa.concat_tables(results)["total"]
    return {"seconds": seconds, "emitted": len(totals), "total": pc.sum(totals).as_py()}


def other(python: str, side: str, rows: int, keys: int, seed: int) -> pages.Record:
    """Return what a peer does with these rows."""
    script = Path(peer_sides.__file__)
    command = [python, str(script), side, str(rows), str(keys), str(seed)]
    # Pathway looks for a license and reports usage unless it is told not to.
    environment = os.environ | {"PATHWAY_TELEMETRY_SERVER": "", "PATHWAY_LOG_LEVEL": "error"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    found: pages.Record = json.loads(done.stdout.splitlines()[-1])
    return found


def page(output: Path, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page."""
    lines = [
        "# windowkit beside other stream processors in Python",
        "",
        "Written by `benchmarks/peers.py`: sums of sliding windows of 10 minutes by 1 minute, 16 keys, in "
        "order. All sides return the same windows. Bytewax calls a Python function for each row and window; "
        "Pathway gets all rows as one table. Figures are medians.",
        "",
        *pages.listed(facts),
        "",
        pages.header("side", "rows", "million rows/s in", "microseconds a call"),
    ]
    for record in records:
        seconds = median(record["seconds"])
        calls = record["rows"] / record["batch"] if record["batch"] else 0
        a_call = f"{seconds / calls * 1e6:.1f}" if calls else ""
        rate = f"{record['rows'] / seconds / 1e6:.3g}"
        lines.append(pages.row(record["side"], f"{record['rows']:,}", rate, a_call))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, print, and write the page."""
    parser = argparse.ArgumentParser(description="windowkit beside Bytewax and Pathway.")
    parser.add_argument("--python", help="the interpreter of the environment with Bytewax and Pathway")
    parser.add_argument("--rows", type=int, default=4_000_000, help="of windowkit")
    parser.add_argument("--peer-rows", type=int, default=200_000)
    parser.add_argument("--keys", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--profile", default="release", help="how the core was built, for the page")
    pages.add_arguments(parser, "peers")
    options = parser.parse_args()
    if not options.page:
        if options.python is None:
            parser.error("--python: none is given; it is that of an environment with Bytewax and Pathway")
        small = (options.peer_rows, options.keys, options.seed)
        wanted = own(*small, BATCHES[0])
        records: dict[str, pages.Record] = {}

        def add(side: str, rows: int, batch: int | None, found: pages.Record) -> None:
            record = records.setdefault(side, pages.Record(side=side, rows=rows, batch=batch, seconds=[]))
            record["seconds"].append(found["seconds"])

        for _ in range(options.rounds):
            for size in BATCHES:
                found = own(options.rows, options.keys, options.seed, size)
                add(f"windowkit, batches of {size:,}", options.rows, size, found)
            for side in PEERS:
                found = other(options.python, side, *small)
                for what in ("emitted", "total"):
                    if found[what] != wanted[what]:
                        raise SystemExit(f"{side}: {what} is {found[what]}, of windowkit {wanted[what]}")
                add(side, options.peer_rows, None, found)
        for side, record in records.items():
            rate = record["rows"] / median(record["seconds"]) / 1e6
            print(f"{side}: {rate:.3g} million rows/s", flush=True)
        listed = subprocess.run(
            [options.python, "-m", "pip", "list", "--format=json"], capture_output=True, text=True, check=True
        )
        versions = {each["name"]: each["version"] for each in json.loads(listed.stdout)}
        facts = pages.machine(["pyarrow", "numpy"], **{name: versions[name] for name in PEERS}) | {
            "settings": f"{options.rounds} rounds, seed {options.seed}; windowkit's core of the "
            f"{options.profile} profile"
        }
        pages.keep(options.output, facts, list(records.values()))
    pages.write(options.output, page)


if __name__ == "__main__":
    main()
