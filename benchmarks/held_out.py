"""What drafting gains on trained weights: passes and seconds a token of every method on held-out code.

    python -m benchmarks.held_out          # the bundled model, about ten minutes on two cores

Pieces of standard library files that the bundled model was not trained on, either with 95 % of their tokens masked or
with one line masked, filled one at a time through ``anyorder.infill``, as a user would. Every piece is filled by every
method, the methods taking turns at going first, so that a slow moment of the machine meets them all.
"""

from __future__ import annotations

import argparse
import random
import time
from typing import NamedTuple

import torch
from tqdm import tqdm

import anyorder
from anyorder.decoding.generation import Method
from anyorder.model.loaded import Model
from training.corpus import draw_window, load_texts


class Piece(NamedTuple):
    """A text and what of it is masked, as ``anyorder.infill`` takes it."""

    text: str
    mask_positions: list[tuple[int, int]] | list[int]


class Way(NamedTuple):
    """A method and its draft length."""

    method: Method
    draft_length: int | None

    def __str__(self) -> str:
        if self.method == "sequential":
            return self.method
        return f"{self.method}, K = {'chosen' if self.draft_length is None else self.draft_length}"


WAYS = (
    Way("sequential", None),
    *(Way("assd", length) for length in (3, 4, 6, None)),
    *(Way("one-pass", length) for length in (1, 2, 4, 7, None)),
)


class Cost(NamedTuple):
    """What one way of filling one piece cost."""

    tokens: int
    nfe: int
    seconds: float


def mostly_masked(model: Model, count: int, draw: random.Random) -> list[Piece]:
    """Pieces of 96 tokens with 95 % of their tokens masked."""
    pieces: list[Piece] = []
    texts = load_texts(held_out=True)
    while len(pieces) < count:
        tokens = model.tokenize(draw_window(texts, 400, draw))[:96]
        if len(tokens) == 96:
            text = "".join(token.text for token in tokens)
            pieces.append(Piece(text, sorted(draw.sample(range(96), round(0.95 * 96)))))
    return pieces


def one_line(count: int, draw: random.Random) -> list[Piece]:
    """Pieces of about 600 characters with the text of one line masked."""
    pieces: list[Piece] = []
    texts = load_texts(held_out=True)
    while len(pieces) < count:
        text = draw_window(texts, 600, draw)
        lines = text.splitlines(keepends=True)
        number = draw.randrange(len(lines))
        line = lines[number]
        if len(line.strip()) < 8:
            continue
        start = sum(map(len, lines[:number])) + len(line) - len(line.lstrip())
        pieces.append(Piece(text, [(start, start + len(line.strip()))]))
    return pieces


def measure(model: Model, pieces: list[Piece], label: str) -> dict[Way, list[Cost]]:
    """Fill every piece in every way."""
    costs: dict[Way, list[Cost]] = {way: [] for way in WAYS}
    for number, piece in enumerate(tqdm(pieces, desc=label)):
        turn = number % len(WAYS)
        for way in (*WAYS[turn:], *WAYS[:turn]):
            start = time.perf_counter()
            result = anyorder.infill(
                piece.text,
                piece.mask_positions,
                model=model,
                method=way.method,
                draft_length=way.draft_length,
                seed=number,
                marker=None,
            )
            took = time.perf_counter() - start
            costs[way].append(Cost(result.stats.tokens, result.stats.nfe, took))
    return costs


def ratio_with_error(costs: list[Cost], baseline: list[Cost]) -> tuple[float, float]:
    """Total seconds over the baseline's, and its standard error by the jackknife over pieces."""
    mine = torch.tensor([cost.seconds for cost in costs], dtype=torch.float64)
    other = torch.tensor([cost.seconds for cost in baseline], dtype=torch.float64)
    without = (mine.sum() - mine) / (other.sum() - other)
    error = ((len(without) - 1) * without.var(correction=0)).sqrt()
    return float(mine.sum() / other.sum()), float(error)


def print_table(title: str, costs: dict[Way, list[Cost]]) -> None:
    """Passes and seconds a token of every way, and seconds relative to sequential decoding."""
    print(f"\n{title}")
    print(f"{'':24} {'passes/token':>12} {'ms/token':>9} {'seconds / sequential':>22}")
    for way, found in costs.items():
        tokens = sum(cost.tokens for cost in found)
        ratio, error = ratio_with_error(found, costs[WAYS[0]])
        nfe, spent = sum(cost.nfe for cost in found) / tokens, sum(cost.seconds for cost in found) / tokens
        print(f"{way!s:24} {nfe:12.3f} {spent * 1e3:9.2f} {ratio:15.3f} ± {error:.3f}")


def main() -> None:
    """Measure and print; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default=None, help="what anyorder.load takes; the bundled default when omitted")
    parser.add_argument("--pieces", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    model = anyorder.load(args.model)
    draw = random.Random(args.seed)
    for title, pieces in (
        (f"{args.pieces} held-out pieces of 96 tokens, 95 % masked", mostly_masked(model, args.pieces, draw)),
        (f"{args.pieces} held-out pieces, one line masked", one_line(args.pieces, draw)),
    ):
        print_table(title, measure(model, pieces, title))


if __name__ == "__main__":
    main()
