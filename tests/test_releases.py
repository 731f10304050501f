"""Snapshots of all releases so far: each later one restores them, and goes on as if it had made them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import datasketches
import pyarrow as pa
import pytest

import windowkit as wk
from support.plain import assert_near
from support.releases import (
    BATCH,
    COUNTS,
    FOLDER,
    NEXT,
    PARTITIONERS,
    ROWS,
    SIDES,
    STREAMS,
    Followed,
    FollowedSides,
    keys_of,
    known_names,
)
from windowkit.partition import Partitioner


def files(kind: str) -> list[Any]:
    found = sorted(FOLDER.glob(f"*/*.{kind}"))
    return [pytest.param(path, id=f"{path.parent.name} {path.stem}") for path in found]


def test_there_are_snapshots_of_every_kind_of_each_release() -> None:
    releases = [folder for folder in FOLDER.iterdir() if folder.is_dir() and folder != NEXT]
    assert releases
    for folder in releases:
        kinds = [len(list(folder.glob(f"*.{kind}"))) for kind in ("operator", "hll", "partitioner")]
        assert kinds[0] >= 13
        assert kinds[1:] == [9, 4]
    # What no release has yet.
    unreleased = {path.stem for kind in ("operator", "sides") for path in NEXT.glob(f"*.{kind}")}
    assert unreleased == (STREAMS.keys() | SIDES.keys()) - known_names()


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("path", files("operator"))
def test_an_operator_goes_on(path: Path, rewritten: bool) -> None:
    """What is emitted after the snapshot are windows, or updates of windows, that were emitted before it.

    So it is if this release takes a snapshot of its own first.
    """
    followed = Followed(STREAMS[path.stem])
    followed.go(0, ROWS // BATCH // 2)
    before = followed.op
    followed.op = wk.Operator.restore(path.read_bytes(), dict(before.queries))
    if rewritten:
        followed.op = wk.Operator.restore(followed.op.snapshot(), dict(before.queries))
    assert (followed.op.watermark, followed.op.schema) == (before.watermark, before.schema)
    followed.go(ROWS // BATCH // 2, ROWS // BATCH)
    followed.close()
    expected = json.loads(path.with_suffix(".json").read_text())
    got = json.loads(json.dumps(followed.windows()))
    assert len(got) == len(expected) > 5
    for wanted, window in zip(sorted(expected, key=repr_of), sorted(got, key=repr_of), strict=True):
        assert window[:4] == wanted[:4]
        for value, other in zip(wanted[4], window[4], strict=True):
            if isinstance(value, dict) and "any of" in value:
                assert other in value["any of"]
            else:
                assert_near(value, other)
    assert followed.op.take_late()["late_reason"].unique().to_pylist() == ["null time"]


@pytest.mark.parametrize("rewritten", [False, True])
@pytest.mark.parametrize("path", files("sides"))
def test_a_join_or_a_stream_without_duplicates_goes_on(path: Path, rewritten: bool) -> None:
    followed = FollowedSides(path.stem)
    followed.go_half()
    followed.restore(path.read_bytes())
    if rewritten:
        followed.restore(followed.op.snapshot())
    rest = followed.rest()
    assert json.loads(json.dumps(rest)) == json.loads(path.with_suffix(".json").read_text())
    assert len(rest) > 5


def repr_of(window: list[Any]) -> str:
    return repr(window[:4])


@pytest.mark.parametrize("path", files("hll"))
def test_a_sketch_is_read_and_united(path: Path) -> None:
    """Apache's library reads it, too."""
    count = COUNTS[path.stem.split("-")[0]]
    sketch = wk.HyperLogLog.from_bytes(path.read_bytes())
    apache = datasketches.hll_sketch.deserialize(path.read_bytes())
    assert sketch.estimate() == pytest.approx(apache.get_estimate(), rel=1e-9)
    assert sketch.estimate() == pytest.approx(count, rel=0.05)
    values = [f"value {number}" for number in range(count + 50)]
    sketch.update(pa.array(values))
    assert sketch.estimate() == pytest.approx(len(values), rel=0.05)


@pytest.mark.parametrize("path", files("partitioner"))
def test_a_partitioner_goes_on(path: Path) -> None:
    restored = Partitioner.restore(path.read_bytes(), **PARTITIONERS[path.stem])
    expected = json.loads(path.with_suffix(".workers.json").read_text())
    assert restored.assign(keys_of(600, 900)).to_pylist() == expected
