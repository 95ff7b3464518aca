"""The objective as a Lightning module: one optimiser step a call, the loss a mean over the targets of the global batch.

Everything that decides what is learned stands elsewhere, as pure functions; this class adds ranks, precision and
checkpoints. The optimisation is manual since a step's loss needs the number of targets of all its micro-batches on all
ranks before the first backward.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.forbidden import Forbidden
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows
from training.clock import Clock
from training.config import FitConfig
from training.keyed import key
from training.objective import loss_sums
from training.orders import draw_drafts, draw_order
from training.stream import Batch, Place
from training.timed_module import TimedModule


class Prepared(NamedTuple):
    """A micro-batch with its orders, on the device; ``place`` is where its shard goes on behind it."""

    tokens: Tensor
    order: Order
    drafts: Rows | None
    place: tuple[int, Place]


class FitModule(TimedModule):
    """A network in training on the joint loss and the draft loss, which are the two parts of ``train_loss``."""

    network: XLNet

    def __init__(self, network: XLNet, forbidden: Forbidden, config: FitConfig, clock: Clock) -> None:
        super().__init__(network, config.optimizer, clock)
        self.forbidden, self.config = forbidden, config

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
        if self.network.config.dropout:
            torch.manual_seed(key(self.config.run.seed, "dropout", self.steps, self.global_rank))
        sums = torch.zeros(2, device=self.device)
        for number, batch in enumerate(batches):
            with self.backward_context(is_last=number == len(batches) - 1):
                sums += self._backward(batch, totals)
        self.tokens_seen += round(totals[2])
        self.train_loss = self.trainer.strategy.reduce(sums, reduce_op="sum").cpu()
        self.apply_gradients(progress)

    def _backward(self, batch: Prepared, totals: list[float]) -> Tensor:
        """Add a micro-batch's gradient, whose average over ranks is that of the global mean; return its part of it."""
        sums = loss_sums(self.network, batch.tokens, batch.order, forbidden=self.forbidden, drafts=batch.drafts)
        verify, draft = sums.verify / max(totals[0], 1), sums.draft / max(totals[1], 1)
        loss = verify + self.config.objective.draft_loss_weight * draft
        self.manual_backward(loss * self.trainer.world_size)
        return torch.stack([verify, draft]).detach()


def _counts(batch: Prepared) -> Tensor:
    """Targets, draft rows and tokens of a micro-batch, in float64."""
    drafts = (batch.drafts.steps < batch.order.num_steps).sum() if batch.drafts else torch.zeros(())
    return torch.stack(
        [batch.order.num_targets.sum(), drafts.to(batch.tokens.device), batch.order.length.sum()]
    ).double()
