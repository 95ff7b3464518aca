"""Several finished runs as tables: quality with standard errors, costs, baselines, and paired comparisons.

Runs are compared only where they share the task, its settings and the items; the first of a group is what the others
are compared with. Every row names its protocol and length policy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infill_eval.estimates import Estimate, compare, holm, not_worse
from infill_eval.store import StoreError, read_json
from infill_eval.tables import Table

_COSTS = ("log-density a token", "nfe", "aux nfe", "tokens", "tokens a pass", "tokens a round", "seconds")
_LEAST = 1e-4
"""What resampling can tell from zero in a few seconds."""
_LOWER_IS_BETTER = ("log-perplexity",)


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run.

    Attributes:
        path: its directory.
        settings: what was run.
        metrics: mean, standard error and count by metric.
        baselines: the same for each baseline.
        items: values by item and metric.
    """

    path: Path
    settings: dict[str, Any]
    metrics: dict[str, Estimate]
    baselines: dict[str, dict[str, Estimate]]
    items: dict[str, dict[str, float]]

    @classmethod
    def load(cls, path: Path) -> Run:
        """The run in a directory.

        Raises:
            StoreError: if there is no finished run.
        """
        stored = read_json(path / "metrics.json")
        try:
            return cls(
                path=path,
                settings=stored["settings"],
                metrics=_estimates(stored["metrics"]),
                baselines={name: _estimates(values) for name, values in stored["baselines"].items()},
                items={name: _numbers(values) for name, values in stored["items"].items()},
            )
        except (KeyError, TypeError) as error:
            raise StoreError(f"{path / 'metrics.json'} holds no finished run: {error}") from None

    @property
    def method(self) -> str:
        """The decoding method, as tables show it."""
        return str(self.settings["model"].get("method", "own"))

    @property
    def group(self) -> str:
        """Runs with the same text here answer the same question."""
        return repr((self.settings["task"], self.settings["samples"], self.settings.get("items")))

    def quality(self) -> list[str]:
        """The task's own metrics."""
        return [name for name in self.metrics if any(name in row for row in self.baselines.values())]


def _estimates(stored: dict[str, dict[str, Any]]) -> dict[str, Estimate]:
    return {name: Estimate(**_numbers(value)) for name, value in stored.items()}


def _numbers(stored: dict[str, Any]) -> dict[str, Any]:
    """JSON has no word for what is not a number: it is stored as null."""
    return {name: math.nan if value is None else value for name, value in stored.items()}


@dataclass(frozen=True, kw_only=True)
class ReportOptions:
    """How runs are compared.

    Attributes:
        alpha: family-wise error of the tests of a table (Holm).
        margin: how much worse, in nats a token of log-perplexity, still counts as not worse.
        level: coverage of the paired bootstrap intervals.
        seed: of bootstrap and tests.
    """

    alpha: float = 0.001
    margin: float = 0.05
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("alpha", "level"):
            if not _LEAST <= getattr(self, name) <= 1 - _LEAST:
                raise ValueError(f"{name} must lie between {_LEAST} and {1 - _LEAST}, got {getattr(self, name)}")
        if self.margin <= 0:
            raise ValueError(f"the non-inferiority margin must be positive, got {self.margin}")


def tables(runs: Sequence[Run], options: ReportOptions | None = None) -> list[Table]:
    """All tables for these runs: for each group its results, then its comparisons if it has several runs."""
    options = options if options is not None else ReportOptions()
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(run.group, []).append(run)
    found = []
    for group in groups.values():
        found.append(_results(group))
        if len(group) > 1:
            found.append(_comparisons(group, options))
    return found


