"""Orthrus on a corpus that a tiny model learns in seconds: a distilled view drafts what is kept, the text is greedy."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from causal_models import network

from anyorder.adapters import mars, orthrus
from anyorder.adapters.causal import CausalModel
from training import templated

K = 6


def steps_of(model: CausalModel, loss_of: Any, *, steps: int, rate: float) -> list[float]:
    """Train what has gradients; returns the losses."""
    draw, losses = random.Random(0), []
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate, weight_decay=0.0)
    for step in range(steps):
        tokens, is_response = templated.draw_batch(draw, 8, 64)
        loss = loss_of(model, tokens, is_response)
        loss.backward()
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 10, (steps - step) / (steps / 2))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
        losses.append(float(loss.detach()))
    return losses


@pytest.fixture(scope="module")
def base() -> CausalModel:
    model = network(
        "qwen3", vocab_size=templated.VOCAB_SIZE, width=64, inner=128, num_heads=2, num_key_heads=2, head_width=32
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0) if "norm" in name else parameter.normal_(0.0, 0.1)
    steps_of(model.requires_grad_(True), mars.causal_loss, steps=220, rate=5e-3)
    return model.requires_grad_(False)


def distil(base: CausalModel, anchor: Any) -> list[float]:
    """Give the base a trained view."""
    scores = torch.Generator().manual_seed(0)

    def loss_of(model: CausalModel, tokens: torch.Tensor, is_response: torch.Tensor) -> torch.Tensor:
        anchors = orthrus.draw_anchors(
            is_response, None, block=K, count=8, scores=torch.rand(tokens.shape, generator=scores)
        )
        return orthrus.distillation(model, tokens, anchors).loss

    return steps_of(orthrus.attach(base, block=K, anchor=anchor), loss_of, steps=160, rate=5e-3)


def rate_of(results: Any) -> float:
    return float(sum(r.stats.tokens for r in results) / sum(r.stats.nfe for r in results))


def test_a_minute_of_distillation_decides_more_tokens_a_pass_and_writes_what_the_base_writes(base: CausalModel) -> None:
    prompts = templated.draw_prompts(1, 12)
    greedy = mars.generate(base, prompts, tau=1.0, max_new_tokens=70)
    assert isinstance(greedy, list)
    assert len({result.token_ids for result in greedy}) > 6
    ways: dict[Any, list[tuple[dict[str, Any], float]]] = {
        "frozen": [({"lookahead": "quadratic"}, 1.6), ({}, 1.35), ({"cycle": "two-pass"}, 1.35)],
        "trainable": [({}, 1.1)],
    }
    for anchor, cases in ways.items():
        losses = distil(base, anchor)
        assert sum(losses[-20:]) < 0.5 * sum(losses[:20])
        for options, least in cases:
            results = orthrus.generate(base, prompts, max_new_tokens=70, **options)
            assert isinstance(results, list)
            assert [result.token_ids for result in results] == [result.token_ids for result in greedy]
            assert rate_of(results) >= least, (anchor, options, rate_of(results))
        orthrus.detach(base)
