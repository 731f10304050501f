"""Examples that need a DataFrame `df` run: those of docstrings, the README and docs/spark.md."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
from pathlib import Path

import pytest
from test_docs import DOCUMENTS, blocks, names

import windowkit.spark

MODULES = [
    "windowkit.spark",
    *(f"windowkit.spark.{m.name}" for m in pkgutil.iter_modules(windowkit.spark.__path__)),
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
    examples = blocks(document, "python")
    namespace = {"df": df}
    for example in examples:
        exec(compile(example, str(document), "exec"), namespace)
    if any({"df", "result"} <= names(example) for example in examples):
        # One row: as many rows as windows that it is in, which for kernels is one.
        assert namespace["result"].count() in (1, 10, 600)
