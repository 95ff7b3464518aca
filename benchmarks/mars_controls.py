"""The controls a reader of MARS asks for, on models of at most a million parameters and a templated corpus.

    python -m benchmarks.mars_controls --minutes 2 --blocks 4 8 16      # each of about ten trainings takes that long
    python -m benchmarks.mars_controls --smoke

One plain autoregressive model is trained, then trained on in several ways for the same number of steps: by MARS with
and without the loss on the clean copy, by block diffusion (a block sees itself both ways), by plain fine-tuning; and by
plain fine-tuning for as much time as MARS took. Each line says what the model still knows left to right (nats a token
of held-out text), what drafting gives (tokens a pass by threshold at two taus, and by verify mode), how many of the
texts equal its own greedy decoding, and what a training step costs. Jacobi decoding of the first model stands beside
them, and at the end what memory a step needs (on Linux, which can start a process's peak anew).
"""

from __future__ import annotations

import argparse
import copy
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters import mars
from anyorder.adapters.causal import CausalModel
from benchmarks.causal_runs import random_model
from benchmarks.machine import peak_of
from benchmarks.mars_baselines import jacobi
from infill_eval.comparison.methods import as_list
from training import templated

ROWS, LENGTH = 16, 96

Objective = Callable[[CausalModel, Tensor, Tensor], Tensor]
"""(model, tokens, is_response) -> the loss."""


def fresh(width: int, layers: int) -> CausalModel:
    """A Qwen2 with random weights."""
    heads = max(width // 32, 1)
    return random_model(width, 3 * width, layers, heads=heads, key_heads=heads, tie_word_embeddings=True)


def plain(model: CausalModel, tokens: Tensor, is_response: Tensor) -> Tensor:
    """Autoregressive fine-tuning."""
    return mars.causal_loss(model, tokens, is_response)


def drafting(block: int, clean_weight: float) -> Objective:
    """MARS, or block diffusion if the model sees both ways."""

    def loss(model: CausalModel, tokens: Tensor, is_response: Tensor) -> Tensor:
        noisy, clean = mars.mars_loss(model, tokens, is_response, block=block)
        return noisy + clean_weight * clean

    return loss


class Trained(NamedTuple):
    """A model, the steps it took, and the median processor seconds of one."""

    model: CausalModel
    steps: int
    step_seconds: float


def train(
    model: CausalModel, objective: Objective, *, steps: int | None = None, seconds: float | None = None
) -> Trained:
    """Train for a number of steps or of processor seconds; the learning rate follows whichever is given."""
    model = copy.deepcopy(model).requires_grad_(True).train()
    optimiser = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.05)
    draw, start, times, done = random.Random(7), time.process_time(), list[float](), 0
    while True:
        progress = done / steps if steps else (time.process_time() - start) / (seconds or 1.0)
        if progress >= 1:
            return Trained(model.requires_grad_(False).eval(), done, statistics.median(times))
        for group in optimiser.param_groups:
            group["lr"] = 2e-3 * min(1.0, (done + 1) / 50) * (1.02 - progress)
        tokens, is_response = templated.draw_batch(draw, ROWS, LENGTH)
        before = time.process_time()
        torch.autograd.backward(objective(model, tokens, is_response))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        times.append(time.process_time() - before)
        done += 1


@torch.no_grad()
def density(model: CausalModel) -> float:
    """Nats a token of held-out text, left to right."""
    draw = random.Random("held out")
    parts = [plain(model, *templated.draw_batch(draw, ROWS, LENGTH)) for _ in range(4)]
    return float(torch.stack(parts).mean())


