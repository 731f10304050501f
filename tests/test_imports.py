"""Who imports whom: no circles, no engine in the language, and rooms of Spark only by their faces."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from support.programs import program
from support.rust_imports import rust_imports

PROJECT = Path(__file__).parents[1]
ROOT = PROJECT / "python"

LANGUAGE = ("windowkit.errors", "windowkit.language")
"""What queries are made of: values without data, without engines and without the native core."""

ROOMS = ("shipping", "jobs", "partition", "parquet", "routes", "streams", "scans")
"""Of `windowkit.spark`, each above those before it."""

NAMES_ONLY = {
    ("windowkit.language.query", "windowkit.streams.operator"),
    ("windowkit.language.join", "windowkit.streams.join"),
    ("windowkit.language.distinct", "windowkit.streams.distinct"),
    *(
        ("windowkit.language.engine", f"windowkit.language.{asked}")
        for asked in ("query", "rolling", "join", "distinct", "windows")
    ),
    ("windowkit.language.engines", "windowkit.language.rolling"),
}
"""``operator`` names the type that it returns, and engines those that they evaluate; nothing is imported."""


def name_of(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield what is imported anywhere in a module: at its top, in functions, and for types alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                yield whole if whole in MODULES or whole == "windowkit._native" else str(node.module)


def graph() -> dict[str, set[str]]:
    found = {}
    for name, path in MODULES.items():
        there = set(imported(ast.parse(path.read_text()))) & MODULES.keys()
        # A task that is pickled by value imports its own module where it runs.
        found[name] = {other for other in there - {name} if (name, other) not in NAMES_ONLY}
    return found


GRAPH = graph()


def package(module: str) -> str:
    """Return the package of windowkit that a module is in, or is."""
    return ".".join(module.split(".")[:2])


def in_language(module: str) -> bool:
    return package(module) in LANGUAGE


def room(module: str) -> str | None:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["windowkit", "spark"] and parts[2:] and parts[2] in ROOMS else None


def check_circles(graph: dict[str, set[str]]) -> None:
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        # In the error, each module is imported by the next.
        pytest.fail(" -> ".join(reversed(error.args[1])))


def test_there_are_no_circles() -> None:
    check_circles(GRAPH)


def test_packages_form_no_circles() -> None:
    packages: dict[str, set[str]] = {}
    for module, others in GRAPH.items():
        packages.setdefault(package(module), set()).update(map(package, others))
    # The package as a whole hands on what is in all others.
    check_circles({name: others - {name, "windowkit"} for name, others in packages.items()})


def test_each_package_says_what_it_is() -> None:
    for name, path in MODULES.items():
        assert ast.get_docstring(ast.parse(path.read_text())), name


CRATES = sorted({PROJECT / "src", *PROJECT.glob("crates/*/src"), PROJECT / "baselines/src"})


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.relative_to(PROJECT).as_posix())
def test_there_are_no_circles_in_rust(crate: Path) -> None:
    """Cargo finds those of crates, and nothing else finds those within one."""
    check_circles(rust_imports(crate))


def test_a_circle_in_rust_would_be_found(tmp_path: Path) -> None:
    """Paths without `use` count, and names that a module hands on; parents, tests and comments do not."""
    files = {
        "lib.rs": "mod low;\nmod high;\npub use low::{Low, deep::Deep as Deeper};\n",
        "low/mod.rs": "pub mod deep;\npub struct Low;\nfn below() { deep::dig(crate::high::LEVEL) }\n",
        "low/deep.rs": "use super::Low;\npub struct Deep;\n// crate::high::High\n"
        "#[cfg(test)]\nmod tests {\n    use crate::high::High;\n}\n",
        "high.rs": "use crate::{\n    Deeper,\n    Low,\n};\npub const LEVEL: u8 = 0;\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert rust_imports(tmp_path) == {
        "lib.rs": set(),
        "low/mod.rs": {"high.rs"},
        "low/deep.rs": set(),
        "high.rs": {"low/mod.rs", "low/deep.rs"},
    }
    with pytest.raises(pytest.fail.Exception, match=r"(high\.rs -> low/mod\.rs|low/mod\.rs -> high\.rs)"):
        check_circles(rust_imports(tmp_path))


def test_a_circle_would_be_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter({**GRAPH, "windowkit.errors": {"windowkit.language.query"}}).prepare()


@pytest.mark.parametrize("module", list(filter(in_language, MODULES)))
def test_the_language_imports_nothing_else(module: str) -> None:
    assert all(map(in_language, GRAPH[module])), GRAPH[module]


def test_the_language_needs_no_native_core() -> None:
    for module in filter(in_language, MODULES):
        assert "windowkit._native" not in set(imported(ast.parse(MODULES[module].read_text())))


def test_rooms_of_spark_are_used_by_their_faces_from_above() -> None:
    for module, others in GRAPH.items():
        own = room(module)
        for other in others:
            there = room(other)
            if there is None or there == own:
                continue
            if own is not None:
                assert ROOMS.index(there) < ROOMS.index(own), (module, other)
            # A face may hand on a whole module, such as `windowkit.spark.jobs.sql`.
            _, _, _, *rest = other.split(".")
            face = ast.literal_eval(exported(MODULES[f"windowkit.spark.{there}"]))
            assert not rest or rest[0] in face, (module, other)


def exported(path: Path) -> ast.expr:
    (value,) = (
        node.value
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    return value


def test_importing_windowkit_imports_no_library_but_pyarrow() -> None:
    printed = program(
        """
        import sys
        import windowkit
        there = {name.partition(".")[0] for name in sys.modules}
        slow = {"pyspark", "py4j", "pandas", "polars", "matplotlib", "tqdm", "duckdb", "ibis", "narwhals"}
        print(sorted(there & slow))
        print("windowkit.spark" in sys.modules)
        """
    )
    assert printed == "[]\nFalse\n"
