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
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final

from windowkit.cli.inputs import Found
from windowkit.cli.paths import ArgumentsError, JobError
from windowkit.cli.signals import held, released
from windowkit.cli.terminal import say

__all__ = ["naming", "refuse_output", "refuse_stdout", "replacing", "replacing_directory"]

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
NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def refuse_output(output: Path, overwrite: bool, inputs: Sequence[Found], *, directory: bool) -> None:
    """Refuse a path that cannot or may not be written, to a file or, with `directory`, to a directory."""
    if "\0" in str(output):
        raise ArgumentsError(f"--output: {str(output)!r} has a NUL; a path has none")
    try:
        # As the system has it: there is no ``new/..`` before there is ``new``.
        if not output.parent.is_dir():
            raise ArgumentsError(
                f"--output: {str(output.parent)!r} is not a directory; the directory of an output must exist"
            )
        is_there = check_replaced(output, overwrite, directory)
    except OSError as error:
        raise ArgumentsError(f"--output: {str(output)!r} cannot be written ({error.strerror})") from error
    there = real(output)
    if not os.access(there.parent, os.W_OK | os.X_OK):
        raise ArgumentsError(
            f"--output: {str(there.parent)!r} may not be written to; a result is first written beside its "
            "name, also where it replaces a file"
        )
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
        # A file is opened here, whatever its name is.
        if directory:
            str(there).encode()
    except UnicodeEncodeError:
        raise ArgumentsError(
            f"--output: {str(there)!r} is not text in UTF-8; Spark writes only to paths that are"
        ) from None


def refuse_stdout(inputs: Sequence[Found]) -> None:
    """Refuse a stdout that is a file whose rows are read: it would be written over, or read as it grows."""
    try:
        out = os.fstat(sys.stdout.fileno())
    except OSError:
        # Streams of a program that calls this one may be no files.
        return
    for each in inputs:
        for read in each.read():
            if os.path.samestat(out, read.stat()):
                raise ArgumentsError(
                    f"--output: stdout is the file {str(read)!r} of {each.input.option}, whose rows are "
                    "read; a result belongs elsewhere"
                )


def check_replaced(output: Path, overwrite: bool, directory: bool) -> bool:
    """Return whether an output replaces something; refuse what may not be replaced."""
    try:
        # It says of a name that is too long what `os.path.lexists` does not.
        output.lstat()
    except FileNotFoundError:
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
    if stat.S_ISDIR(kind) and not directory:
        raise ArgumentsError(f"--output: {str(output)!r} is a directory; the local engine writes a file")
    if not overwrite:
        raise ArgumentsError(f"--output: {str(output)!r} exists; --overwrite replaces it")
    return True


def real(path: Path) -> Path:
    """Return where a path leads to."""
    try:
        return Path(os.path.realpath(path))
    except FileNotFoundError:
        raise ArgumentsError(
            f"--output: {str(path)!r} is in the current directory, which has been removed"
        ) from None


@contextmanager
def replacing(output: Path, overwrite: bool) -> Iterator[FileIO]:
    """Give a file to write to, and move it to `output` once all of it is on disk.

    Of a link, what it leads to is replaced. The new file has the permissions of the old one. The file and its
    directory are held open: what is put in the place of either meanwhile is neither written to nor moved.

    Raises
    ------
    JobError
        By now there is something at `output` that may not be replaced, or it cannot be written.
    """
    there = real(output)
    temporary = beside(there, "part")
    with held(), naming(repr(str(output))), directory_of(there) as folder:
        # Until a result has the permissions of what it replaces, nobody else may read it.
        mode = 0o600 if there.exists() else 0o666
        opened = os.open(named(temporary, folder), NEW, mode, dir_fd=folder)
        try:
            with open(opened, "wb", buffering=0) as file:
                with released():
                    yield file
                sync_opened(opened, replaced(output, there, overwrite, directory=False))
                if folder is not None:
                    now = os.stat(temporary.name, dir_fd=folder, follow_symlinks=False)
                    if not os.path.samestat(now, os.fstat(opened)):
                        raise JobError(f"--output: {str(temporary)!r} has been replaced while the job ran")
            move(temporary, output, there, overwrite, folder=folder)
        finally:
            discard(temporary, folder)
        sync(there.parent)


@contextmanager
def replacing_directory(output: Path, overwrite: bool) -> Iterator[Path]:
    """Give a path to write a directory to, and move it to `output`, as `replacing` does with a file."""
    there = real(output)
    temporary = beside(there, "part")
    result = temporary / "result"
    with held(), naming(repr(str(output))):
        temporary.mkdir(mode=0o700)
        try:
            with released():
                yield result
            sync_all(result, replaced(output, there, overwrite, directory=True))
            move(result, output, there, overwrite, directory=True)
        finally:
            discard(temporary)
        sync(there.parent)


