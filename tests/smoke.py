"""What an installed wheel must do with nothing but its dependencies; run from outside the source tree.

python -m venv empty && empty/bin/pip install windowkit-*.whl && empty/bin/python smoke.py
"""

import datetime as dt
import subprocess
import sys
import sysconfig
import tempfile
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet

import windowkit as wk

BEGIN = dt.datetime(2024, 1, 1)


def table() -> pa.Table:
    """Two readings a minute of two devices, out of order, one of them null."""
    minutes = [12, 1, 4, 7, 2]
    return pa.table(
        {
            "device": ["a", "a", "a", "b", "b"],
            "ts": pa.array(
                [BEGIN + dt.timedelta(minutes=each) for each in minutes], pa.timestamp("us", "UTC")
            ),
            "v": pa.array([5.0, 1.0, None, 2.0, 4.0]),
        }
    )


def rows(result: pa.Table) -> set[tuple[object, ...]]:
    """Return rows as tuples, the window as the minutes at which it starts and ends."""
    found = set()
    for row in result.to_pylist():
        edges = [
            (row.pop(edge).replace(tzinfo=None) - BEGIN) // dt.timedelta(minutes=1)
            for edge in ("window_start", "window_end")
        ]
        found.add((*edges, *row.values()))
    return found


def check_query() -> None:
    """A query over a table, by hand."""
    query = wk.query(
        by="device",
        time="ts",
        windows=wk.sliding("10 minutes", "5 minutes"),
        aggs=[wk.count(), wk.sum("v"), wk.max("v").alias("peak")],
    )
    result = query.run(table(), threads=2)
    names = ["device", "window_start", "window_end", "count(1)", "sum(v)", "peak"]
    assert result.column_names == names, result.column_names
    expected = {
        (-5, 5, "a", 2, 1.0, 1.0),
        (0, 10, "a", 2, 1.0, 1.0),
        (5, 15, "a", 1, 5.0, 5.0),
        (10, 20, "a", 1, 5.0, 5.0),
        (-5, 5, "b", 1, 4.0, 4.0),
        (0, 10, "b", 2, 6.0, 4.0),
        (5, 15, "b", 1, 2.0, 2.0),
    }
    assert rows(result) == expected, rows(result)
    assert result.num_rows == len(expected), result.num_rows


def check_command() -> None:
    """The command `windowkit` over a Parquet file."""
    command = Path(sysconfig.get_path("scripts")) / "windowkit"
    with tempfile.TemporaryDirectory() as directory:
        source, output = Path(directory, "readings.parquet"), Path(directory, "windows.parquet")
        pyarrow.parquet.write_table(table(), source)
        arguments = ["--input", source, "--output", output, "--by", "device", "--time", "ts"]
        arguments += [
            "--window",
            "tumbling(10 minutes)",
            "--agg",
            "count(*) as n",
            "--agg",
            "sum(v) as total",
        ]
        subprocess.run([command, "aggregate", *arguments], check=True, stdin=subprocess.DEVNULL)
        result = pyarrow.parquet.read_table(output)
    expected = {(0, 10, "a", 2, 1.0), (10, 20, "a", 1, 5.0), (0, 10, "b", 2, 6.0)}
    assert rows(result) == expected, rows(result)
    assert result.num_rows == len(expected), result.num_rows


def check_error() -> None:
    """An error of the Rust core arrives as the Python class it should be."""
    query = wk.query(by="machine", time="ts", windows=wk.tumbling("1 hour"), aggs=wk.count())
    try:
        query.run(table())
    except wk.UnknownColumn as error:
        message = str(error)
    else:
        message = "none"
    assert "machine" in message, message


def check_parts() -> None:
    """What can be used by itself: kernels, partitioners, sketches."""
    values = pa.array([4, None, 1, 3], pa.int64())
    assert wk.kernels.sliding_min(values, 2).to_pylist() == [4, 1, 1]
    assert wk.kernels.sliding_sum(values, 2, partial="start").to_pylist() == [4, 4, 1, 4]
    workers = wk.partition.Partitioner(4).assign(table()["device"])
    assert set(workers.to_pylist()) <= set(range(4)), workers
    assert round(wk.HyperLogLog().update(table()["device"]).estimate()) == 2


def check_licences() -> None:
    """What the module is compiled from is in the wheel, with its licences."""
    files = {path.name: path for path in metadata.files("windowkit") or []}
    assert "LICENSE" in files
    assert "arrow-array" in files["THIRD-PARTY.txt"].read_text()


def main() -> None:
    """Run all checks."""
    check_query()
    check_command()
    check_error()
    check_parts()
    check_licences()
    imported = {"pyspark", "pandas"} & set(sys.modules)
    assert not imported, f"importing and running windowkit imported {imported}"
    print(f"smoke: windowkit {wk.__version__} of {Path(wk.__file__).parent} works")


if __name__ == "__main__":
    main()