def report(name: str, trained: Trained, block: int, *, blocks_see_both_ways: bool = False) -> None:
    """One line of the table."""
    model, prompts = trained.model, templated.draw_prompts(0, 24)
    model.sees_both_ways = blocks_see_both_ways
    greedy = as_list(mars.generate(model, prompts, tau=1.0, max_new_tokens=96))
    cells = [f"{name:36} {density(model):7.3f}"]
    for options in ({"tau": 0.95}, {"tau": 0.5}, {"mode": "verify"}, {"mode": "verify", "lookahead": "quadratic"}):
        results = as_list(mars.generate(model, prompts, block=block, max_new_tokens=96, **options))
        rate = sum(r.stats.tokens for r in results) / sum(r.stats.nfe for r in results)
        exact = sum(a.token_ids == b.token_ids for a, b in zip(results, greedy, strict=True)) / len(prompts)
        cells.append(f"{rate:6.2f} ({exact:4.2f})")
    print(" ".join(cells) + f" {trained.steps:6d} {trained.step_seconds * 1e3:8.1f}", flush=True)


def report_tunings(base: CausalModel, block: int, seconds: float, out: Path | None) -> None:
    """MARS at one block size for that long, kept in ``out`` if there is one, and its controls."""
    tuned = train(base, drafting(block, 1.0), seconds=seconds)
    if out is not None:
        tuned.model.block = block
        mars.save(tuned.model, out / f"mars-{block}")
    report(f"MARS, B = {block}", tuned, block)
    report(f"  without the clean loss, B = {block}", train(base, drafting(block, 0.0), steps=tuned.steps), block)
    both_ways = copy.deepcopy(base)
    both_ways.sees_both_ways = True
    diffusion = train(both_ways, drafting(block, 1.0), steps=tuned.steps)
    report(f"  block diffusion, B = {block}", diffusion, block, blocks_see_both_ways=True)
    report("  plain, as many steps", train(base, plain, steps=tuned.steps), block)
    report("  plain, as much time", train(base, plain, seconds=seconds), block)


def three_steps(width: int, layers: int, block: int) -> Callable[[], object]:
    """Training steps of a fresh model; block 0 is plain fine-tuning."""
    model, objective = fresh(width, layers), drafting(block, 1.0) if block else plain
    train(model, objective, steps=1)  # libraries take their buffers
    return lambda: train(model, objective, steps=3)


def main() -> None:
    """Train and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=2.0, help="processor minutes of the first training")
    parser.add_argument("--tune_minutes", type=float, default=1.0, help="processor minutes of each MARS training")
    parser.add_argument("--blocks", type=int, nargs="*", default=[4, 8, 16])
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument(
        "--out", type=Path, help="keep the MARS models here: benchmarks.mars --corpus templated times them"
    )
    parser.add_argument("--smoke", action="store_true", help="a tiny model and a few steps")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if args.smoke:
        args.minutes, args.tune_minutes, args.blocks, args.width, args.layers = 0.03, 0.02, [4], 32, 1
    base = train(fresh(args.width, args.layers), plain, seconds=60 * args.minutes)
    size = sum(parameter.numel() for parameter in base.model.parameters())
    print(f"{size / 1e6:.2f} M parameters; tokens a pass, in brackets the share of texts equal to greedy decoding")
    print(
        f"{'training':36} {'nats':>7} {'tau 0.95':>13} {'tau 0.5':>13} {'linear':>13} {'quadratic':>13} "
        f"{'steps':>6} {'ms/step':>8}"
    )
    report("autoregressive", base, max(args.blocks))
    for block in args.blocks:
        run = jacobi(base.model, templated.draw_prompts(0, 24), 96, width=block - 1)
        alone = [jacobi(base.model, [prompt], 96, width=block - 1) for prompt in templated.draw_prompts(0, 24)]
        rate = sum(len(each.tokens[0]) for each in alone) / sum(each.num_passes for each in alone)
        same = run.tokens == [each.tokens[0] for each in alone]
        print(
            f"{f'  Jacobi, {block - 1} guesses':36} {rate:.2f} tokens a pass, batch {'equal' if same else 'NOT equal'}"
        )
    for block in args.blocks:
        report_tunings(base.model, block, 60 * args.tune_minutes, args.out)
    plainly = peak_of(three_steps, args.width, args.layers, 0)
    for block in args.blocks:
        needed = peak_of(three_steps, args.width, args.layers, block)
        print(
            f"memory of a step, B = {block}: {needed / 1e6:.0f} MB, {needed / max(plainly, 1):.2f} x plain fine-tuning"
        )


if __name__ == "__main__":
    main()
