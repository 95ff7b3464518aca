"""Verify mode, summed over every branch of its randomness, is the model itself; plausible mistakes are not."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from branches import EnumeratedUniforms, output_distribution
from causal_models import FAMILIES, MOODY
from enumerated_texts import CAUGHT, EOS, EXACT, LIMITS, NUM_TEXTS, PROMPTS, SAMPLINGS, code_of, model_of, wanted
from joint import total_variation
from torch import Tensor

import anyorder.adapters.causal.session as session_module
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.drafted import decode_verified
from anyorder.adapters.causal.plan import Plan
from anyorder.adapters.causal.schedules import Adaptive, Constant
from anyorder.adapters.causal.session import Layout, Session, Task
from anyorder.draft_length import DraftLengthPolicy
from anyorder.drafting import Drafts
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.verify import Verdict, verify


@torch.no_grad()
def decoded(
    model: CausalModel,
    sampling: Sampling,
    *,
    masks: int,
    lookahead: Any,
    chunk: int = 64,
    policy: DraftLengthPolicy | None = None,
) -> Tensor:
    """(3, M) what decoding really yields."""

    def run(cases: Tensor, uniforms: EnumeratedUniforms) -> Tensor:
        prompts = [PROMPTS[case] for case in cases.tolist()]
        task = Task(prompts, LIMITS[cases], (EOS,), sampling)
        layout = Layout(scratch=masks * (masks + 1), max_lag=masks, chunk=chunk)
        session = Session(model, task, layout, uniforms=uniforms)
        adaptive = None if policy is None else Adaptive(policy, masks, "one-pass", len(prompts))
        decode_verified(session, adaptive or Constant(masks, lookahead))
        return torch.tensor([code_of(tokens) for tokens in session.books.tokens])

    return output_distribution(run, len(PROMPTS), NUM_TEXTS)


def distance(
    family: str = "qwen3", sampling: str = "plain", *, masks: int = 2, lookahead: str = "linear", chunk: int = 64
) -> float:
    model = model_of(family)
    got = decoded(model, SAMPLINGS[sampling], masks=masks, lookahead=lookahead, chunk=chunk)
    return total_variation(got, wanted(model, SAMPLINGS[sampling]))


@pytest.mark.parametrize("lookahead", ["linear", "quadratic"])
@pytest.mark.parametrize("family", FAMILIES)
def test_verify_mode_draws_from_the_model(family: str, lookahead: str) -> None:
    assert distance(family, lookahead=lookahead) <= EXACT


def test_a_policy_that_changes_its_mind_draws_from_the_model_too() -> None:
    model, plainly = model_of("qwen3"), SAMPLINGS["plain"]
    got = decoded(model, plainly, masks=2, lookahead="linear", policy=MOODY)
    assert total_variation(got, wanted(model, plainly)) <= EXACT


@pytest.mark.parametrize("lookahead", ["linear", "quadratic"])
@pytest.mark.parametrize("sampling", list(SAMPLINGS)[1:])
def test_the_same_processors_work_on_both_sides(sampling: str, lookahead: str) -> None:
    assert distance(sampling=sampling, lookahead=lookahead) <= EXACT


@pytest.mark.parametrize(("masks", "chunk"), [(1, 64), (2, 1)])
def test_neither_the_number_of_masks_nor_a_prompt_in_chunks_matters(masks: int, chunk: int) -> None:
    assert distance(masks=masks, chunk=chunk, lookahead="quadratic") <= EXACT


def test_drafts_are_really_rejected_and_really_kept() -> None:
    """Otherwise the laws above would hold for an algorithm that never drafts."""
    session = Session(
        model_of("qwen3"),
        Task(PROMPTS * 20, LIMITS.repeat(20), (EOS,), Sampling()),
        Layout(scratch=2, max_lag=2),
        uniforms=Uniforms(range(60)),
    )
    with torch.no_grad():
        decode_verified(session, Constant(2, "linear"))
    assert 0.1 < float(session.books.accepted.sum() / session.books.offered.sum()) < 0.9


@pytest.mark.parametrize("lookahead", ["linear", "quadratic"])
def test_accepting_five_percent_more_is_caught(lookahead: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = EnumeratedUniforms.bernoulli
    monkeypatch.setattr(EnumeratedUniforms, "bernoulli", lambda self, p, where: honest(self, p * 1.05, where))
    assert distance(lookahead=lookahead) > CAUGHT


def test_correcting_from_p_instead_of_the_residual_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anyorder.verify._residual", lambda q, p, num_drafts: p)
    assert distance() > CAUGHT


def drop_unlikely(drafts: Drafts, p: Tensor, num_drafts: Tensor, has_bonus: Tensor, *, uniforms: Uniforms) -> Verdict:
    """Give up a draft, and those after it, if its own q is below one half."""
    own = drafts.q.gather(-1, drafts.tokens[..., None])[..., 0]
    fewer = torch.minimum(num_drafts, (own >= 0.5).long().cumprod(1).sum(1))
    return verify(drafts, p, fewer, has_bonus | (fewer < num_drafts), uniforms=uniforms)


def drop_flat(drafts: Drafts, p: Tensor, num_drafts: Tensor, has_bonus: Tensor, *, uniforms: Uniforms) -> Verdict:
    """Give up a draft, and those after it, if the distribution it came from has no token above one half."""
    fewer = torch.minimum(num_drafts, (drafts.q.amax(-1) >= 0.5).long().cumprod(1).sum(1))
    return verify(drafts, p, fewer, has_bonus | (fewer < num_drafts), uniforms=uniforms)


@pytest.mark.parametrize("lookahead", ["linear", "quadratic"])
def test_dropping_a_draft_for_its_own_probability_is_caught_and_for_its_distribution_is_exact(
    lookahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "verify", drop_unlikely)
    assert distance(lookahead=lookahead) > CAUGHT
    monkeypatch.setattr(session_module, "verify", drop_flat)
    assert distance(lookahead=lookahead) <= EXACT


def test_greedy_drafts_with_a_softmax_q_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Session.draw

    def greedy(self: Session, logits: Tensor, counts: Tensor) -> Drafts:
        drafts = honest(self, logits, counts)
        return Drafts(logits.argmax(-1), drafts.q, drafts.num_exact)

    monkeypatch.setattr(Session, "draw", greedy)
    assert distance() > CAUGHT


def test_processors_on_one_side_only_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Session.draw

    def unprocessed(self: Session, logits: Tensor, counts: Tensor) -> Drafts:
        kept, self.sampling = self.sampling, Sampling()
        drafts = honest(self, logits, counts)
        self.sampling = kept
        return Drafts(drafts.tokens, kept.probs(logits), drafts.num_exact)

    monkeypatch.setattr(Session, "draw", unprocessed)
    assert distance(sampling="T = 0.7") > CAUGHT


def test_an_outcome_read_from_its_neighbours_masks_is_exact_but_a_q_from_there_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Drafts may come from anywhere as long as their q says from where."""
    honest = Plan.of_outcome

    def neighbour(self: Plan, num_kept: Tensor, logits: Tensor) -> tuple[Tensor, Tensor]:
        counts, _ = honest(self, num_kept, logits)
        _, others = honest(self, (num_kept - 1).clamp(min=0), logits)
        width = int(counts.max())
        return counts, torch.nn.functional.pad(others, (0, 0, 0, max(width - others.shape[1], 0)))[:, :width]

    monkeypatch.setattr(Plan, "of_outcome", neighbour)
    assert distance(lookahead="quadratic") <= EXACT
    drawn = Session.draw
    flat = lambda self, logits, counts: Drafts(  # noqa: E731
        drawn(self, logits, counts).tokens, self.sampling.probs(logits * 0.5), torch.zeros_like(counts)
    )
    monkeypatch.setattr(Session, "draw", flat)
    assert distance(lookahead="quadratic") > CAUGHT


def test_a_correction_left_unencoded_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Session.commit

    def forgetful(self: Session, *args: Any, **options: Any) -> Any:
        done = honest(self, *args, **options)
        self.num_encoded = torch.minimum(self.num_encoded + 1, self.num_decoded - 1)
        return done

    # Believing in one key too many only matters where a draft was kept and something was left to encode before it.
    monkeypatch.setattr(Session, "commit", forgetful)
    assert distance(chunk=1) > CAUGHT
