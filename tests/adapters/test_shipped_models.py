"""The left-to-right models that lie in the repository: they load, share a vocabulary, know Python and draft."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder
from anyorder.adapters import causal, mars, orthrus
from infill_eval.comparison import judging

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "models" / "mini-causal-code"


def test_it_has_the_bundled_vocabulary_and_prefers_python_to_noise() -> None:
    ours = ROOT / "anyorder" / "pretrained" / "mini-code" / "tokenizer.model"
    assert (MODEL / "tokenizer.model").read_bytes() == ours.read_bytes()
    model, codec = causal.load(MODEL), anyorder.load("mini-code").codec
    text = "class Node:\n    def __init__(self, name):\n        self.name = name\n        self.children = []\n"
    ids = torch.tensor([codec.encode(text)])
    scrambled = ids[:, torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(0))]
    assert nats(model, ids) < 4 < 8 < nats(model, scrambled)


def test_it_continues_a_line_as_python_does() -> None:
    model, codec = causal.load(MODEL), anyorder.load("mini-code").codec
    prompt = codec.encode("import os\nimport sys\n\n\nclass Node:\n    def __init__")
    result = mars.generate(model, prompt, tau=1.0, max_new_tokens=3)
    assert isinstance(result, mars.Generated)
    assert codec.decode(list(result.token_ids)).startswith("(self")


BEGINNING = "import os\nimport sys\n\n\nclass Node:\n    def __init__(self, name):\n        self.name = name\n\n"


@pytest.mark.parametrize("name", ["mini-mars-4", "mini-mars-8"])
def test_a_mars_model_writes_its_own_greedy_text_in_fewer_passes(name: str) -> None:
    model, prompt = mars.load(MODEL.parent / name), anyorder.load("mini-code").codec.encode(BEGINNING)
    assert model.block == int(name[-1])
    one_by_one = mars.generate(model, prompt, tau=1.0, max_new_tokens=64, eos_ids=())
    tested = mars.generate(model, prompt, mode="verify", lookahead="quadratic", max_new_tokens=64, eos_ids=())
    assert isinstance(tested, mars.Generated)
    assert isinstance(one_by_one, mars.Generated)
    assert tested.token_ids == one_by_one.token_ids
    assert tested.stats.nfe < 0.85 * one_by_one.stats.nfe


@pytest.mark.parametrize(
    ("name", "options", "share"),
    [("mini-orthrus-8", {"lookahead": "quadratic"}, 0.95), ("mini-orthrus-8-published", {}, 1.05)],
)
def test_an_orthrus_view_writes_its_base_s_greedy_text_in_so_many_passes(
    name: str, options: dict[str, Any], share: float
) -> None:
    model, prompt = orthrus.load(MODEL.parent / name), anyorder.load("mini-code").codec.encode(BEGINNING)
    plain = mars.generate(causal.load(MODEL), prompt, tau=1.0, max_new_tokens=64, eos_ids=())
    tested = orthrus.generate(model, prompt, max_new_tokens=64, eos_ids=(), **options)
    assert isinstance(tested, orthrus.Generated)
    assert isinstance(plain, mars.Generated)
    assert tested.token_ids == plain.token_ids
    assert tested.stats.nfe < share * plain.stats.nfe


def nats(model: causal.CausalModel, ids: torch.Tensor) -> float:
    """A token, left to right."""
    prompt, rest = ids[0, :1], ids[0, 1:].tolist()
    return judging.nats(judging.causal_logits(model, prompt, rest), rest) / len(rest)
