"""GSM8K: which number is the answer is a stated rule, our own examples are right, and a wrong file is named."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest

from infill_eval.cli import main
from infill_eval.infiller import Sample
from infill_eval.store import read_json, read_samples
from infill_eval.tasks.base import Filled
from infill_eval.tasks.gsm8k import Gsm8k, extracted, read_questions
from infill_eval.tasks.gsm8k_shots import SHOTS

QUESTIONS = [
    ("A jar holds 20 sweets. How many do 3 jars hold?", "3 * 20 = <<3*20=60>>60\n#### 60", "60"),
    ("A boat costs $1,200 and an oar $50. What do both cost?", "1200 + 50 = 1250 dollars.\n#### $1,250", "1250"),
    ("It is 4 degrees and gets 9 degrees colder. How cold is it?", "4 - 9 = -5\n#### -5", "-5"),
    ("Half of 5 litres is how much?", "5 / 2 = 2.5\n#### 2.50", "2.5"),
]


def line(question: object, answer: object) -> str:
    return json.dumps({"question": question, "answer": answer})


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(line(question, answer) for question, answer, _ in QUESTIONS) + "\n\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "number"),
    [
        (" 3 + 4 = 7.\n#### 7", "7"),
        ("#### 1,234,567", "1234567"),
        ("#### $1,234.50.", "1234.5"),
        ("#### -$3", "-3"),
        ("#### $-3", "-3"),
        ("#### € 12", "12"),
        ("#### 12 apples, 3 of them red", "12"),
        ("#### x = 5", "5"),
        ("#### 7\n\nThat leaves 9.", "7"),
        ("#### 7\n#### 8", "7"),
        ("####7", "7"),
        ("#### seven\nSo it is 6 or 7.", "7"),
        ("First 3, then 12 apples.", "12"),
        ("She has 10-5", "5"),
        ("It is \u22125 degrees", "-5"),
        ("#### \u2212$3", "-3"),
        ("She has 10\u22125", "5"),
        ("so 3 - 5 = -2", "-2"),
        ("It is (-4)", "-4"),
        ("In all .5 of it", "0.5"),
        ("It costs 42.", "42"),
        ("They are 1, 2, 3", "3"),
        ("The sum is 1,2345", "2345"),
        ("In 10,000 years", "10000"),
        (" 5 apples\n\nQuestion: How many are 9?\nAnswer: 9\n#### 9", "5"),
        ("#### 5\nQuestion: 6?", "5"),
        ("none at all", None),
        ("", None),
        ("\nQuestion: 5", None),
    ],
)
def test_the_answer_is_the_number_behind_the_mark_else_the_last_one(text: str, number: str | None) -> None:
    assert extracted(text) == (None if number is None else Decimal(number))


def test_results_are_read_from_the_file(data: Path) -> None:
    found = read_questions(data)
    assert [(each.text, each.result) for each in found] == [(text, Decimal(value)) for text, _, value in QUESTIONS]


def test_the_worked_examples_are_right() -> None:
    for question, answer in SHOTS:
        equations = re.findall(r"([\d.]+(?: [*/+-] [\d.]+)+) = ([\d.]*\d)", answer)
        assert answer.count("=") == len(equations) >= 2
        for left, right in equations:
            assert eval(left) == pytest.approx(float(right))  # digits and operators, by the pattern
        assert extracted(answer) == Decimal(equations[-1][1])
        assert answer.split("\n")[-1].startswith("#### ")
        assert len(question) > 40
    assert len({question for question, _ in SHOTS}) == 8


def test_a_prompt_is_the_examples_and_the_question(data: Path) -> None:
    for shots in (0, 3, 8):
        task = Gsm8k(data, shots=shots)
        for item, (question, answer, _) in zip(task.items(), QUESTIONS, strict=True):
            prompt, behind = item.segments
            assert behind == ""
            assert prompt.count("Question: ") == prompt.count("Answer:") == shots + 1
            assert prompt.endswith(f"Question: {question}\nAnswer:")
            assert all(f"Question: {text}\nAnswer: {worked}\n\n" in prompt for text, worked in SHOTS[:shots])
            assert item.reference == (f" {answer}",)
        assert task.describe()["protocol"] == f"{shots}-shot"
    assert Gsm8k(data).items()[0].segments == Gsm8k(data, shots=8).items()[0].segments


@pytest.mark.parametrize("shots", [-1, 9])
def test_more_examples_than_there_are_are_refused(data: Path, shots: int) -> None:
    with pytest.raises(ValueError, match=f"between 0 and 8, the worked examples there are; got {shots}"):
        Gsm8k(data, shots=shots)


def test_accuracy_is_the_share_of_samples_with_the_right_number(data: Path) -> None:
    task = Gsm8k(data)
    fills = [(" 60", " #### 60.0", "#### sixty-one"), (" $1250", "#### 1250", ""), ("5", "4", "-6"), ("#### 2.5",) * 3]
    filled = [
        Filled(item, [Sample(texts=(text,)) for text in row]) for item, row in zip(task.items(), fills, strict=True)
    ]
    values = task.score(filled)
    assert [each["accuracy"] for each in values] == pytest.approx([2 / 3, 2 / 3, 0, 1])
    assert [each["marked"] for each in values] == pytest.approx([1 / 3, 1 / 3, 0, 1])
    assert task.score(filled[1:2]) == values[1:2]  # whatever items are scored, each by its own result


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty: a GSM8K file has one"),
        ("\n\n", "is empty"),
        ("question,answer\n1,2\n", "line 1: not a JSON object, so this is no GSM8K file"),
        ("[1]\n", 'line 1: a GSM8K record has the texts "question" and "answer", and no question here; got list'),
        ('{"prompt": "a", "completion": "b"}\n', "no question here; got an object with prompt, completion"),
        (line("How many?", "#### 4") + "\n" + line("How many?", 4), "line 2: .* and no answer here"),
        (line(" ", "#### 4"), "line 1: .* and no question here"),
        (
            line("How many?", "It is 4."),
            "line 1: the answer has no #### with its result behind it; it ends in 'It is 4.'",
        ),
        (line("How many?", "4\n#### four"), "line 1: #### must be followed by a number, got 'four'"),
    ],
)
def test_a_file_that_is_not_gsm8k_is_refused_by_name(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message) as caught:
        read_questions(path)
    assert str(path) in str(caught.value)


def test_a_missing_or_binary_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_questions(tmp_path / "none.jsonl")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        read_questions(tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match=r"not a GSM8K file \(JSON lines in UTF-8\)"):
        read_questions(tmp_path / "binary")


@pytest.fixture
def command(data: Path, own_module: Callable[[str, str], None]) -> list[str]:
    own_module(
        "own_counter",
        "def counter(request):\n    question = request.prefix.rsplit('Question: ')[-1]\n"
        "    right = 'jars' in question or 'boat' in question\n"
        "    answer = ' 60' if 'jars' in question else ' It is 1,250 dollars.'\n"
        "    return [answer if right else ' no idea'] * request.n\n",
    )
    return ["gsm8k", "--data", str(data), "--out", "out"]


def test_a_model_of_one_s_own_gets_accuracy_with_its_standard_error(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--infiller", "own_counter:counter", "--shots", "2"]) == 0
    shown = capsys.readouterr().out
    for part in ("gsm8k", "2-shot", "fixed 256", "accuracy", "0.5000 ± 0.2887", "oracle", "empty"):
        assert part in shown
    stored = read_json(Path("out/metrics.json"))
    assert stored["metrics"]["accuracy"]["mean"] == 1 / 2
    assert stored["metrics"]["accuracy"]["se"] == pytest.approx(math.sqrt(1 / 3 / 4))  # of four values 1, 1, 0, 0
    assert stored["baselines"]["oracle"]["accuracy"]["mean"] == 1
    assert stored["baselines"]["empty"]["accuracy"]["mean"] == 0
    assert stored["settings"]["task"]["questions"] == 4


def test_causal_methods_are_compared_and_taken_up_again(
    command: list[str], causal_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [*command, "--causal", str(causal_run), "--max-new-tokens", "6", "--method", "greedy", "mars-verify"]
    assert main([*asked, "--limit", "2"]) == 0
    assert "gsm8k: against greedy" in capsys.readouterr().out
    assert main([*asked, "--resume"]) == 0
    fills = [read_samples(Path("out", name, "samples.jsonl")) for name in ("greedy", "mars-verify")]
    assert list(fills[0]) == [f"question-{number}" for number in range(4)]
    assert [s[0].texts for s in fills[0].values()] == [s[0].texts for s in fills[1].values()]
    assert main([*asked, "--resume", "--shots", "1"]) == 2
    assert "belongs to a run with another task" in capsys.readouterr().err


def test_a_prompt_too_long_says_what_to_ask_for(
    command: list[str], causal_run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--causal", str(causal_run), "--max-new-tokens", "1900"]) == 2
    message = capsys.readouterr().err
    assert "question-0: a prompt of" in message
    assert "1900 new ones exceed the 2048 positions" in message
    assert "--shots" in message
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--shots", "12"], "--shots must lie between 0 and 8"),
        (["--data", "none.jsonl"], "none.jsonl cannot be read: No such file"),
        (["--data", "own_counter.py"], "own_counter.py, line 1: not a JSON object"),
    ],
)
def test_bad_input_is_named(
    command: list[str], extra: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*command, "--infiller", "own_counter:counter", *extra]) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()
