"""What each token of a fill adds to its text."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anyorder.model.loaded import Model
from anyorder.result import token_texts


def test_a_character_in_pieces_belongs_to_the_last_of_them(tiny: Model) -> None:
    ids = tiny.codec.encode("a\u20acb")
    assert token_texts(tiny.codec, ids, "a\u20acb") == ["a", "", "", "\u20ac", "b"]


def test_what_is_no_utf8_shows_where_it_ends(tiny: Model) -> None:
    first, second, _ = tiny.codec.encode("\u20ac")
    (letter,) = tiny.codec.encode("a")
    assert token_texts(tiny.codec, [first, second], "\ufffd") == ["", "\ufffd"]
    assert token_texts(tiny.codec, [first, letter], "\ufffda") == ["", "\ufffda"]


def test_spaces_that_a_codec_adds_or_takes_at_the_border_are_the_first_tokens(tiny: Model) -> None:
    (letter,) = tiny.codec.encode("a")
    assert token_texts(tiny.codec, [letter, letter], " aa") == [" a", "a"]
    assert token_texts(tiny.codec, [letter, letter], "a") == ["", "a"]
    assert token_texts(tiny.codec, [], "") == []


@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 499), min_size=1, max_size=12))
def test_the_texts_of_any_tokens_make_up_what_they_decode_to(tiny: Model, ids: list[int]) -> None:
    fill = tiny.codec.decode(ids)
    texts = token_texts(tiny.codec, ids, fill)
    assert "".join(texts) == fill
    assert len(texts) == len(ids)
