"""The key-value cache: one slot a step, so it is append-only, writing twice is allowed and nothing is cropped or
copied.

A rejected draft leaves a stale slot behind; no row's ``num_visible`` reaches it before the next write overwrites it.
One extra slot at the end swallows the writes of rows that take no part in a pass (ragged batches).
"""

from __future__ import annotations

import torch
from torch import Tensor


class KeyValueCache:
    """Static buffers of keys and values, zero-filled: a NaN in a slot that is masked out would still poison its row.

    Attributes:
        keys: one (B, S + 1, H, D) tensor a layer.
        values: one (B, S + 1, H, D) tensor a layer.
        num_steps: S, the number of usable slots.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor]) -> None:
        self.keys = keys
        self.values = values
        self.num_steps = keys[0].shape[1] - 1

    @classmethod
    def empty(cls, num_layers: int, shape: tuple[int, int, int, int], like: Tensor) -> KeyValueCache:
        """Buffers for ``num_layers`` layers of ``shape`` (B, S, H, D), with the device and dtype of ``like``."""
        batch, steps, heads, width = shape
        size = (batch, steps + 1, heads, width)
        return cls(
            [like.new_zeros(size) for _ in range(num_layers)],
            [like.new_zeros(size) for _ in range(num_layers)],
        )

    def slots(self, steps: Tensor) -> Tensor:
        """Flat slot numbers of (B, T) steps, for ``write``; the sentinel step ``num_steps`` lands in the spare slot."""
        rows = torch.arange(steps.shape[0], device=steps.device)[:, None] * (self.num_steps + 1)
        return (rows + steps.clamp(max=self.num_steps)).flatten()

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Store (B, T, H, D) keys and values of one layer at flat ``slots`` (B * T,)."""
        for buffer, new in ((self.keys[layer], key), (self.values[layer], value)):
            buffer.flatten(0, 1).index_copy_(0, slots, new.flatten(0, 1))

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """The first ``num_slots`` slots of one layer: views (B, num_slots, H, D) of the keys and the values."""
        return self.keys[layer][:, :num_slots], self.values[layer][:, :num_slots]

    def select(self, rows: Tensor) -> KeyValueCache:
        """The cache of some rows of the batch (a copy), ``rows`` being (A,) int64 row numbers."""
        return KeyValueCache([k[rows] for k in self.keys], [v[rows] for v in self.values])
