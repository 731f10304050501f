"""What the command line takes: its options, what `--help` says of them, and how errors call them."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NoReturn, TypeVar

import windowkit
from windowkit.cli.paths import ArgumentsError
from windowkit.errors import WindowKitError
from windowkit.language import aggregates, windows
from windowkit.language.functions import FORMS as FUNCTION_NAMES
from windowkit.language.query import MAX_WINDOWS, WINDOW_COLUMNS
from windowkit.language.windows.text import FORMS as WINDOW_NAMES

__all__ = ["REFUSED", "complain", "fill_of", "parser", "read"]

Read = TypeVar("Read")

REFUSED: Final = 2
"""The status of a command whose arguments are refused."""
OPTIONS: Final = {
    "by": "--by",
    "time": "--time",
    **dict.fromkeys(("window", "windows"), "--window"),
    **dict.fromkeys(("aggregate", "aggs"), "--agg"),
    "where": "--agg: where",
    "filter": "--filter",
    "types": "--types",
    "input": "--input",
    "route": "--route",
    "threads": "--threads",
    "max_windows": "--max-windows",
    "window_columns": "--window-columns",
    "weight": "--weight",
    "fill": "--fill",
}
"""What the command line calls the arguments that errors name."""
INSTEAD: Final = {
    "query(..., max_windows=...), any number by None": "--max-windows N, any number by 'any'",
    "see .alias()": "as by 'as name'",
    "with .alias()": "by 'as name'",
    aggregates.AGGREGATE_FORMS: f"functions are {', '.join(FUNCTION_NAMES)}; see windowkit aggregate --help",
}
"""What errors advise in Python, and what the command line has in its place."""


def complain(error: object, status: int) -> int:
    """Write an error in one line, and return the status that is given."""
    print(f"windowkit: error: {visible(' '.join(as_typed(str(error)).split()))}", file=sys.stderr)
    return status


def show(*texts: str) -> None:
    """Write lines about a job to stdout, with names as a terminal can show them."""
    print(*(visible(line) for text in texts for line in text.split("\n")), sep="\n")


def visible(message: str) -> str:
    r"""Return a message with escapes for what a terminal would obey instead of showing it.

    Examples
    --------
    >>> visible("there is no column '\x1b[31mé'")
    "there is no column '\\x1b[31mé'"
    """
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in message)


def as_typed(message: str) -> str:
    """Return an error of the language with the option of the command line for the argument that it names.

    Examples
    --------
    >>> as_typed("aggs: sum is not defined for column 'device'")
    "--agg: sum is not defined for column 'device'"
    >>> as_typed("windows: window 'w' occurs twice; windows must have different names, see .alias()")
    "--window: window 'w' occurs twice; windows must have different names, as by 'as name'"
    """
    argument, colon, said = message.partition(": ")
    typed = f"{OPTIONS.get(argument, argument)}{colon}{said}"
    for advice, here in INSTEAD.items():
        typed = typed.replace(advice, here)
    return typed


def read(option: str, parse: Callable[[str], Read], given: str) -> Read:
    """Return what `parse` makes of an option; errors begin with the option."""
    try:
        return parse(given)
    except WindowKitError as error:
        said = as_typed(str(error))
        raise ArgumentsError(said if said.startswith(f"{option}: ") else f"{option}: {said}") from None


class Parser(argparse.ArgumentParser):
    """An ArgumentParser whose errors are one line, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message.removeprefix('argument ')}; see {self.prog} --help", REFUSED))


