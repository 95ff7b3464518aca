"""Plausible mistakes, each built for the length of a test: enumeration must reject every one of them.

A proof by enumeration is worth what it would catch. Each mutant here is one of the errors that implementations of
speculative decoding really make; two near relatives that look wrong but are not are shown to be exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import pytest
import torch
from branches import EnumeratedUniforms
from joint import Cases, decoded_distribution, exact_joint, ragged_cases, total_variation
from methods import options
from table_model import TableModel
from test_losslessness import MODEL, cases_with_forbidden_strings, read_the_rules
from torch import Tensor

from anyorder.decoding import assd, one_pass, outcomes
from anyorder.decoding.session import Session
from anyorder.drafting import Drafts
from anyorder.forbidden import Forbidden
from anyorder.order import Order
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.verify import Verdict, verify
from anyorder.visibility import Rows

CAUGHT = 1e-3
EXACT = 1e-9
TESTED = ("assd K=3", "one-pass K=2", "one-pass ngram K=1", "user's drafter K=2")
"""One of each way to draft that involves a test."""


def distance(cases: Cases, method: str) -> float:
    wanted = exact_joint(MODEL, cases, Sampling())
    return total_variation(decoded_distribution(MODEL, cases, options(method)), wanted)


@pytest.fixture
def cases() -> Cases:
    return ragged_cases(3, (3, 4), scrambled=True)


@pytest.fixture
def cases_without_mask() -> Cases:
    """Token 1 is the mask: forbidden."""
    return dataclasses.replace(ragged_cases(3, (3, 4), scrambled=True), forbidden=Forbidden.of(3, ids=[1]))


@pytest.mark.parametrize("method", TESTED)
def test_without_a_mutation_nothing_is_caught(cases: Cases, method: str) -> None:
    assert distance(cases, method) <= EXACT


@pytest.mark.parametrize("method", TESTED)
def test_accepting_five_percent_more_is_caught(cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    honest = EnumeratedUniforms.bernoulli
    monkeypatch.setattr(EnumeratedUniforms, "bernoulli", lambda self, p, where: honest(self, p * 1.05, where))
    assert distance(cases, method) > CAUGHT


@pytest.mark.parametrize("method", TESTED)
def test_correcting_from_p_instead_of_the_residual_is_caught(
    cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anyorder.verify._residual", lambda q, p, num_drafts: p)
    assert distance(cases, method) > CAUGHT


def test_verifying_with_the_drafts_context_is_caught_in_assd(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    def blind(steps: Tensor) -> Rows:
        return Rows(steps, (steps[:, :1] - 1).expand_as(steps))

    monkeypatch.setattr(assd, "verify_rows", blind)
    assert distance(cases, "assd K=3") > CAUGHT


@pytest.mark.parametrize("method", TESTED[1:])
def test_verifying_with_the_drafts_context_is_caught_in_one_pass(
    cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outcomes, "verify_rows", lambda steps: Rows(steps, steps[:, :1].expand_as(steps)))
    assert distance(cases, method) > CAUGHT


def drop_unlikely(drafts: Drafts, p: Tensor, num_drafts: Tensor, has_bonus: Tensor, *, uniforms: Uniforms) -> Verdict:
    """Give up a draft, and those after it, if its own q is below one half: the row then yields its token as a bonus."""
    own = drafts.q.gather(-1, drafts.tokens[..., None])[..., 0].nan_to_num()
    likely = (own >= 0.5).long().cumprod(1).sum(1)
    fewer = torch.minimum(num_drafts, likely)
    return verify(drafts, p, fewer, has_bonus | (fewer < num_drafts), uniforms=uniforms)


@pytest.mark.parametrize("method", TESTED[1:])
def test_dropping_a_draft_because_its_own_q_is_low_is_caught(
    cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_pass, "verify", drop_unlikely)
    assert distance(cases, method) > CAUGHT


def drop_unpredictable(
    drafts: Drafts, p: Tensor, num_drafts: Tensor, has_bonus: Tensor, *, uniforms: Uniforms
) -> Verdict:
    """Give up a draft, and those after it, if the *distribution* it came from has no token above one half."""
    certain = (drafts.q.amax(-1).nan_to_num() >= 0.5).long().cumprod(1).sum(1)
    fewer = torch.minimum(num_drafts, certain)
    return verify(drafts, p, fewer, has_bonus | (fewer < num_drafts), uniforms=uniforms)


@pytest.mark.parametrize("method", TESTED[1:])
def test_dropping_a_draft_because_its_distribution_is_flat_is_exact(
    cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_pass, "verify", drop_unpredictable)
    assert distance(cases, method) <= EXACT


def test_greedy_drafts_with_a_softmax_q_are_caught(cases: Cases, monkeypatch: pytest.MonkeyPatch) -> None:
    def greedy(tokens: Tensor, q: Tensor, num_exact: Tensor) -> Drafts:
        return Drafts(q.nan_to_num().argmax(-1), q, num_exact)

    monkeypatch.setattr(one_pass, "Drafts", greedy)
    assert distance(cases, "one-pass K=2") > CAUGHT


def leave_mask_in(session: Session, logits: Tensor, query: Rows, spared: Tensor) -> Tensor:
    """The ban everywhere but in the spared (A, K) rows."""
    banned = session.forbidden.mask(logits, session.tokens[:, :-1], session.order, query)
    return torch.where(spared[..., None], logits, banned)


def test_a_mask_allowed_in_the_untested_first_draft_is_caught(
    cases_without_mask: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allowed(self: Session, logits: Tensor, query: Rows) -> Tensor:
        is_draft = query.steps[:, :1] == torch.from_numpy(self.num_decoded)[:, None]
        return leave_mask_in(self, logits, query, is_draft.expand_as(query.steps))

    assert distance(cases_without_mask, "assd K=3") <= EXACT
    monkeypatch.setattr(Session, "allowed", allowed)
    assert distance(cases_without_mask, "assd K=3") > CAUGHT


def test_a_mask_allowed_in_drafts_that_are_tested_is_exact(
    cases_without_mask: Cases, monkeypatch: pytest.MonkeyPatch
) -> None:
    def allowed(self: Session, logits: Tensor, query: Rows) -> Tensor:
        return leave_mask_in(self, logits, query, query.steps > query.num_visible)

    monkeypatch.setattr(Session, "allowed", allowed)
    assert distance(cases_without_mask, "one-pass K=2") <= EXACT


@pytest.mark.parametrize("method", ["assd K=3", "one-pass K=2"])
def test_zeroing_the_mask_after_the_softmax_is_caught(
    cases_without_mask: Cases, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Session, "allowed", lambda self, logits, query: logits)
    monkeypatch.setattr(Session, "probs", lambda self, logits: logits.softmax(-1).masked_fill(self.forbidden.ids, 0.0))
    assert distance(cases_without_mask, method) > CAUGHT


@pytest.mark.parametrize("method", ["assd K=3", "one-pass K=2", "one-pass ngram K=1"])
def test_a_ban_that_does_not_see_the_drafts_before_it_is_caught(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cases = cases_with_forbidden_strings()
    wanted = exact_joint(MODEL, cases, Sampling(), ban=lambda *seen: read_the_rules(cases, *seen))
    honest = Forbidden.mask

    def short_sighted(self: Forbidden, logits: Tensor, tokens: Tensor, order: Order, query: Rows) -> Tensor:
        first = query.num_visible[:, :1]
        return honest(self, logits, tokens, order, Rows(query.steps, torch.minimum(query.num_visible, first)))

    monkeypatch.setattr(Forbidden, "mask", short_sighted)
    assert total_variation(decoded_distribution(MODEL, cases, options(method)), wanted) > CAUGHT


def forget_to_encode(honest: Callable[..., None]) -> Callable[..., None]:
    """Believe that one token more than was encoded is in the cache, as if a correction needed no new key."""

    def commit(self: Session, *decided: object, **counts: object) -> None:
        honest(self, *decided, **counts)
        self.num_encoded = np.where(self.remaining > 0, self.num_encoded + 1, self.num_encoded)

    return commit


@pytest.mark.parametrize("method", ["sequential", *TESTED])
def test_a_correction_left_unencoded_is_caught(cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "commit", forget_to_encode(Session.commit))
    assert distance(cases, method) > CAUGHT


@pytest.mark.parametrize("method", ["sequential", *TESTED])
def test_a_prompt_that_sees_only_its_past_is_caught(cases: Cases, method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "anyorder.decoding.session.content_rows",
        lambda order, steps: Rows(steps, torch.where(steps < order.num_steps, steps + 1, 0)),
    )
    long_prompts = ragged_cases(3, (2, 3, 3), scrambled=True)
    assert distance(long_prompts, method) > CAUGHT


def test_the_table_model_asks_another_table_for_every_wrong_context() -> None:
    """The tests above rest on this: another token, position, visibility or a stale slot changes the conditional."""
    model, position = TableModel(3, seed=1), torch.arange(4)[None]

    def ask(tokens: list[int], content_sees: list[int], sees: int, at: Tensor = position) -> Tensor:
        rows = Rows(torch.tensor([[0, 1, 2]]), torch.tensor([content_sees]))
        query = Rows(torch.tensor([[3]]), torch.tensor([[sees]]))
        return model.forward(torch.tensor([[*tokens, 0]]), at, None, encode=rows, query=query)

    honest = ask([0, 1, 2], [1, 2, 3], 3)
    assert torch.equal(honest, ask([0, 1, 2], [1, 2, 3], 3))
    for wrong in (
        ask([0, 1, 1], [1, 2, 3], 3),
        ask([1, 0, 2], [1, 2, 3], 3),
        ask([0, 1, 2], [1, 3, 3], 3),
        ask([0, 1, 2], [1, 2, 3], 2),
        ask([0, 1, 2], [1, 2, 3], 3, torch.tensor([[1, 0, 2, 3]])),
    ):
        assert not torch.allclose(honest, wrong)
