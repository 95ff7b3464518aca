"""Orthrus against plain cached autoregressive decoding: tokens a pass, seconds, equal texts, memory, in one run.

    python -m benchmarks.orthrus runs/orthrus-8/best models/mini-orthrus-8-published     # views that save_view wrote
    python -m benchmarks.orthrus --smoke                                               # random tiny ones: does it run

Every method runs on packed linear layers, and all take turns, so that a slow moment of the machine meets each of them;
a ratio is the median over batches and repeats of the ratio within one. Printed first is what rows cost, T(1) to T(16):
a method that decides t tokens a pass of R rows wins where T(R) / T(1) < t. Then for each batch size every view in every
cycle, greedy and at temperature 1; "equal" is the share of greedy texts that are transformers' own, "ties" the share
that leave it where the two likeliest tokens are within 1e-4; "dist", distinct-3, tells text that repeats itself, which
flatters every drafter. "contrary" is a view that always drafts what it thinks least likely. ``--identical 200`` holds
as many greedy texts to transformers' own. Last come long contexts, beside a drafter that keeps a cache of its own.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor

from anyorder.adapters import causal, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.orthrus.checkpoint import base_of
from benchmarks.causal_costs import print_row_costs
from benchmarks.causal_runs import COLUMNS, Run, add_sizes, by_transformers, code_prompts, in_turn, smoke_model
from benchmarks.orthrus_baselines import against_itself, cache_bytes, shallow, with_own_cache
from infill_eval.comparison.judging import causal_logits, compared, distinct
from infill_eval.comparison.methods import as_list
from infill_eval.comparison.models import run_name
from infill_eval.tracking import bar
from training import templated

GREEDY, GENERATE = "greedy, our cache", "generate, transformers, batch 1"
IDENTICAL_BATCH = 20
"""Prompts decoded at once where only their texts count."""


class View(NamedTuple):
    """A view under test: what it is called, with its base, packed."""

    name: str
    model: CausalModel


def ours(model: CausalModel, options: dict[str, Any], prompts: list[Tensor]) -> tuple[list[list[int]], int]:
    """``orthrus.generate`` of a batch; passes are summed over sequences, so that tokens a pass are a sequence's."""
    results = as_list(orthrus.generate(model, prompts, seed=0, **options))
    return [list(result.token_ids) for result in results], sum(result.stats.nfe for result in results)


def methods(model: CausalModel) -> dict[str, dict[str, Any]]:
    """Name and options of every way to decode with a view."""
    made: dict[str, dict[str, Any]] = {}
    if not model.anchor_in_view:
        made |= {"one pass": {}, "one pass, every outcome": {"lookahead": "quadratic"}}
        made["one pass, adaptive"] = {"policy": orthrus.adaptive(model)}
    made["two passes"] = {"cycle": "two-pass"}
    if model.anchor_in_view:
        made["two passes, denoised twice"] = {"denoising": 2}
    made["two passes, adaptive"] = {"cycle": "two-pass", "policy": orthrus.adaptive(model)}
    return made | {f"{name}, T = 1": options | {"temperature": 1.0} for name, options in made.items()}


def agreement(model: CausalModel, prompts: list[Tensor], texts: list[list[int]], wanted: list[list[int]]) -> str:
    """The shares of texts that are equal, and that part at a tie."""
    found = [
        compared(partial(causal_logits, model, prompt), text, other)
        for prompt, text, other in zip(prompts, texts, wanted, strict=True)
    ]
    return f"{found.count('equal') / len(found):6.2f} {found.count('tie') / len(found):6.2f}"


