"""Causal models as infillers: the text is the model's own, samples are their seeds', what does not fit is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_causal import network, save_run, save_view

from anyorder.adapters import causal, mars
from anyorder.codec import SentencePieceCodec
from infill_eval.causal_infiller import CausalDecoding, CausalInfiller, CausalMethod
from infill_eval.causal_loading import CausalText, HubTokenizer, load_causal
from infill_eval.infiller import Budget, Request, ask
from infill_eval.runner import RunOptions, run
from infill_eval.tasks.base import Filled, Item
from infill_eval.tracking import Track, untracked

PROMPTS = ("def f(x):\n    return", "import os\n", "class A:\n    def")


def request(prompt: str = PROMPTS[0], *, tokens: int = 12, **options: Any) -> Request:
    return Request(id="item", segments=(prompt, ""), budget=Budget(policy="fixed", tokens=tokens), **options)


def decoded(model: CausalText, **options: Any) -> CausalInfiller:
    return CausalInfiller(model, CausalDecoding(**options))


@pytest.fixture(scope="module")
def model(causal_run: Path) -> CausalText:
    return load_causal(str(causal_run))


def texts(infiller: CausalInfiller, requests: Sequence[Request]) -> list[list[str]]:
    return [[sample.texts[0] for sample in samples] for samples in ask(infiller, requests)]


def test_greedy_text_is_that_of_transformers(model: CausalText, causal_run: Path) -> None:
    from transformers import AutoModelForCausalLM

    theirs: Any = AutoModelForCausalLM.from_pretrained(causal_run)
    answers = ask(decoded(model), [request(prompt) for prompt in PROMPTS])
    for prompt, (sample,) in zip(PROMPTS, answers, strict=True):
        ids = model.tokenizer.encode(prompt)
        out = theirs.generate(torch.tensor([ids]), do_sample=False, max_new_tokens=12, pad_token_id=0)[0].tolist()
        assert sample.texts[0] == model.tokenizer.decode(out)[len(prompt) :] != ""
        assert (sample.stats["nfe"], sample.stats["tokens"], sample.stats["ended"]) == (12, 12, 0)


@pytest.mark.parametrize("method", ["mars-verify", "orthrus"])
def test_lossless_methods_write_what_greedy_decoding_writes(
    method: CausalMethod, model: CausalText, causal_run: Path, causal_view: Path
) -> None:
    drafting = model if method != "orthrus" else load_causal(str(causal_run), view=causal_view)
    requests = [request(prompt, tokens=30) for prompt in PROMPTS]
    answers = ask(decoded(drafting, method=method), requests)
    assert [[s.texts[0] for s in row] for row in answers] == texts(decoded(model), requests)
    assert sum(sum(row[0].stats["offered by offset"]) for row in answers) > 0  # it did draft


def test_tau_reaches_threshold_mode(model: CausalText) -> None:
    requests = [request(prompt, tokens=30) for prompt in PROMPTS]
    greedy = ask(decoded(model), requests)
    for tau, is_greedy in ((1.0, True), (0.0, False)):
        answers = ask(decoded(model, method="mars", tau=tau), requests)
        assert ([row[0].texts for row in answers] == [row[0].texts for row in greedy]) == is_greedy
        assert all((row[0].stats["nfe"] == 30) == is_greedy for row in answers)


@pytest.mark.parametrize(("block", "passes"), [(None, 10), (2, 20), (5, 8)])
def test_block_reaches_the_decoding(model: CausalText, block: int | None, passes: int) -> None:
    # At tau 0 everything is taken: B - 1 masks and a token a pass, and the last pass needs fewer.
    ((sample,),) = ask(decoded(model, method="mars", tau=0.0, block=block), [request(tokens=40)])
    assert sample.stats["nfe"] == passes


def test_block_reaches_a_view(causal_run: Path, causal_view: Path) -> None:
    viewed = load_causal(str(causal_run), view=causal_view)
    for block, drafts in ((None, 3), (1, 0), (3, 2)):
        ((sample,),) = ask(decoded(viewed, method="orthrus", block=block), [request()])
        assert len(sample.stats["offered by offset"]) == drafts


@pytest.mark.parametrize("method", ["sample", "mars-verify"])
def test_samples_are_those_of_their_seeds_whatever_the_batch(model: CausalText, method: CausalMethod) -> None:
    infiller = decoded(model, method=method, temperature=1.0)
    together = texts(infiller, [request(n=3, seed=2**40), request(PROMPTS[1], seed=5)])
    assert len(set(together[0])) == 3
    assert texts(infiller, [request(seed=2**40 + 2)])[0][0] == together[0][2]
    assert texts(infiller, [request(PROMPTS[1], seed=5)])[0] == together[1]
    cooler = texts(decoded(model, method=method, temperature=0.2), [request(n=3, seed=2**40)])
    assert cooler[0] != together[0]


def test_greedy_samples_are_decoded_once(model: CausalText, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts: list[int] = []
    honest = mars.generate

    def counted(network: Any, rows: Any, **options: Any) -> Any:
        prompts.append(len(rows))
        return honest(network, rows, **options)

    monkeypatch.setattr("anyorder.adapters.mars.generate", counted)
    answers = ask(decoded(model), [request(n=3), request(PROMPTS[1])])
    assert [len(row) for row in answers] == [3, 1]
    assert answers[0][0] == answers[0][2] != answers[1][0]
    assert prompts == [2]


def test_the_token_that_ends_a_text_is_counted_and_not_written(
    causal_codec: SentencePieceCodec, causal_run: Path, tmp_path: Path
) -> None:
    plain = load_causal(str(causal_run))
    ids = mars.generate(plain.network, list(causal_codec.encode(PROMPTS[0])), tau=1.0, max_new_tokens=12).token_ids  # type: ignore[union-attr]
    ending = ids[7]
    first = ids.index(ending)
    other = network(causal_codec.vocab_size, max_length=2048, eos_id=ending)
    ended = load_causal(str(save_run(tmp_path, causal_codec, other)))
    ((sample,),) = ask(decoded(ended), [request()])
    assert sample.texts[0] == causal_codec.decode(ids[:first])
    assert (sample.stats["tokens"], sample.stats["ended"]) == (first + 1, 1)


def test_the_oracle_length_is_that_of_the_reference_in_the_model_s_tokens(model: CausalText) -> None:
    # Behind a newline an indent would be a part of its token: the prompt has that newline, so the indent is one more.
    for prompt, like in ((PROMPTS[0], " x + 1\n"), ("def f(x):\n", "    return x\n")):
        asked = Request(id="item", segments=(prompt, ""), budget=Budget(policy="oracle", like=(like,)))
        ((sample,),) = ask(decoded(model), [asked])
        assert sample.stats["tokens"] == len(model.tokenizer.encode(like)) > 1


def test_the_token_that_begins_a_text_is_none_of_the_oracle_length() -> None:
    from tokenizers import processors

    tokenizer = spaced()
    tokenizer.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 0)]
    )
    assert HubTokenizer(tokenizer).encode("the") == [0, 2]
    begun = CausalText.of("tiny", causal.wrap(network(7)), HubTokenizer(tokenizer))
    asked = Request(id="item", segments=("the cat", ""), budget=Budget(policy="oracle", like=("sat on a",)))
    ((sample,),) = ask(decoded(begun), [asked])
    assert sample.stats["tokens"] == 3


REFUSED = [
    (
        Request(id="x", segments=("a", "b"), budget=Budget(policy="fixed", tokens=2)),
        "x must have one blank and nothing",
    ),
    (Request(id="x", segments=("", ""), budget=Budget(policy="fixed", tokens=2)), "needs a token to start from"),
    (Request(id="x", segments=("a", "", ""), budget=Budget(policy="fixed", tokens=2)), "got 2 blanks"),
    (Request(id="x", segments=("a", ""), budget=Budget(policy="range", tokens=range(1, 3))), "not the range"),
    (Request(id="x", segments=("a" * 4000, ""), budget=Budget(policy="fixed", tokens=2)), "exceed the 2048 positions"),
    (Request(id="x", segments=("a", ""), budget=Budget(policy="fixed", tokens=2048)), "2048 new ones exceed the 2048"),
]


@pytest.mark.parametrize(("asked", "message"), REFUSED)
def test_what_a_causal_model_cannot_do_is_refused(model: CausalText, asked: Request, message: str) -> None:
    for way in (decoded(model).check_requests, decoded(model).batch):
        with pytest.raises(ValueError, match=message):
            way([request(), asked])


class Long:
    """The second of two items does not fit."""

    name = "long"
    baselines = False

    def describe(self) -> dict[str, Any]:
        return {"task": self.name, "protocol": "none"}

    def items(self) -> list[Item]:
        return [Item(id=f"item-{n}", segments=("ab" * n, ""), reference=("",)) for n in (1, 4000)]

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        return [{} for _ in filled]


def test_a_prompt_that_does_not_fit_is_named_before_anything_is_written(model: CausalText, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = RunOptions(length="fixed", tokens=2, batch=1)
    with pytest.raises(ValueError, match=r"item-4000: a prompt of \d+ tokens and 2 new ones .*--max-new-tokens"):
        run(Long(), decoded(model), out, options=options)
    assert not out.exists()
    run(Long(), decoded(model), out, options=RunOptions(length="fixed", tokens=2, limit=1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "beam"}, "method must be one of greedy, sample, mars, mars-verify, orthrus; got 'beam'"),
        ({"method": "mars", "temperature": 1.0}, "mars is greedy: temperature must be 0; got 1"),
        ({"method": "sample"}, "sample needs a temperature above 0"),
        ({"method": "mars", "tau": -1.0}, "tau must be at least 0"),
        ({"method": "mars", "block": 0}, "block must be at least 1; got 0"),
        ({"method": "sample", "temperature": -1.0}, "temperature"),
    ],
)
def test_options_out_of_range_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CausalDecoding(**options)


def test_a_description_tells_models_and_methods_apart(
    model: CausalText, causal_codec: SentencePieceCodec, causal_run: Path, causal_view: Path, tmp_path: Path
) -> None:
    other = load_causal(str(save_run(tmp_path / "other", causal_codec, network(causal_codec.vocab_size, seed=1))))
    copied = load_causal(str(shutil.copytree(causal_run, tmp_path / "copied")))
    viewed = load_causal(str(causal_run), view=causal_view)
    shown = [CausalInfiller(each).describe() for each in (model, other, viewed, copied)]
    assert shown[0]["weights"] == shown[2]["weights"] != shown[1]["weights"]
    assert shown[0]["added"] != shown[2]["added"]
    assert all(shown[0][name] == shown[3][name] for name in ("weights", "added", "parameters"))
    assert json.dumps(shown)
    labels = [
        ({"method": "mars", "tau": 0.9}, "mars tau=0.9 B=4"),
        ({"method": "mars-verify", "block": 3, "temperature": 0.8}, "mars-verify B=3 T=0.8"),
        ({"method": "sample", "temperature": 1.0}, "sample T=1"),
        ({}, "greedy"),
    ]
    for options, label in labels:
        assert decoded(model, **options).describe()["method"] == label
    assert decoded(viewed, method="orthrus").describe()["method"] == "orthrus K=4"


def spaced() -> Any:
    """A tokenizer that writes the first word of a text without its space, as Llama's does."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {word: number for number, word in enumerate(["<s>", "<unk>", "▁the", "▁cat", "▁sat", "▁on", "▁a"])}
    raw = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    raw.pre_tokenizer, raw.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=raw, bos_token="<s>", unk_token="<unk>")


