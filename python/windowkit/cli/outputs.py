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

from windowkit.cli.inputs import Found
from windowkit.cli.paths import ArgumentsError, JobError
from windowkit.cli.signals import held, released
from windowkit.cli.terminal import say

__all__ = ["naming", "refuse_output", "replacing"]

SPECIAL: Final = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
NOT_SUPPORTED: Final = tuple(
    getattr(errno, name) for name in ("EPERM", "ENOTSUP", "EOPNOTSUPP", "ENOSYS", "EINVAL", "EMLINK")
)
"""What file systems say of hard links and permissions that they do not have, and of directories that they do
not sync."""
NO_ATTRIBUTE: Final = (errno.ENODATA if hasattr(errno, "ENODATA") else errno.ENOENT, *NOT_SUPPORTED)
LISTS: Final = ("system.posix_acl_access", "system.posix_acl_default") if hasattr(os, "setxattr") else ()
"""Lists of who may do what, beside the permissions of owner and group, which Linux has as attributes."""
WINDOWS: Final = os.name == "nt"
REPEATED: Final = 50
"""Characters of a name that the names beside it repeat: at most 200 of the 255 bytes that a name has."""


def refuse_output(output: Path, overwrite: bool, inputs: Sequence[Found], *, directory: bool) -> None:
    """Refuse a path that cannot or may not be written, to a file or, with `directory`, to a directory."""
    if "\0" in str(output):
        raise ArgumentsError(f"--output: {str(output)!r} has a NUL; a path has none")
    is_there = check_replaced(output, overwrite, directory)
    there = real(output)
    for each in inputs if is_there else ():
        for read in each.read():
            if there in read.parents:
                raise ArgumentsError(
                    f"--output: {str(output)!r} has the input {str(read)!r} in it, which would be replaced, "
                    "too; a result belongs elsewhere"
                )
            # An earlier result would be taken for rows, and counted with those that it was made of.
            if there == read and there not in map(real, map(Path, each.input.paths)):
                raise ArgumentsError(
                    f"--output: {str(output)!r} is among the files of {each.input.option}, whose rows are "
                    "read; a result belongs elsewhere, or the path of this file is given there"
                )
    try:
        str(there).encode()
    except UnicodeEncodeError:
        raise ArgumentsError(
            f"--output: {str(there)!r} is not text in UTF-8; Arrow writes only to paths that are"
        ) from None
    if not there.parent.is_dir():
        raise ArgumentsError(
            f"--output: {str(output.parent)!r} is not a directory; the directory of an output must exist"
        )


def check_replaced(output: Path, overwrite: bool, directory: bool) -> bool:
    """Return whether an output replaces something; refuse what may not be replaced."""
    if not os.path.lexists(output):
        return False
    kind = output.stat().st_mode if output.exists() else 0
    if (special := SPECIAL.get(stat.S_IFMT(kind))) is not None:
        raise ArgumentsError(
            f"--output: {str(output)!r} is {special}, and only files are replaced; with --output - the "
            "result goes to stdout, which may be anything"
        )
    # That of an open file may lead to one without a name.
    if not real(output).exists():
        raise ArgumentsError(
            f"--output: {str(output)!r} is a link that leads to no file; an output is a file, or a new name"
        )
    if not overwrite:
        raise ArgumentsError(f"--output: {str(output)!r} exists; --overwrite replaces it")
    if stat.S_ISDIR(kind) and not directory:
        raise ArgumentsError(f"--output: {str(output)!r} is a directory; the local engine writes a file")
    return True


def real(path: Path) -> Path:
    """Return where a path leads to."""
    return Path(os.path.realpath(path))


@contextmanager
def replacing(output: Path, overwrite: bool, *, directory: bool) -> Iterator[Path]:
    """Give a path to write a file or directory to, and move it to `output` once all of it is on disk.

    Of a link, what it leads to is replaced. The new file has the permissions of the old one.

    Raises
    ------
    JobError
        By now there is something at `output` that may not be replaced, or it cannot be written.
    """
    there, name = real(output), repr(str(output))
    temporary = beside(there, "part")
    result = temporary / "result" if directory else temporary
    with held():
        with naming(name):
            # Until a result has the permissions of what it replaces, nobody else may read it.
            if directory:
                temporary.mkdir(mode=0o700)
            else:
                os.close(os.open(temporary, os.O_CREAT | os.O_EXCL, 0o600 if there.exists() else 0o666))
        try:
            with naming(name):
                with released():
                    yield result
                put(result, output, there, overwrite, directory)
        finally:
            discard(temporary)
        with naming(name):
            sync(there.parent)


