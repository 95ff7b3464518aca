"""Rows that take no part are not computed, and leaving them out changes nothing for those that do."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from networks import VOCABULARY, random_order, random_tokens, small_network
from torch import Tensor

from anyorder.model import ragged
from anyorder.model.ragged import Ragged, parts_worth_leaving
from anyorder.model.xlnet import XLNet
from anyorder.order import Order
from anyorder.visibility import Rows, content_rows, draft_rows

ROUNDING = 1e-5


@pytest.fixture(scope="module")
def network() -> XLNet:
    return small_network().requires_grad_(False)


def steps(first: list[int], counts: list[int], sentinel: int) -> Tensor:
    """``counts`` steps of each sequence from ``first`` on, then the sentinel."""
    ahead = torch.arange(max(counts, default=0))
    start, count = torch.tensor(first)[:, None], torch.tensor(counts)[:, None]
    return torch.where(ahead < count, start + ahead, sentinel)


def some_rows(order: Order, encoded: list[int], asked: list[int]) -> tuple[Rows, Rows]:
    """The first ``encoded`` steps of each sequence as content, and ``asked`` draft rows behind them."""
    begin = torch.tensor(encoded)
    query = draft_rows(steps(encoded, asked, order.num_steps), begin)
    return content_rows(order, steps([0] * len(encoded), encoded, order.num_steps)), query


@pytest.mark.parametrize("has_cache", [False, True], ids=["in the pass", "cached"])
@pytest.mark.parametrize("packing", ["plain", "packed"])
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_leaving_rows_out_changes_no_answer(has_cache: bool, packing: str, data: st.DataObject) -> None:
    """Against the same pass with every row computed; what it leaves in the cache is asked for by a second pass."""
    network = small_network().requires_grad_(False).pack(packing)  # type: ignore[arg-type]
    batch = data.draw(st.integers(2, 5), "batch")
    encoded = data.draw(st.lists(st.integers(0, 6), min_size=batch, max_size=batch), "encoded")
    asked = data.draw(st.lists(st.integers(0, 4), min_size=batch, max_size=batch), "asked")
    order = random_order(0, [12] * batch, [min(count, 3) for count in encoded])
    tokens = random_tokens(1, order)
    encode, query = some_rows(order, encoded, asked)
    later = draft_rows(steps(encoded, [2] * batch, order.num_steps), torch.tensor(encoded))
    answers = []
    for share in (1.1, 0.0):
        with pytest.MonkeyPatch.context() as patch, torch.no_grad():
            patch.setattr(ragged, "WORTHWHILE", share)
            cache = network.new_cache(batch, order.num_steps) if has_cache else None
            first = network(tokens, order.sigma, cache, encode=encode, query=query)
            again = [network(tokens, order.sigma, cache, encode=None, query=later)] if has_cache else []
            answers.append((first[query.steps < order.num_steps], *again))
    assert answers[0][0].shape == (sum(asked), VOCABULARY)
    for got, want in zip(*answers, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=ROUNDING)


def test_layers_compute_the_rows_that_take_part(network: XLNet) -> None:
    """Seven content rows of a room for fifteen and four queries of a room for six; the last layer has queries alone."""
    order = random_order(0, [12] * 3, [1, 1, 3])
    encode, query = some_rows(order, [1, 1, 5], [2, 1, 1])
    seen: list[int] = []
    hooks = [
        layer.register_forward_hook(lambda _, given, out: seen.append(given[0].shape[:2].numel()))
        for layer in network.layers
    ]
    hooks.append(network.head.register_forward_hook(lambda _, given, out: seen.append(given[0].shape[:2].numel())))
    with torch.no_grad():
        network(random_tokens(1, order), order.sigma, None, encode=encode, query=query)
    for hook in hooks:
        hook.remove()
    assert seen == [7 + 4, 4, 4]


def test_with_gradients_every_row_is_computed(network: XLNet) -> None:
    """Training pads little, and takes its gradients through products of whole batches."""
    order = random_order(0, [12] * 3, [1, 1, 3])
    encode, query = some_rows(order, [1, 1, 5], [2, 1, 1])
    seen: list[int] = []
    hook = network.head.register_forward_hook(lambda _, given, out: seen.append(given[0].shape[:2].numel()))
    network(random_tokens(1, order), order.sigma, None, encode=encode, query=query)
    hook.remove()
    assert seen == [6]


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=4))
def test_padding_undoes_gathering(flags: list[list[bool]]) -> None:
    takes_part = torch.tensor(flags)
    if not takes_part.any():
        takes_part[0, 0] = True
    values = torch.arange(takes_part.numel() * 2.0).view(*takes_part.shape, 2)
    there = Ragged.of(takes_part)
    assert there.gather(values)[0].tolist() == values[takes_part].tolist()
    assert torch.equal(there.pad(there.gather(values))[takes_part], values[takes_part])


def test_a_part_without_rows_is_left_as_it_is() -> None:
    """With room for queries and none asked there is nothing that the padded ones could point at."""
    encodes = torch.tensor([[True, False, False], [False, False, False]])
    assert parts_worth_leaving(encodes, torch.zeros(2, 2, dtype=torch.bool)) is None
    assert parts_worth_leaving(encodes, torch.zeros(2, 0, dtype=torch.bool)) is not None
    assert parts_worth_leaving(encodes.fill_(True), torch.zeros(2, 0, dtype=torch.bool)) is None
