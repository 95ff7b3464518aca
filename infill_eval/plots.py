"""Pictures of runs as PNG files: how many passes, which drafts were kept, how likely what was written is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from infill_eval.report import Run
from infill_eval.store import read_samples

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLOURS = ("#1b6ca8", "#d1495b", "#3a7d44", "#edae49", "#7b5ea7", "#5c5c5c")
_GREY = "#444444"
_ENOUGH_TESTS = 20
"""A share of fewer says nothing, and a run with any at all has one."""


def draw(runs: Sequence[Run], out: Path) -> list[Path]:
    """Write the pictures that these runs have data for; returns their paths."""
    drawn = []
    for name, draw_one, metric in (
        ("nfe.png", _passes, "nfe"),
        ("tokens_a_pass.png", _tokens, "tokens a pass"),
        ("density.png", _density, "log-density a token"),
        ("perplexity.png", _perplexity, "log-perplexity"),
    ):
        having = [run for run in runs if metric in run.metrics]
        if having:
            drawn.append(save(out / name, [partial(draw_one, runs=having)]))
    kept = [(run.method, rates) for run in runs if (rates := acceptance_by_rank(run))]
    if kept:
        drawn.append(save(out / "accepted_by_rank.png", [partial(_acceptance, kept=kept)]))
    return drawn


def acceptance_by_rank(run: Run) -> list[tuple[int, float]]:
    """(tests, share kept) of the draft at each place of its round, over all samples of a run."""
    tested: list[int] = []
    kept: list[int] = []
    for samples in read_samples(run.path / "samples.jsonl").values():
        for sample in samples:
            counts = sample.stats.get("tested by rank", ())
            tested.extend([0] * (len(counts) - len(tested)))
            kept.extend([0] * (len(counts) - len(kept)))
            for rank, (tests, keeps) in enumerate(zip(counts, sample.stats.get("kept by rank", ()), strict=True)):
                tested[rank] += tests
                kept[rank] += keeps
    return [(tests, keeps / tests if tests else float("nan")) for tests, keeps in zip(tested, kept, strict=True)]


def save(path: Path, panels: Sequence[Callable[[Axes], None]], *, legend_beside: bool = False) -> Path:
    """A picture of panels side by side; a legend in each, or that of the first beside them all."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6 * len(panels) + 1 + 2 * legend_beside, 4), dpi=150, layout="constrained")
    for number, draw_one in enumerate(panels, 1):
        axes = figure.add_subplot(1, len(panels), number)
        draw_one(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(colors=_GREY)
        if not legend_beside:
            axes.legend(frameon=False)
    if legend_beside:
        figure.legend(*figure.axes[0].get_legend_handles_labels(), frameon=False, loc="outside right center")
    figure.savefig(path)
    return path


def _histogram(axes: Axes, runs: Sequence[Run], metric: str) -> None:
    values = [[item[metric] for item in run.items.values() if metric in item] for run in runs]
    low, high = min(map(min, values)), max(map(max, values))
    bins = [low + (high - low or 1.0) * i / 30 for i in range(31)]
    for run, one, colour in zip(runs, values, _COLOURS * len(runs), strict=False):
        axes.hist(one, bins=bins, histtype="stepfilled", alpha=0.25, color=colour)
        axes.hist(one, bins=bins, histtype="step", linewidth=1.5, color=colour, label=run.method)
        axes.axvline(sum(one) / len(one), color=colour, linewidth=1, linestyle="--")
    axes.set_ylabel("items")


def _passes(axes: Axes, runs: Sequence[Run]) -> None:
    _histogram(axes, runs, "nfe")
    axes.set_xlabel("network passes a sample (dashed: mean)")


def _tokens(axes: Axes, runs: Sequence[Run]) -> None:
    _histogram(axes, runs, "tokens a pass")
    axes.set_xlabel("tokens decided a network pass (dashed: mean)")


def _density(axes: Axes, runs: Sequence[Run]) -> None:
    _histogram(axes, runs, "log-density a token")
    axes.set_xlabel("joint log-density a token, nats (dashed: mean)")


def _perplexity(axes: Axes, runs: Sequence[Run]) -> None:
    _histogram(axes, runs, "log-perplexity")
    axes.set_xlabel("log of the generative perplexity, nats a token (dashed: mean)")


def _acceptance(axes: Axes, kept: Sequence[tuple[str, list[tuple[int, float]]]]) -> None:
    for (method, rates), colour in zip(kept, _COLOURS * len(kept), strict=False):
        enough = min(_ENOUGH_TESTS, max(tests for tests, _ in rates))
        known = [(rank, share) for rank, (tests, share) in enumerate(rates, 1) if tests >= max(enough, 1)]
        axes.plot(*zip(*known, strict=True), marker="o", markersize=4, color=colour, label=method)
    axes.set_ylim(0, 1.02)
    axes.set_xlabel("place of the draft in its round")
    axes.set_ylabel("share kept, of those tested")
