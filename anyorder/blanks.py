"""The blanks of a text: where they are, and how many tokens may go into each.

Blanks come as markers in the text or as spans of it (``anyorder.markers``, ``anyorder.spans``); from here on both are
the same thing, a text with character spans to be replaced. A span that stood for a marker is empty.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import SupportsIndex

from anyorder import markers, spans
from anyorder.codec import Codec, Layout
from anyorder.options import Length
from anyorder.spans import MaskPositions, Span


@dataclass(frozen=True, kw_only=True)
class Blanked:
    """A text and its blanks, in text order.

    Attributes:
        text: the text, without markers if blanks were given as markers.
        spans: the characters that are replaced.
        named: the lengths that markers name; ``None`` for bare markers and for spans.
        from_markers: whether the blanks were markers.
    """

    text: str
    spans: tuple[Span, ...]
    named: tuple[int | None, ...]
    from_markers: bool


def find(text: str, mask_positions: MaskPositions | None, marker: str | None, codec: Codec) -> Blanked:
    """The blanks of a text: those of ``mask_positions``, else the markers in the text.

    Raises:
        TypeError: if the text is not a string or the positions are of no known kind.
        ValueError: if positions or markers are malformed.
    """
    if not isinstance(text, str):
        raise TypeError(f"text must be a string; got {type(text).__name__}")
    if mask_positions is not None:
        found = spans.resolve(mask_positions, len(text), lambda: codec.tokenize(text))
        return Blanked(text=text, spans=found, named=(None,) * len(found), from_markers=False)
    if marker is None:
        return Blanked(text=text, spans=(), named=(), from_markers=True)
    marked = markers.parse(text, marker)
    return Blanked(
        text=marked.text,
        spans=tuple(Span(blank.position, blank.position) for blank in marked.blanks),
        named=tuple(blank.num_tokens for blank in marked.blanks),
        from_markers=True,
    )


def candidate_lengths(blanked: Blanked, layout: Layout, length: Length) -> list[tuple[int, ...]]:
    """Every choice of lengths to try, one number a blank: a single choice unless ``length`` is a range.

    Raises:
        ValueError: if markers name lengths and ``length`` does too, or if it has not one number a blank.
    """
    count = len(blanked.spans)
    if isinstance(length, str):
        if blanked.from_markers:
            return [tuple(1 if named is None else named for named in blanked.named)]
        return [tuple(len(blank.ids) for blank in layout.blanks)]
    if any(named is not None for named in blanked.named):
        raise ValueError(
            f'length={length!r} contradicts the lengths that markers name; leave it at "same", or use bare markers'
        )
    if isinstance(length, range):
        return [(tokens,) * count for tokens in length] if count else [()]
    if not isinstance(length, SupportsIndex):
        if len(length) != count:
            raise ValueError(
                f"length has {len(length)} numbers, but the text has {count} blanks: one number a blank is needed"
            )
        return [tuple(operator.index(tokens) for tokens in length)]
    return [(operator.index(length),) * count]
