"""Orders and draft rows of a batch, drawn after collation, each from (seed, epoch, global sample index).

So how many ranks and workers there are changes no order. Prompt and targets are both ascending unless the mixture says
otherwise: 2^N orders instead of N! (Guo & Ermon 2025, section 4). The order of the prompt never matters, as it sees
itself in both directions.
"""

from __future__ import annotations

import random

import torch
from torch import Tensor

from anyorder.order import Order, OrderName, arrange
from anyorder.visibility import Rows, draft_rows
from training.config import ObjectiveConfig
from training.keyed import keyed_generator, keyed_random


def draw_order(
    is_target: Tensor, length: Tensor, keys: list[tuple[int, int]], config: ObjectiveConfig, seed: int
) -> Order:
    """The order of every sequence.

    Args:
        is_target: (B, L) bool in position space.
        length: (B,) int64.
        keys: epoch and global sample index of each sequence.
        config: the mixture of orders.
        seed: the run's.
    """
    order = Order.from_targets(is_target, length)
    permutations = []
    for size, key in zip(order.num_targets.tolist(), keys, strict=True):
        name = order_name(keyed_random(seed, "order", *key), config)
        permutations.append(arrange(size, name, keyed_generator(seed, "permutation", *key)))
    return order.rearranged(permutations)


def redraw_order(order: Order, keys: list[tuple[int, int]], config: ObjectiveConfig, seed: int) -> Order:
    """Another order of the same targets; see ``draw_order``."""
    is_target = order.to_positions(torch.arange(order.num_steps) >= order.num_prompt[:, None])
    return draw_order(is_target, order.length, keys, config, seed)


def order_name(draw: random.Random, config: ObjectiveConfig) -> OrderName:
    """Which named order a sequence gets."""
    if config.any_permutation:
        return "random"
    rest = 1 - config.spread_share - config.random_share
    names: tuple[OrderName, ...] = ("ascending", "spread", "random")
    return draw.choices(names, (rest, config.spread_share, config.random_share))[0]


def draw_drafts(order: Order, keys: list[tuple[int, int]], config: ObjectiveConfig, seed: int) -> Rows | None:
    """Draft rows: a share of each sequence's targets, each seeing what stood a random lag before it.

    The first target has none: its draft row would be its verify row. Neither has any sequence if the objective gives
    drafts no weight.
    """
    if not config.draft_loss_weight:
        return None
    counts = [round(config.draft_share * max(size - 1, 0)) for size in order.num_targets.tolist()]
    shape = (len(counts), max(counts))
    steps = torch.full(shape, order.num_steps)
    lags = torch.ones(shape, dtype=torch.long)
    for row, (count, size) in enumerate(zip(counts, order.num_targets.tolist(), strict=True)):
        generator = keyed_generator(seed, "drafts", *keys[row])
        chosen = torch.randperm(max(size - 1, 0), generator=generator)[:count]
        steps[row, :count] = int(order.num_prompt[row]) + 1 + chosen
        lags[row, :count] = torch.randint(1, config.max_lag + 1, (count,), generator=generator)
    return draft_rows(steps, torch.maximum(steps - lags, order.num_prompt[:, None]))
