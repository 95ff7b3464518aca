"""Fresh weights whose attention looks nearby before it has learned anything.

A query row starts from the same vector everywhere and learns of its context through attention alone, and attention to
a distance is a product of two things that start near zero: with the usual fresh weights a small model predicts
unigram frequencies for some hundred steps. So each head starts with a bias towards one side: its position term
``r_r_bias . r(d)`` (Yang et al. 2019, section 2.3) is set to fall with the logarithm of the distance, and the offset
from which it is counted goes round the heads: one behind, one ahead, the place itself. In pilots (3.2 M parameters,
Muon, 110 steps of 1,536 tokens) held-out density at 15 % masked was 6.23 nats with it and 6.72 without.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from anyorder.model.attention import RelativeAttention, sinusoids
from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet

OFFSETS = (1, -1, 0)
"""The distance a head prefers: the token before the row's position, the one after, the position itself."""

STEEPNESS = 2.0
"""Attention falls with this power of the distance."""

ONE_SIDED = 1.5
"""How much more, in logits, the preferred side gets: ``exp(2 * 1.5)`` times as much attention as the other."""

REACH = 64
"""Tokens within which the wanted bias is fitted closely."""

FITTED_DISTANCES = 512


def start_local(network: XLNet, generator: torch.Generator) -> XLNet:
    """Give every head of a fresh network its preferred distance; returns the network.

    Args:
        network: with fresh weights, which are changed in place.
        generator: draws the direction of each head's bias vector.
    """
    preferences = [_feature_weights(offset, network.config) for offset in OFFSETS]
    with torch.no_grad():
        for depth in range(network.config.n_layer):
            attention = network.layer(depth).attention
            for head in range(attention.heads):
                _prefer(attention, head, preferences[(head + depth) % len(OFFSETS)], generator)
    return network


def _prefer(attention: RelativeAttention, head: int, weights: Tensor, generator: torch.Generator) -> None:
    """Make ``r_r_bias . r(d) / sqrt(D)`` of one head equal ``weights . sinusoids(d)``, plus what is there already.

    The factor is shared evenly between bias and matrix, so that both learn at their usual pace.
    """
    direction = torch.randn(attention.width, generator=generator)
    direction /= direction.norm()
    scale = math.sqrt(float(weights.norm()) * math.sqrt(attention.width))
    rows = slice(head * attention.width, (head + 1) * attention.width)
    attention.position_bias[rows] = direction * scale
    attention.relative[rows] += torch.outer(direction, weights * math.sqrt(attention.width) / scale)


def _feature_weights(offset: int, config: XLNetConfig) -> Tensor:
    """(E,) by which the sinusoids of a distance best give the wanted bias, up to a constant."""
    distance = torch.arange(1 - FITTED_DISTANCES, FITTED_DISTANCES, dtype=torch.float64)
    wanted = -STEEPNESS * torch.log1p((distance - offset).abs()) + ONE_SIDED * math.copysign(1, offset) * (
        distance.sign() if offset else 0.0
    )
    importance = torch.exp(-distance.abs() / REACH) + 0.01
    features = sinusoids(FITTED_DISTANCES, config, torch.empty(0, dtype=torch.float64))
    features = torch.cat([features, torch.ones(len(features), 1, dtype=torch.float64)], 1) * importance[:, None]
    ridge = 1e-3 * torch.eye(features.shape[1], dtype=torch.float64)
    solution: Tensor = torch.linalg.solve(features.t() @ features + ridge, features.t() @ (wanted * importance))
    return solution[:-1].float()
