"""What the command ``windowkit`` reads and writes, whichever engine it has: formats, refusals, replacing."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windowkit.query import Query

__all__ = [
    "ArgumentsError",
    "JobError",
    "format_of",
    "format_of_input",
    "refuse_csv",
    "refuse_output",
    "replacing",
    "structs",
]

ENDINGS: Final = {".parquet": "parquet", ".pq": "parquet", ".csv": "csv"}


class ArgumentsError(Exception):
    """Arguments that cannot be used; the message is for the user."""


class JobError(Exception):
    """A job that did not succeed; the message is for the user."""


def structs(made: Query) -> list[tuple[str, str]]:
    """Return the columns of starts and ends, and what CSV calls them."""
    ranks = [("window_rows", "window_rows")] if made.has_ranks else []
    return [(made.window_column, "window"), *ranks]


def format_of_input(path: Path, given: str | None) -> str:
    """Return the format of a file, or of the files of a directory."""
    if not path.exists():
        raise ArgumentsError(f"--input: {str(path)!r} does not exist; it is a file, or a directory of files")
    if path.is_dir() and path.suffix.lower() not in ENDINGS:
        for file in sorted(path.rglob("*")):
            if file.is_file() and file.suffix.lower() in ENDINGS:
                return ENDINGS[file.suffix.lower()]
    return format_of("--input", path, given)


def format_of(argument: str, path: Path, given: str | None) -> str:
    """Return the format of a path: what its ending says, or else what `--format` does."""
    found = ENDINGS.get(path.suffix.lower(), given)
    if found is None:
        raise ArgumentsError(
            f"{argument}: {str(path)!r} does not say its format; paths end in {', '.join(ENDINGS)}, or "
            "--format is given"
        )
    return found


def refuse_output(output: Path, overwrite: bool) -> None:
    """Refuse a path that cannot or may not be written."""
    if output.exists() and not overwrite:
        raise ArgumentsError(f"--output: {str(output)!r} exists; --overwrite replaces it")
    if not output.parent.is_dir():
        raise ArgumentsError(
            f"--output: {str(output.parent)!r} is not a directory; the directory of an output must exist"
        )


def refuse_csv(made: Query) -> None:
    """Refuse what CSV cannot hold: lists, structs, bytes, and names that it gives to the window."""
    for name in (f"{prefix}_{end}" for _, prefix in structs(made) for end in ("start", "end")):
        if name in made.columns:
            raise ArgumentsError(
                f"--format: csv has a column {name!r} for the window; other columns must have other names"
            )
    for aggregate in made.aggs:
        if aggregate.function in ("m4", "m4_times", "collect_list", "collect_set", "hll_sketch"):
            raise ArgumentsError(
                f"--format: csv cannot hold the lists, structs or bytes of {aggregate}; Parquet can"
            )


@contextmanager
def replacing(output: Path) -> Iterator[Path]:
    """Give a name to write to, and move what is written there to `output` only once all of it is."""
    temporary = output.with_name(f".{output.name}.{secrets.token_hex(6)}.part")
    try:
        yield temporary
        if output.is_dir() or temporary.is_dir():
            # Only a file takes the place of a file in one step.
            remove(output)
        os.replace(temporary, output)
    finally:
        remove(temporary)


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
