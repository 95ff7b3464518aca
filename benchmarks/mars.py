"""MARS against plain autoregressive decoding: tokens a pass, seconds, and what the text is worth, in one run.

    python -m benchmarks.mars runs/mars-4 --corpus python-stdlib     # a model that mars.save wrote
    python -m benchmarks.mars --smoke                                # a random tiny model: does it run

Every method runs on packed linear layers, and all take turns, so that a slow moment of the machine meets each of them;
a ratio is the median over batches and repeats of the ratio within one. Printed first is what rows cost, T(1) to T(16):
a method that decides t tokens a pass of R rows wins where T(R) / T(1) < t. "exact" is the share of prompts whose text
equals greedy decoding's; "nats" is the mean negative log-density of the output under the same model, token by token;
"dist", distinct-3, tells text that repeats itself, which flatters every drafter.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters import causal, mars
from anyorder.adapters.causal import CausalModel
from benchmarks.causal_costs import print_row_costs
from benchmarks.causal_runs import COLUMNS, Run, add_sizes, by_transformers, code_prompts, in_turn, smoke_model
from benchmarks.mars_baselines import published_batch
from benchmarks.mars_rows import ragged_cost
from infill_eval.comparison.judging import causal_logits, distinct, nats
from infill_eval.comparison.methods import as_list
from training import templated

TAUS = (0.99, 0.95, 0.9, 0.8, 0.7)
GREEDY, GENERATE = "greedy (tau 1.0), our cache", "generate, transformers, batch 1"


def ours(model: CausalModel, options: dict[str, Any], prompts: list[Tensor]) -> tuple[list[list[int]], int]:
    """``mars.generate`` of a batch; passes are summed over sequences, so that tokens a pass are a sequence's."""
    results = as_list(mars.generate(model, prompts, seed=0, **options))
    return [list(result.token_ids) for result in results], sum(result.stats.nfe for result in results)


def ours_together(model: CausalModel, options: dict[str, Any], prompts: list[Tensor]) -> tuple[list[list[int]], int]:
    """``mars.generate`` of a batch and the passes that were made: those of the slowest sequence, with the prompts'."""
    results = as_list(mars.generate(model, prompts, seed=0, **options))
    passes = max(result.stats.nfe + result.stats.prefill_nfe for result in results)
    return [list(result.token_ids) for result in results], passes


def density(model: CausalModel, prompts: list[Tensor], tokens: list[list[int]]) -> float:
    """Nats a token of the outputs under the model, left to right."""
    total = sum(nats(causal_logits(model, prompt, new), new) for prompt, new in zip(prompts, tokens, strict=True))
    return total / max(sum(map(len, tokens)), 1)


def methods(model: CausalModel) -> dict[str, dict[str, Any]]:
    """Name and options of everything that is compared; the first is greedy decoding."""
    block = model.block or mars.DEFAULT_BLOCK
    made: dict[str, dict[str, Any]] = {GREEDY: {"tau": 1.0}}
    made |= {f"threshold {tau}": {"tau": tau} for tau in TAUS}
    made |= {f"threshold {tau}, a mask more": {"tau": tau, "masks": block} for tau in (0.95, 0.7)}
    for lookahead in ("linear", "quadratic"):
        made[f"verify {lookahead}"] = {"mode": "verify", "lookahead": lookahead}
        made[f"verify {lookahead}, a mask more"] = {"mode": "verify", "lookahead": lookahead, "masks": block}
        made[f"verify {lookahead}, T = 1"] = {"mode": "verify", "lookahead": lookahead, "temperature": 1.0}
    chosen = {"mode": "verify", "masks": block, "policy": mars.adaptive(model)}
    return made | {"verify, adaptive": chosen, "verify, adaptive, T = 1": chosen | {"temperature": 1.0}}