@contextmanager
def directory_of(path: Path) -> Iterator[int | None]:
    """Hold the directory of a path open, whatever it is called meanwhile; None where that is not possible."""
    opened = None
    if not WINDOWS:
        # But on Linux, one that may not be read is not opened.
        with suppress(PermissionError):
            opened = os.open(path.parent, getattr(os, "O_PATH", os.O_RDONLY))
    try:
        yield opened
    finally:
        if opened is not None:
            os.close(opened)


def named(path: Path, folder: int | None) -> Path | str:
    """Return what a path is called in its directory, if that is open."""
    return path if folder is None else path.name


@contextmanager
def naming(output: str) -> Iterator[None]:
    """Let errors of writing name the output, not the hidden name beside it."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise JobError(f"--output: {output} cannot be written ({error.strerror or error})") from error


def replaced(
    output: Path, there: Path, overwrite: bool, *, directory: bool, folder: int | None = None
) -> Path | None:
    """Return what is replaced by now, if anything; refuse what may not be, and other places than `there`."""
    if not overwrite and os.path.lexists(output):
        raise created(output, directory)
    try:
        is_there = check_replaced(output, overwrite, directory)
    except ArgumentsError as error:
        raise JobError(str(error)) from None
    if there != real(output) or not (
        folder is None or os.path.samestat(there.parent.stat(), os.fstat(folder))
    ):
        raise JobError(f"--output: {str(output)!r} led to {str(there)!r} as the job began, and does not now")
    return there if is_there else None


def created(output: Path, directory: bool) -> JobError:
    """Return what is raised for an output that was not there when the job began."""
    is_link = output.is_symlink()
    is_replaced = not is_link and (output.is_file() or (directory and output.is_dir()))
    return JobError(
        f"--output: {str(output)!r} has been created while the job ran"
        f"{', as a link' if is_link else ''}; "
        + ("--overwrite replaces it" if is_replaced else "another name is needed")
    )


def move(
    result: Path,
    output: Path,
    there: Path,
    overwrite: bool,
    *,
    directory: bool = False,
    folder: int | None = None,
) -> None:
    """Give a finished result its name, `there`, to which `output` led when the job began."""
    old = replaced(output, there, overwrite, directory=directory, folder=folder)
    if not overwrite:
        try:
            name_new(result, there, folder)
        except FileExistsError:
            raise created(output, directory) from None
    elif old is not None and directory:
        swap(result, there)
    else:
        replace(result, there, folder)


def replace(result: Path, there: Path, folder: int | None) -> None:
    """Give a result a name, whatever has it."""
    os.replace(named(result, folder), named(there, folder), src_dir_fd=folder, dst_dir_fd=folder)


def name_new(result: Path, there: Path, folder: int | None) -> None:
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
            os.link(named(result, folder), named(there, folder), src_dir_fd=folder, dst_dir_fd=folder)
            return
        except OSError as error:
            if error.errno not in NOT_SUPPORTED:
                raise
        os.close(os.open(named(there, folder), NEW, dir_fd=folder))
    else:
        there.mkdir()
    # The name is ours, and holds nothing yet.
    try:
        replace(result, there, folder)
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
        sync_opened(opened, like)
    finally:
        os.close(opened)


def sync_opened(opened: int, like: Path | None = None) -> None:
    """Have what is open on disk, with the owner and permissions of another."""
    if like is not None and not WINDOWS:
        keep(opened, like)
    try:
        os.fsync(opened)
    except OSError as error:
        if not stat.S_ISDIR(os.fstat(opened).st_mode) or error.errno not in NOT_SUPPORTED:
            raise


def keep(opened: int, like: Path) -> None:
    """Give an open file or directory the owner, as far as one may, and the permissions of another."""
    old, new = like.stat(), os.fstat(opened)
    # New files of a directory have its group, if it says so; of files, such bits are for programs.
    mode = stat.S_IMODE(old.st_mode) & (0o7777 if stat.S_ISDIR(old.st_mode) else 0o777)
    if stat.S_ISDIR(new.st_mode) and not stat.S_ISDIR(old.st_mode):
        # Who reads a file enters a directory.
        mode |= (mode & 0o444) >> 2
    for owner, group in ((-1, old.st_gid), (old.st_uid, -1)):
        with allowing(*NOT_SUPPORTED):
            os.chown(opened, owner, group)
    are_kept = [keep_list(opened, like, name) for name in LISTS]
    # What a group was allowed, another is not; and where there are lists, its bits are about them.
    if os.fstat(opened).st_gid != old.st_gid or not all(are_kept):
        mode &= 0o5707
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


def discard(path: Path, folder: int | None = None) -> None:
    """Remove what is left of a job, and say so where that fails: how the job ended matters more."""
    try:
        if folder is None:
            remove(path)
        else:
            with suppress(FileNotFoundError):
                os.unlink(path.name, dir_fd=folder)
    except OSError as error:
        say(f"windowkit: warning: --output: {str(path)!r} could not be removed ({error.strerror})")


def remove(path: Path) -> None:
    """Remove a file or directory, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
