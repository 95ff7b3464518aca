"""Relative two-stream attention over explicit positions (Yang et al. 2019, sections 2.3 and 2.4).

``score(i, j) = ((q_i + r_w_bias) . k_j + (q_i + r_r_bias) . r(pos_i - pos_j)) / sqrt(D)`` with
``r(d) = W_r [sin(d f), cos(d f)]``. Hugging Face obtains the second term by shifting a matrix, which needs rows in
position order; with explicit positions it is one product with all distances and one gather, for any rows in any
order. Content and query rows share every weight and differ only in what they see, so both are rows of one batch here;
only content rows make keys and values. The segment term of the original is absent: it is zero without token types.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.model.linear import Linear
from anyorder.visibility import prefix_mask

if TYPE_CHECKING:
    from anyorder.model.config import XLNetConfig
    from anyorder.model.ragged import Ragged
    from anyorder.visibility import Rows


class Geometry(NamedTuple):
    """What the rows of one pass may see, computed once and used by every layer.

    Attributes:
        distance: (B, R, S) int64, index of ``pos_row - pos_slot`` in the distance table, or ``2L - 1``, the index of
            minus infinity, where the row may not attend. Rows that see nothing are left open at slot 0.
        blind: (B, R, 1) bool, rows that see nothing: their attention output is zero.
        there: which of the rows are computed, ``None`` if all are.
    """

    distance: Tensor
    blind: Tensor
    there: Ragged | None = None

    def from_row(self, start: int, there: Ragged | None) -> Geometry:
        """The same for the rows from ``start`` on, and which of those are computed."""
        return Geometry(self.distance[:, start:], self.blind[:, start:], there)


def geometry(rows: Rows, row_positions: Tensor, slot_steps: Tensor, slot_positions: Tensor, num_steps: int) -> Geometry:
    """Where the rows of a pass stand to the keys they may see.

    Args:
        rows: (B, R) steps and how many steps each sees.
        row_positions: (B, R) int64, the position of each row.
        slot_steps: (B, S) or (1, S) int64, the step in each slot.
        slot_positions: (B, S) int64, its position.
        num_steps: L; positions are below it.
    """
    visible = prefix_mask(rows.num_visible, slot_steps)
    blind = rows.num_visible[:, :, None] == 0
    visible[:, :, :1] |= blind
    distance = row_positions[:, :, None] - slot_positions[:, None, :] + (num_steps - 1)
    return Geometry(torch.where(visible, distance, 2 * num_steps - 1), blind)


def sinusoids(num_steps: int, config: XLNetConfig, like: Tensor) -> Tensor:
    """[sin(d f), cos(d f)] for every distance d in ``-(num_steps - 1) .. num_steps - 1``: (2 num_steps - 1, E)."""
    distance = torch.arange(1 - num_steps, num_steps, device=like.device, dtype=torch.float32)
    if config.clamp_len > 0:
        distance = distance.clamp(-config.clamp_len, config.clamp_len)
    exponent = torch.arange(0, config.d_model, 2, device=like.device, dtype=torch.float32) / config.d_model
    angle = distance[:, None] * (1.0 / 10000**exponent)
    return torch.cat([angle.sin(), angle.cos()], 1).to(like.dtype)


def position_scores(query: Tensor, table: Tensor, distance: Tensor, there: Ragged | None = None) -> Tensor:
    """The position term of every row and slot, minus infinity where hidden: one product, then one gather.

    Args:
        query: (H, B * R, D), or (H, N, D) of the rows that are ``there``.
        table: (H, D, 2L), the last column spare.
        distance: (B, R, S) int64, see ``Geometry``.
        there: see ``Geometry``.

    Returns:
        (B, H, R, S).
    """
    batch, count, slots = distance.shape
    scores = torch.bmm(query, table)
    scores[..., -1] = -math.inf
    if there is None:
        scores = scores.view(-1, batch, count, scores.shape[-1]).transpose(0, 1)
        return scores.gather(3, distance[:, None].expand(-1, scores.shape[1], -1, -1))
    distance = distance.flatten(0, 1).index_select(0, there.places)
    scores = scores.gather(2, distance[None].expand(len(scores), -1, -1)).index_select(1, there.numbers)
    return scores.view(-1, batch, count, slots).transpose(0, 1)


class _PositionScores(torch.autograd.Function):
    """``position_scores`` with a backward written out.

    Autograd's backward of a gather is a scatter-add, several times slower on a CPU than the plain scatter that suffices
    here: a row meets every distance at most once.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, table: Tensor, distance: Tensor) -> Tensor:
        """See ``position_scores``."""
        ctx.save_for_backward(query, table, distance)
        return position_scores(query, table, distance)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        """The gradient at the spare column belongs to minus infinity and is dropped."""
        query, table, distance = ctx.saved_tensors
        heads = query.shape[0]
        all_distances = grads[0].new_zeros(heads, *distance.shape[:2], table.shape[-1])
        all_distances.scatter_(3, distance[None].expand(heads, -1, -1, -1), grads[0].transpose(0, 1))
        all_distances[..., -1] = 0.0
        flat = all_distances.flatten(1, 2)
        return torch.bmm(flat, table.transpose(1, 2)), torch.bmm(query.transpose(1, 2), flat), None


