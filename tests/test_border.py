"""What crosses to the core and back: values that are read by their attributes, and no tuples by position."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from support.foreign import foreign, lacking
from windowkit import _native
from windowkit.language.frames import frame
from windowkit.local.join import Side

ROOT = Path(__file__).parents[1]
SCHEMA = pa.schema({"t": pa.int64(), "v": pa.int64()})


def planned(**given: Any) -> _native.Plan:
    """Return a plan, some of whose arguments are others."""
    usual = {"schema": SCHEMA, "by": [], "time": "t", "windows": [wk.tumbling(1)], "aggregates": [wk.count()]}
    return _native.Plan(**{**usual, **given})


def rolled(of: Any) -> _native.Rolling:
    return _native.Rolling(SCHEMA, [], "t", [wk.sum("v")], [of])


def joined(side: Any) -> _native.Join:
    other = Side(SCHEMA, (), "t", None)
    return _native.Join(side, other, None, wk.tumbling(1), "inner", "_right", False, False)


def streamed(delay: Any) -> _native.Operator:
    return _native.Operator([foreign_query()], "out-of-order", 0, delay, "auto", None, None, True)


def foreign_query() -> Any:
    return foreign(Side(SCHEMA, (), "t", None), name="q", plan=planned(), allowed_lateness=None)


CASES: list[tuple[str, str, Any]] = [
    (
        "windows",
        "size",
        lambda: planned(windows=[lacking(wk.tumbling(1), "size", kind="tumbling", name="w")]),
    ),
    ("windows", "name", lambda: planned(windows=[foreign(wk.tumbling(1), kind="tumbling")])),
    ("windows", "kind", lambda: planned(windows=[3])),
    ("aggregates", "columns", lambda: planned(aggregates=[lacking(wk.sum("v"), "columns")])),
    ("policy", "terms", lambda: planned(policy=foreign(wk.emit(wk.rows(1))))),
    ("frames", "by_rows", lambda: rolled(lacking(frame("2 rows"), "by_rows"))),
    ("left", "schema", lambda: joined(lacking(Side(SCHEMA, (), "t", None), "schema"))),
    ("progress", "source", lambda: streamed(lacking(wk.delay(5), "source"))),
]


@pytest.mark.parametrize(("argument", "attribute", "call"), CASES)
def test_what_lacks_an_attribute_is_refused_by_name(argument: str, attribute: str, call: Any) -> None:
    with pytest.raises(AttributeError, match=f"has no attribute '{attribute}'") as refused:
        call()
    if sys.version_info >= (3, 11):
        assert f"while processing '{argument}'" in refused.value.__notes__


@pytest.mark.parametrize("size", ["10 minutes", None, 1.5])
def test_a_length_is_one_of_the_languages_own_or_an_integer(size: object) -> None:
    with pytest.raises(TypeError):
        planned(windows=[foreign(wk.tumbling(1), kind="tumbling", name="w", size=size)])


def test_values_with_the_attributes_of_the_languages_own_are_as_good() -> None:
    window = foreign(wk.sliding(4, 2), kind="sliding", name="w")
    theirs = planned(windows=[window], aggregates=[foreign(wk.sum("v"))])
    assert theirs.edges == planned(windows=[wk.sliding(4, 2)]).edges == [(2, 0)]


def wide_tuples(text: str) -> Iterator[str]:
    """Yield the tuples of more than two members in the annotations of a stub."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == "tuple":
            members = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            if len(members) > 2:
                yield ast.unparse(node)


def test_the_core_is_given_and_returns_no_wide_tuples() -> None:
    stub = (ROOT / "python/windowkit/_native.pyi").read_text()
    assert list(wide_tuples("x: list[tuple[int, str, int]]"))
    assert list(wide_tuples(stub)) == []


def members(text: str) -> Iterator[int]:
    """Yield how many members each tuple has in a line of types."""
    for found in re.finditer(r"(?:<|-> |= |: |, |&)\(", text):
        depth, commas, last = 0, 0, ""
        for at in range(found.end(), len(text)):
            character = text[at]
            if depth == 0 and character == ")":
                yield commas + (last != ",")
                break
            depth += (character in "(<[") - (character in ")]" or (character == ">" and text[at - 1] != "-"))
            commas += depth == 0 and character == ","
            last = last if character == " " else character


def test_sources_of_the_border_have_no_wide_tuples() -> None:
    assert list(members("Vec<(String, Vec<(bool, u8)>, u64,)>")) == [3, 2]
    for path in sorted((ROOT / "src/python").glob("*.rs")):
        typed = re.findall(
            r"^(?:type .*|    (?:pub.*)?fn .*|        \w+: .*,|.*-> .*)$", path.read_text(), re.MULTILINE
        )
        wide = [line for line in typed if any(count > 2 for count in members(line))]
        assert not wide, (path.name, wide)
