from __future__ import annotations

import itertools
import warnings
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from anyorder.codec import Codec, XLNetCodec, load_codec, splice

from .conftest import PROSE, train_xlnet
from .test_sentencepiece import hostile_text

pytestmark = pytest.mark.filterwarnings("ignore:XLNet's vocabulary")

SPECIALS = ["<unk>", "<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"]
WORDS = [
    "happy",
    "unhappy",
    "cat",
    "sat",
    "the",
    "return",
    "(nobody",
    "minded).",
    "self.sides,",
    "area",
    '"it',
    "£3",
    "x",
]
plain_text = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
code_text = st.lists(st.sampled_from([*WORDS, "\n", "\t", "  ", "    "]), max_size=10).map("".join)


@pytest.fixture(scope="session")
def codec(xlnet_model: bytes) -> XLNetCodec:
    return XLNetCodec(xlnet_model)


@pytest.fixture(scope="session")
def escaped(xlnet_model: bytes) -> XLNetCodec:
    return XLNetCodec(xlnet_model, name="xlnet-escaped")


@pytest.fixture(scope="session")
def legacy(xlnet_model: bytes) -> XLNetCodec:
    return XLNetCodec(xlnet_model, name="legacy-asarm-code")


def with_spans(texts: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, list[tuple[int, int]]]]:
    @st.composite
    def draw_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
        text = draw(texts)
        borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
        return text, list(zip(borders[::2], borders[1::2], strict=False))

    return draw_spans()


def pieces(codec: XLNetCodec, ids) -> list[str]:
    return [codec._processor.id_to_piece(i) for i in ids]


def joint(layout, fills) -> list[int]:
    ids = list(layout.segments[0])
    for fill, segment in zip(fills, layout.segments[1:], strict=True):
        ids += [*fill, *segment]
    return ids


@given(text=plain_text)
def test_words_with_single_spaces_survive(codec: XLNetCodec, text: str) -> None:
    assert codec.decode(codec.encode(text)) == text


@given(text=hostile_text)
def test_the_escape_makes_every_text_survive(escaped: XLNetCodec, text: str) -> None:
    ids = escaped.encode(text)
    assert escaped.decode(ids) == text
    assert not set(ids) & set(escaped.forbidden_ids)


def test_parts_of_a_syllable_that_the_vocabulary_knows_do_not_compose() -> None:
    parts = "\u1112\u1161\u11ab"
    codec = XLNetCodec(train_xlnet([" ".join(parts), PROSE] * 5, vocab_size=140), name="xlnet-escaped")
    assert codec.decode(codec.encode(parts + "한")) == parts + "한"
    assert codec.encode(parts[0])[0] not in codec.encode("한")


@given(text=code_text)
def test_the_legacy_mapping_carries_line_breaks_tabs_and_pairs_of_spaces(legacy: XLNetCodec, text: str) -> None:
    assert legacy.decode(legacy.encode(text)) == text


@given(text=hostile_text, name=st.sampled_from(["codec", "escaped", "legacy"]))
def test_ranges_of_tokens_rise_and_hold_every_character_that_yields_one(text: str, name: str, request) -> None:
    codec: XLNetCodec = request.getfixturevalue(name)
    tokens = codec.tokenize(text)
    assert [token.id for token in tokens] == codec.encode(text)
    assert all(0 <= token.start < token.end <= len(text) for token in tokens)
    assert all(token.text == text[token.start : token.end] for token in tokens)
    for left, right in itertools.pairwise(tokens):
        assert (left.start, left.end) == (right.start, right.end) or left.end <= right.start
    assert not any(token.text != token.text.strip(" ") for token in tokens if name == "codec")
    covered = {position for token in tokens for position in range(token.start, token.end)}
    alone = [position for position, character in enumerate(text) if character.isascii() and character.isprintable()]
    assert all(position in covered or text[position] == " " for position in alone)


