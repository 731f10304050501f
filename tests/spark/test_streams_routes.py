"""Streams by operators and by Spark's own aggregation: the same rows, and a rule that chooses."""

from __future__ import annotations

import random
import re
import runpy
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as sf

import windowkit as wk
import windowkit.spark
from support.spark import plain
from support.spark_runs import SECOND, Rows, everything, mixed, run_stream, table

pytestmark = pytest.mark.usefixtures("rocksdb")
BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"

TUMBLING = wk.tumbling("30 seconds", start_time="5 seconds")
AGGS = [
    wk.count().alias("n"),
    wk.count().where("mark").alias("marks"),
    wk.sum("v"),
    wk.mean("v"),
    wk.min("v"),
    wk.max("k").alias("key"),
    wk.max("v"),
    wk.first("v"),
    wk.last("v"),
    wk.median("v"),
    wk.collect_set("v"),
    wk.arg_max("v", "ts").alias("latest"),
]
QUERY = wk.query(by="k", time="ts", windows=wk.tumbling("1 minute"), aggs=wk.sum("v"))


def by_batch(found: dict[int, list[Any]]) -> dict[int, list[str]]:
    return {number: sorted(map(repr, rows)) for number, rows in found.items() if rows}


def drawn(draw: random.Random) -> list[Rows]:
    """Return rows in disorder: null keys and times, a time before 1970, batches of few rows and of none.

    No key has two rows at one time, where Spark has no order of rows.
    """
    taken: set[Any] = set()
    batches: list[Rows] = []
    for number in range(draw.randrange(3, 6)):
        rows: Rows = []
        for _ in range(draw.choice([0, 1, 5, 20])):
            key = draw.choice(["a", "b", "c", None])
            at = None if draw.random() < 0.05 else 12.0 * number + draw.randrange(60) / 2 - 10
            # 158,000 years before 1970.
            at = -5e12 if draw.random() < 0.05 else at
            if at is None or (key, at) not in taken:
                taken.add((key, at))
                rows.append((key, at, draw.choice([None, draw.randrange(8) / 2])))
        batches.append(rows)
    return [*batches, [("z", 5000.0, 1.0)], [("z", 9000.0, 1.0)]]


@pytest.mark.parametrize("seed", range(4))
def test_both_routes_return_the_same_rows(source, settings, tmp_path, seed):
    """By batch, with late rows; and without late rows those of a batch, whatever the session's zone."""
    draw = random.Random(seed)
    batches, delay = drawn(draw), draw.choice(["1 second", "200 seconds"])
    window = TUMBLING if seed % 2 else wk.session(draw.choice(["4 seconds", "2500 milliseconds"]))
    mode = draw.choice(["append", "update"]) if seed % 2 else "append"
    query = wk.query(by="k", time="ts", windows=window, aggs=draw.sample(AGGS, 4))
    frame = source(*batches, delay=delay)
    drawn_settings = {
        "spark.sql.session.timeZone": draw.choice(["UTC", "Asia/Kolkata"]),
        "spark.sql.retainGroupColumns": draw.choice(["true", "false"]),
    }
    with settings(drawn_settings):
        ours = query.run(frame, output_mode=mode, route="operator")
        sparks = query.run(frame, output_mode=mode, route="catalyst")
        assert ours.dtypes == sparks.dtypes
        wanted, _ = run_stream(ours, tmp_path / "operator", mode)
        found, progress = run_stream(sparks, tmp_path / "catalyst", mode)
    assert by_batch(found) == by_batch(wanted)
    assert everything(found)
    assert "StateStoreSave" in progress.lastProgress.stateOperators[0].operatorName.replace("s", "S", 1)
    if mode == "append" and delay == "200 seconds":
        whole = query.run(pa.concat_tables(map(table, batches)))
        ends = whole["window_end"].cast(pa.int64())
        # Spark's watermark begins at 1970, so that earlier windows are late.
        final = whole.filter(pc.and_(pc.greater(ends, 0), pc.less(ends, 8000 * SECOND)))
        assert everything(found) == sorted(repr(row) for row in zip(*map(plain, final.columns), strict=True))


def test_sessions_by_a_column_of_gaps(source, tmp_path):
    """They end at different times after a row, and a gap that is null or not positive makes none."""
    gap = sf.expr("make_dt_interval(0, 0, 0, cast(nullif(v, 1) as int) * 3 - 1)")
    frame = source(*mixed(3), [("z", 5000.0, 2.0)], [("z", 9000.0, 2.0)]).withColumn("gap", gap)
    query = wk.query(by="k", time="ts", windows=wk.session("gap"), aggs=[wk.count(), wk.sum("v")])
    found, _ = run_stream(query.run(frame, route="catalyst"), tmp_path / "catalyst")
    wanted, _ = run_stream(query.run(frame, route="operator"), tmp_path / "operator")
    assert by_batch(found) == by_batch(wanted)
    assert len(everything(found)) > 10


