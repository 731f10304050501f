"""Pictures of partitionings: what each method costs on some keys, or what is known that it costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from windowkit.errors import InvalidType, InvalidValue
from windowkit.language.checks import a_type, as_given
from windowkit.partition import METHODS, Cost, Partitioner, Rows, cost
from windowkit.plot.library import matplotlib_pyplot

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from windowkit.language.durations import Length
    from windowkit.language.windows import Tumbling

__all__ = ["partitioning"]

BEST: Final = "#e3f1e3"
CHOICES: Final = {"shuffle": "#7a7a7a", "hash": "#7a7a7a", "waterfill": "#2f6fb7"}
OTHER: Final = "#e0a526"
NEAR: Final = 0.05
ROOM: Final = 1.25
"""Axes reach beyond the outermost methods by this factor of their excess over 1."""
LEAST: Final = 1e-4
"""Excess over 1 that is drawn as none, on an axis whose scale is logarithmic."""


def partitioning(
    keys: Any,
    workers: int | None = None,
    *,
    methods: Sequence[str] = METHODS,
    candidates: int | None = None,
    cardinality: str = "hll",
    bias: float = 0.5,
    window: Tumbling | Length | Rows | None = None,
    times: Any = None,
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draw what each method costs on some keys: imbalance horizontally, aggregation cost vertically.

    The picture is that of Katsipoulakis et al. 2017, Fig. 4, with measured places: methods further right
    balance better, methods higher up aggregate less, and the best are in the quadrant at the upper right.

    Parameters
    ----------
    keys : Arrow data, or mapping of str to Cost
        Keys of rows, as `windowkit.partition.Partitioner.assign` takes them, which each method then assigns;
        or costs that are known already, by name.
    workers : int, optional
        Number of workers, with keys.
    methods : sequence of str
        Methods to try, with keys; at least one.
    candidates, cardinality, bias, window, seed
        As for `windowkit.partition.Partitioner`; `candidates` at most `workers`.
    times : Arrow array, optional
        Event times of the rows, in the order of windows.
    ax : matplotlib.axes.Axes, optional
        Where to draw; the current axes if None.

    Returns
    -------
    matplotlib.axes.Axes
        Those that were drawn on.

    Raises
    ------
    MissingMatplotlibError
        matplotlib cannot be imported.
    InvalidType, InvalidValue
        An argument is not as described above.

    Notes
    -----
    Both axes are ratios, 1 at best: rows of the fullest worker to the mean (Eq. 1), and the aggregation cost
    to the number of distinct keys (Eq. 2, Prop. 1). Their excess over 1 is drawn on a logarithmic scale, best
    at the right and at the top; quadrants meet in the middle. O(rows) for each method.

    Examples
    --------
    >>> import pyarrow as pa
    >>> import windowkit as wk
    >>> keys = pa.array(list("aaaaaaabcd") * 50)
    >>> hashed = wk.partition.cost(keys, wk.partition.Partitioner(3, "hash").assign(keys), workers=3)
    >>> wk.plot.partitioning({"ours": hashed}).get_title(loc="left")
    '500 rows of 4 keys over 3 workers'
    """
    pyplot = matplotlib_pyplot()
    costs = checked(keys) if isinstance(keys, Mapping) else None
    if costs is None:
        if workers is None:
            raise InvalidValue("workers: None is given with keys; workers is the number of workers")
        if isinstance(methods, str) or not isinstance(methods, Sequence):
            raise InvalidType(
                f"methods: {as_given(methods)} is {a_type(methods)}; methods is a sequence of names"
            )
        if not methods:
            raise InvalidValue("methods: the list is empty; allowed are " + ", ".join(map(repr, METHODS)))
        costs = {}
        for method in methods:
            partitioner = Partitioner(
                workers,
                method,
                candidates=candidates,
                cardinality=cardinality,
                bias=bias,
                window=window,
                seed=seed,
            )
            assignment = partitioner.assign(keys, times)
            costs[method] = cost(keys, assignment, workers=workers, window=window, times=times, bias=bias)
    elif workers is not None:
        raise InvalidValue(f"workers: {workers!r} is given with costs, which have their own")
    axes = pyplot.gca() if ax is None else ax
    draw(axes, costs)
    return axes


def checked(costs: Mapping[Any, Any]) -> dict[str, Cost]:
    """Return costs by name, all of the same rows.

    Raises
    ------
    InvalidType, InvalidValue
        They are not costs, or are not comparable.
    """
    if not costs:
        raise InvalidValue("keys: the mapping is empty; it has at least one cost")
    for name, each in costs.items():
        if not isinstance(name, str) or not isinstance(each, Cost):
            raise InvalidType(
                f"keys: {name!r} is mapped to {a_type(each)}; a mapping is of names to costs as "
                "windowkit.partition.cost returns them"
            )
    facts = {(each.rows, each.groups, each.workers) for each in costs.values()}
    if len(facts) > 1:
        raise InvalidValue(
            "keys: the costs are of different rows, keys or numbers of workers; one picture is of one input"
        )
    return dict(costs)


def draw(axes: Axes, costs: Mapping[str, Cost]) -> None:
    """Draw a point for each cost, and the quadrants."""
    first = next(iter(costs.values()))
    places = {name: (excess(each.load_ratio), excess(each.aggregation_ratio)) for name, each in costs.items()}
    worst = [max(10 * LEAST, *(place[axis] for place in places.values())) * ROOM for axis in (0, 1)]
    best = LEAST / ROOM
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(worst[0], best)
    axes.set_ylim(worst[1], best)
    middle = [math.sqrt(each * best) for each in worst]
    axes.fill_between([middle[0], best], middle[1], best, color=BEST, zorder=0, linewidth=0)
    axes.axvline(middle[0], color="0.7", linewidth=0.8, zorder=1)
    axes.axhline(middle[1], color="0.7", linewidth=0.8, zorder=1)
    axes.annotate("best", (0.98, 0.97), xycoords="axes fraction", ha="right", va="top", color="0.45")
    for name, at in places.items():
        axes.plot(*at, marker="o", color=CHOICES.get(name, OTHER), zorder=3, clip_on=False, linestyle="none")
    for names in neighbours(places, [worst[0] / best, worst[1] / best]):
        at = places[names[0]]
        right = at[0] > middle[0]
        axes.annotate(
            ", ".join(names),
            at,
            xytext=(8 if right else -8, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize="small",
        )
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(lambda value, _: "1" if value <= LEAST else f"{1 + value:.5g}")
        axis.set_minor_formatter(lambda *_: "")
    axes.set_xlabel("rows of the fullest worker / mean")
    axes.set_ylabel("aggregation cost / distinct keys")
    axes.set_title(
        f"{first.rows:,} rows of {first.groups:,} keys over {first.workers:,} workers",
        loc="left",
        fontsize="medium",
    )


def excess(ratio: float) -> float:
    return max(ratio - 1, LEAST)


def neighbours(places: Mapping[str, tuple[float, float]], spans: Sequence[float]) -> list[list[str]]:
    """Return names in groups whose labels would overlap: within a few hundredths of both axes."""
    groups: list[list[str]] = []
    for name, place in places.items():
        for group in groups:
            other = places[group[0]]
            if all(
                abs(math.log(place[axis] / other[axis])) < NEAR * math.log(spans[axis]) for axis in (0, 1)
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups
