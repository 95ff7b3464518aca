"""Laws of orders: a permutation a row, prompt first, padding last, and the way to positions and back."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from anyorder.order import Order, arrange


@st.composite
def targets(draw: st.DrawFn) -> tuple[Tensor, Tensor]:
    """``is_target`` (B, L) and row lengths, of which one is L."""
    lengths = draw(st.lists(st.integers(0, 10), min_size=1, max_size=4))
    width = max(lengths)
    flags = st.lists(st.booleans(), min_size=width, max_size=width)
    is_target = torch.tensor([draw(flags) for _ in lengths], dtype=torch.bool).view(len(lengths), width)
    return is_target, torch.tensor(lengths)


@st.composite
def orders(draw: st.DrawFn) -> Order:
    """Canonical orders whose targets were rearranged at random."""
    order = Order.from_targets(*draw(targets()))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return order.rearranged([torch.randperm(int(n), generator=generator) for n in order.num_targets])


@given(targets())
def test_the_canonical_order_is_the_prompt_then_the_targets_each_ascending(
    masked: tuple[Tensor, Tensor],
) -> None:
    is_target, length = masked
    order = Order.from_targets(is_target, length)
    for row in range(len(length)):
        real = is_target[row, : length[row]].tolist()
        prompt = [position for position, target in enumerate(real) if not target]
        rest = [position for position, target in enumerate(real) if target]
        padding = list(range(int(length[row]), is_target.shape[1]))
        assert order.sigma[row].tolist() == prompt + rest + padding
        assert int(order.num_prompt[row]) == len(prompt)
        assert int(order.num_targets[row]) == len(rest)
    assert order.num_steps == is_target.shape[1]


def test_without_lengths_every_row_is_full() -> None:
    order = Order.from_targets(torch.tensor([[True, False, True], [True, True, True]]))
    assert order.sigma.tolist() == [[1, 0, 2], [0, 1, 2]]
    assert order.num_prompt.tolist() == [1, 0]
    assert order.length.tolist() == [3, 3]


@given(targets())
def test_what_a_mask_says_beyond_a_row_is_ignored(masked: tuple[Tensor, Tensor]) -> None:
    is_target, length = masked
    beyond = torch.arange(is_target.shape[1]) >= length[:, None]
    first, second = (Order.from_targets(is_target ^ flip, length) for flip in (torch.zeros_like(beyond), beyond))
    assert torch.equal(first.sigma, second.sigma)
    assert torch.equal(first.num_prompt, second.num_prompt)


@given(orders(), st.integers(0, 2**31))
def test_steps_and_positions_are_inverse(order: Order, seed: int) -> None:
    values = torch.randint(1000, order.sigma.shape, generator=torch.Generator().manual_seed(seed))
    assert torch.equal(order.to_positions(order.to_steps(values)), values)
    assert torch.equal(order.to_steps(order.to_positions(values)), values)
    identity = torch.arange(order.num_steps).expand_as(order.sigma)
    assert torch.equal(order.rank.gather(1, order.sigma), identity)
    assert torch.equal(order.to_steps(identity), order.sigma)
    assert torch.equal(order.to_positions(identity), order.rank)


@given(orders())
def test_every_row_stays_a_permutation_with_its_prompt_ascending_and_its_padding_in_place(order: Order) -> None:
    for row in range(len(order.length)):
        sigma, start, stop = order.sigma[row].tolist(), int(order.num_prompt[row]), int(order.length[row])
        assert sorted(sigma) == list(range(order.num_steps))
        assert sigma[:start] == sorted(sigma[:start])
        assert sigma[stop:] == list(range(stop, order.num_steps))


@given(targets(), st.data())
def test_entry_i_of_a_rearrangement_names_the_target_decided_ith(
    masked: tuple[Tensor, Tensor], data: st.DataObject
) -> None:
    order = Order.from_targets(*masked)
    permutations = [data.draw(st.permutations(range(int(n)))) for n in order.num_targets]
    moved = order.rearranged([torch.tensor(permutation, dtype=torch.long) for permutation in permutations])
    for row, permutation in enumerate(permutations):
        start = int(order.num_prompt[row])
        for step, target in enumerate(permutation):
            assert moved.sigma[row, start + step] == order.sigma[row, start + target]
    assert torch.equal(moved.num_prompt, order.num_prompt)
    undone = moved.rearranged([torch.tensor(p, dtype=torch.long).argsort() for p in permutations])
    assert torch.equal(undone.sigma, order.sigma)


@given(orders(), st.data())
def test_selected_rows_are_those_rows(order: Order, data: st.DataObject) -> None:
    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(order.length) - 1), max_size=5)), dtype=torch.long)
    chosen = order.select(rows)
    for number, row in enumerate(rows.tolist()):
        assert torch.equal(chosen.sigma[number], order.sigma[row])
        assert chosen.num_prompt[number] == order.num_prompt[row]
        assert chosen.length[number] == order.length[row]
    assert len(chosen.sigma) == len(rows)


def test_an_order_moves_as_a_whole() -> None:
    order = Order.from_targets(torch.tensor([[True, False]])).to("meta")
    assert {order.sigma.device.type, order.num_prompt.device.type, order.length.device.type} == {"meta"}


@given(st.integers(0, 200), st.sampled_from(["ascending", "random", "spread"]), st.integers(0, 2**31))
def test_a_named_order_is_a_permutation_of_the_targets(num_targets: int, name: str, seed: int) -> None:
    order = arrange(num_targets, name, torch.Generator().manual_seed(seed))
    assert order.dtype == torch.long
    assert sorted(order.tolist()) == list(range(num_targets))


def test_ascending_is_from_left_to_right() -> None:
    assert arrange(4, "ascending", torch.Generator()).tolist() == [0, 1, 2, 3]


def test_random_is_drawn_from_the_generator_and_the_others_leave_it_alone() -> None:
    drawn = [arrange(30, "random", torch.Generator().manual_seed(seed)).tolist() for seed in (0, 0, 1)]
    assert drawn[0] == drawn[1] != drawn[2]
    generator = torch.Generator().manual_seed(0)
    state = generator.get_state()
    for order in ("ascending", "spread", [1, 0, 2]):
        arrange(3, order, generator)
    assert torch.equal(generator.get_state(), state)
    arrange(3, "random", generator)
    assert not torch.equal(generator.get_state(), state)


def test_every_random_order_is_as_likely() -> None:
    """Chi-square over the 24 orders of 4 targets; fixed seed, false alarm rate 1e-3 (critical value 49.73)."""
    generator = torch.Generator().manual_seed(0)
    counts: dict[tuple[int, ...], int] = {}
    for _ in range(4800):
        order = tuple(arrange(4, "random", generator).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    assert sum((count - 200) ** 2 / 200 for count in counts.values()) < 49.73


@given(st.integers(1, 9))
def test_spread_is_the_bit_reversal_of_a_power_of_two(bits: int) -> None:
    order = arrange(2**bits, "spread", torch.Generator()).tolist()
    assert order == [int(format(step, f"0{bits}b")[::-1], 2) for step in range(2**bits)]


@given(st.integers(2, 300), st.data())
def test_the_first_targets_of_spread_lie_far_apart(num_targets: int, data: st.DataObject) -> None:
    """Of the first 2^j targets any two are at least half an even spacing apart."""
    order = arrange(num_targets, "spread", torch.Generator()).tolist()
    assert order[0] == 0
    first = 2 ** data.draw(st.integers(1, (num_targets - 1).bit_length()))
    decided = sorted(order[: min(first, num_targets)])
    gaps = [after - before for before, after in pairwise(decided)]
    assert min(gaps) >= max(1, num_targets // first // 2)


@pytest.mark.parametrize("order", [[2, 0, 1], (2, 0, 1), torch.tensor([2, 0, 1]).tolist(), range(3)])
def test_a_permutation_of_ones_own_is_taken_as_it_is(order: list[int]) -> None:
    assert arrange(3, order, torch.Generator()).tolist() == list(order)


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("backwards", "unknown order 'backwards': use 'ascending', 'random', 'spread' or a permutation of range"),
        ([0, 1], r"a permutation of range\(3\), one entry for each target token in text order; got \[0, 1\]"),
        ([0, 1, 1], r"permutation of range\(3\).*got \[0, 1, 1\]"),
        ([1, 2, 3], r"permutation of range\(3\).*got \[1, 2, 3\]"),
        ([0, 1, 2, 3], r"permutation of range\(3\)"),
        ([-1, 0, 1], r"permutation of range\(3\)"),
    ],
)
def test_what_is_no_order_is_a_value_error_that_says_what_is_one(order: str | list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        arrange(3, order, torch.Generator())
