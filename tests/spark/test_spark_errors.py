"""What does not fit is refused while planning, with a clear message, and before Spark starts a job."""

import re

import pytest

import windowkit as wk
import windowkit.spark

TUMBLING = wk.tumbling("1 minute")
SLIDING = wk.sliding("1 minute", "20 seconds")


def query(by="device", time="ts", windows=SLIDING, aggs=None):
    return wk.query(by=by, time=time, windows=windows, aggs=aggs or wk.count())


REFUSED = {
    "unknown key": (query(by="devise"), wk.UnknownColumn, "devise"),
    "unknown time": (query(time="t"), wk.UnknownColumn, "'?t'?.*ts"),
    "unknown value": (query(aggs=wk.sum("vv")), wk.UnknownColumn, "vv"),
    "a path is no name": (query(aggs=wk.sum("nested.x")), wk.UnknownColumn, "nested.x"),
    "text has no sum": (query(aggs=wk.sum("device")), wk.InvalidType, "device"),
    "a struct has no sum": (query(aggs=wk.sum("nested")), wk.InvalidType, "nested"),
    "text is no time": (query(time="device"), wk.InvalidType, "device"),
    "a float is no time": (query(time="v"), wk.InvalidType, "'v'"),
    "a duration over integers": (query(time="n"), wk.InvalidType, "'n'"),
    "integers over timestamps": (query(windows=wk.tumbling(10)), wk.InvalidType, "'ts'"),
    "finer than timestamps": (query(windows=wk.tumbling("1500 nanoseconds")), wk.InvalidValue, "finer|unit"),
    "finer than dates": (query(time="day", windows=wk.tumbling("1 hour")), wk.InvalidValue, "'day'"),
    "rows as they arrive": (
        query(windows=wk.sliding("1 minute", "5 rows", order="arrival")),
        wk.InvalidValue,
        "counts rows in the order of arrival",
    ),
    "variant": (query(aggs=wk.max("json")), wk.InvalidType, "'json' has type variant"),
    "months": (query(by="months"), wk.InvalidType, "'months' has type interval"),
    "other orders of text": (query(by="folded"), wk.InvalidType, "'folded' has type string collate"),
    "a map is no key": (query(by="map"), wk.InvalidType, "map"),
    "repeated": (query(aggs=wk.max("twice")), wk.InvalidValue, "'twice' is ambiguous"),
}


@pytest.fixture
def frame(readings):
    columns = [
        "*",
        "date(ts) as day",
        "struct(n as x) as nested",
        "parse_json('1') as json",
        "interval 2 months as months",
        "device collate UTF8_LCASE as folded",
        "map(n, v) as map",
        "1 as twice",
        "2 as twice",
    ]
    return readings.selectExpr(*columns)


@pytest.fixture(autouse=True)
def no_job(spark, readings):
    readings.count()
    spark.sparkContext.setJobGroup("refused", "what must not start")
    yield
    started = spark.sparkContext.statusTracker().getJobIdsForGroup("refused")
    spark.sparkContext._jsc.clearJobGroup()
    assert list(started) == []


@pytest.mark.parametrize("name", REFUSED)
def test_a_query_that_does_not_fit(frame, name):
    refused, kind, message = REFUSED[name]
    for ask in (windowkit.spark.aggregate, windowkit.spark.explain, windowkit.spark.reference):
        with pytest.raises(kind, match=message):
            ask(frame, refused)


def test_a_stream(spark):
    stream = spark.readStream.format("rate").load()
    with pytest.raises(wk.InvalidValue, match="streaming DataFrame"):
        windowkit.spark.aggregate(stream, query(by="value", time="timestamp"))


def test_a_route_that_is_none(frame):
    with pytest.raises(
        wk.InvalidValue,
        match=r"'fast' is unknown; allowed are 'scan', 'catalyst', 'catalyst-panes', 'packed', 'rows'",
    ):
        query().run(frame, route="fast")
    with pytest.raises(wk.InvalidType, match="route: 3 is an int"):
        query().run(frame, route=3)


def test_a_route_that_cannot(frame):
    session = wk.session("1 minute")
    reasons = {
        SLIDING: f"a row may be in several windows of {SLIDING}",
        session: f"{session} depends on rows",
    }
    for windows, reason in reasons.items():
        with pytest.raises(wk.InvalidValue, match=re.escape(reason)):
            query(windows=windows).run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="there are several windows"):
        query(windows=[TUMBLING, wk.tumbling("1 hour")]).run(frame, route="catalyst")
    with pytest.raises(wk.InvalidValue, match="day is not a timestamp"):
        query(time="day", windows=wk.tumbling("1 day")).run(frame, route="catalyst")


def test_arguments_of_another_kind(frame):
    with pytest.raises(wk.InvalidType, match="df: a list is given"):
        windowkit.spark.aggregate([], query())
    with pytest.raises(wk.InvalidType, match="query: a str is given"):
        windowkit.spark.aggregate(frame, "sum(v)")


def test_spark_has_no_windows_over_dates_to_refer_to(frame):
    with pytest.raises(wk.InvalidType, match="Spark's own windows are over timestamps"):
        windowkit.spark.reference(frame, query(time="day", windows=wk.tumbling("1 day")))


@pytest.mark.parametrize(
    ("column", "name"),
    [
        ("'x'", "string"),
        ("current_timestamp()", "timestamp"),
        ("array(1L)", "array<bigint>"),
        ("named_struct('a', true)", "struct<a:boolean>"),
        ("map('k', 1.5BD)", r"map<string,decimal\(2,1\)>"),
    ],
)
def test_types_have_sparks_names(spark, column, name):
    df = spark.range(1).selectExpr("id as t", f"{column} as x")
    wanted = wk.query(by=[], time="t", windows=wk.tumbling(10), aggs=wk.sum("x"))
    for call in (wanted.run, wanted.explain, lambda df: wk.spark.aggregate(df, wanted)):
        with pytest.raises(wk.InvalidType, match=f"column 'x' of type {name}; allowed are"):
            call(df)
