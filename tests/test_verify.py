"""Verification knows no model: these tests verify dice."""

from __future__ import annotations

import torch
from branches import EnumeratedUniforms, output_distribution
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from anyorder.drafting import Drafts
from anyorder.uniforms import Uniforms
from anyorder.verify import verify

FACES = 3


def dice(rows: int, seed: int) -> Tensor:
    """(rows, V) loaded dice, some with impossible faces."""
    generator = torch.Generator().manual_seed(seed)
    dice = torch.rand(rows, FACES, generator=generator, dtype=torch.float64)
    dice *= torch.rand(rows, FACES, generator=generator) > 0.25
    dice[:, 0] += 1e-3
    return dice / dice.sum(1, keepdim=True)


@settings(max_examples=40)
@given(seed=st.integers(0, 9999), width=st.integers(1, 3), has_bonus=st.booleans(), exact=st.integers(0, 1))
def test_kept_drafts_and_the_final_token_are_throws_of_the_true_dice(
    seed: int, width: int, has_bonus: bool, exact: int
) -> None:
    """Completing what a round decided with true throws gives independent true throws."""
    p, q = dice(width + 1, seed), dice(width, seed + 1)
    q[:exact] = p[:exact]
    num_throws = width + 1

    def run(cases: Tensor, uniforms: EnumeratedUniforms) -> Tensor:
        rows = len(cases)
        every = torch.ones(rows, width, dtype=torch.bool)
        drafts = Drafts(uniforms.categorical(q.expand(rows, -1, -1), every), q.expand(rows, -1, -1), cases * 0 + exact)
        bonus = torch.full((rows,), has_bonus)
        verdict = verify(drafts, p.expand(rows, -1, -1), cases * 0 + width, bonus, uniforms=uniforms)
        decided = verdict.applied_to(drafts.tokens)
        num_decided = verdict.num_kept + ((verdict.num_kept < width) | bonus)
        missing = torch.arange(num_throws) >= num_decided[:, None]
        rest = uniforms.categorical(p.expand(rows, -1, -1), missing)
        faces = torch.where(missing, rest, decided)
        return (faces * FACES ** torch.arange(num_throws - 1, -1, -1)).sum(1)

    wanted = p[0]
    for die in p[1:]:
        wanted = (wanted[:, None] * die).flatten()
    got = output_distribution(run, 1, FACES**num_throws)[0]
    assert float((got - wanted).abs().sum()) / 2 <= 1e-12


def one_row(tokens: list[int], q: Tensor, num_exact: int = 0) -> Drafts:
    return Drafts(torch.tensor([tokens]), q[None], torch.tensor([num_exact]))


YES, NO = torch.tensor([True]), torch.tensor([False])


def test_a_draft_from_p_itself_is_kept_whatever_rounding_says() -> None:
    q = torch.tensor([[0.1, 0.2, 0.7]])
    # With p lower everywhere the ratio is below one, yet there is no residual to correct with.
    for p in (q, q * 0.8):
        for seed in range(60):
            rows = torch.cat([p, p])[None]
            verdict = verify(one_row([2], q), rows, torch.tensor([1]), NO, uniforms=Uniforms([seed]))
            assert int(verdict.num_kept) == 1


def test_a_draft_that_p_rules_out_is_never_kept() -> None:
    q, p = torch.tensor([[0.5, 0.5]]), torch.tensor([[[1.0, 0.0], [0.5, 0.5]]])
    for seed in range(60):
        verdict = verify(one_row([1], q), p, torch.tensor([1]), YES, uniforms=Uniforms([seed]))
        assert (int(verdict.num_kept), int(verdict.final)) == (0, 0)


def test_a_round_ends_at_the_first_rejection() -> None:
    q = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 1.0, 0.0]])
    p = torch.tensor([[[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [1.0, 0.0, 0.0]]])
    verdict = verify(one_row([0, 1, 1], q), p, torch.tensor([3]), YES, uniforms=Uniforms([0]))
    assert (int(verdict.num_kept), int(verdict.final)) == (1, 2)
    assert verdict.applied_to(torch.tensor([[0, 1, 1]]))[0, :2].tolist() == [0, 2]


def test_exact_drafts_are_kept_without_a_number_being_spent() -> None:
    q, p = torch.tensor([[1.0, 0.0]]), torch.tensor([[[0.0, 1.0], [1.0, 0.0]]])
    uniforms, untouched = Uniforms([4]), Uniforms([4])
    verdict = verify(one_row([0], q, num_exact=1), p, torch.tensor([1]), NO, uniforms=uniforms)
    assert int(verdict.num_kept) == 1
    assert torch.equal(uniforms.draw(torch.tensor([1])), untouched.draw(torch.tensor([1])))


def test_a_row_spends_the_same_numbers_however_its_tests_go() -> None:
    q = torch.tensor([[0.5, 0.5], [0.5, 0.5]])
    for p in (torch.tensor([[[1.0, 0.0]] * 3]), torch.tensor([[[0.0, 1.0]] * 3])):
        uniforms, counted = Uniforms([4]), Uniforms([4])
        verify(one_row([0, 0], q), p, torch.tensor([2]), YES, uniforms=uniforms)
        counted.draw(torch.tensor([3]))
        assert torch.equal(uniforms.draw(torch.tensor([1])), counted.draw(torch.tensor([1])))


def test_rows_beyond_the_drafts_may_hold_anything() -> None:
    nan = torch.full((2,), torch.nan)
    q = torch.stack([torch.tensor([0.5, 0.5]), nan])
    p = torch.stack([torch.tensor([0.5, 0.5]), torch.tensor([0.0, 1.0]), nan])[None]
    verdict = verify(one_row([0, 0], q), p, torch.tensor([1]), YES, uniforms=Uniforms([1]))
    assert (int(verdict.num_kept), int(verdict.final)) == (1, 1)


def test_a_row_without_drafts_draws_its_bonus_from_p() -> None:
    drafts = Drafts(torch.zeros(1, 0, dtype=torch.long), torch.zeros(1, 0, 3), torch.tensor([0]))
    p = torch.tensor([[[0.0, 0.0, 1.0]]])
    verdict = verify(drafts, p, torch.tensor([0]), YES, uniforms=Uniforms([1]))
    assert (int(verdict.num_kept), int(verdict.final)) == (0, 2)


def test_a_batch_is_judged_row_by_row() -> None:
    """One draft with no residual left, one that p rules out, and a sequence that neither drafts nor goes on."""
    q = torch.tensor([[[0.1, 0.2, 0.7]], [[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]]])
    p = torch.stack([q[:, 0] * torch.tensor([[0.8], [0.0], [1.0]]), torch.tensor([[0.0, 0.0, 1.0]] * 3)], 1)
    p[1, 0] = torch.tensor([0.0, 0.0, 1.0])
    drafts = Drafts(torch.tensor([[2], [1], [0]]), q, torch.zeros(3, dtype=torch.long))
    for seed in range(60):
        uniforms = Uniforms([seed, seed + 1, seed + 2])
        bonus = torch.tensor([False, True, False])
        verdict = verify(drafts, p, torch.tensor([1, 1, 0]), bonus, uniforms=uniforms)
        assert verdict.num_kept.tolist() == [1, 0, 0]
        assert verdict.final.tolist() == [0, 2, 0]  # nothing, the correction, nothing
        # The third took no number.
        assert torch.equal(uniforms.draw(torch.tensor([0, 0, 1]))[2], Uniforms([seed + 2]).draw(torch.tensor([1]))[0])
