"""What the command line takes: its options, what `--help` says of them, and how errors call them."""

from __future__ import annotations

import argparse
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import windowkit
from windowkit.cli.paths import ArgumentsError
from windowkit.cli.terminal import say, visible
from windowkit.errors import WindowKitError
from windowkit.language import aggregates, windows
from windowkit.language.aggregation import FRAMED_FORMS
from windowkit.language.functions import FORMS as FUNCTION_NAMES
from windowkit.language.join import ENDS, KINDS
from windowkit.language.query import MAX_WINDOWS
from windowkit.language.window_columns import WINDOW_COLUMNS
from windowkit.language.windows.text import FORMS as WINDOW_NAMES

__all__ = ["REFUSED", "complain", "fill_of", "parser", "read"]

Read = TypeVar("Read")
Add: TypeAlias = Callable[..., Any]

REFUSED: Final = 2
"""The status of a command whose arguments are refused."""
NO_VALUE: Final = re.compile(r"--[a-z-]+=--")
OF_SIDES: Final = ("time", "columns", "weight")
"""Arguments of a join that each of its sides has."""
OPTIONS: Final = {
    "by": "--by",
    "time": "--time",
    **dict.fromkeys(("window", "windows"), "--window"),
    **dict.fromkeys(("aggregate", "aggs"), "--agg"),
    "where": "--agg: where",
    "filter": "--filter",
    "types": "--types",
    "input": "--input",
    "paths": "--input",
    "route": "--route",
    "threads": "--threads",
    "max_windows": "--max-windows",
    "window_columns": "--window-columns",
    "weight": "--weight",
    "fill": "--fill",
    "by, of the left side": "--by",
    "by, of the right side": "--by",
    **{f"{side}_{name}": f"--{side}-{name}" for side in ("left", "right") for name in OF_SIDES},
    "left_time and right_time": "--left-time and --right-time",
    **{name: f"--{name}" for name in ("within", "how", "closed", "suffix")},
}
"""What the command line calls the arguments that errors name."""
GIVEN: Final = re.compile(r"""(?:(?<!\w)'(?:[^'\\]|\\.)*'|(?<!\w)"(?:[^"\\]|\\.)*"|(?!; ).)*""")
"""What errors say first: what was given, which in quotes may have a semicolon."""
INSTEAD: Final = {
    "by windowkit.rolling": "by 'windowkit rolling'",
    "query(..., max_windows=...), any number by None": "--max-windows N, any number by 'any'",
    "see .alias()": "as by 'as name'",
    "paths are files, or directories of files": "inputs are files, directories of files, patterns, or - "
    "for stdin",
    "with .alias()": "by 'as name'",
    "choose columns by left_columns and right_columns": "choose columns by --left-columns "
    "and --right-columns",
    aggregates.AGGREGATE_FORMS: f"functions are {', '.join(FUNCTION_NAMES)}; see --help",
    "both have a zone or neither; cast one of them": "both have a zone or neither, see --left-types",
    "keys of both sides have the same types; cast one of them": "keys of both sides have the same types, "
    "see --left-types and --right-types",
    "both must have one type: cast one of them to that of the other": "both must have one type, see --types "
    "and --labels-types",
    "of within and windows; partners are either within a time, as in within='2 minutes', or in one window, "
    "as in windows=windowkit.tumbling('1 hour')": "of --within and --window; partners are either within a "
    "time, as in --within '2 minutes', or in one window, as in --window 'tumbling(1 hour)'",
}
"""What errors advise in Python, and what the command line has in its place."""


def complain(error: object, status: int) -> int:
    """Write an error, and what is allowed in a second line, and return the status that is given."""
    said = visible(" ".join(as_typed(str(error)).split()))
    given = GIVEN.match(said)
    assert given is not None, "it matches anything"
    say(f"windowkit: error: {given[0]}")
    if allowed := said[given.end() :].removeprefix("; "):
        # What is probably meant is not looked for behind a long list.
        listed, _, meant = allowed.rpartition("; did you mean ")
        say(f"  did you mean {meant} {listed}" if listed else f"  {allowed}")
    return status


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
    # What is read from stdin is in a file of no interest.
    typed = re.sub(r"'[^']*/stdin\.[a-z.]+'", "stdin", f"{OPTIONS.get(argument, argument)}{colon}{said}")
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
    """An ArgumentParser whose errors are as others, without the usage."""

    def error(self, message: str) -> NoReturn:
        sys.exit(complain(f"{message.removeprefix('argument ')}; see {self.prog} --help", REFUSED))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse arguments; refuse the value ``--``, which argparse drops, so that none is left."""
        args = sys.argv[1:] if args is None else args
        for option in (each.removesuffix("=--") for each in args if NO_VALUE.fullmatch(each)):
            self.error(f"{option}: '--' is given, which is no value; a path of that name is './--'")
        return super().parse_known_args(args, namespace)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the command after what was asked for is written, as help is, or raise why it cannot be."""
        if sys.stdout is not None:
            sys.stdout.flush()
        super().exit(status, message)


