"""A vocabulary of XLNet's kind, trained in the test that needs it: the published one is on no package registry."""

from __future__ import annotations

import io

import sentencepiece


def train_xlnet(lines: list[str], vocab_size: int) -> bytes:
    """A unigram model with the flags and symbols published with XLNet (its README), but for the size."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        vocab_size=vocab_size,
        character_coverage=1.0,
        model_type="unigram",
        control_symbols=["<cls>", "<sep>", "<pad>", "<mask>", "<eod>"],
        user_defined_symbols=["<eop>", ".", "(", ")", '"', "-", "–", "£", "€"],
        minloglevel=2,
    )
    return model.getvalue()
