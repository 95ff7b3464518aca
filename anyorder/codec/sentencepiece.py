"""Our own vocabulary: every Unicode string survives ``decode(encode(text))``, and no text yields a special id.

Text goes through SentencePiece, ids come back through a table of our own, id -> bytes: a byte piece is its byte, a
special is nothing, any other piece is its spelling with U+2581 read as a space. The one character that SentencePiece
cannot carry is U+2581 itself, so the text is split there and the character is spelled in byte pieces.

A space belongs to the token of the word behind it. So where a blank begins behind a space, as in ``return <mask:3>``,
its first token carries that space: the prompt is encoded without it, and only tokens that begin with a space may come
first. Otherwise the prompt would end in a lone space that no text has there, which a model takes for something odd (the
"token healing" of constrained generation; Lundberg 2023). The space stays where it is, whatever is filled in.
Source: Kudo & Richardson, "SentencePiece", 2018; the exception was found by running all code points through it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path

from anyorder.codec.base import Blank, Layout, Token, check_encodable, check_ids, check_spans
from anyorder.codec.pieces import BAR, byte_table, is_special, load_processor, read_model
from anyorder.codec.vocabulary import MASK_PIECE, SEPARATOR_PIECE

_PROBE = "  \ufb01 A\u0301\tx\u00a0\r\n  \n\0\u3000 "
"""Text that any normalisation, dummy prefix or whitespace removal would change."""


class SentencePieceCodec:
    """The codec of the bundled models: reversible over all of Unicode, segments encoded on their own.

    Raises:
        ValueError: if the bytes are not a SentencePiece model, or one that loses text or lacks the mask symbol.
    """

    name = "anyorder-sentencepiece"

    def __init__(self, model: bytes) -> None:
        self._model = model
        self._processor = load_processor(model)
        self._bytes = byte_table(self._processor)
        self.vocab_size = len(self._bytes)
        self.forbidden_ids = tuple(i for i in range(self.vocab_size) if is_special(self._processor, i))
        self.mask_id = self._special(MASK_PIECE)
        self.separator_id = self._special(SEPARATOR_PIECE)
        self.space_ids = frozenset(i for i, piece in enumerate(self._bytes) if piece.startswith(b" "))
        self._bar_ids = [self._processor.piece_to_id(f"<0x{byte:02X}>") for byte in BAR.encode()]
        if self.decode(self.encode(_PROBE)) != _PROBE:
            raise ValueError(
                "this SentencePiece model loses text: it must be trained with identity normalisation, byte fallback, "
                "no dummy prefix and no whitespace removal, as anyorder.codec.train_vocabulary does"
            )

    @classmethod
    def from_file(cls, path: Path | str) -> SentencePieceCodec:
        """The codec of a ``tokenizer.model`` file."""
        return cls(read_model(Path(path)))

    def encode(self, text: str) -> list[int]:
        """The ids of a text on its own; never a special one, whatever the text spells."""
        check_encodable(text)
        ids: list[int] = []
        for number, part in enumerate(text.split(BAR)):
            if number:
                ids += self._bar_ids
            ids += self._processor.encode(part)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a run of ids; byte pieces that are not UTF-8, which only sampling produces, show as U+FFFD."""
        check_ids(ids, self.vocab_size)
        return b"".join([self._bytes[token_id] for token_id in ids]).decode("utf-8", errors="replace")

    def tokenize(self, text: str) -> list[Token]:
        """The tokens of ``encode(text)``; a byte piece covers the whole character that it is a part of."""
        ids = self.encode(text)
        starts = [0, *accumulate(len(character.encode()) for character in text)]
        tokens: list[Token] = []
        begin = 0
        for token_id in ids:
            stop = begin + len(self._bytes[token_id])
            first, last = bisect_right(starts, begin) - 1, bisect_right(starts, stop - 1)
            tokens.append(Token(token_id, text[first:last], first, last))
            begin = stop
        return tokens

    def layout(self, text: str, spans: Sequence[tuple[int, int]], *, own_spaces: bool = True) -> Layout:
        """Cut a text at blanks: every segment and every replaced text is encoded on its own, nothing is widened."""
        check_encodable(text)
        check_spans(text, spans)
        segments: list[tuple[int, ...]] = []
        blanks: list[Blank] = []
        done = 0
        for start, end in spans:
            space = " " if own_spaces and start > done and text[start - 1] == " " else ""
            segments.append(tuple(self.encode(text[done : start - len(space)])))
            ids = tuple(self.encode(space + text[start:end])) if end > start else ()
            blanks.append(Blank(start=start, end=end, ids=ids, owned=tuple(self.encode(space))))
            done = end
        segments.append(tuple(self.encode(text[done:])))
        return Layout(segments=tuple(segments), blanks=tuple(blanks))

    def fill(self, ids: Sequence[int], text: str, blank: Blank) -> str:  # noqa: ARG002 - other codecs look at the text
        """The text of the ids: here a fill does not depend on what surrounds it, but for a space that it owns."""
        text_of_ids = self.decode(ids)
        return text_of_ids.removeprefix(" ") if blank.owned else text_of_ids

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes of a token; empty for a special."""
        check_ids([token_id], self.vocab_size)
        return self._bytes[token_id]

    def save(self, directory: Path) -> None:
        """Write ``tokenizer.model`` into a directory that exists."""
        (Path(directory) / "tokenizer.model").write_bytes(self._model)

    def _special(self, piece: str) -> int:
        token_id: int = self._processor.piece_to_id(piece)
        if token_id not in self.forbidden_ids or self._processor.id_to_piece(token_id) != piece:
            raise ValueError(
                f"this SentencePiece model has no control symbol {piece!r}; train it with train_vocabulary"
            )
        return token_id
