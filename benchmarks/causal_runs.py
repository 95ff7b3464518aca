"""What both benchmarks of causal models share: times by turns, prompts, transformers' own decoding, random models."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from anyorder.adapters import causal
from anyorder.adapters.causal import CausalModel
from infill_eval.causal_loading import load_tokenizer
from infill_eval.stopwatch import speed_against, take_turns_by_parts
from infill_eval.tracking import bar
from training import templated
from training.corpus import draw_window, load_texts
from training.keyed import keyed_random

Run = Callable[[list[Tensor]], tuple[list[list[int]], int]]
"""Decodes some prompts; returns their texts, and the passes it took, summed over sequences unless it says otherwise."""


class Outcome(NamedTuple):
    """What a method did with all prompts.

    Attributes:
        tokens: their texts.
        passes: made for them.
        milliseconds: a token, over all batches and repeats.
        seconds_a_token: of every batch and repeat, for ratios.
    """

    tokens: list[list[int]]
    passes: int
    milliseconds: float
    seconds_a_token: list[float]

    @property
    def tokens_a_pass(self) -> float:
        """Tokens returned over passes made."""
        return sum(map(len, self.tokens)) / max(self.passes, 1)

    def speed_against(self, other: Outcome) -> float:
        """How much sooner than the other's a token comes: the median of the ratios within a batch and repeat."""
        return speed_against(other.seconds_a_token, self.seconds_a_token)

    def columns(self, greedy: Outcome, generate: Outcome) -> str:
        """Cells that tables share, see ``COLUMNS``."""
        return (
            f"{self.tokens_a_pass:9.2f} {self.milliseconds:9.2f} {self.speed_against(greedy):8.2f} "
            f"{self.speed_against(generate):11.2f}"
        )


COLUMNS = (
    f"{'tokens':>9} {'ms':>9} {'x our':>8} {'x generate':>11}",
    f"{'a pass':>9} {'a token':>9} {'greedy':>8} {'(batch 1)':>11}",
)
"""The two lines above ``Outcome.columns``."""


def in_turn(runs: Mapping[str, Run], prompts: list[Tensor], batch: int, repeats: int, label: str) -> dict[str, Outcome]:
    """Let every method decode the first batch of the prompts, then the second, and so on, ``repeats`` times."""
    batches = [prompts[start : start + batch] for start in range(0, len(prompts), batch)]
    parts = {name: [partial(run, given) for given in batches] for name, run in runs.items()}
    turns = take_turns_by_parts(parts, repeats, track=bar, label=label)
    found = {}
    for name, results in turns.results.items():
        counts, seconds = [max(sum(map(len, tokens)), 1) for tokens, _ in results] * repeats, turns.seconds[name]
        each = [took / count for took, count in zip(seconds, counts, strict=True)]
        texts = [text for tokens, _ in results for text in tokens]
        passes = sum(passes for _, passes in results)
        found[name] = Outcome(texts, passes, sum(seconds) / sum(counts) * 1e3, each)
    return found


def add_sizes(parser: argparse.ArgumentParser, *, prompts: int, batches: list[int]) -> None:
    """The options that both benchmarks have, with their own defaults."""
    at_least_1, at_least_2 = (partial(_at_least, least) for least in (1, 2))
    parser.add_argument("--corpus", choices=("python-stdlib", "templated"), default="python-stdlib")
    parser.add_argument("--prompts", type=at_least_1, default=prompts)
    parser.add_argument("--prompt_length", type=at_least_1, default=64)
    # The first token comes with reading the prompt: a speed needs one more.
    parser.add_argument("--max_new_tokens", type=at_least_2, default=96)
    parser.add_argument("--batches", type=at_least_1, nargs="*", default=batches)
    parser.add_argument("--threads", type=at_least_1, default=2)
    parser.add_argument("--repeats", type=at_least_1, default=3)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"must be an integer of at least {least}; got {text!r}")
    return int(text)


def by_transformers(reference: Any, limit: int, prompts: list[Tensor]) -> tuple[list[list[int]], int]:
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


def random_model(
    width: int, inner: int, layers: int, *, heads: int, key_heads: int, tie_word_embeddings: bool = False
) -> CausalModel:
    """A Qwen2 of the templated corpus with random weights."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=templated.VOCAB_SIZE,
        hidden_size=width,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=key_heads,
        tie_word_embeddings=tie_word_embeddings,
        eos_token_id=templated.END,
    )
    return causal.wrap(Qwen2ForCausalLM(config))


def smoke_model() -> CausalModel:
    """A tiny one."""
    return random_model(32, 64, 2, heads=2, key_heads=1).eval()
