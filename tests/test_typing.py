"""What type checkers and editors see after `import windowkit as wk`, and what is said of unknown names."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

import windowkit as wk
from support.programs import ROOT
from windowkit.language import aggregates, windows

TYPICAL = wk.query(by="k", time="t", windows=wk.tumbling("1 day"), aggs=wk.count())
README = Path(__file__).resolve().parents[1] / "README.md"

TYPES = """
from typing import Any, assert_type
import pandas as pd
import duckdb
import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
import windowkit as wk
from windowkit.kernels import sliding_mean
from windowkit.partition import Partitioner

query = wk.query(by="k", time="t", windows=wk.tumbling(5), aggs=wk.count())

class Stream:
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

def types(df: DataFrame, spark: SparkSession, frame: pl.DataFrame, table: Any, arrow: Stream) -> None:
    assert_type(query, wk.Query)
    assert_type(query.run(df), DataFrame)
    assert_type(query.run(df, route="packed", rows_per_slice=3.0), DataFrame)
    assert_type(query.run(frame), pl.DataFrame)
    assert_type(query.run(frame, threads=2, validate=True), pl.DataFrame)
    assert_type(query.run(table, result="polars"), pl.DataFrame)
    assert_type(query.run(df), DataFrame).groupBy
    assert_type(wk.spark.scan(spark, "readings/", query), DataFrame)
    assert_type(wk.partition.Partitioner(workers=8), Partitioner)
    assert_type(wk.__version__, str)
    wk.kernels.sliding_mean(table, 5)
    wk.plot.timeline  # error: attr-defined
    wk.nosuch  # error: attr-defined
    wk.spark.nosuch  # error: attr-defined
    query.run(frame, result="numpy")  # error: call-overload
    query.run(frame, rout="rows")  # error: call-overload
    assert_type(query.run(df, output_mode="update"), DataFrame)
    assert_type(query.run(frame, 2), pl.DataFrame)
    wk.query(by=[pl.col("k"), "l"], time=pc.field("t"), windows=wk.tumbling(5), aggs=wk.sum(sf.col("v") * 2))
    assert_type(wk.expr("v * 2"), wk.Expression)
    wk.sum(3)  # error: arg-type
    with query.operator() as op:
        assert_type(op, wk.Operator)
    rolling = wk.rolling(by="k", time="t", aggs=wk.sum("v").over(5))
    assert_type(rolling.run(df), DataFrame)
    assert_type(rolling.run(frame), pl.DataFrame)
    assert_type(rolling.run(frame, result="pyarrow"), pa.Table)
    assert_type(rolling.at(frame, table), pl.DataFrame)
    assert_type(rolling.at(labels=frame, events=table, by="who", threads=2), pl.DataFrame)
    rolling.run(df, rows_per_slice=3.0)  # error: call-overload
    assert_type(rolling.run(df, route="packed"), DataFrame)
    assert_type(rolling.at(df, df, split="1 day"), DataFrame)
    rolling.run(frame, split=True)  # error: call-overload
    rolling.run(arrow, metrics=None)  # error: call-overload
    rolling.run(df, split=True, validate=True)  # error: call-overload
    rolling.run(df, validate=True).show()  # error: attr-defined
    rolling.at(frame, table, split="1 day")  # error: call-overload
    rolling.at(df, df, by="who", threads=2).show()  # error: attr-defined
    rolling.at(df, frame).show()  # error: attr-defined
    query.run(frame, route="rows")  # error: call-overload
    query.run(arrow, buckets=3)  # error: call-overload
    query.run(arrow, 2, validate=True).num_rows
    query.run(df, validate=True).show()  # error: attr-defined
    query.run(df, 2).show()  # error: attr-defined
    assert_type(query.run(table, threads=2), Any)
    assert_type(query.run(table, route="rows"), DataFrame)
    query.explain(df, route="rows", buckets=3)
    query.explain(df, threads=2)  # error: call-arg
    joined = wk.join(by="k", left_time="t", right_time="u", within=5)
    assert_type(joined.run(df, df, split="1 day", route="scan"), DataFrame)
    assert_type(joined.run(frame, table), pl.DataFrame)
    assert_type(wk.distinct("k", time="t", within=3).run(frame), pl.DataFrame)
    joined.run(frame, table, result="numpy")  # error: call-overload
    joined.run(arrow, table, split="1 day")  # error: call-overload
    joined.run(df, df, threads=2).show()  # error: attr-defined
    joined.run(df, table, validate=True).show()  # error: attr-defined
    wk.distinct("k", time="t", within=3).run(frame, metrics=None)  # error: call-overload
    wk.distinct("k", time="t", within=3).run(df, metrics=None, route="scan").show()
    wk.distinct("k", time="t", within=3).run(df, threads=2).show()  # error: attr-defined
    wk.tumbling("1 week", week_start="someday")  # error: arg-type
    lazy = frame.lazy()
    assert_type(query.run(lazy, threads=2), pl.LazyFrame)
    assert_type(query.run(frame, result="polars-lazy"), pl.LazyFrame)
    assert_type(query.run(lazy, result="polars"), pl.DataFrame)
    assert_type(rolling.run(lazy), pl.LazyFrame)
    assert_type(rolling.at(lazy, table), pl.LazyFrame)
    assert_type(joined.run(lazy, lazy), pl.LazyFrame)
    query.run(lazy, route="rows")  # error: call-overload
    relation = duckdb.from_arrow(table)
    assert_type(query.run(relation), duckdb.DuckDBPyRelation)
    assert_type(joined.run(frame, table, result="duckdb"), duckdb.DuckDBPyRelation)
    assert_type(query.run(nw.from_native(lazy)), nw.LazyFrame[pl.LazyFrame])
    wk.emit(refinement="none")  # error: arg-type
    wk.query(by=[], time="t", windows=[], aggs=[], window_columns="both")  # error: arg-type
    query.operator(order="any")  # error: arg-type
