"""Laws of visibility: every mask is a prefix, and which prefix is the table at the top of ``anyorder.visibility``."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder.order import Order
from anyorder.visibility import Rows, concat, content_rows, draft_rows, prefix_mask, verify_rows


@st.composite
def orders(draw: st.DrawFn) -> Order:
    lengths = draw(st.lists(st.integers(1, 9), min_size=1, max_size=4))
    num_prompt = [draw(st.integers(0, length)) for length in lengths]
    sigma = torch.arange(max(lengths)).repeat(len(lengths), 1)
    return Order(sigma=sigma, num_prompt=torch.tensor(num_prompt), length=torch.tensor(lengths))


def mask(rows: Rows, num_steps: int) -> torch.Tensor:
    return prefix_mask(rows.num_visible, torch.arange(num_steps))


@given(orders())
def test_a_target_sees_its_past_and_itself_and_a_prompt_token_all_of_the_prompt(order: Order) -> None:
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    sees = mask(content_rows(order, steps), order.num_steps)
    for row, num_prompt in enumerate(order.num_prompt.tolist()):
        for step in range(order.num_steps):
            seen = {other for other in range(order.num_steps) if sees[row, step, other]}
            in_prompt = step < num_prompt
            assert seen == (set(range(num_prompt)) if in_prompt else set(range(step + 1)))


@given(orders())
def test_rows_stand_where_they_were_asked_for(order: Order) -> None:
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    made = (content_rows(order, steps), verify_rows(steps), draft_rows(steps, order.num_prompt))
    assert all(torch.equal(rows.steps, steps) for rows in made)


@given(orders())
def test_no_content_row_sees_a_target_that_is_decided_after_it(order: Order) -> None:
    """So what a step's keys hold never changes while later steps are decided, and a cache is never recomputed."""
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    sees = mask(content_rows(order, steps), order.num_steps)
    later = torch.arange(order.num_steps)[None, :] > torch.arange(order.num_steps)[:, None]
    target = torch.arange(order.num_steps) >= order.num_prompt[:, None]
    assert not (sees & later & target[:, None, :]).any()


@given(orders())
def test_what_a_row_sees_has_itself_seen_nothing_that_the_row_may_not_see(order: Order) -> None:
    """No hidden token leaks through another: from the prompt's end on, visibility is transitive."""
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    content = content_rows(order, steps).num_visible
    for num_visible in range(order.num_steps + 1):
        for row, num_prompt in enumerate(order.num_prompt.tolist()):
            if num_visible >= num_prompt:
                assert (content[row, :num_visible] <= num_visible).all()


@given(orders())
def test_a_verification_sees_exactly_the_steps_before_it(order: Order) -> None:
    steps = torch.arange(order.num_steps).expand_as(order.sigma)
    sees = mask(verify_rows(steps), order.num_steps)
    assert torch.equal(sees[0], torch.ones(order.num_steps, order.num_steps).tril(-1).bool())


@given(orders(), st.data())
def test_a_draft_sees_exactly_what_is_decided_and_the_first_one_what_its_verification_sees(
    order: Order, data: st.DataObject
) -> None:
    num_decoded = torch.tensor([data.draw(st.integers(0, order.num_steps)) for _ in order.length])
    steps = num_decoded[:, None] + torch.arange(3)
    rows = draft_rows(steps, num_decoded)
    assert torch.equal(mask(rows, order.num_steps).sum(2), num_decoded[:, None].expand(-1, 3))
    assert torch.equal(rows.num_visible[:, 0], verify_rows(steps).num_visible[:, 0])
    one_each = draft_rows(steps, num_decoded[:, None] + torch.arange(3))
    assert torch.equal(one_each.num_visible, verify_rows(steps).num_visible)


@given(orders())
def test_a_row_that_takes_no_part_encodes_seeing_nothing(order: Order) -> None:
    nobody = torch.full_like(order.sigma[:, :1], order.num_steps)
    assert not content_rows(order, nobody).num_visible.any()


def test_row_lists_are_joined_in_their_order() -> None:
    first = Rows(torch.tensor([[1, 2]]), torch.tensor([[3, 4]]))
    second = Rows(torch.tensor([[5]]), torch.tensor([[6]]))
    both = concat(first, second)
    assert both.steps.tolist() == [[1, 2, 5]]
    assert both.num_visible.tolist() == [[3, 4, 6]]


@given(st.integers(1, 6), st.data())
def test_a_mask_is_true_for_slots_whose_step_lies_below_the_number(width: int, data: st.DataObject) -> None:
    """Slots may hold any steps, other ones in each sequence, as in a pass without a cache."""
    slots = torch.tensor(data.draw(st.lists(st.permutations(range(width)), min_size=2, max_size=2)))
    num_visible = torch.tensor([[data.draw(st.integers(0, width)) for _ in range(3)] for _ in range(2)])
    got = prefix_mask(num_visible, slots)
    assert got.dtype == torch.bool
    assert got.shape == (2, 3, width)
    for sequence in range(2):
        for row in range(3):
            want = [int(step) < int(num_visible[sequence, row]) for step in slots[sequence]]
            assert got[sequence, row].tolist() == want
    shared = prefix_mask(num_visible, torch.arange(width))
    assert torch.equal(shared, prefix_mask(num_visible, torch.arange(width).expand(2, -1)))