class TestTheRule:
    def chosen(self, frame: Any, query: wk.Query = QUERY, **options: Any) -> str:
        """Return the line of `explain` that says what is chosen and why, and see that it is what runs."""
        (line,) = re.findall("^route: .*$", query.explain(frame, **options), re.MULTILINE)
        assert query.run(frame, **options).isStreaming
        return line

    def of(self, window: Any, *aggs: Any) -> wk.Query:
        return wk.query(by="k", time="ts", windows=window, aggs=[wk.count(), *aggs])

    def test_spark_answers_what_it_can(self, source):
        own = "route: catalyst, Spark's own aggregation with its state, as Spark answers "
        assert self.chosen(source()) == f"{own}one tumbling window itself"
        assert self.chosen(source(), output_mode="update") == f"{own}one tumbling window itself"
        assert self.chosen(source(), self.of(wk.session("9 seconds"))) == f"{own}sessions itself"
        assert "  operator: possible, and in RocksDB faster" in QUERY.explain(source())
        for nothing in (0, "0 seconds"):
            assert self.chosen(source(), allowed_lateness=nothing) == f"{own}one tumbling window itself"

    def test_all_else_needs_operators(self, source):
        def why(query: wk.Query = QUERY, **options: Any) -> str:
            line = self.chosen(source(), query, **options)
            assert line.startswith("route: operator, as ")
            return line.removeprefix("route: operator, as ")

        assert "several windows" in why(self.of([wk.tumbling("9 seconds"), wk.session("9 seconds")]))
        assert "in several windows" in why(self.of(wk.sliding("2 minutes", "1 minute")))
        assert "all values of v whole in each batch" in why(self.of(TUMBLING, wk.median("v")))
        assert "no update mode of sessions" in why(self.of(wk.session("9 seconds")), output_mode="update")
        assert "sessions over a stream without keys" in why(replace(self.of(wk.session("9 seconds")), by=()))
        assert "no maximum length" in why(self.of(wk.session("9 seconds", at_most="1 minute")))
        assert "no emission policies" in why(replace(QUERY, emit=wk.emit(wk.rows(3))))
        for name, value in {"allowed_lateness": "1 hour", "late_rows": True, "buckets": 2}.items():
            assert f"does not have {name}={value!r}" in why(**{name: value})
        assert "does not have metrics_name='counted'" in why(metrics_name="counted")
        assert why(route="operator") == "it is requested"

    @pytest.mark.parametrize("store", ["RocksDB", "HDFSBacked"])
    def test_cells_of_the_benchmark(self, source, settings, monkeypatch, store):
        """Those in which Spark's own plan is the fastest known take that plan, so that none is slower."""
        monkeypatch.syspath_prepend(str(BENCHMARKS))
        bench = runpy.run_path(str(BENCHMARKS / "spark_streams.py"), run_name="cells")
        taken = set()
        with settings({bench["STORE"]: f"{bench['STATE']}.{store}StateStoreProvider"}):
            for name, cell in bench["CELLS"].items():
                query = wk.query(by="k", time="ts", windows=cell.window, aggs=cell.agg)
                if store == "HDFSBacked" and not cell.is_sparks:
                    with pytest.raises(
                        wk.InvalidValue, match=r"route 'operator', taken as .*, needs RocksDB"
                    ):
                        query.run(source(), output_mode=cell.mode)
                    continue
                line = self.chosen(source(), query, output_mode=cell.mode)
                if line.startswith("route: catalyst, Spark's own aggregation"):
                    taken.add(name)
                    plan = query.run(source(), output_mode=cell.mode)._jdf.queryExecution().analyzed()
                    assert not re.search(
                        "arrow|python|transformwithstate", str(plan.toString()), re.IGNORECASE
                    )
        assert taken == {name for name, cell in bench["CELLS"].items() if cell.is_sparks}
        assert taken >= {name for name, goal in bench["GOALS"].items() if goal < 1}

    def test_other_stores_have_sparks_own_state_alone(self, source, settings, tmp_path):
        store = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
        query = self.of(TUMBLING, wk.median("v"))
        wanted, _ = run_stream(query.run(source(*mixed(3))), tmp_path / "rocksdb")
        with settings({"spark.sql.streaming.stateStore.providerClass": store}):
            line = self.chosen(source(), query)
            found, _ = run_stream(query.run(source()), tmp_path / "hdfs")
        assert line.endswith("as operators keep no state in HDFSBackedStateStoreProvider")
        assert by_batch(found) == by_batch(wanted)

    def test_spark_aggregates_no_state_in_avro(self, source, settings, tmp_path):
        with settings({"spark.sql.streaming.stateStore.encodingFormat": "Avro"}):
            with pytest.raises(PySparkException, match="not supported for operator=aggregation"):
                run_stream(source().groupBy("k").count(), tmp_path / "sparks", "update")
            assert "keeps no state in Avro" in self.chosen(source(*mixed(3)))
            found, _ = run_stream(QUERY.run(source()), tmp_path / "avro")
            with pytest.raises(wk.InvalidValue, match=r"route: 'catalyst' cannot .* keeps no state in Avro"):
                QUERY.run(source(), route="catalyst")
        wanted, _ = run_stream(QUERY.run(source()), tmp_path / "default")
        assert by_batch(found) == by_batch(wanted)

    def test_what_spark_does_not_compute_is_refused(self, source):
        def refused(message: str, query: wk.Query = QUERY, **options: Any) -> None:
            with pytest.raises(wk.InvalidValue, match=re.escape(message)):
                query.run(source(), route="catalyst", **options)

        refused("a row may be in several windows", self.of(wk.sliding("2 minutes", "1 minute")))
        refused("knows no watermark of", self.of(wk.tumbling("1 day", zone="Europe/Berlin")))
        refused("no distinct values over a stream", self.of(TUMBLING, wk.count_distinct("v")))
        refused("no emission policies", replace(QUERY, emit=wk.emit(wk.rows(3))))
        refused("allowed_lateness: '1 hour' is given with route='catalyst'", allowed_lateness="1 hour")
        refused("late_rows: True is given with route='catalyst'", late_rows=True)
        with pytest.raises(wk.InvalidValue, match="has no watermark"):
            QUERY.run(source(delay=None), route="catalyst")


