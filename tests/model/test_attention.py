"""The position term of relative attention: its distances, its mask and its hand-written gradient."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anyorder.model.attention import _PositionScores, geometry, position_scores, sinusoids
from anyorder.model.config import XLNetConfig
from anyorder.visibility import Rows

HEADS, WIDTH, STEPS = 3, 4, 5


def config(**values: object) -> XLNetConfig:
    return XLNetConfig(**{"vocab_size": 7, "d_model": 8, "n_layer": 1, "n_head": 2, "d_inner": 8, **values})


def trained_scores(query: Tensor, table: Tensor, distance: Tensor) -> Tensor:
    """With the gradient written out."""
    return _PositionScores.apply(query, table, distance)


def scores_by_definition(query: Tensor, table: Tensor, distance: Tensor) -> Tensor:
    """Autograd's own way: no product with all distances, one column of the table for each row and slot."""
    batch, count, _ = distance.shape
    rows = query.view(HEADS, batch, count, -1)
    columns = table[:, :, distance]  # (H, D, B, R, S)
    scores = torch.einsum("hbrd,hdbrs->bhrs", rows, columns)
    return scores.masked_fill((distance == table.shape[-1] - 1)[:, None], -math.inf)


def random_inputs(seed: int, batch: int, rows: int, slots: int) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(HEADS, batch * rows, WIDTH, dtype=torch.float64, generator=generator)
    table = torch.randn(HEADS, WIDTH, 2 * STEPS, dtype=torch.float64, generator=generator)
    row_position = torch.randint(STEPS, (batch, rows, 1), generator=generator)
    slot_position = torch.stack([torch.randperm(STEPS, generator=generator)[:slots] for _ in range(batch)])[:, None]
    hidden = torch.rand(batch, rows, slots, generator=generator) < 0.3
    distance = torch.where(hidden, 2 * STEPS - 1, row_position - slot_position + STEPS - 1)
    return query, table, distance


def weighted(scores: Tensor) -> Tensor:
    """A smooth function of visible scores alone, with another weight for each."""
    visible = scores.masked_fill(scores == -math.inf, 0.0)
    return (visible.sin() * torch.linspace(0.5, 2.0, scores.numel(), dtype=scores.dtype).view_as(scores)).sum()


@given(st.integers(0, 2**31), st.integers(1, 3), st.integers(1, 4), st.integers(1, STEPS))
def test_position_scores_and_their_gradients_equal_the_definition(seed: int, batch: int, rows: int, slots: int) -> None:
    query, table, distance = random_inputs(seed, batch, rows, slots)
    results = []
    for function in (trained_scores, scores_by_definition, position_scores):
        leaves = query.clone().requires_grad_(), table.clone().requires_grad_()
        scores = function(*leaves, distance)
        results.append((scores.detach(), *torch.autograd.grad(weighted(scores), leaves)))
    for mine, naive, plain in zip(*results, strict=True):
        torch.testing.assert_close(mine, naive, atol=1e-12, rtol=1e-12)
        torch.testing.assert_close(plain, naive, atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_the_gradient_of_position_scores_equals_finite_differences(seed: int) -> None:
    query, table, distance = random_inputs(seed, 2, 3, 4)
    leaves = query.requires_grad_(), table.requires_grad_()
    assert torch.autograd.gradcheck(lambda q, t: weighted(trained_scores(q, t, distance)), leaves)


def test_the_spare_column_reaches_neither_scores_nor_gradients() -> None:
    query, table, distance = random_inputs(0, 2, 3, 4)
    leaves = query.requires_grad_(), table.requires_grad_()
    scores = trained_scores(*leaves, distance)
    hidden = (distance == 2 * STEPS - 1)[:, None].expand_as(scores)
    assert hidden.any()
    assert (scores[hidden] == -math.inf).all()
    assert torch.isfinite(scores[~hidden]).all()
    # A gradient that arrives at minus infinity (softmax sends zeros, a caller's loss may not) is dropped.
    to_query, to_table = torch.autograd.grad(scores, leaves, hidden.double())
    assert not to_query.any()
    assert not to_table.any()


def test_a_sinusoid_table_holds_one_row_for_each_signed_distance() -> None:
    table = sinusoids(4, config(), torch.empty(0))
    frequency = 10000 ** (-torch.arange(0, 8, 2) / 8)
    for row, distance in enumerate(range(-3, 4)):
        want = torch.cat([(distance * frequency).sin(), (distance * frequency).cos()])
        torch.testing.assert_close(table[row], want)
    assert table.shape == (7, 8)


def test_clamped_sinusoids_repeat_beyond_the_clamp() -> None:
    plain, clamped = sinusoids(6, config(), torch.empty(0)), sinusoids(6, config(clamp_len=2), torch.empty(0))
    middle = slice(5 - 2, 5 + 3)
    assert torch.equal(clamped[middle], plain[middle])
    assert torch.equal(clamped[:3], clamped[3].expand(3, -1))
    assert torch.equal(clamped[8:], clamped[7].expand(3, -1))
    assert torch.equal(sinusoids(6, config(clamp_len=0), torch.empty(0)), plain), "0 means no clamp, as in Hugging Face"


def test_geometry_is_the_signed_distance_where_a_row_may_look_and_the_spare_column_elsewhere() -> None:
    rows = Rows(torch.tensor([[3, 1]]), torch.tensor([[2, 0]]))
    seen = geometry(rows, torch.tensor([[4, 0]]), torch.arange(3)[None], torch.tensor([[1, 5, 2]]), num_steps=6)
    hidden = 2 * 6 - 1
    assert seen.distance.tolist() == [[[4 - 1 + 5, 4 - 5 + 5, hidden], [0 - 1 + 5, hidden, hidden]]]
    assert seen.blind.tolist() == [[[False], [True]]]
    assert seen.from_row(1, None).distance.tolist() == [seen.distance[0, 1:].tolist()]
