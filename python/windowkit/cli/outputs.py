"""Where the command ``windowkit`` writes: which outputs are refused, and how a finished one gets its name.

A result is written beside its name, and moved there once it is on disk: where the job or the machine fails,
what was there before remains.
"""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from windowkit.cli.paths import ArgumentsError, JobError

__all__ = ["refuse_output", "replacing"]

SPECIAL: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NOT_SUPPORTED: Final = tuple(
    getattr(errno, name) for name in ("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL", "EMLINK")
)
"""What file systems say of hard links that they do not have, and of directories that they do not sync."""
WINDOWS: Final = os.name == "nt"
REPEATED: Final = 50
"""Characters of a name that the names beside it repeat: at most 200 of the 255 bytes that a name has."""


def refuse_output(output: Path, overwrite: bool, sources: Sequence[Path], *, directory: bool) -> None:
    """Refuse a path that cannot or may not be written, to a file or, with `directory`, to a directory."""
    check_replaced(output, overwrite, directory)
    there = Path(os.path.realpath(output))
    for source in sources:
        if there in Path(os.path.realpath(source)).parents:
            raise ArgumentsError(
                f"--output: {str(output)!r} has the input {str(source)!r} in it, which would be replaced, too"
            )
    if not there.parent.is_dir():
        raise ArgumentsError(
            f"--output: {str(output.parent)!r} is not a directory; the directory of an output must exist"
        )


def check_replaced(output: Path, overwrite: bool, directory: bool) -> os.stat_result | None:
    """Return the state of what an output replaces, None if there is nothing; refuse what may not be."""
    if not os.path.lexists(output):
        return None
    if not output.exists():
        raise ArgumentsError(
            f"--output: {str(output)!r} is a link that leads to no file; an output is a file, or a new name"
        )
    old = output.stat()
    if (special := SPECIAL.get(stat.S_IFMT(old.st_mode))) is not None:
        raise ArgumentsError(
            f"--output: {str(output)!r} is {special}, and only files are replaced; with --output - the "
            "result goes to stdout, which may be anything"
        )
    if not overwrite:
        raise ArgumentsError(f"--output: {str(output)!r} exists; --overwrite replaces it")
    if stat.S_ISDIR(old.st_mode) and not directory:
        raise ArgumentsError(f"--output: {str(output)!r} is a directory; the local engine writes a file")
    return old


@contextmanager
def replacing(output: Path, overwrite: bool, *, directory: bool) -> Iterator[Path]:
    """Give a path to write a file or directory to, and move it to `output` once all of it is on disk.

    Of a link, what it leads to is replaced. The new file has the permissions of the old one.

    Raises
    ------
    JobError
        By now there is something at `output` that may not be replaced.
    """
    there = Path(os.path.realpath(output))
    temporary = beside(there, "part")
    # Until a result has the permissions of what it replaces, nobody else may read it.
    if directory:
        temporary.mkdir(mode=0o700)
        result = temporary / "result"
    else:
        os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o600 if there.exists() else 0o666))
        result = temporary
    try:
        yield result
        put(result, output, there, overwrite, directory)
    finally:
        remove(temporary)
    sync(there.parent)


def put(result: Path, output: Path, there: Path, overwrite: bool, directory: bool) -> None:
    """Give a finished result its name, `there`, to which `output` led when the job began."""
    if not overwrite:
        sync_all(result)
        try:
            name_new(result, there)
        except FileExistsError:
            raise JobError(
                f"--output: {str(output)!r} has been created while the job ran; --overwrite replaces it"
            ) from None
        return
    try:
        old = check_replaced(output, overwrite, directory)
    except ArgumentsError as error:
        raise JobError(str(error)) from None
    if there != Path(os.path.realpath(output)):
        raise JobError(f"--output: {str(output)!r} led to {str(there)!r} as the job began, and does not now")
    sync_all(result, old if old is not None and stat.S_ISDIR(old.st_mode) == directory else None)
    if old is not None and directory:
        swap(result, there)
    else:
        os.replace(result, there)


def name_new(result: Path, there: Path) -> None:
    """Give a result a name that nothing has.

    Raises
    ------
    FileExistsError
        Something has it.
    """
    if WINDOWS:
        # It never replaces anything there.
        result.rename(there)
        return
    if not result.is_dir():
        try:
            os.link(result, there)
            return
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
        os.close(os.open(there, os.O_CREAT | os.O_EXCL))
    else:
        there.mkdir()
    # The name is ours, and holds nothing yet.
    os.replace(result, there)


def swap(result: Path, there: Path) -> None:
    """Put a directory in the place of what is there, which no file system does in one step."""
    old = beside(there, "old")
    try:
        there.rename(old)
        result.rename(there)
    finally:
        if os.path.lexists(old) and not os.path.lexists(there):
            old.rename(there)
    remove(old)


def beside(path: Path, ending: str) -> Path:
    """Return a new, hidden name in the directory of a path."""
    return path.with_name(f".{path.name[:REPEATED]}.{secrets.token_hex(6)}.{ending}")


def sync_all(path: Path, like: os.stat_result | None = None) -> None:
    """Have a file, or a directory with all in it, on disk, with the owner and permissions of another."""
    for directory, _, names in os.walk(path):
        for name in names:
            sync(Path(directory, name))
        if directory != str(path):
            sync(Path(directory))
    sync(path, like)


def sync(path: Path, like: os.stat_result | None = None) -> None:
    """Have a file, or the names in a directory, on disk, with the owner and permissions of another."""
    is_directory = path.is_dir()
    if WINDOWS and is_directory:
        # It opens no directories.
        return
    opened = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY)
    try:
        if like is not None and not WINDOWS:
            keep(opened, like)
        try:
            os.fsync(opened)
        except OSError as error:
            if not is_directory or error.errno not in NOT_SUPPORTED:
                raise
    finally:
        os.close(opened)


def keep(opened: int, like: os.stat_result) -> None:
    """Give an open file the owner, as far as one may, and the permissions of another."""
    mode = stat.S_IMODE(like.st_mode) & 0o777
    try:
        os.chown(opened, like.st_uid, like.st_gid)
    except PermissionError:
        # What a group was allowed, another is not.
        if os.fstat(opened).st_gid != like.st_gid:
            mode &= 0o707
    os.chmod(opened, mode)


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
