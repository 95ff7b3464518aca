"""Markers: what is a blank, what is text, and that escaping loses nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from anyorder import markers
from anyorder.markers import Marked, MarkedBlank

MARKERS = st.sampled_from(["<mask>", "[GAP]", "___", "{{x}}", "GAP", ">", "a"])
# Pieces of markers, so that nearly-markers, nested and escaped ones are drawn often.
TEXTS = st.lists(
    st.sampled_from(["<mask>", "<mask:", "5", ">", "\\", ":", "[GAP:2]", "[GAP]", "_", "{{x", "}}", "a", "é"])
).map("".join)


def test_a_bare_marker_names_no_length_and_a_number_names_it() -> None:
    assert markers.parse("a<mask>b<mask:12>c<mask:0>", "<mask>") == Marked(
        "abc", (MarkedBlank(1, None), MarkedBlank(2, 12), MarkedBlank(3, 0))
    )


def test_touching_markers_are_separate_blanks() -> None:
    assert markers.parse("<mask><mask:2>", "<mask>") == Marked("", (MarkedBlank(0, None), MarkedBlank(0, 2)))


@pytest.mark.parametrize(
    ("marker", "text", "length"),
    [
        ("[GAP]", "x[GAP:5]", 5),
        ("{{x}}", "x{{x:5}}", 5),
        ("___", "x___:5", 5),
        ("GAP", "xGAP", None),
        ("GAP", "xGAP: ", None),
    ],
)
def test_a_length_goes_before_the_closing_brackets_or_after_a_marker_without(
    marker: str, text: str, length: int
) -> None:
    assert markers.parse(text, marker).blanks == (MarkedBlank(1, length),)


def test_a_backslash_makes_a_marker_literal_and_disappears() -> None:
    assert markers.parse(r"a\<mask>b\<mask:3>c\<mask:d<mask>", "<mask>") == Marked(
        "a<mask>b<mask:3>c<mask:d", (MarkedBlank(len("a<mask>b<mask:3>c<mask:d"), None),)
    )


def test_a_backslash_elsewhere_is_text() -> None:
    assert markers.parse("\\n \\", "<mask>").text == "\\n \\"


@pytest.mark.parametrize(
    "text", ["<mask:>", "<mask:x>", "<mask:-1>", "<mask: 5>", "<mask:1234567>", "<mask:<mask>>", "<mask:5"]
)
def test_what_starts_like_a_marker_with_a_length_and_is_none_is_an_error_that_says_where(text: str) -> None:
    with pytest.raises(ValueError, match=r"malformed marker at character 2.*'<mask:5>'.*backslash"):
        markers.parse("ab" + text, "<mask>")


@given(TEXTS | st.text(), MARKERS)
@example("GAP:1234567", "GAP")
def test_parsing_an_escaped_text_gives_the_text_and_no_blank(text: str, marker: str) -> None:
    assert markers.parse(markers.escape(text, marker), marker) == Marked(text, ())


@given(
    st.lists(st.tuples(st.text().filter(lambda s: not s.endswith("\\")), st.none() | st.integers(0, 999_999))),
    st.text(),
)
def test_parsing_finds_every_marker_where_it_was_put(parts: list[tuple[str, int | None]], last: str) -> None:
    written, plain, blanks = "", "", []
    for text, length in parts:
        plain += text
        blanks.append(MarkedBlank(len(plain), length))
        written += markers.escape(text) + ("<mask>" if length is None else f"<mask:{length}>")
    assert markers.parse(written + markers.escape(last), "<mask>") == Marked(plain + last, tuple(blanks))


@pytest.mark.parametrize(
    ("marker", "error"), [("", ValueError), ("\\x", ValueError), (5, TypeError), (b"<mask>", TypeError)]
)
def test_an_unusable_marker_is_refused(marker: object, error: type[Exception]) -> None:
    with pytest.raises(error, match="marker must be"):
        markers.parse("text", marker)  # type: ignore[arg-type]
