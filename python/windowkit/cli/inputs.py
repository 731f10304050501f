"""The inputs of a job, each with options of its own: which files, which of their rows, and types."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Final

import pyarrow as pa

from windowkit.cli.arguments import as_typed
from windowkit.cli.paths import TEXT, ArgumentsError, format_of_inputs, matched
from windowkit.cli.tables import Files, Reads, Table, chosen_of, dataset, parsed_types, table_of
from windowkit.errors import WindowKitError
from windowkit.language.checks import a_type

__all__ = ["STDIN", "Found", "Input", "Scratch", "input_of", "refuse_stdin"]

STDIN: Final = "-"
MAGIC: Final = {b"ARROW1\0\0": "arrow", b"\xff\xff\xff\xff": "arrow", b"PAR1\x15": "parquet"}
"""With what bytes files of formats begin, or streams: more of them than a header of text may have."""
GZIP: Final = b"\x1f\x8b"
OWN: Final = re.compile(r"--(?:input|filter|types|time-format)\b(?!-)")
"""What each input has as an option."""


class Scratch(AbstractContextManager["Scratch"]):
    """A temporary folder, which is made once it is needed, and removed at the end."""

    def __init__(self) -> None:
        self._made: tempfile.TemporaryDirectory[str] | None = None

    @property
    def folder(self) -> Path:
        """The folder."""
        if self._made is None:
            self._made = tempfile.TemporaryDirectory(prefix="windowkit-")
        return Path(self._made.name)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._made is not None:
            self._made.cleanup()


@dataclass(frozen=True)
class Input:
    """An input as the command line has it.

    Parameters
    ----------
    option : str
        The option of its paths: ``--input``, or as ``--left``, which its other options begin with.
    paths, filters : list of str
    types : list of str
    time_format : str or None
    reads : Reads
        What the job reads of it.
    """

    option: str
    paths: list[str]
    filters: list[str]
    types: list[str]
    time_format: str | None
    reads: Reads

    @contextmanager
    def naming(self) -> Iterator[None]:
        """Let errors name the options of this input."""
        try:
            yield
        except (ArgumentsError, WindowKitError) as error:
            said = as_typed(str(error))
            if self.option != "--input":
                said = OWN.sub(lambda found: self.own(found[0]), said)
            raise ArgumentsError(said) from None
        except UnicodeEncodeError as error:
            raise ArgumentsError(
                f"{self.option}: {error.object!r}, in its paths or options, is not text in UTF-8"
            ) from error
        except (pa.ArrowException, OSError) as error:
            raise ArgumentsError(f"{self.option}: {error}") from error

    def own(self, option: str) -> str:
        """Return what an option of ``--input`` is called for this one."""
        return self.option if option == "--input" else f"{self.option}-{option.removeprefix('--')}"

    @cached_property
    def given_types(self) -> dict[str, pa.DataType]:
        """The types of columns that are given."""
        return parsed_types(self.types)

    def found(self, form: str | None, scratch: Scratch) -> Found:
        """Return its files on this machine, whose format may be given."""
        with self.naming():
            paths = [str(copied(form or "csv", scratch)) if each == STDIN else each for each in self.paths]
            sources = matched(paths)
            kind = format_of_inputs(sources, form)
            files = dataset(sources, kind, self.reads, self.filters, self.given_types, lambda: scratch.folder)
            return Found(self, sources, files)


@dataclass(frozen=True)
class Found:
    """The files of an input on this machine."""

    input: Input
    sources: list[Path]
    files: Files

    def read(self) -> list[Path]:
        """Return where the paths of its files lead to."""
        paths = {self.files.origins.get(path, path) for path in self.files.data.files}
        return [Path(os.path.realpath(path)) for path in paths]

    def table(self) -> Table:
        """Return them as the table of a job."""
        given = self.input
        with given.naming():
            table = table_of(self.files, given.reads, given.filters, given.given_types, given.time_format)
            chosen_of(given.filters, table)
        return table


def input_of(arguments: argparse.Namespace, name: str, reads: Reads) -> Input:
    """Return the input of the option ``--name``; the others are its own, as ``--name-filter``."""
    before = "" if name == "input" else f"{name}_"
    own = {each: getattr(arguments, before + each) for each in ("filter", "types", "time_format")}
    return Input(
        f"--{name}", getattr(arguments, name), own["filter"], own["types"], own["time_format"], reads
    )


def refuse_stdin(inputs: tuple[Input, ...], master: str | None) -> None:
    """Refuse stdin where it is asked for twice, closed, or not on the machine where a job runs."""
    asking = [each.option for each in inputs for path in each.paths if path == STDIN]
    if not asking:
        return
    if len(asking) > 1:
        raise ArgumentsError(f"{asking[1]}: '-' is given twice; stdin is read once")
    if master is not None and not master.startswith("local"):
        raise ArgumentsError(f"{asking[0]}: '-' is given, and {master} does not read this machine")
    # It is None where it was closed before Python began.
    if sys.stdin is None:
        raise ArgumentsError(f"{asking[0]}: '-' is given, and stdin is closed")
    # A program that calls this one may have put text there.
    if not hasattr(sys.stdin, "buffer"):
        raise ArgumentsError(
            f"{asking[0]}: '-' is given, and stdin is {a_type(sys.stdin)}, which has no bytes"
        )


def copied(kind: str, scratch: Scratch) -> Path:
    """Return a temporary file of what stdin has: rows are read twice, and Arrow's streams are no files."""
    path = scratch.folder / f"stdin.{kind}"
    with path.open("wb") as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
    if not path.stat().st_size:
        raise ArgumentsError(f"--input: stdin is empty; it has rows of the format {kind!r}, see --format")
    with path.open("rb") as file:
        begins = file.read(max(map(len, MAGIC)))
    if kind in TEXT and begins.startswith(GZIP):
        return path.rename(path.with_name(f"{path.name}.gz"))
    for magic, is_of in MAGIC.items():
        if begins.startswith(magic) and is_of != kind:
            raise ArgumentsError(
                f"--input: stdin is of the format {is_of!r}, not {kind!r}; --format {is_of} reads it"
            )
    return as_file(path) if kind == "arrow" and not begins.startswith(b"ARROW1") else path


def as_file(path: Path) -> Path:
    """Return a file of Arrow's file format, of one that is a stream, as ``--output -`` writes it."""
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
