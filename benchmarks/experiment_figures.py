"""What the small experiments measure: densities, how often drafts are kept, and what real decoding takes."""

from __future__ import annotations

import random
import time
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

import anyorder
from anyorder.forbidden import Forbidden
from anyorder.likelihood import query_log_probs
from anyorder.model.loaded import Model
from anyorder.order import Order, OrderName
from anyorder.visibility import verify_rows
from training.config import ObjectiveConfig
from training.corpus import draw_window
from training.documents import Documents
from training.keyed import keyed_generator
from training.orders import redraw_order
from training.validation import RATES, held_out_set, measure

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
        drawn = redraw_order(order, keys, config, seed=0)
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
