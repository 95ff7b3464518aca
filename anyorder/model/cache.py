"""The key-value cache: one slot a step, so it is append-only, writing twice is allowed and nothing is cropped or
copied.

A rejected draft leaves a stale slot behind; no row's ``num_visible`` reaches it before the next write overwrites it.
One extra slot at the end swallows the writes of rows that take no part in a pass (ragged batches).
"""

from __future__ import annotations

from typing import Self

import torch
from torch import Tensor


class Buffers:
    """Static buffers of keys and values, zero-filled: a NaN in a slot that is masked out would still poison its row.

    Attributes:
        keys: one (B, H, S + 1, D) tensor a layer, H being the heads that have keys: what one head reads lies together.
        values: the same for the values.
        num_slots: S, the number of usable slots.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor]) -> None:
        self.keys = keys
        self.values = values
        self.num_slots = keys[0].shape[2] - 1

    @classmethod
    def empty(cls, num_layers: int, shape: tuple[int, int, int, int], like: Tensor) -> Self:
        """Buffers for ``num_layers`` layers of ``shape`` (B, H, S, D), with the device and dtype of ``like``."""
        batch, heads, slots, width = shape
        size = (batch, heads, slots + 1, width)
        return cls(
            [like.new_zeros(size) for _ in range(num_layers)],
            [like.new_zeros(size) for _ in range(num_layers)],
        )

    def write(self, layer: int, places: Tensor, key: Tensor, value: Tensor) -> None:
        """Store (..., D) keys and values of one layer, in all as many as the flat ``places``."""
        for buffer, new in ((self.keys[layer], key), (self.values[layer], value)):
            buffer.flatten(0, 2).index_copy_(0, places, new.flatten(0, -2))

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """The first ``num_slots`` slots of one layer: views (B, H, num_slots, D) of the keys and the values."""
        return self.keys[layer][:, :, :num_slots], self.values[layer][:, :, :num_slots]

    def select(self, rows: Tensor) -> Self:
        """The cache of some rows of the batch (a copy), ``rows`` being (A,) int64 row numbers."""
        return type(self)([keys[rows] for keys in self.keys], [values[rows] for values in self.values])


class KeyValueCache(Buffers):
    """Buffers whose slots are the steps of an order."""

    @property
    def num_steps(self) -> int:
        """S, the number of steps there is room for."""
        return self.num_slots

    def slots(self, steps: Tensor) -> Tensor:
        """(B * H * T,) flat places of (B, T) steps, for (B, H, T, D) keys; the step ``num_steps`` has the spare one."""
        batch, heads = self.keys[0].shape[:2]
        start = torch.arange(batch * heads, device=steps.device).view(batch, heads, 1) * (self.num_slots + 1)
        return (start + steps.clamp(max=self.num_slots)[:, None]).flatten()
