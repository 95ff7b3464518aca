"""The cache of a causal network: one slot a token, buffers made once, read where they lie.

Slots past the tokens serve as scratch for the masks of a pass. One extra slot at the end is never read; whoever takes
no part in a pass points there.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class KeyStore(Protocol):
    """Where a pass puts its keys and values, layer by layer, and what its queries then read."""

    def write(self, layer: int, places: Tensor | None, key: Tensor, value: Tensor) -> None:
        """Store (N, H, D) keys and values of one layer at ``places``."""
        ...

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """(B, H, num_slots, D) keys and values of one layer."""
        ...


class SlotCache:
    """Static buffers, zero-filled: a NaN in a slot that is masked out would still poison its row.

    Attributes:
        keys: one (B, H, S + 1, D) tensor a layer, H being the heads that have keys.
        values: the same for the values.
        num_slots: S, the number of usable slots.
    """

    def __init__(self, keys: list[Tensor], values: list[Tensor]) -> None:
        self.keys = keys
        self.values = values
        self.num_slots = keys[0].shape[2] - 1

    @classmethod
    def empty(cls, num_layers: int, shape: tuple[int, int, int, int], like: Tensor) -> SlotCache:
        """Buffers for ``num_layers`` layers of ``shape`` (B, H, S, D), with the device and dtype of ``like``."""
        batch, heads, slots, width = shape
        size = (batch, heads, slots + 1, width)
        return cls(
            [like.new_zeros(size) for _ in range(num_layers)],
            [like.new_zeros(size) for _ in range(num_layers)],
        )

    def places(self, sequences: Tensor, slots: Tensor) -> Tensor:
        """(N * H,) where the keys of (N,) rows go: slot ``slots[i]`` of sequence ``sequences[i]``, head by head."""
        heads = self.keys[0].shape[1]
        head = torch.arange(heads, device=slots.device)
        return ((sequences[:, None] * heads + head) * (self.num_slots + 1) + slots[:, None]).flatten()

    def write(self, layer: int, places: Tensor | None, key: Tensor, value: Tensor) -> None:
        """See ``KeyStore.write``."""
        if places is None:
            raise ValueError("a cache of slots must be told which slots the keys go to")
        for buffer, new in ((self.keys[layer], key), (self.values[layer], value)):
            buffer.flatten(0, 2).index_copy_(0, places, new.flatten(0, 1))

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """The first ``num_slots`` slots of one layer: views (B, H, num_slots, D) of the keys and the values."""
        return self.keys[layer][:, :, :num_slots], self.values[layer][:, :, :num_slots]

    def select(self, rows: Tensor) -> SlotCache:
        """The cache of some sequences of the batch (a copy), ``rows`` being (A,) int64 row numbers."""
        return SlotCache([keys[rows] for keys in self.keys], [values[rows] for values in self.values])


class Past:
    """Keys and values of whole rows behind those of an earlier pass, for passes with gradients: nothing is overwritten.

    Args:
        batch: B, how many sequences the (N, H, D) keys of a pass are of.
        before: the rows that came before; their keys are read as they are, with the gradient they have.
    """

    def __init__(self, batch: int, before: Past | None = None) -> None:
        self._batch, self._before = batch, before
        self._layers: list[tuple[Tensor, Tensor]] = []

    def write(self, layer: int, places: Tensor | None, key: Tensor, value: Tensor) -> None:
        """See ``KeyStore.write``; layers come in order, and places are the rows' own."""
        if places is not None or layer != len(self._layers):
            raise ValueError(f"layer {len(self._layers)} is next, and it takes all rows; got layer {layer}")
        new = [part.view(self._batch, -1, *part.shape[1:]).transpose(1, 2) for part in (key, value)]
        if self._before is not None:
            new = [torch.cat(pair, 2) for pair in zip(self._before._layers[layer], new, strict=True)]
        self._layers.append((new[0], new[1]))

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """See ``KeyStore.read``; all there is."""
        key, value = self._layers[layer]
        return key[:, :, :num_slots], value[:, :, :num_slots]
