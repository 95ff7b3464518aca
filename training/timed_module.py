"""What every trained module here shares: a clock, a count of steps and tokens, one manual optimisation step a call."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from lightning.pytorch import LightningModule
from torch import nn

from training.clock import Clock
from training.config import OptimizerConfig
from training.optimizers import make_optimizers
from training.schedule import learning_rate_share


class TimedModule(LightningModule):
    """A network, its optimisers and how far its training is.

    The optimisation is manual: a step takes several micro-batches and decides by itself when gradients are complete.

    Attributes:
        network: what is trained.
        clock: how much of the run is used up.
        steps: optimiser steps done.
        tokens_seen: tokens read, over all ranks.
        train_loss: the two parts of the last step's loss, in nats over the global batch.
    """

    def __init__(self, network: nn.Module, optimizer: OptimizerConfig, clock: Clock) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.network, self.clock = network, clock
        self._optimizer_config = optimizer
        self.steps = self.tokens_seen = 0
        self.train_loss = torch.zeros(2)

    def configure_optimizers(self) -> list[torch.optim.Optimizer]:
        """See ``training.optimizers``."""
        return make_optimizers(self.network, self._optimizer_config)

    def on_train_start(self) -> None:
        """Time counts from here; a run that is at its end takes no further step."""
        self.trainer.should_stop = self.clock.was_done(self.steps)
        self.clock.start()

    def apply_gradients(self, progress: float) -> None:
        """Clip, then one step of every optimiser at the rate that belongs to this progress."""
        share = learning_rate_share(progress, self.steps, self._optimizer_config)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), self._optimizer_config.clip)
        optimizers = self.optimizers()
        for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
            for group in optimizer.param_groups:
                group["lr"] = group["peak"] * share
            optimizer.step()
            optimizer.zero_grad()
        self.steps += 1
        self.trainer.should_stop = progress >= 1 or self.clock.is_last(self.steps)

    def backward_context(self, *, is_last: bool) -> Any:
        """A context for a micro-batch's backward: only that of a step's last one sends gradients to other ranks."""
        return nullcontext() if is_last else getattr(self.trainer.strategy.model, "no_sync", nullcontext)()

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """What a run remembers beside weights, optimiser and data."""
        checkpoint["fit"] = {"steps": self.steps, "tokens": self.tokens_seen, "seconds": self.clock.seconds}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See ``on_save_checkpoint``."""
        fit = checkpoint["fit"]
        self.steps, self.tokens_seen, self.clock.used = fit["steps"], fit["tokens"], fit["seconds"]
