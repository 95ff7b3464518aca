"""Which tokens of a training sequence are targets: scattered, span-shaped at character borders, or all to the end.

Text is encoded segment by segment at the borders of the blanks, as ``infill`` does it, so the model meets in training
the token borders it will meet in use.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal, NamedTuple

from anyorder.codec.base import Codec

Kind = Literal["scattered", "spans", "suffix"]
"""The shapes of blanks: single tokens anywhere, contiguous runs as real infilling has them, all behind a border."""


class Example(NamedTuple):
    """One training sequence: token ids and which of them are targets."""

    ids: list[int]
    is_target: list[bool]


def scattered(codec: Codec, text: str, rate: float, draw: random.Random) -> Example:
    """Every token is a target with probability ``rate``, independently."""
    ids = codec.encode(text)
    return Example(ids, [draw.random() < rate for _ in ids])


def spans(codec: Codec, text: str, rate: float, draw: random.Random) -> Example:
    """One to three blanks that together cover about ``rate`` of the characters; see ``draw_spans``."""
    return encode_around(codec, text, draw_spans(text, rate, draw))


def draw_spans(text: str, rate: float, draw: random.Random) -> list[tuple[int, int]]:
    """Character ranges of one to three blanks, sorted and disjoint.

    Most are snapped to what people leave out: from the start of a word (the space before it belongs to the prompt) or
    of a line, to the end of a word or of a line.
    """
    count = draw.choice((1, 1, 1, 2, 3))
    size = max(int(rate * len(text) / count), 1)
    borders: list[tuple[int, int]] = []
    for _ in range(count):
        length = max(1, min(len(text), round(size * draw.uniform(0.3, 1.7))))
        start = draw.randrange(len(text) - length + 1)
        end = start + length
        if draw.random() < 0.6:
            start = text.find(" ", start, end) + 1 or start
        if draw.random() < 0.4:
            end = max(text.rfind(" ", start, end), start + 1)
        elif draw.random() < 0.6:
            newline = text.find("\n", end)
            end = len(text) if newline < 0 else newline + draw.randint(0, 1)
        if draw.random() < 0.3:
            start = text.rfind("\n", 0, start) + 1
            if draw.random() < 0.5:
                start += len(text[start:end]) - len(text[start:end].lstrip(" "))
        if start < min(end, len(text)):
            borders.append((start, min(end, len(text))))
    borders.sort()
    kept: list[tuple[int, int]] = []
    for start, end in borders:
        if start >= (kept[-1][1] if kept else 0):
            kept.append((start, end))
    return kept


def encode_around(codec: Codec, text: str, blanks: list[tuple[int, int]]) -> Example:
    """The tokens of a text as ``infill`` encodes it around these blanks, whose tokens are the targets."""
    layout = codec.layout(text, blanks)
    ids: list[int] = []
    is_target: list[bool] = []
    holes: list[tuple[int, ...]] = [*(blank.ids for blank in layout.blanks), ()]
    for segment, hole in zip(layout.segments, holes, strict=True):
        ids += [*segment, *hole]
        is_target += [False] * len(segment) + [True] * len(hole)
    return Example(ids, is_target)


def suffix(codec: Codec, text: str, rate: float, _draw: random.Random) -> Example:
    """Everything after a random border is a target: left-to-right completion."""
    border = min(int((1 - rate) * len(text)), len(text) - 1)
    return encode_around(codec, text, [(border, len(text))])


def blank_text(kind: Kind, codec: Codec, text: str, rate: float, draw: random.Random) -> Example:
    """A window of text with blanks of one kind."""
    return {"scattered": scattered, "spans": spans, "suffix": suffix}[kind](codec, text, rate, draw)


def blank_ids(kind: Kind, ids: Sequence[int], rate: float, draw: random.Random) -> Example:
    """Packed tokens with blanks of one kind, whose borders are those of tokens."""
    length = len(ids)
    is_target = [False] * length
    if kind == "scattered":
        is_target = [draw.random() < rate for _ in ids]
    elif kind == "suffix":
        first = min(int((1 - rate) * length), length - 1)
        is_target[first:] = [True] * (length - first)
    else:
        count = draw.choice((1, 1, 1, 2, 3))
        for _ in range(count):
            size = max(1, min(length, round(rate * length / count * draw.uniform(0.3, 1.7))))
            start = draw.randrange(length - size + 1)
            is_target[start : start + size] = [True] * size
    return Example(list(ids), is_target)
