"""Small engines with random weights whose rows differ, and the row lists most tests need."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from anyorder.order import Order

VOCABULARY = 40


def small_network(seed: int = 0, **shape: Any) -> XLNet:
    """Every parameter random, attention peaked, logits of size one; see ``random_reference`` in ``tests``."""
    values = {"vocab_size": VOCABULARY, "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 64, "dropout": 0.0}
    network = XLNet(XLNetConfig(**{**values, **shape}))
    width = network.config.d_model
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            wide = parameter.dim() == 2
            gain = 2.0 if "query" in name or "relative" in name else 1.0
            scale = 1.0 if name in ("embedding", "head.weight") else gain * width**-0.5 if wide else 0.1
            parameter.normal_(0.0, scale, generator=generator)
        for module in network.modules():
            if isinstance(module, nn.LayerNorm):
                module.weight.add_(1.0)
        last = network.layer(network.config.n_layer - 1).feed_forward_norm
        for parameter in last.parameters():
            parameter.mul_(width**-0.5)
    return network.eval()


def random_order(seed: int, lengths: list[int], num_prompt: list[int]) -> Order:
    """Any permutation of each row's positions, the padding last."""
    generator = torch.Generator().manual_seed(seed)
    sigma = torch.arange(max(lengths)).repeat(len(lengths), 1)
    for row, length in enumerate(lengths):
        sigma[row, :length] = torch.randperm(length, generator=generator)
    return Order(sigma=sigma, num_prompt=torch.tensor(num_prompt), length=torch.tensor(lengths))


def random_tokens(seed: int, order: Order, vocab_size: int = VOCABULARY) -> Tensor:
    """(B, L) in order space."""
    return torch.randint(vocab_size, order.sigma.shape, generator=torch.Generator().manual_seed(seed))


def all_steps(order: Order) -> Tensor:
    """(B, L): every step, the sentinel in place of padding."""
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    return torch.where(steps < order.length[:, None], steps, order.num_steps)
