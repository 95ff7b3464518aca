from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anyorder.codec import Codec, SentencePieceCodec, splice

HOSTILE = [
    *"\0\t\r\n \u00a0\u2028\u2029\u2581\u2585\ufdd0\ufeff\ufffd\uffff\ue000\U000f0000\U0010ffff",
    *[
        "\r\n",
        "\n    ",
        "\n\n        ",
        "  ",
        "e\u0301",
        "\u0301",
        "\u1112\u1161\u11ab",
        "한",
        "👩‍👩‍👧‍👦",
        "🏳️‍🌈",
        "ﬁ",
        "½",
        "``",
        "''",
    ],
    *[
        "<mask>",
        "<pad>",
        "<sep>",
        "<unk>",
        "<s>",
        "</s>",
        "<mask:3>",
        "\\<mask>",
        "<0x41>",
        "<0xE2>",
        "<0xE2><0x96><0x81>",
    ],
    *["def ", "return ", "self", "happy", "naïve", "unhappiness", "12345"],
]
any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
hostile_text = st.lists(st.one_of(st.sampled_from(HOSTILE), any_text), max_size=12).map("".join)


@given(text=hostile_text)
def test_decode_of_encode_is_the_text(codec: SentencePieceCodec, text: str) -> None:
    assert codec.decode(codec.encode(text)) == text


@given(text=hostile_text)
def test_no_text_encodes_to_a_special_id(codec: SentencePieceCodec, text: str) -> None:
    assert not set(codec.encode(text)) & set(codec.forbidden_ids)


def test_all_code_points_survive_a_hostile_context_without_a_special_id(codec: SentencePieceCodec) -> None:
    code_points = [c for c in range(sys.maxunicode + 1) if not 0xD800 <= c <= 0xDFFF]
    assert len(code_points) == 1_112_064
    forbidden = set(codec.forbidden_ids)
    for first in range(0, len(code_points), 32):
        text = "\u2581".join(f" {chr(c)}\u0301  <mask>" for c in code_points[first : first + 32 : 2])
        text += "\n    ".join(f" {chr(c)}\u0301  <mask>" for c in code_points[first + 1 : first + 32 : 2])
        ids = codec.encode(text)
        assert codec.decode(ids) == text
        assert forbidden.isdisjoint(ids)


@given(text=hostile_text)
def test_tokens_cover_the_text_in_order_and_their_bytes_are_the_text(codec: SentencePieceCodec, text: str) -> None:
    tokens = codec.tokenize(text)
    assert [token.id for token in tokens] == codec.encode(text)
    assert b"".join(codec.token_bytes(token.id) for token in tokens) == text.encode()
    covered = 0
    for token in tokens:
        assert token.start <= covered <= token.end
        assert token.start < token.end
        assert token.text == text[token.start : token.end]
        covered = token.end
    assert covered == len(text)


def test_a_byte_piece_covers_its_whole_character(codec: SentencePieceCodec) -> None:
    ranges = [(token.start, token.end) for token in codec.tokenize("x\u2585y")]
    assert ranges == [(0, 1), (1, 2), (1, 2), (1, 2), (2, 3)]


@st.composite
def text_and_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(hostile_text)
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=8)))
    return text, list(zip(borders[::2], borders[1::2], strict=False))


@given(case=text_and_spans())
def test_segments_and_blanks_of_a_layout_spell_the_text(codec: SentencePieceCodec, case: tuple) -> None:
    text, spans = case
    layout = codec.layout(text, spans)
    assert len(layout.segments) == len(layout.blanks) + 1
    assert [(blank.start, blank.end) for blank in layout.blanks] == spans
    parts = [codec.decode(layout.segments[0])]
    for blank, segment in zip(layout.blanks, layout.segments[1:], strict=True):
        replaced = text[blank.start : blank.end]
        assert list(blank.ids) == (codec.encode(codec.decode(blank.owned) + replaced) if replaced else [])
        parts += [codec.decode(blank.ids or blank.owned), codec.decode(segment)]
        assert codec.fill(blank.ids, text, blank) == replaced
    assert "".join(parts) == text


@given(case=text_and_spans())
def test_without_owned_spaces_every_segment_stands_alone(codec: SentencePieceCodec, case: tuple) -> None:
    text, spans = case
    layout = codec.layout(text, spans, own_spaces=False)
    assert not any(blank.owned for blank in layout.blanks)
    assert [list(blank.ids) for blank in layout.blanks] == [codec.encode(text[start:end]) for start, end in spans]


SPACED = [  # text, span, whether a space stands before the blank
    ("the cat", (4, 7), True),
    ("the cat", (4, 4), True),
    ("the cat", (3, 7), False),
    ("the  cat", (4, 8), True),
    ("the cat", (5, 7), False),
    (" cat", (0, 4), False),
    (" cat", (1, 4), True),
    ("the \n", (4, 5), True),
    ("the \u2581", (4, 5), True),
    ("the\tcat", (4, 7), False),
]


@pytest.mark.parametrize(("text", "span", "owns"), SPACED)
def test_a_blank_owns_the_space_before_it(
    codec: SentencePieceCodec, text: str, span: tuple[int, int], owns: bool
) -> None:
    layout = codec.layout(text, [span])
    (blank,) = layout.blanks
    assert codec.decode(blank.owned) == (" " if owns else "")
    assert codec.decode(layout.segments[0]) == text[: span[0] - owns]
    if owns and blank.ids:
        assert blank.ids[0] in codec.space_ids