@given(case=with_spans(hostile_text), name=st.sampled_from(["codec", "escaped", "legacy"]))
def test_a_blank_covers_whole_tokens_of_the_joint_encoding(case, name: str, request) -> None:
    codec: XLNetCodec = request.getfixturevalue(name)
    text, spans = case
    spans = [(start, end) for start, end in spans if start < end]
    layout = codec.layout(text, spans)
    assert joint(layout, [blank.ids for blank in layout.blanks]) == codec.encode(text)
    done = 0
    for blank in layout.blanks:
        assert done <= blank.start <= blank.end <= len(text)
        done = blank.end
    tokens = codec.tokenize(text)
    for (start, end), blank in zip(spans, layout.blanks, strict=True):
        for token in tokens:
            if token.start < end and token.end > start:
                assert any(
                    b.start <= token.start and token.end <= b.end for b in layout.blanks if b.start <= blank.start
                )


@given(case=with_spans(hostile_text))
def test_with_the_escape_blanks_filled_with_their_own_ids_give_the_text_back(escaped: XLNetCodec, case) -> None:
    text, spans = case
    layout = escaped.layout(text, spans)
    completed, _ = splice(text, layout.blanks, [escaped.fill(blank.ids, text, blank) for blank in layout.blanks])
    assert completed == text


@given(case=with_spans(plain_text))
def test_blanks_filled_with_their_own_ids_give_plain_text_back(codec: XLNetCodec, case) -> None:
    text, spans = case
    layout = codec.layout(text, spans)
    completed, _ = splice(text, layout.blanks, [codec.fill(blank.ids, text, blank) for blank in layout.blanks])
    assert completed == text


@given(case=with_spans(plain_text), words=st.lists(plain_text.filter(bool), min_size=3, max_size=3))
def test_the_completed_text_is_what_the_joint_ids_spell(codec: XLNetCodec, case, words: list[str]) -> None:
    text, spans = case
    layout = codec.layout(text, spans)
    assume(sum(blank.start == 0 for blank in layout.blanks) <= 1)  # a fill cannot see another one before it
    fills = [codec.encode(word) for word, _ in zip(words, spans, strict=False)]
    completed, ranges = splice(
        text, layout.blanks, [codec.fill(ids, text, blank) for ids, blank in zip(fills, layout.blanks, strict=True)]
    )
    assert completed == codec.decode(joint(layout, fills))
    assert all(word in completed[start:end] for word, (start, end) in zip(words, ranges, strict=False))


@pytest.mark.parametrize("name", ["legacy", "escaped"])
@given(case=with_spans(code_text), fills=st.lists(code_text.filter(bool), min_size=1, max_size=1))
def test_with_an_escape_too_the_completed_text_is_what_the_joint_ids_spell(request, name: str, case, fills) -> None:
    codec: XLNetCodec = request.getfixturevalue(name)
    text, spans = case
    layout = codec.layout(text, spans[:1])
    ids = [codec.encode(fill) for fill, _ in zip(fills, layout.blanks, strict=False)]
    strings = [codec.fill(run, text, blank) for run, blank in zip(ids, layout.blanks, strict=True)]
    assert splice(text, layout.blanks, strings)[0] == codec.decode(joint(layout, ids))


@given(case=with_spans(hostile_text), data=st.data())
def test_characters_outside_the_widened_blanks_are_byte_identical_whatever_fills_them(codec, case, data) -> None:
    text, spans = case
    layout = codec.layout(text, spans)
    allowed = sorted(set(range(codec.vocab_size)) - set(codec.forbidden_ids))
    fills = [
        codec.fill(data.draw(st.lists(st.sampled_from(allowed), max_size=4)), text, blank) for blank in layout.blanks
    ]
    completed, ranges = splice(text, layout.blanks, fills)
    kept_before = [text[a:b] for a, b in _outside([(b.start, b.end) for b in layout.blanks], len(text))]
    kept_after = [completed[a:b] for a, b in _outside(ranges, len(completed))]
    assert [part.encode() for part in kept_before] == [part.encode() for part in kept_after]
    widest = max((token.end - token.start for token in codec.tokenize(text)), default=0)
    for (_, end), blank in zip(spans, layout.blanks, strict=True):
        assert blank.end <= end + max(widest, 1) or not text[end : blank.end].strip()


def _outside(ranges, length: int) -> list[tuple[int, int]]:
    return list(zip([0, *(end for _, end in ranges)], [*(start for start, _ in ranges), length], strict=True))


