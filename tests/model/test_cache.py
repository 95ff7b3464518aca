"""A cache changes what a pass costs, never what it says: one slot a step, overwritten at will, never read too far."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import VOCABULARY, all_steps, random_order, random_tokens, small_network
from torch import Tensor

from anyorder.model.cache import KeyValueCache
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, content_rows, draft_rows, verify_rows

TOLERANCE = 1e-5


@pytest.fixture(scope="module")
def network() -> XLNet:
    return small_network().requires_grad_(False)


def full_pass(network: XLNet, tokens: Tensor, order: Order) -> Tensor:
    """(B, L, V), the density of every step from one pass without a cache."""
    steps = all_steps(order)
    return network(tokens, order.sigma, None, encode=content_rows(order, steps), query=verify_rows(steps))


def assert_same_where_real(got: Tensor, want: Tensor, order: Order) -> None:
    real = torch.arange(order.num_steps) < order.length[:, None]
    torch.testing.assert_close(got[real], want[real], atol=TOLERANCE, rtol=TOLERANCE)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    lengths = draw(st.lists(st.integers(1, 12), min_size=1, max_size=3))
    num_prompt = [draw(st.integers(0, length)) for length in lengths]
    return random_order(draw(st.integers(0, 2**31)), lengths, num_prompt)


@settings(max_examples=30)
@given(order=orders(), extra_slots=st.integers(0, 5))
def test_token_by_token_with_a_cache_equals_one_full_pass(network: XLNet, order: Order, extra_slots: int) -> None:
    """Sequential decoding as it is: the prompt in one pass, then one token and one query a pass."""
    tokens = random_tokens(1, order)
    want = full_pass(network, tokens, order)
    cache = network.new_cache(len(tokens), order.num_steps + extra_slots)
    steps = all_steps(order)
    prompt = torch.where(steps < order.num_prompt[:, None], steps, order.num_steps)
    network(tokens, order.sigma, cache, encode=content_rows(order, prompt), query=None)
    got = torch.zeros_like(want)
    for step in range(order.num_steps):
        before = steps[:, step - 1 : step] if step else steps[:, :0]
        before = torch.where(before >= order.num_prompt[:, None], before, order.num_steps)
        now = steps[:, step : step + 1]
        got[:, step : step + 1] = network(
            tokens, order.sigma, cache, encode=content_rows(order, before), query=verify_rows(now)
        )
    # A prompt step asked through the finished prompt sees what it would see: only its own past.
    assert_same_where_real(got, want, order)


@settings(max_examples=30)
@given(order=orders(), data=st.data())
def test_steps_may_be_encoded_in_chunks_of_any_size(network: XLNet, order: Order, data: st.DataObject) -> None:
    tokens = random_tokens(2, order)
    want = full_pass(network, tokens, order)
    steps = all_steps(order)
    cache = network.new_cache(len(tokens), order.num_steps)
    start = int(order.num_prompt.max())  # prompts see themselves in both directions, so they are one chunk
    network(tokens, order.sigma, cache, encode=content_rows(order, steps[:, :start]), query=None)
    while start < order.num_steps:
        stop = data.draw(st.integers(start + 1, order.num_steps))
        network(tokens, order.sigma, cache, encode=content_rows(order, steps[:, start:stop]), query=None)
        start = stop
    got = network(tokens, order.sigma, cache, encode=None, query=verify_rows(steps))
    assert_same_where_real(got, want, order)


@settings(max_examples=30)
@given(order=orders(), data=st.data())
def test_a_rejected_draft_leaves_no_trace(network: XLNet, order: Order, data: st.DataObject) -> None:
    """Wrong tokens are encoded ahead of the truth, which then overwrites them a step at a time."""
    tokens = random_tokens(3, order)
    want = full_pass(network, tokens, order)
    steps = all_steps(order)
    cache = network.new_cache(len(tokens), order.num_steps)
    start = int(order.num_prompt.max())
    network(tokens, order.sigma, cache, encode=content_rows(order, steps[:, :start]), query=None)
    for step in range(start, order.num_steps):
        ahead = steps[:, step : step + data.draw(st.integers(1, 4))]
        wrong = (tokens + 1) % VOCABULARY
        network(wrong, order.sigma, cache, encode=content_rows(order, ahead), query=None)
        now = steps[:, step : step + 1]
        asked = Rows(steps[:, step:], torch.full_like(steps[:, step:], step))  # blind to the drafts
        drafted = network(tokens, order.sigma, cache, encode=None, query=asked)
        assert_same_where_real(drafted[:, :1], want[:, step : step + 1], _window(order, step))
        network(tokens, order.sigma, cache, encode=content_rows(order, now), query=None)
    got = network(tokens, order.sigma, cache, encode=None, query=verify_rows(steps))
    assert_same_where_real(got, want, order)


def _window(order: Order, step: int) -> Order:
    """An order of width one whose rows are real where ``step`` is."""
    return Order(sigma=order.sigma[:, :1], num_prompt=order.num_prompt, length=order.length - step)


def test_writing_a_wrong_draft_and_then_the_truth_is_bitwise_as_if_it_had_never_been_there(network: XLNet) -> None:
    order = random_order(0, [8], [2])
    tokens = random_tokens(0, order)

    def decode(wrong_first: bool) -> Tensor:
        cache = network.new_cache(1, 8)
        network(tokens, order.sigma, cache, encode=content_rows(order, torch.arange(4)[None]), query=None)
        step = torch.tensor([[4]])
        for text in ([tokens + 1] if wrong_first else []) + [tokens]:
            network(text % VOCABULARY, order.sigma, cache, encode=content_rows(order, step), query=None)
        return network(tokens, order.sigma, cache, encode=None, query=verify_rows(torch.tensor([[4, 5]])))

    assert torch.equal(decode(wrong_first=True), decode(wrong_first=False))


def test_slots_beyond_what_a_row_sees_may_hold_anything_finite(network: XLNet) -> None:
    order = random_order(0, [8], [3])
    tokens = random_tokens(0, order)
    cache = network.new_cache(1, 8)
    network(tokens, order.sigma, cache, encode=content_rows(order, torch.arange(5)[None]), query=None)
    query = draft_rows(torch.tensor([[5, 6, 7]]), torch.tensor([5]))
    before = network(tokens, order.sigma, cache, encode=None, query=query)
    for buffer in (*cache.keys, *cache.values):
        buffer[:, :, 5:] = 1e4
    assert torch.equal(before, network(tokens, order.sigma, cache, encode=None, query=query))
    for buffer in (*cache.keys, *cache.values):
        buffer[:, :, 4:] = 1e4
    assert not torch.equal(before, network(tokens, order.sigma, cache, encode=None, query=query))


def test_a_fresh_cache_is_zero_since_not_a_number_would_pass_through_a_mask(network: XLNet) -> None:
    cache = network.new_cache(2, 5)
    assert all(not buffer.any() for buffer in (*cache.keys, *cache.values))
    assert cache.keys[0].shape == (2, 4, 6, 8), "one slot a step and a spare one"
    assert cache.num_steps == 5


@settings(max_examples=20)
@given(order=orders(), seen=st.integers(1, 12))
def test_reading_only_the_slots_that_are_seen_changes_nothing(network: XLNet, order: Order, seen: int) -> None:
    seen = min(seen, order.num_steps)
    tokens = random_tokens(4, order)
    steps = all_steps(order)
    cache = network.new_cache(len(tokens), order.num_steps)
    network(tokens, order.sigma, cache, encode=content_rows(order, steps), query=None)
    query = Rows(steps, torch.full_like(steps, seen))
    everything = network(tokens, order.sigma, cache, encode=None, query=query)
    bounded = network(tokens, order.sigma, cache, encode=None, query=query, num_slots=seen)
    assert_same_where_real(bounded, everything, order)


def test_a_row_that_takes_no_part_writes_to_the_spare_slot_alone(network: XLNet) -> None:
    order = random_order(0, [6, 6], [2, 2])
    tokens = random_tokens(0, order)
    cache = network.new_cache(2, 6)
    network(tokens, order.sigma, cache, encode=content_rows(order, torch.arange(6).expand(2, 6)), query=None)
    before = [buffer[:, :, :6].clone() for buffer in cache.keys]
    nobody = torch.full((2, 2), order.num_steps)
    network((tokens + 1) % VOCABULARY, order.sigma, cache, encode=content_rows(order, nobody), query=None)
    assert all(torch.equal(buffer[:, :, :6], kept) for buffer, kept in zip(cache.keys, before, strict=True))


def test_a_sentinel_row_is_harmless_in_a_cache_wider_than_the_text(network: XLNet) -> None:
    """Its step is the text's width, an ordinary slot of a wider cache, which nobody may read."""
    order = random_order(0, [6], [2])
    tokens = random_tokens(0, order)
    cache = network.new_cache(1, 10)
    steps = torch.tensor([[0, 1, 2, 3, 4, 5, 6]])
    got = network(tokens, order.sigma, cache, encode=content_rows(order, steps), query=verify_rows(steps[:, :6]))
    assert_same_where_real(got, full_pass(network, tokens, order), order)


