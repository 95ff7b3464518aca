"""What the two kinds of codec share about a SentencePiece model: reading it, its specials, the bytes behind an id."""

from __future__ import annotations

from pathlib import Path

import sentencepiece

BAR = "\u2581"
"""What SentencePiece writes for a space inside a piece."""


def read_model(path: Path) -> bytes:
    """The bytes of a model file, or ValueError if there is none to read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"no SentencePiece model can be read at {path}: {error.strerror}") from error


def load_processor(model: bytes) -> sentencepiece.SentencePieceProcessor:
    """A processor for a serialised model, or ValueError if the bytes are not one."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.LoadFromSerializedProto(model)
    except RuntimeError as error:
        raise ValueError(f"these {len(model)} bytes are not a SentencePiece model (damaged or truncated?)") from error
    return processor


def is_special(processor: sentencepiece.SentencePieceProcessor, token_id: int) -> bool:
    """Whether an id stands for no text: unknown, control (mask, padding, separator) or unused."""
    return bool(processor.is_unknown(token_id) or processor.is_control(token_id) or processor.is_unused(token_id))


def byte_table(processor: sentencepiece.SentencePieceProcessor) -> list[bytes]:
    """The UTF-8 bytes of every id: a byte piece is its byte, a special is nothing, U+2581 is a space."""
    table: list[bytes] = []
    for token_id in range(processor.vocab_size()):
        piece = processor.id_to_piece(token_id)
        if is_special(processor, token_id):
            table.append(b"")
        elif processor.is_byte(token_id):
            table.append(bytes([int(piece[3:5], 16)]))
        else:
            table.append(piece.replace(BAR, " ").encode())
    return table