class RelativeAttention(nn.Module):
    """The attention of one layer: rows in, rows out, keys and values from wherever the caller keeps them.

    Attributes:
        query: E -> H * D, its bias is ``r_w_bias``.
        key_value: E -> 2 * H * D, applied to content rows only.
        output: H * D -> E.
        relative: (H * D, E), W_r.
        position_bias: (H * D,), ``r_r_bias``.
        segment_bias, segment_embedding: not used (no token types), kept so that saving a checkpoint loses nothing.
    """

    segment_bias: Tensor
    segment_embedding: Tensor

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        self.heads, self.width = config.n_head, config.d_head
        inner = config.d_model
        self.query = Linear(config.d_model, inner)
        self.key_value = Linear(config.d_model, 2 * inner, bias=False)
        self.output = Linear(inner, config.d_model, bias=False)
        self.relative = nn.Parameter(torch.empty(inner, config.d_model))
        self.position_bias = nn.Parameter(torch.zeros(inner))
        self.register_buffer("segment_bias", torch.zeros(self.heads, self.width))
        self.register_buffer("segment_embedding", torch.zeros(2, self.heads, self.width))
        self.dropout = config.dropout
        self.config = config

    def distance_table(self, num_steps: int) -> Tensor:
        """r(d) / sqrt(D) for all distances among ``num_steps`` positions, and a spare column: (H, D, 2 num_steps)."""
        table = sinusoids(num_steps, self.config, self.relative) @ self.relative.t()
        table = table.view(-1, self.heads, self.width).permute(1, 2, 0) / math.sqrt(self.width)
        return F.pad(table, (0, 1))

    def keys_values(self, content: Tensor, there: Ragged | None) -> tuple[Tensor, Tensor]:
        """Keys and values (B, H, T, D) of content rows (B, T, E), or (1, N, E) of those that are ``there``."""
        both = self.key_value(content)
        both = both if there is None else there.pad(both)
        key, value = both.unflatten(-1, (2, self.heads, self.width)).transpose(1, 3).unbind(2)
        return key, value

    def forward(self, rows: Tensor, key: Tensor, value: Tensor, table: Tensor, geometry: Geometry) -> Tensor:
        """Attention output of rows (B, R, E), or (1, N, E) of those that are there, over keys and values (B, H, S, D).

        Written out because PyTorch's fused kernels gain nothing here: the bias needs the whole (R, S) matrix anyway,
        and with few rows on a CPU they take up to twice as long.
        """
        batch, count, _ = geometry.blind.shape
        if key.shape[2] == 0:  # nothing is encoded anywhere: every row is blind
            return torch.zeros_like(rows)
        query = self.query(rows)
        bias = self._position_scores(query, table, geometry)
        query = query if geometry.there is None else geometry.there.pad(query)
        query = query.view(batch, count, self.heads, self.width).transpose(1, 2).flatten(0, 1)
        keys = key.flatten(0, 1).transpose(1, 2)
        scores = torch.baddbmm(bias.flatten(0, 1), query, keys, alpha=1 / math.sqrt(self.width))
        weights = F.dropout(scores.softmax(-1), self.dropout, self.training)
        mixed = torch.bmm(weights, value.flatten(0, 1)).view(batch, self.heads, count, self.width)
        mixed = mixed.transpose(1, 2).reshape(batch, count, -1)
        mixed = mixed.masked_fill(geometry.blind, 0.0)
        out: Tensor = self.output(mixed if geometry.there is None else geometry.there.gather(mixed))
        return out

    def _position_scores(self, query: Tensor, table: Tensor, geometry: Geometry) -> Tensor:
        """(B, H, R, S), minus infinity where a row may not attend; ``query`` (B, R, E) has ``r_w_bias`` in it."""
        query = query + (self.position_bias if self.query.bias is None else self.position_bias - self.query.bias)
        by_head = query.view(-1, self.heads, self.width).transpose(0, 1)
        if not torch.is_grad_enabled():
            return position_scores(by_head, table, geometry.distance, geometry.there)
        scores: Tensor = _PositionScores.apply(by_head, table, geometry.distance)  # type: ignore[no-untyped-call]
        return scores
