"""Draft lengths: what is chosen, that it pays, and that it depends on nothing it must not depend on."""

from __future__ import annotations

from itertools import pairwise, product

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anyorder.draft_length import CPU_COSTS, DraftLengthPolicy, History, PassCosts, RankedDrafts

FLAT = PassCosts(rows=(1, 1000), costs=(1.0, 1.0))
STEEP = PassCosts(rows=(1, 100), costs=(1.0, 100.0))


def history(tested: list[int], accepted: list[int]) -> History:
    return History(torch.tensor([tested]), torch.tensor([accepted]))


def test_costs_are_linear_between_the_points_and_beyond_them() -> None:
    costs = PassCosts(rows=(2, 4, 8), costs=(1.0, 2.0, 3.0))
    assert costs(torch.tensor([2, 3, 4, 6, 8, 12, 1])).tolist() == [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 0.5]


def test_history_counts_a_test_only_if_it_was_reached() -> None:
    seen = (
        History.empty(2, 3)
        .after(torch.tensor([3, 2]), torch.tensor([1, 2]))
        .after(torch.tensor([0, 3]), torch.tensor([0, 0]))
    )
    assert seen.tested.tolist() == [[1, 1, 0], [2, 1, 0]]
    assert seen.accepted.tolist() == [[1, 0, 0], [1, 1, 0]]
    assert seen.select(torch.tensor([1])).tested.tolist() == [[2, 1, 0]]


def test_survival_starts_from_the_prior() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.4))
    assert policy.survival(History.empty(1, 2)).tolist() == [[1.0, 0.5, pytest.approx(0.2)]]
    assert policy.survival(History.empty(1, 2), 3).tolist() == [[1.0, 0.5, pytest.approx(0.2), pytest.approx(0.08)]]


def test_survival_ends_at_what_was_seen() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.4), prior_weight=4.0)
    learnt = policy.survival(history([100_000, 70_000], [70_000, 7_000]))[0]
    assert learnt.tolist() == pytest.approx([1.0, 0.7, 0.07], rel=1e-3)


def test_a_lag_never_tested_learns_from_the_others() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.5), prior_weight=4.0)
    good = policy.survival(history([200, 0], [190, 0]))[0]
    bad = policy.survival(history([200, 0], [10, 0]))[0]
    assert good[2] / good[1] > 0.9
    assert bad[2] / bad[1] < 0.1


@given(
    rates=st.lists(st.floats(0, 1), min_size=1, max_size=5),
    limits=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    held=st.integers(0, 2),
    count=st.integers(0, 15),
)
def test_pruning_keeps_the_first_drafts_of_each_outcome(
    rates: list[float], limits: list[int], held: int, count: int
) -> None:
    policy = DraftLengthPolicy(acceptance=tuple(rates))
    limit = torch.tensor([limits]) * (torch.arange(3) <= held)
    ranked = RankedDrafts.of(policy.survival(History.empty(1, len(rates)), 5), torch.tensor([held]), limit, 5)
    count = min(count, int(ranked.count))
    kept = ranked.first(torch.tensor([count]))
    assert int(kept.sum()) == count
    assert bool((kept <= limit).all())
    chosen = torch.zeros(15, dtype=torch.bool)
    chosen[ranked.place[0, :count]] = True
    for of_outcome in chosen.view(3, 5):
        assert of_outcome.tolist() == sorted(of_outcome.tolist(), reverse=True)


def test_use_is_the_probability_of_the_outcome_times_that_of_being_kept() -> None:
    survival = torch.tensor([[1.0, 0.5, 0.2, 0.1]])
    ranked = RankedDrafts.of(survival, torch.tensor([1]), torch.tensor([[2, 2]]), 2)
    use = {int(place): float(use) for place, use in zip(ranked.place[0], ranked.use[0], strict=True)}
    # Outcome 0 (the draft in hand is rejected) and outcome 1 (it is kept) happen half of the time each.
    assert use == pytest.approx({0: 0.25, 1: 0.1, 2: 0.25, 3: 0.1})


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.99])
def test_where_rows_cost_as_much_as_passes_nothing_is_drafted(rate: float) -> None:
    policy = DraftLengthPolicy(costs=STEEP, acceptance=(rate,) * 4)
    survival, left = policy.survival(History.empty(1, 4)), torch.tensor([50])
    ranked = RankedDrafts.of(survival, torch.tensor([0]), torch.tensor([[4]]), 4)
    assert policy.two_pass_length(survival, left).tolist() == [1]
    assert policy.external_length(survival, left).tolist() == [0]
    assert policy.worthwhile(ranked, survival, torch.tensor([2])).tolist() == [0]


def test_where_rows_are_free_all_that_can_be_kept_is_drafted() -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=(0.5, 0.5, 0.5, 0.5))
    survival = policy.survival(History.empty(1, 4))
    ranked = RankedDrafts.of(survival, torch.tensor([0]), torch.tensor([[4]]), 4)
    assert policy.external_length(survival, torch.tensor([50])).tolist() == [4]
    assert policy.worthwhile(ranked, survival, torch.tensor([2])).tolist() == [4]


@pytest.mark.parametrize("left", [1, 2, 3])
def test_no_more_is_drafted_than_is_left(left: int) -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=(0.99,) * 6)
    survival = policy.survival(History.empty(1, 6))
    # Two passes for two tokens is what two plain steps cost: a tie, which the fewer drafts win.
    assert policy.two_pass_length(survival, torch.tensor([left])).tolist() == [1 if left == 2 else left]
    assert policy.external_length(survival, torch.tensor([left])).tolist() == [left]


