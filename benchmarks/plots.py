"""The pictures of benchmarks: bars of ratios, and curves of rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

COLORS = ("#e0a526", "#2f6fb7", "#8fb4dd")
LINES = ("#2f6fb7", "#e0a526", "#3a9b62", "#7d5ba6", "#8fb4dd", "#b5713a", "#202020", "#d48cb0")


def plot(cells: Sequence[str], ratios: Mapping[str, Sequence[float]], title: str, path: Path) -> None:
    """Draw a bar per cell and peer, from 1 to its ratio, on a logarithmic scale.

    Parameters
    ----------
    cells : sequence of str
        From top to bottom.
    ratios : mapping of str to sequence of float
        For each peer, in the order of `cells`, its time as a multiple of windowkit's.
    title : str
    path : Path
        Of the PNG.
    """
    with canvas(path, (8.5, 0.44 * len(cells) + 1.6)) as (figure, ((axes,),)):
        thickness = 0.8 / len(ratios)
        for number, (peer, own) in enumerate(ratios.items()):
            for at, ratio in enumerate(own):
                y = at + thickness * (number - (len(ratios) - 1) / 2)
                label = peer if at == 0 else None
                axes.barh(y, ratio - 1, thickness * 0.92, left=1, color=COLORS[number], label=label)
                axes.text(max(ratio, 1) * 1.03, y, f"{ratio:.1f}×", va="center", fontsize=8)
        axes.axvline(1, color="black", linewidth=1)
        axes.set_xscale("log")
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, 0.9), high * 1.6)
        name_rows(axes, cells, "time of the peer / time of windowkit (log scale)")
        axes.set_title(title, loc="left", fontsize=11)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.grid(True, which="major", color="0.9")
        axes.set_axisbelow(True)
        figure.legend(frameon=False, loc="outside lower right", ncols=len(ratios))


def curves(
    lines: Mapping[str, Sequence[tuple[float, float]]],
    title: str,
    x: str,
    y: str,
    path: Path,
    linear_x: bool = False,
) -> None:
    """Draw a line per side through its points, both scales logarithmic unless `x` is a share in percent.

    Parameters
    ----------
    lines : mapping of str to sequence of (float, float)
        For each side, in the order of the legend, its points.
    title, x, y : str
        Of the picture and its axes.
    path : Path
        Of the PNG.
    linear_x : bool
        Whether `x` has a linear scale, as it must if it has zeros.
    """
    with picture(title, path, 4.6) as axes:
        for number, (side, points) in enumerate(lines.items()):
            ours = side == "windowkit"
            copying = side.startswith("memcpy")
            axes.plot(
                *zip(*points, strict=True),
                marker="o",
                markersize=5 if ours else 3.5,
                linewidth=2.4 if ours else 1.3,
                linestyle=":" if copying else "-",
                color="#c0392b" if ours else "0.55" if copying else LINES[number % len(LINES)],
                label=side,
                zorder=3 if ours else 2,
            )
        axes.set_yscale("log")
        if not (linear_x or x.endswith("%")):
            axes.set_xscale("log", base=2)
            axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        axes.set_xlabel(x)
        axes.set_ylabel(y)


def name_rows(axes: Any, rows: Sequence[str], x: str) -> None:
    """Label rows, from top to bottom, and their scale."""
    axes.set_yticks(range(len(rows)), list(rows))
    axes.invert_yaxis()
    axes.set_xlabel(x)


def dots(
    rows: Sequence[str], values: Mapping[str, Mapping[str, float]], title: str, x: str, path: Path
) -> None:
    """Draw a row of dots for each of `rows`, one a side, on a logarithmic scale.

    Parameters
    ----------
    rows : sequence of str
        From top to bottom.
    values : mapping of str to mapping of str to float
        For each side, in the order of the legend, its value in each row that it is in.
    title, x : str
        Of the picture and its scale.
    path : Path
        Of the PNG.
    """
    with picture(title, path, 0.3 * len(rows) + 1.4) as axes:
        for number, (side, own) in enumerate(values.items()):
            points = [(own[row], at) for at, row in enumerate(rows) if row in own]
            color = LINES[number % len(LINES)]
            axes.plot(*zip(*points, strict=True), "o", markersize=5, color=color, label=side)
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:,g}")
        name_rows(axes, rows, x)


def groups(
    rows: Sequence[str], values: Mapping[str, Mapping[str, float]], title: str, x: str, path: Path
) -> None:
    """Draw a group of bars for each of `rows`, one a side, from zero; the parameters are those of `dots`."""
    thickness = 0.8 / len(values)
    with picture(title, path, 0.2 * len(rows) * len(values) + 1.4) as axes:
        for number, (side, own) in enumerate(values.items()):
            for at, row in enumerate(rows):
                if row in own:
                    y = at + thickness * (number - (len(values) - 1) / 2)
                    axes.barh(y, own[row], thickness * 0.92, color=LINES[number % len(LINES)], label=side)
                    axes.text(own[row], y, f" {own[row]:,g}", va="center", fontsize=7)
                    side = "_"  # Names that begin so are not in the legend.
        name_rows(axes, rows, x)


def stacks(
    rows: Mapping[str, Mapping[str, float]], title: str, x: str, path: Path, least: float = 0.0
) -> None:
    """Draw a bar for each of `rows`, of its parts one after the other.

    Parameters
    ----------
    rows : mapping of str to mapping of str to float
        From top to bottom, the parts of each; parts of one name have one colour.
    title, x : str
        Of the picture and its scale.
    path : Path
        Of the PNG.
    least : float
        Parts from which on their value is written into them.
    """
    parts = list(dict.fromkeys(part for own in rows.values() for part in own))
    with picture(title, path, max(0.55 * len(rows), 0.22 * len(parts)) + 1.2) as axes:
        from matplotlib import colormaps

        for number, part in enumerate(parts):
            label: str = part
            for at, own in enumerate(rows.values()):
                if own.get(part):
                    left = sum(own[before] for before in parts[:number] if before in own)
                    axes.barh(at, own[part], 0.7, left, color=colormaps["tab20"](number % 20), label=label)
                    label = "_"
                    if own[part] >= least:
                        middle = left + own[part] / 2
                        axes.text(middle, at, f"{own[part]:.2f}", ha="center", va="center", fontsize=7)
        name_rows(axes, rows, x)


@contextmanager
def picture(title: str, path: Path, height: float) -> Iterator[Any]:
    """Hand out axes to draw on, and write them with a frame and a legend."""
    with canvas(path, (8.5, height)) as (figure, ((axes,),)):
        yield axes
        axes.set_title(title, loc="left", fontsize=11)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(True, which="major", color="0.92")
        axes.set_axisbelow(True)
        figure.legend(frameon=False, loc="outside right upper", fontsize=8)


@contextmanager
def canvas(
    path: Path, size: tuple[float, float], rows: int = 1, columns: int = 1
) -> Iterator[tuple[Any, Any]]:
    """Hand out a figure and its axes, row by row, and write it as a PNG of few bytes."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from PIL import Image

    figure, axes = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    yield figure, axes
    drawn = BytesIO()
    figure.savefig(drawn, dpi=110)
    pyplot.close(figure)
    # Lines and text need no more colours than these.
    Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)
