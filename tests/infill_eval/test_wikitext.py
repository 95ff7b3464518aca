"""Chunks are cut and blanked as stated, and scored by the model that the user named."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infill_eval.infiller import Sample
from infill_eval.tasks.base import Filled
from infill_eval.tasks.wikitext import MaskingOptions, WikiText, cut, entropy, read_text, words

TEXT = " ".join(random.Random(0).choice(["one", "two", "three", "= head =\n", "\nfour"]) for _ in range(600))


class Lengths:
    """A scorer that charges a nat a character and knows a token a character."""

    name = "lengths"

    def score(self, texts: Sequence[str]) -> list[tuple[float, list[int]]]:
        return [(float(len(text)), [ord(character) for character in text]) for text in texts]


@given(st.integers(1, 6), st.integers(2, 40), st.floats(0.01, 1), st.integers(0, 5))
def test_chunks_are_the_text_and_the_share_blanked_is_exact(chunks: int, length: int, share: float, seed: int) -> None:
    items = cut(TEXT, words, MaskingOptions(chunks=chunks, length=length, masked=share, seed=seed))
    offsets = words(TEXT)
    whole = "".join(item.filled(item.reference) for item in items)
    assert whole == TEXT[: offsets[chunks * length - 1][1]]
    for item in items:
        blanked = sum(len(words(text)) for text in item.reference)
        assert blanked == max(1, min(length, round(share * length)))
        assert all(item.segments[1:-1]), "two blanks never touch: a run of blanked tokens is one blank"


def test_a_seed_decides_which_tokens_and_nothing_else() -> None:
    options = [MaskingOptions(chunks=3, length=20, seed=seed) for seed in (0, 0, 1)]
    first, again, other = (cut(TEXT, words, one) for one in options)
    assert first == again
    assert first != other
    assert cut(TEXT, words, MaskingOptions(chunks=2, length=20)) == first[:2]


def test_a_model_s_own_tokens_can_be_used() -> None:
    def letters(text: str) -> list[tuple[int, int]]:
        return [(i, i + 1) for i in range(len(text))]

    (item,) = cut(TEXT, letters, MaskingOptions(chunks=1, length=100, masked=0.95))
    assert sum(map(len, item.reference)) == 95


def test_values_are_means_over_samples_of_what_the_scorer_says() -> None:
    task = WikiText(TEXT, Lengths(), options=MaskingOptions(chunks=2, length=4, masked=0.5))
    item = task.items()[0]
    samples = [Sample(texts=("",) * len(item.reference)), Sample(texts=item.reference)]
    texts = [item.filled(sample.texts) for sample in samples]
    (values,) = task.score([Filled(item, samples)])
    assert values["log-perplexity"] == pytest.approx(sum(len(t) / (len(t) - 1) for t in texts) / 2)
    assert values["entropy"] == pytest.approx(sum(entropy([ord(c) for c in t]) for t in texts) / 2)
    assert task.describe()["scorer"] == "lengths"


def test_a_text_is_scored_once_for_all_samples_baselines_and_methods() -> None:
    class Counting(Lengths):
        asked: ClassVar[list[str]] = []

        def score(self, texts: Sequence[str]) -> list[tuple[float, list[int]]]:
            self.asked.extend(texts)
            return super().score(texts)

    task = WikiText(TEXT, Counting(), options=MaskingOptions(chunks=2, length=4, masked=0.5))
    filled = [Filled(item, [Sample(texts=item.reference)] * 2) for item in task.items()]
    assert task.score(filled) == task.score(filled)
    assert Counting.asked == [item.filled(item.reference) for item in task.items()]


def test_entropy_is_that_of_the_token_counts() -> None:
    assert entropy([1, 1, 1]) == 0
    assert entropy([1, 2, 3, 4]) == pytest.approx(math.log(4))
    assert entropy([1, 1, 2]) == pytest.approx(-(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3)))
    assert entropy([]) == 0


def test_too_short_a_text_says_how_much_there_is() -> None:
    with pytest.raises(ValueError, match="5 tokens, 1 chunks of 4; asked for: 2"):
        cut("a b c d e", words, MaskingOptions(chunks=2, length=4))


@pytest.mark.parametrize(
    ("wrong", "message"), [({"chunks": 0}, "chunks >= 1"), ({"length": 1}, "length >= 2"), ({"masked": 0.0}, "share")]
)
def test_masking_options_are_checked(wrong: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MaskingOptions(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b" \n", "is empty"), (b"\xff\xfe", "not text in UTF-8"), (None, "cannot")],
)
def test_a_file_without_text_is_refused_by_name(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_text(path)
    assert str(path) in str(caught.value)


def test_a_causal_scorer_is_the_chain_rule_of_its_model(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    from infill_eval.causal_scorer import CausalScorer

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator([TEXT], tokenizers.trainers.BpeTrainer(vocab_size=300, initial_alphabet=alphabet))
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer).save_pretrained(tmp_path)
    config = transformers.GPT2Config(
        vocab_size=300, n_positions=32, n_embd=16, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path)
    scorer = CausalScorer(str(tmp_path))
    text = "one two three = head =\n"
    ((nats, ids),) = scorer.score([text])
    network = transformers.GPT2LMHeadModel.from_pretrained(tmp_path).eval()
    by_hand = 0.0
    with torch.no_grad():
        for step in range(1, len(ids)):
            by_hand -= float(network(torch.tensor([ids[:step]])).logits[0, -1].log_softmax(-1)[ids[step]])
    assert tokenizer.encode(text).ids == ids
    assert nats == pytest.approx(by_hand, rel=1e-5)
    assert scorer.score([""]) == [(0.0, [])]
    with pytest.raises(ValueError, match="takes 32 tokens, a completed text has"):
        scorer.score([TEXT])
    with pytest.raises(ValueError, match="is no causal model that can be loaded"):
        CausalScorer(str(tmp_path / "none"))


def test_a_text_too_short_for_a_perplexity_is_missing_not_perfect() -> None:
    task = WikiText(TEXT, Lengths(), options=MaskingOptions(chunks=1, length=4, masked=1.0))
    (item,) = task.items()
    empty, longer = Sample(texts=("",)), Sample(texts=("abc",))
    assert "log-perplexity" not in task.score([Filled(item, [empty])])[0]
    assert task.score([Filled(item, [empty, longer])])[0]["log-perplexity"] == 3 / 2
