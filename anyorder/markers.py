"""Markers say where the blanks of a text are, and how many tokens go into each: ``x = <mask:3>``.

``<mask>`` is a blank of one token unless the caller gives a length, ``<mask:5>`` of five, ``<mask:0>`` an empty one. A
backslash before a marker makes it literal text and disappears: ``escape`` writes such backslashes and ``parse`` takes
exactly one away, so ``parse(escape(text))`` is ``text`` for every text.
"""

from __future__ import annotations

import re
from typing import NamedTuple

MAX_DIGITS = 6
"""A marker's length has at most this many digits; a million tokens is a typing error."""

_CLOSERS = ">]})"


class MarkedBlank(NamedTuple):
    """A blank that stood as a marker in the text.

    Attributes:
        position: where it is in the text without markers, in characters.
        num_tokens: the length that the marker names, ``None`` for a bare marker.
    """

    position: int
    num_tokens: int | None


class Marked(NamedTuple):
    """A text taken apart: what the markers leave, and the blanks in text order."""

    text: str
    blanks: tuple[MarkedBlank, ...]


def parse(text: str, marker: str) -> Marked:
    """Take the markers out of a text, a backslash before one making it literal.

    Args:
        text: any text.
        marker: the bare marker; a length goes before its closing brackets (``[GAP]``, ``[GAP:5]``), or after it
            where it has none (``___``, ``___:5``).

    Raises:
        TypeError: if ``marker`` is not a string.
        ValueError: if ``marker`` is empty or contains a backslash, or if something in the text starts like a marker
            with a length and is none, such as ``<mask:x>`` or a marker inside a marker.
    """
    head, tail = _split(marker)
    # An opening "<mask:" is a marker or a mistake; where nothing closes a marker, only digits after "GAP:" make it one.
    number = rf"(?P<digits>[0-9]{{1,{MAX_DIGITS}}})" + (re.escape(tail) or "(?![0-9])")
    broken = ":" if tail else ":[0-9]"
    pattern = re.compile(
        rf"(?P<escape>\\?)(?:{re.escape(head)}:{number}|(?P<broken>{re.escape(head)}{broken})|{re.escape(marker)})"
    )
    kept: list[str] = []
    blanks: list[MarkedBlank] = []
    at = length = 0
    for match in pattern.finditer(text):
        before = text[at : match.start()]
        literal = match.group()[1:] if match["escape"] else ""
        if not match["escape"]:
            if match["broken"]:
                raise ValueError(_malformed(text, match.start(), head, tail))
            digits = match["digits"]
            blanks.append(MarkedBlank(length + len(before), int(digits) if digits else None))
        kept += [before, literal]
        length += len(before) + len(literal)
        at = match.end()
    return Marked("".join(kept) + text[at:], tuple(blanks))


def escape(text: str, marker: str = "<mask>") -> str:
    r"""The text with a backslash before everything ``parse`` would take for a marker, so that it stays as it is.

    A text that ends in a backslash cannot be followed by a marker (it would be escaped): give such blanks as spans.
    """
    head, tail = _split(marker)
    opening = rf"{re.escape(marker)}|{re.escape(head)}:" if tail else re.escape(marker)
    return re.sub(opening, lambda match: "\\" + match.group(), text)


def _split(marker: str) -> tuple[str, str]:
    """A marker as what stands before and after its length."""
    if not isinstance(marker, str):
        raise TypeError(f"marker must be a string such as '<mask>', or None to switch markers off; got {marker!r}")
    if not marker or "\\" in marker:
        raise ValueError(
            f"marker must be a non-empty string without a backslash (which escapes markers); got {marker!r}"
        )
    head = marker.rstrip(_CLOSERS) or marker
    return head, marker[len(head) :]


def _malformed(text: str, position: int, head: str, tail: str) -> str:
    excerpt = text[position : position + len(head) + 12]
    return (
        f"malformed marker at character {position}: {excerpt!r}; a marker with a length is {head + ':5' + tail!r}, "
        f"with 1 to {MAX_DIGITS} digits; a backslash before it keeps it as text"
    )
