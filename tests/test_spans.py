"""Spans: Python's indexing, nothing clamped, touching kept apart, overlaps refused, any order in, text order out."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.spans import Span, resolve, span_of


class Piece(NamedTuple):
    start: int
    end: int


def pieces(*borders: int) -> list[Piece]:
    return [Piece(left, right) for left, right in itertools.pairwise(borders)]


def no_tokens() -> list[Piece]:
    raise AssertionError("character spans need no tokens")


@given(st.integers(0, 30), st.data())
def test_a_pair_or_a_slice_means_what_indexing_means(length: int, data: st.DataObject) -> None:
    text = "".join(chr(97 + i % 26) for i in range(length))
    start = data.draw(st.integers(0, length))
    end = data.draw(st.integers(start, length))
    first = data.draw(st.sampled_from([start, start - length] if start < length else [start]))
    last = data.draw(st.sampled_from([end, end - length] if end < length else [end]))
    for item in ((first, last), slice(first, last), slice(first, last, 1), (np.int64(first), np.int64(last))):
        span = span_of(item, length)
        assert text[span.start : span.end] == text[first:last]


def test_an_open_slice_reaches_to_the_end_of_the_text() -> None:
    assert resolve([slice(3, None)], 7, no_tokens) == (Span(3, 7),)
    assert resolve([slice(None, -3)], 7, no_tokens) == (Span(0, 4),)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=8), st.randoms())
def test_spans_come_out_in_text_order_and_touching_ones_stay_separate(borders: list[int], random: Any) -> None:
    borders = sorted(borders)
    spans = [tuple(piece) for piece in pieces(*borders)]
    shuffled = list(spans)
    random.shuffle(shuffled)
    assert resolve(shuffled, 50, no_tokens) == tuple(Span(*span) for span in spans)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(-19, 19))
def test_two_spans_are_refused_exactly_if_they_share_a_character_or_one_lies_inside(
    start: int, width: int, shift: int
) -> None:
    first, second = (start + 20, start + 20 + width), (start + 20 + shift, start + 20 + shift + 5)
    overlap = max(first[0], second[0]) < min(first[1], second[1])
    if overlap:
        with pytest.raises(ValueError, match="spans overlap"):
            resolve([first, second], 100, no_tokens)
    else:
        assert len(resolve([first, second], 100, no_tokens)) == 2


def test_an_empty_span_inside_another_is_an_overlap_and_at_its_border_is_not() -> None:
    with pytest.raises(ValueError, match=r"spans overlap: \(2, 6\) and \(4, 4\)"):
        resolve([(4, 4), (2, 6)], 9, no_tokens)
    assert resolve([(6, 6), (2, 6), (2, 2)], 9, no_tokens) == (Span(2, 2), Span(2, 6), Span(6, 6))


@pytest.mark.parametrize(
    ("indices", "expected"),
    [
        ([0], [(0, 2)]),
        ([1, 2], [(2, 7)]),
        ([3, 0, 1], [(0, 3), (7, 9)]),
        ([-1, -2], [(3, 9)]),
        (range(1, 4), [(2, 9)]),
        ([], []),
    ],
)
def test_consecutive_token_indices_form_one_span(indices: Any, expected: list[tuple[int, int]]) -> None:
    assert resolve(indices, 9, lambda: pieces(0, 2, 3, 7, 9)) == tuple(Span(*span) for span in expected)


def test_token_indices_inside_one_character_widen_to_it_once() -> None:
    inside = [Piece(0, 1), Piece(1, 2), Piece(1, 2), Piece(1, 2), Piece(2, 3)]
    assert resolve([1, 3], 3, lambda: inside) == (Span(1, 2),)
    assert resolve([0, 2], 3, lambda: inside) == (Span(0, 1), Span(1, 2))


@pytest.mark.parametrize(
    ("positions", "error", "message"),
    [
        ((4, 9), TypeError, r"write \[\(4, 9\)\] for the span"),
        ((4, 9, 12), TypeError, r"write \[4, 9, 12\] for token indices"),
        (slice(4, 9), TypeError, r"write \[slice\(4, 9, None\)\]"),
        ("abc", TypeError, "must be a list of character pairs"),
        ({4: 9}, TypeError, "must be a list of character pairs"),
        (7, TypeError, "must be a list of character pairs"),
        ([(1, 2), 5], TypeError, "cannot be mixed"),
        ([5, (1, 2)], TypeError, "cannot be mixed"),
        ([(1, 2, 3)], TypeError, "a span is a pair"),
        ([[1, 2]], TypeError, "a span is a pair"),
        ([(1.0, 2)], TypeError, "must be integers"),
        ([(True, 2)], TypeError, "must be integers"),
        ([True], TypeError, "a span is a pair"),
        ([(1, None)], TypeError, "must be integers"),
        ([slice(0, 4, 2)], ValueError, "step"),
        ([(5, 3)], ValueError, "reversed"),
        ([(-3, 0)], ValueError, "reversed"),
        ([(0, 11)], ValueError, "out of range: the text has 10 characters"),
        ([(-11, 5)], ValueError, "out of range"),
        ([slice(0, 11)], ValueError, "out of range"),
        ([10], ValueError, "token index 10 is out of range: the text has 2 tokens"),
        ([-3], ValueError, "token index -3 is out of range"),
        ([1, 1], ValueError, "token index 1 is named twice"),
        ([1, -1], ValueError, "token index 1 is named twice"),
    ],
)
def test_a_wrong_span_is_refused_with_what_is_allowed(positions: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        resolve(positions, 10, lambda: pieces(0, 4, 10))
