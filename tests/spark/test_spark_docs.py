"""Examples that need a DataFrame `df` run: those of docstrings, the README and docs/spark.md."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame

import windowkit.spark
from support.documents import DOCUMENTS, ROOT, blocks, names

MODULES = [
    "windowkit.spark",
    *(m.name for m in pkgutil.walk_packages(windowkit.spark.__path__, "windowkit.spark.")),
]


@pytest.fixture
def df(spark):
    return spark.sql("select 'a' as device, timestamp_seconds(90) as ts, 20.5d as v")


def test_docstrings(df):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for module in map(importlib.import_module, MODULES):
        for example in doctest.DocTestFinder().find(module, extraglobs={"df": df}):
            runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_documents(document: Path, df) -> None:
    # In one namespace and in order, as a reader goes through them; `df` is the DataFrame that the reader has.
    namespace = {"df": df}
    for example in blocks(document, "python"):
        results = evaluated(example, str(document), namespace)
        for name, rows in results:
            # One row: as many rows as windows that it is in, which for kernels is one.
            assert len(rows) in (1, 10, 600), (name, example)
        assert results or not {"df", "result"} <= names(example), example


def test_kernels_in_spark(df) -> None:
    found, namespace = [], {"df": df}
    for example in blocks(ROOT / "docs" / "kernels.md", "python"):
        results = evaluated(example, "kernels.md", namespace)
        found += [rows[0].asDict() for name, rows in results if name == "result"]
    smooth, peak, listed = found
    assert smooth == {"device": "a", "v": 20.5, "smooth": 20.5}
    # However the session's zone is called, a time stays the same instant.
    assert peak == {"device": "a", "ts": df.first()["ts"], "peak": 20.5}
    assert [*listed.values()] == ["a", [20.5]]


def evaluated(example: str, document: str, namespace: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    """Run an example statement by statement; return the name and rows of each DataFrame that it makes.

    DataFrames are lazy: one that nobody collects would hide that its rows cannot be computed.
    """
    found = []
    for statement in ast.parse(example).body:
        exec(compile(ast.Module([statement], []), document, "exec"), namespace)
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        made = [target.id for target in targets if isinstance(target, ast.Name)]
        frames = [name for name in made if isinstance(namespace[name], DataFrame)]
        found += [(name, namespace[name].collect()) for name in frames if not namespace[name].isStreaming]
    return found
