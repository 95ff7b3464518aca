"""How many drafts to ask masks for: what costs least by stored costs, and nothing where drafting does not pay."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from causal_models import network, with_view

from anyorder.adapters import orthrus
from anyorder.adapters.causal.policy import BASE_CPU, SMALL_CPU, adaptive, one_pass_lengths, two_pass_length
from anyorder.draft_length import DraftLengthPolicy, PassCosts

CHEAP = PassCosts(rows=(1, 100), costs=(1.0, 1.01))
DEAR = PassCosts(rows=(1, 2), costs=(1.0, 2.0))
SOME = PassCosts(rows=(1, 2, 9), costs=(1.0, 1.15, 1.6))


def tokens_for_cost(policy: DraftLengthPolicy, lengths: tuple[tuple[int, ...], ...]) -> float:
    """Tokens per unit of cost in the long run, by the stationary distribution of the drafts in hand."""
    survival = policy.survival(0, len(lengths) - 1)
    moves, tokens, costs = np.zeros((len(lengths), len(lengths))), np.zeros(len(lengths)), np.zeros(len(lengths))
    for held, asked in enumerate(lengths):
        reached = [*survival[: held + 1], 0.0]
        costs[held] = policy.costs(np.array([held + 1 + sum(asked)]))[0]
        for kept in range(held + 1):
            moves[held, asked[kept]] += reached[kept] - reached[kept + 1]
            tokens[held] += (reached[kept] - reached[kept + 1]) * (kept + 1)
    # A round can alternate between drafting and testing: the share is that of any six rounds in a row.
    share = sum(np.linalg.matrix_power(moves, 2000 + more)[0] for more in range(6)) / 6
    return float(share @ tokens / (share @ costs))


def test_a_one_pass_cycle_asks_for_what_costs_least_of_all_it_could_ask_for() -> None:
    policy = DraftLengthPolicy(costs=SOME, acceptance=(0.7, 0.5))
    chosen = one_pass_lengths(policy, 0, 2)
    every = itertools.product(range(3), repeat=6)
    plans = [((a, 0, 0), (b, c, 0), (d, e, f)) for a, b, c, d, e, f in every]
    best = max(tokens_for_cost(policy, plan) for plan in plans)
    assert tokens_for_cost(policy, chosen) == pytest.approx(best, rel=1e-3)
    assert [row[held + 1 :] for held, row in enumerate(chosen)] == [(0, 0), (0,), ()]


@pytest.mark.parametrize("is_anchored", [False, True])
def test_two_passes_draft_what_decides_most_for_its_cost(is_anchored: bool) -> None:
    """By hand: m drafts of rate r are a geometric sum; the drafting pass decides one more if the anchor is a token."""
    policy = DraftLengthPolicy(costs=SOME, acceptance=(0.8,) * 5)
    rates = [1.0]
    for drafts in range(1, 6):
        tokens = sum(0.8**lag for lag in range(drafts + 1)) + (not is_anchored)
        rates.append(tokens / (2 * float(SOME(np.array([drafts + 1]))[0])))
    assert two_pass_length(policy, 0, 5, is_anchored) == int(np.argmax(rates))
    assert two_pass_length(policy, 0, 5, False) >= 1


@pytest.mark.parametrize(("costs", "acceptance", "pays"), [(CHEAP, 0.9, True), (DEAR, 0.3, False)])
def test_drafting_is_done_where_it_pays_and_nowhere_else(costs: PassCosts, acceptance: float, pays: bool) -> None:
    policy = DraftLengthPolicy(costs=costs, acceptance=(acceptance,) * 3)
    lengths = one_pass_lengths(policy, 0, 3)
    assert lengths[3] == ((3, 3, 3, 3) if pays else (0, 0, 0, 0))
    for is_anchored in (False, True):
        assert two_pass_length(policy, 0, 3, is_anchored) == (3 if pays else 0)
    stats = orthrus.generate(with_view("qwen3"), [3, 4], policy=policy, max_new_tokens=9, eos_ids=()).stats  # type: ignore[union-attr]
    assert (stats.mask_rows > 0) == pays


def test_a_sequence_whose_drafts_fail_asks_for_fewer() -> None:
    """The same policy, two views: one that repeats what it is asked, drafted wrongly, stops; the count is its own."""
    policy = DraftLengthPolicy(costs=SOME, acceptance=(0.8,) * 3, prior_weight=1.0)
    assert sum(map(sum, one_pass_lengths(policy, -8, 3))) < sum(map(sum, one_pass_lengths(policy, 0, 3)))
    model, prompts = with_view("qwen3"), [[3, 4], [7, 1, 2], [5]]
    together = orthrus.generate(model, prompts, policy=policy, max_new_tokens=40, eos_ids=())
    alone = [orthrus.generate(model, prompt, policy=policy, max_new_tokens=40, eos_ids=()) for prompt in prompts]
    assert isinstance(together, list)
    assert [r.stats.offered for r in together] == [r.stats.offered for r in alone]  # type: ignore[union-attr]
    fixed = orthrus.generate(model, prompts, lookahead="quadratic", max_new_tokens=40, eos_ids=())
    assert isinstance(fixed, list)
    assert sum(r.stats.rows for r in together) < sum(r.stats.rows for r in fixed)


def test_the_policy_of_a_model_takes_its_measured_acceptance_and_the_costs_of_its_size() -> None:
    model = with_view("qwen2")
    model.acceptance = (0.9, 0.8, 0.7)
    policy = adaptive(model)
    assert (policy.acceptance, policy.costs) == ((0.9, 0.8, 0.7), SMALL_CPU)
    wide = network("llama", width=400)
    assert adaptive(wide).costs is BASE_CPU
    assert adaptive(wide).acceptance == DraftLengthPolicy().acceptance
    assert adaptive(wide.to(torch.device("meta"))).costs not in (SMALL_CPU, BASE_CPU)
