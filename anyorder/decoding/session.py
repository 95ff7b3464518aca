"""The sequences of a decoding call that are still alive: their tokens, cache and randomness, and how far each has come.

A loop plans on the host, from integers it already has, which rows to ask for; the device computes; one small transfer a
round (``readback``) brings back how many drafts were kept. Copies the other way are queued and never waited for. Two
invariants hold between rounds: a sequence's steps below ``num_decoded`` hold its tokens, and those below
``num_encoded`` are in the cache. What lies beyond in either is stale and out of reach of every ``num_visible``.
Finished sequences are dropped once they are half of the batch.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from anyorder.arrays import Bools, Ints
from anyorder.decoding.generation import Generation, Progress, Round
from anyorder.decoding.ledger import Ledger
from anyorder.decoding.options import DecodeOptions
from anyorder.decoding.readback import Readback
from anyorder.draft_length import History
from anyorder.drafting import Drafter, Drafts, NGramDrafter
from anyorder.forbidden import Forbidden
from anyorder.model.contract import AnySubsetModel, Cache
from anyorder.order import Order
from anyorder.sampling import at_least_float32, log_density
from anyorder.uniforms import Uniforms
from anyorder.visibility import Rows, content_rows


class Session:
    """The state the decoding loops share. Shapes: A sequences alive of B, L steps.

    What is planned on the host is numpy's: its operations on a few integers cost a tenth of torch's, and a round has
    dozens of them beside a pass of a few milliseconds.

    Attributes:
        tokens: (A, L + 1) int64 on the device; column L is scratch, where rows that take no part write.
        num_decoded: (A,) steps decided, the prompt included.
        num_encoded: (A,) steps in the cache.
        end: (A,) number of real steps.
        levels: how each of the A sequences drafts, as far as it matters to the policy.
        readback: what the next transfer brings to the host.
    """

    def __init__(
        self,
        model: AnySubsetModel,
        tokens: Tensor,
        order: Order,
        *,
        uniforms: Uniforms,
        options: DecodeOptions,
        forbidden: Forbidden,
        on_round: Callable[[Progress], None] | None = None,
    ) -> None:
        device, host = model.device, order.to("cpu")
        self.model, self.options = model, options
        self.order, self.forbidden, self.uniforms = order.to(device), forbidden.to(device), uniforms
        self.num_decoded, self.end = host.num_prompt.numpy().copy(), host.length.numpy()
        self.num_encoded = np.where(self.num_decoded < self.end, 0, self.end)
        self._learns = options.effective_method in ("assd", "one-pass") and (
            options.draft_length is None or options.max_rows is not None
        )
        self._history, self.levels = History.empty(len(tokens)), [0] * len(tokens)
        # What the targets held is none of the decoder's business; it must not even be able to leak.
        step = torch.arange(host.num_steps)
        is_target = (step >= host.num_prompt[:, None]) & (step < host.length[:, None])
        self.tokens = F.pad(torch.where(is_target.to(device), 0, tokens.to(device)), (0, 1))
        self.ledger = Ledger(self.tokens[:, :-1], int(host.num_targets.sum()), on_round)
        self.rows = np.arange(len(tokens))
        self._columns = np.arange(host.num_steps + 1)
        self._log_probs = torch.zeros(self.tokens.shape, device=device)
        self._rounds = torch.zeros_like(self.tokens)
        self.readback = Readback()
        self.cache: Cache | None = None
        self._until = self.num_encoded
        self.compact()
        self.cache = model.new_cache(len(self.rows), host.num_steps)

    def to_device(self, values: NDArray[np.generic]) -> Tensor:
        """Values of the host on the device; the copy is queued, never waited for."""
        return torch.from_numpy(values).to(self.tokens.device, non_blocking=True)

    @property
    def remaining(self) -> Ints:
        """(A,) steps still to decide."""
        remaining: Ints = self.end - self.num_decoded
        return remaining

    @property
    def is_alive(self) -> bool:
        """Whether any step of any sequence is still to be decided: ``compact`` leaves no row once none is."""
        return len(self.rows) > 0

    def steps(self, counts: Ints, offset: int = 0) -> Ints:
        """(A, max(counts)): the ``counts[a]`` steps from ``num_decoded + offset`` on, then the sentinel."""
        ahead = self._columns[: counts.max(initial=0)]
        return np.where(ahead < counts[:, None], (self.num_decoded + offset)[:, None] + ahead, self.order.num_steps)

    def place(self, tokens: Tensor, counts: Ints) -> None:
        """Write each row's first ``counts[a]`` of (A, K) tokens at the steps from ``num_decoded`` on, as drafts."""
        steps = self.to_device(self.steps(counts))
        self.tokens.scatter_(1, steps, tokens[:, : steps.shape[1]])

    @property
    def drafter(self) -> Drafter | None:
        """The drafter, unless it is the model itself."""
        if self.options.drafter == "ngram":
            return NGramDrafter(forbidden=self.forbidden)
        return None if isinstance(self.options.drafter, str) else self.options.drafter

    def forward(self, encode_until: Ints, query: Rows) -> tuple[Tensor, Rows]:
        """One pass: encode what is not yet encoded, answer the queries.

        Args:
            encode_until: (A,) steps that have to be in the cache; a sequence's last step never does.
            query: (A, K) rows on the host.

        Returns:
            (A, K, V) logits and the rows on the device.
        """
        sentinel, asked, visible = self.order.num_steps, query.steps.numpy(), query.num_visible.numpy()
        until = np.minimum(encode_until, self.end - 1)
        fresh = self.num_encoded[:, None] + self._columns[: (until - self.num_encoded).max(initial=0)]
        is_fresh, is_asked = fresh < until[:, None], asked < sentinel
        rows = is_asked.sum(1)
        self.ledger.count_pass(self.rows, rows + is_fresh.sum(1), takes_part=rows > 0)
        visible = np.where(is_asked, visible, 0)
        there = Rows(query.steps.to(self.tokens.device, non_blocking=True), self.to_device(visible))
        logits = self.model.forward(
            self.tokens[:, :-1],
            self.order.sigma,
            self.cache,
            encode=content_rows(self.order, self.to_device(np.where(is_fresh, fresh, sentinel))),
            query=there,
            num_slots=max(int(visible.max(initial=0)), int(until.max())),
        )
        self._until, self.num_encoded = until, np.maximum(self.num_encoded, np.minimum(until, self.num_decoded))
        return logits, there

    def allowed(self, logits: Tensor, query: Rows) -> Tensor:
        """(A, K, V) logits in at least float32, minus infinity at what is forbidden where a row stands."""
        return self.forbidden.mask(at_least_float32(logits), self.tokens[:, :-1], self.order, query)

    def probs(self, allowed: Tensor) -> Tensor:
        """(A, K, V) what tokens are drawn from."""
        return self.options.sampling.probs(allowed)

    def commit(
        self, tokens: Tensor, allowed: Tensor, *, drafts: Drafts, num_drafts: Ints, num_kept: Ints, has_final: Bools
    ) -> None:
        """Decide the first (A, M) tokens of each row and end the round.

        Args:
            tokens: (A, M) int64 for the steps from ``num_decoded`` on; as many count as the round decided.
            allowed: (A, M, V) the logits of the rows that decided them.
            drafts: the drafts as they were made.
            num_drafts: (A,) how many there were.
            num_kept: (A,) how many of them were kept.
            has_final: (A,) whether a token after the kept drafts was decided.
        """
        done = Round(
            rows=torch.from_numpy(self.rows),
            step=torch.from_numpy(self.num_decoded),
            drafted=drafts.tokens,
            num_drafts=torch.from_numpy(num_drafts),
            num_exact=drafts.num_exact,
            num_kept=torch.from_numpy(num_kept),
            has_final=torch.from_numpy(has_final),
        )
        num_new = num_kept + has_final
        steps = self.to_device(self.steps(num_new))
        tokens, allowed = tokens[:, : steps.shape[1]], allowed[:, : steps.shape[1]]
        log_probs = log_density(allowed, tokens)
        self._log_probs = self._log_probs.to(log_probs.dtype).scatter_(1, steps, log_probs)
        self._rounds.scatter_(1, steps, self.ledger.num_rounds + 1)
        self.tokens.scatter_(1, steps, tokens)
        # Of the drafts that were encoded, the kept ones stay valid; the slot of a corrected one is stale.
        valid = np.minimum(self._until, self.num_decoded + num_kept)
        self.num_encoded, self.num_decoded = np.maximum(self.num_encoded, valid), self.num_decoded + num_new
        self.ledger.enter(done, self.rows, num_new)
        if self._learns and num_drafts.any():
            policy, num_exact = self.options.policy, drafts.num_exact.numpy()
            self._history = policy.after(self._history, num_drafts - num_exact, num_kept - num_exact)
            self.levels = policy.levels(self._history)

    def compact(self) -> Ints | None:
        """Drop the finished sequences once they are half of those alive; returns the (A,) row numbers kept, if so.

        Raises:
            ValueError: if some sequence had no token to draw, or the model returned NaN.
        """
        alive = np.flatnonzero(self.num_decoded < self.end)
        if 2 * len(alive) > len(self.rows):
            return None
        self.readback.report()
        self.ledger.store(self.rows, self.tokens[:, :-1], self._log_probs[:, :-1], self._rounds[:, :-1])
        there = self.to_device(alive)
        self.tokens, self._log_probs = self.tokens[there], self._log_probs[there]
        self._rounds = self._rounds[there]
        self.order, self.forbidden = self.order.select(there), self.forbidden.select(there)
        self.uniforms = self.uniforms.select(torch.from_numpy(alive))
        self._history, self.levels = self._history.select(alive), [self.levels[row] for row in alive]
        self.num_decoded, self.num_encoded = self.num_decoded[alive], self.num_encoded[alive]
        self.end, self.rows = self.end[alive], self.rows[alive]
        if self.cache is not None:
            self.cache = self.cache.select(there)
        return alive

    def finish(self) -> Generation:
        """The finished batch."""
        return self.ledger.close(self.options.effective_method)
