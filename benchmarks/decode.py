"""Decoding speed at the XLNet-base shape: the published way against ours, in one run, each pass beside its floor.

    python -m benchmarks.decode            # about four minutes on two cores

Random weights, L = 512, 95 % masked, K = 5. The baseline is the published algorithm as it is: both passes of a round
recompute the whole sequence through Hugging Face's ``XLNetLMHeadModel``. Random weights keep nearly every draft and so
flatter every drafter: seconds a pass are what counts here, tokens a pass only on trained weights
(``python -m benchmarks.held_out``).
"""

from __future__ import annotations

import argparse
import os
import time
from typing import NamedTuple

import torch
from torch import Tensor, nn

from anyorder.decoding import DecodeOptions, Generation, decode
from anyorder.forbidden import Forbidden
from anyorder.model.config import XLNetConfig
from anyorder.model.convert import export
from anyorder.model.linear import Packing
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.uniforms import Uniforms
from anyorder.visibility import Rows, content_rows, draft_rows
from benchmarks.machine import Machine, measure, pass_floor, seconds

DRAFT_LENGTH = 5


class Task(NamedTuple):
    """One sequence to fill: tokens in position space and which of them are given."""

    tokens: Tensor
    order: Order


def base_config() -> XLNetConfig:
    """The shape of xlnet-base-cased."""
    return XLNetConfig(vocab_size=32000, d_model=768, n_layer=12, n_head=12, d_inner=3072, dropout=0.0)


def make_task(length: int, vocab_size: int, seed: int = 0) -> Task:
    """A random sequence with 95 % of it masked."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocab_size, (1, length), generator=generator)
    is_target = torch.rand(1, length, generator=generator).argsort() >= round(0.05 * length)
    return Task(tokens, Order.from_targets(is_target))


def published_pass_seconds(network: XLNet, task: Task, rounds: int) -> float:
    """Seconds a pass of the published algorithm: draft, then verify, the whole sequence recomputed each time.

    Every round stands at another place of the sequence, so that no mask is met twice.
    """
    from transformers import XLNetConfig as HuggingFaceConfig
    from transformers import XLNetLMHeadModel

    model: nn.Module = XLNetLMHeadModel(HuggingFaceConfig.from_dict(network.config.to_dict()))
    model.eval().load_state_dict(dict(export(network)), strict=False)
    rank = task.order.rank[0]
    length, prompt = len(rank), int(task.order.num_prompt)
    times = []
    for number in range(rounds + 1):
        decoded = prompt + number * (length - prompt - DRAFT_LENGTH) // (rounds + 1)
        targets = task.order.sigma[0, decoded : decoded + DRAFT_LENGTH]
        mapping = torch.zeros(1, DRAFT_LENGTH, length)
        mapping[0, torch.arange(DRAFT_LENGTH), targets] = 1.0
        start = time.perf_counter()
        for limit in (torch.full_like(rank, decoded), rank):  # what each position's row may see: a draft, its past
            visible = rank[None, :] < torch.maximum(limit, torch.tensor(prompt))[:, None]
            model(task.tokens, perm_mask=(~visible).float()[None], target_mapping=mapping)
        times.append((time.perf_counter() - start) / 2)
    return sum(times[1:]) / rounds


def run(network: XLNet, task: Task, options: DecodeOptions, seed: int = 0) -> Generation:
    """Fill the task in one of the library's ways."""
    by_step, forbidden = task.order.to_steps(task.tokens), Forbidden.of(network.vocab_size)
    return decode(network, by_step, task.order, uniforms=Uniforms([seed]), options=options, forbidden=forbidden)


