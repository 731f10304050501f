"""Every function of the core has its place in each list that CONTRIBUTING.md names."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pyarrow as pa
import pytest
from hypothesis import find
from pyspark.sql import types as spark

import windowkit as wk
from support import dense, drawings, samples
from support.cases import window_lists
from support.foreign import foreign
from support.oracle_types import functions_of
from support.registries import kinds_of_partials, parameters
from windowkit import _native
from windowkit.language.events import TRIGGERS
from windowkit.language.functions import FUNCTIONS
from windowkit.language.windows import WINDOW_FORMS
from windowkit.language.windows.text import FORMS
from windowkit.spark.jobs import sql

SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64(), "w": pa.int64()})


def test_the_language_has_the_functions_of_the_core() -> None:
    unknown = foreign(wk.count(), function="nosuch")
    with pytest.raises(wk.InvalidValue, match="'nosuch' is") as refused:
        _native.Plan(SCHEMA, [], "t", [wk.tumbling(1)], [unknown])
    assert set(str(refused.value).rpartition("allowed are ")[2].split(", ")) == FUNCTIONS, (
        "`FORMS` of functions.py has each function of the core"
    )


def test_python_names_the_partition_methods_of_the_core() -> None:
    with pytest.raises(wk.InvalidValue, match="'nosuch' is unknown") as refused:
        wk.partition.Partitioner(2, "nosuch")
    assert str(refused.value).rpartition("allowed are ")[2] == ", ".join(map(repr, wk.partition.METHODS))


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
    unknown = foreign(wk.tumbling(1), kind="nosuch", name="nosuch")
    with pytest.raises(wk.InvalidValue, match="kind 'nosuch'") as refused:
        _native.Plan(SCHEMA, [], "t", [unknown], [wk.count()])
    allowed = str(refused.value).rpartition("allowed are ")[2]
    assert set(re.findall(r"'(\w+)'", allowed)) == FORMS.keys(), "the message of src/python/window.rs"
    assert set(re.findall(r"(\w+)\(", WINDOW_FORMS)) == FORMS.keys(), "`WINDOW_FORMS` of windows/text.py"


EXAMPLES = range(8)
ENOUGH = 7
"""In so many of the examples a mutant must be caught: that is what makes them dense."""


def caught(check: Callable[[int], None]) -> int:
    """Return in how many examples a comparison finds a difference."""
    return sum(dense.is_caught(partial(check, seed)) for seed in EXAMPLES)


@pytest.mark.parametrize(
    "kind", sorted({type(w) for w in samples.windows().values() if not w.is_user_defined}, key=repr)
)
def test_each_type_of_windows_is_drawn_by_random_queries_and_has_a_picture(kind: type[wk.Window]) -> None:
    pictured = {type(window) for window, _ in drawings.WINDOWS.values()}
    assert kind in pictured, "add it to `WINDOWS` in tests/support/drawings.py"
    # It raises where there is no such example: add one to `KINDS` in tests/support/cases.py.
    assert find(window_lists(pa.int64(), 0), lambda drawn: kind in map(type, drawn))


def test_every_kind_has_examples_of_its_own_and_a_mutant() -> None:
    kinds = {each.keys[0] for each in TRIGGERS} | {"repeat"}
    assert {name.split()[0] for name in dense.FIRINGS} == kinds, "`FIRINGS` of tests/support/dense.py"
    windows = samples.windows()
    assert {each.kind for each in windows.values()} == {*FORMS, "custom"}, "tests/support/samples.py"
    assert dense.MISTAKEN.keys() == windows.keys(), "`MISTAKEN` of tests/support/dense.py"
    functions = {name: each.function for name, (each, _) in dense.FUNCTIONS.items()}
    assert functions == {name: name for name in FUNCTIONS}, "`FUNCTIONS` of tests/support/dense.py"


def test_every_trigger_is_among_those_that_forms_are_read_by() -> None:
    # A base of several kinds has no keys, and no form, of its own.
    kinds = {each for each in subclasses(wk.Trigger) if "keys" in vars(each)}
    defined = {each for each in kinds if each.__module__.startswith("windowkit.")}
    assert {each.__name__ for each in defined} == {each.__name__ for each in TRIGGERS}


def subclasses(kind: type) -> set[type]:
    return {each for sub in kind.__subclasses__() for each in (sub, *subclasses(sub))}


@pytest.mark.parametrize("name", dense.FIRINGS)
def test_a_trigger_fires_where_it_should_and_nowhere_else(name: str) -> None:
    for seed in EXAMPLES:
        dense.check_trigger(name, seed, mutated=False)
    assert caught(lambda seed: dense.check_trigger(name, seed, mutated=True)) >= ENOUGH


@pytest.mark.parametrize("name", dense.MISTAKEN)
def test_a_window_has_its_rows_and_no_others(name: str) -> None:
    for seed in EXAMPLES:
        dense.check_window(name, seed, mutated=False)
    assert caught(lambda seed: dense.check_window(name, seed, mutated=True)) >= ENOUGH


@pytest.mark.parametrize("name", dense.FUNCTIONS)
def test_a_function_is_what_its_definition_says(name: str) -> None:
    for seed in EXAMPLES:
        dense.check_function(name, seed)


@pytest.mark.parametrize(
    ("name", "mutant"),
    [pytest.param(name, mutant, id=f"{name}: {label}") for name, label, mutant in dense.all_mutants()],
)
def test_what_is_taken_for_a_function_is_caught(name: str, mutant: dense.Mutant) -> None:
    assert caught(lambda seed: dense.check_function(name, seed, mutant)) >= ENOUGH
