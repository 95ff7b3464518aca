"""What the rows of a ragged batch cost beside as many in a dense one."""

from __future__ import annotations

import torch

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.rows import clean_rows
from benchmarks.machine import seconds


def ragged_cost(model: CausalModel, batch: int, length: int, repeats: int) -> tuple[float, float]:
    """Seconds of a ragged pass, and of a dense one of as many rows, 4 a sequence on average."""
    counts = torch.tensor([2, 3, 4, 5, 6, 4, 3, 5] * (batch // 8 + 1))[:batch]
    total = int(counts.sum())
    results = []
    for each in (counts, torch.full((batch,), total // batch)):
        cache, column = model.new_cache(batch, length + 8), torch.arange(int(each.max()))
        slots = torch.where(column < each[:, None], length + column, length + 8)
        rows = clean_rows(slots, length + 8)
        asked = torch.where(column < each[:, None], column, len(column))
        tokens = torch.ones(batch, len(column), dtype=torch.long)
        took = seconds(lambda: model.step(tokens, rows, cache, asked=asked), repeats=repeats)  # noqa: B023
        results.append(took / int(each.sum()) * total)
    return results[0], results[1]