def _results(group: Sequence[Run]) -> Table:
    task = group[0].settings["task"]
    quality = group[0].quality()
    shown = [name for name in _COSTS if any(name in run.metrics and run.metrics[name].mean for run in group)]
    perplexity = ["perplexity"] if "log-perplexity" in quality else []
    header = ("model", "method", "protocol", "length", "items", *quality, *perplexity, *shown)

    def row(names: tuple[str, ...], values: dict[str, Estimate]) -> tuple[str, ...]:
        cells = [str(values[name]) if name in values else "–" for name in quality]
        cells += [_perplexity(values["log-perplexity"]) if "log-perplexity" in values else "–"] if perplexity else []
        return (*names, *cells, *(str(values[name]) if name in values else "–" for name in shown))

    rows = []
    for run in group:
        items = str(len(run.items))
        names = (
            str(run.settings["model"].get("model", "?")),
            run.method,
            task["protocol"],
            run.settings["length"],
            items,
        )
        rows.append(row(names, run.metrics))
    first = group[0]
    shown_baselines: set[str] = set()
    for run in group:  # another codec, or another number of items, has another floor and ceiling
        for name, values in run.baselines.items():
            if repr((name, values)) not in shown_baselines:
                shown_baselines.add(repr((name, values)))
                label = name if run is first else f"{name} ({run.settings['model'].get('model', '?')})"
                rows.append(row((label, "baseline", task["protocol"], "–", str(len(run.items))), values))
    settings = ", ".join(f"{key} {value}" for key, value in task.items() if key not in ("task", "protocol"))
    drawn = f"{first.settings['samples']} samples an item, seed {first.settings['seed']}"
    notes: tuple[str, ...] = (f"Mean ± standard error over items; {drawn}. {settings}.",)
    if "seconds" in shown:
        notes += ("Seconds: until a sample was finished, in a batch with others; `speed` measures methods properly.",)
    return Table(title=task["task"], header=header, rows=tuple(rows), notes=notes)


def _perplexity(log: Estimate) -> str:
    """Exp of the mean, its standard error by the delta method."""
    value = math.exp(log.mean)
    return f"{value:.2f}" if math.isnan(log.se) else f"{value:.2f} ± {value * log.se:.2f}"


def _comparisons(group: Sequence[Run], options: ReportOptions) -> Table:
    first, *others = group
    metrics = [*first.quality(), "log-density a token", "nfe", "seconds"]
    tested = []
    for run in others:
        common = [name for name in first.items if name in run.items]
        for metric in metrics:
            pairs = [(run.items[name].get(metric), first.items[name].get(metric)) for name in common]
            known = [(a, b) for a, b in pairs if a is not None and b is not None]
            if known:
                values, base = map(list, zip(*known, strict=True))
                tested.append((run, metric, values, base))
    results = [
        compare(v, b, level=options.level, resamples=_resamples(options, len(tested)), seed=options.seed)
        for _, _, v, b in tested
    ]
    adjusted = holm([result.p_value for result in results])
    rows = []
    for (run, metric, values, base), result, p_value in zip(tested, results, adjusted, strict=True):
        verdict = "differs" if p_value < options.alpha else "no difference shown"
        if metric in _LOWER_IS_BETTER:
            holds, bound = not_worse(values, base, margin=options.margin, alpha=options.alpha, seed=options.seed)
            verdict += f"; {'not worse' if holds else 'not shown to be not worse'} (bound {bound:+.4f})"
        interval = f"[{result.low:+.4f}, {result.high:+.4f}]"
        rows.append(
            (run.method, metric, f"{result.difference:+.4f}", interval, f"{p_value:.2g}", str(result.n), verdict)
        )
    notes = (
        f"Difference to {first.method} on the same items, with {options.level:.0%} paired bootstrap intervals. "
        f"p: two-sided sign-flip test, Holm over this table; differs: p < {options.alpha:g}.",
        f"Not worse: the one-sided {1 - options.alpha:.1%} bound of the difference in log-perplexity lies below the "
        f"margin of {options.margin:g} nats a token.",
    )
    used = notes if any(metric in _LOWER_IS_BETTER for _, metric, _, _ in tested) else notes[:1]
    header = ("method", "metric", "difference", "interval", "p (Holm)", "items", "verdict")
    return Table(
        title=f"{first.settings['task']['task']}: against {first.method}", header=header, rows=tuple(rows), notes=used
    )


def _resamples(options: ReportOptions, tests: int) -> int:
    """Enough draws that Holm's smallest possible p-value lies well below alpha."""
    return max(10_000, math.ceil(4 * tests / options.alpha))
