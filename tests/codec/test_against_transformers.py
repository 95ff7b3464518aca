"""Our words of XLNet's vocabulary against transformers' tokenizer, on the same SentencePiece model."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.codec import XLNetCodec

from .conftest import CODE, PROSE
from .test_xlnet import WORDS

transformers = pytest.importorskip("transformers")
model_proto = pytest.importorskip("sentencepiece.sentencepiece_model_pb2")
pytestmark = pytest.mark.filterwarnings("ignore")

PIECES = [
    *WORDS,
    *" \n\t\u00a0\u3000\u200b\u0903\x01",
    "  ",
    "``",
    "''",
    "'",
    "é",
    "e\u0301",
    "naïve",
    "Å",
    "ﬁ",
    "½",
    "…",
    "한",
    "漢",
    "😀",
    "™",
    "<",
    "<<",
]
mixed_text = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)


@pytest.fixture(scope="module")
def reference(xlnet_model: bytes, tmp_path_factory: pytest.TempPathFactory):
    """A directory with ``tokenizer.json``, which is how XLNet's tokenizer is published.

    From ``spiece.model`` alone transformers 5.24 makes added tokens of the user-defined symbols and starts a new word
    after each, which neither the published file nor any earlier version does.
    """
    spec = model_proto.ModelProto.FromString(xlnet_model)
    vocabulary = [(piece.piece, piece.score) for piece in spec.pieces]
    charsmap = spec.normalizer_spec.precompiled_charsmap
    directory = tmp_path_factory.mktemp("xlnet")
    made = transformers.XLNetTokenizer(vocab=vocabulary, unk_id=0, _spm_precompiled_charsmap=charsmap)
    made.save_pretrained(directory)
    tokenizer = transformers.XLNetTokenizer.from_pretrained(directory)
    assert len(tokenizer) == tokenizer.vocab_size == 600
    assert "Precompiled" in str(tokenizer.backend_tokenizer.normalizer)
    return tokenizer


@pytest.fixture(scope="module")
def model_file(xlnet_model: bytes, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("xlnet") / "spiece.model"
    path.write_bytes(xlnet_model)
    return path


def reference_ids(tokenizer, text: str) -> list[int]:
    return tokenizer.encode(text, add_special_tokens=False)


@given(text=mixed_text)
def test_ids_are_those_of_transformers(reference, model_file: Path, text: str) -> None:
    assert XLNetCodec.from_file(model_file).encode(text) == reference_ids(reference, text)


@pytest.mark.parametrize("text", [CODE, PROSE], ids=["code", "prose"])
def test_whole_texts_have_the_ids_of_transformers(reference, model_file: Path, text: str) -> None:
    assert XLNetCodec.from_file(model_file).encode(text) == reference_ids(reference, text)


@given(text=mixed_text)
def test_legacy_ids_are_those_of_the_published_replacements(reference, model_file: Path, text: str) -> None:
    replaced = text
    for plain, special in {"\n": "<cls>", "\t": "<sep>", "  ": "<unk>", "   ": "<pad>"}.items():
        replaced = replaced.replace(plain, special)
    ours = XLNetCodec.from_file(model_file, name="legacy-asarm-code").encode(text)
    assert ours == reference_ids(reference, replaced)


def test_legacy_ids_of_code_are_those_of_the_published_replacements(reference, model_file: Path) -> None:
    replaced = CODE.replace("\n", "<cls>").replace("\t", "<sep>").replace("  ", "<unk>")
    ours = XLNetCodec.from_file(model_file, name="legacy-asarm-code").encode(CODE)
    assert ours == reference_ids(reference, replaced)
