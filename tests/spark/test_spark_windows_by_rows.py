"""Windows Spark does not offer: against row numbers, row frames and counted marks in Spark's own SQL."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as sf

import windowkit as wk

AGGS = [wk.count(), wk.sum("v"), wk.max("v"), wk.min("v")]
SQL = "count(1) as n, sum(v) as s, max(v) as g, min(v) as l"


@pytest.fixture(scope="module")
def frame(spark):
    """Rows in disorder, over several partitions; each key's times are unique, so that ranks are."""
    rows = spark.range(2_000).select(
        (sf.col("id") * 7919 % 5).alias("k"),
        sf.timestamp_micros(sf.col("id") * 15_485_863 % 2_000_003 * 1_000).alias("ts"),
        sf.expr("if(id % 7 = 3, null, double(id * 31 % 97))").alias("v"),
        sf.expr("if(id % 11 = 4, null, id % 13 = 0)").alias("m"),
    )
    rows = rows.repartition(5).cache()
    rows.createOrReplaceTempView("rows")
    return rows


def collected(frame):
    return sorted(map(tuple, frame.collect()), key=repr)


def check(frame, window, wanted):
    """Compare with a query of key, first time, last time, first rank, and the aggregates."""
    query = wk.query(by="k", time="ts", windows=window, aggs=AGGS)
    result = query.run(frame)
    assert result.columns == query.columns
    ranks = ["window_rows_start"] if query.has_ranks else []
    got = result.select("k", "window_start", "window_end", *ranks, *(f"`{a.name}`" for a in AGGS))
    assert collected(got) == collected(wanted)
    assert result.count() > 0


def test_tumbling_rows_are_groups_of_row_numbers(spark, frame):
    wanted = spark.sql(f"""
        select k, min(ts), max(ts), min(r), {SQL}
        from (select *, row_number() over (partition by k order by ts) - 1 as r from rows)
        group by k, r div 30 having count(1) = 30
    """)
    check(frame, wk.tumbling(rows=30), wanted)


def test_sliding_rows_are_row_frames(spark, frame):
    over = "over (partition by k order by ts rows between 19 preceding and current row)"
    wanted = spark.sql(f"""
        select k, first, ts, bigint(r - 19), n, s, g, l from (
            select k, ts, row_number() over (partition by k order by ts) - 1 as r,
                   min(ts) {over} as first, count(1) {over} as n, sum(v) {over} as s, max(v) {over} as g,
                   min(v) {over} as l
            from rows
        ) where r >= 19 and (r - 19) % 3 = 0
    """)
    check(frame, wk.sliding("20 rows", "3 rows"), wanted)


def test_the_last_time_every_row_is_a_range_frame(spark, frame):
    over = """over (partition by k order by unix_micros(ts)
                    range between 9999999 preceding and current row)"""
    wanted = spark.sql(f"""
        select k, ts - interval 10 seconds, ts, bigint(r - n), n, s, g, l from (
            select k, ts, row_number() over (partition by k order by ts) as r,
                   count(1) {over} as n, sum(v) {over} as s, max(v) {over} as g, min(v) {over} as l
            from rows
        )
    """)
    check(frame, wk.sliding("10 seconds", "1 row"), wanted)


def test_punctuation_is_a_count_of_marks_before(spark, frame):
    wanted = spark.sql(f"""
        select k, min(ts), max(ts), {SQL} from (
            select *, coalesce(sum(int(coalesce(m, false))) over (
                partition by k order by ts rows between unbounded preceding and 1 preceding), 0) as run
            from rows
        ) group by k, run
    """)
    check(frame, wk.punctuation("m"), wanted)


def test_bands_landmarks_and_all_rows_are_filters(spark, frame):
    zone = "1970-01-01 00:{}Z"
    band = wk.band(zone.format("05:00"), zone.format("20:00"))
    start, end = "timestamp '1970-01-01 00:05:00Z'", "timestamp '1970-01-01 00:20:00Z'"
    wanted = spark.sql(
        f"select k, {start}, {end}, {SQL} from rows where ts >= {start} and ts < {end} group by k"
    )
    check(frame, band, wanted)
    wanted = spark.sql(f"select k, min(ts), max(ts), {SQL} from rows group by k")
    check(frame, wk.global_window(), wanted)
    wanted = spark.sql(f"""
        select k, {start}, w.start + interval 5 minutes, {SQL}
        from (select distinct k as j, window(ts, '5 minutes') as w from rows where ts >= {start})
        join rows on k = j and ts >= {start} and ts < w.end group by k, w
    """)
    check(frame, wk.landmark("5 minutes", start=zone.format("05:00")), wanted)


