"""One layer of a causal network over a flat list of rows; queries of a group of heads are folded onto their key head.

Rows of all sequences are one (N, E) matrix for everything but attention, so that a ragged batch costs its rows and no
padding. Grouped keys are never repeated: the G query heads that share a key head become G times as many rows of that
head, so the cache is read where it lies, whatever its length.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.adapters.causal.cache import KeyStore
from anyorder.adapters.causal.config import CausalConfig
from anyorder.model.linear import Linear


class Routing(NamedTuple):
    """Which of the N rows go the way of masks: (M,) int64 numbers of those, and of the clean ones."""

    mask_rows: Tensor
    clean_rows: Tensor

    @property
    def is_all_masks(self) -> bool:
        """Whether no row is clean."""
        return not len(self.clean_rows)


class MaskRoute(Protocol):
    """What a mask row does instead of, or beside, a frozen projection."""

    def __call__(self, base: Linear, rows: Tensor, routing: Routing) -> Tensor:
        """(N, in) -> (N, out); clean rows must come out as ``base`` gives them."""
        ...


class Routed(nn.Module):
    """A linear layer whose mask rows may take another way: a low-rank correction (MARS), a second view (Orthrus).

    Attributes:
        base: what clean rows go through.
        for_masks: what is asked where a pass has mask rows; ``None`` treats all rows alike.
    """

    def __init__(self, in_features: int, out_features: int, *, bias: bool) -> None:
        super().__init__()
        self.base = Linear(in_features, out_features, bias=bias)
        self.for_masks: MaskRoute | None = None

    def forward(self, rows: Tensor, routing: Routing | None) -> Tensor:
        """(N, in) -> (N, out)."""
        if self.for_masks is None or routing is None:
            out: Tensor = self.base(rows)
            return out
        return self.for_masks(self.base, rows, routing)


class Seen(NamedTuple):
    """What the N rows of a pass share in every layer.

    Attributes:
        cos: (N, 1, D) of each row's rotary angles.
        sin: (N, 1, D), the first half negated: see ``rotate``.
        bias: (B or 1, 1, G * R, S), zero where a row may attend and minus infinity elsewhere.
        shape: (B, R), what the flat rows stand for.
        places: (N,) numbers in ``range(B * R)`` of the rows, ``None`` if all take part.
        slots: (N * key heads,) places the keys go to in a cache of slots.
        routing: which rows go the way of masks, ``None`` if none does.
    """

    cos: Tensor
    sin: Tensor
    bias: Tensor
    shape: tuple[int, int]
    places: Tensor | None
    slots: Tensor | None
    routing: Routing | None


def rotate(heads: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions of (N, H, D): pairs (i, i + D / 2) turned by their angle, as transformers pairs them."""
    return torch.addcmul(heads * cos, heads.roll(heads.shape[-1] // 2, -1), sin)


class HeadNorms(nn.Module):
    """Weights of the norms of every head's query and key, (D,) each: a second pair for rows in the masks' view."""

    def __init__(self, query: Tensor, key: Tensor) -> None:
        super().__init__()
        self.query, self.key = nn.Parameter(query.detach().clone()), nn.Parameter(key.detach().clone())


class Attention(nn.Module):
    """Grouped attention.

    Attributes:
        inputs: E -> (H + 2 * key heads) * D: queries, keys and values in one product.
        output: H * D -> E.
        query_norm, key_norm: (D,) weights of the head norms, ``None`` without.
        for_masks: the head norms of mask rows, ``None`` if they have none of their own.
    """

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.config = config
        heads, keys, width = config.num_heads, config.num_key_heads, config.head_width
        self.inputs = Routed(config.width, (heads + 2 * keys) * width, bias=config.input_bias)
        self.output = Routed(heads * width, config.width, bias=config.output_bias)
        self.query_norm = nn.Parameter(torch.ones(width)) if config.has_head_norms else None
        self.key_norm = nn.Parameter(torch.ones(width)) if config.has_head_norms else None
        self.for_masks: HeadNorms | None = None

    def forward(self, rows: Tensor, seen: Seen, cache: KeyStore | None, depth: int) -> Tensor:
        """(N, E) -> (N, E); keys and values go to the cache and come from it."""
        config = self.config
        heads, keys = config.num_heads, config.num_key_heads
        projected = self.inputs(rows, seen.routing).view(-1, heads + 2 * keys, config.head_width)
        turned, value = projected[:, : heads + keys], projected[:, heads + keys :]
        turned = rotate(self._normed(turned, seen.routing), seen.cos, seen.sin)
        query, key = turned[:, :heads], turned[:, heads:]
        if cache is not None:
            cache.write(depth, seen.slots, key, value)
            key, value = cache.read(depth, seen.bias.shape[-1])
        else:
            key, value = (part.view(*seen.shape, *part.shape[1:]).transpose(1, 2) for part in (key, value))
        return self.output(self._mix(query, key, value, seen), seen.routing)  # type: ignore[no-any-return]

    def _normed(self, turned: Tensor, routing: Routing | None) -> Tensor:
        """(N, H + key heads, D) queries and keys, normed head by head if the model does that."""
        if self.query_norm is None or self.key_norm is None:
            return turned
        normed = self._norm_heads(turned, self.query_norm, self.key_norm)
        if self.for_masks is None or routing is None:
            return normed
        masks = self._norm_heads(turned[routing.mask_rows], self.for_masks.query, self.for_masks.key)
        return normed.index_copy(0, routing.mask_rows, masks)

    def _norm_heads(self, turned: Tensor, of_query: Tensor, of_key: Tensor) -> Tensor:
        shape, heads, eps = (self.config.head_width,), self.config.num_heads, self.config.eps
        parts = (F.rms_norm(turned[:, :heads], shape, of_query, eps), F.rms_norm(turned[:, heads:], shape, of_key, eps))
        return torch.cat(parts, 1)

    def _mix(self, query: Tensor, key: Tensor, value: Tensor, seen: Seen) -> Tensor:
        """(N, H, D) queries over (B, key heads, S, D) keys and values: (N, H * D)."""
        (batch, count), per_key = seen.shape, self.config.heads_per_key
        if seen.places is not None:
            full = query.new_zeros(batch * count, *query.shape[1:])
            query = full.index_copy(0, seen.places, query)
        query = query.view(batch, count, -1, per_key, query.shape[-1]).permute(0, 2, 3, 1, 4).flatten(2, 3)
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen.bias)
        mixed = mixed.view(batch, -1, per_key, count, query.shape[-1]).permute(0, 3, 1, 2, 4).flatten(2).flatten(0, 1)
        return mixed if seen.places is None else mixed.index_select(0, seen.places)


class Layer(nn.Module):
    """Norm, attention, norm, gated feed-forward, each half added to its input.

    Attributes:
        expand: E -> 2 * inner: gate and value of the feed-forward in one product.
        contract: inner -> E.
    """

    def __init__(self, config: CausalConfig) -> None:
        super().__init__()
        self.eps = config.eps
        self.attention_norm = nn.Parameter(torch.ones(config.width))
        self.attention = Attention(config)
        self.feed_forward_norm = nn.Parameter(torch.ones(config.width))
        self.expand = Routed(config.width, 2 * config.inner, bias=config.feed_forward_bias)
        self.contract = Routed(config.inner, config.width, bias=config.feed_forward_bias)

    def forward(self, rows: Tensor, seen: Seen, cache: KeyStore | None, depth: int) -> Tensor:
        """(N, E) -> (N, E)."""
        shape = rows.shape[-1:]
        normed = F.rms_norm(rows, shape, self.attention_norm, self.eps)
        rows = rows + self.attention(normed, seen, cache, depth)
        normed = F.rms_norm(rows, shape, self.feed_forward_norm, self.eps)
        gate, value = self.expand(normed, seen.routing).chunk(2, -1)
        return rows + self.contract(F.silu(gate) * value, seen.routing)  # type: ignore[no-any-return]