def test_the_cache_of_some_rows_continues_as_those_rows_alone(network: XLNet) -> None:
    order = random_order(0, [9, 7, 9], [2, 3, 1])
    tokens = random_tokens(0, order)
    steps = all_steps(order)
    cache = network.new_cache(3, order.num_steps)
    network(tokens, order.sigma, cache, encode=content_rows(order, steps[:, :5]), query=None)
    rows = torch.tensor([2, 0])
    chosen, some = order.select(rows), cache.select(rows)
    network(tokens[rows], chosen.sigma, some, encode=content_rows(chosen, steps[rows, 5:]), query=None)
    got = network(tokens[rows], chosen.sigma, some, encode=None, query=verify_rows(steps[rows]))
    assert_same_where_real(got, full_pass(network, tokens, order)[rows], chosen)
    assert not cache.keys[0][:, :, 5:9].any(), "a selection is a copy"


def test_a_cache_of_another_kind_is_a_type_error(network: XLNet) -> None:
    order = random_order(0, [3], [1])
    with pytest.raises(TypeError, match="cache must come from this model's new_cache, got dict"):
        network(random_tokens(0, order), order.sigma, {}, encode=None, query=None)


def test_slots_are_flat_and_send_sentinels_to_the_spare_slot() -> None:
    cache = KeyValueCache.empty(1, (2, 2, 4, 1), torch.empty(0))
    assert cache.slots(torch.tensor([[0, 3], [2, 4]])).tolist() == [0, 3, 5, 8, 10 + 2, 10 + 4, 15 + 2, 15 + 4]
    assert cache.slots(torch.tensor([[9], [1]])).tolist() == [4, 9, 10 + 1, 15 + 1]


def test_a_pass_over_no_rows_at_all_is_legal(network: XLNet) -> None:
    """An empty prompt is encoded so."""
    order = random_order(0, [4, 4], [0, 0])
    nothing = content_rows(order, torch.zeros(2, 0, dtype=torch.long))
    for cache in (network.new_cache(2, 4), None):
        assert network(random_tokens(0, order), order.sigma, cache, encode=nothing, query=None).shape == (2, 0, 40)
