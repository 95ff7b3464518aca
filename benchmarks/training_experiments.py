"""The small experiments behind the recipes: one command a table, small models trained by ``fit``, measured alike.

    python -m benchmarks.training_experiments draft          # joint loss alone against draft losses: the main table
    python -m benchmarks.training_experiments joint          # joint against conditionally independent loss
    python -m benchmarks.training_experiments rates          # narrow against wide masking rates
    python -m benchmarks.training_experiments permutations   # 2^N sorted orders against N! arbitrary ones, and mixtures
    python -m benchmarks.training_experiments shapes         # vocabularies and sizes
    python -m benchmarks.training_experiments optimisers     # Muon against AdamW
    python -m benchmarks.training_experiments draft --minutes 10 --data sotu+wiki

Every arm has the same processor time (``--minutes`` each), data and start, and but for ``shapes`` the same vocabulary;
all but two are trained by Muon.
What is measured, on held-out windows, in ascending and in spread order at three masking rates: nats a token of the
joint, and a character, which vocabularies can be compared by; nats a token if decoded targets are read anew as prompt
at every step; how often a draft one step ahead is kept, by the overlap of p and q; and what real decoding takes on
other windows: passes a token and drafts kept a round of both methods, milliseconds a token.
"""

from __future__ import annotations

import argparse
import csv
import random
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import anyorder
from anyorder.codec import train_vocabulary
from anyorder.forbidden import Forbidden
from anyorder.likelihood import query_log_probs
from anyorder.model.loaded import Model
from anyorder.order import Order, OrderName
from anyorder.visibility import verify_rows
from training.allocator import keep_freed_memory
from training.config import ObjectiveConfig
from training.corpus import draw_window
from training.documents import Documents
from training.files import write_atomically
from training.flags import parse
from training.keyed import keyed_generator
from training.orders import draw_order
from training.run import fit
from training.sources import open_documents
from training.validation import RATES, held_out_set, measure

JOINT = "--draft_loss_weight 0 --spread_share 0 --random_share 0"
SCATTERED = f"{JOINT} --span_share 0 --suffix_share 0"

TABLES = {
    "draft": {
        "joint loss alone": "--draft_loss_weight 0",
        "weight 0.25, lags to 7": "--draft_loss_weight 0.25",
        "weight 0.5, lags to 7": "--draft_loss_weight 0.5",
        "weight 1, lags to 7": "--draft_loss_weight 1",
        "weight 0.5, lags to 3": "--draft_loss_weight 0.5 --max_lag 3",
        "weight 0.5, a draft row for each target": "--draft_loss_weight 0.5 --draft_share 1",
    },
    "joint": {
        "joint, sorted": JOINT,
        # A draft row that sees the prompt alone is what a conditionally independent (masked) model is trained on.
        "conditionally independent": f"{JOINT} --draft_loss_weight 1e4 --draft_share 1 --max_lag 10000",
    },
    "rates": {
        "narrow, 5 to 25 %": f"{SCATTERED} --mask_min 0.05 --mask_max 0.25",
        "narrow, 85 to 99 %": f"{SCATTERED} --mask_min 0.85 --mask_max 0.99",
        "wide, 5 to 100 %": SCATTERED,
        "joint, sorted": JOINT,
    },
    "permutations": {
        "joint, sorted": JOINT,
        "arbitrary": f"{JOINT} --any_permutation true",
        "85 % sorted, 10 % spread, 5 % random": f"{JOINT} --spread_share 0.1 --random_share 0.05",
        "60 % sorted, 40 % spread": f"{JOINT} --spread_share 0.4",
        "the same with drafts": "--draft_loss_weight 0.5 --spread_share 0.4 --random_share 0",
    },
    "shapes": {
        "vocabulary 4,096, width 192, 5 layers": "--vocab_size 4096 --width 192 --layers 5 --heads 3",
        "vocabulary 2,048": "--vocab_size 2048 --width 192 --layers 5 --heads 3",
        "vocabulary 8,192": "--vocab_size 8192 --width 192 --layers 5 --heads 3",
        "width 128, 4 layers": "--vocab_size 4096 --width 128 --layers 4 --heads 2",
        "width 256, 6 layers": "--vocab_size 4096 --width 256 --layers 6 --heads 4",
    },
    "optimisers": {
        "joint, sorted": JOINT,
        "AdamW, 1e-3": f"{JOINT} --optimizer adamw",
        "AdamW, 3e-3": f"{JOINT} --optimizer adamw --learning_rate 3e-3",
    },
}
"""The arms of every table, by what each adds to the flags of ``fit.py``."""

