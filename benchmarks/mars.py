"""MARS against plain autoregressive decoding: tokens a pass, seconds, and what the text is worth, in one run.

    python -m benchmarks.mars runs/mars-4 --corpus python-stdlib     # a model that mars.save wrote
    python -m benchmarks.mars --smoke                                # a random tiny model: does it run

Every method runs on packed linear layers. Printed first is what rows cost, T(1) to T(16): a method that decides t
tokens a pass of R rows wins where T(R) / T(1) < t. "exact" is the share of prompts whose text equals greedy decoding's;
"nats" is the mean negative log-density of the output under the same model, token by token; "dist", distinct-3, tells
text that repeats itself, which flatters every drafter.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from anyorder.adapters import causal, mars
from anyorder.adapters.causal import CausalModel
from benchmarks.causal_runs import Outcome, by_transformers, code_prompts, smoke_model, timed
from benchmarks.mars_baselines import published_batch
from benchmarks.mars_rows import ragged_cost
from infill_eval.comparison.judging import causal_logits, distinct, nats
from infill_eval.comparison.methods import as_list
from infill_eval.comparison.row_costs import row_costs
from training import templated

TAUS = (1.0, 0.99, 0.95, 0.9, 0.8, 0.7)


def ours(model: CausalModel, prompts: list[Tensor], batch: int, **options: Any) -> tuple[list[list[int]], int]:
    """``mars.generate`` in batches; passes are those of the slowest sequence of each batch."""
    tokens, passes = [], 0
    for start in range(0, len(prompts), batch):
        results = as_list(mars.generate(model, prompts[start : start + batch], seed=0, **options))
        tokens += [list(result.token_ids) for result in results]
        passes += max(result.stats.nfe + result.stats.prefill_nfe for result in results)
    return tokens, passes


def density(model: CausalModel, prompts: list[Tensor], tokens: list[list[int]]) -> float:
    """Nats a token of the outputs under the model, left to right."""
    total = sum(nats(causal_logits(model, prompt, new), new) for prompt, new in zip(prompts, tokens, strict=True))
    return total / max(sum(map(len, tokens)), 1)


def methods(block: int) -> dict[str, dict[str, Any]]:
    """Name and options of everything that is compared with greedy decoding."""
    made: dict[str, dict[str, Any]] = {f"threshold {tau}": {"tau": tau} for tau in TAUS}
    made |= {f"threshold {tau}, a mask more": {"tau": tau, "masks": block} for tau in (0.95, 0.7)}
    for lookahead in ("linear", "quadratic"):
        made[f"verify {lookahead}"] = {"mode": "verify", "lookahead": lookahead}
        made[f"verify {lookahead}, a mask more"] = {"mode": "verify", "lookahead": lookahead, "masks": block}
        made[f"verify {lookahead}, T = 1"] = {"mode": "verify", "lookahead": lookahead, "temperature": 1.0}
    return made


def print_line(name: str, got: Outcome, greedy: Outcome, generate_seconds: float, nats: float) -> None:
    """One line of the table."""
    exact = sum(a == b for a, b in zip(got.tokens, greedy.tokens, strict=True)) / len(got.tokens)
    each = got.seconds / max(got.num_tokens, 1)
    print(
        f"{name:34} {got.num_tokens / max(got.passes, 1):9.2f} {each * 1e3:9.2f} "
        f"{greedy.seconds / max(greedy.num_tokens, 1) / each:8.2f} {generate_seconds / each:11.2f} {exact:6.2f} "
        f"{nats:6.3f} {distinct(got.tokens):6.2f}"
    )


def compare(
    model: CausalModel, plain: CausalModel, prompts: list[Tensor], limit: int, batch: int, repeats: int
) -> None:
    """The tau sweep and verify mode against greedy decoding, at one batch size."""
    reference = causal.to_transformers(plain)
    generate = timed(lambda: by_transformers(reference, prompts, limit), repeats)
    generate_seconds = generate.seconds / max(generate.num_tokens, 1)
    greedy = timed(lambda: ours(model, prompts, batch, tau=1.0, max_new_tokens=limit), repeats)
    print(
        f"\nbatch {batch}, {len(prompts)} prompts, at most {limit} tokens; "
        f"generate takes {generate_seconds * 1e3:.2f} ms a token"
    )
    print(f"{'method':34} {'tokens':>9} {'ms':>9} {'x our':>8} {'x generate':>11} {'exact':>6} {'nats':>6} {'dist':>6}")
    print(f"{'':34} {'a pass':>9} {'a token':>9} {'greedy':>8} {'(batch 1)':>11}")
    print_line("greedy, our cache", greedy, greedy, generate_seconds, density(plain, prompts, greedy.tokens))
    for name, options in methods(model.block or mars.DEFAULT_BLOCK).items():
        got = timed(lambda o=options: ours(model, prompts, batch, max_new_tokens=limit, **o), repeats)  # type: ignore[misc]
        print_line(name, got, greedy, generate_seconds, density(plain, prompts, got.tokens))


def compare_batching(
    model: CausalModel, prompts: list[Tensor], limit: int, tau: float, batches: list[int], repeats: int
) -> None:
    """Ragged batches against the published ones, at equal tau."""
    block = model.block or mars.DEFAULT_BLOCK
    print(f"\nbatching, tau {tau}\n{'':34} {'passes':>8} {'tokens a pass':>14} {'ms a token':>11}")
    for batch in batches:
        few = prompts[:batch]
        runs: dict[str, Callable[[], tuple[list[list[int]], int]]] = {
            "greedy": lambda f=few, b=batch: ours(model, f, b, tau=1.0, max_new_tokens=limit),  # type: ignore[misc]
            "ragged": lambda f=few, b=batch: ours(model, f, b, tau=tau, max_new_tokens=limit),  # type: ignore[misc]
            "ragged, verify": lambda f=few, b=batch: ours(model, f, b, mode="verify", max_new_tokens=limit),  # type: ignore[misc]
        }
        for size in (16, 32):
            runs[f"published, B_cache {size}"] = lambda f=few, s=size: published_batch(  # type: ignore[misc]
                model, f, limit, tau=tau, block=block, cache_block=s
            )
        for name, run in runs.items():
            got = timed(run, repeats)
            print(
                f"{f'batch {batch}, {name}':34} {got.passes:8d} {got.num_tokens / max(got.passes, 1):14.2f} "
                f"{got.seconds / max(got.num_tokens, 1) * 1e3:11.2f}"
            )
        ragged, dense = ragged_cost(model, batch, 128, repeats * 5)
        print(f"{f'batch {batch}, ragged pass / dense pass':34} {ragged / dense:8.2f}")


def _smoke_model() -> CausalModel:
    model = smoke_model()
    model.block = 4
    return model


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, nargs="?", help="a directory that mars.save wrote")
    parser.add_argument("--corpus", choices=("python-stdlib", "templated"), default="python-stdlib")
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--prompt_length", type=int, default=64)
    parser.add_argument("--max_new_tokens", type=int, default=96)
    parser.add_argument("--batches", type=int, nargs="*", default=[1, 4, 16])
    parser.add_argument("--batchings", type=int, nargs="*", default=[4, 8, 16], help="ragged against published batches")
    parser.add_argument("--tau", type=float, default=0.7, help="of the comparison of batchings")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
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
    costs = row_costs(model, args.prompt_length, 5 if args.smoke else 50)
    print(
        "ms of a pass: "
        + ", ".join(f"T({rows}) {took * 1e3:.2f} ({took / costs[1]:.2f})" for rows, took in costs.items())
    )
    for batch in args.batches:
        compare(model, plain, prompts, args.max_new_tokens, batch, args.repeats)
    if args.batchings:
        many = (prompts * max(args.batchings))[: max(args.batchings)]
        compare_batching(model, many, args.max_new_tokens, args.tau, args.batchings, args.repeats)


if __name__ == "__main__":
    main()
