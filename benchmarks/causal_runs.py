"""What both benchmarks of causal models share: times by turns, prompts, transformers' own decoding, a tiny model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.adapters import causal
from anyorder.adapters.causal import CausalModel
from infill_eval.causal_loading import load_tokenizer
from infill_eval.stopwatch import speed_against, take_turns
from infill_eval.tracking import bar
from training import templated
from training.corpus import draw_window, load_texts
from training.keyed import keyed_random

Run = Callable[[], tuple[list[list[int]], int]]
"""Decodes all prompts; returns their texts, and the passes it took."""


class Outcome(NamedTuple):
    """What a method did with all prompts: their texts, passes, and the seconds of every repeat."""

    tokens: list[list[int]]
    passes: int
    seconds: list[float]

    @property
    def tokens_a_pass(self) -> float:
        """Tokens returned over passes made."""
        return self._num_tokens / max(self.passes, 1)

    @property
    def seconds_a_token(self) -> list[float]:
        """In every repeat."""
        return [took / max(self._num_tokens, 1) for took in self.seconds]

    @property
    def _num_tokens(self) -> int:
        return sum(map(len, self.tokens))

    def columns(self, greedy: Outcome, generate: Outcome) -> str:
        """Cells that tables share: tokens a pass, ms a token, and how much sooner a token comes than by the others."""
        own = self.seconds_a_token
        ratios = [speed_against(other.seconds_a_token, own) for other in (greedy, generate)]
        return f"{self.tokens_a_pass:9.2f} {median(own) * 1e3:9.2f} {ratios[0]:8.2f} {ratios[1]:11.2f}"


COLUMNS = (
    f"{'tokens':>9} {'ms':>9} {'x our':>8} {'x generate':>11}",
    f"{'a pass':>9} {'a token':>9} {'greedy':>8} {'(batch 1)':>11}",
)
"""The two lines above ``Outcome.columns``."""


def in_turn(runs: Mapping[str, Run], repeats: int, label: str) -> dict[str, Outcome]:
    """Run every method once for nothing and ``repeats`` times on the clock, in turn, as ``infill_eval`` does."""
    turns = take_turns(runs, repeats, track=bar, label=label)
    return {name: Outcome(*turns.results[name], turns.seconds[name]) for name in runs}


def by_transformers(reference: Any, prompts: list[Tensor], limit: int) -> tuple[list[list[int]], int]:
    """``generate`` of transformers, one prompt at a time."""
    tokens = []
    for prompt in prompts:
        seen = torch.ones(1, len(prompt), dtype=torch.long)
        out = reference.generate(
            prompt[None], attention_mask=seen, do_sample=False, max_new_tokens=limit, pad_token_id=0
        )
        tokens.append(out[0, len(prompt) :].tolist())
    return tokens, sum(map(len, tokens))


def code_prompts(directory: Path, count: int, length: int) -> list[Tensor]:
    """The first ``length`` tokens, by a model's own tokenizer, of windows of held-out code."""
    tokenizer, texts, draw = load_tokenizer(str(directory)), load_texts(held_out=True), keyed_random("mars", "prompts")
    windows = [draw_window(texts, 8 * length, draw) for _ in range(count)]
    return [torch.tensor(tokenizer.encode(window)[:length]) for window in windows]


def smoke_model() -> CausalModel:
    """A random tiny model of the templated corpus."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=templated.VOCAB_SIZE,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        eos_token_id=templated.END,
    )
    return causal.wrap(Qwen2ForCausalLM(config)).eval()
