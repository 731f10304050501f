"""Which files of a Rust crate import from which, read from its sources."""

import re
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
"""Where a module is in its crate: `("window", "rules")` is `crate::window::rules`."""

TESTS = re.compile(r"^ *#\[cfg\(test\)\]\n *mod (\w+)(?:;| \{\n.*?^\}$)", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"//.*")
USE = re.compile(r"\buse ([^;]+);")
PATH = re.compile(r"(?<![\w:])\w+(?:::\w+)+")


def rust_imports(root: Path) -> dict[str, set[str]]:
    """Of each file, the files that define what it names; without tests.

    A name is followed through the `use` of each module that hands it on. A module and those within it may use
    each other, so these pairs are left out.
    """
    sources = {module_of(path.relative_to(root)): path for path in sorted(root.rglob("*.rs"))}
    texts = {module: path.read_text() for module, path in sources.items()}
    tests = {(*module, name) for module in texts for name in TESTS.findall(texts[module])}
    modules = {module for module in texts if all(module[:at] not in tests for at in range(len(module) + 1))}
    texts = {module: COMMENT.sub("", TESTS.sub("", texts[module])) for module in modules}
    names = {module: dict(used(module, texts[module], modules)) for module in modules}

    def home(path: Module) -> Module:
        """Return the module that defines an item."""
        at = next(at for at in range(len(path), -1, -1) if path[:at] in modules)
        module, rest = path[:at], path[at:]
        known = names[module].get(rest[0]) if rest else None
        return module if known is None else home(known + rest[1:])

    def homes(module: Module) -> Iterator[Module]:
        yield from map(home, names[module].values())
        for path in PATH.findall(texts[module]):
            first, *rest = path.split("::")
            known = names[module].get(first)
            whole = (*known, *rest) if known is not None else absolute(module, path, modules)
            if whole is not None:
                yield home(whole)

    def named(module: Module) -> str:
        return sources[module].relative_to(root).as_posix()

    return {
        named(module): {named(other) for other in homes(module) if not is_within(module, other)}
        for module in modules
    }


def is_within(one: Module, other: Module) -> bool:
    """Whether one of two modules is the other, or within it."""
    return all(a == b for a, b in zip(one, other, strict=False))


def module_of(path: Path) -> Module:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts


def used(module: Module, text: str, modules: set[Module]) -> Iterator[tuple[str, Module]]:
    """Yield the names that a module's `use` lines bring in, and what they stand for."""
    for tree in USE.findall(text):
        for leaf in leaves(" ".join(tree.split())):
            path, _, alias = leaf.partition(" as ")
            whole = absolute(module, path.removesuffix("::self"), modules)
            if whole:
                yield alias or whole[-1], whole


def leaves(tree: str) -> Iterator[str]:
    """Yield the paths of a `use` tree: `a::{b, c::{d, e}}` has three."""
    before, brace, rest = tree.partition("{")
    if not brace:
        yield tree
        return
    inside, depth, start = rest[: rest.rindex("}")] + ",", 0, 0
    for at, letter in enumerate(inside):
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            yield from (before + leaf for leaf in leaves(inside[start:at].strip()) if leaf)
            start = at + 1


def absolute(module: Module, path: str, modules: set[Module]) -> Module | None:
    """Return the place of an item in the crate, or `None` if it is of another crate."""
    first, *rest = path.split("::")
    match first:
        case "crate":
            return tuple(rest)
        case "self":
            return (*module, *rest)
        case "super":
            above = module[:-1]
            while rest[:1] == ["super"]:
                above, rest = above[:-1], rest[1:]
            return (*above, *rest)
    return (*module, first, *rest) if (*module, first) in modules else None
