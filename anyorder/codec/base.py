"""What a codec is: a reversible map between text and token ids, with the blanks of a text cut out at character offsets.

The law of this package: what is outside the blanks never changes, byte for byte. A result is therefore spliced into the
original string by character offsets and never decoded as a whole, and a codec says which characters a blank replaces
(it may widen a blank to token borders) and which string takes their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Token:
    """One token of a text: its id, its text and the characters it covers.

    A piece of a character (a byte piece) covers the whole character, so neighbours may cover the same one.
    """

    id: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, kw_only=True)
class Blank:
    """A hole in a text.

    Attributes:
        start: first character that is replaced; a codec may have widened what was asked for to token borders.
        end: the character after the last one that is replaced.
        ids: the tokens of the replaced text, whose number is the length ``"same"``.
        owned: the ids of the space before the blank, if its first token is to carry that space: the prompt then lacks
            it, and the first token must be one of the codec's ``space_ids``. An empty fill leaves it to the prompt.
    """

    start: int
    end: int
    ids: tuple[int, ...]
    owned: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Layout:
    """A text cut at the borders of its blanks: ``segments[0] blanks[0] segments[1] ... blanks[-1] segments[-1]``.

    Attributes:
        segments: the tokens before, between and after the blanks; always one more than there are blanks.
        blanks: the blanks in text order.
    """

    segments: tuple[tuple[int, ...], ...]
    blanks: tuple[Blank, ...]


@runtime_checkable
class Codec(Protocol):
    """Text to token ids and back; the only place where anyorder handles strings."""

    @property
    def name(self) -> str:
        """The name under which a checkpoint's config stores the codec and ``load_codec`` finds it."""
        ...

    @property
    def vocab_size(self) -> int:
        """The number of ids."""
        ...

    @property
    def mask_id(self) -> int:
        """The id that stands for an undecided token."""
        ...

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        """Ids that no distribution gives mass to: specials, which stand for no text."""
        ...

    @property
    def space_ids(self) -> frozenset[int]:
        """Ids that may come first in a blank that owns the space before it; empty for a codec with no such blanks."""
        ...

    def encode(self, text: str) -> list[int]:
        """The canonical ids of a text on its own."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a run of ids; specials stand for nothing."""
        ...

    def tokenize(self, text: str) -> list[Token]:
        """The tokens of ``encode(text)`` with the characters they cover."""
        ...

    def layout(self, text: str, spans: Sequence[tuple[int, int]], *, own_spaces: bool = True) -> Layout:
        """Cut a text at blanks, given as sorted character ranges that may be empty or touch but not overlap.

        ``own_spaces=False`` leaves every space outside the blanks to the prompt: where blanks are tokens, their borders
        are where the text's tokens part anyway.
        """
        ...

    def fill(self, ids: Sequence[int], text: str, blank: Blank) -> str:
        """The string that takes the place of ``text[blank.start:blank.end]`` when ``ids`` fill that blank."""
        ...

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes a token adds to a fill, for constraints on what a fill may contain; empty for specials."""
        ...

    def save(self, directory: Path) -> None:
        """Write ``tokenizer.model`` into a checkpoint directory."""
        ...


def splice(text: str, blanks: Sequence[Blank], fills: Sequence[str]) -> tuple[str, list[tuple[int, int]]]:
    """Put fills in the place of blanks; everything outside the blanks is copied from ``text``.

    Returns:
        The completed text and, for each fill, its character range in that text.

    Raises:
        ValueError: if there is not one fill a blank, or the blanks are not sorted and disjoint inside the text.
    """
    if len(blanks) != len(fills):
        raise ValueError(f"one fill a blank is needed; got {len(fills)} fills for {len(blanks)} blanks")
    check_spans(text, [(blank.start, blank.end) for blank in blanks])
    parts: list[str] = []
    ranges: list[tuple[int, int]] = []
    copied = written = 0
    for blank, fill in zip(blanks, fills, strict=True):
        kept = text[copied : blank.start]
        begin = written + len(kept)
        parts += [kept, fill]
        copied, written = blank.end, begin + len(fill)
        ranges.append((begin, written))
    return "".join([*parts, text[copied:]]), ranges


def check_spans(text: str, spans: Sequence[tuple[int, int]]) -> None:
    """Raise ValueError unless ``spans`` are sorted, disjoint ranges of ``text`` (empty or touching ones are fine)."""
    previous = 0
    for start, end in spans:
        if not 0 <= start <= end <= len(text):
            raise ValueError(
                f"a span must satisfy 0 <= start <= end <= {len(text)} (the text's length); got ({start}, {end})"
            )
        if start < previous:
            raise ValueError(f"spans must be sorted and must not overlap; ({start}, {end}) starts before {previous}")
        previous = end


def check_encodable(text: str) -> None:
    """Raise TypeError for anything but a string and ValueError for a lone surrogate, which UTF-8 cannot hold."""
    if not isinstance(text, str):
        raise TypeError(f"text must be a str; got {type(text).__name__}")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(
            f"text must be valid Unicode; it has a lone surrogate {text[error.start]!r} at position {error.start}"
        ) from error


def check_ids(ids: Sequence[int], vocab_size: int) -> None:
    """Raise ValueError for an id outside the vocabulary."""
    if len(ids) and not 0 <= min(ids) <= max(ids) < vocab_size:
        wrong = next(token_id for token_id in ids if not 0 <= token_id < vocab_size)
        raise ValueError(f"a token id must lie in 0 .. {vocab_size - 1}; got {wrong}")