def test_the_space_before_the_first_written_word_is_kept(tmp_path: Path) -> None:
    tokenizer = HubTokenizer(spaced())
    assert tokenizer.decode(tokenizer.encode("sat on")) == "sat on"
    plain = CausalText.of("tiny", causal.wrap(network(7)), tokenizer)
    ((sample,),) = ask(decoded(plain), [request("the cat", tokens=5)])
    words = sample.texts[0].split()
    assert sample.texts[0].startswith(" ")
    assert words
    assert set(words) <= {"the", "cat", "sat", "on", "a"}  # special tokens are not text


def test_models_of_transformers_and_loras_load_with_their_tokenizers(tmp_path: Path) -> None:
    base, lora = tmp_path / "base", tmp_path / "lora"
    network(7, family="Llama").save_pretrained(base)
    spaced().save_pretrained(base)
    trained = mars.attach_lora(causal.load(base), rank=2)
    mars.save(trained, lora, base=str(base))
    spaced().save_pretrained(lora)
    asked = [request("the cat", tokens=5)]
    assert texts(CausalInfiller(load_causal(str(lora))), asked) == texts(CausalInfiller(load_causal(str(base))), asked)


def without(source: Path, target: Path, name: str) -> Path:
    shutil.copytree(source, target)
    (target / name).unlink()
    return target


