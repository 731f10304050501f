"""References of docstrings are links in the site: an extension of griffe, which reads them (zensical.toml).

In a docstring, a name is in backticks and a section of a page in quotes, as `help` shows them best.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

PAGES = Path(__file__).resolve().parents[2] / "docs" / "reference"
TITLES = {page.read_text().splitlines()[0].removeprefix("# "): page.name for page in PAGES.glob("*.md")}


class References(griffe.Extension):
    """Makes links of the names and of the sections that docstrings refer to."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Rewrite the docstrings that the site is made of."""
        for each in described(pkg):
            each.docstring.value = linked(each.docstring.value, each, pkg)


def described(of: griffe.Object) -> Iterator[Any]:
    """Yield what has a docstring, and is where it is defined."""
    if of.docstring is not None:
        yield of
    for member in of.members.values():
        if not member.is_alias:
            yield from described(member)


def linked(text: str, of: griffe.Object, package: griffe.Module) -> str:
    """Return a docstring whose references are links."""

    def name(found: re.Match[str]) -> str:
        return link(found[0], found[1], package, package)

    def neighbour(found: re.Match[str]) -> str:
        first, rest = found[2], found[3] or ""
        scopes = [each for each in (of, of.parent, of.module, package) if each is not None]
        scope = next((each for each in scopes if first in each.all_members), None)
        return found[1] + (
            found[0][len(found[1]) :]
            if scope is None
            else link(f"`{first}{rest}`", first + rest, scope, package)
        )

    text = re.sub(r"`windowkit\.(\w+(?:\.\w+)*)`", name, text)
    text = re.sub(r"(\b[Ss]ee )`(\w+)(\.\w+)?`", neighbour, text)
    return re.sub(r'"([^"]+)"\s+in\s+the\s+document\s+"([^"]+)"', section, text)


def link(text: str, path: str, scope: griffe.Object, package: griffe.Module) -> str:
    """Return a link to the page of a name, if there is such a name; the site drops it if no page has it."""
    found: Any = scope
    try:
        for part in path.split("."):
            found = found.all_members[part]
            found = found.final_target if found.is_alias else found
            # A function and its module have one name, and the package means the function.
            found = found.members.get(part, found) if found.is_module else found
    except KeyError:
        return text
    return f'<autoref identifier="{found.path}" optional>{text}</autoref>'


def section(found: re.Match[str]) -> str:
    """Return a link to a section of a page of the reference."""
    return f"[{found[1]}](../{TITLES[found[2]]}#{re.sub(r'[^a-z0-9]+', '-', found[1].lower())})"
