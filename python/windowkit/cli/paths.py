"""What the command ``windowkit`` reads and writes, whichever engine it has: paths and their formats."""

from __future__ import annotations

import fnmatch
import glob
import os
import stat
from collections.abc import Hashable, Iterator, Sequence
from pathlib import Path
from typing import Final

from windowkit.files.listing import is_hidden, kind_of, walked

__all__ = [
    "TEXT",
    "ArgumentsError",
    "JobError",
    "format_of",
    "format_of_inputs",
    "format_of_output",
    "matched",
    "unpacked",
]

ENDINGS: Final = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    **dict.fromkeys((".arrow", ".ipc", ".feather"), "arrow"),
    **dict.fromkeys((".jsonl", ".ndjson", ".json"), "jsonl"),
}
TEXT: Final = ("csv", "jsonl")
COMPRESSED: Final = (".gz", ".bz2")
"""Endings after those of text, which is read as it is unpacked."""


class ArgumentsError(Exception):
    """Arguments that cannot be used; the message is for the user."""


class JobError(Exception):
    """A job that did not succeed; the message is for the user."""


def matched(paths: Sequence[str]) -> list[Path]:
    """Return the paths that there are, and those that match where one is a pattern, in order.

    A name that exists is no pattern, whatever characters it has.
    """
    found: list[Path] = []
    for given in paths:
        if not given:
            raise ArgumentsError("--input: '' is given; a path is not empty")
        if Path(given).exists() or not glob.has_magic(given):
            found.append(Path(given))
            continue
        # Where the command runs matters only to patterns that begin there: it may be closed to this user.
        top, parts = Path(given).anchor, Path(given).parts
        alike = sorted(matching(top, parts[1:] if top else parts))
        if not alike:
            raise ArgumentsError(
                f"--input: {given!r} matches no file; it is a file, a directory or a pattern"
            )
        found += map(Path, alike)
    return found


def matching(top: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield the paths below one that match a pattern, of which ``**`` is any directories, each of them once.

    Raises
    ------
    OSError
        A directory cannot be read, of which `glob` would say nothing.
    """
    if not parts:
        try:
            os.lstat(top)
        except FileNotFoundError:
            return
        yield top
        return
    first, *others = parts
    here = top or os.curdir
    if kind_of(here) != stat.S_IFDIR:
        return
    if first == "**":

        def key(path: str) -> Hashable:
            # As elsewhere in patterns, what begins with a period is not meant.
            return None if any(name.startswith(".") for name in Path(path).relative_to(here).parts) else ()

        for path, _ in walked(here, key):
            yield from matching(path, others or "*")
        return
    for name in fnmatch.filter(os.listdir(here), first) if glob.has_magic(first) else [first]:
        if first.startswith(".") or not name.startswith("."):
            yield from matching(os.path.join(top, name), others)


def format_of_inputs(paths: Sequence[Path], given: str | None) -> str:
    """Return the one format that all paths have."""
    kinds = {path: format_of_input(path, given) for path in paths}
    first = paths[0]
    for path, kind in kinds.items():
        if kind != kinds[first]:
            raise ArgumentsError(
                f"--input: {str(first)!r} is {kinds[first]} and {str(path)!r} is {kind}; all files of a job "
                "have one format"
            )
    return kinds[first]


def format_of_input(path: Path, given: str | None) -> str:
    """Return the format of a file, or of the files of a directory."""
    if not path.exists():
        raise ArgumentsError(f"--input: {str(path)!r} does not exist; it is a file, or a directory of files")
    path = unpacked(path)
    if path.is_dir() and path.suffix.lower() not in ENDINGS:

        def key(inner: str) -> Hashable:
            return None if any(map(is_hidden, Path(inner).relative_to(path).parts)) else ()

        for _, files in walked(str(path), key):
            for file in files:
                ending = unpacked(Path(file)).suffix.lower()
                if ending in ENDINGS and not is_hidden(file.name):
                    return ENDINGS[ending]
    return format_of("--input", path, given)


def unpacked(path: Path) -> Path:
    """Return the path of a file of text without the ending of its compression, and any other as it is."""
    inner = ENDINGS.get(Path(path.stem).suffix.lower())
    return path.with_suffix("") if path.suffix.lower() in COMPRESSED and inner in TEXT else path


def format_of(argument: str, path: Path, given: str | None) -> str:
    """Return the format of a path: what its ending says, or else what `--format` does."""
    found = ENDINGS.get(path.suffix.lower(), given)
    if found is None:
        raise ArgumentsError(
            f"{argument}: {str(path)!r} does not say its format; paths end in {', '.join(ENDINGS)}, or "
            "--format is given"
        )
    return found


def format_of_output(path: Path | None, given: str | None) -> str:
    """Return the format of an output; of stdout, if there is no path."""
    if path is None:
        # Of JSON, what is given is the format of inputs.
        return given if given not in (None, "jsonl") else "csv"
    found = format_of("--output", path, given)
    if found == "jsonl":
        raise ArgumentsError(
            f"--output: {str(path)!r} would be of JSON lines, which are only read; written are Parquet, "
            "CSV and Arrow"
        )
    return found
