"""Logits become the probabilities tokens are drawn from: temperature, then top-k, then top-p, then the softmax.

The same function makes q (what drafts come from) and p (what they are tested against), so losslessness is relative to
the distribution a user asked for. Order and ties are those of transformers' logits warpers: top-k keeps every token
tied with the k-th, top-p keeps the smallest set of most likely tokens that reaches the mass. Half precision is promoted
to float32, float64 stays; forbidden tokens arrive as minus infinity and keep probability zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.integers import check_integer, check_number


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to draw a token from logits.

    Attributes:
        temperature: divides the logits; 0 is greedy (the arg max, the lowest id at ties).
        top_k: keep the k most likely tokens, and those tied with the k-th; ``None`` keeps all.
        top_p: keep the smallest set of most likely tokens whose mass reaches this; ``None`` keeps all.

    Raises:
        TypeError: if a value is not a number (``top_k``: not an integer).
        ValueError: if a value is out of range or NaN.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        temperature = check_number("temperature", self.temperature)
        if not 0 <= temperature < math.inf:
            raise ValueError(f"temperature must be a finite number of at least 0 (0 is greedy); got {temperature!r}")
        object.__setattr__(self, "temperature", temperature)
        if self.top_k is not None:
            top_k = check_integer("top_k", self.top_k, least=1, note="None keeps every token")
            object.__setattr__(self, "top_k", top_k)
        if self.top_p is not None:
            top_p = check_number("top_p", self.top_p)
            if not 0 < top_p <= 1:
                raise ValueError(f"top_p must lie in (0, 1] (None keeps every token); got {top_p!r}")
            object.__setattr__(self, "top_p", top_p)

    def probs(self, logits: Tensor) -> Tensor:
        """The distribution tokens are drawn from.

        Args:
            logits: (..., V), forbidden tokens at minus infinity.

        Returns:
            (..., V) in at least float32; NaN throughout where no token is allowed (except greedy, which then names id
            0).
        """
        logits = at_least_float32(logits)
        if self.temperature == 0:
            best = logits.argmax(-1, keepdim=True)
            return torch.zeros_like(logits).scatter(-1, best, 1.0)
        if self.temperature != 1:
            # Only differences matter, and a float32 cannot hold what an extreme temperature makes of the rest.
            below_top = (logits - logits.amax(-1, keepdim=True)).double()
            logits = (below_top / self.temperature).to(logits.dtype)
        if self.top_k is not None:
            kth = logits.topk(min(self.top_k, logits.shape[-1])).values[..., -1:]
            logits = logits.masked_fill(logits < kth, -math.inf)
        if self.top_p is not None and self.top_p < 1:
            logits = logits.masked_fill(self._outside_nucleus(logits, self.top_p), -math.inf)
        return logits.softmax(-1)

    @staticmethod
    def _outside_nucleus(logits: Tensor, top_p: float) -> Tensor:
        """(..., V) bool, the tokens whose mass, with all of the less likely, does not reach beyond ``1 - top_p``."""
        ascending, ids = logits.sort(dim=-1, stable=True)
        outside = ascending.softmax(-1).cumsum(-1) <= 1 - top_p
        outside[..., -1] = False
        return torch.zeros_like(outside).scatter(-1, ids, outside)


def at_least_float32(logits: Tensor) -> Tensor:
    """Half precision promoted to float32; float32 and float64 as they are."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def log_density(logits: Tensor, tokens: Tensor) -> Tensor:
    """Log-probability of tokens at temperature 1, what ``log_prob`` means everywhere in this library.

    Args:
        logits: (..., V), forbidden tokens at minus infinity.
        tokens: (...) int64.

    Returns:
        (...) in at least float32; minus infinity for a forbidden token.
    """
    logits = at_least_float32(logits)
    chosen = logits.gather(-1, tokens[..., None])[..., 0]
    # Where nothing is allowed the difference would be NaN; the token asked about is then impossible like any other.
    return torch.where(chosen == -math.inf, chosen, chosen - logits.logsumexp(-1))
