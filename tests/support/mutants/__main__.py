"""Which changes of the core no quick test notices: `python -m support.mutants`, in `tests`.

The changes are those of cargo-mutants. All are compiled into one module, each behind a switch, since
compiling takes longer than the tests. `trials.py` tries them.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from support.documents import ROOT
from support.mutants.schemata import SWITCH, Mutant, Rewritten, rewritten

OUT: Final = ROOT / "target" / "mutants"
COPY: Final = OUT / "copy"
QUICK: Final = ["--profile", "edit", "--locked", "--lib", "--package", "windowkit"]
# What runs other programs or other parts of the package, or starts threads of Polars or DuckDB when it is
# imported, which a forked process would not have.
OTHERS: Final = re.compile(
    "border|calls|cli|collect_rows|datasets|distinct|docs|durations|errors$|expressions|foreign|frames|imports|"
    "interrupts|join|kernels|language$|large|lazy|libraries|local_types|malformed|memory|odd_arguments|"
    "operator_interrupts|ordered_categories|parsers|partition|paths|plot|read_types|releases|results|shared|"
    "soak|supply|typing|written"
)
ROOMS: Final = ["window", "slice", "operator/stream", "aggregate"]


def cargo(*arguments: str) -> list[dict[str, Any]]:
    """What a command of cargo says, a message in JSON a line."""
    # What others have compiled is used. The core is compiled once and runs often: it is optimised somewhat.
    settings = {"CARGO_TARGET_DIR": str(ROOT / "target"), "CARGO_PROFILE_EDIT_OPT_LEVEL": "1"}
    # Errors of the compiler are among the messages; those of cargo itself are on the terminal.
    said = subprocess.run(
        ["cargo", *arguments],
        cwd=COPY,
        env={**settings, **os.environ},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    return [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]


def sampled(rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """So many mutants of each room, in random order: the first are a sample, too."""
    files = [argument for room in rooms for argument in ("--file", f"src/{room}/**")]
    said = subprocess.run(
        ["cargo", "mutants", "--package", "windowkit", "--list", "--json", *files],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        check=True,
    )
    draw, drawn = random.Random(seed), []
    found = json.loads(said.stdout)
    for room in rooms:
        own = [
            Mutant(
                room,
                mutant["file"],
                mutant["span"]["start"]["line"],
                mutant["span"]["start"]["column"],
                mutant["genre"],
                mutant["replacement"],
                mutant["name"],
            )
            for mutant in found
            if mutant["file"].startswith(f"src/{room}/")
        ]
        drawn += draw.sample(own, min(count, len(own)))
    draw.shuffle(drawn)
    return drawn


def copied() -> None:
    """A copy of the sources, whose files keep their times."""
    shutil.rmtree(COPY, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    for name in listed.stdout.split("\0")[:-1]:
        if (ROOT / name).exists():
            (COPY / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, COPY / name)


def written(mutants: list[Mutant], left_out: set[int]) -> dict[str, Rewritten]:
    """Write the sources with these mutants, but for some."""
    by_file: dict[str, list[tuple[int, Mutant]]] = defaultdict(list)
    for number, mutant in enumerate(mutants):
        by_file[mutant.file].append((number, mutant))
    sources = {}
    for file, own in by_file.items():
        kept = [(number, mutant) for number, mutant in own if number not in left_out]
        sources[file] = rewritten((ROOT / file).read_bytes(), kept)
        (COPY / file).write_bytes(sources[file].source)
    library = (ROOT / "src/lib.rs").read_text()
    (COPY / "src/lib.rs").write_text(library + SWITCH.replace("COUNT", str(len(mutants))))
    return sources


def compiled(mutants: list[Mutant]) -> list[int]:
    """Compile the module with those of the mutants that can be compiled: these."""
    without: set[int] = set()
    while True:
        sources = written(mutants, without)
        without |= {number for source in sources.values() for number in source.lost}
        messages = cargo("build", *QUICK, "--features", "windowkit/python", "--message-format=json")
        errors = [
            message["message"]
            for message in messages
            if message["reason"] == "compiler-message" and message["message"]["level"] == "error"
        ]
        if not errors:
            break
        blamed = {
            number
            for error in errors
            for span in error["spans"]
            if span["is_primary"] and span["file_name"] in sources
            for number in sources[span["file_name"]].at(span["byte_start"], span["byte_end"])
        }
        if not blamed:
            sys.exit("".join(error["rendered"] for error in errors))
        print(f"{len(blamed)} mutants do not compile", flush=True)
        without |= blamed
    module = next(
        file
        for message in messages
        if message["reason"] == "compiler-artifact" and message["target"]["name"] == "windowkit"
        for file in message["filenames"]
        if file.endswith((".so", ".dylib"))
    )
    shutil.copy2(module, COPY / "python/windowkit/_native.abi3.so")
    return [number for number in range(len(mutants)) if number not in without]


def missed_by_rust(mutants: list[Mutant], missed: list[int], workers: int) -> list[int]:
    """Those of the mutants that the room's own tests of Rust do not notice, either."""
    if not missed:
        return []
    built = cargo("test", *QUICK, "--no-run", "--message-format=json")
    tests = next(message["executable"] for message in built if message.get("executable"))

    def passes(room: str, seconds: float, **environment: str) -> bool:
        command = [tests, "--test-threads=1", f"{room.replace('/', '::')}::"]
        try:
            ended = subprocess.run(
                command,
                cwd=COPY,
                env={**os.environ, **environment},
                timeout=seconds,
                capture_output=True,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return False
        return ended.returncode == 0

    limits = {}
    for room in {mutants[number].room for number in missed}:
        began = time.monotonic()
        if not passes(room, 3600):
            sys.exit(f"the tests of {room} in Rust fail without a mutant, too")
        limits[room] = 5 * (time.monotonic() - began) + 60

    def is_missed(number: int) -> bool:
        room = mutants[number].room
        return passes(room, limits[room], WINDOWKIT_MUTANT=str(number))

    with ThreadPoolExecutor(workers) as pool:
        return [number for number, stays in zip(missed, pool.map(is_missed, missed), strict=True) if stays]


def read_tried() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (OUT / "tried.jsonl").read_text().splitlines()]


