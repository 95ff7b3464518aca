"""Two pictures of a comparison, a panel a task: what a text is worth against speed, and where in it drafts are kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from infill_eval.comparison.measuring import Row
from infill_eval.plots import save

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKERS = "osD^vP*X<>hp"
_COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#7b5ea7", "#5c5c5c", "#00798c", "#a05c2c")
_POINTS = 16
"""A line has at most so many: places of a blank are averaged in runs."""


def draw(found: Mapping[str, Sequence[Row]], out: Path) -> list[Path]:
    """Write both pictures; returns their paths. The first task's methods include those of the others."""
    names = [row.method for row in next(iter(found.values()))]
    drawn = []
    for file, draw_one in (("quality_against_speed.png", _quality), ("tokens_a_pass_by_place.png", _places)):
        panels = [partial(draw_one, title=task, rows=rows, names=names) for task, rows in found.items()]
        drawn.append(save(out / file, panels, legend_beside=True))
    return drawn


def tokens_a_pass(costs: Sequence[float]) -> list[tuple[float, float]]:
    """(place, tokens a pass there) from the passes that the token at each place took, averaged in runs of places."""
    width = -(-len(costs) // _POINTS)
    runs = [range(start, min(start + width, len(costs))) for start in range(0, len(costs), width)]
    return [(fmean(run) + 1, 1 / fmean(costs[place] for place in run)) for run in runs]


def _quality(axes: Axes, *, title: str, rows: Sequence[Row], names: Sequence[str]) -> None:
    batch = min(rows[0].took)
    for row in rows:
        marker, colour = _style(names.index(row.method))
        speed, right = row.took[batch].ratio, row.right
        axes.errorbar(speed, right.mean, yerr=right.se, color=colour, alpha=0.3, linewidth=1)
        axes.plot(speed, right.mean, marker=marker, color=colour, linestyle="", markersize=7, label=row.method)
    axes.axvline(1, color="#bbbbbb", linewidth=1, zorder=0)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel(f"speed, {rows[0].method} = 1 (batch {batch})")
    axes.set_ylabel("tokens of the truth before the first wrong one")


def _places(axes: Axes, *, title: str, rows: Sequence[Row], names: Sequence[str]) -> None:
    for row in rows:
        marker, colour = _style(names.index(row.method))
        places, rates = zip(*tokens_a_pass(row.costs), strict=True)
        axes.plot(places, rates, marker=marker, color=colour, markersize=4, linewidth=1.2, label=row.method)
    axes.set_title(title, fontsize=10)
    axes.set_xlabel("place in the blank, tokens")
    axes.set_ylabel("tokens a pass")


def _style(number: int) -> tuple[str, str]:
    """Marker and colour of a method, the same in every panel."""
    return _MARKERS[number % len(_MARKERS)], _COLOURS[number % len(_COLOURS)]
