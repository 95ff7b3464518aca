"""How fast each way of decoding is on this machine: all of them on the same texts, in turn, as ratios.

The published way of decoding, which recomputes the whole sequence for every token with Hugging Face's XLNet, is
measured in the same run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import anyorder
from infill_eval.anyorder_infiller import AnyorderInfiller, Decoding
from infill_eval.infiller import Budget, Request
from infill_eval.recompute import Recompute
from infill_eval.stopwatch import speed_against, take_turns
from infill_eval.tables import Table
from infill_eval.tracking import Track, untracked

_BASELINE = "recompute (transformers)"


@dataclass(frozen=True, kw_only=True)
class SpeedOptions:
    """What is measured.

    Attributes:
        tokens: tokens of the blank.
        context: tokens around it, at most.
        batches: batch sizes.
        repeats: measurements of each, of which the median is shown; one more before them warms up.
        seed: of texts and samples.
        recompute: whether to measure Hugging Face's XLNet too (batch size 1).
    """

    tokens: int = 32
    context: int = 192
    batches: tuple[int, ...] = (1, 4, 16)
    repeats: int = 5
    seed: int = 0
    recompute: bool = True

    def __post_init__(self) -> None:
        if min(self.tokens, self.context, self.repeats, *self.batches) < 1:
            raise ValueError("tokens, context, repeats and batch sizes must be at least 1")


@dataclass(frozen=True, kw_only=True)
class Timing:
    """One method at one batch size: medians over repeats."""

    method: str
    batch: int
    seconds_a_token: float
    tokens_a_pass: float
    ratio: float


def requests(texts: Sequence[str], infiller: AnyorderInfiller, options: SpeedOptions) -> list[Request]:
    """One request a text: a window of it with a blank in the middle.

    Raises:
        ValueError: if there are fewer texts than the largest batch.
    """
    context = min(options.context, infiller.model.max_length - options.tokens)
    if context < 2:
        raise ValueError(f"{options.tokens} tokens leave no context: the model takes {infiller.model.max_length}")
    if len(texts) < max(options.batches):
        raise ValueError(f"a batch of {max(options.batches)} needs as many texts, got {len(texts)}")
    found = []
    for number, text in enumerate(texts[: max(options.batches)]):
        window = infiller.offsets(text)[: context - 2]  # two to spare: a text cut in two may have a token more
        middle, end = window[len(window) // 2][0], window[-1][1]
        budget = Budget(policy="fixed", tokens=options.tokens)
        found.append(
            Request(id=str(number), segments=(text[:middle], text[middle:end]), budget=budget, seed=options.seed)
        )
    return found


def measure(
    model: anyorder.Model,
    methods: Sequence[Decoding],
    texts: Sequence[str],
    *,
    options: SpeedOptions | None = None,
    track: Track[Any] = untracked,
) -> list[Timing]:
    """Time every method at every batch size; ratios are to the first method at the same batch size."""
    options = options if options is not None else SpeedOptions()
    infillers = {decoding.label: AnyorderInfiller(model, decoding) for decoding in methods}
    asked = requests(texts, next(iter(infillers.values())), options)
    timings: list[Timing] = []
    with tempfile.TemporaryDirectory() as scratch:
        for batch in options.batches:
            runs: dict[str, Callable[[], float]] = {
                name: _run_of(infiller, asked[:batch]) for name, infiller in infillers.items()
            }
            if options.recompute and batch == 1:
                runs[_BASELINE] = Recompute(model, asked[0], Path(scratch))
            timings += _time(runs, batch, options, track)
    return timings


def _run_of(infiller: AnyorderInfiller, asked: Sequence[Request]) -> Callable[[], float]:
    def once() -> float:
        """Tokens a pass of one decoding of the whole batch."""
        samples = [answer[0] for answer in infiller.batch(asked)]
        tokens, passes = (sum(int(sample.stats[name]) for sample in samples) for name in ("tokens", "nfe"))
        return tokens / max(1, passes)

    return once


def _time(runs: dict[str, Callable[[], float]], batch: int, options: SpeedOptions, track: Track[Any]) -> list[Timing]:
    turns = take_turns(runs, options.repeats, track=track, label=f"batch {batch}")
    baseline = turns.seconds[next(iter(runs))]
    return [
        Timing(
            method=name,
            batch=batch,
            seconds_a_token=median(seconds) / (batch * options.tokens),
            tokens_a_pass=turns.results[name],
            ratio=speed_against(baseline, seconds),
        )
        for name, seconds in turns.seconds.items()
    ]


def table(timings: Sequence[Timing], model: str, options: SpeedOptions) -> Table:
    """The timings, and in words where a method does not pay."""
    first = timings[0].method
    rows = tuple(
        (t.method, str(t.batch), f"{1e3 * t.seconds_a_token:.2f}", f"{t.tokens_a_pass:.2f}", f"{t.ratio:.2f}")
        for t in timings
    )
    losing = [f"{t.method} at batch {t.batch} ({t.ratio:.2f} ×)" for t in timings if t.ratio < 0.98]
    notes = (
        f"{options.tokens} tokens in up to {options.context} of context; median of {options.repeats} repeats, each of "
        f"which runs all methods in turn; speed: how much faster than {first} at the same batch, within a repeat.",
        f"Does not pay here: {', '.join(losing)}." if losing else f"No method is slower than {first}.",
    )
    header = ("method", "batch", "ms a token", "tokens a pass", f"speed against {first}")
    return Table(title=f"speed of {model}", header=header, rows=rows, notes=notes)
