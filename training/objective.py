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
from anyorder.visibility import Rows, concat, verify_rows


class Loss(NamedTuple):
    """Mean negative log-likelihoods in nats a token; ``draft`` is zero where no draft row was asked."""

    verify: Tensor
    draft: Tensor


class LossSums(NamedTuple):
    """What the means are made of, so that they can be taken over many batches and ranks.

    Attributes:
        verify: negative log-likelihoods of all targets, summed.
        draft: those of all draft rows, summed.
        num_verify: number of targets.
        num_draft: number of draft rows.
    """

    verify: Tensor
    draft: Tensor
    num_verify: Tensor
    num_draft: Tensor

    def mean(self) -> Loss:
        """The mean over the rows that take part, zero (with a zero gradient) if none does."""
        return Loss(self.verify / self.num_verify.clamp(min=1), self.draft / self.num_draft.clamp(min=1))


class Asked(NamedTuple):
    """The query rows of a pass.

    Attributes:
        rows: (B, T + D), those of all targets and then draft rows; a sentinel row sees nothing.
        is_real: (B, T + D), False for sentinel rows.
        split: T.
    """

    rows: Rows
    is_real: Tensor
    split: int


def asked_rows(order: Order, drafts: Rows | None = None) -> Asked:
    """A verify row for every target, and beside them some draft rows."""
    steps = target_steps(order)
    rows = verify_rows(steps) if drafts is None else concat(verify_rows(steps), drafts)
    is_real = rows.steps < order.num_steps
    return Asked(rows._replace(num_visible=torch.where(is_real, rows.num_visible, 0)), is_real, steps.shape[1])


def loss_sums(
    model: AnySubsetModel, tokens: Tensor, order: Order, *, forbidden: Forbidden, drafts: Rows | None = None
) -> LossSums:
    """The joint loss of a batch and, beside it, the loss of some draft rows, in one pass.

    Args:
        model: the network; everything lies on its device.
        tokens: (B, L) int64 in position space.
        order: which tokens are prompt and in which order the targets are decided.
        forbidden: ids that get no mass (they must not be targets).
        drafts: (B, D) rows that see fewer steps than their own; the sentinel step marks one that takes no part.
    """
    query, real, split = asked_rows(order, drafts)
    losses = -query_log_probs(model, order.to_steps(tokens), order, query=query, forbidden=forbidden).where(real, 0.0)
    return LossSums(losses[:, :split].sum(), losses[:, split:].sum(), real[:, :split].sum(), real[:, split:].sum())
