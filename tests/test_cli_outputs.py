"""What the command `windowkit` does to files that exist: which it replaces, and what an early end leaves."""

from __future__ import annotations

import errno
import os
import re
import signal
import socket
import stat
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from support.commands import ARGUMENTS, TABLE, message, refused, run
from support.programs import ROOT
from windowkit.cli import outputs, signals
from windowkit.cli.outputs import refuse_output, replacing, replacing_directory
from windowkit.cli.paths import ArgumentsError, JobError


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "readings.parquet"
    path.parent.mkdir()
    pa.parquet.write_table(TABLE, path)
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def state(path: Path) -> tuple[int, ...]:
    """Return what tells whether a path is still the same; when a link was followed last does not."""
    found = path.lstat()
    return found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def put(output: Path, overwrite: bool, directory: bool, meanwhile: Callable[[], object] = bool) -> None:
    """Write a file, or a directory with one, to an output, and do something before it is there."""
    if directory:
        with replacing_directory(output, overwrite) as result:
            result.mkdir()
            (result / "part").write_text("result")
            meanwhile()
    else:
        with replacing(output, overwrite) as file:
            file.write(b"result")
            meanwhile()


def read(output: Path) -> str:
    """Return what `put` has written."""
    return (output / "part" if output.is_dir() else output).read_text()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


