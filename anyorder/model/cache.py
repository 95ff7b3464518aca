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
        keys: one (B, H, S + 1, D) tensor a layer: what one head reads lies together.
        values: the same for the values.
        num_steps: S, the number of usable slots.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor]) -> None:
        self.keys = keys
        self.values = values
        self.num_steps = keys[0].shape[2] - 1

    @classmethod
    def empty(cls, num_layers: int, shape: tuple[int, int, int, int], like: Tensor) -> KeyValueCache:
        """Buffers for ``num_layers`` layers of ``shape`` (B, H, S, D), with the device and dtype of ``like``."""
        batch, heads, steps, width = shape
        size = (batch, heads, steps + 1, width)
        return cls(
            [like.new_zeros(size) for _ in range(num_layers)],
            [like.new_zeros(size) for _ in range(num_layers)],
        )

    def slots(self, steps: Tensor) -> Tensor:
        """Flat slot numbers of (B, T) steps, for ``write``; the sentinel step ``num_steps`` lands in the spare slot."""
        batch, heads = self.keys[0].shape[:2]
        start = torch.arange(batch * heads, device=steps.device).view(batch, heads, 1) * (self.num_steps + 1)
        return (start + steps.clamp(max=self.num_steps)[:, None]).flatten()

    def write(self, layer: int, slots: Tensor, key: Tensor, value: Tensor) -> None:
        """Store (B, H, T, D) keys and values of one layer at flat ``slots`` (B * H * T,)."""
        for buffer, new in ((self.keys[layer], key), (self.values[layer], value)):
            buffer.flatten(0, 2).index_copy_(0, slots, new.flatten(0, 2))

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """The first ``num_slots`` slots of one layer: views (B, H, num_slots, D) of the keys and the values."""
        return self.keys[layer][:, :, :num_slots], self.values[layer][:, :, :num_slots]

    def select(self, rows: Tensor) -> KeyValueCache:
        """The cache of some rows of the batch (a copy), ``rows`` being (A,) int64 row numbers."""
        return KeyValueCache([k[rows] for k in self.keys], [v[rows] for v in self.values])
