"""A training step against Hugging Face's ``XLNetLMHeadModel`` on the same objective, weights and batch, in one run.

    python -m benchmarks.training_step                     # 7 M and 110 M parameters, about twelve minutes on two cores
    python -m benchmarks.training_step --shapes 7M --repeats 3

Forward, backward, clipping and a fused AdamW step on the joint loss of one masking rate. Hugging Face gets the batch as
its best users give it: ``perm_mask`` and a ``target_mapping`` of the targets only. Both are printed as fractions of
the machine's matrix-multiply rate, of the operations that the objective needs (linear layers and attention of content
rows and query rows, three times forward), and with the memory a step takes beyond its weights' process.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from anyorder.forbidden import Forbidden
from anyorder.likelihood import target_steps
from anyorder.model.config import XLNetConfig
from anyorder.model.convert import export
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from benchmarks.machine import linear_weights, measure, peak_of
from training.allocator import keep_freed_memory
from training.config import OptimizerConfig
from training.objective import loss_sums
from training.optimizers import make_optimizers

SHAPES = {
    "7M": XLNetConfig(vocab_size=8192, d_model=256, n_layer=6, n_head=4, d_inner=1024, dropout=0.0),
    "110M": XLNetConfig(vocab_size=32000, d_model=768, n_layer=12, n_head=12, d_inner=3072, dropout=0.0),
}

TOKENS = {"7M": 2048, "110M": 512}
"""Tokens of a batch."""


class Batch(NamedTuple):
    """Tokens (B, L) in position space and their order."""

    tokens: Tensor
    order: Order


def make_batch(config: XLNetConfig, length: int, tokens: int, rate: float) -> Batch:
    """Random tokens, as many targets in every row."""
    generator = torch.Generator().manual_seed(0)
    rows = max(tokens // length, 1)
    is_target = torch.rand(rows, length, generator=generator).argsort(1) < round(rate * length)
    return Batch(torch.randint(config.vocab_size, (rows, length), generator=generator), Order.from_targets(is_target))


def our_loss(network: XLNet, batch: Batch) -> Tensor:
    """The joint loss as ``training/fit.py`` computes it."""
    nothing = Forbidden.of(network.vocab_size)
    return loss_sums(network, batch.tokens, batch.order, forbidden=nothing).mean().verify


def reference_inputs(batch: Batch) -> dict[str, Tensor]:
    """The same question in position space: who may see whom, and which positions are asked."""
    order, (rows, length) = batch.order, batch.tokens.shape
    rank = order.rank
    sees = torch.maximum(rank, order.num_prompt[:, None])
    steps = target_steps(order)
    positions = order.sigma.gather(1, steps)
    mapping = torch.zeros(rows, steps.shape[1], length).scatter_(2, positions[..., None], 1.0)
    return {
        "input_ids": batch.tokens,
        "perm_mask": (rank[:, None, :] >= sees[:, :, None]).float(),
        "target_mapping": mapping,
        "labels": batch.tokens.gather(1, positions),
    }


def reference_network(network: XLNet) -> nn.Module:
    """Hugging Face's model with the same weights, in training mode."""
    from transformers import XLNetConfig as HuggingFaceConfig
    from transformers import XLNetLMHeadModel

    model = XLNetLMHeadModel(HuggingFaceConfig(**network.config.to_dict()))
    model.load_state_dict(dict(export(network)), strict=False)
    model.tie_weights()
    trained: nn.Module = model.train()
    return trained


def make_step(model: nn.Module, loss: Callable[[], Tensor]) -> Callable[[], float]:
    """One optimiser step; returns the loss before it."""
    (optimizer,) = make_optimizers(model, OptimizerConfig(learning_rate=1e-5))

    def step() -> float:
        value = loss()
        value.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return float(value.detach())

    return step


def needed_operations(config: XLNetConfig, batch: Batch) -> float:
    """Floating-point operations of one step that no implementation can leave out (but for what masks hide)."""
    content = batch.tokens.numel()
    query = int(batch.order.num_targets.sum())
    every, of_content, of_query = linear_weights(config)
    linear = every * query + of_query * query + (every * (config.n_layer - 1) / config.n_layer + of_content) * content
    rows = (config.n_layer - 1) * content + config.n_layer * query
    attention = 2 * config.d_model * rows * batch.tokens.shape[1]
    return 3 * 2 * (linear + attention)


def two_steps(who: str, name: str, length: int, rate: float) -> Callable[[], object]:
    """Two steps of a contender, of which the first makes what the optimiser remembers."""
    step = contenders(name, length, rate, only=who)[who]
    return lambda: (step(), step())


def contenders(name: str, length: int, rate: float, only: str = "") -> dict[str, Callable[[], float]]:
    """What is compared, by who made it, on the same weights and batch."""
    network = XLNet(SHAPES[name]).initialise(torch.Generator().manual_seed(0)).train()
    batch = make_batch(SHAPES[name], length, TOKENS[name], rate)
    steps = {}
    if only != "ours":
        theirs = reference_network(network)
        inputs = reference_inputs(batch)
        steps["theirs"] = make_step(theirs, lambda: theirs(**inputs, use_mems=False).loss)
    if only != "theirs":
        steps["ours"] = make_step(network, lambda: our_loss(network, batch))
    return steps


def compare(name: str, length: int, rate: float, repeats: int, flops_per_second: float) -> str:
    """One line of the table: both contenders taking turns on one batch."""
    steps = contenders(name, length, rate)
    first = {who: step() for who, step in steps.items()}
    if abs(first["ours"] - first["theirs"]) > 1e-3:
        raise RuntimeError(f"not the same objective: {first}")
    memory = {who: peak_of(two_steps, who, name, length, rate) / 2**20 for who in steps}
    times: dict[str, list[float]] = {who: [] for who in steps}
    for _ in range(repeats):
        for who, step in steps.items():
            start = time.perf_counter()
            step()
            times[who].append(time.perf_counter() - start)
    best = {who: statistics.median(values) for who, values in times.items()}
    batch = make_batch(SHAPES[name], length, TOKENS[name], rate)
    floor = needed_operations(SHAPES[name], batch) / flops_per_second
    cells = [name, length, f"{rate:.0%}"]
    cells += [f"{best[who]:.3f} s, {floor / best[who]:.0%}, {memory[who]:.0f} MB" for who in ("theirs", "ours")]
    return "| " + " | ".join(map(str, [*cells, f"{best['theirs'] / best['ours']:.2f}"])) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--lengths", nargs="+", type=int, default=[256, 512])
    parser.add_argument("--rates", nargs="+", type=float, default=[0.15, 0.95])
    args = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    machine = measure()
    print(f"{args.threads} threads, {machine.flops_per_second / 1e9:.0f} GFLOP/s in a large matrix product\n")
    print("| parameters | L | masked | Hugging Face: seconds, of GEMM rate, memory | anyorder | times faster |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in args.shapes:
        for length in args.lengths:
            for rate in args.rates:
                print(compare(name, length, rate, args.repeats, machine.flops_per_second), flush=True)


if __name__ == "__main__":
    main()
