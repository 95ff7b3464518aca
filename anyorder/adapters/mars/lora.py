"""A low-rank correction that only mask rows feel: the base model's own output stays what it was, bit for bit.

Clean rows never meet the new weights, so greedy decoding of the trained model is greedy decoding of the base, and what
training can change is only how good the drafts are.
Source: LoRA (arXiv 2106.09685), gated as MARS' ablation of parameter-efficient training asks for.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.adapters.causal.added import added
from anyorder.adapters.causal.layers import Routing
from anyorder.adapters.causal.network import CausalModel
from anyorder.model.linear import Linear

DEFAULT_ALPHA = 32.0


class GatedLora(nn.Module):
    """``base(x) + scale * up(down(x))`` on mask rows, ``base(x)`` on clean ones.

    Attributes:
        down: (rank, in), small random numbers at first.
        up: (out, rank), zeros at first, so that training starts from the base.
        scale: alpha / rank.
    """

    def __init__(
        self, base: Linear, rank: int, alpha: float, like: Tensor, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        weight = base.weight
        if weight is None:
            raise ValueError("a LoRA is attached before the weights are packed")
        self.down = nn.Parameter(torch.empty(rank, weight.shape[1], device=like.device, dtype=like.dtype))
        self.up = nn.Parameter(torch.zeros(weight.shape[0], rank, device=like.device, dtype=like.dtype))
        nn.init.normal_(self.down, std=weight.shape[1] ** -0.5, generator=generator)
        self.scale = alpha / rank

    @property
    def rank(self) -> int:
        """The width between both matrices."""
        return len(self.down)

    @property
    def alpha(self) -> float:
        """The scale times the rank."""
        return self.scale * self.rank

    def forward(self, base: Linear, rows: Tensor, routing: Routing) -> Tensor:
        """(N, in) -> (N, out)."""
        whole: Tensor = base(rows)
        correction = F.linear(F.linear(rows.index_select(0, routing.mask_rows), self.down), self.up)
        return whole.index_add(0, routing.mask_rows, correction, alpha=self.scale)


def attach_lora(
    model: CausalModel, *, rank: int = 16, alpha: float = DEFAULT_ALPHA, generator: torch.Generator | None = None
) -> CausalModel:
    """Freeze the base and give every projection a gated LoRA; the mask embedding trains too.

    Args:
        model: changed in place.
        rank: r, the width between both matrices.
        alpha: the scale times the rank.
        generator: for the small random numbers that ``down`` starts from; torch's own without one.

    Raises:
        ValueError: if the rank is below 1, the weights are packed, or the model has a LoRA or a view already.
    """
    if rank < 1:
        raise ValueError(f"rank must be at least 1; got {rank}")
    if model.routes_masks:
        kind = "a LoRA" if loras(model) else "a view"
        raise ValueError(f"a LoRA is of a model whose mask rows have no weights of their own yet; this one has {kind}")
    made = [(routed, GatedLora(routed.base, rank, alpha, model.embedding, generator)) for routed in model.routed()]
    for routed, lora in made:
        routed.for_masks = lora
    model.routes_masks = True
    return freeze_base(model)


def loras(model: CausalModel) -> list[GatedLora]:
    """The LoRAs of a model's projections, none if it has none."""
    return [module for module in model.modules() if isinstance(module, GatedLora)]


def freeze_base(model: CausalModel) -> CausalModel:
    """Let nothing train but what was added to the base: the LoRA and the mask embedding."""
    learning = set(added(model))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name in learning)
    return model
