"""The left-to-right model that lies in the repository: it loads, has the bundled vocabulary, and knows Python."""

from __future__ import annotations

from pathlib import Path

import torch

import anyorder
from anyorder.adapters import causal, mars
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


def nats(model: causal.CausalModel, ids: torch.Tensor) -> float:
    """A token, left to right."""
    prompt, rest = ids[0, :1], ids[0, 1:].tolist()
    return judging.nats(judging.causal_logits(model, prompt, rest), rest) / len(rest)
