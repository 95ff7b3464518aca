"""The joint log-density of the targets given the prompt, in one pass: the loss and the score are this same code.

By the chain rule in the declared order it is the sum over targets of log p(x[sigma_t] | x[sigma_<t]). Every term is a
query row that sees exactly the steps before its own, while content rows encode all tokens once: what the paper calls
one-pass density estimation. Values are at temperature 1 and with forbidden tokens excluded, which is what sampling
draws from.
Source: Guo & Ermon 2025, section 3 (the AS-ARM objective and figure 2).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from anyorder.forbidden import Forbidden
from anyorder.model.contract import AnySubsetModel
from anyorder.order import Order
from anyorder.sampling import at_least_float32, log_density
from anyorder.visibility import Rows, content_rows, verify_rows

_MAX_NUMBERS = {True: 2**19, False: 2**26}
"""Logits that are worked on at a time, on a CPU (so that they stay in its cache) or not."""


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
    logits = _ask(model, tokens, order, query)
    chosen = tokens.gather(1, query.steps.clamp(max=order.num_steps - 1))
    values: Tensor = _LogDensity.apply(logits, forbidden.banned(tokens, order, query), chosen)  # type: ignore[no-untyped-call]
    return values


def query_logits(model: AnySubsetModel, tokens: Tensor, order: Order, *, query: Rows, forbidden: Forbidden) -> Tensor:
    """(B, K, V) logits behind ``query_log_probs``, forbidden tokens at minus infinity."""
    return forbidden.mask(_ask(model, tokens, order, query), tokens, order, query)


def _ask(model: AnySubsetModel, tokens: Tensor, order: Order, query: Rows) -> Tensor:
    """(B, K, V) logits of the query rows, every token that some row may see being encoded."""
    step = torch.arange(order.num_steps, device=tokens.device)
    # The last step is seen by nobody.
    is_read = step < order.length[:, None] - 1
    num_slots = int(is_read.sum(1).max())
    encode = content_rows(order, torch.where(is_read, step, order.num_steps)[:, :num_slots])
    return model.forward(tokens, order.sigma, None, encode=encode, query=query, num_slots=num_slots)


class _LogDensity(torch.autograd.Function):
    """``log_density`` of masked logits, some rows at a time: nothing of their size is made but their gradient.

    Logits over a vocabulary are the largest thing of a training step. Masking them, exponentiating them and the
    backward passes of both would each write them once more.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, banned: Tensor, chosen: Tensor) -> Tensor:
        """(B, K) from (B, K, V) logits, (V,) or (B, K, V) bool and (B, K) tokens."""
        values = torch.empty(
            chosen.numel(), dtype=torch.promote_types(logits.dtype, torch.float32), device=logits.device
        )
        for rows, part, tokens in _parts(logits, banned, chosen):
            values[rows] = log_density(part, tokens[:, 0])
        ctx.save_for_backward(logits, banned, chosen)
        return values.view(chosen.shape)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        """Where the token was allowed: one at it, less the distribution."""
        logits, banned, chosen = ctx.saved_tensors
        gradient = torch.empty_like(logits).flatten(0, -2)
        for rows, part, tokens in _parts(logits, banned, chosen):
            is_impossible = part.gather(-1, tokens) == -math.inf
            weight = grads[0].flatten()[rows, None]
            here = part.softmax(-1).mul_(-weight).scatter_add_(-1, tokens, weight)
            gradient[rows] = here.masked_fill_(is_impossible, 0.0)
        return gradient.view_as(logits), None, None


def _parts(logits: Tensor, banned: Tensor, chosen: Tensor) -> Iterator[tuple[slice, Tensor, Tensor]]:
    """Some rows at a time: which they are, their masked logits (R, V) in at least float32, their tokens (R, 1)."""
    flat, tokens = logits.flatten(0, -2), chosen.flatten()[:, None]
    count = max(1, _MAX_NUMBERS[logits.device.type == "cpu"] // logits.shape[-1])
    for start in range(0, len(flat), count):
        rows = slice(start, start + count)
        out = banned if banned.dim() == 1 else banned.flatten(0, -2)[rows]
        yield rows, at_least_float32(flat[rows]).masked_fill(out, -math.inf), tokens[rows]
