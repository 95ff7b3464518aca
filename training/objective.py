"""The teacher-forced joint loss of an AS-ARM, and beside it a loss for the drafts that ASSD will make.

Joint loss (Guo & Ermon 2025, equation 4): over a random prompt, the mean over the targets of
``-log p(x[sigma_t] given x[sigma_<t])``, all in one pass. It trains the verify rows only. Drafting asks another
question, step t from the first s < t steps, so a second set of query rows trains just that: one row a target, a random
lag behind it. Whatever the draft loss does to q, decoding stays lossless; it only changes how many drafts are kept.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.forbidden import Forbidden
from anyorder.likelihood import query_log_probs, target_steps
from anyorder.model.contract import AnySubsetModel
from anyorder.order import Order
from anyorder.visibility import concat, draft_rows, verify_rows


class Loss(NamedTuple):
    """Mean negative log-likelihoods in nats a token; ``draft`` is zero where no draft row was asked."""

    verify: Tensor
    draft: Tensor


def objective(
    model: AnySubsetModel,
    tokens: Tensor,
    order: Order,
    *,
    forbidden: Forbidden,
    max_lag: int = 0,
    draft_share: float = 1.0,
    generator: torch.Generator | None = None,
) -> Loss:
    """The joint loss of a batch and, if ``max_lag > 0``, the draft loss at lags uniform in ``1 .. max_lag``.

    Args:
        model: the network.
        tokens: (B, L) int64 in position space.
        order: which tokens are prompt and in which order the targets are decided.
        forbidden: ids that get no mass (they must not be targets).
        max_lag: the largest lag of a draft row; 0 asks none.
        draft_share: share of the targets that get a draft row, drawn at random (a compute dial).
        generator: draws lags and which targets get a draft row.
    """
    width = order.num_steps
    by_step = order.to_steps(tokens)
    steps = target_steps(order)
    query = verify_rows(steps)
    if max_lag:
        count = max(round(draft_share * steps.shape[1]), 1)
        pick = torch.rand(steps.shape, generator=generator).argsort(1)[:, :count].to(tokens.device)
        drafted = steps.gather(1, pick)
        # The first target's draft row would be its verify row: it is left out.
        drafted = torch.where(drafted > order.num_prompt[:, None], drafted, width)
        lag = torch.randint(1, max_lag + 1, drafted.shape, generator=generator).to(tokens.device)
        query = concat(query, draft_rows(drafted, torch.maximum(drafted - lag, order.num_prompt[:, None])))
    real = query.steps < width
    query = query._replace(num_visible=torch.where(real, query.num_visible, 0))
    losses = -query_log_probs(model, by_step, order, query=query, forbidden=forbidden).where(real, 0.0)
    split = steps.shape[1]
    return Loss(_mean(losses[:, :split], real[:, :split]), _mean(losses[:, split:], real[:, split:]))


def _mean(losses: Tensor, real: Tensor) -> Tensor:
    """The mean over the rows that take part, zero (with a zero gradient) if none does."""
    return losses.sum() / real.sum().clamp(min=1)
