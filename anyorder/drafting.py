"""A drafter proposes tokens for the next steps together with q, the distributions they were drawn from.

Verification makes any proposal lossless as long as q is honest: non-negative, summing to one, and the very distribution
each token came from. How good q is decides only how many drafts are kept. The model's own parallel conditionals (Guo &
Ermon 2025, algorithm 1) are drafted inside the decoding loops, since they share the loops' passes; this module holds
the protocol for every other drafter and the context n-gram of the paper's section 4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from anyorder.forbidden import Forbidden
from anyorder.order import Order
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.visibility import draft_rows


@dataclass(frozen=True)
class Drafts:
    """Proposed tokens for the steps from ``num_decoded`` on.

    Attributes:
        tokens: (B, K) int64; a row's drafts come first.
        q: (B, K, V), the distribution each token was drawn from.
        num_exact: (B,) int64 on the host, how many of a row's first drafts were drawn from p itself and are kept
            untested.
    """

    tokens: Tensor
    q: Tensor
    num_exact: Tensor

    def select(self, rows: Tensor) -> Drafts:
        """The drafts of some rows of the batch, ``rows`` being (A,) int64 row numbers on the host."""
        there = rows.to(self.tokens.device, non_blocking=True)
        return Drafts(self.tokens[there], self.q[there], self.num_exact[rows])


@runtime_checkable
class Drafter(Protocol):
    """Anything that can propose tokens; it is called once a round with the sequences still being decoded."""

    def propose(
        self, tokens: Tensor, order: Order, num_decoded: Tensor, k: Tensor, sampling: Sampling, uniforms: Uniforms
    ) -> Drafts:
        """Draft the steps ``num_decoded[b] .. num_decoded[b] + k[b] - 1`` of every row.

        How many drafts to make is settled before any is drawn; dropping one because of its value would bias the result,
        so exactly ``k[b]`` are expected.

        Args:
            tokens: (B, L) int64 in order space; entries at steps from ``num_decoded`` on mean nothing.
            order: where the steps lie.
            num_decoded: (B,) int64 on the host.
            k: (B,) int64 on the host; a row may ask for none.
            sampling: temperature and truncation the user asked for; following them makes q resemble p.
            uniforms: the only randomness to use, so that a seed decides the result.

        Returns:
            Drafts with K = ``max(k)``.
        """
        ...


def check_drafts(drafts: Drafts, k: Tensor, vocab_size: int) -> None:
    """Refuse a proposal that verification could not make lossless.

    Args:
        drafts: what the drafter returned.
        k: (B,) int64 on the host, how many drafts each row was asked for.
        vocab_size: V.

    Raises:
        TypeError: if it is not ``Drafts`` of tensors of integers, of numbers and of integers.
        ValueError: if a shape is wrong, q is negative or does not sum to one, a token lies outside the vocabulary, or
            was drafted where its own q is zero.
    """
    if not isinstance(drafts, Drafts):
        raise TypeError(f"a drafter must return anyorder.Drafts; got {type(drafts).__name__}")
    _check_kinds(drafts)
    batch, width = len(k), int(k.max())
    shapes = (tuple(drafts.tokens.shape), tuple(drafts.q.shape), tuple(drafts.num_exact.shape))
    wanted = ((batch, width), (batch, width, vocab_size), (batch,))
    if shapes != wanted:
        raise ValueError(f"a drafter must return tokens, q, num_exact of shapes {wanted}; got {shapes}")
    exact = drafts.num_exact.cpu()
    if bool(((exact < 0) | (exact > k)).any()):
        raise ValueError(f"num_exact must lie between 0 and the number of drafts {k.tolist()}; got {exact.tolist()}")
    asked = (torch.arange(width) < k[:, None]).to(drafts.tokens.device)
    inside = (drafts.tokens >= 0) & (drafts.tokens < vocab_size)
    own = drafts.q.gather(-1, drafts.tokens.clamp(0, vocab_size - 1)[..., None])[..., 0]
    # A softmax over a large vocabulary may lose half of its digits in the sum, no more.
    sums_to_one = (drafts.q.double().sum(-1) - 1).abs() <= math.sqrt(torch.finfo(drafts.q.dtype).eps)
    faults = {
        f"its tokens must lie in range({vocab_size})": ~inside,
        "its q must not be negative": ~(drafts.q >= 0).all(-1),
        "its q must sum to one": ~sums_to_one,
        "a token must not be drafted where its own q is zero": ~(own > 0),
    }
    found = torch.stack([(fault & asked).any() for fault in faults.values()]).tolist()
    for message, is_fault in zip(faults, found, strict=True):
        if is_fault:
            raise ValueError(f"drafter {message}, as losslessness rests on q being what the drafts were drawn from")


def _check_kinds(drafts: Drafts) -> None:
    for name, value in (("tokens", drafts.tokens), ("q", drafts.q), ("num_exact", drafts.num_exact)):
        if not isinstance(value, Tensor):
            raise TypeError(f"a drafter must return Drafts of tensors; its {name} is a {type(value).__name__}")
        if name == "q":
            if value.dtype not in (torch.float32, torch.float64):  # half of a half's digits is no test of a sum
                raise TypeError(f"a drafter must return q in float32 or float64; got {value.dtype}")
        elif value.dtype != torch.long:
            raise TypeError(f"a drafter must return {name} as torch.int64; got {value.dtype}")


@dataclass(frozen=True, kw_only=True)
class NGramDrafter:
    """Drafts from the tokens already there: what followed the same left neighbour, else what is frequent, else
    anything.

    Counts are taken over decided tokens only (so never over a mask), in position space, and afresh each round, which
    keeps them up to date without any state. The chain of drafts continues from the draft before it.

    Attributes:
        forbidden: tokens it does not propose.
    """

    forbidden: Forbidden

    def propose(
        self, tokens: Tensor, order: Order, num_decoded: Tensor, k: Tensor, sampling: Sampling, uniforms: Uniforms
    ) -> Drafts:
        """See ``Drafter.propose``; nothing here is exact, so the first draft is tested like the others."""
        device, width = tokens.device, int(k.max())
        decided = order.rank < num_decoded.to(device, non_blocking=True)[:, None]
        tokens, drafted, q = tokens.clone(), [], []
        for ahead in range(width):
            wanted = (ahead < k)[:, None]
            step = torch.where(wanted, num_decoded[:, None] + ahead, order.num_steps).to(device, non_blocking=True)
            logits = self._log_counts(tokens, order, decided, step)
            q.append(sampling.probs(self._allowed(logits, tokens, order, step))[:, None])
            drafted.append(uniforms.categorical(q[-1], wanted))
            in_range = step.clamp(max=order.num_steps - 1)
            keep = tokens.gather(1, in_range)
            tokens = tokens.scatter(1, in_range, torch.where(wanted.to(device, non_blocking=True), drafted[-1], keep))
        return Drafts(torch.cat(drafted, 1), torch.cat(q, 1), torch.zeros_like(k))

    def _log_counts(self, tokens: Tensor, order: Order, decided: Tensor, step: Tensor) -> Tensor:
        """(B, 3, V) log-counts of the bigram, the unigram and the uniform distribution at one step (B, 1)."""
        text = order.to_positions(tokens)
        position = order.sigma.gather(1, step.clamp(max=order.num_steps - 1))
        left = (position - 1).clamp(min=0)
        has_left = order.rank.gather(1, left) < step  # the first position is its own, not yet decided
        follows = decided[:, 1:] & decided[:, :-1] & (text[:, :-1] == text.gather(1, left)) & has_left
        counts = torch.zeros(len(text), 3, len(self.forbidden.ids), dtype=torch.float64, device=text.device)
        counts[:, 0].scatter_add_(1, text[:, 1:], follows.double())
        counts[:, 1].scatter_add_(1, text, decided.double())
        counts[:, 2] = 1
        return counts.log()

    def _allowed(self, log_counts: Tensor, tokens: Tensor, order: Order, step: Tensor) -> Tensor:
        """(B, V) the first of the three that leaves any token once the forbidden ones are gone."""
        rows = draft_rows(step.expand(-1, 3), step)
        allowed = self.forbidden.mask(log_counts, tokens, order, rows)
        usable = (allowed > -math.inf).any(-1).to(torch.uint8)
        return allowed.gather(1, usable.argmax(1)[:, None, None].expand(-1, 1, allowed.shape[-1]))[:, 0]
