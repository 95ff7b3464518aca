from __future__ import annotations

import pytest

from anyorder.codec import SentencePieceCodec, train_vocabulary

from .conftest import CODE, PROSE


def pieces(codec: SentencePieceCodec) -> list[bytes]:
    return [codec.token_bytes(i) for i in range(codec.vocab_size)]


def test_a_line_break_and_its_indentation_are_one_token(codec: SentencePieceCodec) -> None:
    text = "def f():\n    if x:\n        y\n\n    z\n"
    assert [token.text for token in codec.tokenize(text) if "\n" in token.text] == [
        "\n    ",
        "\n        ",
        "\n\n    ",
        "\n",
    ]


def test_no_other_piece_holds_a_line_break(codec: SentencePieceCodec) -> None:
    assert all(piece.lstrip(b"\n").strip(b" ") == b"" for piece in pieces(codec) if b"\n" in piece)


def test_digits_stand_alone_however_often_they_stand_together() -> None:
    codec = SentencePieceCodec(train_vocabulary([CODE + "year = 2024, x2024, 2024\n" * 50], vocab_size=500))
    digits = [piece for piece in pieces(codec) if any(byte in b"0123456789" for byte in piece)]
    assert len(set(digits)) == 10


def test_no_piece_crosses_a_word_border(codec: SentencePieceCodec) -> None:
    assert all(b" " not in piece.strip() for piece in pieces(codec))


def test_every_printable_ascii_character_has_a_piece_even_if_the_corpus_lacks_it() -> None:
    codec = SentencePieceCodec(train_vocabulary(["aaa bbb\n" * 50], vocab_size=375))
    assert all(len(codec.encode(chr(c))) == 1 for c in [9, 10, 13, *range(32, 127)])


def test_characters_the_trainer_treats_specially_do_not_hide_the_text_around_them() -> None:
    noisy = [line + "\0\u2581\u2585\ufdd0" for line in CODE.splitlines(keepends=True)]
    codec = SentencePieceCodec(train_vocabulary(["".join(noisy)] * 5, vocab_size=500))
    assert len(codec.encode("return")) <= 2


def test_training_is_deterministic_and_writes_what_it_returns(tmp_path) -> None:
    model = train_vocabulary([CODE, PROSE], tmp_path / "tokenizer.model", vocab_size=500)
    assert model == (tmp_path / "tokenizer.model").read_bytes()
    assert model == train_vocabulary(iter([CODE, PROSE]), vocab_size=500)


def test_a_long_line_is_not_skipped() -> None:
    codec = SentencePieceCodec(train_vocabulary(["the happy cat " * 2000], vocab_size=380))
    assert len(codec.encode(" happy")) == 1


@pytest.mark.parametrize("texts", [[], ["ab"]])
def test_too_little_text_is_a_value_error(texts: list[str]) -> None:
    with pytest.raises(ValueError, match="a vocabulary of 4096 pieces cannot be trained"):
        train_vocabulary(texts)


def test_too_few_pieces_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="a vocabulary of 100 pieces cannot be trained"):
        train_vocabulary([CODE], vocab_size=100)
