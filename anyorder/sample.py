"""From requests to sequences to decode, and from decoded sequences to completed texts.

A request becomes one sequence for each sample and each choice of lengths. Sequences of all requests that share their
decoding options run in one ragged batch; which ones share it never shows in what they become. Sample ``j`` draws from a
generator of its own, seeded with ``seed + j``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from anyorder.batching import batches
from anyorder.codec import splice
from anyorder.decoding import DecodeOptions, Progress, RoundRecord, Stats, decode
from anyorder.exclusions import exclude
from anyorder.forbidden import Forbidden
from anyorder.options import InfillOptions
from anyorder.passage import Passage, collate
from anyorder.prepare import Request
from anyorder.progress import Meter
from anyorder.result import FilledSpan, InfillResult, Samples, token_texts
from anyorder.uniforms import Uniforms

if TYPE_CHECKING:
    from anyorder.model.loaded import Model


@dataclass(frozen=True, kw_only=True)
class _Run:
    """What the sequences of a batch share."""

    options: DecodeOptions
    forbidden: Forbidden
    meter: Meter


class Job(NamedTuple):
    """One sequence to decode: which request, which of its samples, which of its lengths."""

    request: int
    sample: int
    choice: int


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One decoded sequence: its passage with the targets filled in, and what is known of each target, in text order."""

    passage: Passage
    permutation: Tensor
    log_probs: tuple[float, ...]
    rounds: tuple[int, ...]
    stats: Stats
    trace: tuple[RoundRecord, ...]

    @property
    def log_prob_per_token(self) -> float:
        """What lengths are compared by."""
        return sum(self.log_probs) / max(len(self.log_probs), 1)


def fill(
    requests: Sequence[Request], model: Model, on_progress: Callable[[Progress], None] | None = None
) -> list[Samples]:
    """Decode every sample of every request; the samples of each, most likely first."""
    jobs = [
        Job(number, sample, choice)
        for number, request in enumerate(requests)
        for sample in range(request.options.n)
        for choice in range(len(request.passages))
    ]
    outcomes = _decode_all(jobs, requests, model, on_progress)
    results: list[Samples] = []
    for number, request in enumerate(requests):
        samples = Samples()
        for sample in range(request.options.n):
            tried = [outcomes[Job(number, sample, choice)] for choice in range(len(request.passages))]
            best = max(tried, key=lambda outcome: outcome.log_prob_per_token)
            samples.append(_result(request, sample, best, model))
        samples.sort(key=lambda result: -result.log_prob)
        results.append(samples)
    return results


def _passage(job: Job, requests: Sequence[Request]) -> Passage:
    return requests[job.request].passages[job.choice]


def _decode_all(
    jobs: Sequence[Job], requests: Sequence[Request], model: Model, on_progress: Callable[[Progress], None] | None
) -> dict[Job, Outcome]:
    """Decode in as few batches as options and memory allow."""
    groups: dict[tuple[object, ...], list[Job]] = {}
    for job in jobs:
        groups.setdefault(_sharing(requests[job.request].options), []).append(job)
    meter = Meter(on_progress, sum(_passage(job, requests).num_targets for job in jobs))
    outcomes: dict[Job, Outcome] = {}
    for group in groups.values():
        options = requests[group[0].request].options
        run = _Run(
            options=options.decoding(model.policy, model.max_length),
            forbidden=exclude(model, options.forbidden_strings()),
            meter=meter,
        )
        passages = [_passage(job, requests) for job in group]
        lengths = [len(passage.tokens) for passage in passages]
        most_rows = [run.options.most_rows(passage.num_targets) for passage in passages]
        for rows in batches(lengths, most_rows, model.network.vocab_size):
            outcomes.update(_decode_batch([group[row] for row in rows], requests, model, run))
    return outcomes


def _sharing(options: InfillOptions) -> tuple[object, ...]:
    """What two texts must have in common to be decoded together; drafters are compared by identity."""
    drafter = options.drafter if isinstance(options.drafter, str) else id(options.drafter)
    loop = (options.method, options.draft_length, options.steps, drafter)
    return (*loop, options.temperature, options.top_k, options.top_p, options.forbidden_strings())


def _decode_batch(jobs: Sequence[Job], requests: Sequence[Request], model: Model, run: _Run) -> dict[Job, Outcome]:
    passages = [_passage(job, requests) for job in jobs]
    permutations = [requests[job.request].permutations[job.choice] for job in jobs]
    batch = collate(passages, permutations, padding_id=model.codec.mask_id)
    generation = decode(
        model.network,
        batch.order.to_steps(batch.tokens),
        batch.order,
        uniforms=Uniforms([requests[job.request].seed + job.sample for job in jobs]),
        options=run.options,
        forbidden=run.forbidden.within(batch.blank, batch.spaced),
        on_round=run.meter.next_batch(),
    )
    outcomes: dict[Job, Outcome] = {}
    columns = [
        batch.order.to_positions(by_step.cpu()).tolist()
        for by_step in (generation.tokens, generation.log_probs, generation.rounds)
    ]
    for row, (job, passage, permutation) in enumerate(zip(jobs, passages, permutations, strict=True)):
        tokens, log_probs, rounds = (column[row][: len(passage.tokens)] for column in columns)
        outcomes[job] = Outcome(
            passage=passage.filled(tokens),
            permutation=permutation,
            log_probs=passage.at_targets(log_probs),
            rounds=passage.at_targets(rounds),
            stats=generation.stats[row],
            trace=tuple(generation.trace[row]),
        )
    return outcomes


def _result(request: Request, sample: int, outcome: Outcome, model: Model) -> InfillResult:
    """Splice what was decoded into the untouched text."""
    contents = outcome.passage.contents()
    fills = [
        model.codec.fill(ids, request.text, blank) for ids, blank in zip(contents, request.layout.blanks, strict=True)
    ]
    text, ranges = splice(request.text, request.layout.blanks, fills)
    spans: list[FilledSpan] = []
    at = 0
    for ids, fill, (start, end) in zip(contents, fills, ranges, strict=True):
        log_probs, rounds = outcome.log_probs[at : at + len(ids)], outcome.rounds[at : at + len(ids)]
        at += len(ids)
        spans.append(
            FilledSpan(
                start=start,
                end=end,
                text=fill,
                token_ids=list(ids),
                token_texts=token_texts(model.codec, ids, fill),
                log_prob=math.fsum(log_probs),
                token_log_probs=list(log_probs),
                rounds=list(rounds),
            )
        )
    return InfillResult(
        text=text,
        spans=spans,
        log_prob=math.fsum(outcome.log_probs),
        stats=outcome.stats,
        trace=list(outcome.trace),
        seed=request.seed + sample,
        order=outcome.permutation.tolist(),
        forbidden=list(request.options.forbidden_strings()),
        model=model.name,
        passage=outcome.passage,
    )
