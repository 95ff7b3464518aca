"""Columns, right ending, blanks and ROUGE are what the protocol says; a wrong file is named."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from rouge_score import rouge_scorer

from infill_eval.infiller import Sample
from infill_eval.tasks.base import Filled
from infill_eval.tasks.rocstories import RocStories, read_stories

STORIES = Path(__file__).parent / "stories.csv"


def rows() -> list[dict[str, str]]:
    with open(STORIES, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_fifth_sentence_is_the_right_ending() -> None:
    for row, story in zip(rows(), read_stories(STORIES), strict=True):
        assert len(story) == 5
        assert story[4] == row[f"RandomFifthSentenceQuiz{row['AnswerRightEnding']}"]
    assert {row["AnswerRightEnding"] for row in rows()} == {"1", "2"}


@pytest.mark.parametrize(("blank", "missing"), [("1/5", slice(2, 3)), ("3/5", slice(1, 4))])
def test_a_filled_item_is_the_whole_story(blank: str, missing: slice) -> None:
    task = RocStories(STORIES, blank=blank)  # type: ignore[arg-type]
    for story, item in zip(read_stories(STORIES), task.items(), strict=True):
        assert item.filled(item.reference) == " ".join(story)
        assert item.reference[0] == " " + " ".join(story[missing])
        assert item.segments[0] == " ".join(story[: missing.start])


def test_the_reference_protocol_puts_nothing_between_the_three_parts() -> None:
    for story, item in zip(read_stories(STORIES), RocStories(STORIES, protocol="reference").items(), strict=True):
        assert item.filled(item.reference) == f"{story[0]} {story[1]}{story[2]}{story[3]} {story[4]}"


@pytest.mark.parametrize("blank", ["1/5", "3/5"])
def test_rouge_is_that_of_rouge_score_run_by_hand(blank: str) -> None:
    task = RocStories(STORIES, blank=blank)  # type: ignore[arg-type]
    items = task.items()
    guesses = [[items[i - 1].reference[0], f"The {item.reference[0][2:30]}"] for i, item in enumerate(items)]
    filled = [Filled(item, [Sample(texts=(g,)) for g in pair]) for item, pair in zip(items, guesses, strict=True)]
    scorer = rouge_scorer.RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    for item, pair, values in zip(items, guesses, task.score(filled), strict=True):
        by_hand = [scorer.score(item.reference[0], guess) for guess in pair]
        for name, label in (("rouge1", "ROUGE-1"), ("rouge2", "ROUGE-2"), ("rougeL", "ROUGE-L")):
            assert values[label] == pytest.approx(50 * sum(score[name].fmeasure for score in by_hand))
        assert values["ROUGE mean"] == pytest.approx((values["ROUGE-1"] + values["ROUGE-2"] + values["ROUGE-L"]) / 3)
    assert any(0 < values["ROUGE-1"] < 100 for values in task.score(filled))


def test_the_reference_text_scores_a_hundred() -> None:
    task = RocStories(STORIES)
    filled = [Filled(item, [Sample(texts=item.reference)]) for item in task.items()]
    assert [values["ROUGE mean"] for values in task.score(filled)] == pytest.approx([100.0] * 12)


def test_the_signature_says_which_rouge() -> None:
    assert RocStories(STORIES).describe()["rouge"].startswith("rouge-score 0.")
    assert "F-measure, no stemmer, lower-cased" in RocStories(STORIES).describe()["rouge"]


def test_diffullama_takes_the_first_thousand_stories(tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    header, *body = STORIES.read_text(encoding="utf-8").splitlines(keepends=True)
    many.write_text(header + "".join(body * 90), encoding="utf-8")
    task = RocStories(many, protocol="diffullama")
    assert len(task.items()) == 1000
    assert len(RocStories(many).items()) == 1080
    assert task.items()[0] == RocStories(many).items()[0]
    with pytest.raises(ValueError, match=r"blanks one sentence \(1/5\), not 3/5"):
        RocStories(many, blank="3/5", protocol="diffullama")


HEADER = STORIES.read_text(encoding="utf-8").splitlines()[0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "lacks the columns InputSentence1, .* it is empty"),
        ("a,b\n1,2\n", r"lacks the columns InputSentence1, .*AnswerRightEnding.*\(it has a, b\)"),
        (HEADER.replace("AnswerRightEnding", "Answer") + "\n", "lacks the columns AnswerRightEnding of"),
        (HEADER + "\n", "has a header and no story"),
        (HEADER + "\nx,a,b,c,d,e,f,3\n", "line 2: AnswerRightEnding must be 1 or 2, got '3'"),
        (HEADER + "\nx,a,b,c,d,e,f,\n", "line 2: AnswerRightEnding must be 1 or 2, got ''"),
        (HEADER + "\nx,a,,c,d,e,f,1\n", "line 2: a sentence is empty"),
        (HEADER + "\nx,a,b,c\n", "line 2: AnswerRightEnding must be 1 or 2, got None"),
    ],
)
def test_a_file_that_is_not_story_cloze_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "stories.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        read_stories(path)
    assert str(path) in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_stories(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read_stories(tmp_path)
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(ValueError, match="not a CSV file in UTF-8"):
        read_stories(tmp_path / "binary.csv")
