"""Windows cover their document, packing loses no token, and lengths get their share of the tokens."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.codec import SentencePieceCodec
from training.pieces import Lengths, packed, windows

LENGTHS = Lengths({8: 0.25, 16: 0.5, 32: 0.25})


@given(st.text(st.sampled_from("ab \n\n  "), min_size=1, max_size=600), st.integers(0, 999))
def test_windows_cover_every_character_and_are_no_longer_than_their_length(text: str, seed: int) -> None:
    covered = 0
    for piece in windows(text, LENGTHS, 2.0, random.Random(seed)):
        assert 0 < len(piece.text) <= 2 * piece.length
        starts = [start for start in range(covered + 1) if text.startswith(piece.text, start)]
        assert starts, "a window starts at or before where the one before it ended"
        covered = max(covered, starts[-1] + len(piece.text))
    assert covered == len(text)


def test_half_of_the_windows_that_could_start_at_an_unindented_line() -> None:
    text = "".join(f"def f{i}(x):\n    y = x\n    return y\n" for i in range(400))
    pieces = list(windows(text, Lengths({32: 1.0}), 2.0, random.Random(0)))
    at_def = sum(piece.text.startswith("def") for piece in pieces)
    assert 0.5 < at_def / len(pieces) < 0.85  # half of them moved, and a third of the rest by chance


def test_each_length_gets_its_share_of_the_tokens() -> None:
    draw = random.Random(0)
    drawn = [LENGTHS.draw(draw, 1000) for _ in range(4000)]
    shares = {length: length * drawn.count(length) / sum(drawn) for length in LENGTHS.lengths}
    assert shares == pytest.approx({8: 0.25, 16: 0.5, 32: 0.25}, abs=0.03)
    assert LENGTHS.draw(draw, 5) == 8  # the smallest that holds what is left
    assert LENGTHS.draw(random.Random(1), 20) in (8, 16, 32)


def test_packing_keeps_every_token_in_order_with_a_separator_behind_each_document(
    codec: SentencePieceCodec, passages: list[str]
) -> None:
    pieces = list(packed(passages[:9], LENGTHS, codec, codec.separator_id, random.Random(0)))
    assert all(len(piece.ids) == piece.length for piece in pieces[:-3])
    expected = [token for text in passages[:9] for token in (*codec.encode(text), codec.separator_id)]
    assert [token for piece in pieces for token in piece.ids] == expected
