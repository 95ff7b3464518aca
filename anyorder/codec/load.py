"""Which codec a checkpoint names: its config stores the name, its directory the model file."""

from __future__ import annotations

from pathlib import Path
from typing import cast, get_args

from anyorder.codec.base import Codec
from anyorder.codec.sentencepiece import SentencePieceCodec
from anyorder.codec.xlnet import XLNetCodec
from anyorder.codec.xlnet_escapes import XLNetName


def load_codec(name: str, model_file: Path) -> Codec:
    """The codec called ``name``, reading ``model_file`` (``tokenizer.model``, or XLNet's ``spiece.model``).

    Raises:
        ValueError: for an unknown name, or a file that is missing, damaged or of another kind.
    """
    known = (SentencePieceCodec.name, *get_args(XLNetName))
    if name not in known:
        raise ValueError(f"unknown codec {name!r}: use one of {', '.join(map(repr, known))}")
    try:
        if name == SentencePieceCodec.name:
            return SentencePieceCodec.from_file(model_file)
        return XLNetCodec.from_file(model_file, name=cast("XLNetName", name))
    except ValueError as error:
        raise ValueError(f"codec {name!r} cannot use {model_file}: {error}") from error
