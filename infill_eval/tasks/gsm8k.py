"""Word problems of grade-school arithmetic (GSM8K): is the number that a worked answer ends with the right one?

The prompt is some worked examples of our own and the question; what a model writes counts up to the next question.
Its answer is the first number on the line behind the first ``####``; where there is none, the last number of all.
Currency signs and commas between thousands do not count, and numbers are compared as numbers: 42 is 42.00.
Source: Cobbe et al., "Training Verifiers to Solve Math Word Problems", 2021 (questions, and answers behind ``####``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from infill_eval.protocols import truncated
from infill_eval.tasks.base import Filled, Item
from infill_eval.tasks.gsm8k_shots import SHOTS
from infill_eval.tracking import Track, untracked

MARK = "####"
"""What stands before the answer."""
STOP = "\nQuestion:"
"""Where a model has begun to ask itself."""

# A minus right behind something is a subtraction, and a comma is part of a number only between thousands.
_NUMBER = re.compile(
    r"((?<![\w.)])[-\u2212])?[$€£¥]?((?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)"
)


@dataclass(frozen=True, kw_only=True)
class Question:
    """A problem.

    Attributes:
        text: what is asked.
        answer: a worked answer, the result behind ``####``.
        result: that result.
    """

    text: str
    answer: str
    result: Decimal


def read_questions(path: Path) -> list[Question]:
    """The problems of a GSM8K file, one JSON object a line.

    Raises:
        ValueError: if the file is missing, empty or not GSM8K; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; --data names your GSM8K file") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a GSM8K file (JSON lines in UTF-8): {error}") from None
    found = [_question(line, f"{path}, line {number}") for number, line in enumerate(lines, 1) if line.strip()]
    if not found:
        raise ValueError(f'{path} is empty: a GSM8K file has one {{"question": ..., "answer": ...}} a line')
    return found


def _question(line: str, where: str) -> Question:
    try:
        record = json.loads(line)
    except ValueError as error:
        raise ValueError(f"{where}: not a JSON object, so this is no GSM8K file: {error}") from None
    question, answer = (_text(record, name, where) for name in ("question", "answer"))
    behind = _behind_mark(answer)
    if behind is None:
        raise ValueError(f"{where}: the answer has no {MARK} with its result behind it; it ends in {answer[-40:]!r}")
    numbers = _numbers(behind)
    if not numbers:
        raise ValueError(f"{where}: {MARK} must be followed by a number, got {behind.strip()!r}")
    return Question(text=question, answer=answer, result=numbers[0])


def _text(record: object, name: str, where: str) -> str:
    text = record.get(name) if isinstance(record, dict) else None
    if not isinstance(text, str) or not text.strip():
        got = f"an object with {', '.join(record) or 'nothing'}" if isinstance(record, dict) else type(record).__name__
        raise ValueError(
            f'{where}: a GSM8K record has the texts "question" and "answer", and no {name} here; got {got}'
        )
    return text.strip()


def _behind_mark(text: str) -> str | None:
    """What stands on the line behind the first mark; None without a mark."""
    _, mark, rest = text.partition(MARK)
    return rest.partition("\n")[0] if mark else None


def _numbers(text: str) -> list[Decimal]:
    return [Decimal(("-" if sign else "") + digits.replace(",", "")) for sign, digits in _NUMBER.findall(text)]


def extracted(text: str) -> Decimal | None:
    """The number that a text gives as its answer, by the rule above; None if it has no number."""
    every = _marked(text)[:1] or _numbers(truncated(text, (STOP,)))[-1:]
    return every[0] if every else None


def _marked(text: str) -> list[Decimal]:
    """The numbers on the line behind the first mark."""
    return _numbers(_behind_mark(truncated(text, (STOP,))) or "")


class Gsm8k:
    """Word problems behind some worked examples.

    Args:
        data: a GSM8K file.
        shots: how many worked examples stand before each question.

    Raises:
        ValueError: for a file that is not GSM8K, or more examples than there are.
    """

    name = "gsm8k"
    baselines = True

    def __init__(self, data: Path, *, shots: int = len(SHOTS)) -> None:
        if not 0 <= shots <= len(SHOTS):
            raise ValueError(f"--shots must lie between 0 and {len(SHOTS)}, the worked examples there are; got {shots}")
        self._shots = shots
        self._questions = read_questions(data)

    def describe(self) -> dict[str, Any]:
        """Number of examples and questions, and what counts as the answer."""
        return {
            "task": self.name,
            "protocol": f"{self._shots}-shot",
            "questions": len(self._questions),
            "answer": f"number behind {MARK}, else the last one, before the next question",
        }

    def items(self) -> list[Item]:
        """One item a question."""
        examples = "".join(f"Question: {text}\nAnswer: {answer}\n\n" for text, answer in SHOTS[: self._shots])
        return [
            Item(
                id=f"question-{number}",
                segments=(f"{examples}Question: {question.text}\nAnswer:", ""),
                reference=(f" {question.answer}",),
            )
            for number, question in enumerate(self._questions)
        ]

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        """The share of an item's samples with the right number, and of those that mark their answer."""
        results = {item.id: question.result for item, question in zip(self.items(), self._questions, strict=True)}
        return [
            _values([sample.texts[0] for sample in samples], results[item.id])
            for item, samples in track(filled, len(filled), "reading answers")
        ]


def _values(fills: Sequence[str], result: Decimal) -> dict[str, float]:
    right = sum(extracted(fill) == result for fill in fills)
    marked = sum(bool(_marked(fill)) for fill in fills)
    return {"accuracy": right / len(fills), "marked": marked / len(fills)}
