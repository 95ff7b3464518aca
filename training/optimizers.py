"""The optimiser: AdamW that decays matrices only, or Muon for the layers' matrices beside it.

The learning rate of a group is its ``peak`` times what the schedule says at every step, so a group keeps its own.
"""

from __future__ import annotations

import torch
from torch import nn

from training.config import OptimizerConfig
from training.muon import Muon


def make_optimizers(model: nn.Module, config: OptimizerConfig) -> list[torch.optim.Optimizer]:
    """One optimiser, or for ``muon`` two, whose groups hold every parameter of ``model`` once."""
    parameters = dict(model.named_parameters())
    muon = {name for name, p in parameters.items() if p.dim() == 2 and "layers" in name.split(".")}
    if config.optimizer == "adamw":
        return [_adamw(list(parameters.values()), config)]
    rest = [parameter for name, parameter in parameters.items() if name not in muon]
    return [_muon([parameters[name] for name in sorted(muon)], config), _adamw(rest, config)]


def _adamw(parameters: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    matrices = [parameter for parameter in parameters if parameter.dim() > 1]
    vectors = [parameter for parameter in parameters if parameter.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay, "peak": config.learning_rate},
        {"params": vectors, "weight_decay": 0.0, "peak": config.learning_rate},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=config.betas, fused=True)


def _muon(parameters: list[nn.Parameter], config: OptimizerConfig) -> torch.optim.Optimizer:
    groups = [{"params": parameters, "weight_decay": config.weight_decay, "peak": config.muon_learning_rate}]
    return Muon(groups, lr=config.muon_learning_rate)
