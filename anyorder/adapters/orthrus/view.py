"""The diffusion view: a trainable copy of a frozen model's attention projections, which only mask rows go through.

Query, key, value and output projections (and head norms, where the model has them) of every layer get a copy that
starts as the frozen one; feed-forward layers, norms, embedding and head are shared, and the mask is a vector of its
own. Clean rows never meet the copies, so the base says what it said, bit for bit, and only drafts can get better.

Two views differ in where the *anchor* stands, the last decided token. ``"frozen"`` (ours): it is a clean row like any
other and the block is K - 1 masks behind it, which see its key in the cache; so the pass that drafts also decides a
token. ``"trainable"`` (published): the block is the anchor and K - 1 masks, all in the view, and sees the cache before
the anchor; so drafting takes a pass of its own.
Source: Orthrus (arXiv 2605.12825), section 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from anyorder.adapters.causal.convert import wrap
from anyorder.adapters.causal.layers import HeadNorms, Routed, Routing
from anyorder.adapters.causal.network import CausalModel
from anyorder.integers import check_integer
from anyorder.model.linear import Linear

Anchor = Literal["frozen", "trainable"]
"""Through which projections the token before the masks goes."""


class ViewLinear(nn.Module):
    """A projection's copy for the rows in the view; the others go through the frozen one.

    Attributes:
        own: the copy.
    """

    def __init__(self, base: Linear) -> None:
        super().__init__()
        weight = base.weight
        if weight is None:
            raise ValueError("a view is attached before the weights are packed: pack the model afterwards")
        out_features, in_features = weight.shape
        self.own = Linear(in_features, out_features, bias=base.bias is not None).to(weight.device, weight.dtype)
        self.own.load_state_dict(base.state_dict())

    def forward(self, base: Linear, rows: Tensor, routing: Routing) -> Tensor:
        """(N, in) -> (N, out)."""
        if routing.is_all_masks:
            return self.own(rows)  # type: ignore[no-any-return]
        masks: Tensor = self.own(rows.index_select(0, routing.mask_rows))
        clean: Tensor = base(rows.index_select(0, routing.clean_rows))
        out = masks.new_empty(len(rows), masks.shape[1])
        return out.index_copy_(0, routing.clean_rows, clean).index_copy_(0, routing.mask_rows, masks)


def attach(model: CausalModel | Any, *, block: int = 8, anchor: Anchor = "frozen") -> CausalModel:
    """Freeze a model and give it a view that starts as a copy of it.

    Args:
        model: from ``causal.load`` or ``causal.wrap``, changed in place; a model of transformers is wrapped, which
            copies it.
        block: K, the anchor and K - 1 masks: how far a pass drafts.
        anchor: ``"frozen"`` (ours) or ``"trainable"`` (published).

    Returns:
        The model; only what was added has gradients (``causal.added.added`` names it).

    Raises:
        TypeError: if ``block`` is no integer.
        ValueError: for another anchor, a block below 2, packed weights, or a model that has a view, a LoRA or a
            vocabulary row as its mask already.
    """
    if anchor not in get_args(Anchor):
        raise ValueError(f"anchor must be one of {', '.join(get_args(Anchor))}; got {anchor!r}")
    block = check_integer("block", block, least=2)
    network = wrap(model)
    if network.routes_masks:
        raise ValueError("this model's mask rows have weights of their own already: detach the view or load the base")
    if network.mask_id is not None:
        raise ValueError(f"a view has a mask vector of its own, and this model's mask is id {network.mask_id}")
    views = [(routed, ViewLinear(routed.base)) for routed in projections(network)]
    network.requires_grad_(False)
    for routed, view in views:
        routed.for_masks = view.requires_grad_(True)
    for depth in range(network.config.num_layers):
        attention = network.layer(depth).attention
        if attention.query_norm is not None and attention.key_norm is not None:
            attention.for_masks = HeadNorms(attention.query_norm, attention.key_norm)
    _reset_mask(network).requires_grad_(True)
    network.block, network.sees_both_ways, network.routes_masks = block, True, True
    network.anchor_in_view, network.acceptance = anchor == "trainable", ()
    return network


def detach(model: CausalModel) -> CausalModel:
    """Take the view off: what is left is the base, frozen.

    Raises:
        ValueError: if there is none.
    """
    check_has_view(model)
    for depth in range(model.config.num_layers):
        model.layer(depth).attention.for_masks = None
    for routed in projections(model):
        routed.for_masks = None
    _reset_mask(model).requires_grad_(False)
    model.block, model.sees_both_ways, model.routes_masks = None, False, False
    model.anchor_in_view, model.acceptance = False, ()
    return model


def projections(model: CausalModel) -> Iterator[Routed]:
    """The projections that have a copy in the view."""
    for depth in range(model.config.num_layers):
        attention = model.layer(depth).attention
        yield from (attention.inputs, attention.output)


def view_of(routed: Routed) -> Linear:
    """The copy of one projection.

    Raises:
        ValueError: if it has none.
    """
    if not isinstance(routed.for_masks, ViewLinear):
        raise ValueError(
            "this model has no view: orthrus.attach makes a fresh one, orthrus.load_view reads a saved one"
        )
    return routed.for_masks.own


def check_has_view(model: CausalModel) -> None:
    """Refuse a model without a view."""
    view_of(next(projections(model)))


def _reset_mask(model: CausalModel) -> nn.Parameter:
    """The mask vector, as a wrapped model has it: the mean embedding."""
    with torch.no_grad():
        model.mask_embedding.copy_(model.embedding.mean(0))
    return model.mask_embedding
