"""The cache of a causal network: one slot a token, buffers made once, read where they lie.

Slots past the tokens serve as scratch for the masks of a pass. One extra slot at the end is never read; whoever takes
no part in a pass points there.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from anyorder.model.cache import Buffers


class KeyStore(Protocol):
    """Where a pass puts its keys and values, layer by layer, and what its queries then read."""

    def write(self, layer: int, places: Tensor | None, key: Tensor, value: Tensor) -> None:
        """Store (N, H, D) keys and values of one layer at ``places``."""
        ...

    def read(self, layer: int, num_slots: int) -> tuple[Tensor, Tensor]:
        """(B, H, num_slots, D) keys and values of one layer."""
        ...


class SlotCache(Buffers):
    """Buffers whose first slots are positions of the text, those after them scratch; rows are written one by one."""

    def places(self, sequences: Tensor, slots: Tensor) -> Tensor:
        """(N * H,) where the keys of (N,) rows go: slot ``slots[i]`` of sequence ``sequences[i]``, head by head."""
        heads = self.keys[0].shape[1]
        head = torch.arange(heads, device=slots.device)
        return ((sequences[:, None] * heads + head) * (self.num_slots + 1) + slots[:, None]).flatten()

    def write(self, layer: int, places: Tensor | None, key: Tensor, value: Tensor) -> None:
        """See ``KeyStore.write``."""
        if places is None:
            raise ValueError("a cache of slots must be told which slots the keys go to")
        super().write(layer, places, key, value)


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
