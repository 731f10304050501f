"""Every function of the core has its place in each list that the recipe of CONTRIBUTING.md names."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

import windowkit as wk
from support.oracle_types import functions_of
from support.registries import kinds_of_partials, parameters
from windowkit import _native
from windowkit.language.aggregation import FUNCTIONS
from windowkit.language.windows import WINDOW_FORMS
from windowkit.language.windows.text import FORMS
from windowkit.spark.jobs import sql

SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64(), "w": pa.int64()})


def test_the_language_has_the_functions_of_the_core() -> None:
    window = wk.tumbling(1).bound()
    with pytest.raises(wk.InvalidValue, match="'nosuch' is") as refused:
        _native.Plan(SCHEMA, [], "t", [window], [("nosuch", [], "n", None, [], None)])
    assert set(str(refused.value).rpartition("allowed are ")[2].split(", ")) == FUNCTIONS, (
        "`FORMS` of aggregation.py has each function of the core"
    )


def test_tests_with_random_queries_draw_every_function() -> None:
    drawn = {make("v").function for make in functions_of(pa.int64())}
    assert {*drawn, "count_all"} == FUNCTIONS, "add it to `functions_of` in tests/support/oracle_types.py"


@pytest.mark.parametrize("function", sorted(FUNCTIONS))
def test_spark_has_an_expression_for_every_function(function: str) -> None:
    assert sql.aggregate(function, ["v", "w"], "t", None, parameters(function))


@pytest.mark.parametrize("kind", kinds_of_partials())
def test_catalyst_holds_a_partial_or_is_known_not_to(kind: str) -> None:
    if kind not in sql.UNHELD:
        assert sql.partial(kind, [spark.LongType()] * 2, ["v", "w"], "t", None)


def test_messages_name_every_window_type() -> None:
    _, *rest = wk.tumbling(1).bound()
    with pytest.raises(wk.InvalidValue, match="kind 'nosuch'") as refused:
        _native.Plan(SCHEMA, [], "t", [("nosuch", *rest)], [("count_all", [], "n", None, [], None)])
    allowed = str(refused.value).rpartition("allowed are ")[2]
    assert set(re.findall(r"'(\w+)'", allowed)) == FORMS.keys(), "the message of src/python/window.rs"
    assert set(re.findall(r"(\w+)\(", WINDOW_FORMS)) == FORMS.keys(), "`WINDOW_FORMS` of windows/text.py"
