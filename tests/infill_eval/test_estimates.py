"""Estimates against enumeration: unbiased pass@k, exact sign flips, Holm, coverage."""

from __future__ import annotations

import math
from itertools import combinations, product
from statistics import mean

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from infill_eval.estimates import Estimate, compare, holm, not_worse, pass_at_k


@given(st.integers(1, 9), st.data())
def test_pass_at_k_is_the_share_of_k_subsets_with_a_pass(n: int, data: st.DataObject) -> None:
    correct, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    outcomes = [i < correct for i in range(n)]
    subsets = [any(chosen) for chosen in combinations(outcomes, k)]
    assert pass_at_k(n, correct, k) == pytest.approx(mean(subsets))


def test_pass_at_k_is_unbiased_where_the_naive_estimate_is_not() -> None:
    p, n, k = 0.3, 4, 2
    weights = {c: math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)}
    assert sum(w * pass_at_k(n, c, k) for c, w in weights.items()) == pytest.approx(1 - (1 - p) ** k)
    naive = sum(w * (1 - (1 - c / n) ** k) for c, w in weights.items())
    assert naive != pytest.approx(1 - (1 - p) ** k, abs=0.01)


@pytest.mark.parametrize(("n", "correct", "k"), [(2, 1, 3), (2, 3, 1), (2, -1, 1), (2, 1, 0)])
def test_pass_at_k_refuses_what_cannot_be(n: int, correct: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"k={k}, n={n}, correct={correct}"):
        pass_at_k(n, correct, k)


def test_an_estimate_is_the_mean_and_its_standard_error() -> None:
    estimate = Estimate.of([1.0, 2.0, 3.0, 6.0])
    assert estimate.mean == 3.0
    assert estimate.se == pytest.approx(math.sqrt((4 + 1 + 0 + 9) / 3) / 2)
    assert str(estimate) == "3.0000 ± 1.0801"


def test_one_item_has_no_standard_error_and_none_has_no_mean() -> None:
    assert str(Estimate.of([5.0])) == "5.0000"
    assert str(Estimate.of([])) == "–"
    assert Estimate.of([1.0, math.nan, 3.0]).n == 2


def test_the_sign_flip_p_value_is_the_enumerated_one() -> None:
    differences = [0.5, 1.0, -0.25, 2.0, 0.75, 0.5]
    flips = [abs(sum(s * d for s, d in zip(signs, differences, strict=True))) for signs in product((-1, 1), repeat=6)]
    exact = mean(total >= abs(sum(differences)) - 1e-9 for total in flips)
    found = compare(differences, [0.0] * 6, resamples=20_000).p_value
    assert found == pytest.approx(exact, abs=4 * math.sqrt(exact * (1 - exact) / 20_000))


def test_identical_systems_never_differ() -> None:
    comparison = compare([1.0, 2.0, 3.0], [1.0, 2.0, 3.0])
    assert (comparison.difference, comparison.low, comparison.high, comparison.p_value) == (0, 0, 0, 1)


def test_pairing_finds_a_small_difference_between_very_different_items() -> None:
    generator = np.random.default_rng(0)
    items = generator.normal(0, 100, 60)
    better = items + 1 + generator.normal(0, 0.5, 60)
    comparison = compare(list(better), list(items))
    assert comparison.p_value < 0.001
    assert comparison.low < 1 < comparison.high
    assert comparison.high - comparison.low < 0.5


def test_the_interval_covers_as_often_as_it_says() -> None:
    generator = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        values = generator.normal(0.3, 1, 40)
        interval = compare(list(values), [0.0] * 40, level=0.9, resamples=1000)
        covered += interval.low < 0.3 < interval.high
    assert 0.83 <= covered / 200 <= 0.95


def test_a_comparison_is_repeatable() -> None:
    values, base = [1.0, 5.0, 2.0], [0.0, 1.0, 4.0]
    assert compare(values, base, seed=3) == compare(values, base, seed=3)
    assert compare(values, base, seed=3) != compare(values, base, seed=4)


def test_a_comparison_needs_the_same_items() -> None:
    with pytest.raises(ValueError, match="2 against 1"):
        compare([1.0, 2.0], [1.0])


def test_holm_is_the_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_lies_between_no_correction_and_bonferroni(p_values: list[float]) -> None:
    for raw, adjusted in zip(p_values, holm(p_values), strict=True):
        assert raw <= adjusted <= min(1.0, len(p_values) * raw)


def test_not_worse_depends_on_the_margin_and_refuses_none() -> None:
    generator = np.random.default_rng(2)
    base = list(generator.normal(3, 1, 100))
    slightly = [value + 0.02 + generator.normal(0, 0.01) for value in base]
    assert not_worse(slightly, base, margin=0.05, alpha=0.001)[0]
    assert not not_worse(slightly, base, margin=0.01, alpha=0.001)[0]
    with pytest.raises(ValueError, match="margin must be positive, got 0"):
        not_worse(slightly, base, margin=0, alpha=0.001)


def test_the_bound_that_decides_is_the_one_sided_one_at_alpha() -> None:
    generator = np.random.default_rng(3)
    differences = generator.normal(0.02, 0.1, 400)
    mean, se = differences.mean(), differences.std(ddof=1) / 20
    _, bound = not_worse(list(differences), [0.0] * 400, margin=1.0, alpha=0.001)
    assert bound == pytest.approx(mean + 3.09 * se, abs=0.35 * se)
    _, wider = not_worse(list(differences), [0.0] * 400, margin=1.0, alpha=0.1)
    assert wider == pytest.approx(mean + 1.28 * se, abs=0.15 * se)