def test_a_blank_in_a_word_widens_to_its_token_and_owns_the_space_before_it(codec: XLNetCodec) -> None:
    text = "the unhappier cat"
    tokens = [t for t in codec.tokenize(text) if 4 <= t.start < 13]
    inner = next(t for t in tokens if t.end - t.start > 1)
    layout = codec.layout(text, [(inner.start + 1, inner.end)])
    start = 3 if inner.start == 4 else inner.start
    assert (layout.blanks[0].start, layout.blanks[0].end) == (start, inner.end)


def test_tokens_that_share_a_character_are_replaced_together(codec: XLNetCodec) -> None:
    text = "the ﬁn cat"
    assert {(token.start, token.end) for token in codec.tokenize(text)} >= {(4, 6)}
    blank = codec.layout(text, [(5, 6)]).blanks[0]
    assert (blank.start, blank.end) == (3, 6)
    assert codec.decode(blank.ids) == "fin"


def test_a_marker_inside_a_word_cuts_it_and_starts_no_new_word(codec: XLNetCodec) -> None:
    layout = codec.layout("happy", [(3, 3)])
    left, right = (pieces(codec, segment) for segment in layout.segments)
    assert "".join(left) == "▁hap"
    assert "".join(right) == "py"
    assert (layout.blanks[0].start, layout.blanks[0].end, layout.blanks[0].ids) == (3, 3, ())


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("the cat sat", (4, 7), "the minded sat"),
        ("the cat sat", (3, 7), "the minded sat"),
        ("the cat sat", (4, 8), "the minded sat"),
        ("the  \n cat sat", (7, 10), "the  \n minded sat"),
        ("the cat sat", (3, 4), "the minded cat sat"),
        ("the cat sat", (4, 4), "the minded cat sat"),
        ("the cat sat", (3, 3), "the minded cat sat"),
        ("return \n", (7, 7), "return minded\n"),
        ("return", (6, 6), "return minded"),
        ("the cat", (0, 0), "minded the cat"),
        ("", (0, 0), "minded"),
        ("the cat (x)", (9, 10), "the cat ( minded)"),
        ("the cat sat", (0, 11), "minded"),
    ],
)
def test_a_word_fills_a_blank_with_the_spaces_it_needs(codec, text: str, span, expected: str) -> None:
    blank = codec.layout(text, [span]).blanks[0]
    assert splice(text, [blank], [codec.fill(codec.encode("minded"), text, blank)])[0] == expected


@pytest.mark.parametrize("name", ["codec", "escaped", "legacy"])
@pytest.mark.parametrize(("text", "span"), [("return \n", (7, 7)), ("the cat sat", (4, 7)), ("the cat sat", (4, 4))])
def test_an_empty_fill_keeps_what_was_not_asked_to_go(request, name: str, text: str, span: tuple[int, int]) -> None:
    codec: XLNetCodec = request.getfixturevalue(name)
    blank = codec.layout(text, [span]).blanks[0]
    assert splice(text, [blank], [codec.fill([], text, blank)])[0] == text[: span[0]] + text[span[1] :]


def test_a_blank_inside_an_escape_leaves_the_escape_whole_behind_it(legacy: XLNetCodec) -> None:
    layout = legacy.layout("the  cat", [(4, 4)])
    assert pieces(legacy, layout.segments[1])[0] == "<unk>"
    assert splice("the  cat", layout.blanks, [legacy.fill(legacy.encode("minded"), "the  cat", layout.blanks[0])])[
        0
    ] == ("the minded  cat")


def test_two_blanks_in_one_token_share_it_first_come(codec: XLNetCodec) -> None:
    token = next(t for t in codec.tokenize("the unhappier cat") if t.end - t.start >= 3)
    spans = [(token.start, token.start + 1), (token.start + 2, token.end)]
    first, second = codec.layout("the unhappier cat", spans).blanks
    assert token.id in first.ids
    assert second.ids == ()
    assert second.start == second.end == first.end


def test_the_warning_names_the_characters_once(xlnet_model: bytes) -> None:
    codec = XLNetCodec(xlnet_model)
    with pytest.warns(UserWarning, match=r"cannot carry \"''\", ' ', '\\n', 'é', '한'") as caught:
        codec.encode("the cafés  and\n''x'' 한")
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        codec.encode("é\n plain text")
        codec.layout("the happy cat, (nobody minded).", [(4, 9)])


