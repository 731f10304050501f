"""The crates that the module is made of; `python -m support.crates`, in `tests`, writes THIRD-PARTY.txt.

Cargo.lock says which they are, so that a test needs no cargo. Their licences are in their sources, which
cargo has.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from support.documents import ROOT

FILE: Final = ROOT / "THIRD-PARTY.txt"
OURS: Final = [ROOT, ROOT / "crates" / "kernels", ROOT / "crates" / "partition"]
REGISTRY: Final = "registry+https://github.com/rust-lang/crates.io-index"

LICENCES: Final = {
    "Apache-2.0": "NOTICE*",
    "Apache-2.0 WITH LLVM-exception": "NOTICE*",
    "MIT": "LICEN[CS]E*",
    "BSD-2-Clause": "LICEN[CS]E*",
    "BSL-1.0": "LICEN[CS]E*",
    "CC0-1.0": "LICEN[CS]E*",
    "Unicode-3.0": "*UNICODE*",
    "Zlib": "LICEN[CS]E*",
}
"""What a crate may be under, in the order in which one of several is taken, and the files of the crate that
a copy of it must have beside it. Our own LICENSE has the text of the first. `deny.toml` allows the same."""

HEAD: Final = """\
The extension module of windowkit is compiled from Rust's standard library and the crates below, those
included that only write or build code of others. A crate that may be used under one of several licences is
used under Apache-2.0 if it is one of them, and otherwise under MIT. LICENSE has the text of Apache-2.0,
which also holds for the standard library. `make third-party` writes this file.
"""


class Crate(NamedTuple):
    """A crate, as Cargo.lock names it."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name} {self.version}"


class Locked(NamedTuple):
    """What Cargo.lock says of a crate: what it depends on, as is written there, and where it comes from."""

    needs: list[str]
    source: str | None


def locked() -> dict[Crate, Locked]:
    """Return all crates of Cargo.lock."""
    packages = {}
    for text in (ROOT / "Cargo.lock").read_text().split("[[package]]\n")[1:]:
        values = dict(re.findall(r'^(\w+) = "(.*)"$', text, re.MULTILINE))
        needs = re.search(r"^dependencies = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
        names = re.findall(r'"(.*)"', needs[1]) if needs else []
        packages[Crate(values["name"], values["version"])] = Locked(names, values.get("source"))
    return packages


def needed(folder: Path) -> list[str]:
    """Return what the crate in a folder depends on, but for tests."""
    found = []
    for table in re.split(r"^\[", (folder / "Cargo.toml").read_text(), flags=re.MULTILINE):
        if re.match(r"(target\..*\.)?dependencies\]", table):
            found += re.findall(r"^([\w-]+)(?:\.workspace)? *=", table, re.MULTILINE)
    return found


def compiled() -> list[Crate]:
    """Return the crates of others that are needed to compile the module, on any system."""
    packages = locked()

    def named(needs: list[str]) -> list[Crate]:
        # "name", or "name version" where several versions of it are locked.
        asked = [name.split() for name in needs]
        return [crate for crate in packages if [crate.name] in asked or list(crate) in asked]

    found: set[Crate] = set()
    waiting = named([name for folder in OURS for name in needed(folder)])
    while waiting:
        crate = waiting.pop()
        if crate not in found:
            found.add(crate)
            waiting += named(packages[crate].needs)
    return sorted(crate for crate in found if packages[crate].source)


def taken(expression: str) -> list[str]:
    """Return the licences to keep of an SPDX expression, or of its older form, `MIT/Apache-2.0`.

    Raises
    ------
    ValueError
        If one is none of `LICENCES`.
    """
    kept = []
    for part in expression.split(" AND "):
        choices = re.split(r" OR |/", part.strip("()"))
        chosen = next((licence for licence in LICENCES if licence in choices), None)
        if chosen is None:
            raise ValueError(f"{expression}: none of {', '.join(LICENCES)}")
        kept.append(chosen)
    return kept


def written() -> str:
    """Return THIRD-PARTY.txt; cargo fetches sources that are not there."""
    command = ["cargo", "metadata", "--locked", "--format-version=1", "--features=windowkit/python"]
    answer = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout
    packages = {Crate(each["name"], each["version"]): each for each in json.loads(answer)["packages"]}
    lines, texts = [], defaultdict(list)
    for crate in compiled():
        package = packages[crate]
        kept = taken(package["license"])
        lines.append(f"{crate}: {package['license']}")
        for text in dict.fromkeys(read(Path(package["manifest_path"]).parent, kept)):
            texts[text].append(str(crate))
    parts = [HEAD, "\n".join(lines) + "\n"]
    parts += [f"{', '.join(crates)}\n\n{text}\n" for text, crates in texts.items()]
    return f"\n{'=' * 80}\n\n".join(parts)


def read(folder: Path, licences: list[str]) -> Iterator[str]:
    """Yield the texts that must stay with a crate."""
    for licence in licences:
        for path in sorted(folder.rglob(LICENCES[licence])):
            if "APACHE" not in path.name and path.is_file():
                lines = path.read_text().splitlines()
                yield "\n".join(line.rstrip() for line in lines).strip("\n\f")


def listed() -> dict[Crate, str]:
    """Return the crates that THIRD-PARTY.txt lists, and their licences."""
    return {
        Crate(name, version): licence
        for name, version, licence in re.findall(r"^(\S+) (\S+): (.*)$", FILE.read_text(), re.MULTILINE)
        if version[0].isdigit()
    }


if __name__ == "__main__":
    FILE.write_text(written())
