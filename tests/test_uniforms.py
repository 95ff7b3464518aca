"""Random choices by measure: which interval of uniform numbers yields which choice."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anyorder.uniforms import Uniforms

WEIGHTS = st.lists(st.sampled_from([0.0, 0.0, 1e-12, 0.1, 0.25, 1.0, 3.0]), min_size=1, max_size=6).filter(any)


class Given(Uniforms):
    """Hands out the numbers it was given."""

    def __init__(self, numbers: Tensor) -> None:
        super().__init__([])
        self.numbers = numbers

    def draw(self, counts: Tensor) -> Tensor:
        assert counts.tolist() == [self.numbers.shape[1]] * len(self.numbers)
        return self.numbers


@given(weights=WEIGHTS)
def test_each_token_owns_an_interval_as_long_as_its_probability(weights: list[float]) -> None:
    probs = torch.tensor(weights, dtype=torch.float64)
    edges = torch.cat([torch.zeros(1, dtype=torch.float64), probs.cumsum(0) / probs.sum()])
    for token, weight in enumerate(weights):
        if weight / sum(weights) < 1e-9:
            continue
        shares = torch.tensor([1e-6, 0.5, 1 - 1e-6], dtype=torch.float64)
        inside = 1 - edges[token] - (edges[token + 1] - edges[token]) * shares
        drawn = Given(inside[None]).categorical(probs.expand(1, 3, -1), torch.ones(1, 3, dtype=torch.bool))
        assert drawn.tolist() == [[token] * 3]


def test_every_draw_is_from_its_own_row_whatever_mass_the_others_have() -> None:
    probs = torch.rand(3, 4, 6, dtype=torch.float64) ** 4 * torch.tensor([1e-3, 1.0, 7.0, 20.0])[:, None]
    probs[:, :, 2] = 0
    numbers = torch.rand(3, 4, dtype=torch.float64)
    drawn = Given(numbers).categorical(probs, torch.ones(3, 4, dtype=torch.bool))
    for row, column in itertools.product(range(3), range(4)):
        weights = probs[row, column].tolist()
        threshold = sum(weights) * (1 - float(numbers[row, column]))
        reached = enumerate(zip(weights, itertools.accumulate(weights), strict=True))
        token = next(token for token, (weight, total) in reached if weight and total >= threshold)
        assert int(drawn[row, column]) == token


@given(weights=WEIGHTS, dtype=st.sampled_from([torch.float32, torch.float64]))
def test_a_token_of_probability_zero_is_never_drawn(weights: list[float], dtype: torch.dtype) -> None:
    extremes = torch.tensor([[0.0, 5e-324, 0.25, 0.5, 1 - 2**-52, 1 - 2**-53]], dtype=torch.float64)
    probs = torch.tensor(weights, dtype=dtype)
    drawn = Given(extremes).categorical(probs.expand(1, 6, -1), torch.ones(1, 6, dtype=torch.bool))
    assert bool((probs[drawn] > 0).all())


def test_not_even_a_threshold_that_rounds_to_zero_reaches_an_impossible_token() -> None:
    probs = torch.tensor([[[0.0, 5e-324, 0.0]]], dtype=torch.float64)
    drawn = Given(torch.tensor([[0.9]], dtype=torch.float64)).categorical(probs, torch.ones(1, 1, dtype=torch.bool))
    assert int(drawn) == 1


@pytest.mark.parametrize("probs", [torch.zeros(4), torch.full((4,), torch.nan)])
def test_a_distribution_without_mass_still_yields_a_valid_id(probs: Tensor) -> None:
    drawn = Given(torch.tensor([[0.3]])).categorical(probs.expand(1, 1, -1), torch.ones(1, 1, dtype=torch.bool))
    assert 0 <= int(drawn) < 4


def test_bernoulli_is_strict() -> None:
    numbers = torch.tensor([[0.0, 0.3, 0.3, 0.999, 0.5]], dtype=torch.float64)
    chance = torch.tensor([[0.0, 0.3, 0.3 + 1e-12, 1.0, torch.nan]], dtype=torch.float64)
    drawn = Given(numbers).bernoulli(chance, torch.ones(1, 5, dtype=torch.bool))
    assert drawn.tolist() == [[False, False, True, True, False]]


def test_a_row_consumes_exactly_the_numbers_asked_for() -> None:
    counts = [torch.tensor(c) for c in ([2, 0, 3], [0, 0, 0], [1, 4, 0], [60, 61, 0], [9, 150, 1], [70, 3, 63])]
    together = Uniforms([7, 8, 9])
    drawn = [together.draw(c) for c in counts]
    for row, seed in enumerate([7, 8, 9]):
        stream = torch.rand(256, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        got = torch.cat([numbers[row, : int(c[row])] for numbers, c in zip(drawn, counts, strict=True)])
        assert torch.equal(got, stream[: len(got)])


def test_draws_that_do_not_take_place_consume_nothing() -> None:
    probs, where = torch.full((1, 3, 4), 0.25), torch.tensor([[False, True, True]])
    sparse, dense = Uniforms([3]), Uniforms([3])
    first = sparse.categorical(probs, where)
    assert first[0, 0] == 0
    assert torch.equal(first[:, 1:], dense.categorical(probs[:, 1:], where[:, 1:]))
    assert torch.equal(sparse.bernoulli(probs[..., 0], where)[:, 1:], dense.bernoulli(probs[:, 1:, 0], where[:, 1:]))
    assert torch.equal(sparse.draw(torch.tensor([2])), dense.draw(torch.tensor([2])))


def test_selected_rows_go_on_where_they_stood() -> None:
    straight, selected = Uniforms([1, 2, 3]), Uniforms([1, 2, 3])
    assert torch.equal(straight.draw(torch.tensor([2, 2, 2])), selected.draw(torch.tensor([2, 2, 2])))
    chosen = selected.select(torch.tensor([2, 0]))
    assert len(chosen) == 2
    assert torch.equal(chosen.draw(torch.tensor([3, 3])), straight.draw(torch.tensor([3, 0, 3]))[[2, 0]])