ORDERS: tuple[OrderName, ...] = ("ascending", "spread")

WAYS: dict[str, dict[str, Any]] = {
    "sequential": {"method": "sequential"},
    "ASSD, K = 4": {"method": "assd", "draft_length": 4},
    "ASSD, K = 8": {"method": "assd", "draft_length": 8},
    "one-pass, K = 4": {"method": "one-pass", "draft_length": 4},
    "one-pass, K = 8": {"method": "one-pass", "draft_length": 8},
}
"""What decodes the pieces."""


class Decoded(NamedTuple):
    """What one way to decode took: passes and seconds a token, drafts kept a round."""

    nfe: float
    kept: float
    seconds: float


class Line(NamedTuple):
    """What one model does at one masking rate in one order."""

    rate: float
    order: OrderName
    nats: float
    nats_a_character: float
    re_read: float
    kept: float
    decoded: tuple[Decoded, ...]

    def cells(self) -> list[str]:
        """The line of a Markdown table, without the name of the arm."""
        return [
            f"{self.rate:.0%}",
            self.order,
            f"{self.nats:.3f}",
            f"{self.nats_a_character:.3f}",
            f"{self.re_read:.3f}",
            f"{self.kept:.0%}",
            *(f"{each.nfe:.2f} ({each.kept:.2f})" for each in self.decoded[1:]),
            *(f"{1000 * each.seconds:.1f}" for each in self.decoded),
        ]


HEADER = (
    *("arm", "M tokens", "masked", "order", "nats a token", "a character", "nats, re-read", "kept at lag 1"),
    *(f"passes a token (kept a round), {way}" for way in list(WAYS)[1:]),
    *(f"ms a token, {way}" for way in WAYS),
)


def measure_arm(model: Model, documents: Documents, windows: int, pieces: int) -> list[Line]:
    """All lines of one model."""
    forbidden = Forbidden.of(model.network.vocab_size, ids=model.forbidden_ids)
    texts = documents.first(1000, held_out=True)
    tokens = sum(len(model.codec.encode(text)) for text in texts[:100])
    characters_a_token = sum(map(len, texts[:100])) / tokens
    sets = held_out_set(model.codec, texts, 1.1 * characters_a_token, windows, length=128)
    drawn = draw_pieces(model, texts, pieces)
    lines = []
    for order in ORDERS:
        asked = ObjectiveConfig(
            spread_share=float(order == "spread"), random_share=0.0, draft_loss_weight=1.0, draft_share=1.0
        )
        for rate in RATES:
            scores = measure(model.network, sets[str(rate)], forbidden, asked)
            figures = scores.figures("")
            decoded = tuple(decode_pieces(model, drawn, order, rate, options) for options in WAYS.values())
            re_read = re_read_nats(model, sets[str(rate)], forbidden, asked)
            nats = figures["nats@"]
            lines.append(Line(rate, order, nats, nats / characters_a_token, re_read, figures["kept1@"], decoded))
    return lines


@torch.no_grad()
def re_read_nats(
    model: Model, batches: list[tuple[Tensor, Order]], forbidden: Forbidden, config: ObjectiveConfig, draws: int = 8
) -> float:
    """Nats a token if decoded targets become prompt and are read anew, in both directions, at every step.

    It is what a model trained on the conditionally independent loss knows how to do; a pass a token. Estimated on
    ``draws`` random targets of each window.
    """
    costs = []
    for number, (tokens, order) in enumerate(batches):
        keys = [(number, row) for row in range(len(tokens))]
        is_target = order.to_positions(torch.arange(order.num_steps) >= order.num_prompt[:, None])
        drawn = draw_order(is_target, order.length, keys, config, seed=0)
        generator = keyed_generator("re-read", number)
        for _ in range(draws):
            place = (torch.rand(len(tokens), generator=generator) * drawn.num_targets).long()
            re_read = replace(drawn, num_prompt=drawn.num_prompt + place)
            query = verify_rows(re_read.num_prompt[:, None])
            by_step = re_read.to_steps(tokens)
            costs.append(-query_log_probs(model.network, by_step, re_read, query=query, forbidden=forbidden))
    return float(torch.cat(costs).mean())