def test_the_escape_never_warns_and_the_legacy_mapping_only_of_odd_spaces(xlnet_model: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        XLNetCodec(xlnet_model, name="xlnet-escaped").encode("é\n\t   한")
        legacy = XLNetCodec(xlnet_model, name="legacy-asarm-code")
        legacy.encode("def area(x):\n    return x\n\treturn  x")
    with pytest.warns(UserWarning, match=r"cannot carry ' ':"):
        legacy.encode("\n   return")


def test_the_legacy_mapping_is_the_published_one(legacy: XLNetCodec) -> None:
    spelled = pieces(legacy, legacy.encode("\n\t  \n   x"))
    assert spelled == ["<cls>", "<sep>", "<unk>", "<cls>", "<unk>", *pieces(legacy, legacy.encode("x"))]
    assert pieces(legacy, legacy.encode(" " * 7)) == ["<unk>"] * 3
    assert legacy.encode("a\n  x") == legacy.encode("a\n   x")


def test_specials_are_forbidden_unless_the_codec_uses_them(codec, escaped, legacy) -> None:
    assert pieces(codec, codec.forbidden_ids) == SPECIALS
    assert pieces(escaped, escaped.forbidden_ids) == ["<unk>", "<pad>", "<mask>", "<eod>"]
    assert pieces(legacy, legacy.forbidden_ids) == ["<s>", "</s>", "<pad>", "<mask>", "<eod>", "<eop>"]
    assert codec.mask_id == 6
    assert all(codec.token_bytes(i) == b"" for i in codec.forbidden_ids)
    assert [legacy.token_bytes(i) for i in (3, 4, 0)] == [b"\n", b"\t", b"  "]


@pytest.mark.parametrize("name", ["codec", "escaped", "legacy"])
def test_text_that_spells_a_special_is_ordinary_text(name: str, request) -> None:
    codec: XLNetCodec = request.getfixturevalue(name)
    for special in SPECIALS:
        assert not set(codec.encode(f"x{special}y")) & set(range(9))
        assert codec.decode(codec.encode(f"x{special}y")) == f"x{special}y"


def test_a_damaged_escape_that_was_sampled_shows_as_the_replacement_character(escaped: XLNetCodec) -> None:
    opening, closing = 1, 2
    digits = escaped.encode("é")[1:-1] if escaped.encode("é")[0] == opening else []
    assert digits
    assert escaped.decode([opening, *digits, closing]) == "é"
    assert escaped.decode([opening, closing]) == "\ufffd"
    assert escaped.decode([opening, *digits * 5, closing]) == "\ufffd"
    assert escaped.decode([opening, *escaped.encode("minded"), closing]) == "\ufffd"
    for code in ("110000", "d800", "dfff"):
        digits = [escaped._processor.piece_to_id(digit) for digit in code]
        assert escaped.decode([opening, *digits, closing]) == "\ufffd"


def test_it_is_a_codec_and_a_saved_one_reads_back(codec: XLNetCodec, escaped: XLNetCodec, tmp_path: Path) -> None:
    assert isinstance(codec, Codec)
    escaped.save(tmp_path)
    again = load_codec(escaped.name, tmp_path / "tokenizer.model")
    assert again.name == "xlnet-escaped"
    assert again.encode("a\n é") == escaped.encode("a\n é")


def test_a_lone_surrogate_is_a_value_error_with_its_position(codec: XLNetCodec) -> None:
    for call in (codec.encode, codec.tokenize, lambda text: codec.layout(text, [])):
        with pytest.raises(ValueError, match=r"lone surrogate '\\udfff' at position 1"):
            call("a\udfff")


def test_another_kind_of_model_is_refused(vocabulary_file: Path, xlnet_model: bytes) -> None:
    with pytest.raises(ValueError, match=r"not a vocabulary of XLNet's kind: it has no piece '<eod>'"):
        XLNetCodec.from_file(vocabulary_file)
    with pytest.raises(ValueError, match=r"one of 'xlnet', 'xlnet-escaped', 'legacy-asarm-code'; got 'bert'"):
        XLNetCodec(xlnet_model, name="bert")  # type: ignore[arg-type]


def test_an_id_outside_the_vocabulary_is_an_error(codec: XLNetCodec) -> None:
    with pytest.raises(ValueError, match=r"0 \.\. 599; got 600"):
        codec.decode([600])