def test_a_checkpoint_goes_on_with_its_route_and_its_query(source, settings, tmp_path):
    """Spark notices before the first row, by the types of its state."""
    frame = source(*mixed(2))
    first, _ = run_stream(QUERY.run(frame), tmp_path / "catalyst")
    run_stream(QUERY.run(frame, route="operator"), tmp_path / "operator")
    source([(None, 150.0, 1.0)], [("a", 400.0, 1.0), ("b", 400.0, 1.0)])
    for name, route in {"catalyst": "operator", "operator": "catalyst"}.items():
        with pytest.raises(PySparkException, match="operator name does not match"):
            run_stream(QUERY.run(frame, route=route), tmp_path / name)
    others: dict[str, tuple[wk.Query, dict[str, Any]]] = {
        "function": (replace(QUERY, aggs=(wk.max("v").alias("sum(v)"),)), {}),
        "length": (replace(QUERY, windows=(wk.tumbling("2 minutes"),)), {}),
        "rows": (QUERY, {"where": "k is null"}),
        "mode": (QUERY, {"output_mode": "update"}),
        "start": (replace(QUERY, windows=(wk.tumbling("1 minute", start_time="30 seconds"),)), {}),
    }
    message = "STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE"
    for name, (query, options) in others.items():
        shutil.copytree(tmp_path / "catalyst", tmp_path / name)
        result, mode = query.run(frame, **options), options.get("output_mode", "append")
        with pytest.raises(PySparkException, match=re.escape(message)):
            run_stream(result, tmp_path / name, mode)
    # What says the same is the same query, and the session's zone moves no instant.
    same = replace(QUERY, windows=(wk.tumbling("60 seconds", start_time="0 seconds"),))
    with settings({"spark.sql.session.timeZone": "Asia/Kolkata"}):
        again, _ = run_stream(same.run(frame), tmp_path / "catalyst")
    wanted, _ = run_stream(QUERY.run(frame), tmp_path / "at once")
    assert sorted(everything(first) + everything(again)) == everything(wanted)
    assert everything(first)
    assert everything(again)
    # In update mode, only the windows of new rows are returned, of which the state has none.
    changes = {"output_mode": "update"}
    for name, query in {"max": others["function"][0], "long": others["length"][0]}.items():
        run_stream(QUERY.run(frame, **changes), tmp_path / f"updates {name}", "update")
        source([("c", 700.0, 1.0)])
        with pytest.raises(PySparkException, match=message):
            run_stream(query.run(frame, **changes), tmp_path / f"updates {name}", "update")
    # Spark's own aggregation has a state of other types.
    grouped = frame.groupBy("k", sf.window("ts", "1 minute")).agg(sf.sum("v"))
    run_stream(grouped, tmp_path / "sparks")
    source([("a", 800.0, 1.0)])
    with pytest.raises(PySparkException, match="schema"):
        run_stream(QUERY.run(frame), tmp_path / "sparks")
