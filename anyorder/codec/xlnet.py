"""XLNet's own vocabulary: text is encoded jointly, blanks widen to token borders, what is outside returns unchanged.

The vocabulary of ``xlnet-base-cased`` marks the start of a word and so adds a space at every join of separately
encoded text ("hap" + "py" would read "hap py"); hence joint encoding. A blank replaces whole tokens, and since a word
owns the white space before it, a blank begins right after the token before it; that white space is put back, as it
was, when the fill starts with a word. Two blanks in one token: the first replaces it. An empty blank inside a word
replaces nothing: the word is cut there, by XLNet's user-defined symbol ``<eop>``, which is encoded and then dropped.

The vocabulary is lossy; ``anyorder.codec.xlnet_escapes`` says what becomes of what it cannot carry, under three names.

The text of a word-start piece is a space and the word, or the word alone at the start of a text and after an escape.
Source: Yang et al., "XLNet", 2019, with its published SentencePiece flags.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from anyorder.codec.base import Blank, Layout, Token, check_encodable, check_ids, check_spans
from anyorder.codec.pieces import BAR, byte_table, is_special, load_processor, read_model
from anyorder.codec.xlnet_escapes import Escapes, XLNetName
from anyorder.codec.xlnet_words import CUT_PIECE, WordEncoder


class XLNetCodec:
    """The codec of XLNet checkpoints; ``name`` says how it treats what the vocabulary cannot carry.

    Raises:
        ValueError: for an unknown name, or a model that is not XLNet's kind of vocabulary.
    """

    def __init__(self, model: bytes, *, name: XLNetName = "xlnet") -> None:
        if name not in get_args(XLNetName):
            raise ValueError(f"an XLNet codec is one of {', '.join(map(repr, get_args(XLNetName)))}; got {name!r}")
        self.name: str = name
        self._model = model
        self._processor = load_processor(model)
        self.vocab_size: int = self._processor.vocab_size()
        self.mask_id = self._symbol("<mask>")
        self.separator_id = self._symbol("<eod>")
        self._reversible = name == "xlnet-escaped"
        self._words = WordEncoder(self._processor, self._symbol(CUT_PIECE), as_is=self._reversible)
        self._escapes = Escapes(name, self._symbol, self._words.carried if self._reversible else None)
        specials = {i for i in range(self.vocab_size) if is_special(self._processor, i)} | {self._symbol(CUT_PIECE)}
        self.forbidden_ids = tuple(sorted(specials - self._escapes.ids))
        self._bytes = byte_table(self._processor)
        for token_id in specials:
            self._bytes[token_id] = b""
        for text, token_id in self._escapes.texts.items():
            self._bytes[token_id] = text.encode()
        self._warned: set[str] = set()

    @classmethod
    def from_file(cls, path: Path | str, *, name: XLNetName = "xlnet") -> XLNetCodec:
        """The codec of a ``spiece.model`` or ``tokenizer.model`` file."""
        return cls(read_model(Path(path)), name=name)

    @property
    def space_ids(self) -> frozenset[int]:
        """Empty: white space takes no token of its own, so a fill need not begin with one."""
        return frozenset()

    def encode(self, text: str) -> list[int]:
        """The ids of a text on its own, without ``<sep>`` and ``<cls>`` behind it."""
        return [token.id for token in self.tokenize(text)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of a run of ids, the first word without a space before it."""
        return self._render(ids, joined=True)

    def tokenize(self, text: str) -> list[Token]:
        """The tokens of a text; the white space before a word and what vanishes belong to no token's range."""
        check_encodable(text)
        self._warn(text)
        return self._tokens(text, ())

    def layout(self, text: str, spans: Sequence[tuple[int, int]], *, own_spaces: bool = True) -> Layout:  # noqa: ARG002
        """Encode jointly and cut at token borders: a blank covers each token it shares a character with.

        A blank that covers none (or an empty one inside an escape, which stays whole behind it) replaces nothing; the
        white space between the word before it and its start is its own: here it takes no token, so there is no choice.
        """
        check_encodable(text)
        check_spans(text, spans)
        self._warn(text)
        tokens = self._tokens(text, [start for start, end in spans if start == end])
        starts = [token.start for token in tokens]
        segments: list[tuple[int, ...]] = []
        blanks: list[Blank] = []
        done = 0  # tokens that lie in earlier segments and blanks
        for start, end in spans:
            first = done
            while first < len(tokens) and tokens[first].end <= start:
                first += 1
            last = max(first, bisect_left(starts, end)) if end > start else first
            begin = max(tokens[first - 1].end if first else 0, blanks[-1].end if blanks else 0)
            stop = tokens[last - 1].end if last > first else min([start, *starts[first : first + 1]])
            segments.append(tuple(token.id for token in tokens[done:first]))
            ids = tuple(token.id for token in tokens[first:last])
            blanks.append(Blank(start=begin, end=max(begin, stop), ids=ids))
            done = last
        segments.append(tuple(token.id for token in tokens[done:]))
        return Layout(segments=tuple(segments), blanks=tuple(blanks))

    def fill(self, ids: Sequence[int], text: str, blank: Blank) -> str:
        """The ids' text, such that the joint ids spell the completed text.

        The white space that the blank owns stays as it was if the fill is empty or starts a word; a word behind the
        blank that has none left (the blank took it, or there never was any) gets a space. A fill sees the text, not
        other fills: of two blanks that touch where no word stands before them, the second gets no space.
        """
        own_space = self._own_space(text, blank)
        if not ids:
            return own_space
        starts_word = self._processor.id_to_piece(int(ids[0])).startswith(BAR)
        kept = own_space if starts_word else ""
        fill = kept + self._render(ids, joined=bool(kept) or not self._needs_space(text, blank.start))
        behind = blank.end < len(text) and self._is_carried(text[blank.end]) and not self._needs_space(text, blank.end)
        return fill + " " if behind and self._needs_space(fill, len(fill)) else fill

    def token_bytes(self, token_id: int) -> bytes:
        """The UTF-8 bytes of a token, a word-start piece with its space; empty for specials and ``<s>``, ``</s>``."""
        check_ids([token_id], self.vocab_size)
        return self._bytes[token_id]

    def save(self, directory: Path) -> None:
        """Write ``tokenizer.model`` into a directory that exists."""
        (Path(directory) / "tokenizer.model").write_bytes(self._model)

    def _tokens(self, text: str, cuts: Sequence[int]) -> list[Token]:
        """Joint encoding with character ranges; ``cuts`` are positions that no token may cross inside a word."""
        tokens: list[Token] = []
        for start, end, is_plain in self._escapes.parts(text):
            if is_plain:
                inside = [cut - start for cut in cuts if start < cut < end]
                for token_id, begin, stop in self._words.encode(text[start:end], inside):
                    tokens.append(Token(token_id, text[start + begin : start + stop], start + begin, start + stop))
            else:
                escaped = text[start:end]
                tokens += [Token(token_id, escaped, start, end) for token_id in self._escapes.spell(escaped)]
        return tokens

    def _render(self, ids: Sequence[int], *, joined: bool) -> str:
        """The text of ids; ``joined`` says that a word at the front needs no space before it."""
        parts: list[str] = []
        pieces = ((token_id, self.token_bytes(token_id).decode()) for token_id in map(int, ids))
        for piece, is_plain in self._escapes.read(pieces):
            parts.append(piece[1:] if is_plain and joined and piece.startswith(" ") else piece)
            joined = not is_plain
        return "".join(parts)

    def _own_space(self, text: str, blank: Blank) -> str:
        """The white space between the token before a blank and the first token that the blank covers."""
        replaced = text[blank.start : blank.end]
        if not blank.ids:
            return replaced
        if self._reversible:  # only the single space between two words yields no token
            return " " if replaced.startswith(" ") and blank.ids[0] not in self._escapes.ids else ""
        return replaced[: self._tokens(replaced, ())[0].start]

    def _needs_space(self, text: str, position: int) -> bool:
        """Whether a word at this position would run into the word before it."""
        return position > 0 and self._is_carried(text[position - 1])

    def _is_carried(self, character: str) -> bool:
        """Whether a character is part of a word, not white space and not an escape."""
        return not character.isspace() and (not self._reversible or character in self._words.carried)

    def _warn(self, text: str) -> None:
        """Name, once for each codec, the characters of a text that the vocabulary changes or loses."""
        if self._reversible:
            return
        lost = self._words.lost(text, escapes=tuple(self._escapes.texts)) - self._warned
        if lost:
            self._warned |= lost
            names = ", ".join(sorted(map(repr, lost)))
            warnings.warn(
                f"XLNet's vocabulary ({self.name}) cannot carry {names}: the model sees the text without, or something "
                "else in their place; outside the blanks the text itself does not change",
                stacklevel=3,
            )

    def _symbol(self, piece: str) -> int:
        token_id: int = self._processor.piece_to_id(piece)
        if self._processor.id_to_piece(token_id) != piece:
            raise ValueError(f"this SentencePiece model is not a vocabulary of XLNet's kind: it has no piece {piece!r}")
        return token_id