"""


EXPECTED = {
    (number, line.rpartition("# error: ")[2])
    for number, line in enumerate(TYPES.splitlines(), start=1)
    if "# error: " in line
}
"""The lines of `TYPES` with errors, and how mypy calls these."""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with the snippets of the README as one program, and `TYPES` as another."""
    blocks = re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.DOTALL | re.MULTILINE)
    assert len(blocks) > 3
    reader = "from pyspark.sql import SparkSession\n\ndf = SparkSession.active().table('readings')\n"
    (tmp_path / "readme.py").write_text(reader + "\n".join(blocks))
    (tmp_path / "types_seen.py").write_text(TYPES)
    return tmp_path


@pytest.mark.slow
def test_mypy_sees_types_and_no_error_in_the_readme(programs: Path) -> None:
    # pyarrow and pandas have no types of their own, which is not ours to mend.
    options = [
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "--disable-error-code=import-untyped",
    ]
    options += ["--python-version=3.11", "--allow-redefinition", f"--cache-dir={programs / 'cache'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "readme.py", "types_seen.py"],
        cwd=programs,
        env={**os.environ, "MYPYPATH": ROOT},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert not done.stderr
    found = re.findall(r"^(\w+)\.py:(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
    assert {(file, int(number), code) for file, number, code in found} == {
        ("types_seen", number, code) for number, code in EXPECTED
    }, done.stdout


@pytest.mark.slow
def test_pyright_sees_types_and_no_error_in_the_readme(programs: Path) -> None:
    config = {"pythonVersion": "3.11", "extraPaths": [ROOT], "reportMissingTypeStubs": False}
    (programs / "pyrightconfig.json").write_text(json.dumps(config))
    done = subprocess.run(
        [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", "."],
        cwd=programs,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    errors = [each for each in json.loads(done.stdout)["generalDiagnostics"] if each["severity"] == "error"]
    # Pyright counts lines from 0.
    found = {(Path(each["file"]).stem, each["range"]["start"]["line"] + 1) for each in errors}
    assert found == {("types_seen", number) for number, _ in EXPECTED}, errors


def test_dir_has_the_public_names_and_no_others() -> None:
    assert dir(wk) == sorted([*wk.__all__, "__version__", "kernels", "partition", "plot", "spark"])
    assert all(hasattr(wk, name) for name in dir(wk))


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("cumulate", 'wk.landmark("10 minutes", period="1 day")'),
        ("hop", 'wk.sliding("10 minutes", "1 minute")'),
        (
            "expanding",
            'wk.sum("v").over("unbounded"), or for windows wk.landmark("10 minutes", period="1 day")',
        ),
        ("covar_pop", "wk.aggregate, for a function of your own"),
        ("std", "wk.stddev"),
        ("nunique", "wk.count_distinct"),
        ("group_by_dynamic", 'wk.tumbling("10 minutes") or wk.sliding("10 minutes", "1 minute")'),
        ("max_by", "wk.arg_max"),
        ("slidng", "wk.sliding"),
        ("Tumblin", "wk.Tumbling"),
        ("kernel", "wk.kernels"),
    ],
)
def test_a_name_of_elsewhere_leads_to_ours(name: str, meant: str) -> None:
    said = f"module 'windowkit' has no attribute {name!r}; did you mean {meant}?"
    with pytest.raises(AttributeError) as refused:
        getattr(wk, name)
    assert str(refused.value) == said


@pytest.mark.parametrize("module", ["kernels", "partition", "plot"])
def test_dir_of_modules_has_the_public_names_and_no_others(module: str) -> None:
    own = getattr(wk, module)
    assert dir(own) == sorted(own.__all__)


@pytest.mark.parametrize(
    ("get", "said"),
    [
        (
            lambda: wk.kernels.rolling_mean,
            "module 'windowkit.kernels' has no attribute 'rolling_mean'; did you m",
        ),
        (lambda: wk.kernels.slidng, "did you mean 'sliding'?"),
        (lambda: wk.partition.Partitoner, "did you mean 'Partitioner'?"),
        (lambda: wk.plot.partition, "did you mean 'partitioning'?"),
        (
            lambda: wk.sum("v").over(3).filter("x"),
            "'Framed' object has no attribute 'filter'; did you mean .wh",
        ),
        (lambda: wk.sum("v").rename("x"), "did you mean .alias?"),
        (lambda: wk.sum("v").filter("x"), "did you mean .where?"),
    ],
)
def test_an_attribute_of_elsewhere_leads_to_ours(get: Callable[[], object], said: str) -> None:
    with pytest.raises(AttributeError, match=re.escape(said)):
        get()


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("hop(10 minutes, 1 minute)", "sliding"),
        ("tumblng(10 minutes)", "tumbling"),
        ("std(v)", "stddev"),
        ("medain(v)", "median"),
    ],
)
def test_text_forms_of_elsewhere_lead_to_ours(text: str, meant: str) -> None:
    read = windows.parse if "minute" in text else aggregates.parse
    with pytest.raises(wk.InvalidValue, match=rf"; did you mean '{meant}'\?$"):
        read(text)


