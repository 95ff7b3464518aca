"""What a notebook shows of a result: its text to the last character."""

from __future__ import annotations

import html
import re

import pytest

import anyorder
from anyorder.model.loaded import Model


def shown(page: str) -> str:
    """The text of the ``<pre>``, of which a browser drops one newline at the start."""
    match = re.search(r"<pre[^>]*>\n?(.*)</pre>", page, re.DOTALL)
    assert match
    return html.unescape(re.sub(r"<[^>]*>", "", match[1]))


@pytest.mark.parametrize("text", ["\n\na <mask:3>", "\n<mask>", "a <mask> <b>&\n", "<mask:2>\n", ""])
def test_the_text_is_shown_with_its_leading_newlines(text: str, tiny: Model) -> None:
    result = anyorder.infill(text, model=tiny, seed=0)
    assert shown(result._repr_html_()) == result.text
