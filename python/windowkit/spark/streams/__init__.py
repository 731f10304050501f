"""Queries over streaming DataFrames: state by bucket of keys, exactly once."""

from windowkit.spark.streams.planner import explain, stream

__all__ = ["explain", "stream"]
