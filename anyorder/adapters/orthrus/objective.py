"""The view's loss: blocks of masks at many places of a text learn what the base, which read it all, says there.

Pass 1, without gradients, gives every layer's keys and values and the teacher's distribution at every token. Pass 2 has
the rows of the blocks alone. A block stands at an *anchor* a, and its row at position a + i learns the distribution of
the base's row at a + i, that of the next token given the true ones: with the anchor frozen, i = 1 .. K - 1 are masks
that see the text up to a and each other both ways; with the anchor in the view, i = 0 is the anchor itself and the
block sees the text before a. Blocks do not see each other, nor another document.
Source: Orthrus (arXiv 2605.12825), section 3.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from anyorder.adapters.causal.cache import Past
from anyorder.adapters.causal.documents import bounds, causal_mask
from anyorder.adapters.causal.network import CausalModel
from anyorder.sampling import at_least_float32

NONE = -1
"""Stands for an anchor where a row has fewer than others."""


class Distillation(NamedTuple):
    """What a batch came to.

    Attributes:
        loss: mean over the rows of the blocks, in nats, with gradients.
        agrees: (B, A, K - 1) bool, whether the arg max of the row that drafts token a + 2, a + 3, ... (with the anchor
            in the view a + 1, a + 2, ...) is the base's.
        counts: (B, A) bool, which anchors there were.
    """

    loss: Tensor
    agrees: Tensor
    counts: Tensor


def draw_anchors(is_response: Tensor, documents: Tensor | None, *, block: int, count: int, scores: Tensor) -> Tensor:
    """Places for blocks, without replacement, such that all K tokens behind an anchor are responses of its document.

    Args:
        is_response: (B, L) bool.
        documents: (B, L) int64 if several share a row.
        block: K.
        count: A, the most of a row.
        scores: (B, L) random numbers; the anchors with the largest are taken.

    Returns:
        (B, A) int64 in ascending order; ``NONE`` fills up rows that have fewer.
    """
    length = is_response.shape[1]
    number = bounds(is_response, documents)[0].expand(is_response.shape)
    fits = torch.zeros_like(is_response)
    if length > block:
        ahead = is_response.unfold(1, block, 1)[:, 1:].all(-1)
        fits[:, : length - block] = ahead & (number[:, : length - block] == number[:, block:])
    taken = torch.where(fits, scores, -1.0).topk(min(count, length)).indices
    taken = torch.where(fits.gather(1, taken), taken, length).sort(1).values
    return torch.where(taken < length, taken, NONE)


def block_positions(anchors: Tensor, block: int, *, anchor_in_view: bool) -> Tensor:
    """(B, A, R) where the rows of every block stand: K rows with the anchor in the view, K - 1 without."""
    return anchors[..., None] + torch.arange(0 if anchor_in_view else 1, block, device=anchors.device)


def block_mask(number: Tensor, anchors: Tensor, block: int, *, anchor_in_view: bool) -> Tensor:
    """The attention mask of pass 2, True where a row may attend.

    Args:
        number: (B, L) int64, the document of each token in its row.
        anchors: (B, A) int64; the rows of ``NONE`` see what is in reach, and do not count.
        block: K.
        anchor_in_view: whether blocks begin with the anchor.

    Returns:
        (B, A * R, L + A * R) bool: the text, then the rows of all blocks.
    """
    rows = block - (not anchor_in_view)
    place, own = torch.arange(number.shape[1], device=anchors.device), anchors.clamp(min=0)[..., None]
    text = (place < own + (not anchor_in_view)) & (number[:, None, :] == number.gather(1, own[..., 0])[..., None])
    block_number = torch.arange(anchors.shape[1], device=anchors.device).repeat_interleave(rows)
    itself = (block_number[:, None] == block_number).expand(len(anchors), -1, -1)
    return torch.cat([text.repeat_interleave(rows, 1), itself], 2)


def distillation(
    model: CausalModel,
    tokens: Tensor,
    anchors: Tensor,
    *,
    documents: Tensor | None = None,
    hard_labels: bool = False,
    chunk: int = 256,
) -> Distillation:
    """The forward Kullback-Leibler divergence from the base to every row of every block, averaged.

    Args:
        model: with a view; K and the anchor's place are its own.
        tokens: (B, L) int64.
        anchors: (B, A) int64 from ``draw_anchors``.
        documents: (B, L) int64 if several share a row.
        hard_labels: learn the true next tokens instead of the base's distribution (the paper's ablation).
        chunk: so many rows at a time have logits; they are computed again for the gradient, never kept.
    """
    block, in_view = model.block or 1, model.anchor_in_view
    number, positions = (part.expand_as(tokens) for part in bounds(tokens, documents))
    past = Past(len(tokens))
    with torch.no_grad():
        taught = model(tokens, positions, causal_mask(number, positions), past=past)
    places = block_positions(anchors, block, anchor_in_view=in_view)
    counts = (anchors != NONE)[..., None].expand_as(places)
    places = places.clamp(min=0, max=tokens.shape[1] - 2)
    drafted = _second_pass(
        model, tokens, positions, places, block_mask(number, anchors, block, anchor_in_view=in_view), past
    )
    row, block_row, offset = counts.nonzero(as_tuple=True)
    place = places[row, block_row, offset]
    students = drafted.view(*places.shape, -1)[row, block_row, offset]
    labels = tokens[row, place + 1] if hard_labels else None
    loss, same = _chunked(model, students, taught[row, place], labels, chunk)
    agrees = torch.zeros_like(counts)
    agrees[row, block_row, offset] = same
    return Distillation(loss / max(len(place), 1), agrees[..., : block - 1], anchors != NONE)


def _second_pass(
    model: CausalModel, tokens: Tensor, positions: Tensor, places: Tensor, visible: Tensor, past: Past
) -> Tensor:
    """(B, A * R, E) hidden states of the rows of all blocks; only the first of a block can be a token."""
    flat = places.flatten(1)
    is_mask = torch.ones_like(places, dtype=torch.bool)
    is_mask[..., 0] = not model.anchor_in_view
    # Positions go on from the anchor's even where the true text ends and the next document begins.
    stands = positions.gather(1, places[..., 0])[..., None] + torch.arange(places.shape[2], device=places.device)
    hidden: Tensor = model(
        tokens.gather(1, flat),
        stands.flatten(1),
        visible,
        is_mask.flatten(1),
        in_view=torch.ones_like(flat, dtype=torch.bool),
        past=Past(len(tokens), past),
    )
    return hidden


def _chunked(
    model: CausalModel, students: Tensor, teachers: Tensor, labels: Tensor | None, chunk: int
) -> tuple[Tensor, Tensor]:
    """The summed loss of (N, E) hidden states, and (N,) whether both say the same."""
    # A sum of nothing, so that a batch without anchors has a gradient too, of zero.
    total, same = at_least_float32(students[:0]).sum(), list[Tensor]()
    for start in range(0, len(students), chunk):
        part = slice(start, start + chunk)
        label = None if labels is None else labels[part]
        loss, agrees = checkpoint(_loss, model, students[part], teachers[part], label, use_reentrant=False)
        total, same = total + loss, [*same, agrees]
    return total, torch.cat(same) if same else students.new_zeros(0, dtype=torch.bool)


def _loss(model: CausalModel, student: Tensor, teacher: Tensor, label: Tensor | None) -> tuple[Tensor, Tensor]:
    """The loss of one chunk of (N, E) rows, summed, and (N,) whether the arg maxima agree."""
    ours = at_least_float32(model.logits(student)).log_softmax(-1)
    with torch.no_grad():
        theirs = at_least_float32(model.logits(teacher)).log_softmax(-1)
    agrees = ours.argmax(-1) == theirs.argmax(-1)
    if label is not None:
        return F.nll_loss(ours, label, reduction="sum"), agrees
    return F.kl_div(ours, theirs, log_target=True, reduction="sum"), agrees
