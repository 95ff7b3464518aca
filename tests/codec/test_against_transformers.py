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
pytest.importorskip("google.protobuf")
pytestmark = pytest.mark.filterwarnings("ignore")

PIECES = [
    *WORDS,
    *" \n\t\u00a0\u3000",
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
    directory = tmp_path_factory.mktemp("xlnet")
    (directory / "spiece.model").write_bytes(xlnet_model)
    (directory / "config.json").write_text('{"model_type": "xlnet"}')
    tokenizer = transformers.XLNetTokenizer.from_pretrained(directory)
    assert tokenizer.vocab_size == 600
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
