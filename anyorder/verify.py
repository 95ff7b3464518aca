"""Rejection sampling keeps as many drafts as it can without changing the distribution of what comes out.

Drafts d_0, d_1, ... were drawn from q; p says what they should have been drawn from. Left to right, d_i is kept with
probability min(1, p(d_i) / q(d_i)); at the first rejection the token is drawn from the normalised positive part of p -
q and the rest is thrown away; if all are kept, the row after them yields a bonus token of its own. Each decided token
then follows p exactly. Nothing here knows a model: it could verify dice.
Source: Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023, appendix A.1; Guo & Ermon
2025, algorithm 1 (which swaps the letters p and q) and theorem 2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.drafting import Drafts
from anyorder.uniforms import Uniforms


class Verdict(NamedTuple):
    """What became of the drafts.

    Attributes:
        num_kept: (B,) int64, the drafts kept, counted from the left.
        final: (B,) int64, the token after them: the correction, or the bonus token if all were kept and there is a
            bonus row; 0, meaning nothing, otherwise.
    """

    num_kept: Tensor
    final: Tensor

    def applied_to(self, drafted: Tensor) -> Tensor:
        """(B, K + 1): the (B, K) drafts with the final token in its place; entries beyond it mean nothing."""
        decided = torch.nn.functional.pad(drafted, (0, 1))
        return decided.scatter(1, self.num_kept[:, None], self.final[:, None])


def verify(drafts: Drafts, p: Tensor, num_drafts: Tensor, has_bonus: Tensor, *, uniforms: Uniforms) -> Verdict:
    """Decide which drafts stay and what follows them.

    Args:
        drafts: (B, K) drafts; those beyond a row's ``num_drafts`` are ignored, the first ``num_exact`` are kept
            untested.
        p: (B, K + 1, V), row i the exact distribution at draft i given the drafts before it; row ``num_drafts[b]`` is
            the bonus row. Rows beyond are ignored.
        num_drafts: (B,) int64 on the host.
        has_bonus: (B,) bool on the host, whether the bonus row counts.
        uniforms: the randomness. A row consumes one number a tested draft and one for the final token, however the
            tests go, and none for a final token that cannot occur.
    """
    width = drafts.tokens.shape[1]
    place = torch.arange(width)
    is_exact = place < drafts.num_exact[:, None]
    is_tested = (place < num_drafts[:, None]) & ~is_exact
    residual = _residual(drafts.q, p, num_drafts)
    chosen = drafts.tokens[..., None]
    ratio = (p[:, :width].gather(-1, chosen) / drafts.q.gather(-1, chosen))[..., 0]
    # p and q can agree up to rounding; then nothing is left to correct with, and every draft is right.
    passed = uniforms.bernoulli(ratio, is_tested) | (residual[:, :width].sum(-1) == 0)
    kept = (passed & is_tested.to(p.device, non_blocking=True)) | is_exact.to(p.device, non_blocking=True)
    num_kept = kept.long().cumprod(1).sum(1)
    after = residual.gather(1, num_kept[:, None, None].expand(-1, 1, p.shape[-1]))
    is_over = (num_kept == num_drafts.to(p.device, non_blocking=True)) & ~has_bonus.to(p.device, non_blocking=True)
    after = torch.where(is_over[:, None, None], _certain(after), after)
    can_follow = is_tested.any(1) | has_bonus
    return Verdict(num_kept, uniforms.categorical(after, can_follow[:, None])[:, 0])


def _residual(q: Tensor, p: Tensor, num_drafts: Tensor) -> Tensor:
    """(B, K + 1, V) the positive part of p - q; the bonus row is the residual of a draft that nobody made, q = 0."""
    q = torch.nn.functional.pad(q, (0, 0, 0, 1))
    drafted = torch.arange(q.shape[1]) < num_drafts[:, None]
    return (p - torch.where(drafted[..., None].to(p.device, non_blocking=True), q, 0)).clamp(min=0)


def _certain(like: Tensor) -> Tensor:
    """The distribution that is sure of token 0: where nothing is drawn, nothing is random."""
    certain = torch.zeros_like(like)
    certain[..., 0] = 1
    return certain
