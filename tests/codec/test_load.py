from __future__ import annotations

from pathlib import Path

import pytest

from anyorder.codec import SentencePieceCodec, XLNetCodec, load_codec


def test_each_stored_name_finds_its_codec(vocabulary_file: Path, xlnet_model: bytes, tmp_path: Path) -> None:
    (tmp_path / "spiece.model").write_bytes(xlnet_model)
    assert isinstance(load_codec("anyorder-sentencepiece", vocabulary_file), SentencePieceCodec)
    for name in ("xlnet", "xlnet-escaped", "legacy-asarm-code"):
        codec = load_codec(name, tmp_path / "spiece.model")
        assert isinstance(codec, XLNetCodec)
        assert codec.name == name


def test_an_unknown_name_is_an_error_that_lists_the_known_ones(vocabulary_file: Path) -> None:
    known = "'anyorder-sentencepiece', 'xlnet', 'xlnet-escaped', 'legacy-asarm-code'"
    with pytest.raises(ValueError, match=f"unknown codec 'bert': use one of {known}"):
        load_codec("bert", vocabulary_file)


@pytest.mark.parametrize("name", ["anyorder-sentencepiece", "xlnet"])
def test_a_missing_damaged_or_foreign_file_is_a_value_error_that_names_it(
    name: str, vocabulary_file: Path, xlnet_model: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "tokenizer.model"
    with pytest.raises(ValueError, match=r"tokenizer\.model: no SentencePiece model can be read.*No such file"):
        load_codec(name, path)
    whole = vocabulary_file.read_bytes()
    for damaged in (b"", b"not a model", whole[: len(whole) // 2], b"\0" * 100):
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"tokenizer\.model: .*(not a|no control symbol|loses text|no piece)"):
            load_codec(name, path)
    path.write_bytes(xlnet_model if name == SentencePieceCodec.name else whole)
    with pytest.raises(ValueError, match=r"tokenizer\.model: this SentencePiece model"):
        load_codec(name, path)
