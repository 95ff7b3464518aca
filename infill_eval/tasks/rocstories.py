"""ROCStories infilling: the middle sentence of five, or the middle three, from the sentences around them; ROUGE.

The stories are the user's copy of the Story Cloze validation file (spring 2016); the fifth sentence is the right one of
the two endings. The fill starts with the space between two sentences. ROUGE is computed by ``rouge-score`` itself:
F-measures without stemming, its tokenizer lower-cases, and a story's value is the mean over its samples.
Sources: Mostafazadeh et al. 2016; Lin 2004; Gong et al. 2024 (DiffuLLaMA: the first 1,000 stories, one sentence).
"""

from __future__ import annotations

import csv
import importlib.metadata
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from infill_eval.protocols import Protocol
from infill_eval.tasks.base import Filled, Item
from infill_eval.tracking import Track, untracked

if TYPE_CHECKING:
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

Blank = Literal["1/5", "3/5"]
"""How many of the five sentences are missing."""

_ENDINGS = ("RandomFifthSentenceQuiz1", "RandomFifthSentenceQuiz2")
_COLUMNS = ("InputSentence1", "InputSentence2", "InputSentence3", "InputSentence4", *_ENDINGS, "AnswerRightEnding")
_ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}


def read_stories(path: Path) -> list[tuple[str, ...]]:
    """The stories of a Story Cloze file, five sentences each.

    Raises:
        ValueError: if the file is missing, empty, lacks columns, or has a row that is no story.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                found = ", ".join(reader.fieldnames or ()) or "none: it is empty"
                raise ValueError(
                    f"{path} lacks the columns {', '.join(missing)} of a Story Cloze file (it has {found})"
                )
            stories = [_story(row, f"{path}, line {reader.line_num}") for row in reader]
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; --data names your Story Cloze CSV file") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is not a CSV file in UTF-8: {error}") from None
    if not stories:
        raise ValueError(f"{path} has a header and no story")
    return stories


def _story(row: dict[str, str], where: str) -> tuple[str, ...]:
    answer = row["AnswerRightEnding"]
    if answer not in ("1", "2"):
        raise ValueError(f"{where}: AnswerRightEnding must be 1 or 2, got {answer!r}")
    sentences = [row[name] for name in (*_COLUMNS[:4], _ENDINGS[int(answer) - 1])]
    if not all(sentence and sentence.strip() for sentence in sentences):
        raise ValueError(f"{where}: a sentence is empty")
    return tuple(sentence.strip() for sentence in sentences)


class RocStories:
    """One or three missing sentences under one protocol.

    Args:
        data: the Story Cloze CSV file.
        blank: ``"1/5"`` or ``"3/5"``.
        protocol: ``"corrected"``, ``"reference"`` (sentences encoded apart, so without a space between them) or
            ``"diffullama"`` (the first 1,000 stories, one sentence).

    Raises:
        ValueError: for a file that is not Story Cloze, or a blank the protocol does not know.
    """

    baselines = True

    def __init__(self, data: Path, *, blank: Blank = "1/5", protocol: Protocol = "corrected") -> None:
        if blank not in ("1/5", "3/5"):
            raise ValueError(f"ROCStories has the blanks 1/5 and 3/5, not {blank!r}")
        if protocol == "diffullama" and blank != "1/5":
            raise ValueError(f"the diffullama protocol blanks one sentence (1/5), not {blank}")
        stories = read_stories(data)
        self.name = f"rocstories {blank}"
        self._protocol: Protocol = protocol
        self._stories = stories[:1000] if protocol == "diffullama" else stories
        self._missing = (2, 3) if blank == "1/5" else (1, 4)

    def describe(self) -> dict[str, Any]:
        """Protocol, number of stories and ROUGE's signature."""
        return {
            "task": self.name,
            "protocol": self._protocol,
            "stories": len(self._stories),
            "rouge": f"rouge-score {importlib.metadata.version('rouge-score')}, F-measure, no stemmer, lower-cased",
        }

    def items(self) -> list[Item]:
        """One item a story."""
        first, last = self._missing
        # The published script encodes the three parts apart and joins their tokens; nothing separates them.
        gap = "" if self._protocol == "reference" else " "
        return [
            Item(
                id=f"story-{number}",
                segments=(" ".join(story[:first]), gap + " ".join(story[last:])),
                reference=(gap + " ".join(story[first:last]),),
            )
            for number, story in enumerate(self._stories)
        ]

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        """ROUGE-1, -2, -L (percent) and their mean for each story."""
        scorer = _scorer()
        return [_rouge(scorer, entry) for entry in track(filled, len(filled), "computing ROUGE")]


def _scorer() -> RougeScorer:
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(list(_ROUGE), use_stemmer=False)


def _rouge(scorer: RougeScorer, entry: Filled) -> dict[str, float]:
    target = entry.item.reference[0].strip()
    scores = [scorer.score(target, sample.texts[0]) for sample in entry.samples]
    values = {label: 100 * sum(one[name].fmeasure for one in scores) / len(scores) for name, label in _ROUGE.items()}
    return values | {"ROUGE mean": sum(values.values()) / len(values)}
