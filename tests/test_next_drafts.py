"""What is asked for ahead: no other plan makes a token cheaper, limits are used up, and ties fall alike everywhere."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anyorder.draft_length import DraftLengthPolicy, PassCosts

FLAT = PassCosts(rows=(1, 1000), costs=(1.0, 1.0))
RATES = st.lists(st.floats(0, 1), min_size=1, max_size=5).map(tuple)
WIDTH = 3
GOES_ON = 1 - 1 / 64

PLANS = np.array(
    [
        [[a, 0, 0], [b, c, 0], [d, e, f]]
        for a, b, c, d, e, f in itertools.product(range(WIDTH), repeat=WIDTH * (WIDTH + 1) // 2)
    ]
)
"""Every choice of next drafts by drafts in hand and outcome."""


def prices(plans: np.ndarray, rates: tuple[float, ...], charge: np.ndarray) -> np.ndarray:
    """What a token costs under each plan, in texts that begin with no draft in hand and end after any round alike."""
    survival = np.cumprod((1.0, *rates))
    spent, tokens = (np.zeros((len(plans), WIDTH)) for _ in range(2))
    moves = np.zeros((len(plans), WIDTH, WIDTH))
    for held in range(WIDTH):
        spent[:, held] = charge[held, plans[:, held].sum(1)]
        for kept in range(held + 1):
            chance = survival[kept] - (survival[kept + 1] if kept < held else 0)
            tokens[:, held] += chance * (kept + 1)
            moves[np.arange(len(plans)), held, plans[:, held, kept]] += chance
    totals = np.linalg.solve(np.eye(WIDTH) - GOES_ON * moves, np.stack([spent, tokens], 2))
    return totals[:, 0, 0] / totals[:, 0, 1]


@settings(max_examples=50)
@given(
    rates=st.tuples(*[st.floats(0, 1)] * (WIDTH - 1)),
    slopes=st.lists(st.floats(0, 1), min_size=9, max_size=9),
    max_rows=st.none() | st.integers(1, 9),
)
@example(rates=(0.5, 0.5), slopes=[0.0] * 9, max_rows=2)
def test_no_plan_makes_a_token_cheaper(rates: tuple[float, ...], slopes: list[float], max_rows: int | None) -> None:
    """A pass encodes the drafts and one token before them, asks for the step after each, and for the next drafts."""
    costs = PassCosts(rows=tuple(range(2, 12)), costs=tuple((1 + np.cumsum([0.0, *slopes])).tolist()))
    policy = DraftLengthPolicy(costs=costs, acceptance=rates)
    held, asked = np.arange(WIDTH), PLANS.sum(2)
    charge = costs(2 * (held[:, None] + 1) + np.arange(asked.max() + 1))
    allowed = PLANS if max_rows is None else PLANS[((asked == 0) | (held + 1 + asked <= max_rows)).all(1)]
    chosen = np.zeros((1, WIDTH, WIDTH), int)
    for number in range(WIDTH):
        chosen[0, number, : number + 1] = policy.next_drafts(0, number, max_rows=max_rows)
    assert prices(chosen, rates, charge)[0] <= prices(allowed, rates, charge).min() + 1e-6


@given(
    rates=RATES,
    held=st.integers(0, 5),
    most=st.integers(1, 5),
    max_rows=st.integers(1, 40),
    level=st.sampled_from([0, -9, 9]),
)
@example(rates=(0.6, 0.2, 0.9), held=1, most=3, max_rows=6, level=0)
@example(rates=(0.5,), held=1, most=3, max_rows=5, level=9)
def test_a_limit_of_rows_leaves_out_the_least_useful_next_drafts_and_nothing_else(
    rates: tuple[float, ...], held: int, most: int, max_rows: int, level: int
) -> None:
    policy = DraftLengthPolicy(acceptance=rates)
    asked = policy.next_drafts(level, held, constant=most, max_rows=max_rows)
    assert len(asked) == held + 1
    assert sum(asked) == min(most * (held + 1), max(max_rows - held - 1, 0))
    survival = policy.survival(level, 6)
    happens = [survival[a] - survival[a + 1] if a < held else survival[a] for a in range(held + 1)]
    least = min((happens[a] * survival[n] for a, n in enumerate(asked) if n), default=np.inf)
    missed = max((happens[a] * survival[n + 1] for a, n in enumerate(asked) if n < most), default=0)
    assert missed <= least + 1e-12


@pytest.mark.parametrize("held", range(4))
def test_a_constant_length_is_asked_for_in_each_outcome(held: int) -> None:
    assert DraftLengthPolicy().next_drafts(0, held, constant=2) == (2,) * (held + 1)


@settings(max_examples=25)
@given(rates=RATES, held=st.integers(0, 5), max_rows=st.integers(1, 20), level=st.integers(-16, 16))
def test_what_pays_keeps_to_the_limit_of_rows_too(
    rates: tuple[float, ...], held: int, max_rows: int, level: int
) -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=rates)
    held = min(held, policy.max_lag)
    asked = policy.next_drafts(level, held, max_rows=max_rows)
    assert len(asked) == held + 1
    assert sum(asked) <= max(max_rows - held - 1, 0)
    assert max(asked) <= policy.max_lag


@pytest.mark.parametrize("max_rows", range(1, 6))
def test_what_pays_uses_a_limit_of_rows_up(max_rows: int) -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=(0.5,))
    for held in range(2):
        asked = policy.next_drafts(0, held, max_rows=max_rows)
        assert sum(asked) == min(held + 1, max(max_rows - held - 1, 0))


@pytest.mark.parametrize("level", [-8, 0, 8])
def test_a_limit_of_rows_that_is_never_reached_changes_nothing(level: int) -> None:
    policy = DraftLengthPolicy()
    for held in range(policy.max_lag + 1):
        assert policy.next_drafts(level, held, max_rows=99) == policy.next_drafts(level, held)


def test_of_equally_useful_next_drafts_those_of_the_fewest_kept_are_asked_for() -> None:
    """All drafts are kept for sure, so that those of every other outcome are of no use, and of none alike."""
    policy = DraftLengthPolicy(acceptance=(1.0,))
    assert policy.next_drafts(0, 40, constant=40, max_rows=119) == (38, *[0] * 39, 40)


def test_rows_that_cost_nothing_are_left_out_if_their_drafts_are_never_kept() -> None:
    policy = DraftLengthPolicy(costs=FLAT, acceptance=(0.0,) * 3)
    assert [policy.next_drafts(0, held) for held in range(4)] == [(0,) * (held + 1) for held in range(4)]
