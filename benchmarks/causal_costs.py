"""Measure what a causal pass costs by its rows, everything around it included, for ``adapters/causal/policy.py``.

    python -m benchmarks.causal_costs          # about four minutes on one core

Verify mode of one sequence with fixed numbers of masks, on random weights, relative to one token a pass without masks.
Rows are a pass's on average: whether drafts are kept decides how many the next one has. All take turns, so that a slow
moment of the machine meets each of them.
"""

from __future__ import annotations

import argparse
from functools import partial
from statistics import median
from typing import Any

import torch

from anyorder.adapters import causal, mars
from anyorder.adapters.causal import CausalModel
from benchmarks.costs import as_table
from infill_eval.comparison.methods import as_list
from infill_eval.comparison.row_costs import row_costs
from infill_eval.stopwatch import take_turns
from infill_eval.tracking import bar

PROMPT, TOKENS = 64, 64
WAYS: dict[str, dict[str, Any]] = {
    "one token a pass": {"masks": 0},
    **{f"linear {masks}": {"masks": masks} for masks in (1, 2, 4, 8)},
    **{f"quadratic {masks}": {"masks": masks, "lookahead": "quadratic"} for masks in (2, 3, 5)},
}
SHAPES: dict[str, dict[str, int]] = {
    "SMALL_CPU": {"vocab_size": 4096, "hidden_size": 192, "intermediate_size": 576, "num_hidden_layers": 5}
    | {"num_attention_heads": 3, "num_key_value_heads": 3},
    "BASE_CPU": {"vocab_size": 49152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30}
    | {"num_attention_heads": 9, "num_key_value_heads": 3},
}
"""Of ``mini-causal-code``, and of SmolLM2-135M."""


def random_model(shape: dict[str, int]) -> CausalModel:
    """A packed Llama of this shape, its weights rounded to bfloat16, as those that are stored."""
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model = LlamaForCausalLM(LlamaConfig(**shape, tie_word_embeddings=True)).to(torch.bfloat16).float()  # type: ignore[arg-type]
    return causal.wrap(model).pack("lossless")


def print_row_costs(model: CausalModel, length: int, repeats: int) -> None:
    """One line of what rows cost, T(1) to T(16), after ``length`` tokens."""
    costs = row_costs(model, length, repeats)
    cells = (f"T({rows}) {took * 1e3:.2f} ({took / costs[1]:.2f})" for rows, took in costs.items())
    print("ms of a pass: " + ", ".join(cells))


def decode(model: CausalModel, **options: Any) -> mars.Generated:
    """Continue a prompt so."""
    prompt = torch.arange(PROMPT)
    result = mars.generate(model, prompt, mode="verify", block=8, max_new_tokens=TOKENS, eos_ids=(), **options)
    return as_list(result)[0]


@torch.no_grad()
def main() -> None:
    """Print the tables as they stand in the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    for name, shape in SHAPES.items():
        model = random_model(shape)
        runs = {way: partial(decode, model, **options) for way, options in WAYS.items()}
        turns = take_turns(runs, args.repeats, track=bar, label=name)
        found = []
        for way, result in turns.results.items():
            rows = (result.stats.rows - PROMPT) / result.stats.nfe
            found.append((rows, median(turns.seconds[way]) / result.stats.nfe))
        found.sort()
        seconds = [cost for _, cost in found]
        print(f"{name} = {as_table([round(rows) for rows, _ in found], seconds)}", flush=True)
        print(f'"""{seconds[0] * 1e3:.2f} ms a pass of one row."""', flush=True)


if __name__ == "__main__":
    main()
