"""The objective as a Lightning module: one optimiser step a call, the loss a mean over the targets of the global batch.

Everything that decides what is learned stands elsewhere, as pure functions; this class adds ranks, precision and
checkpoints. The optimisation is manual since a step's loss needs the number of targets of all its micro-batches on all
ranks before the first backward.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningModule
from torch import Tensor

from anyorder.forbidden import Forbidden
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows
from training.clock import Clock
from training.config import FitConfig
from training.keyed import key
from training.objective import loss_sums
from training.optimizers import make_optimizers
from training.orders import draw_drafts, draw_order
from training.schedule import learning_rate_share
from training.stream import Batch, Place


class Prepared(NamedTuple):
    """A micro-batch with its orders, on the device; ``place`` is where its shard goes on behind it."""

    tokens: Tensor
    order: Order
    drafts: Rows | None
    place: tuple[int, Place]


class FitModule(LightningModule):
    """A network in training.

    Attributes:
        network: what is trained.
        steps: optimiser steps done.
        tokens_seen: tokens read, over all ranks.
        train_loss: joint and draft loss of the last step, in nats a token over the global batch.
    """

    def __init__(self, network: XLNet, forbidden: Forbidden, config: FitConfig, clock: Clock) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network, self.forbidden, self.config, self.clock = network, forbidden, config, clock
        self.steps = self.tokens_seen = 0
        self.train_loss = torch.zeros(2)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """See ``training.optimizers``."""
        return make_optimizers(self.network, self.config.optimizer)

    def on_train_start(self) -> None:
        """Time counts from here."""
        self.clock.start()

    def transfer_batch_to_device(self, batches: list[Batch], device: torch.device, _index: int) -> list[Prepared]:
        """Draw orders and draft rows, then move what a step needs."""
        self.forbidden = self.forbidden.to(device)
        prepared = []
        for tokens, is_target, length, keys, shard, place in batches:
            order = draw_order(is_target, length, keys, self.config.objective, self.config.run.seed)
            drafts = draw_drafts(order, keys, self.config.objective, self.config.run.seed)
            drafts = drafts and Rows(drafts.steps.to(device), drafts.num_visible.to(device))
            prepared.append(Prepared(tokens.to(device), order.to(device), drafts, (shard, place)))
        return prepared

    def training_step(self, batches: list[Prepared], _index: int) -> None:
        """One optimiser step on the micro-batches of this rank."""
        counts = torch.stack([_counts(batch) for batch in batches]).sum(0)
        progress = self.clock.progress(self.steps)
        shared = torch.cat([counts, counts.new_tensor([progress / self.trainer.world_size])])
        *totals, progress = self.trainer.strategy.reduce(shared, reduce_op="sum").tolist()
        share = learning_rate_share(progress, self.steps, self.config.optimizer)
        if self.network.config.dropout:
            torch.manual_seed(key(self.config.run.seed, "dropout", self.steps, self.global_rank))
        sums = torch.zeros(2, device=self.device)
        for number, batch in enumerate(batches):
            with nullcontext() if number == len(batches) - 1 else self._without_sync():
                sums += self._backward(batch, totals)
        for optimizer in self._all_optimizers():
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self.config.optimizer.clip)
        for optimizer in self._all_optimizers():
            optimizer.step()
            optimizer.zero_grad()
        self.steps, self.tokens_seen = self.steps + 1, self.tokens_seen + round(totals[2])
        self.train_loss = self.trainer.strategy.reduce(sums, reduce_op="sum").cpu()
        self.trainer.should_stop = progress >= 1 or self.clock.is_last(self.steps)

    def _backward(self, batch: Prepared, totals: list[float]) -> Tensor:
        """Add a micro-batch's gradient, whose average over ranks is that of the global mean; return its part of it."""
        sums = loss_sums(self.network, batch.tokens, batch.order, forbidden=self.forbidden, drafts=batch.drafts)
        verify, draft = sums.verify / max(totals[0], 1), sums.draft / max(totals[1], 1)
        loss = verify + self.config.objective.draft_loss_weight * draft
        self.manual_backward(loss * self.trainer.world_size)
        return torch.stack([verify, draft]).detach()

    def _without_sync(self) -> Any:
        no_sync = getattr(self.trainer.strategy.model, "no_sync", nullcontext)
        return no_sync()

    def _all_optimizers(self) -> list[Any]:
        optimizers = self.optimizers()
        return optimizers if isinstance(optimizers, list) else [optimizers]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What a run remembers beside weights, optimiser and data."""
        checkpoint["fit"] = {"steps": self.steps, "tokens": self.tokens_seen, "seconds": self.clock.seconds}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See ``on_save_checkpoint``."""
        fit = checkpoint["fit"]
        self.steps, self.tokens_seen, self.clock.used = fit["steps"], fit["tokens"], fit["seconds"]


def _counts(batch: Prepared) -> Tensor:
    """Targets, draft rows and tokens of a micro-batch, in float64."""
    drafts = (batch.drafts.steps < batch.order.num_steps).sum() if batch.drafts else torch.zeros(())
    return torch.stack(
        [batch.order.num_targets.sum(), drafts.to(batch.tokens.device), batch.order.length.sum()]
    ).double()
