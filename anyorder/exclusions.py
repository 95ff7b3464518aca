"""What a model may never write for a caller: its special tokens, and the strings the caller forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from anyorder.forbidden import Forbidden

if TYPE_CHECKING:
    from anyorder.model.loaded import Model


_KEPT: WeakKeyDictionary[Model, dict[tuple[str, ...], Forbidden]] = WeakKeyDictionary()
_MOST_KEPT = 4
"""Choices of strings a model; the tables of a string of ten bytes over 32,000 tokens take 5 MB."""


def exclude(model: Model, strings: tuple[str, ...]) -> Forbidden:
    """What ``exclusions`` says, made once for the same model and strings: a tenth of a second for each string."""
    kept = _KEPT.setdefault(model, {})
    found = kept.get(strings)
    if found is None:
        found = exclusions(model, strings)
        if len(kept) >= _MOST_KEPT:
            kept.clear()
        kept[strings] = found
    return found


def exclusions(model: Model, strings: tuple[str, ...]) -> Forbidden:
    """Forbid mask and specials, ids that stand for no text, and the caller's strings.

    Args:
        model: its vocabulary may be padded beyond its codec's; such ids stand for nothing.
        strings: what no fill may contain. U+FFFD stands for bytes that are no text, so forbidding it also forbids
            tokens that are part of a character.

    Raises:
        ValueError: if no token is left to draw, or a string is empty or not valid Unicode.
    """
    codec, vocab_size = model.codec, model.network.vocab_size
    never = set(model.forbidden_ids)
    try:
        encoded = [string.encode() for string in strings]
    except UnicodeEncodeError as error:
        raise ValueError(f"a forbidden string must be valid Unicode; got {error.object!r}") from None
    token_bytes = [
        codec.token_bytes(token) if token < codec.vocab_size else b"" for token in range(vocab_size if encoded else 0)
    ]
    if any("\ufffd" in string for string in strings):
        never |= {token for token, piece in enumerate(token_bytes) if not _is_text(piece)}
    forbidden = Forbidden.of(vocab_size, ids=never, strings=encoded, token_bytes=token_bytes, space_ids=codec.space_ids)
    if bool(forbidden.ids.all()):
        raise ValueError(f"forbidden={list(strings)!r} leaves no token to fill a blank with")
    return forbidden


def _is_text(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return False
    return True
