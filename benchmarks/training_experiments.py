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
from pathlib import Path

import torch

import anyorder
from anyorder.codec import train_vocabulary
from benchmarks.experiment_figures import HEADER, measure_arm
from training.allocator import keep_freed_memory
from training.files import write_atomically
from training.flags import parse
from training.run import fit
from training.sources import open_documents

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
