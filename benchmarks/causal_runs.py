"""What both benchmarks of causal models share: a stopwatch, prompts, transformers' own decoding, a tiny model."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.adapters import causal
from anyorder.adapters.causal import CausalModel
from infill_eval.causal_loading import load_tokenizer
from training import templated
from training.corpus import draw_window, load_texts
from training.keyed import keyed_random


class Outcome(NamedTuple):
    """What a method did with all prompts: their texts, passes, and the median seconds of a run."""

    tokens: list[list[int]]
    passes: int
    seconds: float

    @property
    def num_tokens(self) -> int:
        """Tokens returned."""
        return sum(map(len, self.tokens))


def timed(run: Callable[[], tuple[list[list[int]], int]], repeats: int) -> Outcome:
    """Run a method, once for nothing and ``repeats`` times on the clock."""
    tokens, passes = run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return Outcome(tokens, passes, statistics.median(times))


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
