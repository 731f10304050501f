"""Random rows and random queries: every route answers as Spark does."""

import pyarrow as pa
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

import windowkit as wk

# Few lengths, of which some divide others and some do not, and times on and beside their edges.
LENGTHS = [1, 2, 3, 5, 6, 8]


def seconds(length):
    return f"{length} seconds"


sliding = st.tuples(st.sampled_from(LENGTHS), st.sampled_from(LENGTHS), st.integers(-7, 7)).map(
    lambda drawn: wk.sliding(
        seconds(max(drawn[:2])),
        seconds(min(drawn[:2])),
        start_time=seconds(drawn[2] % min(drawn[:2])) if drawn[2] else None,
    )
)
windows = st.lists(
    st.one_of(
        sliding,
        st.sampled_from(LENGTHS).map(lambda length: wk.tumbling(seconds(length))),
        st.sampled_from(LENGTHS).map(lambda length: wk.session(seconds(length))),
    ),
    min_size=1,
    max_size=3,
    unique_by=lambda window: window.name,
)
AGGS = [
    wk.count(),
    wk.count("v"),
    wk.sum("v"),
    wk.mean("v"),
    wk.min("v"),
    wk.max("v"),
    wk.var_samp("v"),
    wk.stddev_pop("v"),
    wk.sum("n"),
    wk.mean("n"),
    wk.max("n"),
    wk.first("us"),
    wk.last("us"),
    wk.first("odd", ignore_nulls=True).alias("first odd"),
    wk.last("odd"),
    # Of what is equal in rows of one time.
    wk.collect_rows("us"),
]
aggs = st.lists(st.sampled_from(AGGS), min_size=1, max_size=6, unique=True)
by = st.sampled_from([[], ["k"], ["k", "j"], ["x"]])
time = st.integers(-20, 20).flatmap(
    lambda s: st.sampled_from([s * 1_000_000, s * 1_000_000 + 1, s * 250_000])
)
row = st.tuples(
    st.one_of(st.none(), st.sampled_from(["a", "b", ""])),
    st.integers(0, 1),
    st.one_of(st.none(), st.sampled_from([0.0, -0.0, float("nan"), 1.5])),
    st.one_of(time, time, time, st.none()),
    st.one_of(st.none(), st.integers(-800, 800).map(lambda eighths: eighths / 8), st.just(float("nan"))),
    st.one_of(st.none(), st.integers(-(2**31), 2**31), st.integers(-(2**55), 2**55)),
)
rows = st.lists(row, max_size=60)


@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    phases=[Phase.explicit, Phase.generate, Phase.shrink],
)
@given(
    rows=rows,
    by=by,
    windows=windows,
    aggs=aggs,
    form=st.sampled_from(["flat", "struct"]),
    zoned=st.booleans(),
    partitions=st.integers(1, 5),
)
def test_random_queries(from_arrow, check, rows, by, windows, aggs, form, zoned, partitions):
    k, j, x, us, v, n = zip(*rows, strict=True) if rows else [[]] * 6
    frame = from_arrow(
        {
            "k": pa.array(k, pa.string()),
            "j": pa.array(j, pa.int8()),
            "x": pa.array(x, pa.float64()),
            "ts": pa.array(us, pa.timestamp("us", tz="UTC" if zoned else None)),
            "us": pa.array(us, pa.int64()),
            "odd": pa.array([at if at is not None and at % 2 else None for at in us], pa.int64()),
            "v": pa.array(v, pa.float64()),
            "n": pa.array(n, pa.int64()),
        },
        partitions,
    )
    query = wk.query(by=by, time="ts", windows=windows, aggs=aggs, window_columns=form)
    check(frame, query, tolerance=1e-6)
