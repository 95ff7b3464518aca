"""What a decoding loop may ask of a model: one method, ``forward``, whose inputs are tokens, positions and integers.

Prefill, sequential decoding, drafting, verification, one-pass ASSD, density estimation and training are only different
row lists. The model knows no prompt, draft or rejection; the loops know no key, value or mask.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor

from anyorder.visibility import Rows


class Cache(Protocol):
    """Keys and values of encoded steps: slot = step, so writing twice is allowed and nothing is ever cropped."""

    def select(self, rows: Tensor) -> Cache:
        """The cache of some rows of the batch, ``rows`` being (A,) int64 row numbers."""
        ...


@runtime_checkable
class AnySubsetModel(Protocol):
    """A network that gives p(token at a step | any prefix of steps), the only thing decoding and density need."""

    @property
    def vocab_size(self) -> int:
        """V, the number of token ids."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights lie and where all tensors of a call must lie."""
        ...

    def new_cache(self, batch: int, num_steps: int) -> Cache:
        """An empty cache for ``batch`` sequences of at most ``num_steps`` steps."""
        ...

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: Cache | None,
        *,
        encode: Rows | None,
        query: Rows | None,
        num_slots: int | None = None,
    ) -> Tensor:
        """One network pass (one NFE): encode some steps into the cache, answer some queries.

        Args:
            tokens: (B, L) int64 in order space; only the entries at ``encode.steps`` are read.
            positions: (B, L) int64, ``order.sigma``.
            cache: where keys and values go and come from; ``None`` keeps them inside this pass.
            encode: content rows (B, T). Their keys are visible to all rows of the same pass.
            query: query rows (B, K); they attend and are never attended to.
            num_slots: an upper bound of every ``num_visible`` in this pass, so that the rest of the cache is not read.

        Returns:
            (B, K, V) logits of the queries in the model's dtype; (B, 0, V) without queries.
        """
        ...