def pass_seconds(network: XLNet, task: Task, *, batch: int, content: int, query: int, repeats: int) -> float:
    """Median seconds of one pass in the middle of the sequence, with a warm cache."""
    order = Order(*(value.repeat(batch, *[1] * (value.dim() - 1)) for value in vars(task.order).values()))
    by_step = order.to_steps(task.tokens.expand(batch, -1))
    cache = network.new_cache(batch, order.num_steps)
    middle = order.num_steps // 2
    steps = torch.arange(order.num_steps)
    network.forward(
        by_step,
        order.sigma,
        cache,
        encode=content_rows(order, steps[:middle].expand(batch, -1)),
        query=Rows(steps[:0].expand(batch, -1), steps[:0].expand(batch, -1)),
    )
    encode = content_rows(order, (middle + torch.arange(content)).expand(batch, -1))
    asked = draft_rows((middle + content + torch.arange(query)).expand(batch, -1), torch.tensor([middle] * batch))
    return seconds(
        lambda: network.forward(by_step, order.sigma, cache, encode=encode, query=asked, num_slots=middle + content),
        repeats=repeats,
    )


def build(seed: int, packing: Packing) -> XLNet:
    """The base shape with random weights, its linear layers packed."""
    return XLNet(base_config()).initialise(torch.Generator().manual_seed(seed)).eval().pack(packing)


def print_passes(machine: Machine, networks: dict[Packing, XLNet], task: Task, repeats: int) -> None:
    """Each kind of pass beside its floor, of the weights alone and with the keys and values it has to read."""
    print(f"\n{'pass':58} {'ms':>8} {'floor':>8} {'ratio':>6} {'with cache':>11} {'ratio':>6}")
    shapes = (
        ("2 rows (sequential: 1 content, 1 query)", 1, 1, 1),
        ("10 rows (5 content, 5 query)", 1, 5, 5),
        ("40 rows (one-pass, K = 5: 6 content, 34 query)", 1, 6, 34),
        ("batch 16, 2 rows each", 16, 1, 1),
    )
    for packing, network in networks.items():
        for name, batch, content, query in shapes:
            took = pass_seconds(network, task, batch=batch, content=content, query=query, repeats=repeats)
            slots = batch * (task.order.num_steps // 2 + content)
            of_weights, of_all = (
                pass_floor(
                    machine,
                    network.config,
                    content=batch * content,
                    query=batch * query,
                    bytes_per_weight=2 if packing == "float16" else 4,
                    cached=cached,
                )
                for cached in (0, slots)
            )
            print(
                f"{packing + ', ' + name:58} {took * 1e3:8.1f} {of_weights * 1e3:8.1f} {took / of_weights:6.2f} "
                f"{of_all * 1e3:11.1f} {took / of_all:6.2f}"
            )


@torch.no_grad()
def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the published algorithm that are timed")
    parser.add_argument("--repeats", type=int, default=15, help="passes behind each median")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    machine = measure()
    print(
        f"{os.cpu_count()} cores, {args.threads} threads: reads {machine.bytes_per_second / 1e9:.1f} GB/s, "
        f"multiplies {machine.flops_per_second / 1e9:.0f} GFLOP/s in float32"
    )
    task = make_task(args.length, base_config().vocab_size)
    networks: dict[Packing, XLNet] = {"packed": build(0, "packed"), "float16": build(0, "float16")}
    print_passes(machine, networks, task, args.repeats)

    baseline = published_pass_seconds(build(0, "plain"), task, args.rounds)
    header = f"95 % of {args.length} masked, K = {DRAFT_LENGTH}"
    print(f"\n{header:46} {'passes':>7} {'tokens/pass':>12} {'ms/pass':>9} {'(a) / it, per pass':>19}")
    print(f"{'(a) published, recomputing with Hugging Face':46} {'':7} {'':12} {baseline * 1e3:9.1f} {1.0:19.1f}")
    for label, packing, method in (
        ("(b) sequential", "packed", "sequential"),
        ("(c) ASSD", "packed", "assd"),
        ("(d) one-pass", "packed", "one-pass"),
        ("(e) sequential, float16 weights", "float16", "sequential"),
    ):
        stats = run(networks[packing], task, DecodeOptions(method=method, draft_length=DRAFT_LENGTH)).stats[0]  # type: ignore[index, arg-type]
        a_pass = stats.seconds / stats.nfe
        print(
            f"{label:46} {stats.nfe:7d} {stats.tokens / stats.nfe:12.2f} {a_pass * 1e3:9.1f} {baseline / a_pass:19.1f}"
        )


if __name__ == "__main__":
    main()
