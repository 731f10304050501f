"""What partitioners cost: the tables of Katsipoulakis et al. 2017, and windowkit's own method beside them.

Costs are counted, not timed: the same on every machine. Each method assigns the rows of each query to 8 to
256 workers; `windowkit.partition.cost` says what that costs, window by window.

imbalance
    rows of the fullest worker over the mean (Eq. 1), summed over windows
aggregation
    pairs of key and worker over distinct keys (Eq. 2, 4), summed over windows; 1 is the least (Prop. 1)
stage
    simulated: the decisions of all rows, rows of the fullest worker times the seconds a row costs, and pairs
    times the seconds a partial result costs; the last two are measured on this query with pyarrow's
    ``group_by``, on one thread
ns a row
    of the decision, timed: the median of the repeats; state and keys as they are

Fig. 13 is the time of a decision per window, Table 4 the memory of the state after 8.1 million keys. The last
table is of HyperLogLog alone: speed, and error over many sketches, beside Apache's own Python package, which
takes a value a call and therefore has fewer of them.

    python benchmarks/partition.py --rows 100000 --workers 8 32 --streams 'DEBS*' --output target/bench/p.md
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pages
import pyarrow as pa
from partition_data import STREAMS, Stream
from plots import canvas

import windowkit as wk
from windowkit.language.windows import units
from windowkit.partition import Cost, Partitioner, cost

# Table 2 of the paper, with the filter of our own, and waterfill.
METHODS: dict[str, dict[str, Any]] = {
    "SH": {"method": "shuffle"},
    "FLD": {"method": "hash"},
    "PK-2": {"method": "partial-key", "candidates": 2},
    "PK-5": {"method": "partial-key", "candidates": 5},
    "CM-2": {"method": "cm", "cardinality": "exact"},
    "AM-2": {"method": "am", "cardinality": "exact"},
    "AM-5": {"method": "am", "candidates": 5, "cardinality": "exact"},
    "cAM-2": {"method": "cam", "cardinality": "exact"},
    "cAM-5": {"method": "cam", "candidates": 5, "cardinality": "exact"},
    "LM-2 p=.2": {"method": "lm", "cardinality": "exact", "bias": 0.2},
    "LM-2": {"method": "lm", "cardinality": "exact"},
    "LM-2 p=.8": {"method": "lm", "cardinality": "exact", "bias": 0.8},
    "CM-2-H": {"method": "cm", "cardinality": "hll"},
    "AM-2-H": {"method": "am", "cardinality": "hll"},
    "cAM-2-H": {"method": "cam", "cardinality": "hll"},
    "LM-2-H": {"method": "lm", "cardinality": "hll"},
    "cAM-2-F": {"method": "cam", "cardinality": "filter"},
    "waterfill": {"method": "waterfill"},
}
DRAWN = ("SH", "FLD", "PK-2", "CM-2", "AM-2", "cAM-2", "LM-2", "waterfill")
WORKERS = (8, 16, 32, 64, 128, 256)
IN_MEMORY = ("CM-2", "AM-2", "LM-2", "CM-2-H", "AM-2-H", "LM-2-H", "cAM-2-F", "waterfill")
GROUPS = 8_100_000
PRECISION = 12
"""2^12 registers, as in the paper's §4.1."""


def main() -> None:
    """Measure what is asked for; write JSON lines, a page and pictures."""
    options = arguments()
    if not options.page:
        measure(options)
    pages.write(options.output, page)


