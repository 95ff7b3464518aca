"""Text to token ids and back: the only package of anyorder that handles strings."""

from __future__ import annotations

from anyorder.codec.base import Blank, Codec, Layout, Token, splice
from anyorder.codec.sentencepiece import SentencePieceCodec
from anyorder.codec.vocabulary import train_vocabulary

__all__ = ["Blank", "Codec", "Layout", "SentencePieceCodec", "Token", "splice", "train_vocabulary"]