def write_tried(tried: list[dict[str, Any]]) -> None:
    (OUT / "tried.jsonl").write_text("".join(json.dumps(line) + "\n" for line in tried))


def is_hurried(line: dict[str, Any], seconds: float) -> bool:
    """Whether a mutant was missed in less time than this, and would be tried on more tests."""
    return line["outcome"] == "missed" and line["ran"] < line["reached"] and line.get("seconds", 30) < seconds


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m support.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--rooms", nargs="+", default=ROOMS, metavar="ROOM")
    parser.add_argument("--count", type=int, default=150, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2, help="how many are tried side by side")
    parser.add_argument("--seconds", type=float, default=30, help="of tests in Python, for a mutant")
    parser.add_argument(
        "--go-on",
        action="store_true",
        help="with the mutants of the run before; what it missed is tried again if there are more seconds",
    )
    given = parser.parse_args()
    # The tests in Rust have missed these before, and do not run on them again.
    in_rust: set[int] = set()
    if given.go_on:
        known = json.loads((OUT / "mutants.json").read_text())
        mutants, viable = [Mutant(**mutant) for mutant in known["mutants"]], known["viable"]
        tried = read_tried()
        in_rust = {line["mutant"] for line in tried if line.get("in_rust")}
        write_tried([line for line in tried if not is_hurried(line, given.seconds)])
    else:
        OUT.mkdir(parents=True, exist_ok=True)
        mutants = sampled(given.rooms, given.count, given.seed)
        copied()
        viable = compiled(mutants)
        (OUT / "reached.jsonl").unlink(missing_ok=True)
        write_tried([])
        (OUT / "mutants.json").write_text(
            json.dumps({"mutants": [mutant._asdict() for mutant in mutants], "viable": viable})
        )
    tests = sorted((COPY / "tests").glob("test_*.py"))
    files = [f"tests/{file.name}" for file in tests if not OTHERS.match(file.stem.removeprefix("test_"))]
    # The plugin is imported before the assertions of what it is beside are rewritten.
    plugin = ["-p", "support.mutants.trials", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    limits = [f"--mutant-seconds={given.seconds}", f"--mutant-workers={given.workers}"]
    options = ["--capture=no", "-q", *plugin, f"--mutants={OUT}", *limits]
    path = os.pathsep.join(
        filter(None, [str(COPY / "python"), str(COPY / "tests"), os.environ.get("PYTHONPATH")])
    )
    command = [sys.executable, "-m", "pytest", *options, "-m", "not slow", *files]
    subprocess.run(command, cwd=COPY, env={**os.environ, "PYTHONPATH": path}, check=True)
    tried = read_tried()
    by_python = [line["mutant"] for line in tried if line["outcome"] == "missed"]
    unknown = [number for number in by_python if number not in in_rust]
    noticed = set(unknown) - set(missed_by_rust(mutants, unknown, given.workers))
    for line in tried:
        if line["mutant"] in noticed:
            line |= {"outcome": "noticed", "test": "in Rust"}
        elif line["outcome"] == "missed":
            line["in_rust"] = True
    write_tried(tried)
    missed = [number for number in by_python if number not in noticed]
    (OUT / "missed.txt").write_text("".join(f"{mutants[number].name}\n" for number in missed))
    all_of, compilable, left = (
        Counter(mutants[n].room for n in ns) for ns in (range(len(mutants)), viable, missed)
    )
    for room in given.rooms:
        print(
            f"{room}: {compilable[room]} of {all_of[room]} compiled, {compilable[room] - left[room]} noticed"
        )


if __name__ == "__main__":
    main()
