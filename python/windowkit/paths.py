"""What paths stand for: URIs, and patterns as Hadoop has them.

Spark reads a path as its own text: nothing of it is percent-decoded, and a ``?`` is a pattern. So does
`located`, though pyarrow's URIs have escapes, queries and fragments.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa
from pyarrow import fs

from windowkit.errors import InvalidType, InvalidValue

__all__ = ["as_pattern", "listed", "located", "matching"]

SCHEME: Final = re.compile(r"([A-Za-z][\w+.-]*):", re.ASCII)
OPTION: Final = r"[A-Za-z]\w*=[^&/?]*(?:://[^&/?]*)?"
PARTS: Final = re.compile(
    rf"(?P<authority>(?://[^/?#]*)?)(?P<path>.*?)(?P<options>(?:\?{OPTION}(?:&{OPTION})*)?)", re.DOTALL
)
"""Of a URI, after its scheme."""
PATTERN: Final = re.compile(r"[*?\[]")
BRACES: Final = re.compile(r"\{([^{}]*)\}")
QUOTED: Final = {code: 0xDC00 + code for code in range(128) if not chr(code).isalnum()}
"""What characters after a backslash are turned into, so that they are no pattern: halves of surrogate pairs,
which no path has."""
PLAIN: Final = {code: chr(plain) for plain, code in QUOTED.items()}
IN_REGEX: Final = {code: re.escape(chr(plain)) for plain, code in QUOTED.items()}


def listed(paths: Any) -> list[Any]:
    """Return paths as a list, of one or several."""
    allowed = "paths is a str, or several in a list"
    if isinstance(paths, str | os.PathLike):
        return [paths]
    if isinstance(paths, bytes | Mapping) or not isinstance(paths, Iterable):
        raise InvalidType(f"paths: {paths!r} is a {type(paths).__name__}; {allowed}")
    given = list(paths)
    if not given:
        raise InvalidValue(f"paths: none are given; {allowed} of at least one")
    return given


def as_pattern(path: str) -> str:
    r"""Return the pattern that only a path itself matches.

    Examples
    --------
    >>> as_pattern("v[1].parquet")
    'v\\[1\\].parquet'
    """
    return re.sub(r"([*?\[\]{}\\])", r"\\\1", path)


def located(path: Any, filesystem: fs.FileSystem | None) -> tuple[fs.FileSystem, str]:
    """Return the file system of a path, and the path there, which may be a pattern.

    Of a URI, scheme, authority and options (``?name=value&...`` at its end) are pyarrow's. What is between
    these is the path, whatever its characters mean elsewhere in URIs; of ``file:`` all is.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else path
    if not isinstance(text, str):
        raise InvalidType(f"paths: {path!r} is a {type(path).__name__}; paths are strings")
    if not text or re.search("[\0\ud800-\udfff]", text):
        raise InvalidValue(
            f"paths: {text!r} is given; a path has at least one character, and no NUL or half a "
            "surrogate pair"
        )
    found = SCHEME.match(text)
    scheme, rest = (found[1], text[found.end() :]) if found else ("", text)
    if filesystem is not None:
        if scheme == "file" or (scheme and rest.startswith("//")):
            raise InvalidValue(
                f"paths: {text!r} is a URI, and filesystem= is given; a URI says which file system it is of "
                "and goes without filesystem=, and with it paths are those of that file system"
            )
        return filesystem, text.rstrip("/")
    if not scheme:
        return fs.LocalFileSystem(), os.path.abspath(text)
    if scheme == "file":
        there = re.sub("^//(localhost)?(?=/)", "", rest)
        if not there.startswith("/") or (there == rest and rest.startswith("//")):
            raise InvalidValue(
                f"paths: {text!r} is given; URIs of files are file:///path or file:/path, of this machine"
            )
        return fs.LocalFileSystem(), os.path.abspath("/" + there.lstrip("/"))
    try:
        system, there = fs.FileSystem.from_uri(uri(scheme, rest))
    except (pa.ArrowException, ImportError, ValueError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise InvalidValue(
            f"paths: {text!r} cannot be opened ({reason}); paths are of this machine, or URIs that pyarrow "
            "opens"
        ) from None
    return system, there


def uri(scheme: str, rest: str) -> str:
    """Return the URI by which pyarrow gets the path that one means.

    Examples
    --------
    >>> uri("s3a", "//bucket/x%20y/?.parquet?region=eu-west-1")
    's3://bucket/x%2520y/%3F.parquet?region=eu-west-1'
    """
    # What fsspec opens it takes as it is.
    if scheme == "hf" or scheme.startswith("fsspec+"):
        return f"{scheme}:{rest}"
    parts = PARTS.fullmatch(rest)
    assert parts is not None  # All its parts may be empty.
    # Hadoop's names of what pyarrow calls s3.
    named = "s3" if scheme in ("s3a", "s3n") else scheme
    return f"{named}:{parts['authority']}{quote(parts['path'])}{parts['options']}"


def matching(system: fs.FileSystem, path: str) -> list[str]:
    """Return what a path with ``*``, ``?``, ``[...]``, ``{...}`` or a backslash stands for.

    It is a pattern first, as in Spark, and itself only if nothing matches it.
    """
    if not re.search(r"[*?\[{\\]", path):
        return [path]
    quoted = re.sub(r"\\(.)", lambda found: found[1].translate(QUOTED), path, flags=re.DOTALL)
    several = [each for one in unbraced(quoted) for each in matches(system, one)]
    if not several:
        if system.get_file_info([path])[0].type == fs.FileType.NotFound:
            raise InvalidValue(f"paths: nothing matches {path!r}")
        return [path]
    return several


def unbraced(path: str) -> list[str]:
    """Return the patterns that one with ``{a,b}`` stands for, as Hadoop has it."""
    found = BRACES.search(path)
    if found is None:
        return [path]
    return [
        each
        for choice in found[1].split(",")
        for each in unbraced(path[: found.start()] + choice + path[found.end() :])
    ]


def matches(system: fs.FileSystem, path: str) -> list[str]:
    """Return what is there of a pattern, step by step: files are passed over where more steps follow."""
    # Hadoop negates by ^ what Python does by !.
    steps = path.replace("[^", "[!").split("/")
    first = next((at for at, step in enumerate(steps) if PATTERN.search(step)), len(steps) - 1)
    # Of a root nothing is before its slash; elsewhere a path may begin with a pattern.
    before = "/".join(steps[:first]).translate(PLAIN)
    there = [before or ("/" if path.startswith("/") else "")]
    if before and system.get_file_info([before])[0].type != fs.FileType.Directory:
        return []
    for at, step in enumerate(steps[first:], first + 1):
        if PATTERN.search(step):
            wanted = regex(step)
            inside = [
                info
                for each in there
                for info in system.get_file_info(fs.FileSelector(each, allow_not_found=True))
                if wanted.match(info.base_name)
            ]
        else:
            name = step.translate(PLAIN)
            inside = system.get_file_info([f"{each.rstrip('/')}/{name}" if each else name for each in there])
        there = [info.path for info in inside if can_follow(info, at == len(steps))]
    return there


def regex(step: str) -> re.Pattern[str]:
    """Return what names match a step of a pattern."""
    try:
        return re.compile(fnmatch.translate(step).translate(IN_REGEX))
    except re.error as error:
        raise InvalidValue(
            f"paths: {step.translate(PLAIN)!r} is no pattern ({error}); sets are [abc], [a-z] or [^abc]"
        ) from None


def can_follow(info: fs.FileInfo, last: bool) -> bool:
    """Whether something is there that the last step of a pattern, or one before others, may lead to."""
    return bool(info.type != fs.FileType.NotFound if last else info.type == fs.FileType.Directory)
