"""A fair stopwatch: what is compared takes turns, so that a slow moment of the machine meets all of it.

Absolute times depend on the machine and on what else it does. So every repeat runs everything once, in turn, and a
ratio is taken within its repeat (and part) before the median over them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Any, Generic, NamedTuple, TypeVar

from infill_eval.tracking import Track, untracked

Result = TypeVar("Result")


class Turns(NamedTuple, Generic[Result]):
    """What every run took in each repeat (and part), and what it returned last."""

    seconds: dict[str, list[float]]
    results: dict[str, Result]


def take_turns(
    runs: Mapping[str, Callable[[], Result]], repeats: int, *, track: Track[Any] = untracked, label: str = ""
) -> Turns[Result]:
    """Run everything once for nothing and then ``repeats`` times on the clock, in turn."""
    turns = take_turns_by_parts({name: [run] for name, run in runs.items()}, repeats, track=track, label=label)
    return Turns(turns.seconds, {name: results[0] for name, results in turns.results.items()})


def take_turns_by_parts(
    runs: Mapping[str, Sequence[Callable[[], Result]]], repeats: int, *, track: Track[Any] = untracked, label: str = ""
) -> Turns[list[Result]]:
    """Like ``take_turns``, of work that falls into parts: all run the first part, then all the second, and so on.

    A machine drifts within a minute, so the shorter a turn, the fairer the ratio.

    Args:
        runs: the parts of each, equally many and doing the same work.
        repeats: of all parts; the first part is run once more before, for nothing.
        track: shows progress.
        label: of the bar.

    Returns:
        Seconds of every part in every repeat, in the same order for all, and the results of all parts.
    """
    parts = list(zip(*runs.values(), strict=True))
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    results: dict[str, list[Result]] = {name: [] for name in runs}
    for run in parts[0]:
        run()
    for number in track(range(repeats * len(parts)), repeats * len(parts), label):
        for name, run in zip(runs, parts[number % len(parts)], strict=True):
            start = time.perf_counter()
            result = run()
            seconds[name].append(time.perf_counter() - start)
            results[name].append(result)
    return Turns(seconds, {name: found[-len(parts) :] for name, found in results.items()})


def speed_against(baseline: Sequence[float], own: Sequence[float]) -> float:
    """How much faster than the baseline: the median over repeats of the ratio within a repeat."""
    return median(base / mine for base, mine in zip(baseline, own, strict=True))