def measure(options: argparse.Namespace) -> None:
    """Measure what is asked for, and keep the records."""
    pa.set_cpu_count(1)
    results: list[dict[str, Any]] = []
    for name, make in STREAMS.items():
        if any(fnmatch.fnmatch(name, form) for form in options.streams):
            for result in measured(make(options.rows), options):
                results.append(result)
                print(json.dumps(result), flush=True)
    memory = [] if options.groups == 0 else list(memories(options))
    sketches = list(hyperloglogs(options))
    pages.keep(options.output, pages.machine(["pyarrow"]), [*results, *memory, *sketches])


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="What partitioners cost.")
    parser.add_argument("--rows", type=int, default=1_000_000, help="of the replayed samples")
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument("--streams", nargs="+", default=["*"], help="patterns of names, like 'DEBS*'")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--repeats", type=int, default=3, help="timed runs of a decision; the median counts")
    parser.add_argument("--sketches", type=int, default=100, help="of each number of distinct values")
    parser.add_argument(
        "--groups", type=int, default=GROUPS, help="keys of the memory table; 0 leaves it out"
    )
    pages.add_arguments(parser, "partition")
    return parser.parse_args()


def measured(stream: Stream, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield a result for each number of workers and method."""
    keys = stream.table.select(stream.keys).combine_chunks()
    times = None if stream.window is None else stream.table["ts"].combine_chunks()
    parts = None if stream.window is None else windows_of(stream)
    row, pair = prices(stream)
    for workers in options.workers:
        for name in options.methods:
            parameters = METHODS[name]
            if parameters.get("candidates", 2) > workers:
                continue
            runs = []
            for _ in range(options.repeats):
                partitioner = Partitioner(workers, window=stream.window, **parameters)
                began = time.perf_counter()
                assignment = partitioner.assign(keys, times)
                runs.append(time.perf_counter() - began)
            found = cost(keys, assignment, workers=workers, window=stream.window, times=times)
            result = {"stream": stream.name, "workers": workers, "method": name, "rows": found.rows}
            result |= {"groups": found.groups, "windows": found.windows.num_rows}
            result |= {"imbalance": found.load_ratio, "aggregation": found.aggregation_ratio}
            decisions = statistics.median(runs)
            result["stage"] = decisions + staged(found, row, pair)
            result["ns"] = decisions / max(found.rows, 1) * 1e9
            result["bytes"] = partitioner.memory()
            if parts is not None and stream.name == "DEBS Q1":
                result["latency"] = latencies(Partitioner(workers, window=stream.window, **parameters), parts)
            yield result


def prices(stream: Stream) -> tuple[float, float]:
    """Return the seconds that a row costs to aggregate, and a partial result to join with others."""
    table = pa.concat_tables([stream.table] * -(-1_000_000 // stream.table.num_rows))
    sums, counts = ("v", "sum"), ("v", "count")
    partial = table.group_by(stream.keys).aggregate([sums, counts])
    row = best(lambda: table.group_by(stream.keys).aggregate([sums, counts])) / table.num_rows
    pairs = pa.concat_tables([partial] * -(-1_000_000 // partial.num_rows))
    joined = [("v_sum", "sum"), ("v_count", "sum")]
    return row, best(lambda: pairs.group_by(stream.keys).aggregate(joined)) / pairs.num_rows


def best(run: Callable[[], object]) -> float:
    """Return the seconds of the fastest of three runs."""
    runs = []
    for _ in range(3):
        began = time.perf_counter()
        run()
        runs.append(time.perf_counter() - began)
    return min(runs)


def staged(found: Cost, row: float, pair: float) -> float:
    """Return the simulated seconds of the second and third stage, window after window."""
    most = sum(found.windows["most_rows"].to_pylist())
    return float(most * row + found.aggregation_cost * pair)


def windows_of(stream: Stream) -> list[tuple[pa.Table, pa.ChunkedArray]]:
    """Return keys and times of each window; rows are in the order of time."""
    assert stream.window is not None
    size = units(stream.window.size) // 1000
    starts = [time // size for time in stream.table["ts"].cast(pa.int64()).to_pylist()]
    edges = [0, *(at for at in range(1, len(starts)) if starts[at] != starts[at - 1]), len(starts)]
    return [
        (
            stream.table.select(stream.keys).slice(a, b - a).combine_chunks(),
            stream.table["ts"].slice(a, b - a),
        )
        for a, b in pairwise(edges)
    ]


def latencies(partitioner: Partitioner, parts: list[tuple[pa.Table, pa.ChunkedArray]]) -> dict[str, float]:
    """Return the milliseconds that the decisions of a window take: mean and 99th percentile."""
    runs = []
    for keys, times in parts:
        began = time.perf_counter()
        partitioner.assign(keys, times)
        runs.append((time.perf_counter() - began) * 1e3)
    runs.sort()
    return {"mean": statistics.mean(runs), "p99": runs[min(len(runs) - 1, int(len(runs) * 0.99))]}


def memories(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the bytes of each method's state after all keys, each seen twice, as in Table 4."""
    for workers in (8, 16, 32):
        for name in IN_MEMORY:
            partitioner = Partitioner(workers, **METHODS[name])
            for _ in range(2):
                for start in range(0, options.groups, 1_000_000):
                    partitioner.assign(pa.array(range(start, min(start + 1_000_000, options.groups))))
            result = {"memory": name, "workers": workers, "groups": options.groups}
            result["bytes"] = partitioner.memory()
            print(json.dumps(result), flush=True)
            yield result


def hyperloglogs(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Yield the speed and the error of sketches of ever other values, ours and Apache's in turn."""
    import datasketches
    import numpy as np

    def ours(values: Any) -> float:
        return wk.HyperLogLog(PRECISION).update(values).estimate()

    def apaches(values: Any) -> float:
        sketch = datasketches.hll_sketch(PRECISION, datasketches.tgt_hll_type.HLL_8)
        for value in values.tolist():
            sketch.update(value)
        return float(sketch.get_estimate())

    random = np.random.default_rng(7)
    for distinct in (1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        count = max(3, min(options.sketches, 30_000_000 // distinct))
        errors: dict[str, list[float]] = {"windowkit": [], "Apache": []}
        seconds: dict[str, list[float]] = {"windowkit": [], "Apache": []}
        for repeat in range(count):
            # Distinct by construction: an odd factor permutes the 64-bit numbers.
            factor = int(random.integers(1, 2**62)) * 2 + 1
            values = np.arange(distinct, dtype=np.uint64) * np.uint64(factor)
            for name, sketch in (("windowkit", ours), ("Apache", apaches)):
                if name == "Apache" and (repeat + 1) * distinct > 1_000_000:
                    continue
                began = time.perf_counter()
                found = sketch(values)
                seconds[name].append(time.perf_counter() - began)
                errors[name].append(abs(found - distinct) / distinct)
        for name in filter(errors.__getitem__, errors):
            result = {"sketch": name, "distinct": distinct, "sketches": len(errors[name])}
            result |= {"error": statistics.mean(errors[name]), "worst": max(errors[name])}
            result["values_per_second"] = distinct / statistics.median(seconds[name])
            print(json.dumps(result), flush=True)
            yield result


def page(output: Path, facts: pages.Record, records: list[pages.Record]) -> str:
    """Return the page, a table for each query and measure, workers across; and draw its picture."""
    results, memory, sketches = (
        [record for record in records if of in record] for of in ("stream", "memory", "sketch")
    )
    draw(results, output.with_suffix(".png"))
    lines = [
        "# Partitioners: imbalance, aggregation, time and memory",
        "",
        "Written by `benchmarks/partition.py`, whose head says what each measure is. The names are those of "
        "Table 2 of the paper; H counts keys by HyperLogLog, F by windowkit's filter.",
        "",
        *pages.listed(facts),
    ]
    measures = {
        "imbalance": ("imbalance: rows of the fullest worker / mean", lambda r: f"{r['imbalance']:.3f}"),
        "aggregation": ("aggregation cost / distinct keys", lambda r: f"{r['aggregation']:.3f}"),
        "stage": ("simulated stage, ms", lambda r: f"{r['stage'] * 1e3:.1f}"),
        "ns": ("decision, ns a row", lambda r: f"{r['ns']:.1f}"),
    }
    for stream in dict.fromkeys(result["stream"] for result in results):
        own = [result for result in results if result["stream"] == stream]
        first = own[0]
        lines += ["", f"## {stream}", ""]
        lines.append(
            f"{first['rows']:,} rows, {first['groups']:,} groups"
            + (f", all {first['windows']:,} windows together" if first["windows"] > 1 else "")
        )
        for title, shown in measures.values():
            lines += table(title, own, shown)
        if any("latency" in result for result in own):
            lines += table(
                "decision, ms a window, mean / 99th percentile (Fig. 13)",
                own,
                lambda r: f"{r['latency']['mean']:.2f} / {r['latency']['p99']:.2f}",
            )
    if memory:
        lines += ["", "## Memory (Table 4)", "", f"MB of state after {memory[0]['groups']:,} keys"]
        renamed = [{"method": result["memory"]} | result for result in memory]
        lines += table("MB", renamed, lambda r: f"{r['bytes'] / 1e6:.2f}")
    if sketches:
        lines += ["", f"## HyperLogLog with 2^{PRECISION} registers", ""]
        lines.append("| distinct int64 | sketches | side | mean error | worst error | M values/s |")
        lines.append("|--:|--:|---|--:|--:|--:|")
        for result in sketches:
            cells = [f"{result['distinct']:,}", str(result["sketches"]), result["sketch"]]
            cells += [f"{result['error']:.3%}", f"{result['worst']:.2%}"]
            cells.append(f"{result['values_per_second'] / 1e6:,.0f}")
            lines.append(pages.row(*cells))
    return "\n".join(lines) + "\n"


def table(title: str, results: list[dict[str, Any]], shown: Any) -> list[str]:
    """Return a table of methods down and workers across."""
    workers = list(dict.fromkeys(result["workers"] for result in results))
    cells = {(result["method"], result["workers"]): shown(result) for result in results}
    lines = ["", pages.header(title, *map(str, workers))]
    for method in dict.fromkeys(result["method"] for result in results):
        row = [cells.get((method, number), "") for number in workers]
        lines.append(pages.row(method, *row))
    return lines


def draw(results: list[dict[str, Any]], path: Path) -> None:
    """Draw Fig. 4 with measured places, a panel for each query, at the number of workers nearest to 32."""
    if not any(result["method"] in DRAWN for result in results):
        return
    names = list(dict.fromkeys(result["stream"] for result in results))
    workers = min({result["workers"] for result in results}, key=lambda number: abs(number - 32))
    columns = min(len(names), 3)
    rows = -(-len(names) // columns)
    size = (4.2 * columns, 3.6 * rows)
    with canvas(path, size, rows, columns) as (figure, axes):
        for panel in axes.flat[len(names) :]:
            panel.set_visible(False)
        for panel, name in zip(axes.flat, names, strict=False):
            panel.set_title(name, loc="left", fontsize=10)
            panel.set_xscale("log")
            panel.set_yscale("log")
            for result in results:
                if (result["stream"], result["workers"]) == (name, workers) and result["method"] in DRAWN:
                    at = (max(result["imbalance"] - 1, 1e-4), max(result["aggregation"] - 1, 1e-4))
                    color = "#2f6fb7" if result["method"] == "waterfill" else "#e0a526"
                    panel.plot(*at, "o", color=color, markersize=5)
                    panel.annotate(
                        result["method"], at, xytext=(4, 3), textcoords="offset points", fontsize=7
                    )
            panel.invert_xaxis()
            panel.invert_yaxis()
            panel.set_xlabel("imbalance: fullest worker / mean - 1", fontsize=8)
            panel.set_ylabel("aggregation / distinct keys - 1", fontsize=8)
            panel.tick_params(labelsize=7)
        figure.suptitle(f"{workers} workers; better is right and up", x=0.01, ha="left", fontsize=11)


if __name__ == "__main__":
    main()
