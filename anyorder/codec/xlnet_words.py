"""Words of XLNet's vocabulary with character offsets: the normalisation of transformers 5 around SentencePiece's own.

Reproduces ``XLNetTokenizer`` of transformers 5.24 as it loads the published ``tokenizer.json`` (from ``spiece.model``
alone it starts a new word after each user-defined symbol, as no other version does): two backquotes and two apostrophes
become a double quote, NFKD, marks dropped, then the model's own character map, white space collapsed, every word with a
word-start piece. Checked on every code point below U+30000: U+0085 and the marks of Unicode versions newer than its
tables differ, and so would Hangul in a vocabulary that knows parts of syllables (XLNet's does not). Text that spells a
special token (``<mask>``) is ordinary text here. Every step keeps track of the characters it came from.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import sentencepiece

from anyorder.codec.pieces import BAR, is_special

CUT_PIECE = "<eop>"
"""A user-defined symbol of XLNet: no piece crosses it, so it can cut a word without starting another."""

_QUOTES = re.compile("``|''")


class Piece(NamedTuple):
    """A token id and the characters it covers."""

    id: int
    start: int
    end: int


class WordEncoder:
    """Text to pieces with offsets.

    Args:
        processor: a SentencePiece model trained with XLNet's flags.
        cut_id: the id of ``CUT_PIECE``.
        as_is: leave out the quotes, the decomposition and the dropping of marks.
    """

    def __init__(self, processor: sentencepiece.SentencePieceProcessor, cut_id: int, *, as_is: bool) -> None:
        self._processor = processor
        self._cut_id = cut_id
        self._as_is = as_is

    def encode(self, text: str, cuts: Sequence[int]) -> list[Piece]:
        """The pieces of a text, of which none crosses a cut, a position inside a word.

        A lone word-start piece covers what the piece behind it covers, and so do pieces that share a character (a
        ligature's, say), since only whole characters can be replaced.
        """
        plain, origin = (text, list(range(len(text) + 1))) if self._as_is else _simplify(text)
        plain, origin = _insert_cuts(plain, origin, cuts)
        normal, offsets = self._processor.normalize(plain, with_offsets=True)
        source = [origin[offset] for offset in offsets]
        beyond = _next_greater(source, len(text))
        ids: list[int] = self._processor.encode(plain)
        spellings: list[str] = self._processor.encode(plain, out_type=str)
        pieces: list[Piece] = []
        lone: list[int] = []
        stop = 0
        for token_id, spelling in zip(ids, spellings, strict=True):
            begin, stop = stop, stop + len(spelling)
            if token_id == self._cut_id:
                continue
            if spelling == BAR and stop < len(normal):
                lone.append(token_id)
                continue
            start = source[min(begin + (spelling[0] == BAR), stop - 1)]
            pieces += [Piece(each, start, beyond[stop - 1]) for each in (*lone, token_id)]
            lone = []
        return _whole_characters(pieces)

    @cached_property
    def carried(self) -> frozenset[str]:
        """Characters that the vocabulary spells as they are, wherever they stand; a space is not among them."""
        pieces = map(self._processor.id_to_piece, range(self._processor.vocab_size()))
        return frozenset(piece for piece in pieces if len(piece) == 1 and self._keeps(piece))

    def lost(self, text: str, *, escapes: Sequence[str]) -> set[str]:
        """The characters, pairs of quotes and white space of a text that do not come back from its ids."""
        for escape in escapes:
            text = text.replace(escape, "\n")
        single = re.sub(r"(?<=[^\s]) (?=[^\s])", "", text)
        lost = set(single) - self.carried - ({"\n"} if escapes else set())
        return lost | set(_QUOTES.findall(text))

    def _keeps(self, character: str) -> bool:
        composes = "\u1160" <= character <= "\u11ff"  # a Hangul vowel or final, alone in not being a mark
        if composes or is_special(self._processor, self._processor.piece_to_id(character)):
            return False
        return bool(self._processor.normalize(character) == BAR + character) and _simplify(character)[0] == character


def _simplify(text: str) -> tuple[str, list[int]]:
    """Quotes, NFKD and the dropping of marks; with the position each character came from, and the length last."""
    plain: list[str] = []
    origin: list[int] = []
    position = 0
    while position < len(text):
        pair = _QUOTES.match(text, position)
        kept = (
            '"'
            if pair
            else [c for c in unicodedata.normalize("NFKD", text[position]) if unicodedata.category(c)[0] != "M"]
        )
        plain += kept
        origin += [position] * len(kept)
        position += 2 if pair else 1
    return "".join(plain), [*origin, len(text)]


def _insert_cuts(plain: str, origin: list[int], cuts: Sequence[int]) -> tuple[str, list[int]]:
    """Put ``CUT_PIECE`` at each cut inside a word and inside every literal ``CUT_PIECE``, which is ordinary text."""
    places = {bisect_left(origin, cut) for cut in cuts} | {m.start() + 2 for m in re.finditer(CUT_PIECE, plain)}
    for place in sorted(places, reverse=True):
        if 0 < place < len(plain) and not plain[place - 1].isspace() and not plain[place].isspace():
            plain = plain[:place] + CUT_PIECE + plain[place:]
            origin = [*origin[:place], *[origin[place]] * len(CUT_PIECE), *origin[place:]]
    return plain, origin


def _next_greater(source: Sequence[int], length: int) -> list[int]:
    """For each entry of a rising list the first greater one behind it, or ``length``."""
    beyond = [length] * len(source)
    for index in range(len(source) - 2, -1, -1):
        beyond[index] = source[index + 1] if source[index + 1] > source[index] else beyond[index + 1]
    return beyond


def _whole_characters(pieces: Sequence[Piece]) -> list[Piece]:
    """Give pieces that share a character the range of all of them."""
    groups: list[list[Piece]] = []
    for piece in pieces:
        if groups and piece.start < groups[-1][-1].end:
            groups[-1].append(piece)
        else:
            groups.append([piece])
    return [Piece(piece.id, group[0].start, group[-1].end) for group in groups for piece in group]
