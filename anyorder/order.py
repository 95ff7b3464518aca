"""An order says which position is decided at which step; in order space any-order decoding is left-to-right decoding.

A text of ``L`` tokens has ``L`` positions. ``sigma[t]`` is the position decided at step ``t``. The first ``num_prompt``
steps are the prompt (given), the steps after it are the targets (to be decided). Everything behind this module, the
model, its cache, the masks and the decoding loops, works on steps; only here do steps turn into positions and back.
Source: Guo & Ermon, "Reviving Any-Subset Autoregressive Models", 2025, section 3 (its published code calls our *rank*
sigma).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

OrderName = Literal["ascending", "random", "spread"]
"""The orders that have a name: left to right, drawn uniformly, or far-apart targets first."""


@dataclass(frozen=True)
class Order:
    """Which position each step decides, for a batch of sequences of possibly different length.

    Attributes:
        sigma: (B, L) int64, step -> position; every row is a permutation of ``range(L)``. In a row shorter than ``L``
            the padding comes last and maps to itself, so a padded row is still a permutation.
        num_prompt: (B,) int64, the number of steps that are given.
        length: (B,) int64, the number of real steps; ``num_prompt <= length <= L``.
    """

    sigma: Tensor
    num_prompt: Tensor
    length: Tensor

    @classmethod
    def from_targets(cls, is_target: Tensor, length: Tensor | None = None) -> Order:
        """Prompt first, then targets, both ascending: the 2^N canonical orders of the AS-ARM objective.

        Args:
            is_target: (B, L) bool in position space; ignored at and beyond a row's length.
            length: (B,) int64 row lengths, ``L`` for every row when omitted.
        """
        batch, width = is_target.shape
        if length is None:
            length = torch.full((batch,), width, dtype=torch.long, device=is_target.device)
        padding = torch.arange(width, device=is_target.device) >= length[:, None]
        group = torch.where(padding, 2, is_target.long())
        sigma = torch.sort(group, dim=1, stable=True).indices
        return cls(sigma=sigma, num_prompt=(group == 0).sum(1), length=length)

    def rearranged(self, permutations: Sequence[Tensor]) -> Order:
        """The same prompt with the targets of row ``b`` decided in the order ``permutations[b]``.

        Args:
            permutations: one int64 permutation of ``range(num_targets)`` a row; entry ``i`` names the target (in the
                present order) that is decided ``i``-th.
        """
        sigma = self.sigma.clone()
        for row, permutation in enumerate(permutations):
            start, stop = int(self.num_prompt[row]), int(self.length[row])
            sigma[row, start:stop] = self.sigma[row, start:stop][permutation.to(sigma.device)]
        return Order(sigma=sigma, num_prompt=self.num_prompt, length=self.length)

    @property
    def num_steps(self) -> int:
        """``L``, the width of the batch, also the sentinel step of a row that takes no part in a pass."""
        return self.sigma.shape[1]

    @property
    def num_targets(self) -> Tensor:
        """(B,) int64, the number of steps to decide in each row."""
        return self.length - self.num_prompt

    @property
    def rank(self) -> Tensor:
        """(B, L) int64, position -> step: the inverse of ``sigma``."""
        return torch.argsort(self.sigma, dim=1)

    def to_steps(self, by_position: Tensor) -> Tensor:
        """Reorder (B, L) values from position space into order space."""
        return by_position.gather(1, self.sigma)

    def to_positions(self, by_step: Tensor) -> Tensor:
        """Reorder (B, L) values from order space into position space."""
        return by_step.gather(1, self.rank)

    def select(self, rows: Tensor) -> Order:
        """The order of some rows of the batch, ``rows`` being (A,) int64 row numbers."""
        return Order(sigma=self.sigma[rows], num_prompt=self.num_prompt[rows], length=self.length[rows])

    def to(self, device: torch.device | str) -> Order:
        """The same order with its tensors on ``device``."""
        return Order(sigma=self.sigma.to(device), num_prompt=self.num_prompt.to(device), length=self.length.to(device))


def arrange(num_targets: int, order: OrderName | Sequence[int], generator: torch.Generator) -> Tensor:
    """The permutation of ``range(num_targets)`` that a named order (or a user's own permutation) stands for.

    ``"spread"`` visits the targets in bit-reversed order, so that targets decided one after the other lie far apart:
    their drafts are nearly independent and more of them are kept, at the price of another joint distribution.

    Args:
        num_targets: how many targets there are.
        order: ``"ascending"``, ``"random"``, ``"spread"`` or a permutation of ``range(num_targets)`` in text order.
        generator: the source of randomness of ``"random"``; untouched otherwise.

    Returns:
        (num_targets,) int64.

    Raises:
        ValueError: if ``order`` is neither a known name nor a permutation of ``range(num_targets)``.
    """
    if isinstance(order, str):
        if order == "ascending":
            return torch.arange(num_targets)
        if order == "random":
            return torch.randperm(num_targets, generator=generator)
        if order == "spread":
            bits = max(num_targets - 1, 0).bit_length()
            reverse = [int(f"{i:0{bits}b}"[::-1], 2) if bits else 0 for i in range(1 << bits)]
            return torch.tensor([i for i in reverse if i < num_targets], dtype=torch.long)
        names = ", ".join(repr(name) for name in get_args(OrderName))
        raise ValueError(f"unknown order {order!r}: use {names} or a permutation of range(number of targets)")
    permutation = list(order)
    if sorted(permutation) != list(range(num_targets)):
        raise ValueError(
            f"order must be a permutation of range({num_targets}), one entry for each target token in text order; "
            f"got {permutation!r}"
        )
    return torch.tensor(permutation, dtype=torch.long)
