"""Cosines and sines of rotary positions, kept for the positions so far met."""

from __future__ import annotations

import torch
from torch import Tensor


class RotaryTables:
    """Tables that grow as texts do; made in float32 and rounded to the model's dtype, as transformers does."""

    def __init__(self) -> None:
        self._tables = torch.empty(0), torch.empty(0)

    def at(
        self, positions: Tensor, need: int, *, frequencies: Tensor, scale: float, like: Tensor
    ) -> tuple[Tensor, Tensor]:
        """(N, 1, D) cosines and sines of (N,) positions below ``need``, the first half of the sines negated.

        Args:
            positions: on the device of ``like``.
            need: one more than the largest.
            frequencies: (D / 2,).
            scale: what cosines and sines are multiplied with.
            like: has the device and dtype wanted.
        """
        cos, sin = self._tables  # read once: another thread may replace them meanwhile
        if len(cos) < need or (cos.device, cos.dtype) != (like.device, like.dtype):
            with torch.inference_mode(False), torch.no_grad():  # a later pass with gradients may use them too
                every = torch.arange(max(64, 2 * need), device=like.device, dtype=torch.float32)
                angle = every[:, None] * frequencies.to(like.device, torch.float32)
                cos, sin = angle.cos() * scale, angle.sin() * scale
                cos, sin = torch.cat([cos, cos], 1).to(like.dtype), torch.cat([-sin, sin], 1).to(like.dtype)
            self._tables = cos, sin
        return cos[positions][:, None], sin[positions][:, None]