class Once(argparse.Action):
    """Keeps the value of an option that is given once: argparse would drop the first of two."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option: Any = None
    ) -> None:
        seen = getattr(namespace, "seen", ())
        if self.dest in seen:
            first = getattr(namespace, self.dest)
            raise argparse.ArgumentError(self, f"it is given twice, as {first!r} and {values!r}")
        namespace.seen = (*seen, self.dest)
        setattr(namespace, self.dest, values)


def parser(jobs: Mapping[str, Callable[[argparse.Namespace], Any]]) -> Parser:
    """Return the parser of the command line, of commands whose arguments these make jobs of."""
    top = Parser(
        prog="windowkit",
        description="Window aggregation over Arrow data, in this process or in Spark.",
        epilog=names(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"windowkit {windowkit.__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for name, (said, describe, add) in COMMANDS.items():
        command = commands.add_parser(
            name,
            help=said,
            description=f"{said[0].upper()}{said[1:]}.",
            epilog=describe(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        command.set_defaults(job=jobs[name])
        command.register("action", None, Once)
        add(command.add_argument)
        add_shared(command.add_argument)
    return top


def add_input(add: Add, name: str, rows: str, *, required: bool = True) -> None:
    """Add the options of an input, which begin with its name but for those of the only one."""
    before = "" if name == "input" else f"{name}-"
    add(
        f"--{name}",
        action="extend",
        required=required,
        nargs="+",
        metavar="PATH",
        help=f"{rows}: files (.parquet, .csv, .jsonl, .arrow; .csv.gz, .jsonl.gz), directories of such "
        "files, patterns such as '2024-*.csv', or - for stdin",
    )
    add(
        f"--{before}filter",
        action="append",
        default=[],
        metavar="COMPARISON",
        help="rows to read, such as 'ts >= 2024-05-01' or 'device in (a, b)'; of several, all must hold",
    )
    add(
        f"--{before}types",
        action="append",
        default=[],
        metavar="TYPES",
        help="types of columns, by Spark's or Arrow's names, as in k=string,v=double; repeatable",
    )
    add(
        f"--{before}time-format",
        metavar="FORMAT",
        help="how the time column is written, as in '%%d/%%m/%%Y %%H:%%M' (default: as ISO 8601 has it)",
    )


def add_shared(add: Add) -> None:
    """Add the options that all commands have: where a job runs, and where its result goes."""
    add(
        "--output",
        metavar="PATH",
        help="a file to write, or - for stdout, the default (with --engine spark a directory)",
    )
    add(
        "--format",
        choices=["parquet", "csv", "arrow", "jsonl"],
        help="of paths whose extension does not determine it, and of stdin and stdout (default: csv; jsonl "
        "is read only)",
    )
    add("--overwrite", action="store_true", help="replace an existing output")
    add("--engine", choices=["local", "spark"], default="local", help="where to run (default: local)")
    add("--master", metavar="URL", help="Spark's master (default: local[*])")
    add("--metrics", action="store_true", help="print how many rows there were (Spark only)")
    add("--threads", type=int, metavar="N", help="threads of the local engine (default: all usable cores)")
    add(
        "--explain",
        action="store_true",
        help="print the types of text columns, how the job would be evaluated and how many rows have no "
        "time, and do nothing else",
    )
    add("--progress", action="store_true", help="show progress even if stderr is not a terminal")


def add_keys(add: Add, of: str = "") -> None:
    """Add the key columns and the time column of an input."""
    add(
        f"--{of}by",
        action="append",
        default=[],
        metavar="COLUMNS",
        help="key columns, comma-separated; repeatable" if not of else "those of the labels (default: --by)",
    )
    add(
        f"--{of}time",
        required=not of,
        metavar="COLUMN",
        help="the column of timestamps, dates, durations or integers"
        if not of
        else "that of the labels (default: --time)",
    )


def add_route(add: Add) -> None:
    """Add the option that says who reads files in Spark, of jobs over rows."""
    add(
        "--route",
        choices=["scan", "packed"],
        help="who reads Parquet files in Spark: windowkit (scan) or Spark (packed); default: by rule",
    )


def add_aggregate(add: Add) -> None:
    """Add the options of ``windowkit aggregate``."""
    add_input(add, "input", "rows")
    add_keys(add)
    add("--window", action="append", required=True, metavar="WINDOW", help="repeatable; see below")
    add("--agg", action="append", required=True, metavar="AGGREGATE", help="repeatable; see below")
    add(
        "--route",
        choices=["scan", "catalyst", "catalyst-panes", "packed", "rows"],
        help="how Spark evaluates the query (default: scan of Parquet files on this machine, else by rule)",
    )
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
        "--window-columns",
        choices=WINDOW_COLUMNS,
        default=WINDOW_COLUMNS[0],
        help="a window as the columns window_start and window_end (flat, the default), as one column of both "
        "(struct, not in CSV), or as the column window_date, the day on which it begins (date)",
    )


def add_rolling(add: Add) -> None:
    """Add the options of ``windowkit rolling``."""
    add_input(add, "input", "rows, or with --labels events")
    add_keys(add)
    add("--agg", action="append", required=True, metavar="AGGREGATE", help="repeatable; see below")
    add_input(add, "labels", "rows that get the aggregates as of their time", required=False)
    add_keys(add, "labels-")
    add_route(add)


def add_join(add: Add) -> None:
    """Add the options of ``windowkit join``."""
    for side in ("left", "right"):
        add_input(add, side, f"rows of the {side} side")
        add(f"--{side}-time", required=True, metavar="COLUMN", help="its time column")
        add(
            f"--{side}-columns",
            action="append",
            default=[],
            metavar="COLUMNS",
            help="its columns in the result, comma-separated (default: all"
            + (")" if side == "left" else ", but for keys)"),
        )
        add(
            f"--{side}-weight",
            metavar="COLUMN",
            help="its column of 1, and of -1 for rows that retract others",
        )
    add(
        "--by",
        action="append",
        default=[],
        metavar="KEYS",
        help="columns that both sides have, comma-separated, or as in 'src = dst'; repeatable",
    )
    add(
        "--within",
        metavar="LENGTH",
        help="how far partners are apart, as in '2 minutes', or before and after, as in '5 days, 1 hour'",
    )
    add("--window", metavar="WINDOW", help="instead: the window that partners share; see below")
    add(
        "--how",
        choices=KINDS,
        default="inner",
        help="which rows are in the result (default: inner, pairs of partners)",
    )
    add("--closed", choices=ENDS, help="which ends --within includes (default: both)")
    add(
        "--suffix",
        default="_right",
        help="for names of right columns that the left side has, too (default: _right)",
    )
    add_route(add)


def names() -> str:
    """Return the windows and functions there are, for those who only look around."""
    lines = [
        f"{title}: {', '.join(each)}"
        for title, each in (("windows", WINDOW_NAMES), ("functions", FUNCTION_NAMES))
    ]
    told = [textwrap.fill(line, 78, subsequent_indent="  ") for line in lines]
    return "\n".join([*told, "", "windowkit aggregate --help says what each of them does."])


def listed(title: str, names: Iterable[str], module: object, allowed: str) -> str:
    """Return functions, each with the first line of what is said of it, and how they are written."""
    said = {"quantile_disc": "Exact quantile that is one of the values: quantile with discrete=True."}
    lines = [f"{title}:"]
    for name in names:
        lines += textwrap.wrap(
            said.get(name) or summary(getattr(module, name)),
            78,
            initial_indent=f"  {name:<22} ",
            subsequent_indent=" " * 25,
        )
    return "\n".join([*lines, "", *textwrap.wrap(f"{allowed}.", 78)])


def windows_listed() -> str:
    """Return the windows there are."""
    return listed("windows", WINDOW_NAMES, windows, windows.WINDOW_FORMS)


def functions_listed(forms: str = aggregates.AGGREGATE_FORMS) -> str:
    """Return the functions there are."""
    return listed("functions", FUNCTION_NAMES, aggregates, forms)


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


COMMANDS: Final[dict[str, tuple[str, Callable[[], str], Callable[[Add], None]]]] = {
    "aggregate": (
        "aggregate the rows of Parquet, CSV, JSON or Arrow files in windows",
        lambda: f"{windows_listed()}\n\n{functions_listed()}",
        add_aggregate,
    ),
    "rolling": (
        "return every row of files with aggregates of the rows around it",
        lambda: functions_listed(FRAMED_FORMS),
        add_rolling,
    ),
    "join": (
        "join the rows of two inputs that have equal keys and are close in time",
        windows_listed,
        add_join,
    ),
}
"""What is said of each command, what its help lists, and what adds its options."""