def test_several_windows_have_ranks_where_they_are_by_rows(frame):
    windows = [
        wk.tumbling(rows=50).alias("rows"),
        wk.tumbling("10 minutes").alias("time"),
        wk.session("1 minute"),
    ]
    query = wk.query(by="k", time="ts", windows=windows, aggs=AGGS)
    result = query.run(frame)
    assert result.columns == query.columns
    ranks = sf.count("window_rows_start").alias("n")
    ranked = result.groupBy("window_name").agg(ranks, sf.count("*").alias("all"))
    by_name = {row["window_name"]: (row["n"], row["all"]) for row in ranked.collect()}
    assert by_name["rows"][0] == by_name["rows"][1] > 0
    assert by_name["time"][0] == 0 < by_name["time"][1]
    own = wk.query(by="k", time="ts", windows=windows[1], aggs=AGGS)
    of_time = result.where("window_name = 'time'").drop("window_name", "window_rows_start", "window_rows_end")
    assert collected(of_time) == collected(own.run(frame))
    table = result.toArrow()
    assert table.num_rows == result.count()
    assert table["window_rows_end"].null_count == sum(
        every for ranked, every in by_name.values() if not ranked
    )
    # As it is of a stream of batches that was written and read again.
    table.validate(full=True)


def high_values():
    """Windows of rows with v above 50 that follow each other; made here for workers without this module."""

    class Opened:
        began = None

        def notify(self, first, times, v):
            for rank, value in enumerate(v.to_pylist(), first):
                high = value is not None and value > 50
                if high and self.began is None:
                    self.began = rank
                elif not high and self.began is not None:
                    yield wk.Add(self.began, rank)
                    self.began = None

        def finish(self, rows):
            return [] if self.began is None else [wk.Add(self.began, rows)]

    class HighValues(wk.ContextAware):
        columns = ("v",)

        def open(self):
            return Opened()

    return HighValues()


def test_windows_of_users_run_in_workers(spark, frame):
    over = "over (partition by k order by ts)"
    wanted = spark.sql(f"""
        select k, min(ts), max(ts), {SQL}
        from (select *, row_number() {over} - sum(int(coalesce(v > 50, false))) {over} as run from rows)
        where v > 50 group by k, run
    """)
    check(frame, wk.custom(high_values()), wanted)


@pytest.mark.parametrize(
    ("window", "why"),
    [
        (wk.tumbling(rows=5), "windows of tumbling\\(5 rows\\) need rows in order"),
        (wk.sliding("5 rows", "1 second"), "need rows in order"),
        (wk.punctuation("m"), "need rows in order"),
        (wk.global_window(), "Catalyst cannot cut panes at single edges"),
        (wk.band("1970-01-01Z", "1970-01-02Z"), "Catalyst cannot cut panes at single edges"),
    ],
)
def test_rows_are_packed_and_other_routes_refused_with_the_reason(frame, window, why):
    query = wk.query(by="k", time="ts", windows=window, aggs=wk.sum("v"))
    text = query.explain(frame)
    assert "route: packed, as " in text
    packed = "are packed as they are, as "
    assert f"{packed}{window} needs the rows of a key in one place" in text or (
        isinstance(window, wk.Band | wk.Global) and f"{packed}not every slice has a start" in text
    )
    assert collected(query.run(frame)) == collected(query.run(frame, route="rows"))
    with pytest.raises(wk.InvalidValue, match=why):
        query.run(frame, route="catalyst-panes")
    with pytest.raises(wk.InvalidValue, match="Spark does not offer"):
        query.run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="Spark does not offer"):
        wk.spark.reference(frame, query)


def test_landmarks_of_periods_have_panes(frame, check):
    query = wk.query(by="k", time="ts", windows=wk.landmark("5 minutes", period="20 minutes"), aggs=AGGS)
    assert "route: catalyst-panes" in query.explain(frame)
    rows, panes = query.run(frame, route="rows"), query.run(frame)
    assert collected(rows) == collected(panes)
    # So slices of them are packed, too.
    holistic = wk.query(by="k", time="ts", windows=query.windows, aggs=wk.median("v"))
    assert "are packed as they are" not in holistic.explain(frame)
    assert collected(holistic.run(frame, route="packed")) == collected(holistic.run(frame, route="rows"))
