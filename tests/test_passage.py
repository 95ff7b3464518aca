"""Passages: the segments of a text around its blanks, and the windows that a crop keeps."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from anyorder import batching
from anyorder.codec import Blank, Layout
from anyorder.passage import Passage, assemble, collate

SIZES = st.lists(st.integers(0, 12), min_size=2, max_size=5)


def layout_of(sizes: list[int]) -> Layout:
    """Segments of consecutive numbers from 1, so that what was cut shows."""
    segments, next_id = [], 1
    for size in sizes:
        segments.append(tuple(range(next_id, next_id + size)))
        next_id += size
    return Layout(segments=tuple(segments), blanks=(Blank(start=0, end=0, ids=()),) * (len(sizes) - 1))


@given(SIZES, st.data())
def test_a_passage_is_the_segments_with_the_contents_between_them(sizes: list[int], data: st.DataObject) -> None:
    layout = layout_of(sizes)
    contents = [(0,) * data.draw(st.integers(0, 3)) for _ in layout.blanks]
    passage = assemble(layout, contents, max_length=1000)
    expected: list[int] = list(layout.segments[0])
    for content, segment in zip(contents, layout.segments[1:], strict=True):
        expected += [*content, *segment]
    assert passage.tokens == tuple(expected)
    assert passage.contents() == contents
    assert passage.num_targets == sum(map(len, contents))
    assert passage.at_targets(passage.tokens) == (0,) * passage.num_targets


def test_an_owned_space_is_asked_for_at_the_first_target_and_left_to_the_prompt_by_an_empty_blank() -> None:
    owner = Blank(start=0, end=0, ids=(), owned=(99,))
    layout = Layout(segments=((1, 2), (3,), (4,)), blanks=(owner, Blank(start=0, end=0, ids=())))
    filled = assemble(layout, [(0, 0), (0,)], max_length=10)
    assert filled.tokens == (1, 2, 0, 0, 3, 0, 4)
    assert filled.spaced == {2}
    empty = assemble(layout, [(), (0,)], max_length=10)
    assert empty.tokens == (1, 2, 99, 3, 0, 4)
    assert empty.spaced == frozenset()
    batch = collate([filled, empty], [torch.arange(3), torch.arange(1)], padding_id=5)
    assert batch.spaced.nonzero().tolist() == [[0, 2]]


@given(SIZES, st.integers(1, 60))
def test_a_crop_fills_the_model_and_cuts_only_what_is_far_from_every_blank(sizes: list[int], max_length: int) -> None:
    layout = layout_of(sizes)
    contents = [(0,) for _ in layout.blanks]
    if len(contents) > max_length:
        with pytest.raises(ValueError, match="the blanks hold"):
            assemble(layout, contents, max_length=max_length, crop=True)
        return
    passage = assemble(layout, contents, max_length=max_length, crop=True)
    assert len(passage.tokens) == min(sum(sizes) + len(contents), max_length)
    kept: list[list[int]] = [[]]
    for token, blank in zip(passage.tokens, passage.blank, strict=True):
        if blank >= 0:
            kept.append([])
        else:
            kept[-1].append(token)
    last = len(layout.segments) - 1
    for number, (left, whole) in enumerate(zip(kept, layout.segments, strict=True)):
        size = len(left)
        # The outer segments keep the side of their one blank, the others as much of both sides as divides evenly.
        heads = {size} if number == last else {0} if number == 0 else {size // 2, size - size // 2}
        assert tuple(left) in {whole[:head] + whole[len(whole) - (size - head) :] for head in heads}


@given(SIZES, st.integers(8, 60), st.integers(0, 4))
def test_a_margin_gives_alternatives_of_different_length_the_same_window(
    sizes: list[int], max_length: int, shorter: int
) -> None:
    layout = layout_of(sizes)
    long, short = [(0,)] * len(layout.blanks), [(0,)] * len(layout.blanks)
    long[0], short[0] = (0,) * 4, (0,) * (4 - shorter)
    windows = [
        [token for token, blank in zip(passage.tokens, passage.blank, strict=True) if blank < 0]
        for passage in (
            assemble(layout, long, max_length=max_length, crop=True),
            assemble(layout, short, max_length=max_length, crop=True, margin=shorter),
        )
    ]
    assert windows[0] == windows[1]


def test_a_text_that_is_too_long_is_refused_with_the_way_out() -> None:
    with pytest.raises(ValueError, match=r'has 13 tokens.* takes 12.*context="crop"'):
        assemble(layout_of([6, 6]), [(0,)], max_length=12)
    assemble(layout_of([6, 5]), [(0,)], max_length=12)
    with pytest.raises(ValueError, match=r"has 13 tokens.* takes 12"):  # a longer choice would not fit
        assemble(layout_of([6, 5]), [(0,)], max_length=12, margin=1)


def test_collating_pads_and_orders_the_targets_of_each_passage_by_its_permutation() -> None:
    one = Passage(tokens=(7, 0, 8, 0), blank=(-1, 0, -1, 1), num_blanks=2)
    two = Passage(tokens=(0, 9), blank=(0, -1), num_blanks=1)
    batch = collate([one, two], [torch.tensor([1, 0]), torch.tensor([0])], padding_id=5)
    assert batch.tokens.tolist() == [[7, 0, 8, 0], [0, 9, 5, 5]]
    assert batch.order.sigma.tolist() == [[0, 2, 3, 1], [1, 0, 2, 3]]
    assert batch.order.num_prompt.tolist() == [2, 1]
    assert batch.order.length.tolist() == [4, 2]
    assert batch.blank.tolist() == [[-1, 0, -1, 1], [0, -1, -1, -1]]


@given(
    sizes=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9))),
    limits=st.tuples(st.integers(1, 100), st.integers(1, 500)),
)
def test_batches_hold_every_sequence_once_and_stay_within_both_limits(
    sizes: list[tuple[int, int]], limits: tuple[int, int]
) -> None:
    lengths, rows = [length for length, _ in sizes], [most for _, most in sizes]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batching, "MAX_POSITIONS", limits[0])
        patch.setattr(batching, "MAX_LOGITS", limits[1])
        made = list(batching.batches(lengths, rows, 11))
    assert sorted(number for batch in made for number in batch) == list(range(len(lengths)))
    for batch in made:
        fits = len(batch) * max(lengths[number] for number in batch) <= limits[0]
        assert len(batch) == 1 or (fits and len(batch) * max(rows[number] for number in batch) * 11 <= limits[1])
    # No two batches in a row would have been one: nothing is cut that need not be.
    for one, other in itertools.pairwise(made):
        longer = [*one, other[0]]
        size = len(longer) * max(lengths[number] for number in longer)
        assert size > limits[0] or len(longer) * max(rows[number] for number in longer) * 11 > limits[1]


def test_a_text_without_targets_is_never_too_long() -> None:
    for margin in (0, 1, 12):
        passage = assemble(layout_of([50, 50]), [()], max_length=12, margin=margin)
        assert passage.num_targets == 0
        assert len(passage.tokens) <= 12
