"""Orthrus, summed over every branch of its randomness, is its base; plausible mistakes are not."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
import torch
from branches import EnumeratedUniforms, output_distribution
from causal_models import FAMILIES, MOODY, with_view
from enumerated_texts import EOS, EXACT, LIMITS, NUM_TEXTS, PROMPTS, SAMPLINGS, VOCAB, code_of, wanted
from joint import total_variation
from torch import Tensor

import anyorder.adapters.causal.drafted as loop
import anyorder.adapters.causal.plan as plan_module
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.drafted import decode_verified
from anyorder.adapters.causal.rows import Rows
from anyorder.adapters.causal.session import Session, Task
from anyorder.adapters.orthrus.generating import layout_of, schedule_of
from anyorder.adapters.orthrus.options import OrthrusOptions
from anyorder.drafting import Drafts

CAUGHT = 1e-4
"""Six orders above what is exact; where drafts are mostly rejected, a mistake about those kept moves little."""
CYCLES: dict[str, tuple[Any, dict[str, Any]]] = {
    "one pass": ("frozen", {}),
    "every outcome": ("frozen", {"lookahead": "quadratic"}),
    "two passes": ("frozen", {"cycle": "two-pass"}),
    "published": ("trainable", {}),
}
CHOSEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "adaptive": ("frozen", {"policy": MOODY}),
    "published, adaptive": ("trainable", {"policy": MOODY}),
    "sure ones": ("frozen", {"confidence": 0.6}),
    "published, denoised twice": ("trainable", {"denoising": 2, "block": 4}),
    "published, sure ones": ("trainable", {"confidence": 0.6}),
    "prompt in chunks": ("trainable", {"chunk": 1}),
    "longer block": ("frozen", {"block": 4}),
}
WAYS = {**CYCLES, **CHOSEN}


@cache
def model_of(family: str, anchor: Any) -> CausalModel:
    """A base far from uniform, with a random view."""
    size: dict[str, Any] = {"vocab_size": VOCAB, "width": 16, "inner": 16, "dtype": torch.float64}
    return with_view(family, anchor, block=3, sharpness=2.5, **size)


@torch.no_grad()
def decoded(model: CausalModel, options: OrthrusOptions) -> Tensor:
    """(3, M) what decoding really yields."""

    def run(cases: Tensor, uniforms: EnumeratedUniforms) -> Tensor:
        task = Task([PROMPTS[case] for case in cases.tolist()], LIMITS[cases], (EOS,), options.sampling)
        session = Session(model, task, layout_of(options), uniforms=uniforms)
        decode_verified(session, schedule_of(options, session), confidence=options.confidence)
        return torch.tensor([code_of(tokens) for tokens in session.books.tokens])

    return output_distribution(run, len(PROMPTS), NUM_TEXTS)


def distance(way: str = "one pass", family: str = "qwen3", sampling: str = "plain") -> float:
    anchor, options = WAYS[way]
    model = model_of(family, anchor)
    settings = {"block": 3, "anchor_in_view": model.anchor_in_view, "sampling": SAMPLINGS[sampling]} | options
    return total_variation(decoded(model, OrthrusOptions(**settings)), wanted(model, SAMPLINGS[sampling]))


@pytest.mark.parametrize(
    ("way", "family"),
    [(way, family) for family in FAMILIES for way in ("one pass", "published")]
    + [(way, "qwen3") for way in WAYS if way not in ("one pass", "published")],
)
def test_every_cycle_draws_from_the_base(way: str, family: str) -> None:
    assert distance(way, family) <= EXACT


@pytest.mark.parametrize("way", ["one pass", "published"])
@pytest.mark.parametrize("sampling", list(SAMPLINGS)[1:])
def test_the_same_processors_work_on_both_sides(sampling: str, way: str) -> None:
    assert distance(way, sampling=sampling) <= EXACT


@pytest.mark.parametrize("way", ["every outcome", "published"])
def test_accepting_five_percent_more_is_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = EnumeratedUniforms.bernoulli
    monkeypatch.setattr(EnumeratedUniforms, "bernoulli", lambda self, p, where: honest(self, p * 1.05, where))
    assert distance(way) > CAUGHT


def test_correcting_from_p_instead_of_the_residual_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.verify._residual", lambda q, p, num_drafts: p)
    assert distance("published") > CAUGHT


@pytest.mark.parametrize("way", ["one pass", "published"])
def test_processors_on_one_side_only_are_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The published code truncates by top-k 20 and top-p 0.8 unless told otherwise; q must be what was drawn from."""
    honest = Session.draw

    def unprocessed(self: Session, logits: Tensor, counts: Tensor) -> Drafts:
        drafts = honest(self, 2 * logits, counts)
        return Drafts(drafts.tokens, self.sampling.probs(logits), drafts.num_exact)

    monkeypatch.setattr(Session, "draw", unprocessed)
    assert distance(way) > CAUGHT


