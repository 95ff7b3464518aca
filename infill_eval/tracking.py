"""Showing progress: what a measurement is told to run over its work, and the bar that the command line passes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")
Track = Callable[[Iterable[T], int, str], Iterable[T]]
"""Shows progress over an iterable of known length under a label."""


def untracked(values: Iterable[T], total: int, label: str) -> Iterable[T]:  # noqa: ARG001 - a Track that shows nothing
    """No progress."""
    return values


def bar(values: Iterable[T], total: int, label: str) -> Iterable[T]:
    """A bar on standard error; where that is a log, a line every half minute."""
    from tqdm import tqdm

    terminal = sys.stderr.isatty()
    interval = 0.1 if terminal else 30.0
    shown: Iterable[T] = tqdm(
        values, total=total, desc=label, leave=not terminal, mininterval=interval, maxinterval=interval
    )
    return shown
