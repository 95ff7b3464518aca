"""The rows of one pass of a causal network: what stands where, where its key goes, and which keys it may see.

A clean row is a token; its key stays in the cache in the slot that is its position, so a row that sees the first n
slots sees the first n tokens. A mask row asks what comes later; masks of one *group* see each other, so their keys must
lie somewhere, but only for the pass: they go to slots after the clean ones, where the next pass writes over them.
Nothing is appended, cropped or copied. What a row sees is therefore a prefix of the slots and one range of them.

Rows in the *view* go through the masks' own projections where a model has some: the masks do, and in published Orthrus
the token in front of them too.
Sources: MARS (arXiv 2604.07023), section 3; Orthrus (arXiv 2605.12825), section 3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor


class Rows(NamedTuple):
    """Rows of one pass, (B, R) int64 each (``is_mask``, ``in_view`` bool), on the host, where they were planned.

    Attributes:
        slots: where a row's key goes; the number of slots there are marks a row that takes no part (ragged batches): it
            is not computed at all.
        positions: where the row stands in the text.
        num_visible: the row sees the slots below this one ...
        group_start: ... and those from here ...
        group_end: ... to before here, its own group (an empty range for clean rows).
        is_mask: whether the row is a mask.
        in_view: whether it goes the way of masks; its key never stays in the cache.
    """

    slots: Tensor
    positions: Tensor
    num_visible: Tensor
    group_start: Tensor
    group_end: Tensor
    is_mask: Tensor
    in_view: Tensor

    @property
    def num_slots(self) -> int:
        """How many slots this pass may read."""
        return int(torch.maximum(self.num_visible, self.group_end).max())


def clean_rows(slots: Tensor, sentinel: int) -> Rows:
    """Rows of tokens at (B, C) ``slots``, which are their positions; each sees its past and itself."""
    takes_part = slots < sentinel
    nothing, no = torch.zeros_like(slots), torch.zeros_like(takes_part)
    # A row that takes no part has nothing to see, but an empty softmax would be NaN: it is given slot 0.
    visible = torch.where(takes_part, slots + 1, 1)
    return Rows(slots, slots * takes_part, visible, nothing, nothing, no, no)


def concat(first: Rows, second: Rows) -> Rows:
    """Both sets of rows in one pass, ``first`` before ``second``."""
    return Rows(*(torch.cat(pair, 1) for pair in zip(first, second, strict=True)))


def visible_slots(rows: Rows, num_slots: int) -> Tensor:
    """(B, R, S) bool, True where a row may attend to a slot."""
    slot = torch.arange(num_slots, device=rows.slots.device)
    in_group = (slot >= rows.group_start[..., None]) & (slot < rows.group_end[..., None])
    return (slot < rows.num_visible[..., None]) | in_group


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """Zero where a row may attend, minus infinity elsewhere."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, -math.inf)
