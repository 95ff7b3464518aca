"""Every method on every piece: what it wrote and what that is worth, then what it takes, all methods in turn.

What was written is looked at one piece at a time; times are those of batches. Texts are greedy where they are held to a
reference, whatever the temperature of the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean
from typing import Any, NamedTuple

from infill_eval.comparison.judging import Judge, Verdict, compared, distinct, is_greedy, leading, nats
from infill_eval.comparison.memory import Job, Memory, measured
from infill_eval.comparison.methods import Method
from infill_eval.comparison.models import Contestant
from infill_eval.comparison.options import CompareOptions
from infill_eval.comparison.pieces import Piece
from infill_eval.comparison.tracing import trace
from infill_eval.estimates import Estimate
from infill_eval.stopwatch import speed_against, take_turns_by_parts
from infill_eval.tracking import Track, untracked


class Took(NamedTuple):
    """What one method took at one batch size.

    Attributes:
        seconds_a_token: over all repeats.
        ratio: how much faster than the baseline: the median over batches and repeats of the ratio within one.
        fewer_passes: the baseline's passes over its own, a batch taking as many as its slowest piece.
    """

    seconds_a_token: float
    ratio: float
    fewer_passes: float

    @property
    def pass_cost(self) -> float:
        """What a pass costs in passes of the baseline, T(R) / T(1): drafting pays where ``fewer_passes`` is more."""
        return self.fewer_passes / self.ratio


@dataclass(frozen=True, kw_only=True)
class Row:
    """One method on one task.

    Attributes:
        method: its name.
        model: the model's name.
        tokens_a_pass: of one piece at a time.
        rows_a_pass: rows a pass computes beyond those that read the context.
        costs: passes that the token at each place of the blank took, on average.
        nats: negative log-density a token of what was written, under the method's own model.
        truth_nats: the same of what stood there.
        right: tokens right before the first wrong one.
        exact: share of pieces whose blank is what stood there, whole.
        verdicts: greedy texts equal to the reference's, parting at a tie, and others.
        distinct: share of three-token runs that are not repeated.
        is_lossless: what the library declares.
        took: by batch size.
        memory: of the largest batch.
    """

    method: str
    model: str
    tokens_a_pass: float
    rows_a_pass: float
    costs: tuple[float, ...]
    nats: float
    truth_nats: float
    right: Estimate
    exact: float
    verdicts: dict[Verdict, int]
    distinct: float
    is_lossless: bool
    took: dict[int, Took]
    memory: Memory | None = None


def measure(
    contestants: Sequence[Contestant],
    pieces: Sequence[Piece],
    options: CompareOptions,
    *,
    infill: bool = False,
    track: Track[Any] = untracked,
) -> list[Row]:
    """One row a method; the first one is what the others' speed is measured against.

    Args:
        contestants: the models.
        pieces: what to fill.
        options: how.
        infill: keep what stands behind the blank; methods that cannot see it are left out.
        track: shows progress.

    Raises:
        ValueError: if a piece is longer than a model was made for.
    """
    _check_lengths(contestants, pieces)
    given = list(pieces) if infill else [piece.unfinished() for piece in pieces]
    entered = [(one, method) for one in contestants for method in one.methods if _can(method, options, infill=infill)]
    task = "infilling" if infill else "completion"
    references = {one.source.label: _greedy(one.reference, given) for one in contestants}
    took = _time([method for _, method in entered], given, options, track, task)
    rows = []
    for one, method in track(entered, len(entered), f"{task}: texts"):
        memory = _memory(one, method, given, options)
        rows.append(_row(one, method, given, references[one.source.label], options, took[method.name], memory))
    return rows


def _check_lengths(contestants: Sequence[Contestant], pieces: Sequence[Piece]) -> None:
    """Refuse pieces that a model cannot take, with what stands behind the blank if it will see that in another task."""
    for one in contestants:
        sees_right = any(method.can_infill for method in one.methods)
        longest = max(len(each.left) + len(each.truth) + sees_right * len(each.right) for each in pieces)
        if longest > one.max_length:
            raise ValueError(
                f"{one.source.label} takes {one.max_length} tokens, and a piece has {longest}: ask for less with "
                "--context, --tokens"
            )


def _can(method: Method, options: CompareOptions, *, infill: bool) -> bool:
    return (method.can_infill or not infill) and (method.can_sample or options.temperature == 0)


def _row(
    one: Contestant,
    method: Method,
    pieces: Sequence[Piece],
    references: Sequence[Sequence[int]],
    options: CompareOptions,
    took: dict[int, Took],
    memory: Memory | None,
) -> Row:
    traced = [
        trace(method, piece, temperature=options.temperature, seed=options.seed + number)
        for number, piece in enumerate(pieces)
    ]
    written = [made for made, _ in traced]
    greedy = [made.tokens for made in written] if options.temperature == 0 else _greedy(method, pieces)
    total = sum(len(made.tokens) for made in written)
    density = partial(_nats, one.judge)
    return Row(
        method=method.name,
        model=one.source.label,
        tokens_a_pass=total / sum(made.passes for made in written),
        rows_a_pass=sum(made.rows for made in written) / sum(made.passes for made in written),
        costs=tuple(fmean(place) for place in zip(*(costs for _, costs in traced), strict=True)),
        nats=density(pieces, [made.tokens for made in written]) / total,
        truth_nats=density(pieces, [piece.truth for piece in pieces]) / total,
        right=Estimate.of([leading(made.tokens, piece.truth) for made, piece in zip(written, pieces, strict=True)]),
        exact=fmean(made.tokens == piece.truth for made, piece in zip(written, pieces, strict=True)),
        verdicts=_verdicts(one, method, pieces, greedy, references),
        distinct=distinct([made.tokens for made in written]),
        is_lossless=all(made.is_lossless for made in written),
        took=took,
        memory=memory,
    )


def _greedy(method: Method, pieces: Sequence[Piece]) -> list[tuple[int, ...]]:
    """The greedy text of each piece, on its own."""
    return [method.write([piece], temperature=0.0)[0].tokens for piece in pieces]


def _nats(judge: Judge, pieces: Sequence[Piece], texts: Sequence[Sequence[int]]) -> float:
    """Nats of all texts together."""
    return sum(nats(judge.logits(piece, text), text) for piece, text in zip(pieces, texts, strict=True))


def _verdicts(
    one: Contestant,
    method: Method,
    pieces: Sequence[Piece],
    greedy: Sequence[Sequence[int]],
    references: Sequence[Sequence[int]],
) -> dict[Verdict, int]:
    """How greedy texts fare against the reference's; the reference's own against the likeliest tokens of one pass."""
    found: dict[Verdict, int] = {"equal": 0, "tie": 0, "other": 0}
    for piece, text, wanted in zip(pieces, greedy, references, strict=True):
        if method is one.reference:
            found[is_greedy(one.judge.logits(piece, text), text)] += 1
        else:
            found[compared(partial(one.judge.logits, piece), text, wanted)] += 1
    return found


def _time(
    methods: Sequence[Method],
    pieces: Sequence[Piece],
    options: CompareOptions,
    track: Track[Any],
    task: str,
) -> dict[str, dict[int, Took]]:
    """Every method at every batch size, in turn; ratios are to the first."""
    took: dict[str, dict[int, Took]] = {method.name: {} for method in methods}
    num_tokens = sum(len(piece.truth) for piece in pieces)
    for batch in options.batches:
        starts = range(0, len(pieces), batch)
        runs = {
            method.name: [partial(_passes, method, pieces[start : start + batch], options, start) for start in starts]
            for method in methods
        }
        turns = take_turns_by_parts(runs, options.repeats, track=track, label=f"{task}: batch {batch}")
        first = methods[0].name
        for name, seconds in turns.seconds.items():
            took[name][batch] = Took(
                seconds_a_token=sum(seconds) / (options.repeats * num_tokens),
                ratio=speed_against(turns.seconds[first], seconds),
                fewer_passes=sum(turns.results[first]) / sum(turns.results[name]),
            )
    return took


def _passes(method: Method, pieces: Sequence[Piece], options: CompareOptions, start: int) -> int:
    """Decode a batch, whose first piece has the number ``start``; it takes as many passes as its slowest piece."""
    seeds = [options.seed + start + number for number in range(len(pieces))]
    made = method.write(pieces, temperature=options.temperature, seed=seeds)
    return max(one.passes for one in made)


def _memory(one: Contestant, method: Method, pieces: Sequence[Piece], options: CompareOptions) -> Memory | None:
    if not options.memory:
        return None
    batch = pieces[: max(options.batches)]
    return measured(Job(one.source, options.draft_length, method.name, batch, options.temperature))
