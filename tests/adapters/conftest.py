"""What the adapters' tests share."""

from __future__ import annotations

import pytest
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.causal.rows import Rows


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """Every pass of every network from now on: how many rows each sequence had in it."""
    seen: list[list[int]] = []
    honest = CausalModel.step

    def step(self: CausalModel, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        seen.append((rows.slots < cache.num_slots).sum(1).tolist())
        return honest(self, tokens, rows, cache, asked=asked)

    monkeypatch.setattr(CausalModel, "step", step)
    return seen