@contextmanager
def naming(output: str) -> Iterator[None]:
    """Let errors of writing name the output, not the hidden name beside it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise JobError(f"--output: {output} cannot be written ({error.strerror or error})") from error


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
        is_there = check_replaced(output, overwrite, directory)
    except ArgumentsError as error:
        raise JobError(str(error)) from None
    if there != real(output):
        raise JobError(f"--output: {str(output)!r} led to {str(there)!r} as the job began, and does not now")
    sync_all(result, there if is_there else None)
    if is_there and directory:
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
    try:
        os.replace(result, there)
    except OSError:
        give_up(there)
        raise


def give_up(there: Path) -> None:
    """Remove a name that was made for a result, and should hold nothing.

    Raises
    ------
    FileExistsError
        It does: another process has found it.
    """
    if there.is_dir():
        try:
            there.rmdir()
        except OSError as error:
            raise FileExistsError(error.errno, error.strerror) from error
    elif there.stat().st_size:
        raise FileExistsError
    else:
        there.unlink()


def swap(result: Path, there: Path) -> None:
    """Put a directory in the place of what is there, which no file system does in one step."""
    old = beside(there, "old")
    there.rename(old)
    try:
        result.rename(there)
    except OSError as error:
        if os.path.lexists(there):
            raise JobError(
                f"--output: {str(there)!r} has been created while it was replaced; what was there before is "
                f"{str(old)!r}"
            ) from error
        old.rename(there)
        raise
    try:
        remove(old)
    except OSError as error:
        raise JobError(
            f"--output: {str(there)!r} is written, but not all of what was there before could be removed "
            f"({error.strerror}); the rest is {str(old)!r}"
        ) from error


def beside(path: Path, ending: str) -> Path:
    """Return a new, hidden name in the directory of a path."""
    return path.with_name(f".{path.name[:REPEATED]}.{secrets.token_hex(6)}.{ending}")


def sync_all(path: Path, like: Path | None = None) -> None:
    """Have a file, or a directory with all in it, on disk, with the owner and permissions of another."""
    for directory, _, names in os.walk(path):
        for name in names:
            sync(Path(directory, name))
        if directory != str(path):
            sync(Path(directory))
    sync(path, like)


def sync(path: Path, like: Path | None = None) -> None:
    """Have a file, or the names in a directory, on disk, with the owner and permissions of another."""
    is_directory = path.is_dir()
    if WINDOWS and is_directory:
        # It opens no directories.
        return
    try:
        # What somebody else has put in the place of a result gets neither its owner nor its permissions.
        opened = os.open(path, os.O_RDWR if WINDOWS else os.O_RDONLY | os.O_NOFOLLOW)
    except PermissionError:
        if not is_directory:
            raise
        # One may write to it, and not read it.
        return
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


def keep(opened: int, like: Path) -> None:
    """Give an open file or directory the owner, as far as one may, and the permissions of another."""
    old, new = like.stat(), os.fstat(opened)
    mode = stat.S_IMODE(old.st_mode) & 0o777
    if stat.S_ISDIR(new.st_mode) and not stat.S_ISDIR(old.st_mode):
        # Who reads a file enters a directory.
        mode |= (mode & 0o444) >> 2
    for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):
        with allowing(*NOT_SUPPORTED):
            os.chown(opened, owner, group)
    are_kept = [keep_list(opened, like, name) for name in LISTS]
    # What a group was allowed, another is not; and where there are lists, its bits are about them.
    if os.fstat(opened).st_gid != old.st_gid or not all(are_kept):
        mode &= 0o707
    with allowing(*NOT_SUPPORTED):
        os.chmod(opened, mode)


def keep_list(opened: int, like: Path, name: str) -> bool:
    """Give an open file the list of permissions that another has, or none; return whether that was done."""
    kept = attribute(like, name)
    try:
        if kept is not None:
            os.setxattr(opened, name, kept)
        elif attribute(opened, name) is not None:
            # It is that of the directory.
            os.removexattr(opened, name)
    except OSError as error:
        if error.errno not in NO_ATTRIBUTE:
            raise
        return False
    return True


def attribute(of: int | Path, name: str) -> bytes | None:
    """Return what an attribute of a file is, None if it has none of that name."""
    try:
        return os.getxattr(of, name)
    except OSError as error:
        if error.errno not in NO_ATTRIBUTE:
            raise
        return None


@contextmanager
def allowing(*numbers: int) -> Iterator[None]:
    """Go on after an error of the file system with one of these numbers."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


def discard(path: Path) -> None:
    """Remove what is left of a job, and say so where that fails: how the job ended matters more."""
    try:
        remove(path)
    except OSError as error:
        say(f"windowkit: warning: --output: {str(path)!r} could not be removed ({error.strerror})")


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