def compare(views: list[View], plain: CausalModel, prompts: list[Tensor], args: argparse.Namespace, batch: int) -> None:
    """Every view in every cycle against plain decoding, at one batch size."""
    limit = args.max_new_tokens
    reference = causal.to_transformers(plain)
    runs: dict[str, Run] = {GREEDY: partial(ours, views[0].model, {"block": 1, "max_new_tokens": limit})}
    sampled = set()
    for view in views:
        for name, options in methods(view.model).items():
            runs[f"{view.name}, {name}"] = partial(ours, view.model, options | {"max_new_tokens": limit})
            if "temperature" in options:
                sampled.add(f"{view.name}, {name}")
    runs[GENERATE] = partial(by_transformers, reference, limit)
    got = in_turn(runs, prompts, batch, args.repeats, f"batch {batch}")
    greedy, generate = got[GREEDY], got[GENERATE]
    print(f"\nbatch {batch}, {len(prompts)} prompts, at most {limit} tokens")
    print(f"{'':44} {COLUMNS[0]} {'equal':>6} {'ties':>6} {'dist':>6}\n{'':44} {COLUMNS[1]}")
    for name, one in got.items():
        equal = "" if name in sampled else agreement(plain, prompts, one.tokens, generate.tokens)
        print(f"{name:44} {one.columns(greedy, generate)} {equal:13} {distinct(one.tokens):6.2f}")
    for view in views:
        tokens, passes = against_itself(view.model, prompts, limit)
        rate = sum(map(len, tokens)) / max(passes, 1)
        equal = agreement(plain, prompts, tokens, generate.tokens)
        print(f"{f'{view.name}, contrary':44} {rate:9.2f} {'':30} {equal}")


def identical(views: list[View], plain: CausalModel, prompts: list[Tensor], limit: int) -> None:
    """How many greedy texts of every view and cycle are those of transformers' ``generate``; no clock."""
    wanted, _ = by_transformers(causal.to_transformers(plain), limit, prompts)
    print(f"\ngreedy texts of {len(prompts)} prompts, at most {limit} tokens, beside generate's")
    print(f"{'':44} {'equal':>6} {'ties':>6} {'pass':>6}")
    for view in views:
        for name, options in methods(view.model).items():
            if "temperature" not in options:
                chosen = options | {"max_new_tokens": limit}
                found = [
                    ours(view.model, chosen, prompts[start : start + IDENTICAL_BATCH])
                    for start in range(0, len(prompts), IDENTICAL_BATCH)
                ]
                tokens = [text for texts, _ in found for text in texts]
                rate = sum(map(len, tokens)) / max(sum(passes for _, passes in found), 1)
                print(f"{f'{view.name}, {name}':44} {agreement(plain, prompts, tokens, wanted)} {rate:6.2f}")


class Decoded(NamedTuple):
    """What decoding behind a context came to: bytes of keys and values, and tokens a second after the first."""

    bytes: int
    speed: float


