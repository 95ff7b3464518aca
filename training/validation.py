"""Held-out figures of a model: joint density at three masking rates and for spans, and how many drafts would be kept.

A draft is kept with probability ``sum over tokens of min(p, q)`` (Leviathan et al. 2023), so the share kept at a lag is
measured without drawing: every target's draft distribution is compared with its verify distribution.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.codec.base import Codec
from anyorder.forbidden import Forbidden
from anyorder.likelihood import query_logits
from anyorder.model.contract import AnySubsetModel
from anyorder.order import Order
from anyorder.sampling import log_density
from anyorder.visibility import Rows
from training.blanks import Kind, blank_text
from training.config import ObjectiveConfig
from training.corpus import draw_window
from training.keyed import keyed_random
from training.objective import asked_rows
from training.orders import draw_drafts, redraw_order
from training.stream import collate

RATES = (0.15, 0.5, 0.95)
"""Masking rates of scattered blanks at which every model is measured."""

ROWS_AT_ONCE = 1 << 25
"""Logits held at once, a bound on memory."""


class Scores(NamedTuple):
    """Sums over held-out targets; see ``measure``.

    Attributes:
        verify: negative log-likelihood of all targets, in nats.
        num_targets: how many there are.
        draft: negative log-likelihood of draft rows by lag.
        overlap: sum of ``sum(min(p, q))`` by lag.
        num_drafts: draft rows by lag.
    """

    verify: Tensor
    num_targets: Tensor
    draft: Tensor
    overlap: Tensor
    num_drafts: Tensor

    def figures(self, name: str) -> dict[str, float]:
        """Nats a token, of targets and of drafts at mixed lags, and the share of drafts kept at lags 1, 2 and 4."""
        kept = self.overlap / self.num_drafts.clamp(min=1)
        return {
            f"nats@{name}": float(self.verify / self.num_targets.clamp(min=1)),
            f"draft@{name}": float(self.draft.sum() / self.num_drafts.sum().clamp(min=1)),
            **{f"kept{lag}@{name}": float(kept[lag]) for lag in (1, 2, 4) if lag < len(kept)},
        }


def held_out_set(
    codec: Codec, texts: list[str], characters_per_token: float, count: int, length: int = 256
) -> dict[str, list[tuple[Tensor, Order]]]:
    """The same windows and blanks every time, in batches: scattered at ``RATES``, then ``span``."""
    kinds: list[tuple[str, Kind, float]] = [(str(rate), "scattered", rate) for rate in RATES]
    sets = {}
    for name, kind, rate in [*kinds, ("span", "spans", 0.2)]:
        draw = keyed_random("held out", name)
        windows = [draw_window(texts, int(length * characters_per_token), draw) for _ in range(count)]
        examples = [blank_text(kind, codec, window, rate, draw) for window in windows]
        batch = collate(examples, length, codec.forbidden_ids)
        size = max(min(16, ROWS_AT_ONCE // (2 * length * codec.vocab_size)), 1)
        order = Order.from_targets(batch.is_target, batch.length)
        rows = torch.split(torch.arange(count), size)
        sets[name] = [(batch.tokens[part], order.select(part)) for part in rows]
    return sets


@torch.no_grad()
def measure(
    model: AnySubsetModel, batches: list[tuple[Tensor, Order]], forbidden: Forbidden, config: ObjectiveConfig
) -> Scores:
    """Measure a model on batches of tokens (B, L) and their orders, one draft row a target at a lag up to ``max_lag``.

    Orders are kept if they are ascending and drawn anew where ``config`` says that all are spread or random, so that
    an order can be measured like any other thing.
    """
    total = Scores(
        *(torch.zeros(size) for size in ((), (), config.max_lag + 1, config.max_lag + 1, config.max_lag + 1))
    )
    for number, (tokens, order) in enumerate(batches):
        keys = [(number, row) for row in range(len(tokens))]
        drawn = redraw_order(order, keys, config, seed=0)
        drafts = draw_drafts(drawn, keys, config, seed=0)
        total = Scores(
            *(
                a + b
                for a, b in zip(total, _measure(model, tokens, drawn, drafts, forbidden, len(total.draft)), strict=True)
            )
        )
    return total


def _measure(
    model: AnySubsetModel, tokens: Tensor, order: Order, drafts: Rows | None, forbidden: Forbidden, num_lags: int
) -> Scores:
    device = model.device
    rows, real, split = asked_rows(order, drafts)
    by_step, on_device = order.to_steps(tokens).to(device), order.to(device)
    logits = query_logits(
        model, by_step, on_device, query=Rows(rows.steps.to(device), rows.num_visible.to(device)), forbidden=forbidden
    )
    answers = by_step.gather(1, rows.steps.clamp(max=order.num_steps - 1).to(device))
    losses = (-log_density(logits, answers)).cpu().where(real, 0.0)
    of_target = (rows.steps[:, split:] - order.num_prompt[:, None]).clamp(max=split - 1).to(device)
    p = logits[:, :split].softmax(-1).gather(1, of_target[..., None].expand(-1, -1, logits.shape[-1]))
    overlap = torch.minimum(p, logits[:, split:].softmax(-1)).sum(-1).cpu()
    asked = real[:, split:]
    lag = (rows.steps - rows.num_visible)[:, split:][asked]

    def by_lag(values: Tensor) -> Tensor:
        return torch.zeros(num_lags).index_add(0, lag, values[asked].float())

    return Scores(
        losses[:, :split].sum().float(),
        real[:, :split].sum(),
        by_lag(losses[:, split:]),
        by_lag(overlap),
        by_lag(torch.ones_like(overlap)),
    )


def evaluate(
    model: AnySubsetModel,
    sets: dict[str, list[tuple[Tensor, Order]]],
    forbidden: Forbidden,
) -> tuple[dict[str, float], tuple[float, ...]]:
    """All figures on all sets with ``density``, their mean nats a token, by which the best model is chosen.

    Returns:
        The figures by name, and the share of drafts kept at each lag over all sets.
    """
    config = ObjectiveConfig(spread_share=0.0, random_share=0.0, draft_loss_weight=1.0, max_lag=7, draft_share=1.0)
    scores = {name: measure(model, batches, forbidden, config) for name, batches in sets.items()}
    figures = {key: value for name, score in scores.items() for key, value in score.figures(name).items()}
    density = sum(figures[f"nats@{name}"] for name in scores) / len(scores)
    overlap = torch.stack([score.overlap for score in scores.values()]).sum(0)
    count = torch.stack([score.num_drafts for score in scores.values()]).sum(0)
    kept = tuple(round(float(each), 3) for each in (overlap / count.clamp(min=1))[1:])
    return {"density": density, **figures}, kept
