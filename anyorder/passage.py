"""A passage is a text as the model sees it: one id a position, and for each position the blank it belongs to, if any.

The text is encoded segment by segment at the borders of its blanks, the same way for filling, scoring and training, so
a passage is the segments with something between them: masks to be decided, or ids to be scored. A text longer than the
model takes can be cropped to a window around each blank.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from anyorder.codec import Layout
from anyorder.order import Order

Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class Passage:
    """Ids and blanks, position by position.

    Attributes:
        tokens: the id at each position; the mask id where nothing is decided yet.
        blank: the number of the blank each position belongs to, -1 for the prompt.
        num_blanks: how many blanks there are; some may have no position.
        spaced: the positions whose token must begin with a space, which are the first of blanks that own theirs.
    """

    tokens: tuple[int, ...]
    blank: tuple[int, ...]
    num_blanks: int
    spaced: frozenset[int] = frozenset()

    @property
    def num_targets(self) -> int:
        """How many positions lie in blanks."""
        return len(self.blank) - self.blank.count(-1)

    def contents(self) -> list[tuple[int, ...]]:
        """The ids of each blank."""
        found: list[list[int]] = [[] for _ in range(self.num_blanks)]
        for token, blank in zip(self.tokens, self.blank, strict=True):
            if blank >= 0:
                found[blank].append(token)
        return [tuple(ids) for ids in found]

    def at_targets(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """Of values by position, those at the targets, in text order."""
        return tuple(value for value, blank in zip(values, self.blank, strict=True) if blank >= 0)

    def filled(self, tokens: Sequence[int]) -> Passage:
        """The same passage with other ids."""
        return replace(self, tokens=tuple(tokens))


class Batch(NamedTuple):
    """Passages of any length, padded to one width.

    Attributes:
        tokens: (B, L) int64 in position space.
        order: which position each step decides.
        blank: (B, L) int64 in position space, -1 for prompt and padding.
        spaced: (B, L) bool in position space, where a token must begin with a space.
    """

    tokens: Tensor
    order: Order
    blank: Tensor
    spaced: Tensor


def assemble(
    layout: Layout, contents: Sequence[Sequence[int]], *, max_length: int, crop: bool = False, margin: int = 0
) -> Passage:
    """The segments of a text with ``contents`` in its blanks.

    Args:
        layout: a text cut at its blanks.
        contents: the ids of each blank; the mask id as often as there are tokens to decide.
        max_length: how many tokens the model takes.
        crop: whether to keep only a window around each blank of a text that is longer.
        margin: how many tokens the crop leaves free, so that alternatives of different length get the same window.

    Raises:
        ValueError: if the text is longer than the model takes and ``crop`` is off, or the blanks alone are.
    """
    segments: Sequence[tuple[int, ...]] = _with_unclaimed_spaces(layout, contents)
    num_targets = sum(map(len, contents))
    total = sum(map(len, segments)) + num_targets
    if num_targets + margin > max_length:
        raise ValueError(
            f"the blanks hold {num_targets + margin} tokens; this model takes {max_length}, blanks and text together"
        )
    if total + margin > max_length:
        if not crop and num_targets:  # with nothing to decide the model is not even asked
            raise ValueError(
                f"the text has {total + margin} tokens with its blanks filled, but this model takes {max_length}; "
                'shorten it, or pass context="crop" to keep a window around each blank'
            )
        segments = _crop(segments, max_length - num_targets - margin)
    tokens: list[int] = list(segments[0])
    blank: list[int] = [-1] * len(segments[0])
    spaced: set[int] = set()
    for number, (content, segment) in enumerate(zip(contents, segments[1:], strict=True)):
        if content and layout.blanks[number].owned:
            spaced.add(len(tokens))
        tokens += [*content, *segment]
        blank += [number] * len(content) + [-1] * len(segment)
    return Passage(tokens=tuple(tokens), blank=tuple(blank), num_blanks=len(contents), spaced=frozenset(spaced))


def _with_unclaimed_spaces(layout: Layout, contents: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The segments, each with the space behind it that an empty blank owns but has no token to carry."""
    owned = [() if content else blank.owned for blank, content in zip(layout.blanks, contents, strict=True)]
    return [segment + space for segment, space in zip(layout.segments, [*owned, ()], strict=True)]


def collate(passages: Sequence[Passage], permutations: Sequence[Tensor], *, padding_id: int) -> Batch:
    """Passages as tensors, the targets of each decided in its own permutation of them in text order."""
    width = max((len(passage.tokens) for passage in passages), default=0)
    tokens = torch.full((len(passages), width), padding_id, dtype=torch.long)
    blank = torch.full((len(passages), width), -1, dtype=torch.long)
    spaced = torch.zeros(len(passages), width, dtype=torch.bool)
    for row, passage in enumerate(passages):
        spaced[row, list(passage.spaced)] = True
        tokens[row, : len(passage.tokens)] = torch.tensor(passage.tokens, dtype=torch.long)
        blank[row, : len(passage.blank)] = torch.tensor(passage.blank, dtype=torch.long)
    length = torch.tensor([len(passage.tokens) for passage in passages], dtype=torch.long)
    order = Order.from_targets(blank >= 0, length).rearranged(permutations)
    return Batch(tokens, order, blank, spaced)


def _crop(segments: Sequence[tuple[int, ...]], budget: int) -> list[tuple[int, ...]]:
    """Keep ``budget`` tokens, those nearest to a blank, shared fairly among the sides of the blanks.

    A segment between two blanks has two sides and loses its middle; the outer segments have one and lose their far end.
    """
    last = len(segments) - 1
    # (segment, whether it is the side at the segment's start, the tokens it could keep)
    sides: list[tuple[int, bool, int]] = []
    for number, segment in enumerate(segments):
        if 0 < number < last:
            sides += [(number, True, (len(segment) + 1) // 2), (number, False, len(segment) // 2)]
        elif last:
            sides.append((number, number > 0, len(segment)))
    kept = [[0, 0] for _ in segments]
    # The smallest sides first: what they do not need is shared among those that remain.
    for served, (number, at_start, capacity) in enumerate(sorted(sides, key=lambda side: side[2])):
        share = min(capacity, budget // (len(sides) - served))
        kept[number][0 if at_start else 1] = share
        budget -= share
    return [
        segment[:head] + segment[len(segment) - tail :] for segment, (head, tail) in zip(segments, kept, strict=True)
    ]