def long_contexts(view: View, drafter: CausalModel, prompt: Tensor, args: argparse.Namespace) -> None:
    """Bytes beside those of plain decoding, and tokens a second once the context is read, by its length."""
    model, limit, width = view.model, args.max_new_tokens, (view.model.block or 1) - 1
    print(f"\n{view.name}: extra memory for keys and values, and tokens a second, by context")
    print(f"{'context':>8} {'view, bytes':>12} {'drafter, bytes':>15} {'AR':>8} {'view':>8} {'drafter':>8}")
    for length in args.contexts:
        text = prompt.repeat(-(-length // len(prompt)))[:length]
        runs: dict[str, Callable[[], Decoded]] = {
            "AR": partial(_decode, model, text, limit, block=1),
            "view": partial(_decode, model, text, limit),
            "drafter": partial(_draft, model, drafter, text, limit, width),
        }
        found: dict[str, list[Decoded]] = {name: [] for name in runs}
        for _ in bar(range(args.context_repeats), args.context_repeats, f"context {length}"):
            for name, run in runs.items():
                found[name].append(run())
        extra, beside = found["view"][0].bytes - found["AR"][0].bytes, found["drafter"][0].bytes
        speeds = " ".join(f"{median(one.speed for one in each):8.1f}" for each in found.values())
        print(f"{length:8d} {extra:12d} {beside:15d} {speeds}", flush=True)


def _decode(model: CausalModel, text: Tensor, limit: int, **options: Any) -> Decoded:
    made: list[int] = []

    def new_cache(batch: int, num_slots: int) -> SlotCache:
        cache = CausalModel.new_cache(model, batch, num_slots)
        made.append(cache_bytes(cache))
        return cache

    with patch.object(model, "new_cache", new_cache):
        result = as_list(orthrus.generate(model, [text], max_new_tokens=limit, eos_ids=(), **options))[0]
    return Decoded(sum(made), (limit - 1) / (result.stats.seconds - result.stats.prefill_seconds))


def _draft(model: CausalModel, drafter: CausalModel, text: Tensor, limit: int, width: int) -> Decoded:
    made = with_own_cache(model, drafter, text, limit, width=width, eos_ids=())
    return Decoded(made.drafter_bytes, (len(made.tokens) - 1) / made.seconds)


def open_views(args: argparse.Namespace) -> tuple[list[View], CausalModel, list[Tensor]]:
    """The views, their base as it was, and the prompts."""
    if args.smoke:
        views = []
        for anchor in ("frozen", "trainable"):
            model = orthrus.attach(smoke_model(), block=4, anchor=anchor)
            views.append(View(f"{anchor}, K = 4", model.requires_grad_(False).pack("lossless")))
        return views, smoke_model(), prompts_of(args, args.prompts)
    names = [run_name(path) for path in args.views]
    views = []
    for path, name in zip(args.views, names, strict=True):
        model = orthrus.load(path)
        called = name if names.count(name) == 1 else str(path)
        views.append(View(f"{called}, K = {model.block}", model.pack("lossless")))
    return views, causal.load(base_of(args.views[0])), prompts_of(args, args.prompts)


def prompts_of(args: argparse.Namespace, count: int) -> list[Tensor]:
    """So many prompts of the corpus that was asked for."""
    if args.smoke or args.corpus == "templated":
        return templated.draw_prompts(0, count)
    return code_prompts(Path(base_of(args.views[0])), count, args.prompt_length)


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("views", type=Path, nargs="*", help="directories that orthrus.save_view wrote, of one base")
    add_sizes(parser, prompts=16, batches=[1, 8])
    parser.add_argument("--contexts", type=int, nargs="*", default=[1024, 8192, 32768])
    parser.add_argument("--context_repeats", type=int, default=1, help="of the long contexts, which take long to read")
    parser.add_argument("--identical", type=int, default=0, help="prompts whose greedy texts are held to generate's")
    parser.add_argument("--drafter_layers", type=int, default=1, help="of the drafter with a cache of its own")
    parser.add_argument("--smoke", action="store_true", help="random tiny views, seconds")
    args = parser.parse_args(arguments)
    args.views = list(dict.fromkeys(args.views))
    if not args.views and not args.smoke:
        parser.error("name directories of views, or --smoke")
    return args


def main(arguments: list[str] | None = None) -> None:
    """Measure and print; see the module's docstring."""
    args = parse(arguments)
    torch.set_num_threads(args.threads)
    views, plain, prompts = open_views(args)
    print_row_costs(views[0].model, args.prompt_length, 5 if args.smoke else 50)
    for batch in args.batches:
        compare(views, plain, prompts, args, batch)
    if args.identical:
        identical(views, plain, prompts_of(args, args.identical), args.max_new_tokens)
    drafter = shallow(plain, args.drafter_layers).pack("lossless")
    for view in views if args.contexts else ():
        # Longer than it was made for: what counts here is what a pass costs, not what it says.
        most = max(args.contexts, default=0) + args.max_new_tokens
        view.model.config = dataclasses.replace(view.model.config, max_length=most)
        long_contexts(view, drafter, torch.cat(prompts), args)


if __name__ == "__main__":
    main()