class TestRefusals:
    @pytest.mark.parametrize("overwrite", [[], ["--overwrite"]], ids=["new", "overwrite"])
    @pytest.mark.parametrize("kind", ["FIFO", "socket", "device", "loop", "dangling"])
    def test_what_is_no_file_stays(
        self,
        kind: str,
        overwrite: list[str],
        source: Path,
        tmp_path: Path,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        output = tmp_path / "out.csv"
        link = {"device": os.devnull, "loop": "out.csv", "dangling": "nowhere"}
        said = f"is a {kind}, and only files are replaced"
        with socket.socket(socket.AF_UNIX) as bound:
            if kind == "FIFO":
                os.mkfifo(output)
            elif kind == "socket":
                bound.bind(str(output))
            else:
                output.symlink_to(link[kind])
                said = said if kind == "device" else "is a link that leads to no file"
            before = state(output)
            assert said in refused(capsys, ["--input", source, "--output", output, *ARGUMENTS, *overwrite])
            assert state(output) == before
            assert names(tmp_path) == ["in", "out.csv"]

    @pytest.mark.skipif(not os.path.exists("/dev/fd"), reason="Windows has no such names")
    def test_a_pipe_that_is_open_is_named(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        ends = os.pipe()
        output = f"/dev/fd/{ends[1]}"
        asked = ["--input", source, "--output", output, *ARGUMENTS, "--overwrite", "--format", "csv"]
        assert "is a FIFO, and only files are replaced; with --output -" in refused(capsys, asked)
        for each in ends:
            os.close(each)

    @pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="only Linux names files that are open")
    def test_a_file_that_has_no_name_any_more_is_no_output(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        with (tmp_path / "gone").open("w") as gone:
            (tmp_path / "gone").unlink()
            output = f"/proc/self/fd/{gone.fileno()}"
            told = refused(
                capsys, ["--input", source, "--output", output, *ARGUMENTS, "--overwrite", "--format", "csv"]
            )
        assert "is a link that leads to no file" in told
        assert names(tmp_path) == ["in"]

    @pytest.mark.parametrize("name", ["\udcff.csv", "\udcff/out.csv"])
    def test_a_name_that_is_no_text_is_refused_where_spark_writes(
        self, name: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output = tmp_path / name
        output.parent.mkdir(exist_ok=True)
        assert run(capsys, ["--input", source, "--output", output, *ARGUMENTS]) == (0, "", "")
        assert output.read_text().startswith('"device","site"')
        with pytest.raises(ArgumentsError, match="is not text in UTF-8; Spark writes only to paths"):
            refuse_output(output, True, [], directory=True)

    @pytest.mark.skipif(os.name == "nt", reason="Windows removes no directory that is used")
    @pytest.mark.parametrize("directory", [True, False], ids=["directory", "file"])
    def test_a_current_directory_that_is_removed_is_named(
        self, directory: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "gone").mkdir()
        monkeypatch.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()
        with pytest.raises(ArgumentsError, match="'out' is in the current directory, which has been removed"):
            refuse_output(Path("out"), False, [], directory=directory)
        refuse_output(tmp_path / "out", False, [], directory=directory)

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no such permissions")
    @pytest.mark.parametrize("permissions", [0o555, 0o666])
    @pytest.mark.parametrize("how", ["new", "old", "link"])
    def test_a_directory_that_may_not_be_written_to_is_refused_before_rows_are_read(
        self, how: str, permissions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also where a link leads there."""
        (tmp_path / "folder").mkdir()
        given = tmp_path / "folder" / "out"
        if how != "new":
            given.touch()
        if how == "link":
            (tmp_path / "link").symlink_to(given)
            given = tmp_path / "link"

        def access(path: Path, asked: int) -> bool:
            # As for any user but root, who may run this.
            return asked & ~(stat.S_IMODE(path.stat().st_mode) & 0o7) == 0

        (tmp_path / "folder").chmod(permissions)
        monkeypatch.setattr(os, "access", access)
        with pytest.raises(ArgumentsError, match=r"cannot be written|/folder' may not be written to; a resu"):
            refuse_output(given, True, [], directory=False)
        (tmp_path / "folder").chmod(0o777)
        refuse_output(given, True, [], directory=False)

    @pytest.mark.parametrize(
        ("name", "said"),
        [
            ("x" * 252 + ".csv", "cannot be written (File name too long)"),
            ("new.csv/", "new.csv/' ends as the name of a directory does; the local engine writes a file"),
            ("new.csv/.", "new.csv/.' ends as the name of a directory does; the local engine writes a file"),
            *((f"{each}/../out.csv", f"{each}/..' is not a directory") for each in ("new", "file", "link")),
        ],
    )
    def test_a_path_that_the_system_does_not_have_is_refused_before_rows_are_read(
        self, name: str, said: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to("nowhere")
        asked = ["--input", source, "--output", f"{tmp_path}/{name}", *ARGUMENTS]
        assert said in refused(capsys, asked)
        assert names(tmp_path) == ["file", "in", "link"]

    @pytest.mark.parametrize("how", ["ab", "r+b"])
    def test_stdout_is_no_file_whose_rows_are_read(self, how: str, tmp_path: Path) -> None:
        """It would be written over, or read as it grows."""
        (tmp_path / "in").mkdir()
        path = tmp_path / "in" / "readings.csv"
        path.write_text("t\n1\n2\n")
        asked = ["--input", tmp_path / "in", "--time", "t", "--window", "tumbling(1)", "--agg", "count(*)"]
        with path.open(how) as out:
            done = subprocess.run(
                [sys.executable, "-m", "windowkit", "aggregate", *asked],
                stdout=out,
                stderr=subprocess.PIPE,
                env={"PYTHONPATH": ROOT},
                timeout=120,
                check=False,
            )
        assert done.returncode == 2
        told = message(done.stderr.decode())
        assert f"stdout is the file {str(path)!r} of --input, whose rows are read; a result" in told
        assert path.read_text() == "t\n1\n2\n"

    @pytest.mark.parametrize("given", ["in", "in/*.csv", "in/**/*.csv"])
    def test_an_earlier_result_that_is_read_as_rows_is_not_replaced(
        self, given: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Each run would count the one before."""
        (tmp_path / "in").mkdir()
        hours = "window_start,n\n0,1\n1,2\n"
        (tmp_path / "in" / "hours.csv").write_text(hours)
        output = tmp_path / "in" / "days.csv"
        arguments = ["--time", "window_start", "--window", "tumbling(24)", "--agg", "sum(n) as n"]
        arguments += ["--input", str(tmp_path / given), "--output", str(output), "--overwrite"]
        assert run(capsys, arguments) == (0, "", "")
        days = output.read_text()
        told = refused(capsys, arguments)
        assert "days.csv' is among the files of --input, whose rows are read; a result belongs else" in told
        assert output.read_text() == days
        # Whoever names a file means it.
        arguments += ["--input", str(output)]
        assert run(capsys, arguments) == (0, "", "")

    def test_a_directory_that_loops_does_not_exist(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "loop").symlink_to("loop")
        output = tmp_path / "loop" / "out.csv"
        assert "is not a directory" in refused(capsys, ["--input", source, "--output", output, *ARGUMENTS])


class TestReplacing:
    @pytest.mark.parametrize("permissions", [0o600, 0o640, 0o444, 0o755])
    def test_the_file_that_a_link_leads_to_is_replaced_and_keeps_its_permissions(
        self, permissions: int, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        target, link = tmp_path / "in" / "old.csv", tmp_path / "out.csv"
        target.write_text("old")
        target.chmod(permissions)
        link.symlink_to("in/old.csv")
        assert run(capsys, ["--input", source, "--output", link, "--overwrite", *ARGUMENTS]) == (0, "", "")
        assert link.is_symlink()
        assert target.read_text().startswith('"device","site"')
        assert mode(target) == permissions
        assert names(tmp_path / "in") == ["old.csv", "readings.parquet"]

    def test_nobody_else_reads_a_private_result_while_it_is_written(self, tmp_path: Path) -> None:
        output = tmp_path / "out"
        output.touch(0o640)
        with replacing(output, overwrite=True) as file:
            assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o600
        output.unlink()
        output.mkdir(0o750)
        with replacing_directory(output, overwrite=True) as result:
            assert mode(result.parent) == 0o700
            result.mkdir()
        assert mode(output) == 0o750

    def test_a_group_is_kept_where_the_owner_cannot_be(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As for a file of somebody else in a directory that both may write to."""
        asked: list[tuple[int, int]] = []

        def chown(_: int, owner: int, group: int) -> None:
            if owner != -1:
                raise PermissionError(errno.EPERM, "Operation not permitted")
            asked.append((owner, group))

        output = tmp_path / "out"
        output.touch(0o660)
        output.chmod(0o660)
        monkeypatch.setattr(os, "chown", chown)
        put(output, overwrite=True, directory=False)
        assert asked == [(-1, output.stat().st_gid)]
        assert mode(output) == 0o660

    @pytest.mark.skipif(not outputs.LISTS, reason="only Linux has them as attributes")
    def test_lists_of_permissions_are_kept(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without them, what a list allows one user would be allowed to the group."""

        def entries(*rows: tuple[int, int, int]) -> bytes:
            return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)

        none = 2**32 - 1
        # The owner, another user, the group, the most that the two may, others.
        of_one = entries((1, 6, none), (2, 4, 1234), (4, 0, none), (16, 4, none), (32, 0, none))
        access, default = outputs.LISTS
        output = tmp_path / "out"
        output.touch()
        try:
            os.setxattr(output, access, of_one)
        except OSError:
            # A file system without lists has the mode alone to keep.
            output.chmod(0o640)
            put(output, overwrite=True, directory=False)
            assert mode(output) == 0o640
            return
        assert mode(output) == 0o640
        put(output, overwrite=True, directory=False)
        assert (os.getxattr(output, access), mode(output)) == (of_one, 0o640)

        # Nor does it get that of its directory, which the old one did not have.
        os.removexattr(output, access)
        output.chmod(0o640)
        os.setxattr(tmp_path, default, of_one)
        with replacing(output, overwrite=True) as file:
            assert access in os.listxattr(file.fileno())
        assert (os.listxattr(output), mode(output)) == ([], 0o640)

        def refusing(*_: object) -> None:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")

        os.setxattr(output, access, of_one)
        monkeypatch.setattr(os, "setxattr", refusing)
        put(output, overwrite=True, directory=False)
        assert mode(output) == 0o600

    def test_what_takes_the_place_of_a_private_file_is_private(self, tmp_path: Path) -> None:
        output = tmp_path / "out"
        output.touch(0o600)
        with replacing_directory(output, overwrite=True) as result:
            result.mkdir()
        assert mode(output) == 0o700

    @pytest.mark.skipif(os.name == "nt", reason="Windows renames nothing that is open")
    @pytest.mark.parametrize("overwrite", [True, False])
    @pytest.mark.parametrize("when", ["before", "after"])
    @pytest.mark.parametrize("kind", ["link", "file", "FIFO", "directory", "nothing"])
    def test_what_is_put_in_the_place_of_a_result_is_neither_written_nor_moved(
        self, kind: str, when: str, overwrite: bool, tmp_path: Path
    ) -> None:
        """Where others may write, they could have any file of the user written to, or opened to all."""
        output, other = tmp_path / "out", tmp_path / "other"
        other.write_text("precious")
        other.chmod(0o600)
        if overwrite:
            output.write_text("old")
            output.chmod(0o666)
        make: dict[str, Callable[[Path], object]] = {
            "link": lambda path: path.symlink_to(other),
            "file": Path.touch,
            "FIFO": os.mkfifo,
            "directory": Path.mkdir,
            "nothing": bool,
        }

        def change() -> None:
            (part,) = tmp_path.glob(".out.*.part")
            part.unlink()
            make[kind](part)

        def replace() -> None:
            with replacing(output, overwrite) as file:
                if when == "before":
                    change()
                file.write(b"result")
                if when == "after":
                    change()

        told = "cannot be written" if kind == "nothing" else r"\.part' has been replaced while the job ran"
        with pytest.raises(JobError, match=told):
            replace()
        assert (other.read_text(), mode(other)) == ("precious", 0o600)
        left = names(tmp_path)
        if kind == "directory":
            # It is not ours to remove.
            assert left.pop(0).endswith(".part")
        assert left == (["other", "out"] if overwrite else ["other"])
        assert not overwrite or output.read_text() == "old"

    @pytest.mark.skipif(os.name == "nt", reason="Windows renames no directory of an open file")
    @pytest.mark.parametrize("overwrite", [True, False])
    @pytest.mark.parametrize("then", ["nothing", "file", "directory", "link"])
    def test_a_directory_that_is_renamed_keeps_what_was_there(
        self, then: str, overwrite: bool, tmp_path: Path
    ) -> None:
        folder, moved, other = tmp_path / "folder", tmp_path / "moved", tmp_path / "other"
        for each in (folder, other):
            each.mkdir()
        if overwrite:
            (folder / "out").write_text("old")
        make: dict[str, Callable[[Path], object]] = {
            "nothing": bool,
            "file": Path.touch,
            "directory": Path.mkdir,
            "link": lambda path: path.symlink_to(other),
        }

        def change() -> None:
            folder.rename(moved)
            make[then](folder)

        with pytest.raises(JobError, match=r"cannot be written|and does not now"):
            put(folder / "out", overwrite, False, change)
        assert names(moved) == (["out"] if overwrite else [])
        assert not overwrite or (moved / "out").read_text() == "old"
        assert names(other) == []
        assert then != "directory" or names(folder) == []

    def test_a_file_system_without_permissions_is_written_to(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refusing(*_: object) -> None:
            raise OSError(errno.EPERM, "Operation not permitted")

        for name in ("chown", "chmod"):
            monkeypatch.setattr(os, name, refusing)
        (tmp_path / "out").touch()
        put(tmp_path / "out", overwrite=True, directory=False)
        assert (tmp_path / "out").read_text() == "result"

    def test_a_directory_that_may_not_be_read_is_written_to(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        opened = os.open

        def refusing(path: Path, *arguments: int, **named: int | None) -> int:
            if path == tmp_path:
                raise PermissionError(errno.EACCES, "Permission denied")
            return opened(path, *arguments, **named)

        monkeypatch.setattr(os, "open", refusing)
        put(tmp_path / "out", overwrite=False, directory=False)
        assert names(tmp_path) == ["out"]

    @pytest.mark.parametrize("found", [True, False], ids=["found", "not found"])
    @pytest.mark.parametrize("directory", [True, False], ids=["directory", "file"])
    def test_a_name_that_a_result_does_not_get_is_given_up(
        self, directory: bool, found: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output = tmp_path / "out"

        def link(*_: object, **named: object) -> None:
            raise OSError(errno.EPERM, "as FAT says")

        def replace(*_: object, **named: object) -> None:
            if found:
                (output / "theirs" if directory else output).write_text("theirs")
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(os, "link", link)
        monkeypatch.setattr(os, "replace", replace)
        told = "has been created while the job ran" if found else r"cannot be written \(Input/output error\)"
        with pytest.raises(JobError, match=told):
            put(output, False, directory)
        assert names(tmp_path) == (["out"] if found else [])
        if found:
            assert (output / "theirs" if directory else output).read_text() == "theirs"

    def test_what_is_left_of_an_old_directory_is_named(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output = tmp_path / "out"
        output.mkdir()
        removed = outputs.remove

        def refusing(path: Path) -> None:
            if path.name.endswith(".old"):
                raise PermissionError(errno.EACCES, "Permission denied")
            removed(path)

        monkeypatch.setattr(outputs, "remove", refusing)
        with (
            pytest.raises(JobError, match=r"is written, but .*\(Permission denied\); the rest is '.*\.old'"),
            replacing_directory(output, overwrite=True) as result,
        ):
            (result / "new").mkdir(parents=True)
        assert names(output) == ["new"]

    def test_a_directory_that_appears_in_the_place_of_the_old_one_is_not_replaced(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output = tmp_path / "out"
        (output / "old").mkdir(parents=True)
        renamed = Path.rename

        def rename(path: Path, to: Path) -> Path:
            moved = renamed(path, to)
            if to.name.endswith(".old"):
                (output / "theirs").mkdir(parents=True)
            return moved

        monkeypatch.setattr(Path, "rename", rename)
        told = r"has been created while it was replaced; what was there before is '(.*)'"
        with (
            pytest.raises(JobError, match=told) as raised,
            replacing_directory(output, overwrite=True) as result,
        ):
            (result / "new").mkdir(parents=True)
        (old,) = re.findall(told, str(raised.value))
        assert names(output) == ["theirs"]
        assert names(Path(old)) == ["old"]

    def test_what_cannot_be_removed_hides_no_error(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def refusing(path: Path) -> None:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", str(path))

        monkeypatch.setattr(outputs, "remove", refusing)
        with pytest.raises(ZeroDivisionError), replacing_directory(tmp_path / "out", False):
            _ = 1 // 0
        (left,) = names(tmp_path)
        said = f"'{tmp_path / left}' could not be removed (Directory not empty)"
        assert capsys.readouterr().err == f"windowkit: warning: --output: {said}\n"

    def test_a_new_file_has_the_permissions_that_the_umask_leaves(
        self, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        output = tmp_path / ("x" * 250 + ".csv")
        before = os.umask(0o027)
        try:
            assert run(capsys, ["--input", source, "--output", output, *ARGUMENTS]) == (0, "", "")
        finally:
            os.umask(before)
        assert mode(output) == 0o640
        assert names(tmp_path) == ["in", output.name]

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no umask for reading")
    @pytest.mark.parametrize("left", [0o777, 0o222, 0o400])
    def test_a_umask_that_denies_the_user_does_not_fail_the_job(self, left: int, tmp_path: Path) -> None:
        output = tmp_path / "out"
        before = os.umask(left)
        try:
            put(output, overwrite=False, directory=False)
        finally:
            os.umask(before)
        assert mode(output) == 0o666 & ~left

    @pytest.mark.skipif(os.name == "nt", reason="Windows has no such bits")
    @pytest.mark.parametrize(
        ("directory", "old", "new"), [(True, 0o3750, 0o3750), (False, 0o4755, 0o755), (False, 0o2755, 0o755)]
    )
    def test_bits_of_directories_are_kept_and_those_of_programs_are_not(
        self, directory: bool, old: int, new: int, tmp_path: Path
    ) -> None:
        output = tmp_path / "out"
        (Path.mkdir if directory else Path.touch)(output)
        output.chmod(old)
        put(output, True, directory)
        assert mode(output) == new

    @pytest.mark.parametrize("links", [True, False], ids=["links", "no links"])
    @pytest.mark.parametrize("directory", [True, False], ids=["directory", "file"])
    @pytest.mark.parametrize("appears", ["file", "directory", "FIFO", "link", "dangling", "nothing"])
    def test_what_appears_while_a_job_runs_is_kept(
        self, appears: str, directory: bool, links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def link(*_: object, **named: object) -> None:
            raise OSError(errno.EPERM, "as FAT says")

        if not links:
            monkeypatch.setattr(os, "link", link)
        output = tmp_path / "out"

        make: dict[str, Callable[[Path], object]] = {
            "file": Path.touch,
            "directory": Path.mkdir,
            "FIFO": os.mkfifo,
            "link": lambda path: path.symlink_to(tmp_path),
            "dangling": lambda path: path.symlink_to("nowhere"),
            "nothing": bool,
        }

        def job() -> None:
            put(output, False, directory, lambda: make[appears](output))

        if appears == "nothing":
            job()
            assert read(output) == "result"
        else:
            is_replaced = appears == "file" or (appears == "directory" and directory)
            hint = "; --overwrite replaces it" if is_replaced else "; another name is needed"
            link = ", as a link" if appears in ("link", "dangling") else ""
            with pytest.raises(JobError, match=rf"'.*out' has been created while the job ran{link}{hint}"):
                job()
            assert not output.is_file() or output.read_text() == ""
            assert not output.is_dir() or link or names(output) == []
            assert output.is_symlink() == bool(link)
        assert names(tmp_path) == ["out"]

    def test_what_may_not_be_replaced_any_more_is_kept(self, tmp_path: Path) -> None:
        output, other = tmp_path / "out", tmp_path / "other"
        changes = {
            "is a directory": lambda: output.mkdir(),
            "is a FIFO": lambda: os.mkfifo(output),
            "led to '.*out' as the job began": lambda: output.symlink_to(other),
        }
        other.write_text("precious")

        def job(change: Callable[[], None]) -> None:
            put(output, True, False, change)

        for told, change in changes.items():
            with pytest.raises(JobError, match=told):
                job(change)
            assert names(tmp_path) == ["other", "out"]
            assert other.read_text() == "precious"
            if output.is_dir():
                output.rmdir()
            else:
                output.unlink()

    @pytest.mark.parametrize("old", ["directory", "file"])
    def test_a_directory_takes_the_place_of_what_a_link_leads_to(self, old: str, tmp_path: Path) -> None:
        real, link = tmp_path / "real", tmp_path / "link"
        link.symlink_to("real")
        if old == "directory":
            real.mkdir()
            (real / "old").touch()
        else:
            real.touch()
        with replacing_directory(link, overwrite=True) as result:
            result.mkdir()
            (result / "new").touch()
        assert link.is_symlink()
        assert names(real) == ["new"]
        assert names(tmp_path) == ["link", "real"]

    def test_a_directory_that_cannot_be_replaced_is_put_back(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        output = tmp_path / "out"
        output.mkdir()
        (output / "old").touch()
        rename = Path.rename

        def failing(path: Path, target: Path) -> Path:
            if path.name == "result":
                raise OSError(errno.EIO, "Input/output error")
            return rename(path, target)

        monkeypatch.setattr(Path, "rename", failing)
        with (
            pytest.raises(JobError, match=r"'.*/out' cannot be written \(Input/output error\)"),
            replacing_directory(output, overwrite=True) as result,
        ):
            result.mkdir()
        assert names(tmp_path) == ["out"]
        assert names(output) == ["old"]

    @pytest.mark.parametrize("overwrite", [True, False])
    @pytest.mark.parametrize("directory", [True, False], ids=["directory", "file"])
    def test_a_result_is_on_disk_before_it_has_its_name(
        self, directory: bool, overwrite: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        synced: list[tuple[int, bool]] = []
        sync = os.fsync

        def recorded(opened: int) -> None:
            synced.append((os.fstat(opened).st_ino, output.exists()))
            sync(opened)

        output = tmp_path / "out"
        monkeypatch.setattr(os, "fsync", recorded)
        inodes: list[int] = []

        def written() -> None:
            (part,) = tmp_path.glob(".out.*.part")
            paths = [part]
            if directory:
                paths = [part / "result", *(part / "result" / each for each in ("part", "k=1", "k=1/part"))]
                paths[2].mkdir()
                paths[3].touch()
            inodes.extend(path.stat().st_ino for path in paths)

        put(output, overwrite, directory, written)
        assert sorted(synced[:-1]) == sorted((each, False) for each in inodes)
        assert synced[-1] == (tmp_path.stat().st_ino, True)

    def test_a_file_system_that_syncs_no_directories_is_written_to(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refusing(opened: int) -> None:
            raise OSError(errno.EINVAL if stat.S_ISDIR(os.fstat(opened).st_mode) else errno.EIO, "refused")

        monkeypatch.setattr(os, "fsync", refusing)
        outputs.sync(tmp_path)
        with (
            pytest.raises(JobError, match=r"cannot be written \(refused\)"),
            replacing(tmp_path / "out", overwrite=False),
        ):
            pass
        assert names(tmp_path) == []


def few() -> list[int]:
    """Return signals that a process can handle; of those in real time, of which there are dozens, two."""
    numbers = {each for each in signal.valid_signals() if each <= getattr(signal, "SIGRTMIN", 63) + 1}
    return sorted(each for each in numbers if named(each) not in ("SIGINT", "SIGKILL", "SIGSTOP"))


def named(number: int) -> str:
    return getattr(number, "name", str(number))


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
def test_all_signals_that_end_a_process_are_known() -> None:
    """As a process tells that has no handlers."""
    program = "import os, signal, sys; signal.signal(int(sys.argv[1]), signal.SIG_DFL)\n"
    program += "os.kill(os.getpid(), int(sys.argv[1]))"
    others = {"SIGTSTP", "SIGTTIN", "SIGTTOU", *signals.CRASHES}
    for number in few():
        if named(number) in others:
            assert number not in signals.ENDING
            continue
        done = subprocess.run([sys.executable, "-I", "-S", "-c", program, str(int(number))], check=False)
        assert (done.returncode == -number) == (number in signals.ENDING), number
    assert signal.SIGINT not in signals.ENDING


# Python ignores two.
@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGINT,
        *(each for each in signals.ENDING if each in few() and named(each) not in ("SIGPIPE", "SIGXFSZ")),
    ],
    ids=named,
)
def test_a_signal_leaves_only_what_was_there(sent: int, tmp_path: Path) -> None:
    source, output = tmp_path / "in.parquet", tmp_path / "out.parquet"
    pa.parquet.write_table(pa.table({"t": range(300_000)}), source)
    output.write_text("old")
    command = [sys.executable, "-m", "windowkit", "aggregate", "--input", source, "--output", output]
    command += ["--overwrite", "--time", "t", "--window", "sliding(1000, 1)", "--agg", "median(t)"]
    # What this process ignores, as under nohup, the other one would ignore, too.
    before = signal.signal(sent, signal.SIG_DFL)
    try:
        started = subprocess.Popen(command, stderr=subprocess.PIPE, env={"PYTHONPATH": ROOT})
    finally:
        signal.signal(sent, before)
    with started as process:
        while not list(tmp_path.glob(".out.parquet.*.part")):
            assert process.poll() is None
            time.sleep(0.005)
        process.send_signal(sent)
        assert process.wait(60) == (130 if sent == signal.SIGINT else -sent)
        assert process.stderr is not None
        assert process.stderr.read() == (b"windowkit: error: interrupted\n" if sent == signal.SIGINT else b"")
    assert names(tmp_path) == ["in.parquet", "out.parquet"]
    assert output.read_text() == "old"


SEVERAL = """
import os, signal, sys
from pathlib import Path
from windowkit.cli import main, outputs, program

when, first = sys.argv[1], signal.Signals[sys.argv[2]]
written, discarded, synced = program.write, outputs.discard, outputs.sync_opened

def send(number):
    os.kill(os.getpid(), number)
    # A handler runs between two calls.
    len(sys.argv)

def write(batches, path, kind):
    if when == "writing":
        send(first)
    written(batches, path, kind)

def sync_opened(*given):
    if when == "on disk":
        send(first)
    synced(*given)

def discard(*given):
    # A user who presses Ctrl-C again and again, and a machine that shuts down.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        send(number)
    discarded(*given)

program.write, outputs.discard, outputs.sync_opened = write, discard, sync_opened
sys.exit(main(sys.argv[3:]))
"""


@pytest.mark.parametrize("when", ["writing", "on disk"])
@pytest.mark.parametrize("first", ["SIGTERM", "SIGHUP", "SIGINT"])
def test_further_signals_do_not_cut_short_what_the_first_begins(
    first: str, when: str, source: Path, tmp_path: Path
) -> None:
    output = tmp_path / "out.csv"
    output.write_text("old")
    command = [sys.executable, "-c", SEVERAL, when, first, "aggregate", "--input", source, *ARGUMENTS]
    command += ["--output", output, "--overwrite"]
    done = subprocess.run(command, env={"PYTHONPATH": ROOT}, timeout=120, check=False, capture_output=True)
    said = b"windowkit: error: interrupted\n" if first == "SIGINT" else b""
    assert (done.returncode, done.stderr) == (-signal.SIGTERM if first != "SIGHUP" else -1, said)
    assert names(tmp_path) == ["in", "out.csv"]
    # Once a result is whole, it is put in place.
    assert (output.read_text() == "old") == (when == "writing")


def ended(program: str, source: Path, output: Path) -> subprocess.CompletedProcess[bytes]:
    """Return how the command ended that a program runs."""
    command = [sys.executable, "-c", program, "aggregate", "--input", source, *ARGUMENTS, "--output", output]
    return subprocess.run(command, env={"PYTHONPATH": ROOT}, timeout=120, check=False, capture_output=True)


def test_where_no_signal_ends_the_process_its_status_tells(source: Path, tmp_path: Path) -> None:
    """The first process of a container gets no signal that it has no handler for, its own neither."""
    program = (
        "import os, signal, sys\n"
        "from windowkit.cli import main, program\n"
        "written = program.write\n"
        "program.write = lambda *given: (signal.raise_signal(signal.SIGTERM), written(*given))\n"
        "os.kill = lambda *_: None\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = ended(program, source, tmp_path / "out.csv")
    assert (done.returncode, done.stderr) == (128 + signal.SIGTERM, b"")
    assert names(tmp_path) == ["in"]


def test_a_signal_that_is_ignored_ends_nothing(source: Path, tmp_path: Path) -> None:
    """As nohup has it."""
    program = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
        "from windowkit.cli import main\n"
        "from windowkit.cli import program\n"
        "written = program.write\n"
        "program.write = lambda *given: (os.kill(os.getpid(), signal.SIGHUP), written(*given))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    assert ended(program, source, tmp_path / "out.csv").returncode == 0
    assert names(tmp_path) == ["in", "out.csv"]