def test_a_column_that_is_probably_meant_is_named() -> None:
    table = pa.table({"device": ["a"], "ts": [1], "Value": [1], "it's": [1]})
    window = wk.tumbling(5)
    for changed, meant in (
        ({"by": "devise"}, "device"),
        ({"time": "TS"}, "ts"),
        ({"aggs": wk.sum("value")}, "Value"),
        ({"aggs": wk.sum("its")}, "it's"),
        ({"aggs": wk.count().where("Device")}, "device"),
        ({"windows": wk.punctuation("valeu")}, "Value"),
    ):
        given = {"by": "device", "time": "ts", "windows": window, "aggs": wk.count()} | changed
        query = wk.query(**given)  # type: ignore[arg-type]
        for call in (query.run, query.schema, lambda data, query=query: query.operator(schema=data)):
            with pytest.raises(wk.UnknownColumn) as refused:
                call(table)
            assert str(refused.value).endswith(f"did you mean {meant!r}?")
    with pytest.raises(wk.UnknownColumn, match=r"there are device, ts, Value, it's$"):
        wk.query(by="qqq", time="ts", windows=window, aggs=wk.count()).run(table)


def test_what_is_meant_is_there() -> None:
    from windowkit.language.hints import CALLED

    for name, meant in CALLED.items():
        assert name not in dir(wk), f"{name!r} is a name of windowkit now"
        for path in re.findall(r"wk\.([\w.]+)", meant):
            there: object = wk
            for part in path.split("."):
                there = getattr(there, part)


