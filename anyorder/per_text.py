"""In a batch an option is one value for all texts or a sequence with one value a text; this module tells them apart.

A sequence (a list, a tuple, a range) is one value a text, except where a single value may itself be one. Then its
content decides: spans or token indices, forbidden strings, a permutation are one value, and one a text are lists of
those. A length shows nothing by its content: only a list is one a text; a tuple or a range is one value for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anyorder.integers import as_integer


def spread(name: str, value: Any, count: int) -> list[Any]:
    """The option's value for each of ``count`` texts.

    Raises:
        ValueError: if it is a sequence of values of another length.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Sequence) or _is_one_value(name, value):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} has {len(value)} values for {count} texts: give one value for all, or a list with one a text"
        )
    return list(value)


def _is_one_value(name: str, value: Sequence[Any]) -> bool:
    if name == "mask_positions":
        return not value or not all(item is None or isinstance(item, list | range) for item in value)
    if name == "forbidden":
        return all(isinstance(item, str) for item in value)
    if name == "order":
        return bool(value) and all(as_integer(item) is not None for item in value)
    return name == "length" and not isinstance(value, list)


def check_texts(texts: object) -> None:
    """Raise TypeError unless ``texts`` is a sequence of texts rather than a text."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise TypeError(
            f"texts must be a list of texts (for one text there is the function for one); got {texts!r:.80}"
        )
