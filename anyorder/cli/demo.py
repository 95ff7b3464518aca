"""``anyorder demo``: a text with blanks, its fills with their probabilities, how they were decided, what it cost."""

from __future__ import annotations

import math
import statistics
import sys
from typing import TYPE_CHECKING, Literal

from anyorder.trace import render

if TYPE_CHECKING:
    from anyorder import InfillResult, Model

TEXT = """import os
import <mask:1>

try:
    import fcntl
except <mask:1>:
    fcntl = None


class Node:
    def __init__(self, name, parent=None):
        self.name = name
        self.parent <mask:2>
        self.children = []

    def find(self, name):
        for child in self.children:
            if child.name <mask:2>:
                return <mask:1>
        raise <mask:1>(name)


if __name__ <mask:4>
    main()
"""
"""Seven blanks in ordinary code."""

TEMPERATURE = 0.7

DRAFT_LENGTH = 4
"""Drafts a round of the one-pass runs. Left to itself, the library drafts only where the stored costs say it pays."""

REPEATS = 5
"""Timed runs of each method; the median counts."""


def show(model: Model, *, seed: int) -> None:
    """Write the demonstration to standard output."""
    import anyorder

    write = sys.stdout.write
    write(f"{model!r}\n\nThe text, with blanks of so many tokens:\n\n{TEXT}\n")
    # The first pass of a process also warms up its threads and caches; that is no property of the method.
    anyorder.infill(TEXT, model=model, seed=seed)
    result = _fill(model, "one-pass", seed)
    write(f"Filled in, one sample of all blanks jointly (seed {seed}, temperature {TEMPERATURE}):\n\n{result.text}\n")
    write("Each blank and the probability of each token, given the text and the tokens decided before it:\n\n")
    for span in result.spans:
        tokens = "  ".join(
            f"{text!r} {math.exp(value):.2f}"
            for text, value in zip(span.token_texts, span.token_log_probs, strict=True)
        )
        write(f"  {span.start:>4}-{span.end:<4} {tokens}\n")
    write("\nHow it was decided, one network pass a round:\n\n")
    write(render(result, model.codec, colour=sys.stdout.isatty()))
    _compare(model, seed)


def _compare(model: Model, seed: int) -> None:
    """The same distribution, one token a pass and several a pass."""
    methods: tuple[Literal["sequential", "one-pass"], ...] = ("sequential", "one-pass")
    sys.stdout.write("\nWhat that saves (the same distribution either way, so the texts may differ):\n\n")
    sys.stdout.write("  method      tokens  passes  seconds\n")
    for method in methods:
        runs = [_fill(model, method, seed + repeat) for repeat in range(REPEATS)]
        passes = statistics.fmean(run.stats.nfe for run in runs)
        seconds = statistics.median(run.stats.seconds for run in runs)
        sys.stdout.write(f"  {method:<12}{runs[0].stats.tokens:>6}{passes:>8.1f}{seconds:>9.3f}\n")
    sys.stdout.write("\nDrafts of such a text are mostly kept; README.md says what drafting saves on average.\n")


def _fill(model: Model, method: Literal["sequential", "one-pass"], seed: int) -> InfillResult:
    import anyorder

    draft_length = DRAFT_LENGTH if method == "one-pass" else None
    return anyorder.infill(
        TEXT, model=model, seed=seed, temperature=TEMPERATURE, method=method, draft_length=draft_length
    )
