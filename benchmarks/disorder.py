#!/usr/bin/env python3
"""Windows of rows out of order, against window ids and in-order processing: Li 2008, Figs. 6-10 to 8-11.

    python benchmarks/disorder.py                      # everything: some minutes
    python benchmarks/disorder.py --quick              # fewer cells and shorter runs: some seconds
    python benchmarks/disorder.py --figures 6-10 8-8   # some figures; the others stay as they were
    python benchmarks/disorder.py --page               # the page again, from its records

What is measured runs in Rust (``baselines/benches/disorder``), on one thread, sides in turns. Written are a
page, and beside it every measurement (``.jsonl.gz``) and pictures (``.png``).
"""

from __future__ import annotations

import argparse
import subprocess

import disorder_page
import pages
import slicing


def main() -> None:
    """Measure, print and write."""
    options = parsed()
    if not options.page:
        measure(options)
    pages.write(options.output, disorder_page.page)


def measure(options: argparse.Namespace) -> None:
    """Measure the figures asked for, and keep the records; those of the others stay."""
    _, before = pages.read(options.output)
    records = [record for record in before if slicing.figure_of(record) not in options.figures]
    rustc = subprocess.run(["rustc", "--version"], capture_output=True, text=True, check=True).stdout
    facts = pages.machine([], rustc=rustc.strip().removeprefix("rustc "))
    facts |= {name: getattr(options, name) for name in ("seconds", "repeats", "quick")}
    for figure in options.figures:
        print(f"-- Fig. {figure}", flush=True)
        records += slicing.run("disorder", figure, options, [])
        # After each figure, so that what was measured outlives an interrupt.
        pages.keep(options.output, facts, records)


def parsed() -> argparse.Namespace:
    """Return the arguments."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    names = disorder_page.MEASURED
    add("--figures", nargs="+", choices=names, default=names, metavar="FIGURE", help=", ".join(names))
    add("--seconds", type=float, default=None, help="a side runs, each time; default: 0.2, with --quick 0.05")
    add("--repeats", type=int, default=None, help="times each side runs; default: 3, with --quick 1")
    add("--quick", action="store_true", help="fewer cells, shorter runs")
    pages.add_arguments(parser, "disorder")
    options = parser.parse_args()
    options.seconds = options.seconds or (0.05 if options.quick else 0.2)
    options.repeats = options.repeats or (1 if options.quick else 3)
    return options


if __name__ == "__main__":
    main()
