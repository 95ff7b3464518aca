"""Documents to training sequences: windows of one document's text, or token chunks packed across documents.

A piece has one of a few lengths, so that the sequences of a micro-batch are of one length and nothing is padding.
Short ones are drawn so that snippets work as well as files.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple

from anyorder.codec.base import Codec


class Piece(NamedTuple):
    """A training sequence to be: its length in tokens, and its text or, if packed, its ids."""

    length: int
    text: str = ""
    ids: tuple[int, ...] = ()


class Lengths:
    """The lengths of pieces, drawn so that each gets its share of the *tokens*."""

    def __init__(self, shares: dict[int, float]) -> None:
        self.lengths = sorted(shares)
        self._weights = [shares[length] / length for length in self.lengths]

    def draw(self, draw: random.Random, room: float) -> int:
        """A length; where only ``room`` tokens are left, the smallest that holds them."""
        length = draw.choices(self.lengths, self._weights)[0]
        if room >= length:
            return length
        return next((each for each in self.lengths if each >= room), self.lengths[-1])


def windows(text: str, lengths: Lengths, characters_per_token: float, draw: random.Random) -> Iterator[Piece]:
    """Windows that cover a document; each starts at a line or, where lines are long, at a word.

    Half of them start further back, at a line without indentation, since that is where people's snippets start. The
    last one ends where the document ends.
    """
    start = 0
    while start < len(text):
        length = lengths.draw(draw, (len(text) - start) / characters_per_token)
        size = int(length * characters_per_token)
        if start + size >= len(text):
            start = _border(text, max(len(text) - size, 0), len(text))
            yield Piece(length, text[start:])
            return
        if draw.random() < 0.5:
            start = _unindented(text, start, size // 2)
        yield Piece(length, text[start : start + size])
        start = _border(text, start + size // 2, start + size, last=True)


def _border(text: str, low: int, high: int, *, last: bool = False) -> int:
    """The first (or last) start of a line within a range, else of a word, else an end of the range."""
    if low == 0:
        return 0
    for mark in "\n", " ":
        found = text.rfind(mark, low, high) if last else text.find(mark, low, low + (high - low) // 4)
        if found >= 0:
            return found + 1
    return high if last else low


def _unindented(text: str, start: int, reach: int) -> int:
    """The nearest start of an unindented line at or before ``start``, within reach; else ``start``."""
    place = start
    while place > 0 and start - place <= reach:
        if text[place - 1] == "\n" and text[place] not in " \t\n)]}#":
            return place
        place = text.rfind("\n", 0, place - 1) + 1
    return start


def packed(texts: list[str], lengths: Lengths, codec: Codec, separator: int, draw: random.Random) -> Iterator[Piece]:
    """Chunks of whole documents' tokens, one after the other, a separator behind each; only the last may be short."""
    ids: list[int] = []
    length = lengths.draw(draw, lengths.lengths[-1])
    for text in texts:
        ids += [*codec.encode(text), separator]
        start = 0
        while len(ids) - start >= length:
            yield Piece(length, ids=tuple(ids[start : start + length]))
            start += length
            length = lengths.draw(draw, lengths.lengths[-1])
        ids = ids[start:]
    while ids:
        length = lengths.draw(draw, len(ids))
        yield Piece(length, ids=tuple(ids[:length]))
        ids = ids[length:]