def compare(
    model: CausalModel, plain: CausalModel, prompts: list[Tensor], limit: int, batch: int, repeats: int
) -> None:
    """The tau sweep and verify mode against greedy decoding, at one batch size."""
    reference = causal.to_transformers(plain)
    runs: dict[str, Run] = {
        name: partial(ours, model, options | {"max_new_tokens": limit}) for name, options in methods(model).items()
    }
    runs[GENERATE] = partial(by_transformers, reference, limit)
    got = in_turn(runs, prompts, batch, repeats, f"batch {batch}")
    greedy, generate = got[GREEDY], got[GENERATE]
    print(f"\nbatch {batch}, {len(prompts)} prompts, at most {limit} tokens")
    print(f"{'method':34} {COLUMNS[0]} {'exact':>6} {'nats':>6} {'dist':>6}\n{'':34} {COLUMNS[1]}")
    for name, one in got.items():
        exact = sum(a == b for a, b in zip(one.tokens, greedy.tokens, strict=True)) / len(prompts)
        print(
            f"{name:34} {one.columns(greedy, generate)} {exact:6.2f} {density(plain, prompts, one.tokens):6.3f} "
            f"{distinct(one.tokens):6.2f}"
        )


def compare_batching(
    model: CausalModel, prompts: list[Tensor], limit: int, tau: float, batches: list[int], repeats: int
) -> None:
    """Ragged batches against the published ones, at equal tau."""
    block = model.block or mars.DEFAULT_BLOCK
    print(f"\nbatching, tau {tau}\n{'':34} {'passes':>8} {'tokens a pass':>14} {'ms a token':>11} {'x greedy':>9}")
    for batch in batches:
        runs: dict[str, Run] = {
            "greedy": partial(ours_together, model, {"tau": 1.0, "max_new_tokens": limit}),
            "ragged": partial(ours_together, model, {"tau": tau, "max_new_tokens": limit}),
            "ragged, verify": partial(ours_together, model, {"mode": "verify", "max_new_tokens": limit}),
        }
        for size in (16, 32):
            runs[f"published, B_cache {size}"] = partial(
                published_batch, model, max_new_tokens=limit, tau=tau, block=block, cache_block=size
            )
        got = in_turn(runs, prompts[:batch], batch, repeats, f"batching {batch}")
        for name, one in got.items():
            print(
                f"{f'batch {batch}, {name}':34} {one.passes:8d} {one.tokens_a_pass:14.2f} {one.milliseconds:11.2f} "
                f"{one.speed_against(got['greedy']):9.2f}"
            )
        print(f"{f'batch {batch}, ragged pass / dense pass':34} {ragged_cost(model, batch, 128, repeats * 10):8.2f}")


def _smoke_model() -> CausalModel:
    model = smoke_model()
    model.block = 4
    return model


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="a directory that mars.save wrote")
    add_sizes(parser, prompts=16, batches=[1, 4, 16])
    parser.add_argument("--batchings", type=int, nargs="*", default=[4, 8, 16], help="ragged against published batches")
    parser.add_argument("--tau", type=float, default=0.7, help="of the comparison of batchings")
    parser.add_argument("--smoke", action="store_true", help="a random tiny model, seconds")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    if args.model is None and not args.smoke:
        parser.error("name a model's directory, or --smoke")
    make = _smoke_model if args.smoke else lambda: mars.load(args.model)
    model, plain = make().pack("lossless"), make()
    if args.smoke or args.corpus == "templated":
        prompts = templated.draw_prompts(0, args.prompts)
    else:
        prompts = code_prompts(args.model, args.prompts, args.prompt_length)
    print_row_costs(model, args.prompt_length, 5 if args.smoke else 50)
    for batch in args.batches:
        compare(model, plain, prompts, args.max_new_tokens, batch, args.repeats)
    if args.batchings:
        many = (prompts * max(args.batchings))[: max(args.batchings)]
        compare_batching(model, many, args.max_new_tokens, args.tau, args.batchings, args.repeats)


if __name__ == "__main__":
    main()
