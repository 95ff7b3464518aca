"""Models of this library as an ``Infiller``: text goes in and comes out through ``anyorder.infill_batch`` alone."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch

import anyorder
from anyorder.model.linear import Linear
from infill_eval.infiller import Request, Sample

if TYPE_CHECKING:
    from anyorder.decoding import Method, RoundRecord
    from anyorder.model.xlnet import XLNet
    from anyorder.options import Length, TargetOrder


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How the model decodes; the names are those of ``anyorder.infill``.

    Attributes:
        method: ``"sequential"``, ``"assd"``, ``"one-pass"`` or ``"parallel"``.
        drafter: ``"self"`` or ``"ngram"``.
        draft_length: drafts a round; ``None`` lets the library choose.
        temperature: divides the logits.
        order: the order of the targets; ``None`` is the checkpoint's.
        steps: passes of ``"parallel"``.
    """

    method: Method = "one-pass"
    drafter: Literal["self", "ngram"] = "self"
    draft_length: int | None = None
    temperature: float = 1.0
    order: TargetOrder = None
    steps: int = 1

    @property
    def label(self) -> str:
        """The method as tables show it."""
        parts = [self.method if self.drafter == "self" else f"{self.method} {self.drafter}"]
        parts += [f"K={self.draft_length}"] if self.draft_length is not None else []
        parts += [f"{self.steps} steps"] if self.method == "parallel" else []
        parts += [f"T={self.temperature:g}"] if self.temperature != 1.0 else []
        parts += [f"{self.order} order"] if isinstance(self.order, str) else []
        return " ".join(parts)


class AnyorderInfiller:
    """An anyorder model with one way of decoding.

    Args:
        model: what ``anyorder.load`` returned.
        decoding: how to decode.
    """

    def __init__(self, model: anyorder.Model, decoding: Decoding | None = None) -> None:
        self.model = model
        self.decoding = decoding if decoding is not None else Decoding()

    def describe(self) -> dict[str, Any]:
        """Model, weights and decoding; the weights' hash tells a checkpoint from what is trained there next."""
        count, digest = _weights(self.model.network)
        return {
            "model": self.model.name,
            "method": self.decoding.label,
            "decoding": dict(vars(self.decoding)),
            "codec": self.model.codec.name,
            "max_length": self.model.max_length,
            "parameters": count,
            "weights": digest,
        }

    def round_trip(self, text: str) -> str:
        """The text after its own tokenizer."""
        return self.model.codec.decode(self.model.codec.encode(text))

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Where the model's tokens of a text begin and end."""
        return [(token.start, token.end) for token in self.model.tokenize(text)]

    def __call__(self, request: Request) -> list[Sample]:
        """The samples of one request."""
        return self.batch([request])[0]

    def batch(self, requests: Sequence[Request]) -> list[list[Sample]]:
        """The samples of several requests, decoded together: every sample is a text of its own."""
        texts, positions, seeds = [], [], []
        lengths: list[Length] = []
        for request in requests:
            text, spans = _written_out(request)
            for j in range(request.n):
                texts.append(text)
                positions.append(spans)
                lengths.append("same" if request.budget.tokens is None else request.budget.tokens)
                seeds.append(request.seed + j)
        results = anyorder.infill_batch(
            texts,
            positions,
            model=self.model,
            length=lengths,
            method=self.decoding.method,
            drafter=self.decoding.drafter,
            draft_length=self.decoding.draft_length,
            temperature=self.decoding.temperature,
            order=self.decoding.order,
            steps=self.decoding.steps,
            seed=seeds,
            context="crop",
        )
        samples = iter([_sample(result) for result in results])
        return [[next(samples) for _ in range(request.n)] for request in requests]


def _weights(network: XLNet) -> tuple[int, str]:
    """How many values a network computes with, a head tied to the embedding counted once, and a hash of them."""
    count, digest, is_tied = 0, hashlib.sha256(), network.config.tie_word_embeddings
    for name, module in network.named_modules():
        values = dict(module.named_parameters(recurse=False)) | dict(module.named_buffers(recurse=False))
        if isinstance(module, Linear):
            values["weight"] = module.computed_weight()
        if name == "head" and is_tied:
            del values["weight"]
        for value in values.values():
            count += value.numel()
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return count, digest.hexdigest()[:16]


def _written_out(request: Request) -> tuple[str, list[tuple[int, int]]]:
    """The request as text with its blanks filled by what they should be as long as, and where they are."""
    fills = request.budget.like or ("",) * (len(request.segments) - 1)
    text, spans = request.segments[0], []
    for fill, segment in zip(fills, request.segments[1:], strict=True):
        spans.append((len(text), len(text) + len(fill)))
        text += fill + segment
    return text, spans


def _sample(result: anyorder.InfillResult) -> Sample:
    stats = result.stats
    tested, kept = _by_rank(result.trace)
    return Sample(
        texts=tuple(span.text for span in result.spans),
        log_prob=result.log_prob,
        stats={
            "nfe": stats.nfe,
            "aux nfe": stats.draft_nfe,
            "tokens": stats.tokens,
            "rounds": stats.rounds,
            "tokens a round": stats.tokens / stats.rounds if stats.rounds else 0.0,
            "seconds": stats.seconds,
            "drafted": stats.num_drafted,
            "accepted": stats.num_accepted,
            "tested by rank": tested,
            "kept by rank": kept,
        },
    )


def _by_rank(trace: Sequence[RoundRecord]) -> tuple[list[int], list[int]]:
    """How often the draft at each place of its round was tested, and kept; exact drafts are not tested."""
    width = max((len(record.drafted) for record in trace), default=0)
    tested, kept = [0] * width, [0] * width
    for record in trace:
        for rank in range(record.num_exact, len(record.drafted)):
            if rank <= record.num_kept:  # drafts after the first rejection are never looked at
                tested[rank] += 1
                kept[rank] += rank < record.num_kept
    return tested, kept
