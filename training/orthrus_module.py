"""Orthrus as a Lightning module: one step of distillation a call, and the held-out figures of a view."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters import orthrus
from anyorder.adapters.causal import CausalModel
from training.causal_data import CausalBatch
from training.causal_module import CausalModule
from training.clock import Clock
from training.keyed import keyed_generator
from training.orthrus_config import FitOrthrusConfig, OrthrusConfig


def anchors_of(batch: CausalBatch, options: OrthrusConfig, seed: int) -> Tensor:
    """(B, A) the anchors of a micro-batch: drawn for each row from what it is called, whoever asks."""
    length = batch.tokens.shape[1]
    scores = [torch.rand(length, generator=keyed_generator(seed, "anchors", *key)) for key in batch.keys]
    return orthrus.draw_anchors(
        batch.is_response,
        batch.documents,
        block=options.block,
        count=options.anchors,
        scores=torch.stack(scores).to(batch.tokens.device),
    )


class OrthrusModule(CausalModule):
    """A view in training; the two parts of ``train_loss`` are its loss and how often it agrees with the base."""

    def __init__(
        self, network: CausalModel, config: FitOrthrusConfig, clock: Clock, to_batch: Callable[[Any], CausalBatch]
    ) -> None:
        super().__init__(network, config.optimizer, clock, to_batch)
        self.config = config

    def backward_of(self, batch: CausalBatch, count: int) -> Tensor:
        """Add a micro-batch's gradient; returns its share of (loss, agreement)."""
        options = self.config.orthrus
        made = orthrus.distillation(
            self.network,
            batch.tokens,
            anchors_of(batch, options, self.config.run.seed),
            documents=batch.documents,
            hard_labels=options.hard_labels,
            chunk=options.chunk,
        )
        self.manual_backward(made.loss / count)
        agreement = made.agrees[made.counts].float().mean().nan_to_num()
        return torch.stack([made.loss.detach(), agreement]) / count


@torch.no_grad()
def held_out_figures(network: CausalModel, batches: list[CausalBatch], options: OrthrusConfig) -> dict[str, float]:
    """Nats from the base to the view, and how often a draft and all before it are what greedy decoding would write.

    ``kept1`` is the first draft; ``block`` is what testing a whole block decides on average, one token and the drafts
    that are kept. The rates become the network's ``acceptance``, which goes into the view's checkpoint.
    """
    drafts = options.block - 1
    nats, rows, blocks = 0.0, 0, 0
    kept = torch.zeros(drafts + 1)
    for number, batch in enumerate(batches):
        anchors = anchors_of(batch, options, number)
        made = orthrus.distillation(network, batch.tokens, anchors, documents=batch.documents, chunk=options.chunk)
        count = int(made.counts.sum())
        nats, rows, blocks = nats + float(made.loss) * count, rows + count, blocks + count
        kept[1:] += made.agrees[made.counts].long().cumprod(-1).sum(0).cpu()
    kept[0] = blocks
    share = kept / max(blocks, 1)
    rates = (kept[1:] / kept[:-1].clamp(min=1)).tolist()
    network.acceptance = tuple(rates)
    return {
        "kl": nats / max(rows, 1),
        "block": float(share.sum()),
        **{f"kept{lag + 1}": float(each) for lag, each in enumerate(share[1:])},
    }
