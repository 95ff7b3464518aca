"""MARS as a Lightning module: one optimiser step a call, and the held-out figures of a model that drafts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.mars import causal_loss, mars_loss
from anyorder.adapters.mars.objective import both_copies
from training.clock import Clock
from training.mars_config import FitMarsConfig
from training.mars_data import MarsBatch
from training.optimizers import make_optimizers
from training.schedule import learning_rate_share


class MarsModule(LightningModule):
    """A causal network in training.

    Attributes:
        network: what is trained.
        steps: optimiser steps done.
        tokens_seen: tokens read, over all ranks.
        train_loss: noisy and clean loss of the last step, in nats.
    """

    def __init__(
        self, network: CausalModel, config: FitMarsConfig, clock: Clock, to_batch: Callable[[Any], MarsBatch]
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network, self.config, self.clock = network, config, clock
        self._to_batch = to_batch
        self.steps = self.tokens_seen = 0
        self.train_loss = torch.zeros(2)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """See ``training.optimizers``."""
        return make_optimizers(self.network, self.config.optimizer)

    def on_train_start(self) -> None:
        """Time counts from here."""
        self.clock.start()

    def transfer_batch_to_device(self, batches: list[Any], device: torch.device, _index: int) -> list[MarsBatch]:
        """Say what is a response, then move what a step needs."""
        return [self._to_batch(batch).to(device) for batch in batches]

    def training_step(self, batches: list[MarsBatch], _index: int) -> None:
        """One optimiser step on the micro-batches of this rank."""
        progress = self.trainer.strategy.reduce(torch.tensor(self.clock.progress(self.steps)), reduce_op="mean").item()
        share = learning_rate_share(progress, self.steps, self.config.optimizer)
        parts = torch.zeros(2, device=self.device)
        for number, batch in enumerate(batches):
            with nullcontext() if number == len(batches) - 1 else self._without_sync():
                parts += self._backward(batch, len(batches))
            self.tokens_seen += batch.tokens.numel() * self.trainer.world_size
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.optimizer.clip)
        optimizers = self.optimizers()
        for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share
            optimizer.step()
            optimizer.zero_grad()
        self.steps += 1
        self.train_loss = self.trainer.strategy.reduce(parts, reduce_op="mean").cpu()
        self.trainer.should_stop = progress >= 1 or self.clock.is_last(self.steps)

    def _backward(self, batch: MarsBatch, count: int) -> Tensor:
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

    def _without_sync(self) -> Any:
        return getattr(self.trainer.strategy.model, "no_sync", nullcontext)()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What a run remembers beside weights, optimiser and data."""
        checkpoint["fit"] = {"steps": self.steps, "tokens": self.tokens_seen, "seconds": self.clock.seconds}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See ``on_save_checkpoint``."""
        fit = checkpoint["fit"]
        self.steps, self.tokens_seen, self.clock.used = fit["steps"], fit["tokens"], fit["seconds"]


@torch.no_grad()
def held_out_figures(network: CausalModel, batches: list[MarsBatch], block: int) -> dict[str, float]:
    """Nats a token of both copies, and how often a draft at each offset is what greedy decoding would write.

    ``kept1`` is the row of the first mask: it predicts one token beyond what the row before it decides.
    """
    nats, count = torch.zeros(2), 0
    agreed, asked = torch.zeros(block), torch.zeros(block)
    for batch in batches:
        size = int(batch.is_response.sum())
        losses = mars_loss(
            network, batch.tokens, batch.is_response, block=block, documents=batch.documents, per_token=True
        )
        nats, count = nats + size * torch.stack(losses).cpu(), count + size
        clean, noisy = both_copies(network, batch.tokens, batch.is_response, batch.documents, block)
        same = (network.logits(clean).argmax(-1) == network.logits(noisy).argmax(-1)).cpu()
        from_start = _positions(batch) % block
        for offset in range(block):
            rows = batch.is_response.cpu() & (from_start == offset)
            agreed[offset] += (same & rows).sum()
            asked[offset] += rows.sum()
    share = agreed / asked.clamp(min=1)
    noisy, clean = (nats / max(count, 1)).tolist()
    return {"density": clean, "noisy": noisy, **{f"kept{i + 1}": float(each) for i, each in enumerate(share)}}


def _positions(batch: MarsBatch) -> Tensor:
    from anyorder.adapters.mars.objective import starts_and_positions

    bounds = torch.zeros_like(batch.tokens) if batch.documents is None else batch.documents
    return starts_and_positions(bounds)[1].cpu()
