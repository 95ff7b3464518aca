"""A tiny any-subset model with arbitrary conditional tables, so that whole output distributions can be enumerated.

Its conditionals are a hash of what really lies in the cache slots a row may see: every slot holds a code of its
    (position,
token) pair and of everything its content row saw when it was encoded. A loop that forgets to encode a token, reads a
stale one, sees one step too many or encodes under the wrong visibility therefore asks another table, and enumeration
notices.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.visibility import Rows, prefix_mask

_EMPTY = 0x1F0E3DAD


def _mix(x: Tensor) -> Tensor:
    """A bijective scrambling of int64 (arithmetic wraps around), so that sums of codes do not collide."""
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return x ^ ((x >> 31) & ((1 << 33) - 1))


@dataclass
class TableCache:
    """What lies in each slot: ``token_code`` (B, L) of the pair, ``content`` (B, L) of the pair in its context."""

    token_code: Tensor
    content: Tensor

    def select(self, rows: Tensor) -> TableCache:
        return TableCache(self.token_code[rows], self.content[rows])


class TableModel:
    """Conditionals drawn once and for all by ``seed``; float64; ``sharpness`` scales the logits."""

    def __init__(
        self, vocab_size: int, *, seed: int = 0, sharpness: float = 1.5, dtype: torch.dtype = torch.float64
    ) -> None:
        self._vocab_size, self._seed, self._sharpness, self._dtype = vocab_size, seed, sharpness, dtype
        self.num_passes = 0

    @property
    def vocab_size(self) -> int:
        return self._vocab_size

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def new_cache(self, batch: int, num_steps: int) -> TableCache:
        empty = torch.full((batch, num_steps), _EMPTY)
        return TableCache(empty, empty.clone())

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: TableCache | None,
        *,
        encode: Rows | None,
        query: Rows | None,
        num_slots: int | None = None,
    ) -> Tensor:
        self.num_passes += 1
        batch, width = tokens.shape
        cache = self.new_cache(batch, width) if cache is None else cache
        slots = torch.arange(width)
        if encode is not None:
            self._encode(tokens, positions, cache, encode)
        if query is None:
            return torch.zeros(batch, 0, self._vocab_size, dtype=self._dtype)
        takes_part = query.steps < width
        limit = width if num_slots is None else num_slots
        too_far = takes_part & (query.num_visible > limit)
        if bool(too_far.any()):
            raise ValueError(f"a row sees beyond num_slots = {limit}")
        seen = prefix_mask(query.num_visible, slots)
        context = torch.where(seen, _mix(cache.content[:, None, :]), 0).sum(-1)
        position = positions.gather(1, query.steps.clamp(max=width - 1))
        key = _mix(context + _mix(position * 7919 + self._seed * 104729 + 1))
        logits = self._logits(key)
        # Whoever reads a row that takes no part must be caught.
        return torch.where(takes_part[..., None], logits, torch.nan).to(self._dtype)

    def _encode(self, tokens: Tensor, positions: Tensor, cache: TableCache, encode: Rows) -> None:
        width = tokens.shape[1]
        takes_part = encode.steps < width
        steps = encode.steps.clamp(max=width - 1)
        code = _mix(positions.gather(1, steps) * 1000003 + tokens.gather(1, steps) * 31 + 17)
        spare = torch.nn.functional.pad(cache.token_code, (0, 1))
        cache.token_code = spare.scatter(1, encode.steps, code)[:, :-1]
        seen = prefix_mask(encode.num_visible, torch.arange(width))
        context = torch.where(seen, _mix(cache.token_code[:, None, :] + 5), 0).sum(-1)
        spare = torch.nn.functional.pad(cache.content, (0, 1))
        content = torch.where(takes_part, _mix(context * 3 + code), 0)
        cache.content = spare.scatter(1, encode.steps, content)[:, :-1]

    def _logits(self, key: Tensor) -> Tensor:
        """(B, K) keys to (B, K, V) logits, roughly normal."""
        ids = torch.arange(self._vocab_size)
        noise = torch.zeros(*key.shape, self._vocab_size, dtype=torch.float64)
        for part in range(3):
            scrambled = _mix(key[..., None] + _mix(ids * 3 + part + 11))
            noise += (scrambled & ((1 << 52) - 1)).double() / (1 << 52) - 0.5
        return self._sharpness * 2 * noise
