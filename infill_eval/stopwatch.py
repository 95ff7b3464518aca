"""A fair stopwatch: what is compared takes turns, so that a slow moment of the machine meets all of it.

Absolute times depend on the machine and on what else it does. So every repeat runs everything once, in turn, and a
ratio is taken within its repeat before the median over repeats.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Generic, NamedTuple, TypeVar

from infill_eval.tracking import Track, untracked

Result = TypeVar("Result")


class Turns(NamedTuple, Generic[Result]):
    """What every run took in each repeat, and what it returned last."""

    seconds: dict[str, list[float]]
    results: dict[str, Result]


def take_turns(
    runs: Mapping[str, Callable[[], Result]], repeats: int, *, track: Track[Any] = untracked, label: str = ""
) -> Turns[Result]:
    """Run everything once for nothing and then ``repeats`` times on the clock, in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    results: dict[str, Result] = {}
    for repeat in track(range(-1, repeats), repeats + 1, label):
        for name, run in runs.items():
            start = time.perf_counter()
            results[name] = run()
            if repeat >= 0:
                seconds[name].append(time.perf_counter() - start)
    return Turns(seconds, results)


def speed_against(baseline: Sequence[float], own: Sequence[float]) -> float:
    """How much faster than the baseline: the median over repeats of the ratio within a repeat."""
    return median(base / mine for base, mine in zip(baseline, own, strict=True))
