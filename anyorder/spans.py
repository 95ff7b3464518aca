"""Spans say which parts of a text are blanks: character pairs or slices, or token indices, turned into character spans.

Spans are half-open, indices may be negative as in Python, but unlike Python's slices nothing is clamped: a span that
reaches outside its text is a mistake somewhere. Touching spans stay separate, overlapping ones are errors, and the
result is in text order whatever order they came in.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

from anyorder.integers import as_integer

MaskPositions = Sequence[tuple[int, int]] | Sequence[slice] | Sequence[tuple[int, int] | slice] | Sequence[int]
"""Where blanks are: character pairs or slices, or token indices."""


class Span(NamedTuple):
    """Characters ``start`` to ``end``, the latter excluded."""

    start: int
    end: int


class Placed(Protocol):
    """Anything that knows which characters of the text it stands for: a codec's token."""

    @property
    def start(self) -> int:
        """First character."""
        ...

    @property
    def end(self) -> int:
        """One past the last character."""
        ...


def resolve(
    mask_positions: MaskPositions, num_characters: int, tokenize: Callable[[], Sequence[Placed]]
) -> tuple[Span, ...]:
    """The character spans that ``mask_positions`` names, in text order.

    Args:
        mask_positions: pairs and slices of characters, or token indices, not mixed.
        num_characters: the length of the text.
        tokenize: gives the tokens of the text; called only for token indices.

    Raises:
        TypeError: for anything but a sequence of those, with the right spelling where the intent is clear.
        ValueError: for spans out of range, reversed, with a step, or overlapping, and for repeated token indices.
    """
    _check_container(mask_positions)
    if names_tokens(mask_positions):
        return _from_tokens([operator.index(item) for item in mask_positions], tokenize)  # type: ignore[arg-type]
    spans = sorted(span_of(item, num_characters) for item in mask_positions)
    for left, right in itertools.pairwise(spans):
        if right.start < left.end:
            raise ValueError(
                f"spans overlap: {tuple(left)} and {tuple(right)}; touching spans are fine, overlapping ones are not"
            )
    return tuple(spans)


def names_tokens(mask_positions: MaskPositions) -> bool:
    """Whether positions are token indices, not characters."""
    return all(as_integer(item) is not None for item in mask_positions)


def span_of(item: object, num_characters: int) -> Span:
    """One pair or slice as a checked span of a text of ``num_characters``.

    Raises:
        TypeError: if it is neither a pair of integers nor a slice.
        ValueError: if it is reversed, out of range, or a slice with a step.
    """
    if isinstance(item, slice):
        if item.step not in (None, 1):
            raise ValueError(f"a blank is a run of characters: the step of {item!r} must be 1 or left out")
        first: object = 0 if item.start is None else item.start
        last: object = num_characters if item.stop is None else item.stop
    elif isinstance(item, tuple) and len(item) == 2:
        first, last = item
    elif as_integer(item) is not None:
        raise TypeError(
            f"token indices and character spans cannot be mixed; {item!r} is an index: write ({item!r}, end)"
        )
    else:
        raise TypeError(f"a span is a pair of character offsets (start, end) or a slice; got {item!r}")
    start, end = as_integer(first), as_integer(last)
    if start is None or end is None:
        raise TypeError(f"the offsets of a span must be integers; got {item!r}")
    resolved = Span(start + num_characters if start < 0 else start, end + num_characters if end < 0 else end)
    if not (0 <= resolved.start <= num_characters and 0 <= resolved.end <= num_characters):
        raise ValueError(f"span {item!r} is out of range: the text has {num_characters} characters")
    if resolved.end < resolved.start:
        raise ValueError(f"span {item!r} is reversed: it starts at {resolved.start} and ends at {resolved.end}")
    return resolved


def _check_container(mask_positions: object) -> None:
    if isinstance(mask_positions, slice):
        raise TypeError(f"mask_positions must be a list: write [{mask_positions!r}]")
    if (
        isinstance(mask_positions, tuple)
        and mask_positions
        and all(as_integer(item) is not None for item in mask_positions)
    ):
        pair = f"[{mask_positions!r}] for the span of characters, or " if len(mask_positions) == 2 else ""
        raise TypeError(
            f"mask_positions must be a list of spans or of token indices, got the tuple {mask_positions!r}: "
            f"write {pair}{list(mask_positions)!r} for token indices"
        )
    if isinstance(mask_positions, str | bytes) or not isinstance(mask_positions, Sequence):
        raise TypeError(
            "mask_positions must be a list of character pairs such as [(4, 9)], of slices, or of token indices; "
            f"got {type(mask_positions).__name__}: {mask_positions!r:.80}"
        )


def _from_tokens(indices: list[int], tokenize: Callable[[], Sequence[Placed]]) -> tuple[Span, ...]:
    """Consecutive indices form one span; a token inside a character widens to it, and so may meet its neighbour."""
    if not indices:
        return ()
    tokens = tokenize()
    count = len(tokens)
    for index in indices:
        if not -count <= index < count:
            raise ValueError(f"token index {index} is out of range: the text has {count} tokens")
    wanted = sorted(index % count for index in indices)
    spans: list[Span] = []
    previous = -2
    for index in wanted:
        if index == previous:
            raise ValueError(f"token index {index} is named twice in mask_positions {indices!r}")
        token = tokens[index]
        joins = bool(spans) and (index == previous + 1 or token.start < spans[-1].end)
        if joins:
            spans[-1] = Span(spans[-1].start, max(spans[-1].end, token.end))
        else:
            spans.append(Span(token.start, token.end))
        previous = index
    return tuple(spans)
