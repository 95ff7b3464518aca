"""A causal network on our linear layers and our cache: the arithmetic of transformers' Qwen2, Qwen3 and Llama.

It is written anew rather than driven through transformers' modules because a decoding pass is a handful of rows: what
counts there are packed weights, few operations, and a cache that is read in place, none of which those modules offer.
That it is the same function is a test (1e-5, all three families), not a claim.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.adapters.causal.cache import KeyStore, Past, SlotCache
from anyorder.adapters.causal.config import CausalConfig
from anyorder.adapters.causal.layers import Layer, Routed, Routing, Seen
from anyorder.adapters.causal.rotary import RotaryTables
from anyorder.adapters.causal.rows import Rows, additive, visible_slots
from anyorder.model.linear import Linear, Packing


class Network(Protocol):
    """What a decoding loop asks of a causal network; tests count its calls here."""

    @property
    def vocab_size(self) -> int:
        """V."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        ...

    def new_cache(self, batch: int, num_slots: int) -> SlotCache:
        """An empty cache."""
        ...

    def step(self, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        """One pass, see ``CausalModel.step``."""
        ...


class CausalModel(nn.Module):
    """The network.

    Attributes:
        config: its shape.
        embedding: (V, E).
        mask_embedding: (E,) what a mask row starts from, a vector of its own, so that a full vocabulary needs no new
            row; it begins as the mean embedding.
        mask_id: a vocabulary id whose embedding serves as mask instead, for checkpoints made that way; never drawn.
        frequencies: (D / 2,) of the rotary positions; float32 whatever the weights become, so it is no buffer: half
            precision would turn far positions by another angle.
        rotary_scale: what their cosines and sines are multiplied with.
        source: the transformers config as a dictionary, for saving.
        block: how far the drafts it was trained for reach, ``None`` if it was trained for none.
        sees_both_ways: whether the masks of a block see all of it (block diffusion) or only those before (MARS).
        routes_masks: whether some layer treats mask rows in its own way (``Routed.for_masks``).
        anchor_in_view: whether the token before the masks stands in their block once more (published Orthrus), so that
            drafting takes a pass of its own.
        acceptance: how often a draft at lag 1, 2, ... was kept on held-out text, given those before it were; empty if
            nobody measured it. Adaptive draft lengths start from it.
    """

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.width))
        self.mask_embedding = nn.Parameter(torch.zeros(config.width))
        self.mask_id: int | None = None
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_layers))
        self.norm = nn.Parameter(torch.ones(config.width))
        self.head = Linear(config.width, config.vocab_size, bias=False)
        if config.is_tied:
            self.head.weight = self.embedding
        self.frequencies = torch.empty(config.head_width // 2)
        self.rotary_scale = 1.0
        self.source: dict[str, Any] = {}
        self.block: int | None = None
        self.sees_both_ways = False
        self.routes_masks = self.anchor_in_view = False
        self.acceptance: tuple[float, ...] = ()
        self._tables = RotaryTables()

    @property
    def vocab_size(self) -> int:
        """V, the number of token ids."""
        return self.config.vocab_size

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embedding.device

    def layer(self, depth: int) -> Layer:
        """The layer at ``depth``, counted from the input."""
        return cast("Layer", self.layers[depth])

    def routed(self) -> list[Routed]:
        """Every projection, layer by layer."""
        return [module for module in self.layers.modules() if isinstance(module, Routed)]

    def use_mask_id(self, mask_id: int) -> CausalModel:
        """Let a spare vocabulary row be the mask.

        Raises:
            ValueError: if the vocabulary has no such row; the vector needs none.
        """
        if not 0 <= mask_id < self.vocab_size:
            raise ValueError(
                f"mask_id must lie in range({self.vocab_size}), the vocabulary; got {mask_id}. "
                f"A full vocabulary needs no mask id: leave it out and a learned vector is used"
            )
        self.mask_id = mask_id
        return self

    def pack(self, packing: Packing) -> CausalModel:
        """Pack every linear layer in place for fast few-row passes without gradients; see ``anyorder.model.linear``."""
        for module in self.layers.modules():
            if isinstance(module, Linear):
                module.pack(packing)
        self.head.pack(packing, self.embedding if self.config.is_tied else None)
        return self if packing == "plain" else self.requires_grad_(False)

    def new_cache(self, batch: int, num_slots: int) -> SlotCache:
        """An empty cache of ``num_slots`` slots for each of ``batch`` sequences."""
        shape = (batch, self.config.num_key_heads, num_slots, self.config.head_width)
        return SlotCache.empty(self.config.num_layers, shape, self.embedding)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., E) -> (..., V); the mask's own id is never an answer."""
        logits: Tensor = self.head(F.rms_norm(hidden, hidden.shape[-1:], self.norm, self.config.eps))
        if self.mask_id is None:
            return logits
        return logits.index_fill(-1, torch.tensor([self.mask_id], device=logits.device), -torch.inf)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        visible: Tensor,
        is_mask: Tensor | None = None,
        *,
        in_view: Tensor | None = None,
        past: Past | None = None,
    ) -> Tensor:
        """All rows of whole sequences, without a cache of slots: training, density, reference.

        Args:
            tokens: (B, R) int64; what mask rows hold is not read.
            positions: (B, R) int64.
            visible: (B or 1, R, S) bool, True where a row may attend to another; every row must see some row. The S
                rows are those of ``past``, if it has any, and then these.
            is_mask: (B, R) bool, which rows are masks.
            in_view: (B, R) bool, which rows go the way of masks, the masks themselves by default.
            past: takes the keys and values, and has those of rows before.

        Returns:
            (B, R, E) hidden states for ``logits``.
        """
        batch, count = tokens.shape
        flat = None if is_mask is None else is_mask.flatten()
        bias = additive(visible, self.embedding.dtype)[:, None].repeat(1, 1, self.config.heads_per_key, 1)
        cos, sin = self._rotary(positions.flatten(), int(positions.max()) + 1)
        routing = self._routing(flat if in_view is None else in_view.flatten())
        seen = Seen(cos, sin, bias, (batch, count), None, None, routing)
        return self._run(self._embed(tokens.flatten(), flat), seen, past).view(batch, count, -1)

    def step(self, tokens: Tensor, rows: Rows, cache: SlotCache, *, asked: Tensor) -> Tensor:
        """One pass over a few rows of every sequence: their keys go to the cache, the asked rows are answered.

        Args:
            tokens: (B, R) int64 on the device; what mask rows hold is not read.
            rows: what stands where and sees what, on the host.
            cache: a cache of this model.
            asked: (B, Q) int64 on the host, numbers of the rows to answer; R or more asks nothing.

        Returns:
            (B, Q, V) logits, zero where nothing was asked.
        """
        device, (batch, count) = self.device, tokens.shape
        takes_part = rows.slots < cache.num_slots
        places = None if bool(takes_part.all()) else takes_part.flatten().nonzero()[:, 0]
        on_device = Rows(*(part.to(device, non_blocking=True) for part in rows))
        visible = visible_slots(on_device, min(rows.num_slots, cache.num_slots))
        bias = additive(visible, self.embedding.dtype)[:, None].repeat(1, 1, self.config.heads_per_key, 1)
        kept = None if places is None else places.to(device, non_blocking=True)
        sequence = torch.arange(batch, device=device)[:, None].expand(batch, count)
        flat_tokens, positions, slots, sequence = (
            part.flatten() if kept is None else part.flatten()[kept]
            for part in (tokens, on_device.positions, on_device.slots, sequence)
        )
        is_mask, in_view = (
            part.flatten() if places is None else part.flatten()[places] for part in (rows.is_mask, rows.in_view)
        )
        masks = is_mask if bool(is_mask.any()) else None
        cos, sin = self._rotary(positions, int(rows.positions.max()) + 1)
        seen = Seen(cos, sin, bias, (batch, count), kept, cache.places(sequence, slots), self._routing(in_view))
        hidden = self._run(self._embed(flat_tokens, masks), seen, cache)
        return self._answer(hidden, asked, takes_part)

    def _answer(self, hidden: Tensor, asked: Tensor, takes_part: Tensor) -> Tensor:
        """(B, Q, V) logits of the asked ones of the flat (N, E) rows that took part."""
        batch, count = takes_part.shape
        number = (takes_part.flatten().cumsum(0) - 1).view(batch, count)
        wanted = asked < count
        rows = number.gather(1, asked.clamp(max=count - 1))
        if bool(wanted.all()):
            return self.logits(hidden[rows.to(hidden.device)])
        at = wanted.flatten().nonzero()[:, 0]
        answers = self.logits(hidden[rows.flatten()[at].to(hidden.device)])
        full = answers.new_zeros(asked.numel(), answers.shape[-1])
        return full.index_copy_(0, at.to(hidden.device), answers).view(*asked.shape, -1)

    def _embed(self, tokens: Tensor, is_mask: Tensor | None) -> Tensor:
        """(N, E) what the rows start from."""
        if is_mask is None:
            return F.embedding(tokens, self.embedding)
        is_mask = is_mask.to(tokens.device, non_blocking=True)
        if self.mask_id is not None:
            return F.embedding(tokens.masked_fill(is_mask, self.mask_id), self.embedding)
        rows = F.embedding(tokens.masked_fill(is_mask, 0), self.embedding)
        return torch.where(is_mask[:, None], self.mask_embedding, rows)

    def _run(self, hidden: Tensor, seen: Seen, cache: KeyStore | None) -> Tensor:
        for depth in range(self.config.num_layers):
            hidden = self.layer(depth)(hidden, seen, cache, depth)
        return hidden

    def _routing(self, in_view: Tensor | None) -> Routing | None:
        """Which of the (N,) rows go the way of masks, if any does and somebody wants to know."""
        if not self.routes_masks or in_view is None or not bool(in_view.any()):
            return None
        parts = (in_view.nonzero()[:, 0], (~in_view).nonzero()[:, 0])
        return Routing(*(part.to(self.device, non_blocking=True) for part in parts))

    def _rotary(self, positions: Tensor, need: int) -> tuple[Tensor, Tensor]:
        """(N, 1, D) cosines and sines of (N,) positions below ``need``, see ``RotaryTables``."""
        return self._tables.at(
            positions, need, frequencies=self.frequencies, scale=self.rotary_scale, like=self.embedding
        )