@pytest.mark.parametrize("name", ["rank", "dense_rank", "ntile"])
def test_ranks_are_elsewhere(name: str) -> None:
    with pytest.raises(
        AttributeError, match=f"no attribute '{name}'; ranks are no aggregates: take those of"
    ):
        getattr(wk, name)


def test_what_is_meant_by_a_row_function_is_that_function() -> None:
    frame = pl.DataFrame({"t": [1, 2, 2, 5], "v": [10, 30, 20, 40]})
    v = pl.col("v")
    wanted = {
        "lead": v.shift(-1),
        "lag": v.shift(1),
        "cumsum": v.cum_sum(),
        "cummax": v.cum_max(),
        "cummin": v.cum_min(),
        "row_number": v.cum_count(),
    }
    for name, expression in wanted.items():
        with pytest.raises(AttributeError) as refused:
            getattr(wk, name)
        found = re.search(r"did you mean (.*)\?$", str(refused.value))
        assert found is not None
        framed = eval(found[1], {"wk": wk})
        result = wk.rolling(by=[], time="t", aggs=framed.alias("x")).run(frame)
        assert result["x"].to_list() == frame.select(expression).to_series().to_list(), name


def test_a_name_like_no_other_is_just_unknown() -> None:
    for name in ("qqqqqq", "__wrapped__", "_private"):
        with pytest.raises(AttributeError, match=rf"^module 'windowkit' has no attribute '{name}'$"):
            getattr(wk, name)


def test_a_star_brings_no_lazy_module() -> None:
    assert not {"spark", "kernels", "plot", "partition"} & set(wk.__all__)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: wk.tumbling("1 day", closed="right"), "closed: tumbling has no such argument; windows incl"),
        (lambda: wk.sliding("1 day", "1 hour", offset="6 hours"), "; where windows begin is start_time="),
        (
            lambda: wk.sum("v").over("1 day", min_periods=2),
            "min_periods: over has no such argument; frames",
        ),
        (lambda: wk.query(on="t"), "on: query has no such argument; the time column of a query is time="),
        (lambda: wk.join(on="k"), "on: join has no such argument; keys are by=, and times left_time= and ri"),
        (lambda: wk.join(time="t"), "time: join has no such argument; times are left_time= and right_time="),
        (
            lambda: wk.sliding("1 day", period="1 hour"),
            "period: sliding has no such argument; the length of a window is size=",
        ),
        (
            lambda: wk.sliding("1 day", every="1 hour"),
            "every: sliding has no such argument; how often a window begins is slide=",
        ),
        (
            lambda: wk.rolling(period="1 day"),
            "period: rolling has no such argument; an aggregate has its fra",
        ),
        (lambda: wk.join(left_on="t"), "left_on: join has no such argument; times are left_time= and right_"),
        (
            lambda: wk.session("1 day", at_mots="2 days"),
            "at_mots: session has no such argument; did you",
        ),
        (
            lambda: wk.session("1 day", max_duration="2 days"),
            "; the greatest length of a session is at_mo",
        ),
        (lambda: wk.tumbling("1 day", align_to=0), "; where windows begin is start_time="),
        (
            lambda: TYPICAL.operator(watermark="5 seconds"),
            "watermark: operator has no such argument; how far the watermark stays behind the rows is ",
        ),
        (lambda: TYPICAL.operator(grace="5 seconds"), "; how far the watermark stays behind the rows is pro"),
        (
            lambda: TYPICAL.operator(trigger=wk.rows(2)),
            "; when windows are emitted early is emit=windowkit",
        ),
    ],
)
def test_an_argument_of_elsewhere_leads_to_ours(call: Callable[[], object], meant: str) -> None:
    with pytest.raises(wk.InvalidType, match=re.escape(meant)):
        call()


def test_what_functions_raise_themselves_stays() -> None:
    with pytest.raises(TypeError, match="missing") as refused:
        wk.query(by="k")  # type: ignore[call-arg]
    assert not isinstance(refused.value, wk.WindowKitError)
    assert next(iter(inspect.signature(wk.tumbling).parameters)) == "size"
