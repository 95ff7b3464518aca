"""Text to token ids and back: the only package of anyorder that handles strings."""

from __future__ import annotations

from anyorder.codec.base import Blank, Codec, Layout, Token, splice
from anyorder.codec.load import load_codec
from anyorder.codec.sentencepiece import SentencePieceCodec
from anyorder.codec.vocabulary import train_vocabulary
from anyorder.codec.xlnet import XLNetCodec

__all__ = [
    "Blank",
    "Codec",
    "Layout",
    "SentencePieceCodec",
    "Token",
    "XLNetCodec",
    "load_codec",
    "splice",
    "train_vocabulary",
]
