"""The blanks of a text: where they are, and how many tokens may go into each.

Blanks come as markers in the text or as spans of it (``anyorder.markers``, ``anyorder.spans``); from here on both are
the same thing, a text with character spans to be replaced. A span that stood for a marker is empty.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
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
        are_tokens: whether the blanks were named as tokens of the text.
    """

    text: str
    spans: tuple[Span, ...]
    named: tuple[int | None, ...]
    from_markers: bool
    are_tokens: bool = False


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
        are_tokens = spans.names_tokens(mask_positions)
        return Blanked(text=text, spans=found, named=(None,) * len(found), from_markers=False, are_tokens=are_tokens)
    if marker is None:
        return Blanked(text=text, spans=(), named=(), from_markers=True)
    marked = markers.parse(text, marker)
    return Blanked(
        text=marked.text,
        spans=tuple(Span(blank.position, blank.position) for blank in marked.blanks),
        named=tuple(blank.num_tokens for blank in marked.blanks),
        from_markers=True,
    )


def lay_out(blanked: Blanked, codec: Codec, forbidden: Sequence[str]) -> Layout:
    """The text cut at its blanks; each owns the space before it, except where that must stay the prompt's.

    Blanks that are tokens begin where the text's tokens part anyway. And a forbidden string that holds a space is about
    what is filled in, which a space of the prompt's is not.
    """
    is_about_spaces = any(" " in string for string in forbidden)
    return codec.layout(blanked.text, blanked.spans, own_spaces=not (blanked.are_tokens or is_about_spaces))


def candidate_lengths(blanked: Blanked, layout: Layout, length: Length, max_length: int) -> list[tuple[int, ...]]:
    """Every choice of lengths to try, one number a blank: a single choice unless ``length`` is a range.

    Args:
        blanked: the text and its blanks.
        layout: the same, as tokens.
        length: what the caller asked for.
        max_length: how many tokens the model takes; no choice holds more.

    Raises:
        ValueError: if markers name lengths and ``length`` does too, if it has not one number a blank, or if the blanks
            would hold more tokens than the model takes.
    """
    count = len(blanked.spans)
    if isinstance(length, str):
        if blanked.from_markers:
            return [_fitting([1 if named is None else named for named in blanked.named], max_length)]
        return [_fitting([len(blank.ids) for blank in layout.blanks], max_length)]
    if any(named is not None for named in blanked.named):
        raise ValueError(
            f'length={length!r} contradicts the lengths that markers name; leave it at "same", or use bare markers'
        )
    if isinstance(length, range):
        # The longest first, before a list of all of them is made: a range costs nothing, however long.
        _fitting([max(length[0], length[-1])] * count, max_length)
        return [(tokens,) * count for tokens in length] if count else [()]
    if isinstance(length, SupportsIndex):
        return [_fitting([operator.index(length)] * count, max_length)]
    if len(length) != count:
        raise ValueError(
            f"length needs one number a blank: the text has {count}, length {len(length)}; got {list(length)!r:.80}"
        )
    return [_fitting(length, max_length)]


def _fitting(lengths: Sequence[int], max_length: int) -> tuple[int, ...]:
    """Lengths the model takes, as plain integers; checked before anything of such a length is made."""
    numbers = tuple(operator.index(tokens) for tokens in lengths)
    if sum(numbers) > max_length:
        raise ValueError(
            f"the blanks hold {sum(numbers)} tokens; this model takes {max_length}, blanks and text together"
        )
    return numbers
