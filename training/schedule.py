"""How the learning rate and the masking rates go over a run, as pure functions of how far it is.

Masking rates (Guo & Ermon 2025, section 5): both ends of the range go linearly from ``mask_start`` to where they stay.
Rates are stratified, as diffusion models stratify their times (Kingma et al. 2021): among the draws of one group each
equal part of the range holds one, which lowers the variance of the loss at no price.
"""

from __future__ import annotations

import math

from training.config import ObjectiveConfig, OptimizerConfig
from training.keyed import keyed_random

STRATA = 16
"""Steps over which a single micro-batch a step is stratified."""


def learning_rate_share(progress: float, step: int, config: OptimizerConfig) -> float:
    """The learning rate as a share of its highest value.

    Args:
        progress: how much of the run is done, 0 to 1.
        step: optimiser steps done.
        config: the warm-up and the course behind it.
    """
    progress = min(progress, 1.0)
    warm_up = min(1.0, max((step + 1) / max(config.warmup_steps, 1), progress / 0.05))
    course = {
        "cosine": 0.5 * (1 + math.cos(math.pi * progress)),
        "linear": 1 - progress,
        "constant": 1.0,
    }[config.schedule]
    return warm_up * (config.final_share + (1 - config.final_share) * course)


def masking_range(step: int, is_span: bool, config: ObjectiveConfig) -> tuple[float, float]:
    """The lowest and the highest masking rate at an optimiser step."""
    low, high = (config.span_mask_min, config.span_mask_max) if is_span else (config.mask_min, config.mask_max)
    share = min(step / config.masking_warmup_steps, 1.0) if config.masking_warmup_steps else 1.0
    start = config.mask_start
    return start + share * (low - start), start + share * (high - start)


def quantiles(number: int, group: int, rows: int, seed: int) -> list[float]:
    """Where in the range of masking rates the rows of a micro-batch lie, stratified.

    Micro-batch ``number`` belongs to the group of ``group`` consecutive ones (a step's, over all ranks). If all of a
    group have as many rows, each of ``group * rows`` equal parts of [0, 1) holds one row; in any case each of ``rows``
    equal parts holds one of this micro-batch.

    Args:
        number: which micro-batch of the run.
        group: micro-batches that are stratified together.
        rows: quantiles wanted.
        seed: the run's.
    """
    places = list(range(group))
    keyed_random(seed, "strata", number // group, group).shuffle(places)
    draw = keyed_random(seed, "quantiles", number)
    result = [(row + (places[number % group] + draw.random()) / group) / rows for row in range(rows)]
    draw.shuffle(result)
    return result
