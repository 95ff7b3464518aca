"""Draft lengths: what is chosen, that it pays, and that it depends on nothing it must not depend on."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyorder.draft_length import CPU_COSTS, DraftLengthPolicy, History, PassCosts

FLAT = PassCosts(rows=(1, 1000), costs=(1.0, 1.0))
STEEP = PassCosts(rows=(1, 100), costs=(1.0, 100.0))
ACCELERATOR = PassCosts(rows=(1, 64, 256), costs=(1.0, 1.0, 1.2))
RATES = st.lists(st.floats(0, 1), min_size=1, max_size=5).map(tuple)


def after(policy: DraftLengthPolicy, *rounds: tuple[int, int]) -> History:
    """The history of one sequence whose rounds tested and kept so many drafts."""
    history = History.empty(1)
    for tested, kept in rounds:
        history = policy.after(history, np.array([tested]), np.array([kept]))
    return history


def level(policy: DraftLengthPolicy, *rounds: tuple[int, int]) -> int:
    return policy.levels(after(policy, *rounds))[0]


def test_costs_are_linear_between_the_points_and_beyond_the_last() -> None:
    costs = PassCosts(rows=(2, 4, 8), costs=(1.0, 2.0, 3.0))
    assert costs(np.array([2, 3, 4, 6, 8, 12, 1])).tolist() == [1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 1.0]


def test_history_counts_a_test_only_if_it_was_reached() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.4))
    seen = policy.after(History.empty(2), np.array([3, 2]), np.array([1, 2]))
    seen = policy.after(seen, np.array([0, 3]), np.array([0, 2]))
    assert seen.tested.tolist() == [2, 5]
    assert seen.accepted.tolist() == [1, 4]
    # A third draft is expected to be kept as often as the longest lag known.
    assert seen.expected.tolist() == pytest.approx([0.9, 0.9 + 1.3])
    chosen = seen.select(np.array([1]))
    assert (chosen.tested.tolist(), chosen.accepted.tolist()) == ([5], [4])
    assert chosen.expected.tolist() == seen.expected.tolist()[1:]


def test_survival_starts_from_the_stored_acceptance() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.4))
    assert policy.levels(History.empty(2)) == [0, 0]
    assert policy.survival(0).tolist() == [1.0, 0.5, pytest.approx(0.2)]
    assert policy.survival(0, 3).tolist() == [1.0, 0.5, pytest.approx(0.2), pytest.approx(0.08)]
    certain = DraftLengthPolicy(acceptance=(1.0, 0.0))
    assert certain.survival(0).tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("rate", "rounds", "wanted"),
    [
        (0.5, [(1, 1)], 4),  # the log-odds of 3 / 4, (1 / 2 expected + 1 kept) / (1 + 1)
        (0.5, [(1, 0)], -4),
        (0.5, [(1, 1), (1, 0)], 0),
        (0.2, [(1, 1)], 7),  # of 3 / 5 less those of 1 / 5
        (0.01, [(1, 1)] * 50, 16),
        (0.99, [(1, 0)] * 50, -16),
        (0.0, [(1, 0)] * 3, 0),
        (0.0, [(1, 1)], 16),
        (1.0, [(1, 1)] * 3, 0),
        (1.0, [(1, 0)], -16),
    ],
)
def test_a_level_is_a_quarter_of_the_log_odds_gained_and_sixteen_at_most(
    rate: float, rounds: list[tuple[int, int]], wanted: int
) -> None:
    assert level(DraftLengthPolicy(acceptance=(rate,), prior_weight=1.0), *rounds) == wanted


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.7, 0.9])
def test_survival_ends_at_what_was_seen(rate: float) -> None:
    policy = DraftLengthPolicy(acceptance=(0.5,), prior_weight=4.0)
    draw = np.random.default_rng(0)
    learnt = level(policy, *((1, int(draw.random() < rate)) for _ in range(2000)))
    assert policy.survival(learnt)[1] == pytest.approx(rate, abs=0.05)


def test_a_history_as_expected_changes_nothing() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.5, 0.5))
    assert level(policy, *[(3, 0)] * 40, *[(3, 1)] * 20, *[(3, 2), (3, 3)] * 10) == 0


def test_a_lag_never_tested_learns_from_the_others() -> None:
    policy = DraftLengthPolicy(acceptance=(0.5, 0.5), prior_weight=4.0)
    good = policy.survival(level(policy, *[(1, 1)] * 190, *[(1, 0)] * 10))
    bad = policy.survival(level(policy, *[(1, 1)] * 10, *[(1, 0)] * 190))
    assert good[2] / good[1] > 0.9
    assert bad[2] / bad[1] < 0.1


@given(rates=RATES, early=st.integers(-16, 16), late=st.integers(-16, 16))
def test_survival_falls_with_the_drafts_and_rises_with_the_level(
    rates: tuple[float, ...], early: int, late: int
) -> None:
    policy = DraftLengthPolicy(acceptance=rates)
    low, high = (policy.survival(level, 7) for level in sorted((early, late)))
    assert low[0] == 1
    assert bool((np.diff(low) <= 0).all())
    assert bool((low <= high + 1e-5).all())


@pytest.mark.parametrize("rate", [0.0, 0.5, 0.99])
def test_where_rows_cost_as_much_as_passes_nothing_is_drafted(rate: float) -> None:
    policy = DraftLengthPolicy(costs=STEEP, acceptance=(rate,) * 4)
    assert policy.two_pass_length(0, 50) == 1
    assert policy.external_length(0, 50) == 0
    assert policy.next_drafts(0, 0) == (0,)


def test_where_rows_are_free_all_that_can_be_kept_is_drafted() -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=(0.5, 0.5, 0.5, 0.5))
    assert policy.external_length(0, 50) == 4
    for held in range(5):
        assert policy.next_drafts(0, held) == (4,) * (held + 1)


@pytest.mark.parametrize("costs", [FLAT, CPU_COSTS], ids=["flat", "cpu"])
def test_a_long_acceptance_is_planned_as_its_first_sixteen_lags_are(costs: PassCosts) -> None:
    long, short = (DraftLengthPolicy(costs=costs, acceptance=(0.9,) * lags) for lags in (40, 16))
    held = [long.next_drafts(0, held) for held in range(17)]
    assert held == [short.next_drafts(0, held) for held in range(17)]
    assert max(map(max, held)) <= 16
    assert long.external_length(0, 99) >= short.external_length(0, 99)


@pytest.mark.parametrize("left", [0, 1, 2, 3])
def test_no_more_is_drafted_than_is_left(left: int) -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=(0.99,) * 6)
    # Two passes for two tokens is what two plain steps cost: a tie, which the fewer drafts win.
    assert policy.two_pass_length(0, left) == (1 if left == 2 else left)
    assert policy.external_length(0, left) == left


TABLES = st.lists(st.floats(0, 1), min_size=4, max_size=4).map(
    lambda steps: PassCosts(rows=(1, 3, 5, 9), costs=tuple(1 + sum(steps[: n + 1]) for n in range(4)))
)


def tokens_of_a_round(rates: tuple[float, ...], tested: int) -> float:
    """How many tokens a round decides on average: those of the tested drafts that are kept, and one after them."""
    chances = np.cumprod((1.0, *rates[:tested]))
    happens = [*(chances[:-1] - chances[1:]), chances[-1]]
    return sum((kept + 1) * chance for kept, chance in enumerate(happens))


@given(rates=RATES, costs=TABLES, own=st.none() | TABLES)
@example(rates=(0.9,), costs=FLAT, own=PassCosts(rows=(2, 3, 30), costs=(1.0, 5.0, 5.0)))
@example(rates=(0.9,), costs=FLAT, own=PassCosts(rows=(2, 5, 6), costs=(1.0, 1.0, 9.0)))
def test_the_two_pass_length_maximises_decided_tokens_per_cost(
    rates: tuple[float, ...], costs: PassCosts, own: PassCosts | None
) -> None:
    policy = DraftLengthPolicy(costs=costs, two_pass_costs=own, acceptance=rates)
    best = [1 / float((costs if own is None else own)(np.array(2)))]
    for k in range(2, len(rates) + 2):
        apart = costs(np.array(1 + k)) + costs(np.array(2 * (k - 1)))
        cost = apart if own is None else own(np.array(1 + k + 2 * (k - 1)))
        # The first draft is exact, and no token follows the last one: a round that keeps all decides K.
        kept_all = float(np.prod(rates[: k - 1]))
        best.append((1 + tokens_of_a_round(rates, k - 1) - kept_all) / float(cost))
    for left in range(1, 9):
        chosen = policy.two_pass_length(0, left)
        assert 1 <= chosen <= left
        assert best[chosen - 1] == pytest.approx(max(best[:left]), rel=1e-12)


@given(rates=RATES, costs=TABLES)
def test_the_number_of_external_drafts_maximises_decided_tokens_per_cost(
    rates: tuple[float, ...], costs: PassCosts
) -> None:
    """A pass encodes the drafts and one token before them, and asks for the step after each."""
    policy = DraftLengthPolicy(costs=costs, acceptance=rates)
    best = [tokens_of_a_round(rates, k) / float(costs(np.array(2 * (k + 1)))) for k in range(len(rates) + 1)]
    for left in range(9):
        chosen = policy.external_length(0, left)
        assert 0 <= chosen <= left
        assert best[chosen] == pytest.approx(max(best[: left + 1]), rel=1e-12)


def test_ever_more_is_drafted_the_more_is_kept() -> None:
    policy = DraftLengthPolicy()
    for choose in (policy.two_pass_length, policy.external_length):
        chosen = [choose(level, 99) for level in range(-16, 17)]
        assert chosen == sorted(chosen)
        assert chosen[0] < chosen[-1]


def cost_of_a_token(policy: DraftLengthPolicy, rate: float, constant: int | None = None) -> float:
    """One-pass decoding of 32 texts of 100 tokens if every draft is kept with the same probability: a coin."""
    tosses, spent, costs = np.random.default_rng(0), 0.0, policy.costs(np.arange(200)).tolist()
    for _ in range(32):
        past, done, held = History.empty(1), 0, 0
        while done < 100:
            left, level = 100 - done, policy.levels(past)[0] if constant is None else 0
            wanted = policy.next_drafts(level, held, constant=constant)
            asked = [min(next_drafts, max(left - 1 - outcome, 0)) for outcome, next_drafts in enumerate(wanted)]
            spent += costs[held + 1 + min(held + 1, left) + sum(asked)]
            kept = int((tosses.random(held) < rate).cumprod().sum())
            if held and constant is None:
                past = policy.after(past, np.array([held]), np.array([kept]))
            done += min(kept + 1, left)
            held = min(asked[kept], 100 - done)
    return spent / 3200


@pytest.mark.parametrize("costs", [CPU_COSTS, ACCELERATOR], ids=["cpu", "accelerator"])
@pytest.mark.parametrize("rate", [0.0, 0.2, 0.5, 0.8, 0.95])
def test_choosing_anew_costs_at_most_three_percent_more_than_the_best_length(rate: float, costs: PassCosts) -> None:
    policy = DraftLengthPolicy(costs=costs)
    constant = [cost_of_a_token(policy, rate, k) for k in range(7)]
    assert cost_of_a_token(policy, rate) <= 1.03 * min(constant)


def test_the_cost_of_a_token_falls_as_drafts_are_kept_more_often() -> None:
    costs = [cost_of_a_token(DraftLengthPolicy(), rate) for rate in (0.0, 0.3, 0.6, 0.9)]
    assert all(late < early for early, late in pairwise(costs))


def test_fewer_rows_than_a_table_knows_cost_what_its_fewest_do() -> None:
    costs = PassCosts(rows=(32, 64), costs=(1.0, 10.0))
    assert costs(np.array([1, 32, 64, 96])).tolist() == [1.0, 1.0, 10.0, 19.0]


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: PassCosts(rows=(1,), costs=(1.0,)), "at least two"),
        (lambda: PassCosts(rows=(1, 2), costs=(1.0,)), "equally many"),
        (lambda: PassCosts(rows=(2, 2), costs=(1.0, 1.0)), "rows must increase"),
        (lambda: PassCosts(rows=(1, 2), costs=(2.0, 1.0)), "must not fall"),
        (lambda: PassCosts(rows=(1, 2, 3), costs=(1.0, 3.0, 2.0)), "must not fall"),
        (lambda: PassCosts(rows=(1, 2), costs=(0.0, 1.0)), "must be positive"),
        (lambda: PassCosts(rows=(1, 2, 3), costs=(1.0, 2.0, np.inf)), "must be positive, finite"),
        (lambda: PassCosts(rows=(1, 2, 3), costs=(1.0, np.nan, 2.0)), "must be positive, finite"),
        (lambda: DraftLengthPolicy(acceptance=()), "one or more probabilities"),
        (lambda: DraftLengthPolicy(acceptance=(0.5, 1.5)), "one or more probabilities"),
        (lambda: DraftLengthPolicy(prior_weight=0.0), "prior_weight must be positive"),
        (lambda: DraftLengthPolicy(prior_weight=np.inf), "prior_weight must be positive and finite"),
        (lambda: DraftLengthPolicy(acceptance=[0.5]), "acceptance must be a tuple"),
        (lambda: PassCosts(rows=(1, 2), costs=(1.0, np.inf)), "must be positive, finite"),
    ],
)
def test_bad_tables_are_refused(build: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()  # type: ignore[operator]