def draw_pieces(model: Model, texts: list[str], count: int) -> list[tuple[str, int]]:
    """Pieces of held-out text that the model can read, and how many tokens each has."""
    draw, pieces = random.Random(0), []
    for _ in range(count):
        spelled = model.tokenize(draw_window(texts, 300, draw))[: model.max_length]
        pieces.append(("".join(token.text for token in spelled), len(spelled)))
    return pieces


def decode_pieces(
    model: Model, pieces: list[tuple[str, int]], order: OrderName, rate: float, options: dict[str, Any]
) -> Decoded:
    """What decoding takes, with the same blanks for every way."""
    draw = random.Random(0)
    tokens = nfe = kept = rounds = 0
    seconds = 0.0
    for seed, (text, count) in enumerate(pieces):
        positions = sorted(draw.sample(range(count), max(round(rate * count), 1)))
        start = time.process_time()
        stats = anyorder.infill(text, positions, model=model, seed=seed, marker=None, order=order, **options).stats
        seconds += time.process_time() - start
        tokens, nfe = tokens + stats.tokens, nfe + stats.nfe
        kept, rounds = kept + stats.num_accepted, rounds + stats.rounds
    return Decoded(nfe / tokens, kept / rounds, seconds / tokens)


def run_table(name: str, common: list[str], windows: int, pieces: int) -> None:
    """Train the arms of a table, one after the other, and print it as it grows."""
    base = parse(common)
    documents = open_documents(base.data, base.run.seed)
    vocabulary = base.run.out / "tokenizer.model"
    if base.data.tokenizer is None and not vocabulary.is_file():
        base.run.out.mkdir(parents=True, exist_ok=True)
        texts = documents.first(base.data.vocabulary_documents, held_out=False)
        write_atomically(vocabulary, train_vocabulary(texts, vocab_size=base.data.vocab_size))
    shared = ["--tokenizer", str(base.data.tokenizer or vocabulary)]
    print("| " + " | ".join(HEADER) + " |\n|" + " --- |" * len(HEADER), flush=True)
    for arm, flags in TABLES[name].items():
        # An arm of several tables is trained once; another length is another model.
        label = f"{arm} {base.run.minutes:g} minutes".replace(" ", "-").replace("%", "pc").replace(",", "")
        out = base.run.out / label
        own = [] if "--vocab_size" in flags else shared
        fit(parse([*common, *own, *flags.split(), "--out", str(out)]), documents)
        for line in measure_arm(anyorder.load(out / "last"), documents, windows, pieces):
            print("| " + " | ".join([arm, f"{tokens_seen(out):.2f}", *line.cells()]) + " |", flush=True)


def tokens_seen(run: Path) -> float:
    """Millions of tokens that a run was trained on."""
    with (run / "log.csv").open(newline="") as file:
        return float(list(csv.DictReader(file))[-1]["tokens"]) / 1e6


def main() -> None:
    """Run one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("--minutes", type=float, default=10, help="processor minutes of training for each arm")
    parser.add_argument("--data", default="python-stdlib")
    parser.add_argument("--out", type=Path, default=Path("runs/experiments"))
    parser.add_argument("--tokenizer", type=Path, default=None, help="a vocabulary; trained on the data if omitted")
    parser.add_argument("--windows", type=int, default=48, help="held-out windows behind each density")
    parser.add_argument("--pieces", type=int, default=30, help="held-out pieces that are really decoded")
    args, options = parser.parse_known_args()
    keep_freed_memory()
    torch.set_num_threads(1)
    given = ["--minutes", str(args.minutes), "--data", args.data, "--out", str(args.out)]
    given += ["--tokenizer", str(args.tokenizer)] if args.tokenizer else []
    small = ["--width", "128", "--layers", "4", "--heads", "4", "--vocab_size", "512", "--optimizer", "muon"]
    small += ["--lengths", "{64: 0.3, 128: 0.7}", "--validate_minutes", "1000", "--validate_windows", "16"]
    run_table(args.table, [*small, *given, *options], args.windows, args.pieces)


if __name__ == "__main__":
    main()
