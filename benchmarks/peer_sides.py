"""Bytewax and Pathway, run by the interpreter of an environment that has them; it needs no windowkit.

    python benchmarks/peer_sides.py bytewax ROWS KEYS SEED

Prints one line of JSON: seconds, results, and the sum of all results.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta, timezone
from typing import Any

import numpy as np

SIZE, SLIDE = 600, 60
PER_SECOND = 100
BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)


def columns(rows: int, keys: int, seed: int) -> dict[str, Any]:
    """Return rows in order, 100 a second: times in seconds, keys and values."""
    random = np.random.default_rng(seed)
    return {
        "t": np.arange(rows) // PER_SECOND,
        "k": random.integers(0, keys, rows),
        "v": random.integers(0, 1000, rows),
    }


def bytewax(rows: int, keys: int, seed: int) -> tuple[float, list[int]]:
    """Return how long Bytewax takes, without the making of its rows, and all sums."""
    import bytewax.operators as op
    from bytewax.dataflow import Dataflow
    from bytewax.operators.windowing import EventClock, SlidingWindower, fold_window
    from bytewax.testing import TestingSink, TestingSource, run_main

    own = columns(rows, keys, seed)
    each = zip(own["k"].tolist(), own["t"].tolist(), own["v"].tolist(), strict=True)
    given = [(str(k), (BEGIN + timedelta(seconds=t), v)) for k, t, v in each]
    found: list[Any] = []
    flow = Dataflow("peer")
    stream = op.input("in", flow, TestingSource(given, batch_size=10_000))
    out = fold_window(
        "sums",
        stream,
        EventClock(lambda row: row[0], wait_for_system_duration=timedelta(0)),
        SlidingWindower(timedelta(seconds=SIZE), timedelta(seconds=SLIDE), BEGIN),
        lambda: 0,
        lambda total, row: total + row[1],
        lambda a, b: a + b,
    )
    op.output("out", out.down, TestingSink(found))
    began = time.perf_counter()
    run_main(flow)
    return time.perf_counter() - began, [total for _, (_, total) in found]


def pathway(rows: int, keys: int, seed: int) -> tuple[float, list[int]]:
    """Return how long Pathway takes, without the making of its rows, and all sums."""
    import pandas as pd
    import pathway as pw

    table = pw.debug.table_from_pandas(pd.DataFrame(columns(rows, keys, seed)))
    sums = table.windowby(
        table.t, window=pw.temporal.sliding(hop=SLIDE, duration=SIZE), instance=table.k
    ).reduce(total=pw.reducers.sum(pw.this.v))
    began = time.perf_counter()
    result = pw.debug.table_to_pandas(sums, include_id=False)
    return time.perf_counter() - began, result["total"].tolist()


if __name__ == "__main__":
    side, *numbers = sys.argv[1:]
    seconds, totals = {"bytewax": bytewax, "pathway": pathway}[side](*map(int, numbers))
    print(json.dumps({"seconds": seconds, "emitted": len(totals), "total": int(sum(totals))}))
