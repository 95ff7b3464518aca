"""What the commands share: a run's options, the run, and one line of what came of it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

Config = TypeVar("Config")


def run(
    arguments: list[str] | None, parse: Callable[[list[str]], Config], fit: Callable[[Config], Path], says: str
) -> int:
    """Run a command; 2 for what the user can put right.

    Args:
        arguments: of the command line; the process's own if omitted.
        parse: makes options of them.
        fit: trains; returns where the best model lies. It is to import Lightning itself: that takes seconds, which
            ``--help`` and a mistyped flag need not wait for.
        says: what lies there and how to load it; ``{}`` is the place.
    """
    try:
        best = fit(parse(sys.argv[1:] if arguments is None else arguments))
    except (ValueError, OSError) as error:  # OSError: a file that is not there, a disk that is full
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stderr.write(f"{best} holds the best {says.format(repr(str(best)))}\n")
    return 0