def parser(prepare: Callable[[argparse.Namespace], Any]) -> Parser:
    """Return the parser of the command line, whose command is prepared by this."""
    top = Parser(
        prog="windowkit",
        description="Window aggregation over Arrow data, in this process or in Spark.",
        epilog=names(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"windowkit {windowkit.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    one = commands.add_parser(
        "aggregate",
        help="aggregate the rows of a file or directory in windows",
        description="Aggregate the rows of Parquet, CSV or Arrow files in windows.",
        epilog=forms(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    one.set_defaults(prepare=prepare)
    add = one.add_argument
    add(
        "--input",
        required=True,
        nargs="+",
        metavar="PATH",
        help="files (.parquet, .csv, .csv.gz, .arrow), directories of such files, patterns such as "
        "'2024-*.csv', or - for stdin",
    )
    add(
        "--output",
        metavar="PATH",
        help="a file to write, or - for stdout, the default (with --engine spark a directory)",
    )
    add(
        "--by",
        action="append",
        default=[],
        metavar="COLUMNS",
        help="key columns, comma-separated; repeatable",
    )
    add(
        "--time",
        required=True,
        metavar="COLUMN",
        help="the column of timestamps, dates, durations or integers",
    )
    add("--window", action="append", required=True, metavar="WINDOW", help="repeatable; see below")
    add("--agg", action="append", required=True, metavar="AGGREGATE", help="repeatable; see below")
    add("--engine", choices=["local", "spark"], default="local", help="where to run (default: local)")
    add("--master", metavar="URL", help="Spark's master (default: local[*])")
    add(
        "--filter",
        action="append",
        default=[],
        metavar="COMPARISON",
        help="rows to read, such as 'ts >= 2024-05-01' or 'device in (a, b)'; of several, all must hold",
    )
    add(
        "--types",
        action="append",
        default=[],
        metavar="TYPES",
        help="types of columns, by Spark's or Arrow's names, as in k=string,v=double; repeatable",
    )
    add(
        "--time-format",
        metavar="FORMAT",
        help="how the time column is written, as in '%%d/%%m/%%Y %%H:%%M' (default: as ISO 8601 has it)",
    )
    add(
        "--route",
        choices=["scan", "catalyst", "catalyst-panes", "packed", "rows"],
        help="how Spark evaluates the query (default: scan of Parquet files on this machine, else by rule)",
    )
    add(
        "--metrics",
        action="store_true",
        help="print how many rows, slices and windows there were (Spark only)",
    )
    add("--threads", type=int, metavar="N", help="threads of the local engine (default: all usable cores)")
    add(
        "--max-windows",
        type=most_windows,
        default=MAX_WINDOWS,
        metavar="N",
        help=f"most windows that the query, or a task of Spark, may make (default: {MAX_WINDOWS}; or 'any')",
    )
    add(
        "--weight",
        metavar="COLUMN",
        help="a column of 1, and of -1 for rows that retract others",
    )
    add(
        "--fill",
        action="append",
        default=[],
        metavar="FILL",
        help="what aggregates are in windows without rows between those of a key: null, zero or previous; "
        "or, repeatable, of one aggregate, as in 'peak=previous'",
    )
    add(
        "--format",
        choices=["parquet", "csv", "arrow"],
        help="of paths whose extension does not determine it, and of stdin and stdout (default: csv)",
    )
    add(
        "--window-columns",
        choices=WINDOW_COLUMNS,
        default=WINDOW_COLUMNS[0],
        help="a window as window_start and window_end, or as one column, not in CSV (default: flat)",
    )
    add("--overwrite", action="store_true", help="replace an existing output")
    add(
        "--explain",
        action="store_true",
        help="print the types of text columns and how the query would be evaluated, and do nothing else",
    )
    add("--progress", action="store_true", help="show progress even if stderr is not a terminal")
    return top


def names() -> str:
    """Return the windows and functions there are, for those who only look around."""
    lines = [
        f"{title}: {', '.join(each)}"
        for title, each in (("windows", WINDOW_NAMES), ("functions", FUNCTION_NAMES))
    ]
    told = [textwrap.fill(line, 78, subsequent_indent="  ") for line in lines]
    return "\n".join([*told, "", "windowkit aggregate --help says what each of them does."])


def forms() -> str:
    """Return what --help lists: windows and functions, each with the first line of what is said of it."""

    def listed(title: str, names: Iterable[str], module: object) -> list[str]:
        lines = [f"{title}:"]
        for name in names:
            lines += textwrap.wrap(
                said.get(name) or summary(getattr(module, name)),
                78,
                initial_indent=f"  {name:<22} ",
                subsequent_indent=" " * 25,
            )
        return lines

    said = {"quantile_disc": "Exact quantile that is one of the values: quantile with discrete=True."}
    return "\n".join(
        [
            *listed("windows", WINDOW_NAMES, windows),
            "",
            *textwrap.wrap(f"{windows.WINDOW_FORMS}.", 78),
            "",
            *listed("functions", FUNCTION_NAMES, aggregates),
            "",
            *textwrap.wrap(f"{aggregates.AGGREGATE_FORMS}.", 78),
        ]
    )


def summary(function: object) -> str:
    """Return the first line of what is said of a function, as plain text."""
    return (function.__doc__ or "-").splitlines()[0].replace("`", "")


def most_windows(given: str) -> int | None:
    """Return the number that is given, or None for any number."""
    if given == "any":
        return None
    try:
        return int(given)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{given!r} is not a number; it is an int of at least 1, or 'any'"
        ) from None


def fill_of(given: Sequence[str]) -> str | dict[str, str] | None:
    """Return what ``--fill`` says of all aggregates, or of some by name."""
    if not given:
        return None
    if len(given) == 1 and "=" not in given[0]:
        return given[0]
    pairs = [each.rpartition("=") for each in given]
    for name, _, _ in pairs:
        if not name or [other for other, _, _ in pairs].count(name) > 1:
            raise ArgumentsError(
                f"--fill: {', '.join(map(repr, given))} is given; it is one of null, zero and previous, or "
                "one of these for each of several aggregates, as in --fill n=zero --fill peak=previous"
            )
    return {name: how for name, _, how in pairs}