def test_the_two_pass_length_maximises_decided_tokens_per_cost() -> None:
    for rate, costs in product((0.2, 0.5, 0.8, 0.95), (FLAT, CPU_COSTS, STEEP)):
        policy = DraftLengthPolicy(costs=costs, acceptance=(rate,) * 6)
        rates = [1 / float(costs(torch.tensor(2)))]
        for k in range(2, 8):
            # Each draft but the first is kept with the same probability; a rejection is followed by a correction.
            chance = [rate**kept * (1 - rate) for kept in range(k - 1)] + [rate ** (k - 1)]
            tokens = [kept + 2 for kept in range(k - 1)] + [k]
            cost = costs(torch.tensor(1 + k)) + costs(torch.tensor(2 * (k - 1)))
            rates.append(sum(c * t for c, t in zip(chance, tokens, strict=True)) / float(cost))
        best = 1 + max(range(len(rates)), key=rates.__getitem__)
        survival = policy.survival(History.empty(1, 6))
        assert policy.two_pass_length(survival, torch.tensor([99])).tolist() == [best]


@pytest.mark.parametrize("max_rows", [1, 3, 6, 50])
def test_a_limit_of_rows_leaves_out_next_drafts_and_nothing_else(max_rows: int) -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.4, 0.3))
    survival = policy.survival(History.empty(2, 3))
    table = policy.next_drafts(survival, most=3, adapt=False, max_rows=max_rows)
    for held in range(4):
        asked = int(table[0, held].sum())
        assert asked == min(3 * (held + 1), max(max_rows - held - 1, 0))
    assert torch.equal(table[0], table[1])


def test_after_an_outcome_that_cannot_happen_nothing_is_asked_for() -> None:
    policy = DraftLengthPolicy(costs=FLAT)
    table = policy.next_drafts(policy.survival(History.empty(1, 6)), most=6, adapt=True, max_rows=None)[0]
    assert torch.equal(table, 6 * torch.ones(7, 7).tril().long())


def cost_of_a_token(policy: DraftLengthPolicy, rate: float, constant: int | None = None) -> float:
    """One-pass decoding of 32 texts of 100 tokens if every draft is kept with the same probability: a coin."""
    tosses, most = torch.Generator().manual_seed(0), policy.max_lag if constant is None else constant
    past, done, held = History.empty(32, policy.max_lag), torch.zeros(32).long(), torch.zeros(32).long()
    spent, rounds, table = torch.zeros(32, dtype=torch.float64), 0, torch.zeros(0)
    while bool((done < 100).any()):
        left, outcome = 100 - done, torch.arange(int(held.max()) + 1)
        limit = ((left[:, None] - 1 - outcome).clamp(min=0) * (outcome <= held[:, None])).clamp(max=most)
        testing = torch.minimum(held + 1, left)
        if constant is None:
            if rounds % policy.refresh == 0:
                table = policy.next_drafts(policy.survival(past), most=most, adapt=True, max_rows=None)
            limit = torch.minimum(limit, table[torch.arange(32), held, : len(outcome)])
        rounds += 1
        spent += policy.costs(held + 1 + testing + limit.sum(1)) * (left > 0)
        heads: Tensor = torch.rand(32, len(outcome), generator=tosses) < rate
        kept = torch.minimum(heads.long().cumprod(1).sum(1), held)
        past = past.after(held, kept)
        done = done + torch.minimum(kept + 1, left)
        held = torch.minimum(limit.gather(1, kept[:, None])[:, 0], 100 - done)
    return float(spent.sum()) / 3200


ACCELERATOR = PassCosts(rows=(1, 64, 256), costs=(1.0, 1.0, 1.2))


@pytest.mark.parametrize("costs", [CPU_COSTS, ACCELERATOR], ids=["cpu", "accelerator"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8, 0.95])
def test_choosing_anew_costs_at_most_two_percent_more_than_the_best_length(rate: float, costs: PassCosts) -> None:
    policy = DraftLengthPolicy(costs=costs)
    constant = [cost_of_a_token(policy, rate, k) for k in range(7)]
    assert cost_of_a_token(policy, rate) <= 1.02 * min(constant)


def test_the_cost_of_a_token_falls_as_drafts_are_kept_more_often() -> None:
    costs = [cost_of_a_token(DraftLengthPolicy(), rate) for rate in (0.0, 0.3, 0.6, 0.9)]
    assert all(late < early for early, late in pairwise(costs))


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: PassCosts(rows=(1,), costs=(1.0,)), "at least two"),
        (lambda: PassCosts(rows=(1, 2), costs=(1.0,)), "equally many"),
        (lambda: PassCosts(rows=(2, 2), costs=(1.0, 1.0)), "rows must increase"),
        (lambda: PassCosts(rows=(1, 2), costs=(2.0, 1.0)), "must not fall"),
        (lambda: PassCosts(rows=(1, 2), costs=(0.0, 1.0)), "must be positive"),
        (lambda: DraftLengthPolicy(acceptance=()), "one or more probabilities"),
        (lambda: DraftLengthPolicy(acceptance=(0.5, 1.5)), "one or more probabilities"),
        (lambda: DraftLengthPolicy(prior_weight=0.0), "prior_weight must be positive"),
        (lambda: DraftLengthPolicy(refresh=0), "refresh must be at least 1"),
    ],
)
def test_bad_tables_are_refused(build: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()  # type: ignore[operator]
