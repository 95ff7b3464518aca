"""What a causal generation returns and what it cost; the books are kept here, for a whole batch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class CausalStats:
    """What one sequence cost.

    Attributes:
        nfe: passes that drafted or decided tokens of this sequence; the end of the prompt is read in the first of them.
        prefill_nfe: passes before those, which only read the prompt (none if it fits one chunk).
        tokens: tokens returned.
        rows: rows computed for it, over all passes.
        prefill_rows: those of them that read the prompt.
        mask_rows: those of them that were masks, or a token in their view.
        offered: how often there was a draft at lag 1, 2, ... (a rejected one hides none behind it).
        accepted: how often it was kept.
        seconds: from the start of the call to the sequence's last token.
        prefill_seconds: from the start of the call to the sequence's first token.
        mode: how it was decoded.
        lossless: whether the tokens follow the model's own left-to-right distribution.
        ended: ``"eos"`` or ``"length"``.
    """

    nfe: int
    prefill_nfe: int
    tokens: int
    rows: int
    prefill_rows: int
    mask_rows: int
    offered: tuple[int, ...]
    accepted: tuple[int, ...]
    seconds: float
    prefill_seconds: float
    mode: str
    lossless: bool
    ended: str

    @property
    def tokens_per_forward(self) -> float:
        """Tokens returned for each pass but those that only read the prompt; 1 is plain autoregressive decoding."""
        return self.tokens / self.nfe if self.nfe else 0.0

    @property
    def acceptance(self) -> tuple[float, ...]:
        """The share of drafts at lag 1, 2, ... that were kept, with all before them."""
        return tuple(kept / offered for kept, offered in zip(self.accepted, self.offered, strict=True) if offered)


@dataclass(frozen=True, kw_only=True)
class Generated:
    """One finished sequence.

    Attributes:
        token_ids: the new tokens, the one that ended the text included.
        stats: what they cost.
        seed: of its randomness, recorded when none was given.
    """

    token_ids: tuple[int, ...]
    stats: CausalStats
    seed: int


@dataclass(frozen=True, kw_only=True)
class NewTokens:
    """What a streaming callback gets after every pass that decided something.

    Attributes:
        sequence: the number of the prompt.
        token_ids: its new tokens.
        is_last: whether it is finished.
    """

    sequence: int
    token_ids: tuple[int, ...]
    is_last: bool


class Books:
    """Running totals of a batch, on the host; rows are named by their number in the full batch.

    Args:
        num_sequences: B.
        max_lag: the most drafts a round can have.
        on_tokens: the streaming callback.

    Attributes:
        is_lossless: whether the tokens of each sequence follow the model's own distribution; lossy loops say if not.
    """

    def __init__(self, num_sequences: int, max_lag: int, on_tokens: Callable[[NewTokens], None] | None) -> None:
        self.nfe, self.prefill_nfe, self.rows, self.prefill_rows, self.mask_rows = (
            torch.zeros(num_sequences, dtype=torch.long) for _ in range(5)
        )
        self.offered, self.accepted = (torch.zeros(num_sequences, max_lag, dtype=torch.long) for _ in range(2))
        self.seconds, self.first = (torch.zeros(num_sequences, dtype=torch.float64) for _ in range(2))
        self.tokens: list[list[int]] = [[] for _ in range(num_sequences)]
        self.ended: list[str] = ["length"] * num_sequences
        self.is_lossless = [True] * num_sequences
        self.num_passes = 0
        self._on_tokens, self._start = on_tokens, time.perf_counter()

    def count_pass(self, rows: Tensor, clean: Tensor, masks: Tensor, *, prefills: Tensor) -> None:
        """Enter a pass over these (A,) sequences: clean and mask rows of each, and whether it only reads a prompt."""
        self.num_passes += 1
        self.nfe[rows] += ~prefills
        self.prefill_nfe[rows] += prefills
        self.rows[rows] += clean + masks
        self.mask_rows[rows] += masks

    def count_drafts(self, rows: Tensor, offered: Tensor, accepted: Tensor) -> None:
        """Enter how many of (A,) drafts of each sequence were kept."""
        lag = torch.arange(self.offered.shape[1])
        self.offered[rows] += lag < offered[:, None]
        self.accepted[rows] += lag < accepted[:, None]

    def decide(self, sequence: int, tokens: list[int], ended: str | None) -> None:
        """Enter the new tokens of one sequence."""
        now = time.perf_counter() - self._start
        if not self.tokens[sequence]:
            self.first[sequence] = now
        self.tokens[sequence] += tokens
        self.seconds[sequence] = now
        if ended is not None:
            self.ended[sequence] = ended
        if self._on_tokens is not None:
            self._on_tokens(NewTokens(sequence=sequence, token_ids=tuple(tokens), is_last=ended is not None))

    def close(self, mode: str, seeds: list[int]) -> list[Generated]:
        """The finished batch."""
        return [
            Generated(token_ids=tuple(tokens), stats=self._stats(row, mode), seed=seeds[row])
            for row, tokens in enumerate(self.tokens)
        ]

    def _stats(self, row: int, mode: str) -> CausalStats:
        return CausalStats(
            nfe=int(self.nfe[row]),
            prefill_nfe=int(self.prefill_nfe[row]),
            tokens=len(self.tokens[row]),
            rows=int(self.rows[row]),
            prefill_rows=int(self.prefill_rows[row]),
            mask_rows=int(self.mask_rows[row]),
            offered=tuple(self.offered[row].tolist()),
            accepted=tuple(self.accepted[row].tolist()),
            seconds=float(self.seconds[row]),
            prefill_seconds=float(self.first[row]),
            mode=mode,
            lossless=self.is_lossless[row],
            ended=self.ended[row],
        )