def test_a_place_that_holds_no_causal_model_is_named(causal_run: Path, tiny_checkpoint: Path, tmp_path: Path) -> None:
    broken = without(causal_run, tmp_path / "broken", "mars.json")
    (broken / "model.safetensors").write_bytes(b"noise")
    (tmp_path / "empty").mkdir()
    cases = {
        "no/such/place": "no/such/place is neither a directory nor a Hub id",
        str(tmp_path / "empty"): "holds no causal model .no config.json or mars.json.$",
        str(causal_run.parent): f"did you mean {causal_run}",
        str(
            without(causal_run, tmp_path / "mute", "tokenizer.model")
        ): "its tokenizer cannot be loaded .* there is no vocabulary",
        str(tiny_checkpoint): "is no causal model that can be loaded: .* got XLNetLMHeadModel",
        str(broken): "is no causal model that can be loaded",
    }
    for place, message in cases.items():
        with pytest.raises(ValueError, match=message) as caught:
            load_causal(place)
        assert f"--causal {place}" in str(caught.value)
        assert len(str(caught.value)) < 700


@pytest.mark.parametrize("device", ["meta", "no such device", "cuda:99"])
def test_a_device_that_is_not_there_is_named(causal_run: Path, device: str) -> None:
    with pytest.raises(ValueError, match=f"device must be one this torch has, such as 'cpu'; got '{device}'"):
        load_causal(str(causal_run), device=device)


def test_a_view_of_another_base_is_refused(
    causal_run: Path, causal_view: Path, causal_codec: SentencePieceCodec, tmp_path: Path
) -> None:
    other = save_run(tmp_path / "other", causal_codec, network(causal_codec.vocab_size, seed=1, max_length=2048))
    foreign = save_view(tmp_path / "foreign", other)
    cases = {
        foreign: "the base's weights are not those this view was trained on",
        tmp_path: "holds no view.json",
        without(causal_view, tmp_path / "half", "view.safetensors"): "view.safetensors",
    }
    for view, message in cases.items():
        with pytest.raises(ValueError, match=f"--view {view} does not fit --causal {causal_run}: .*{message}"):
            load_causal(str(causal_run), view=view)
