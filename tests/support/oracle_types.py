"""The types of what a query answers, and the aggregates that mean something for a column of a type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

import windowkit as wk


def window_type(time_type: pa.DataType) -> pa.DataType:
    return pa.int64() if pa.types.is_integer(time_type) else time_type


def span_type(time_type: pa.DataType) -> pa.DataType:
    edge = window_type(time_type)
    return pa.struct([pa.field("start", edge, nullable=False), pa.field("end", edge, nullable=False)])


def sum_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 10), kind.scale)
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_duration(kind):
        return kind
    return pa.uint64() if pa.types.is_unsigned_integer(kind) else pa.int64()


def mean_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(kind):
        return pa.decimal128(min(38, kind.precision + 4), min(38, kind.scale + 4))
    return kind if pa.types.is_duration(kind) else pa.float64()


def output_type(function: str, kind: pa.DataType | None, time: pa.DataType) -> pa.DataType:
    """Return the type of an aggregate of a column of type `kind`, by times of type `time`."""
    by_function: dict[str, Callable[[Any], pa.DataType]] = {
        "sum": sum_type,
        "mean": mean_type,
        "median": quantile_type,
        "quantile": quantile_type,
    }
    if function.startswith("count") or function.endswith(("_count", "_count_distinct")):
        return pa.int64()
    if function == "hll_sketch":
        return pa.binary()
    if function.startswith(("var", "stddev", "geometric")):
        return pa.float64()
    if function.startswith("collect"):
        return pa.list_(pa.field("item", kind))
    if function in ("top_k", "frequent"):
        return pa.list_(pa.field("item", pa.struct([("value", kind), ("count", pa.int64())])))
    if function.startswith("m4"):
        names = ["min", "max", "first", "last"]
        pairs = [[(name, value_type(kind)), (f"{name}_time", time)] for name in names]
        return pa.struct([field for pair in pairs for field in pair[: 2 if function == "m4_times" else 1]])
    return by_function.get(function, value_type)(kind)


def quantile_type(kind: pa.DataType) -> pa.DataType:
    kind = value_type(kind)
    return kind if pa.types.is_temporal(kind) else pa.float64()


def value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def decoded(kind: pa.DataType) -> pa.DataType:
    """Return a type without the dictionaries in it."""
    if pa.types.is_list(kind):
        return pa.list_(pa.field("item", decoded(kind.value_type)))
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        return pa.struct([field.with_type(decoded(field.type)) for field in fields])
    return value_type(kind)


def is_number(kind: pa.DataType) -> bool:
    return pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)


def functions_of(kind: pa.DataType) -> list[Callable[[str], wk.Aggregate]]:
    """Return the aggregates that mean something for a column of type `kind`."""
    functions: list[Callable[[str], wk.Aggregate]] = [
        wk.count,
        wk.min,
        wk.max,
        wk.first,
        wk.last,
        lambda name: wk.first(name, ignore_nulls=True),
        lambda name: wk.last(name, ignore_nulls=True),
        wk.min_count,
        wk.max_count,
        lambda name: wk.arg_min(name, by=name),
        lambda name: wk.arg_max(name, by=name),
        wk.m4,
        lambda name: wk.m4(name, times=True),
        wk.count_distinct,
        wk.mode,
        lambda name: wk.top_k(name, 2),
        lambda name: wk.frequent(name, 0.25),
        lambda name: wk.quantile(name, 0.3, discrete=True),
        wk.collect_list,
        wk.collect_rows,
        wk.collect_set,
    ]
    plain_kind = value_type(kind)
    if is_number(plain_kind) or pa.types.is_duration(plain_kind):
        functions += [wk.sum, wk.mean]
    if is_number(plain_kind):
        functions += [wk.var_samp, wk.var_pop, wk.stddev_samp, wk.stddev_pop, wk.geometric_mean]
    if quantiles_interpolate(plain_kind):
        functions += [wk.median, lambda name: wk.quantile(name, 0.9), lambda name: wk.quantile(name, 1)]
    if not (pa.types.is_decimal(plain_kind) or is_text(plain_kind)):
        functions += [lambda name: wk.approx_quantile(name, 0.6)]
    if not pa.types.is_decimal(plain_kind):
        functions += [wk.approx_count_distinct, wk.hll_sketch]
    return functions


def quantiles_interpolate(kind: pa.DataType) -> bool:
    return is_number(kind) or pa.types.is_duration(kind) or pa.types.is_timestamp(kind)


def is_text(kind: pa.DataType) -> bool:
    tests = [pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view, pa.types.is_binary]
    tests += [pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary]
    return any(test(kind) for test in tests)
