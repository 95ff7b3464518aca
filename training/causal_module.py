"""A causal network in training: one optimiser step a call, on micro-batches that say what is a response."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from training.causal_data import CausalBatch
from training.clock import Clock
from training.config import OptimizerConfig
from training.timed_module import TimedModule


class CausalModule(TimedModule):
    """The step; what is learned is the objective's, in ``backward_of``."""

    network: CausalModel

    def __init__(
        self, network: CausalModel, optimizer: OptimizerConfig, clock: Clock, to_batch: Callable[[Any], CausalBatch]
    ) -> None:
        super().__init__(network, optimizer, clock)
        self._to_batch = to_batch

    def transfer_batch_to_device(self, batches: list[Any], device: torch.device, _index: int) -> list[CausalBatch]:
        """Say what is a response, then move what a step needs."""
        return [self._to_batch(batch).to(device) for batch in batches]

    def training_step(self, batches: list[CausalBatch], _index: int) -> None:
        """One optimiser step on the micro-batches of this rank."""
        progress = self.trainer.strategy.reduce(torch.tensor(self.clock.progress(self.steps)), reduce_op="mean").item()
        parts = torch.zeros(2, device=self.device)
        for number, batch in enumerate(batches):
            with self.backward_context(is_last=number == len(batches) - 1):
                parts += self.backward_of(batch, len(batches))
            self.tokens_seen += batch.tokens.numel() * self.trainer.world_size
        self.train_loss = self.trainer.strategy.reduce(parts, reduce_op="mean").cpu()
        self.apply_gradients(progress)

    def backward_of(self, batch: CausalBatch, count: int) -> Tensor:
        """Add the gradient of one of ``count`` micro-batches; returns its share of the two figures that are logged."""
        raise NotImplementedError
