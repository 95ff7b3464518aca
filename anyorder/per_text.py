"""In a batch an option is one value for all texts or a list with one value a text; this module tells them apart.

A list is one value a text, except where a single value may itself be a list and the list's content shows it: a list of
spans or of token indices, of forbidden strings, or a permutation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def spread(name: str, value: Any, count: int) -> list[Any]:
    """The option's value for each of ``count`` texts.

    Raises:
        ValueError: if it is a list of values of another length.
    """
    if not isinstance(value, list) or _is_one_value(name, value):
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
        return bool(value) and all(isinstance(item, int) for item in value)
    return False


def check_texts(texts: object) -> None:
    """Raise TypeError unless ``texts`` is a sequence of texts rather than a text."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise TypeError(
            f"texts must be a list of texts (for one text there is the function for one); got {texts!r:.80}"
        )
