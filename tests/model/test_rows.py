"""p is a function of the context alone: not of the batch, of other rows of the pass, or of padding.

What others hold never changes a bit. How many there are may change the last ones, since matrix products pick their
kernel by the number of rows: far less than what separates two tokens.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import VOCABULARY, all_steps, random_order, random_tokens, small_network
from torch import Tensor

from anyorder.model.linear import Packing, can_pack
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, concat, content_rows, draft_rows, verify_rows

ROUNDING = 1e-5
PACKINGS: list[Packing] = [p for p in ("plain", "packed", "float16") if can_pack(torch.empty(1, 1), p)]


@pytest.fixture(scope="module", params=PACKINGS)
def network(request: pytest.FixtureRequest) -> XLNet:
    network = small_network().requires_grad_(False)
    return network.pack(request.param)


def density(network: XLNet, tokens: Tensor, order: Order) -> Tensor:
    steps = all_steps(order)
    return network(tokens, order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps))


def test_what_other_sequences_hold_does_not_change_a_bit(network: XLNet) -> None:
    order = random_order(0, [9, 7, 9], [2, 3, 0])
    tokens, others = random_tokens(1, order), random_tokens(2, order)
    others[1] = tokens[1]
    same_shape = Order(sigma=order.sigma.clone(), num_prompt=torch.tensor([5, 3, 4]), length=torch.tensor([9, 7, 4]))
    same_shape.sigma[0] = torch.randperm(9)
    want = density(network, tokens, order)[1, :7]
    assert torch.equal(density(network, others, order)[1, :7], want)
    assert torch.equal(density(network, others, same_shape)[1, :7], want)


def test_what_a_row_may_not_see_does_not_change_a_bit(network: XLNet) -> None:
    """Each step's density, with every token from that step on replaced, is the same number."""
    order = random_order(0, [9], [3])
    tokens = random_tokens(1, order)
    want = density(network, tokens, order)[0]
    for step in range(3, 9):
        changed = tokens.clone()
        changed[0, step:] = (tokens[0, step:] + 1 + torch.arange(9 - step)) % VOCABULARY
        got = density(network, changed, order)[0]
        assert torch.equal(got[: step + 1], want[: step + 1])
        assert step == 8 or not torch.equal(got[step + 1], want[step + 1])


def test_what_other_queries_ask_does_not_change_a_bit(network: XLNet) -> None:
    order = random_order(0, [9], [3])
    tokens = random_tokens(1, order)
    encode = content_rows(order, all_steps(order))
    mine = verify_rows(torch.tensor([[6]]))

    def beside(other: Rows) -> Tensor:
        return network(tokens, order.sigma, None, encode=encode, query=concat(mine, other))[0, 0]

    want = beside(verify_rows(torch.tensor([[4, 5]])))
    assert torch.equal(beside(draft_rows(torch.tensor([[7, 8]]), torch.tensor([0]))), want)
    assert torch.equal(beside(Rows(torch.tensor([[9, 9]]), torch.tensor([[9, 9]]))), want), "a row that takes no part"


@settings(max_examples=20)
@given(data=st.data())
def test_a_sequence_in_a_ragged_batch_is_that_sequence_alone(network: XLNet, data: st.DataObject) -> None:
    lengths = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    order = random_order(data.draw(st.integers(0, 99)), lengths, [data.draw(st.integers(0, n)) for n in lengths])
    tokens = random_tokens(3, order)
    together = density(network, tokens, order)
    for row, length in enumerate(lengths):
        alone = Order(
            sigma=order.sigma[row : row + 1, :length],
            num_prompt=order.num_prompt[row : row + 1],
            length=order.length[row : row + 1],
        )
        got = density(network, tokens[row : row + 1, :length], alone)
        torch.testing.assert_close(got[0], together[row, :length], atol=ROUNDING, rtol=0)


@settings(max_examples=20)
@given(data=st.data())
def test_a_query_answered_among_others_is_that_query_alone(network: XLNet, data: st.DataObject) -> None:
    order = random_order(0, [12, 12], [3, 5])
    tokens = random_tokens(3, order)
    encode = content_rows(order, all_steps(order))
    steps = torch.tensor(data.draw(st.lists(st.integers(0, 11), min_size=1, max_size=40)))
    seen = torch.tensor([data.draw(st.integers(0, 12)) for _ in steps])
    query = Rows(steps.expand(2, -1), seen.expand(2, -1))
    together = network(tokens, order.sigma, None, encode=encode, query=query)
    row = data.draw(st.integers(0, len(steps) - 1))
    one = Rows(*(part[:, row : row + 1] for part in query))
    alone = network(tokens, order.sigma, None, encode=encode, query=one)
    torch.testing.assert_close(alone[:, 0], together[:, row], atol=ROUNDING, rtol=0)


@pytest.mark.parametrize("shape", [{}, {"d_model": 96, "n_head": 6, "n_layer": 4, "d_inner": 256, "vocab_size": 600}])
def test_packing_moves_the_density_by_rounding_and_half_precision_weights_by_less_than_a_hundredth(
    shape: dict[str, Any],
) -> None:
    """Measured here: log-probabilities move by 3e-6 packed, and by at most 4e-3 (6e-4 on average) in float16."""
    order = random_order(0, [40] * 3, [5, 0, 20])
    vocab_size = shape.get("vocab_size", VOCABULARY)
    tokens = random_tokens(0, order, vocab_size)

    def log_probs(packing: Packing) -> Tensor:
        network = small_network(**shape).requires_grad_(False).pack(packing)
        return density(network, tokens, order).double().log_softmax(-1)

    plain = log_probs("plain")
    if "packed" in PACKINGS:
        assert (log_probs("packed") - plain).abs().max() < ROUNDING
    if "float16" in PACKINGS:
        shift = (log_probs("float16") - plain).abs()
        assert 1e-5 < shift.max() < 1e-2, "no shift at all would mean that nothing was packed"
        assert shift.mean() < 1.5e-3
