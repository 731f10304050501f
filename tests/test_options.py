"""Each engine takes its own options, and says of any other which engine has it, if one does."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

import windowkit as wk
from windowkit.language import engines

TABLE = pa.table({"k": ["a"], "t": [1], "v": [1]})
FRAME = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe"})()
STREAM = type("DataFrame", (), {"__module__": "pyspark.sql.connect.dataframe", "isStreaming": True})()

QUERY = wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.count())
ROLLING = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5))
JOIN = wk.join(by="k", left_time="t", right_time="t", within=5)
DISTINCT = wk.distinct("k", time="t", within=5)

TABLES, FRAMES, STREAMS = "tables", "batch DataFrames of Spark", "streaming DataFrames"
LOCAL = {"threads", "validate", "result"}
OF_BATCHES = {"route", "rows_per_slice", "partitioner", "n", "where"}
OF_STREAMS = {"output_mode", "allowed_lateness", "buckets", "metrics_name", "late_rows", "route", "where"}


@dataclass(frozen=True)
class Case:
    """A call, its number of tables, and the options that the pages promise for each kind of data."""

    call: Callable[..., Any]
    tables: int
    options: dict[str, set[str]]


CASES = {
    "query.run": Case(
        QUERY.run,
        1,
        {TABLES: {*LOCAL, "where"}, FRAMES: {*OF_BATCHES, "metrics"}, STREAMS: OF_STREAMS},
    ),
    "query.explain": Case(QUERY.explain, 1, {TABLES: {"where"}, FRAMES: OF_BATCHES, STREAMS: OF_STREAMS}),
    "rolling.run": Case(ROLLING.run, 1, {TABLES: LOCAL, FRAMES: {"split", "route", "metrics"}}),
    "rolling.explain": Case(ROLLING.explain, 1, {TABLES: set(), FRAMES: {"split", "route"}}),
    "rolling.at": Case(ROLLING.at, 2, {TABLES: LOCAL, FRAMES: {"split", "route", "metrics"}}),
    "join.run": Case(JOIN.run, 2, {TABLES: LOCAL, FRAMES: {"split", "route", "metrics"}}),
    "join.explain": Case(JOIN.explain, 2, {TABLES: set(), FRAMES: {"split", "route"}}),
    "distinct.run": Case(DISTINCT.run, 1, {TABLES: LOCAL, FRAMES: {"route", "metrics"}}),
    "distinct.explain": Case(DISTINCT.explain, 1, {TABLES: set(), FRAMES: {"route"}}),
}
DATA = {TABLES: TABLE, FRAMES: FRAME, STREAMS: STREAM}
GIVEN = {
    TABLES: "without a Spark DataFrame",
    FRAMES: "with a batch DataFrame of Spark",
    STREAMS: "with a streaming DataFrame",
}
OPTIONS = sorted({*LOCAL, *OF_BATCHES, *OF_STREAMS, "metrics", "split"})


class Reached(Exception):  # noqa: N818  # It is no error.
    """Raised in place of an evaluation."""


@pytest.fixture(autouse=True)
def nothing_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let an engine that is reached say with which options, without an evaluation."""

    def reached(self: object, *given: object, **options: object) -> None:
        # Keys and time of labels are no options.
        raise Reached({name for name in options if name not in ("by", "time")})

    for kind in {type(engine) for engine in engines._engines}:
        for call in ("run", "at", "explain"):
            if call in vars(kind):
                monkeypatch.setattr(kind, call, reached)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(("name", "data"), [(name, data) for name in CASES for data in CASES[name].options])
def test_each_option_is_for_the_engines_that_have_it(name: str, data: str, option: str) -> None:
    case = CASES[name]
    given = [DATA[data]] * case.tables
    having = [other for other in case.options if option in case.options[other]]
    if data in having:
        with pytest.raises(Reached) as reached:
            case.call(*given, **{option: 3})
        assert reached.value.args == ({option},)
        return
    with pytest.raises(wk.WindowKitError) as refused:
        case.call(*given, **{option: 3})
    own = case.options[data]
    text = str(refused.value)
    kind, _, call = name.partition(".")
    of_run = call == "explain" and any(option in own for own in CASES[f"{kind}.run"].options.values())
    if not having and of_run:
        assert isinstance(refused.value, wk.InvalidValue)
        assert text.startswith(f"{option}: 3 is given to explain; only run has it")
    elif not having:
        assert isinstance(refused.value, wk.InvalidType)
        assert text.startswith(f"{option}: there is no such option")
    else:
        assert isinstance(refused.value, wk.InvalidValue)
        if (data, option) == (FRAMES, "result"):
            reason = "its result is one, too: call .toPandas() or .toArrow() on that"
        else:
            reason = f"only {' and '.join(having)} have it"
        assert text.startswith(f"{option}: 3 is given {GIVEN[data]}; {reason}")
    # The options that are allowed are those of this engine, and no others.
    found = re.search(r"; allowed (?:is|are) ([\w, ]+)$", text)
    allowed = set(re.split(", | and ", found[1])) if found else set()
    assert allowed == own or (not having and "did you mean" in text)
    # Without a value it is none.
    if having or of_run:
        with pytest.raises(Reached) as reached:
            case.call(*given, **{option: None})
        assert reached.value.args == (set(),)


@pytest.mark.parametrize("name", CASES)
def test_an_unknown_option_is_a_type_error(name: str) -> None:
    case = CASES[name]
    for data in case.options:
        with pytest.raises(TypeError, match="colour: there is no such option") as refused:
            case.call(*[DATA[data]] * case.tables, colour=None)
        assert isinstance(refused.value, wk.WindowKitError)


@pytest.mark.parametrize(
    "call",
    [
        *(QUERY.batches, QUERY.operator, QUERY.schema, QUERY.slices, QUERY.plot),
        *(ROLLING.schema, JOIN.batches, JOIN.operator, JOIN.schema),
        *(DISTINCT.batches, DISTINCT.operator, DISTINCT.schema),
    ],
    ids=lambda call: call.__qualname__,
)
def test_an_argument_of_no_method_is_a_type_error_of_the_same_kind(call: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=rf"^route: {call.__name__} has no such argument") as refused:
        call(TABLE, route="rows")
    assert isinstance(refused.value, wk.WindowKitError)
