"""Standard input as a file: rows of text are read twice, and Arrow's streams are no files."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa

from windowkit.cli.paths import ArgumentsError

__all__ = ["STDIN", "with_stdin"]

STDIN: Final = "-"
MAGIC: Final = b"ARROW1"


@contextmanager
def with_stdin(inputs: Sequence[str], kind: str) -> Iterator[list[str]]:
    """Yield inputs, with a temporary file of what standard input has, in a format, in the place of ``-``.

    Raises
    ------
    ArgumentsError
        It is given twice, or is closed.
    """
    if STDIN not in inputs:
        yield list(inputs)
        return
    if list(inputs).count(STDIN) > 1:
        raise ArgumentsError("--input: '-' is given twice; stdin is read once")
    # It is None where it was closed before Python began.
    if sys.stdin is None:
        raise ArgumentsError("--input: '-' is given, and stdin is closed")
    with tempfile.TemporaryDirectory(prefix="windowkit-") as folder:
        path = Path(folder) / f"stdin.{kind}"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        if not path.stat().st_size:
            raise ArgumentsError(f"--input: stdin is empty; it has rows of the format {kind!r}, see --format")
        if kind == "arrow":
            path = as_file(path)
        yield [str(path) if each == STDIN else each for each in inputs]


def as_file(path: Path) -> Path:
    """Return a file of Arrow's file format, of one that may be a stream, as ``--output -`` writes it."""
    with path.open("rb") as file:
        if file.read(len(MAGIC)) == MAGIC:
            return path
    made = path.with_stem("stdin-as-file")
    try:
        with (
            pa.ipc.open_stream(pa.memory_map(str(path))) as stream,
            pa.ipc.new_file(str(made), stream.schema) as written,
        ):
            for batch in stream:
                written.write_batch(batch)
    except pa.ArrowInvalid as error:
        raise ArgumentsError(f"--input: stdin is no stream or file of Arrow ({error})") from None
    path.unlink()
    return made
