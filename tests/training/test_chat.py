"""Files of prompts with responses: what a line is, and which examples teach nothing and are left out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from anyorder.adapters.orthrus import draw_anchors
from training.causal_data import Chat, collate, read_chat
from training.mars_config import FitMarsConfig
from training.orthrus_config import FitOrthrusConfig, OrthrusConfig

EOS = 0


@pytest.fixture(autouse=True)
def _what_begins_with_h_is_held_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.causal_data.is_held_out", lambda text, share: text.startswith("h"))


class Letters:
    """A token a character."""

    vocab_size, forbidden_ids, separator_id = 128, (), EOS

    def encode(self, text: str) -> Sequence[int]:
        return [min(ord(letter), 127) for letter in text]


def chat(path: Path, *texts: tuple[str, str], block: int = 4, max_length: int = 12, least: int = 1) -> Chat:
    lines = [json.dumps({"prompt": prompt, "response": response}) for prompt, response in texts]
    path.write_text("\n".join(lines), encoding="utf-8")
    return read_chat(path, Letters(), eos_id=EOS, block=block, max_length=max_length, least=least)  # type: ignore[arg-type]


def test_a_line_ends_where_json_lines_ends_it_and_nowhere_else(tmp_path: Path) -> None:
    path, texts = tmp_path / "chat.jsonl", ["a\u2028b", "a\u2029b", "a\x85b", "", "plain"]
    lines = [json.dumps({"prompt": f"{n}", "response": text}, ensure_ascii=False) for n, text in enumerate(texts)]
    for mark, end in (("", "\n"), ("\ufeff", "\n"), ("", "\r\n")):
        path.write_bytes((mark + end.join(lines) + end).encode("utf-8"))
        found = read_chat(path, Letters(), eos_id=EOS, block=1, max_length=99)  # type: ignore[arg-type]
        assert sorted(len(each.response) for each in found.train) == sorted(len(text) + 1 for text in texts)
        assert sorted(each.prompt[0] for each in found.train) == list(b"01234")


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    for path, message in ((tmp_path, "cannot be read"), (tmp_path / "none", "cannot be read: No such file")):
        with pytest.raises(ValueError, match=message):
            read_chat(path, Letters(), eos_id=EOS, block=1, max_length=9)  # type: ignore[arg-type]
    (tmp_path / "latin").write_bytes(b'{"prompt": "\xe9", "response": ""}')
    with pytest.raises(ValueError, match="latin is not in UTF-8"):
        read_chat(tmp_path / "latin", Letters(), eos_id=EOS, block=1, max_length=9)  # type: ignore[arg-type]


def test_examples_whose_prompt_leaves_no_room_are_left_out_and_counted(tmp_path: Path) -> None:
    texts = [("x" * length, "yes") for length in range(9, 15)]
    made = chat(tmp_path / "c", *texts)
    assert sorted(len(each.prompt) for each in made.train) == [9, 10, 11]
    assert all(len(each.prompt) < 12 for each in made.held_out)
    assert made.remarks == [f"{tmp_path / 'c'}: 3 of 6 examples are left out: their prompts alone fill --max_length 12"]
    with pytest.raises(ValueError, match="1 of 1 examples are left out: their prompts alone fill --max_length 12"):
        chat(tmp_path / "c", ("x" * 12, "yes"))


def test_an_example_is_left_out_if_and_only_if_it_holds_no_anchor(tmp_path: Path) -> None:
    shapes = [(prompt, response) for prompt in range(1, 12) for response in range(12)]
    texts = [("p" * prompt, "r" * response) for prompt, response in shapes]
    every = chat(tmp_path / "c", *texts)
    batch = collate(every.train, block=4, max_length=12, eos_id=EOS)
    scores = torch.rand(batch.tokens.shape)
    anchors = draw_anchors(batch.is_response, None, block=4, count=9, scores=scores)
    holding = (anchors >= 0).any(1).tolist()
    expected = [example for example, holds in zip(every.train, holding, strict=True) if holds]
    assert 0 < len(expected) < len(texts) == len(every.train)
    kept = chat(tmp_path / "c", *texts, least=4)
    assert kept.train == expected
    assert kept.remarks == [
        f"{tmp_path / 'c'}: {len(texts) - len(expected)} of {len(texts)} examples are left out: "
        "a block of 4 tokens needs as long a response, with the end of text that fills it up"
    ]
    with pytest.raises(ValueError, match="1 of 1 examples are left out: a block of 4 tokens needs as long a response"):
        chat(tmp_path / "c", ("p", "r"), least=4)


def test_what_is_held_out_can_be_measured_or_is_the_first_of_what_is_trained_on(tmp_path: Path) -> None:
    texts = [("p", "r"), ("pp", "rrrrrr"), ("ppp", ""), ("pppp", "rrrr"), ("h", "r")]
    made = chat(tmp_path / "c", *texts, least=4)
    assert [len(each.prompt) for each in made.train] == [2, 4]
    assert made.held_out == made.train
    assert [remark.split(": ")[1] for remark in made.remarks] == ["3 of 5 examples are left out"]
    assert [len(each.prompt) for each in chat(tmp_path / "c", *texts, ("hhh", "rrrrr"), least=4).held_out] == [3]


def test_a_view_needs_a_block_of_response_and_mars_a_token() -> None:
    assert FitOrthrusConfig(orthrus=OrthrusConfig(block=8)).least_response == 8
    assert FitMarsConfig().least_response == 1
