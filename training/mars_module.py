"""MARS as a Lightning module: one optimiser step a call, and the held-out figures of a model that drafts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.documents import bounds
from anyorder.adapters.mars import causal_loss, mars_loss
from anyorder.adapters.mars.objective import both_copies
from training.causal_data import CausalBatch
from training.causal_module import CausalModule
from training.clock import Clock
from training.mars_config import FitMarsConfig

PSEUDO_COUNT = 16
"""Drafts whose fate is assumed at every lag, beside those that were seen."""


class MarsModule(CausalModule):
    """A causal network in training on the noisy and the clean loss, which are the two parts of ``train_loss``."""

    def __init__(
        self, network: CausalModel, config: FitMarsConfig, clock: Clock, to_batch: Callable[[Any], CausalBatch]
    ) -> None:
        super().__init__(network, config.optimizer, clock, to_batch)
        self.config = config

    def backward_of(self, batch: CausalBatch, count: int) -> Tensor:
        """Add a micro-batch's gradient; returns its (noisy, clean) part of the loss."""
        mars = self.config.mars
        per_token = batch.documents is not None
        if mars.objective == "causal":
            clean = causal_loss(
                self.network, batch.tokens, batch.is_response, documents=batch.documents, per_token=per_token
            )
            noisy = torch.zeros_like(clean)
            loss = clean
        else:
            noisy, clean = mars_loss(
                self.network,
                batch.tokens,
                batch.is_response,
                block=mars.block,
                documents=batch.documents,
                per_token=per_token,
            )
            loss = noisy + mars.clean_weight * clean
        self.manual_backward(loss / count)
        return torch.stack([noisy, clean]).detach() / count


@torch.no_grad()
def held_out_figures(network: CausalModel, batches: list[CausalBatch], block: int) -> dict[str, float]:
    """Nats a token of both copies, and how often a draft at each offset is what greedy decoding would write.

    ``kept1`` is the row of the first mask: it predicts one token beyond what the row before it decides. How often that
    is so where all masks before it in the block are right becomes the network's ``acceptance``, which goes into its
    checkpoint. The text before the masks is the true one; behind greedy text, which is easier to go on, more is kept.
    """
    nats, count = torch.zeros(2), 0
    agreed, asked = torch.zeros(block), torch.zeros(block)
    kept, reached = torch.zeros(block), torch.zeros(block)
    for batch in batches:
        size = int(batch.is_response.sum())
        losses = mars_loss(
            network, batch.tokens, batch.is_response, block=block, documents=batch.documents, per_token=True
        )
        nats, count = nats + size * torch.stack(losses).cpu(), count + size
        clean, noisy = both_copies(network, batch.tokens, batch.is_response, batch.documents, block)
        same = (network.logits(clean).argmax(-1) == network.logits(noisy).argmax(-1)).cpu()
        from_start, are_right = _positions(batch) % block, torch.ones_like(same)
        for offset in range(block):
            rows = batch.is_response.cpu() & (from_start == offset)
            agreed[offset] += (same & rows).sum()
            asked[offset] += rows.sum()
            reaching = rows & are_right
            kept[offset] += (same & reaching).sum()
            reached[offset] += reaching.sum()
            are_right = (same & reaching).roll(1, dims=1)
    share = agreed / asked.clamp(min=1)
    network.acceptance = smoothed(kept.tolist(), reached.tolist())
    noisy, clean = (nats / max(count, 1)).tolist()
    return {"density": clean, "noisy": noisy, **{f"kept{i + 1}": float(each) for i, each in enumerate(share)}}


def smoothed(kept: Sequence[float], reached: Sequence[float]) -> tuple[float, ...]:
    """Shares kept of those reached; a lag that few drafts reached counts as ``PSEUDO_COUNT`` more like the lag before.

    So a lag reached once is not stored as 0 or 1.
    """
    rates, before = [], 0.5
    for right, asked in zip(kept, reached, strict=True):
        before = (right + PSEUDO_COUNT * before) / (asked + PSEUDO_COUNT)
        rates.append(before)
    return tuple(rates)


def _positions(batch: CausalBatch) -> Tensor:
    return bounds(batch.tokens, batch.documents)[1].expand_as(batch.tokens).cpu()