@given(text=st.text(" ab=1\n", max_size=12), data=st.data())
def test_where_a_word_ends_a_text_has_its_own_tokens_around_a_blank(codec, text: str, data: st.DataObject) -> None:
    """What a model meets at a blank is what it meets without one."""
    words = [
        i
        for i in range(len(text))
        if text[i : i + 1].isalpha() and text[i - 1 : i] == " " and text[i - 2 : i - 1] != " "
    ]
    if words:
        start = data.draw(st.sampled_from(words))
        layout = codec.layout(text, [(start, len(text))])
        assert [*layout.segments[0], *layout.blanks[0].ids] == codec.encode(text)


def test_a_space_is_owned_once(codec: SentencePieceCodec) -> None:
    first, second, third = codec.layout("a b", [(2, 2), (2, 2), (2, 3)]).blanks
    assert (bool(first.owned), bool(second.owned), bool(third.owned)) == (True, False, False)


def test_a_segment_is_encoded_as_if_it_stood_alone(codec: SentencePieceCodec) -> None:
    text = "unhappy"
    layout = codec.layout(text, [(3, 5)])
    assert layout.segments == (tuple(codec.encode("unh")), tuple(codec.encode("py")))


@given(case=text_and_spans(), seed=st.randoms(use_true_random=False))
def test_a_completion_leaves_what_is_outside_the_blanks_byte_identical(codec, case: tuple, seed) -> None:
    text, spans = case
    layout = codec.layout(text, spans)
    fills = [
        codec.fill([seed.randrange(codec.vocab_size) for _ in range(seed.randrange(5))], text, b) for b in layout.blanks
    ]
    completed, ranges = splice(text, layout.blanks, fills)
    assert [completed[start:end] for start, end in ranges] == fills
    outside = [
        completed[a:b]
        for a, b in zip([0, *(e for _, e in ranges)], [*(s for s, _ in ranges), len(completed)], strict=True)
    ]
    original = [
        text[a:b] for a, b in zip([0, *(e for _, e in spans)], [*(s for s, _ in spans), len(text)], strict=True)
    ]
    assert [part.encode() for part in outside] == [part.encode() for part in original]


def test_sampled_bytes_that_are_not_utf_8_show_as_the_replacement_character(codec: SentencePieceCodec) -> None:
    first_of_three = codec.encode("\u2585")[0]
    assert codec.decode([first_of_three]) == "\ufffd"
    assert codec.decode([*codec.encode("a"), first_of_three, *codec.encode("b")]) == "a\ufffdb"


def test_specials_are_forbidden_and_spell_nothing(codec: SentencePieceCodec) -> None:
    assert (codec.mask_id, codec.separator_id) == (2, 3)
    assert codec.forbidden_ids == (0, 1, 2, 3)
    assert codec.decode(codec.forbidden_ids) == ""
    assert all(codec.token_bytes(special) == b"" for special in codec.forbidden_ids)
    assert all(codec.token_bytes(i) for i in range(codec.vocab_size) if i not in codec.forbidden_ids)


def test_it_is_a_codec(codec: SentencePieceCodec) -> None:
    assert isinstance(codec, Codec)


def test_a_saved_codec_reads_back_as_itself(codec: SentencePieceCodec, tmp_path: Path) -> None:
    codec.save(tmp_path)
    again = SentencePieceCodec.from_file(tmp_path / "tokenizer.model")
    assert again.encode("def area(width):\n    return 1\n") == codec.encode("def area(width):\n    return 1\n")


@pytest.mark.parametrize("call", ["encode", "tokenize", "layout"])
def test_a_lone_surrogate_is_a_value_error_with_its_position(codec: SentencePieceCodec, call: str) -> None:
    arguments = ("ab\ud800c", []) if call == "layout" else ("ab\ud800c",)
    with pytest.raises(ValueError, match=r"lone surrogate '\\ud800' at position 2"):
        getattr(codec, call)(*arguments)


def test_text_must_be_a_string(codec: SentencePieceCodec) -> None:
    with pytest.raises(TypeError, match="text must be a str; got bytes"):
        codec.encode(b"abc")  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [-1, 640])
def test_an_id_outside_the_vocabulary_is_an_error_that_names_the_range(codec: SentencePieceCodec, bad: int) -> None:
    with pytest.raises(ValueError, match=rf"0 \.\. 639; got {bad}"):
        codec.decode([bad])


@pytest.mark.parametrize(
    ("spans", "message"),
    [
        ([(2, 1)], r"0 <= start <= end <= 5.*got \(2, 1\)"),
        ([(0, 6)], r"got \(0, 6\)"),
        ([(-1, 2)], r"got \(-1, 2\)"),
        ([(0, 3), (2, 4)], r"\(2, 4\) starts before 3"),
    ],
)
def test_spans_that_do_not_fit_are_errors(codec: SentencePieceCodec, spans: list, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec.layout("happy", spans)


def test_splice_needs_one_fill_a_blank(codec: SentencePieceCodec) -> None:
    layout = codec.layout("happy", [(1, 2)])
    with pytest.raises(ValueError, match="got 0 fills for 1 blanks"):
        splice("happy", layout.blanks, [])


def test_splice_refuses_blanks_that_are_not_in_the_text(codec: SentencePieceCodec) -> None:
    layout = codec.layout("happy", [(1, 2), (3, 5)])
    with pytest.raises(ValueError, match=r"\(1, 2\) starts before 5"):
        splice("happy", layout.blanks[::-1], ["a", "b"])
    with pytest.raises(ValueError, match=r"0 <= start <= end <= 2 .*got \(3, 5\)"):
        splice("ha", layout.blanks[1:], ["a"])


def test_a_model_that_would_lose_text_is_refused(xlnet_model: bytes) -> None:
    with pytest.raises(ValueError, match="loses text"):
        SentencePieceCodec(xlnet_model)
