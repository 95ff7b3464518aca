"""Muon (Jordan et al. 2024) in the precision of the weights, for the matrices of the layers.

The momentum of a matrix is replaced by the nearest orthogonal one, so that every direction moves alike. After four
processor minutes of 0.9 M parameters it was half a nat a token ahead of AdamW at its default rate (3.37 against 3.84,
the mean of four held-out sets), with 357 steps against 383. ``torch.optim.Muon`` is the same method but
orthogonalises in bfloat16, which a CPU without bfloat16 units does 14 times slower (432 ms against 33 for 768 x 192),
longer than the rest of the step.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)
"""Of the quintic ``a X + b (X Xᵀ) X + c (X Xᵀ)² X``, steepest at zero; it takes singular values to 0.7 .. 1.2."""

ITERATIONS = 5


def orthogonalise(matrix: Tensor) -> Tensor:
    """About ``U Vᵀ`` of a matrix (m, n) with singular value decomposition ``U S Vᵀ``, by Newton-Schulz iteration."""
    a, b, c = COEFFICIENTS
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.t()
    wide = wide / wide.norm().clamp(min=1e-7)
    for _ in range(ITERATIONS):
        gram = wide @ wide.t()
        wide = torch.addmm(wide, torch.addmm(gram, gram, gram, beta=b, alpha=c), wide, beta=a)
    return wide if matrix.shape[0] <= matrix.shape[1] else wide.t()


class Muon(torch.optim.Optimizer):
    """Steps of orthogonalised Nesterov momentum, of the size AdamW's would have.

    Args:
        params: matrices, or groups of them.
        lr: learning rate; an update's root mean square is ``0.2 lr``, about AdamW's (Liu et al. 2025, equation 4).
        momentum: of the gradient's running mean.
        weight_decay: decoupled, as in AdamW.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        *,
        lr: float,
        momentum: float = 0.95,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        shapes = [tuple(p.shape) for group in self.param_groups for p in group["params"] if p.dim() != 2]
        if shapes:
            raise ValueError(f"Muon is for matrices, got parameters of shape {shapes}: give those to AdamW")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step for every matrix that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)
        return loss

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state["mean"] = torch.zeros_like(weight)
        mean: Tensor = state["mean"].lerp_(gradient, 1 - group["momentum"])
        update = orthogonalise(gradient.lerp(mean, group["momentum"]))
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(update, alpha=-0.2 * group["lr"] * math.sqrt(max(weight.shape)))
