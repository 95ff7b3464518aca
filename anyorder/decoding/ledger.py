"""The books of a decoding call, for the whole batch: what each sequence cost, what happened when, what it became."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.arrays import Bools, Ints
from anyorder.decoding.generation import Counters, Generation, Method, Progress, Round


class Ledger:
    """Collects what loops report about the sequences alive; rows are named by their number in the full batch.

    Args:
        tokens: (B, L) int64 in order space, what sequences without targets end with.
        num_targets: tokens to decide in the whole batch.
        on_round: called after every round.
    """

    def __init__(self, tokens: Tensor, num_targets: int, on_round: Callable[[Progress], None] | None) -> None:
        self._tokens = tokens.clone()
        self._log_probs = torch.zeros(tokens.shape, device=tokens.device)
        self._rounds = torch.zeros_like(tokens)
        self._counters = counters = Counters.zero(len(tokens))
        # The same memory as numpy sees it, which adds a few integers in a tenth of the time.
        self._nfe, self._rows, self._seconds = counters.nfe.numpy(), counters.rows.numpy(), counters.seconds.numpy()
        self._history: list[Round] = []
        self._decided, self._num_targets, self._on_round = 0, num_targets, on_round
        self._start = time.perf_counter()

    @property
    def num_rounds(self) -> int:
        """Rounds entered so far."""
        return len(self._history)

    def count_pass(self, rows: Ints, computed: Ints, *, takes_part: Bools) -> None:
        """Enter a network pass: (A,) content and query rows computed for these (A,) sequences, and who took part."""
        self._nfe[rows] += takes_part
        self._rows[rows] += computed

    def count_drafts(self, rows: Ints, drafted: Ints) -> None:
        """Enter (A,) tokens proposed by a drafter that is not the model."""
        self._counters.draft_nfe.numpy()[rows] += drafted

    def enter(self, done: Round, rows: Ints, num_new: Ints) -> None:
        """Enter a finished round, in which each of the (A,) ``rows`` decided ``num_new`` tokens."""
        self._seconds[rows[num_new > 0]] = time.perf_counter() - self._start
        self._history.append(done)
        self._decided += int(num_new.sum())
        if self._on_round is not None:
            self._on_round(Progress(rounds=self.num_rounds, decided=self._decided, targets=self._num_targets))

    def store(self, rows: Ints, tokens: Tensor, log_probs: Tensor, rounds: Tensor) -> None:
        """Keep the (A, L) results of some sequences."""
        there = torch.from_numpy(rows).to(tokens.device, non_blocking=True)
        self._tokens[there] = tokens
        self._log_probs = self._log_probs.to(log_probs.dtype)
        self._log_probs[there] = log_probs
        self._rounds[there] = rounds

    def close(self, method: Method) -> Generation:
        """The finished batch."""
        return Generation(
            tokens=self._tokens,
            log_probs=self._log_probs,
            rounds=self._rounds,
            method=method,
            counters=self._counters,
            history=tuple(self._history),
        )
