"""Train the bundled model ``mini-code`` on the running Python's own standard library: one plain loop, one thread.

    export MALLOC_MMAP_THRESHOLD_=8589934592 MALLOC_TRIM_THRESHOLD_=17179869184 MALLOC_TOP_PAD_=268435456
    python -m training.train_mini_code --minutes 75 --out runs/mini-code

(The variables keep glibc from returning every large tensor's pages to the system: measured 1.6 times faster on a CPU.)
Files are split into training and held-out by a hash of their path before anything else. The learning rate follows the
processor time used, so the run ends when it was told to, whatever else the machine does. In the output directory
``log.csv`` holds the held-out density as it went.
"""

from __future__ import annotations

import argparse
import csv
import math
import random
import shutil
import time
from pathlib import Path
from typing import get_args

import torch
from torch import Tensor
from tqdm import tqdm

from anyorder.codec import SentencePieceCodec, train_vocabulary
from anyorder.forbidden import Forbidden
from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from anyorder.order import Order, OrderName, arrange
from training.blanks import Example, scattered, spans, suffix
from training.corpus import draw_window, load_texts
from training.objective import objective

LENGTHS = {64: 0.25, 128: 0.45, 256: 0.25, 512: 0.05}
"""Sequence lengths in tokens and how often each is drawn; short ones so that snippets work as well as files."""

TOKENS_PER_STEP = 1536
MAX_LAG = 7
DRAFT_SHARE = 0.4
DRAFT_WEIGHT = 0.5
CHARACTERS_PER_TOKEN = 3.9
"""A little more than the vocabulary's average, so that a window of text fills its sequence."""


class Sampler:
    """Draws windows of text, blanks and orders for one step."""

    def __init__(self, texts: list[str], codec: SentencePieceCodec, seed: int) -> None:
        self.texts, self.codec = texts, codec
        self.draw = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def batch(self) -> tuple[Tensor, Order]:
        """Token ids (B, L) and their order, about ``TOKENS_PER_STEP`` tokens with similar masking rates in each row."""
        length = self.draw.choices(list(LENGTHS), list(LENGTHS.values()))[0]
        kind = self.draw.choices((scattered, spans, suffix), (0.25, 0.6, 0.15))[0]
        low, high = (0.05, 1.0) if kind is not spans else (0.02, 0.6)
        rate = self.draw.uniform(low, high)
        count = TOKENS_PER_STEP // length
        examples = [
            kind(self.codec, draw_window(self.texts, int(length * CHARACTERS_PER_TOKEN), self.draw), rate, self.draw)
            for _ in range(count)
        ]
        tokens, order = collate(examples, length)
        name = self.draw.choices(get_args(OrderName), (0.85, 0.05, 0.1))[0]
        return tokens, order.rearranged([arrange(size, name, self.generator) for size in order.num_targets.tolist()])


def collate(examples: list[Example], length: int) -> tuple[Tensor, Order]:
    """Cut to ``length`` tokens, pad, prompt before targets; a row without targets gets its last token as one."""
    tokens = torch.zeros(len(examples), length, dtype=torch.long)
    is_target = torch.zeros(len(examples), length, dtype=torch.bool)
    lengths = torch.zeros(len(examples), dtype=torch.long)
    for row, example in enumerate(examples):
        size = min(len(example.ids), length)
        tokens[row, :size] = torch.tensor(example.ids[:size])
        is_target[row, :size] = torch.tensor(example.is_target[:size])
        is_target[row, size - 1] |= ~is_target[row].any()
        lengths[row] = size
    return tokens, Order.from_targets(is_target, lengths)


@torch.no_grad()
def validate(model: XLNet, codec: SentencePieceCodec, texts: list[str], forbidden: Forbidden) -> dict[str, float]:
    """Held-out nats a token at three masking rates, and for drafts at lags 1 to 7, on the same 48 windows each time."""
    model.eval()
    result = {}
    for rate in (0.15, 0.5, 0.95):
        sampler = Sampler(texts, codec, seed=1)
        examples = [scattered(codec, draw_window(texts, 1000, sampler.draw), rate, sampler.draw) for _ in range(48)]
        tokens, order = collate(examples, 256)
        parts = [
            objective(
                model,
                tokens[i : i + 16],
                order.select(torch.arange(i, i + 16)),
                forbidden=forbidden,
                max_lag=MAX_LAG,
                generator=sampler.generator,
            )
            for i in range(0, 48, 16)
        ]
        result[f"nats@{rate}"] = float(torch.stack([p.verify for p in parts]).mean())
        result[f"draft@{rate}"] = float(torch.stack([p.draft for p in parts]).mean())
    model.train()
    return result


