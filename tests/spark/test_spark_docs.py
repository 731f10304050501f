"""Examples of Spark run: of docstrings, of pages that start a session, and those that need a DataFrame."""

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
from support.documents import (
    DOCUMENTS,
    ROOT,
    answer,
    blocks,
    examples,
    lines,
    makes_session,
    names,
    pairs,
    title,
)
from support.plain import assert_near

MODULES = [
    "windowkit.spark",
    *(m.name for m in pkgutil.walk_packages(windowkit.spark.__path__, "windowkit.spark.")),
]


@pytest.fixture(autouse=True)
def files_are_read(spark, settings):
    """As it is by default: pages tell what tasks read."""
    with settings({"spark.windowkit.tables": "true"}):
        yield


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


OF_SPARK = [document for document in DOCUMENTS if any(each.needs_spark for each in examples(document))]


@pytest.mark.parametrize("document", [each for each in OF_SPARK if not makes_session(each)], ids=title)
def test_documents(document: Path, df, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    # In one namespace and in order, as a reader goes through them; `df` is the DataFrame that the reader has.
    namespace = {"df": df}
    for example in blocks(document, "python"):
        results = evaluated(example, str(document), namespace)
        for name, rows in results:
            # One row: as many rows as windows that it is in, which for kernels is one.
            assert len(rows) in (1, 2, 10, 600), (name, example)
        assert results or not {"df", "result"} <= names(example), example


@pytest.mark.parametrize("document", [each for each in OF_SPARK if makes_session(each)], ids=title)
def test_pages_that_start_a_session(
    document: Path, spark, settings, tmp_path: Path, monkeypatch, capsys
) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {}
    # The page's session is the one that there is, and what it sets there is put back.
    # Over a year of flights, compiled code saves more time than it takes to compile.
    compiled = {"spark.sql.codegen.wholeStage": "true", "spark.sql.codegen.factoryMode": "FALLBACK"}
    with settings({"spark.sql.session.timeZone": "UTC", **compiled}):
        for code, output in (each[:2] for each in examples(document)):
            capsys.readouterr()
            exec(compile(code, str(document), "exec"), namespace)
            if output is not None:
                assert lines(capsys.readouterr().out) == lines(output)
        for theirs, ours in pairs(document):
            expected, got = (values(answer(cell, namespace)) for cell in (theirs, ours))
            assert len(got) > 1
            assert len(got) == len(expected), (theirs, ours)
            for one, other in zip(expected, got, strict=True):
                assert_near(one, other)


def values(result: DataFrame) -> list[Any]:
    """Return the values of a result's last column that are not null, in ascending order."""
    return sorted(row[-1] for row in result.collect() if row[-1] is not None)


def test_kernels_in_spark(df) -> None:
    found, namespace = [], {"df": df}
    for example in blocks(ROOT / "docs" / "reference" / "kernels.md", "python"):
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
