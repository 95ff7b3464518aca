"""How the codecs of XLNet checkpoints spell what its vocabulary cannot carry, or whether they do.

- ``"xlnet"`` does not: it vanishes from the model's view (never from the text), and a warning names it;
- ``"xlnet-escaped"``: a reversible escape, for models trained with it: newline ``<eop>``, tab ``<sep>``, a space that
  is not a single one between two words ``<cls>``, other characters ``<s>`` their hexadecimal code point ``</s>``;
- ``"legacy-asarm-code"``: the published code checkpoint's mapping: newline ``<cls>``, tab ``<sep>``, two spaces
  ``<unk>`` from the left. (It has a rule for three spaces, which never fires because the one for two runs first.) An
  odd space before a word is the word's own, so the ids do not tell it from none.

Source: Guo & Ermon 2025, published code, for the last.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal

XLNetName = Literal["xlnet", "xlnet-escaped", "legacy-asarm-code"]
"""What becomes of the characters that XLNet's vocabulary cannot carry."""

_PIECES: Mapping[XLNetName, Mapping[str, str]] = {
    "xlnet": {},
    "xlnet-escaped": {"\n": "<eop>", "\t": "<sep>", " ": "<cls>"},
    "legacy-asarm-code": {"\n": "<cls>", "\t": "<sep>", "  ": "<unk>"},
}
_OPEN, _CLOSE = "<s>", "</s>"
_HEX_DIGITS = "0123456789abcdef"


class Escapes:
    """The escapes of a codec, from text to ids and back.

    Args:
        name: which codec's.
        symbol: the id of a piece; raises ValueError where the vocabulary has none.
        carried: the characters that need no escape, if all others are to have one; else ``None``.

    Attributes:
        texts: the strings that one id stands for, with that id.
        ids: all ids that escapes are spelled with, but for the digits of code points.
    """

    def __init__(self, name: XLNetName, symbol: Callable[[str], int], carried: frozenset[str] | None) -> None:
        self.texts = {text: symbol(piece) for text, piece in _PIECES[name].items()}
        self._open_id = self._close_id = -1
        self._digit_ids: dict[str, int] = {}
        self._plain: re.Pattern[str] | None = None
        codes: set[int] = set()
        if carried is not None:
            self._open_id, self._close_id = symbol(_OPEN), symbol(_CLOSE)
            self._digit_ids = {digit: symbol(digit) for digit in _HEX_DIGITS}
            codes = {self._open_id, self._close_id}
            word = f"[{re.escape(''.join(sorted(carried)))}]+"
            self._plain = re.compile(f"(?P<plain>{word}(?: {word})*)|(?P<escape>.)", re.DOTALL)
        elif self.texts:
            escape = "|".join(map(re.escape, self.texts))
            self._plain = re.compile(f"(?P<escape>{escape})|(?P<plain>(?:(?!{escape}).)+)", re.DOTALL)
        self._single = frozenset(self.texts.values())
        self.ids = self._single | codes

    def parts(self, text: str) -> Iterator[tuple[int, int, bool]]:
        """Cut a text into runs that XLNet's vocabulary encodes (True) and escapes (False)."""
        if self._plain is None:
            yield 0, len(text), True
            return
        for match in self._plain.finditer(text):
            yield match.start(), match.end(), match.lastgroup == "plain"

    def spell(self, escaped: str) -> list[int]:
        """The ids of a string that ``parts`` found to be an escape."""
        if escaped in self.texts:
            return [self.texts[escaped]]
        return [self._open_id, *(self._digit_ids[digit] for digit in f"{ord(escaped):x}"), self._close_id]

    def read(self, pieces: Iterable[tuple[int, str]]) -> Iterator[tuple[str, bool]]:
        """Of ids and their texts, the texts they have together: plain ones (True) and escaped ones (False).

        A code point that sampling left open is no text, and what stands in it neither.
        """
        code: str | None = None
        for token_id, piece in pieces:
            if token_id == self._open_id:
                code = ""
            elif token_id == self._close_id:
                yield _character(code or ""), False
                code = None
            elif code is not None:
                code += piece
            elif piece:
                yield piece, token_id not in self._single


def _character(code: str) -> str:
    """The character of a hexadecimal code point; U+FFFD for what only sampling can produce."""
    if code and all(digit in _HEX_DIGITS for digit in code):
        value = int(code, 16)
        if value <= 0x10FFFF and not 0xD800 <= value <= 0xDFFF:
            return chr(value)
    return "\ufffd"
