"""The pieces of text that every method is given: the same tokens for an any-subset model and for a left-to-right one.

An any-subset model encodes a text segment by segment at the borders of its blanks, a left-to-right one reads a run of
tokens. A window is therefore cut only where both are one thing: where left context, blank and right context, each
encoded on its own, are the very tokens of the whole.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from glob import glob
from pathlib import Path

from anyorder.codec import Codec

_TRIES = 50
"""Windows drawn for every piece wanted, before the texts are said to be too short."""


@dataclass(frozen=True, kw_only=True)
class Piece:
    """A window of a text with a blank; what stood there is known.

    Attributes:
        texts: left context, what stood in the blank, right context.
        left: the tokens before the blank.
        truth: the tokens that stood in it.
        right: the tokens after it, which only an any-subset model can see.
    """

    texts: tuple[str, str, str]
    left: tuple[int, ...]
    truth: tuple[int, ...]
    right: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """The whole window."""
        return "".join(self.texts)

    @property
    def blank(self) -> tuple[int, int]:
        """The characters of the blank."""
        return len(self.texts[0]), len(self.texts[0]) + len(self.texts[1])

    def unfinished(self) -> Piece:
        """The same piece cut off behind the blank: left-to-right completion."""
        return replace(self, texts=(*self.texts[:2], ""), right=())


def draw_pieces(texts: Sequence[str], codec: Codec, *, count: int, context: int, tokens: int, seed: int) -> list[Piece]:
    """Windows that start with a line, drawn from texts in proportion to their length, no window twice.

    Args:
        texts: held-out texts.
        codec: the vocabulary that all models share.
        count: how many.
        context: tokens on the left of a blank, at most, and on its right.
        tokens: tokens of a blank.
        seed: of the draws.

    Raises:
        ValueError: if the texts have not so many windows of that size.
    """
    draw, found = random.Random(seed), dict[str, Piece]()
    long_enough = [text for text in texts if len(text) >= context + tokens]
    weights = [len(text) for text in long_enough]
    for _ in range(_TRIES * count if long_enough else 0):
        text = draw.choices(long_enough, weights)[0]
        start = text.rfind("\n", 0, draw.randrange(len(text))) + 1
        window = codec.encode(text[start : start + 16 * (2 * context + tokens)])
        piece = next(_cuts(window, codec, context, tokens), None)
        if piece is not None:
            found.setdefault(piece.text, piece)
        if len(found) == count:
            return list(found.values())
    raise ValueError(
        f"{count} pieces of {context} + {tokens} + {context} tokens are wanted, and the {len(texts)} texts gave "
        f"{len(found)}: name more or longer ones with --data, or ask for less with --pieces, --context, --tokens"
    )


def _cuts(window: list[int], codec: Codec, context: int, tokens: int) -> Iterator[Piece]:
    """The pieces that a window can be cut to, those with the longest left context first."""
    for length in range(context, (context + 1) // 2 - 1, -1):
        parts = (window[:length], window[length : length + tokens], window[length + tokens :][:context])
        if len(parts[2]) < context:
            continue
        before, blank, after = (codec.decode(part) for part in parts)
        piece = Piece(texts=(before, blank, after), left=tuple(parts[0]), truth=tuple(parts[1]), right=tuple(parts[2]))
        if all(_is_as_encoded(one, codec) for one in (piece, piece.unfinished())):
            yield piece


def _is_as_encoded(piece: Piece, codec: Codec) -> bool:
    """Whether an any-subset model is shown these very tokens, with a blank that owns no space of its context."""
    layout = codec.layout(piece.text, [piece.blank])
    (hole,) = layout.blanks
    same = layout.segments == (piece.left, piece.right) and hole.ids == piece.truth
    return same and (hole.start, hole.end) == piece.blank


def read_texts(names: Sequence[str]) -> list[str]:
    """The texts of files, named one by one or by patterns such as ``lib/*.py``.

    Raises:
        ValueError: if a name fits no file, or a file cannot be read or is not text in UTF-8.
    """
    texts = []
    for name in names:
        paths = sorted(Path(found) for found in glob(name, recursive=True))
        if not paths:
            raise ValueError(f"--data {name}: no such file")
        texts += [_read(path) for path in paths if path.is_file()]
    return texts


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"--data {path} cannot be read as text in UTF-8: {error}") from None
