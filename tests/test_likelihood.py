"""The joint log-density in one pass is the sum of single conditionals, and the loss is the same code."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from joint import Cases, ragged_cases, single_conditional
from table_model import TableModel
from torch import Tensor, nn

from anyorder import likelihood
from anyorder.forbidden import Forbidden
from anyorder.likelihood import joint_log_prob
from anyorder.visibility import Rows

MODEL = TableModel(4, seed=8)


def by_single_conditionals(cases: Cases) -> Tensor:
    """(B, L) one target at a time, each from a fresh pass that is given exactly the steps before it."""
    order, result = cases.order, torch.zeros(cases.tokens.shape, dtype=torch.float64)
    for target in range(cases.num_targets):
        exists = target < order.num_targets
        step = torch.where(exists, order.num_prompt + target, order.num_steps)
        logits = single_conditional(MODEL, cases.tokens, order, step).masked_fill(cases.forbidden.ids, -torch.inf)
        place = step.clamp(max=order.num_steps - 1)[:, None]
        values = logits.log_softmax(-1).gather(1, cases.tokens.gather(1, place))
        result.scatter_add_(1, place, torch.where(exists[:, None], values, 0))
    return result


@pytest.mark.parametrize("scrambled", [False, True], ids=["ascending", "scrambled"])
@pytest.mark.parametrize("banned", [(), (1, 3)])
def test_one_pass_gives_what_single_conditionals_give(scrambled: bool, banned: tuple[int, ...]) -> None:
    cases = ragged_cases(4, (5, 1, 0, 8, 3), scrambled=scrambled, width=10)
    cases = dataclasses.replace(cases, forbidden=Forbidden.of(4, ids=banned))
    if banned:
        cases = dataclasses.replace(cases, tokens=cases.tokens // 2 * 2)
    model = TableModel(4, seed=8)
    got = joint_log_prob(model, cases.tokens, cases.order, forbidden=cases.forbidden)
    assert model.num_passes == 1
    assert torch.allclose(got, by_single_conditionals(cases), atol=1e-12, rtol=0)


def test_prompt_and_padding_have_no_density() -> None:
    cases = ragged_cases(4, (5, 1, 0, 3), scrambled=True, width=10)
    got = joint_log_prob(MODEL, cases.tokens, cases.order, forbidden=cases.forbidden)
    step = torch.arange(10)
    is_target = (step >= cases.order.num_prompt[:, None]) & (step < cases.order.length[:, None])
    assert not got[~is_target].any()
    assert bool((got[is_target] < 0).all())


def test_the_joint_sums_to_one() -> None:
    cases = ragged_cases(3, (4,), scrambled=True)
    outcomes = torch.cartesian_prod(*[torch.arange(3)] * 4)
    rows = torch.zeros(81, dtype=torch.long)
    tokens, order = cases.tokens[rows].clone(), cases.order.select(rows)
    start = int(cases.order.num_prompt)
    tokens[:, start : start + 4] = outcomes
    joint = joint_log_prob(TableModel(3, seed=2), tokens, order, forbidden=cases.forbidden).sum(1)
    assert float(joint.exp().sum()) == pytest.approx(1, abs=1e-12)


def test_a_forbidden_target_is_impossible_and_nothing_becomes_nan() -> None:
    cases = ragged_cases(4, (5,), scrambled=False)
    tokens = torch.full_like(cases.tokens, 2)
    assert torch.isneginf(joint_log_prob(MODEL, tokens, cases.order, forbidden=Forbidden.of(4, ids=[2])).sum())
    blank = torch.zeros_like(tokens)
    strings = Forbidden.of(4, strings=[b"cc"], token_bytes=[b"a", b"b", b"c", b"d"]).within(blank)
    values = joint_log_prob(MODEL, tokens, cases.order, forbidden=strings)
    assert not values.isnan().any()
    # The first of the run is possible, every one after it would complete the string.
    start = int(cases.order.num_prompt)
    assert torch.isneginf(values[0, start : start + 5]).tolist() == [False, True, True, True, True]


def test_without_targets_no_pass_is_made() -> None:
    model, cases = TableModel(4), ragged_cases(4, (0, 0), scrambled=False)
    assert not joint_log_prob(model, cases.tokens, cases.order, forbidden=cases.forbidden).any()
    assert model.num_passes == 0


def test_the_gradient_is_that_of_the_mean_log_softmax() -> None:
    table = nn.Parameter(torch.randn(10, 4, dtype=torch.float64))

    class Unigram(TableModel):
        def forward(self, tokens: Tensor, positions: Tensor, *_: object, query: Rows, **__: object) -> Tensor:
            return table[positions.gather(1, query.steps.clamp(max=9))]

    cases = ragged_cases(4, (5, 8, 0), scrambled=True, width=10)
    joint_log_prob(Unigram(4), cases.tokens, cases.order, forbidden=cases.forbidden).sum().backward()
    wanted = torch.zeros_like(table)
    for row in range(3):
        for step in range(int(cases.order.num_prompt[row]), int(cases.order.length[row])):
            position = int(cases.order.sigma[row, step])
            wanted[position] -= table[position].softmax(-1).detach()
            wanted[position, cases.tokens[row, step]] += 1
    assert torch.allclose(table.grad, wanted)  # type: ignore[arg-type]


@pytest.mark.parametrize("per_row", [False, True], ids=["same ids everywhere", "ids by row"])
@pytest.mark.parametrize("at_a_time", [1, 9, 1000])
def test_values_and_gradients_are_those_of_the_masked_softmax(
    per_row: bool, at_a_time: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many rows are worked on at a time; rows whose token is forbidden, or all of them, pull at nothing."""
    monkeypatch.setattr(likelihood, "_MAX_NUMBERS", {True: at_a_time})
    generator = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 4, 5, generator=generator, dtype=torch.float64, requires_grad=True)
    banned = torch.rand(3, 4, 5, generator=generator) < 0.3 if per_row else torch.tensor([0, 1, 0, 0, 1]).bool()
    if per_row:
        banned[2, 3] = True
    chosen = torch.randint(5, (3, 4), generator=generator)
    weight = torch.randn(3, 4, generator=generator, dtype=torch.float64)
    values = likelihood._LogDensity.apply(logits, banned, chosen)  # type: ignore[no-untyped-call]
    allowed = ~(banned if per_row else banned.expand(3, 4, 5)).gather(-1, chosen[..., None])[..., 0]
    assert 0 < int(allowed.sum()) < allowed.numel()
    assert torch.equal(torch.isneginf(values), ~allowed)
    wanted = logits.masked_fill(banned, -torch.inf).log_softmax(-1).gather(-1, chosen[..., None])[..., 0]
    assert torch.allclose(values[allowed], wanted[allowed], atol=1e-12)
    (got,) = torch.autograd.grad((values.where(allowed, 0.0) * weight).sum(), logits, retain_graph=True)
    (reference,) = torch.autograd.grad((wanted[allowed] * weight[allowed]).sum(), logits)
    assert torch.allclose(got, reference, atol=1e-12)
    (impossible,) = torch.autograd.grad(values[~allowed].sum(), logits)
    assert not impossible.any()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_summed_in_float32(dtype: torch.dtype) -> None:
    logits = torch.randn(2, 3, 7, generator=torch.Generator().manual_seed(2)).to(dtype).requires_grad_()
    chosen, nothing = torch.tensor([[0, 3, 6], [1, 1, 2]]), torch.zeros(7, dtype=torch.bool)
    values = likelihood._LogDensity.apply(logits, nothing, chosen)  # type: ignore[no-untyped-call]
    wanted = logits.detach().float().requires_grad_()
    reference = wanted.log_softmax(-1).gather(-1, chosen[..., None])[..., 0]
    assert values.dtype == torch.float32
    assert torch.allclose(values, reference, atol=1e-6)
    (got,), (other,) = torch.autograd.grad(values.sum(), logits), torch.autograd.grad(reference.sum(), wanted)
    assert got.dtype == dtype
    assert torch.allclose(got, other.to(dtype))


def test_logits_that_are_no_numbers_stay_that() -> None:
    """A training that went wrong must not look like one that stands still."""
    logits = torch.tensor([[[0.0, torch.nan]]], requires_grad=True)
    values = likelihood._LogDensity.apply(logits, torch.zeros(2, dtype=torch.bool), torch.tensor([[0]]))  # type: ignore[no-untyped-call]
    assert bool(values.isnan().all())
    assert bool(torch.autograd.grad(values.sum(), logits)[0].isnan().any())
