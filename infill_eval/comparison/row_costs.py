"""What the rows of a left-to-right pass cost: T(R) / T(1), which the tokens of a pass have to exceed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.rows import clean_rows
from infill_eval.stopwatch import take_turns

COUNTS = (1, 2, 4, 8, 16)
"""R, how many rows."""


def row_costs(model: CausalModel, length: int, repeats: int) -> dict[int, float]:
    """Seconds of a pass of R rows after ``length`` tokens."""
    runs = {str(count): _pass(model, length, count) for count in COUNTS}
    return {int(count): median(seconds) for count, seconds in take_turns(runs, repeats).seconds.items()}


def _pass(model: CausalModel, length: int, count: int) -> Callable[[], Tensor]:
    cache, slots = model.new_cache(1, length + count), length + torch.arange(count)[None]
    rows, asked = clean_rows(slots, length + count), torch.arange(count)[None]
    return partial(model.step, torch.ones(1, count, dtype=torch.long), rows, cache, asked=asked)