@pytest.mark.parametrize("way", ["sure ones", "published, sure ones"])
def test_dropping_drafts_by_their_own_probability_is_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By that of their rows' likeliest tokens, as above, it is exact."""
    honest = Session.test

    def unsure(self: Session, drafts: Drafts, testing: Tensor, num_drafts: Tensor, has_final: Tensor) -> Any:
        own = drafts.q.gather(-1, drafts.tokens[..., None])[..., 0]
        fewer = torch.minimum(num_drafts, (own >= 0.5).long().cumprod(1).sum(1))
        return honest(self, drafts, testing, fewer, has_final | (fewer < num_drafts))

    monkeypatch.setattr(Session, "test", unsure)
    assert distance(way) > CAUGHT


def test_a_number_of_drafts_chosen_after_they_were_drawn_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that looks at what was drafted: it takes every draft of token 1 and none of the others."""
    honest = Session.draw
    held: list[Tensor] = []

    def draw(self: Session, logits: Tensor, counts: Tensor) -> Drafts:
        drafts = honest(self, logits, counts)
        held.append((drafts.tokens == 1).long().cumprod(1).sum(1))
        return drafts

    tested = Session.test

    def test(self: Session, drafts: Drafts, testing: Tensor, num_drafts: Tensor, has_final: Tensor) -> Any:
        fewer = torch.minimum(num_drafts, held[-1]) if held and len(held[-1]) == len(num_drafts) else num_drafts
        return tested(self, drafts, testing, fewer, has_final | (fewer < num_drafts))

    monkeypatch.setattr(Session, "draw", draw)
    monkeypatch.setattr(Session, "test", test)
    assert distance() > CAUGHT


@pytest.mark.parametrize("way", ["one pass", "published"])
def test_tests_that_go_through_the_view_are_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = CausalModel._routing
    everything = lambda self, in_view: honest(self, None if in_view is None else torch.ones_like(in_view))  # noqa: E731
    monkeypatch.setattr(CausalModel, "_routing", everything)
    assert distance(way) > CAUGHT


@pytest.mark.parametrize("way", ["one pass", "published"])
def test_a_block_that_writes_over_what_is_cached_is_caught(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = plan_module._mask_rows

    def one_back(*args: Any, **options: Any) -> Rows:
        rows = honest(*args, **options)
        return rows._replace(slots=(rows.slots - rows.in_view.long()).clamp(min=0))

    monkeypatch.setattr(plan_module, "_mask_rows", one_back)
    assert distance(way) > CAUGHT


def test_the_anchor_believed_to_be_cached_by_the_pass_that_drafts_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its key there is the view's. The next pass must read it again."""
    honest = CausalModel.step
    stale: dict[int, list[Tensor]] = {}

    def step(self: CausalModel, tokens: Tensor, rows: Rows, cache: Any, *, asked: Tensor) -> Tensor:
        logits = honest(self, tokens, rows, cache, asked=asked)
        buffers = (*cache.keys, *cache.values)
        first = rows.slots.min(1).values
        if bool(rows.in_view.any()):
            stale[id(cache)] = [buffer.clone() for buffer in buffers]
        elif id(cache) in stale:
            for buffer, old in zip(buffers, stale.pop(id(cache)), strict=True):
                for row, slot in enumerate(first.tolist()):
                    if len(old) == len(buffer):
                        buffer[row, :, slot] = old[row, :, slot]
        return logits

    monkeypatch.setattr(CausalModel, "step", step)
    assert distance("published") > CAUGHT


def test_a_choice_by_confidence_uses_the_rows_and_not_the_drafts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The honest rule asks the likeliest token; asking it of the processed distributions is as good."""
    processed = lambda logits, kind: SAMPLINGS["top-k"].probs(logits).amax(-1)  # noqa: E731
    monkeypatch.setattr(loop, "confidence_of", processed)
    assert distance("sure ones", sampling="top-k") <= EXACT
