"""Which tokens of a training sequence are targets: scattered, span-shaped at character borders, or all to the end.

Text is encoded segment by segment at the borders of the blanks, as ``infill`` does it, so the model meets in training
the token borders it will meet in use.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from anyorder.codec.base import Codec


class Example(NamedTuple):
    """One training sequence: token ids and which of them are targets."""

    ids: list[int]
    is_target: list[bool]


def scattered(codec: Codec, text: str, rate: float, draw: random.Random) -> Example:
    """Every token is a target with probability ``rate``, independently."""
    ids = codec.encode(text)
    return Example(ids, [draw.random() < rate for _ in ids])


def spans(codec: Codec, text: str, rate: float, draw: random.Random) -> Example:
    """One to three blanks that together cover about ``rate`` of the characters.

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
        borders.append((start, end))
    borders.sort()
    ids: list[int] = []
    is_target: list[bool] = []
    position = 0
    for start, end in borders:
        if start < position:
            continue
        for piece, target in ((text[position:start], False), (text[start:end], True)):
            new = codec.encode(piece)
            ids += new
            is_target += [target] * len(new)
        position = end
    tail = codec.encode(text[position:])
    return Example(ids + tail, is_target + [False] * len(tail))


def suffix(codec: Codec, text: str, rate: float, _draw: random.Random) -> Example:
    """Everything after a random border is a target: left-to-right completion."""
    border = min(int((1 - rate) * len(text)), len(text) - 1)
    prompt, rest = codec.encode(text[:border]), codec.encode(text[border:])
    return Example(prompt + rest, [False] * len(prompt) + [True] * len(rest))
