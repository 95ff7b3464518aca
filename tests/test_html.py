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


def test_samples_are_a_list_that_shows_each_of_them(tiny: Model) -> None:
    samples = anyorder.infill("a <mask:3>", model=tiny, seed=0, n=3)
    assert isinstance(samples, list)
    pages = re.findall(r"<pre.*?</pre>", samples._repr_html_(), re.DOTALL)
    assert [shown(page) for page in pages] == [sample.text for sample in samples]
    assert len(re.findall("<pre", samples[:2]._repr_html_())) == 2
    assert samples[:2] == [samples[0], samples[1]]
