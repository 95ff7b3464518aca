"""bfloat16 and float16 run every kind of pass and stay within their own rounding of float32."""

from __future__ import annotations

import pytest
import torch
from networks import all_steps, random_order, random_tokens, small_network
from torch import Tensor

from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, content_rows, verify_rows

HALVES = [torch.bfloat16, torch.float16]


def log_probs(network: XLNet, tokens: Tensor, order: Order) -> Tensor:
    steps = all_steps(order)
    with torch.no_grad():
        logits = network(tokens, order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps))
    assert logits.dtype == network.embedding.dtype
    return logits.double().log_softmax(-1)


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("depth", [2, 6])
def test_computing_in_half_precision_costs_little_more_than_rounding_the_weights(
    dtype: torch.dtype, depth: int
) -> None:
    """The bound: on average 2.5 times the shift of exact arithmetic on rounded weights, at worst 6 eps a layer."""
    order = random_order(0, [40] * 3, [5, 0, 20])
    tokens = random_tokens(0, order)
    network = small_network(n_layer=depth, d_model=64, d_inner=128)
    want = log_probs(network, tokens, order)
    got = log_probs(network.to(dtype), tokens, order)
    of_rounded_weights = log_probs(network.float(), tokens, order)
    error, unavoidable = got - want, of_rounded_weights - want
    assert torch.isfinite(got).all()
    assert error.square().mean().sqrt() < 2.5 * unavoidable.square().mean().sqrt()
    assert error.abs().max() < 6 * depth * torch.finfo(dtype).eps
    assert unavoidable.abs().max() > 0, "no rounding would mean no half precision"


@pytest.mark.parametrize("dtype", HALVES)
def test_a_cache_in_half_precision_equals_the_full_pass_within_its_rounding(dtype: torch.dtype) -> None:
    order = random_order(0, [12, 9], [3, 0])
    tokens, steps = random_tokens(0, order), all_steps(order)
    network = small_network().to(dtype).requires_grad_(False)
    cache = network.new_cache(2, order.num_steps)
    for chunk in (slice(0, 3), slice(3, 4), slice(4, 12)):
        network(tokens, order.sigma, cache, encode=content_rows(order, steps[:, chunk]), query=None)
    got = network(tokens, order.sigma, cache, encode=None, query=verify_rows(steps))
    assert cache.keys[0].dtype == dtype
    error = got.double().log_softmax(-1) - log_probs(network, tokens, order)
    assert error[0].abs().max() < 8 * torch.finfo(dtype).eps
    assert error[1, :9].abs().max() < 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", [*HALVES, torch.float64])
def test_rows_that_see_nothing_are_finite_and_know_nothing(dtype: torch.dtype) -> None:
    order = random_order(0, [6], [0])
    network = small_network().to(dtype).requires_grad_(False)
    query = Rows(torch.arange(6)[None], torch.zeros(1, 6, dtype=torch.long))
    first, second = (
        network(
            random_tokens(seed, order), order.sigma, None, encode=content_rows(order, all_steps(order)), query=query
        )
        for seed in (0, 1)
    )
    assert torch.isfinite(first).all()
    assert torch.equal(first, second)


@pytest.mark.parametrize("dtype", HALVES)
def test_training_in_half_precision_and_under_autocast_gives_finite_gradients_near_those_of_float32(
    dtype: torch.dtype,
) -> None:
    order = random_order(0, [20], [4])
    tokens, steps = random_tokens(0, order), all_steps(order)

    def gradients(network: XLNet) -> Tensor:
        asked = steps[:, 4:]
        logits = network(tokens, order.sigma, None, encode=content_rows(order, steps), query=verify_rows(asked))
        torch.nn.functional.cross_entropy(logits[0].float(), tokens[0, 4:]).backward()
        return torch.cat([parameter.grad.float().flatten() for parameter in network.parameters()])

    want = gradients(small_network())
    got = gradients(small_network().to(dtype))
    with torch.autocast("cpu", dtype=dtype):
        mixed = gradients(small_network())
    for gradient in (got, mixed):
        assert torch.isfinite(gradient).all()
        assert torch.cosine_similarity(gradient, want, dim=0) > 0.99
