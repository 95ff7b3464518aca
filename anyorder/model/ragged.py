"""Which rows of a padded pass take part, so that linear layers can be spared the others.

Sequences of a batch ask for different numbers of rows, and a (B, R) pass has room for the most that any asks for. What
works on a row alone (projections, feed-forward, norms, head) is then given the N rows that take part, as one sequence
of them; only where a row meets the keys of its own sequence are they laid out by sequence again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

WORTHWHILE = 0.85
"""The largest share of rows that take part for which leaving out the others is worth moving rows twice a layer."""


class Ragged(NamedTuple):
    """The N rows that take part in a pass of (B, R).

    Attributes:
        places: (N,) int64, where in ``range(B * R)`` each of them stands.
        numbers: (B * R,) int64, which of the N stands there; that of some other row where none does.
        shape: (B, R).
    """

    places: Tensor
    numbers: Tensor
    shape: tuple[int, int]

    @classmethod
    def of(cls, takes_part: Tensor) -> Ragged:
        """The rows of (B, R) bool that take part, in reading order; one at least."""
        batch, count = takes_part.shape
        flat = takes_part.flatten()
        return cls(flat.nonzero()[:, 0], (flat.cumsum(0) - 1).clamp(min=0), (batch, count))

    def followed_by(self, other: Ragged) -> Ragged:
        """All rows of both, these N first, in a pass where the (B, K) others stand behind these (B, T)."""
        (batch, count), (_, more) = self.shape, other.shape
        behind = other.places + (other.places // max(more, 1) + 1) * count
        places = torch.cat([self.places + self.places // max(count, 1) * more, behind])
        numbers = torch.cat([self.numbers.view(batch, -1), other.numbers.view(batch, -1) + len(self.places)], 1)
        return Ragged(places, numbers.flatten(), (batch, count + more))

    def gather(self, padded: Tensor) -> Tensor:
        """(B, R, ...) -> (1, N, ...)."""
        return padded.flatten(0, 1).index_select(0, self.places)[None]

    def pad(self, rows: Tensor) -> Tensor:
        """(1, N, E) -> (B, R, E); what stands where no row does means nothing."""
        return rows[0].index_select(0, self.numbers).view(*self.shape, rows.shape[-1])


class Parts(NamedTuple):
    """The rows of a pass that take part: those that encode, those that ask, and all."""

    content: Ragged
    query: Ragged
    every: Ragged


def parts_worth_leaving(encodes: Tensor, asks: Tensor) -> Parts | None:
    """Which rows take part, if leaving out the others is worth the moving.

    Args:
        encodes: (B, T) bool, which content rows take part.
        asks: (B, K) bool, which query rows.
    """
    parts = (encodes, asks)
    counts, rooms = [int(part.sum()) for part in parts], [part.numel() for part in parts]
    # In a part without any row there is nothing that the numbers of the others could name.
    is_empty = any(room and not count for count, room in zip(counts, rooms, strict=True))
    if is_empty or sum(counts) >= WORTHWHILE * sum(rooms):
        return None
    content, query = Ragged.of(encodes), Ragged.of(asks)
    return Parts(content, query, content.followed_by(query))
