"""What the rows of a ragged batch cost beside as many in a dense one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.rows import clean_rows
from infill_eval.stopwatch import speed_against, take_turns


def ragged_cost(model: CausalModel, batch: int, length: int, repeats: int) -> float:
    """Seconds of a ragged pass, 4 rows a sequence on average, over those of a dense one of as many rows."""
    counts = torch.tensor([2, 3, 4, 5, 6, 4, 3, 5] * (batch // 8 + 1))[:batch]
    total = int(counts.sum())
    dense = torch.full((batch,), total // batch)
    turns = take_turns({"ragged": _pass(model, counts, length), "dense": _pass(model, dense, length)}, repeats)
    return speed_against(turns.seconds["ragged"], turns.seconds["dense"]) * int(dense.sum()) / total


def _pass(model: CausalModel, counts: Tensor, length: int) -> Callable[[], Tensor]:
    """A pass of so many rows of each sequence after ``length`` tokens."""
    cache, column = model.new_cache(len(counts), length + 8), torch.arange(int(counts.max()))
    is_there = column < counts[:, None]
    rows = clean_rows(torch.where(is_there, length + column, length + 8), length + 8)
    asked = torch.where(is_there, column, len(column))
    return partial(model.step, torch.ones(len(counts), len(column), dtype=torch.long), rows, cache, asked=asked)