def learning_rate(progress: float, step: int, peak: float) -> float:
    """Linear warm-up over 250 steps or a twentieth of the time, then a cosine over the run's time to a hundredth."""
    return (
        peak
        * min(1.0, max((step + 1) / 250, progress / 0.05))
        * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0))))
    )


def prepare(args: argparse.Namespace, train: list[str]) -> tuple[XLNet, SentencePieceCodec]:
    """A fresh vocabulary and network, or those of the run that ``--start`` names."""
    vocabulary = args.out / "tokenizer.model"
    if args.start is None:
        train_vocabulary(train, vocabulary, vocab_size=4096)
    else:
        shutil.copy(args.start / vocabulary.name, vocabulary)
    codec = SentencePieceCodec.from_file(vocabulary)
    config = XLNetConfig(
        vocab_size=codec.vocab_size,
        d_model=args.width,
        n_layer=args.layers,
        n_head=args.heads,
        d_inner=4 * args.width,
        dropout=0.0,
    )
    model = XLNet(config).initialise(torch.Generator().manual_seed(args.seed)).train()
    if args.start is not None:
        model.load_state_dict(torch.load(args.start / "weights.pt", weights_only=True))
    return model, codec


def make_optimiser(model: XLNet) -> torch.optim.AdamW:
    """AdamW that decays matrices and leaves biases and norms alone; the learning rate is set at every step."""
    matrices = [parameter for parameter in model.parameters() if parameter.dim() > 1]
    rest = [parameter for parameter in model.parameters() if parameter.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, betas=(0.9, 0.98), fused=True)


def train_step(model: XLNet, optimiser: torch.optim.AdamW, sampler: Sampler, forbidden: Forbidden) -> tuple[float, int]:
    """One step on one batch: the joint loss in nats a token, and the number of tokens read."""
    tokens, order = sampler.batch()
    loss = objective(
        model,
        tokens,
        order,
        forbidden=forbidden,
        max_lag=MAX_LAG,
        draft_share=DRAFT_SHARE,
        generator=sampler.generator,
    )
    (loss.verify + DRAFT_WEIGHT * loss.draft).backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimiser.step()
    optimiser.zero_grad()
    return float(loss.verify.detach()), int(order.length.sum())


def save_weights(model: XLNet, directory: Path) -> None:
    """Write ``weights.pt`` so that a kill leaves the last complete one."""
    torch.save(model.state_dict(), directory / "weights.tmp")
    (directory / "weights.tmp").rename(directory / "weights.pt")


def parse_arguments() -> argparse.Namespace:
    """The flags."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=75, help="processor minutes to train for")
    parser.add_argument("--out", type=Path, default=Path("runs/mini-code"), help="where weights and log go")
    parser.add_argument("--peak", type=float, default=1e-3, help="highest learning rate")
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--heads", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--start", type=Path, default=None, help="a finished run to go on from, with a fresh optimiser")
    return parser.parse_args()


def main() -> None:
    """Train, log, save; see the module's docstring."""
    args = parse_arguments()
    torch.set_num_threads(1)
    args.out.mkdir(parents=True, exist_ok=True)
    train, held_out = load_texts(held_out=False), load_texts(held_out=True)
    model, codec = prepare(args, train)
    forbidden = Forbidden.of(codec.vocab_size, ids=codec.forbidden_ids)
    optimiser, sampler = make_optimiser(model), Sampler(train, codec, seed=args.seed)
    start, step, tokens_seen, next_report = time.process_time(), 0, 0, 0.0
    average = float("nan")
    bar = tqdm(total=round(args.minutes * 60), unit="s", desc="mini-code", mininterval=1)
    with (args.out / "log.csv").open("w", newline="") as file:
        log = csv.writer(file)
        while True:
            elapsed = time.process_time() - start
            progress = elapsed / (args.minutes * 60)
            if elapsed >= next_report or progress >= 1:
                scores = validate(model, codec, held_out, forbidden)
                if step == 0:
                    log.writerow(["step", "tokens", "minutes", "train", *scores])
                row = [f"{elapsed / 60:.1f}", *(f"{value:.3f}" for value in (average, *scores.values()))]
                log.writerow([step, tokens_seen, *row])
                file.flush()
                save_weights(model, args.out)
                next_report += 300
                if progress >= 1:
                    break
            for group in optimiser.param_groups:
                group["lr"] = learning_rate(progress, step, args.peak)
            value, read = train_step(model, optimiser, sampler, forbidden)
            average = value if math.isnan(average) else 0.98 * average + 0.02 * value
            step, tokens_seen = step + 1, tokens_seen + read
            bar.n = min(round(elapsed), bar.total)
            bar.set_postfix(step=step, loss=f"{average:.3f}", tokens_per_s=f"{tokens_seen / max(elapsed, 1e-9):.0f}")


if __name__ == "__main__":
    main()
