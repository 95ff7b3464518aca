"""A request: a text with its blanks, laid out as the model sees it, once for each choice of lengths.

Whatever is wrong with a text or its blanks comes out here, before anything is decoded.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from anyorder import blanks
from anyorder.codec import Layout
from anyorder.options import InfillOptions, TargetOrder
from anyorder.order import OrderName, arrange
from anyorder.passage import Passage, assemble
from anyorder.spans import MaskPositions

if TYPE_CHECKING:
    from anyorder.model.loaded import Model

_ORDER_STREAM = 0x5EED_0F_04DE4
"""Keeps the numbers that draw a random order apart from those that draw the tokens, which start at the same seed."""


_NO_BLANK = "the text has no blank and stays as it is: write {marker} for one, or say where by mask_positions"


@dataclass(frozen=True, kw_only=True)
class Request:
    """One text to fill.

    Attributes:
        text: the text without markers.
        layout: the text cut at its blanks.
        options: what the caller chose.
        seed: of its first sample.
        passages: what to decode, one for each choice of lengths.
        permutations: the order of each passage's targets.
        remark: what the caller should be told, if anything.
    """

    text: str
    layout: Layout
    options: InfillOptions
    seed: int
    passages: tuple[Passage, ...]
    permutations: tuple[Tensor, ...]
    remark: str


def prepare(text: str, mask_positions: MaskPositions | None, options: InfillOptions, model: Model) -> Request:
    """Find the blanks of a text and lay it out as the model sees it, for each choice of lengths.

    Raises:
        TypeError: if the text or the positions are of the wrong kind.
        ValueError: if positions, markers, lengths or order do not fit the text, or the text does not fit the model.
    """
    codec = model.codec
    blanked = blanks.find(text, mask_positions, options.marker, codec)
    layout = blanks.lay_out(blanked, codec, options.forbidden_strings())
    has_marked_none = not layout.blanks and mask_positions is None and options.marker is not None
    choices = blanks.candidate_lengths(blanked, layout, options.length, model.max_length)
    longest = max(map(sum, choices))
    passages = tuple(
        assemble(
            layout,
            [(codec.mask_id,) * length for length in lengths],
            max_length=model.max_length,
            crop=options.context == "crop",
            margin=longest - sum(lengths),
        )
        for lengths in choices
    )
    seed = options.first_seed()
    permutations = tuple(target_permutation(passage, options.order, model, seed=seed) for passage in passages)
    return Request(
        text=blanked.text,
        layout=layout,
        options=options,
        seed=seed,
        passages=passages,
        permutations=permutations,
        remark=_NO_BLANK.format(marker=options.marker) if has_marked_none else "",
    )


def target_permutation(passage: Passage, order: TargetOrder, model: Model, *, seed: int) -> Tensor:
    """The order of a passage's targets: the caller's, else the model's policy; a random one is drawn from the seed."""
    chosen = cast("OrderName", model.order_policy) if order is None else order
    return arrange(passage.num_targets, chosen, torch.Generator().manual_seed(seed ^ _ORDER_STREAM))
