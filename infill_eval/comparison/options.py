"""What a comparison measures, as a caller asks for it; checked once."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, fields
from typing import Any

from anyorder.integers import check_integer
from anyorder.sampling import Sampling


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What is measured.

    Attributes:
        pieces: how many pieces of text.
        context: tokens on the left of a blank, at most, and on its right.
        tokens: tokens of a blank.
        temperature: 0 is greedy.
        batches: batch sizes that are timed.
        repeats: timings of each batch of each method, all by turns.
        seed: of pieces and samples.
        draft_length: drafts a round of the any-subset model; ``None`` lets the library choose.
        memory: whether to measure memory, in a process a method.
    """

    pieces: int = 16
    context: int = 64
    tokens: int = 48
    temperature: float = 0.0
    batches: tuple[int, ...] = (1, 4)
    repeats: int = 2
    seed: int = 0
    draft_length: int | None = None
    memory: bool = True

    def __post_init__(self) -> None:
        if min(self.pieces, self.context, self.tokens, self.repeats, *self.batches) < 1:
            raise ValueError("pieces, context, tokens, repeats and batch sizes must be at least 1")
        Sampling(temperature=self.temperature)
        if self.draft_length is not None:
            check_integer("draft_length", self.draft_length, least=0)
        if max(self.batches) > self.pieces:
            raise ValueError(f"a batch of {max(self.batches)} needs as many pieces, got --pieces {self.pieces}")

    @classmethod
    def of(cls, options: argparse.Namespace) -> CompareOptions:
        """The options of a command line, which have the same names."""
        given: dict[str, Any] = {field.name: getattr(options, field.name) for field in fields(cls)}
        return cls(**given | {"batches": tuple(given["batches"])})
