"""Where documents that share a row begin, and which tokens count: what the training losses of both adapters need."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F


def bounds(tokens: Tensor, documents: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which document each token belongs to, counted from 0 in its row, and where it stands in it.

    Args:
        tokens: (B, L).
        documents: (B, L) int64, constant within a document and different in the next; ``None`` for one a row.

    Returns:
        (B or 1, L) int64 twice: one sequence a row has one mask for the whole batch, as causal rows never see the
        padding after them.
    """
    documents = torch.zeros_like(tokens[:1]) if documents is None else documents
    changes = F.pad(documents[:, 1:] != documents[:, :-1], (1, 0), value=True)
    place = torch.arange(documents.shape[1], device=documents.device).expand_as(documents)
    start = torch.where(changes, place, 0).cummax(1).values
    return changes.long().cumsum(1) - 1, place - start


def causal_mask(number: Tensor, positions: Tensor) -> Tensor:
    """(B or 1, L, L) bool, True where a token is of the same document and no later."""
    return (number[:, :, None] == number[:, None, :]) & (positions[:, None, :] <= positions[:, :, None])
