"""The joint log-density of the targets given the prompt, in one pass: the loss and the score are this same code.

By the chain rule in the declared order it is the sum over targets of log p(x[sigma_t] | x[sigma_<t]). Every term is a
query row that sees exactly the steps before its own, while content rows encode all tokens once: what the paper calls
one-pass density estimation. Values are at temperature 1 and with forbidden tokens excluded, which is what sampling
draws from.
Source: Guo & Ermon 2025, section 3 (the AS-ARM objective and figure 2).
"""

from __future__ import annotations

import torch
from torch import Tensor

from anyorder.forbidden import Forbidden
from anyorder.model.contract import AnySubsetModel
from anyorder.order import Order
from anyorder.sampling import log_density
from anyorder.visibility import Rows, content_rows, verify_rows


def joint_log_prob(model: AnySubsetModel, tokens: Tensor, order: Order, *, forbidden: Forbidden) -> Tensor:
    """Log-density of every target given the prompt and the targets before it, in one network pass.

    Differentiable in the model's parameters; sum the result over a row for the joint.

    Args:
        model: the network; its device is where everything is computed.
        tokens: (B, L) int64 in order space.
        order: which steps are targets, and in which order.
        forbidden: tokens that could not have been drawn; a target that is one of them has minus infinity.

    Returns:
        (B, L) in order space, in at least float32; zero at the prompt and the padding.
    """
    device = model.device
    tokens, order, forbidden = tokens.to(device), order.to(device), forbidden.to(device)
    steps = target_steps(order)
    width = steps.shape[1]
    if width == 0:
        return torch.zeros(tokens.shape, device=device)
    values = query_log_probs(model, tokens, order, query=verify_rows(steps), forbidden=forbidden)
    offset = torch.arange(order.num_steps, device=device) - order.num_prompt[:, None]
    is_target = (offset >= 0) & (offset < order.num_targets[:, None])
    return torch.where(is_target, values.gather(1, offset.clamp(0, width - 1)), 0.0)


def target_steps(order: Order) -> Tensor:
    """(B, W) int64, the steps of each row's targets, W being the most any row has; then the sentinel."""
    width = int(order.num_targets.max()) if len(order.length) else 0
    steps = order.num_prompt[:, None] + torch.arange(width, device=order.sigma.device)
    return torch.where(steps < order.length[:, None], steps, order.num_steps)


def query_log_probs(
    model: AnySubsetModel, tokens: Tensor, order: Order, *, query: Rows, forbidden: Forbidden
) -> Tensor:
    """Log-density of the token at every query row's step given what the row sees, all tokens being known; one pass.

    Args:
        model: the network; everything lies on its device.
        tokens: (B, L) int64 in order space.
        order: which steps are prompt.
        query: (B, K) rows; those at the sentinel step give numbers that mean nothing.
        forbidden: tokens that could not have been drawn.

    Returns:
        (B, K) in at least float32.
    """
    logits = query_logits(model, tokens, order, query=query, forbidden=forbidden)
    return log_density(logits, tokens.gather(1, query.steps.clamp(max=order.num_steps - 1)))


def query_logits(model: AnySubsetModel, tokens: Tensor, order: Order, *, query: Rows, forbidden: Forbidden) -> Tensor:
    """(B, K, V) logits behind ``query_log_probs``, forbidden tokens at minus infinity."""
    step = torch.arange(order.num_steps, device=tokens.device)
    # The last step is seen by nobody.
    is_read = step < order.length[:, None] - 1
    num_slots = int(is_read.sum(1).max())
    encode = content_rows(order, torch.where(is_read, step, order.num_steps)[:, :num_slots])
    logits = model.forward(tokens, order.sigma, None, encode=encode, query=query, num_slots=num_slots)
    return forbidden.mask(logits, tokens, order, query)
