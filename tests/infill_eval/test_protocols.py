"""``reference`` does to a model's text what the published script does; ``corrected`` leaves it alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from infill_eval.infiller import Sample
from infill_eval.protocols import Protocol, completion
from infill_eval.sandbox import Sandbox
from infill_eval.tasks.base import Filled, Item
from infill_eval.tasks.humaneval_task import HumanEvalInfilling

PROBLEMS = Path(__file__).parent / "problems.jsonl"
slow = pytest.mark.skipif(not os.environ.get("INFILL_EVAL_SLOW"), reason="minutes; set INFILL_EVAL_SLOW=1")


@pytest.fixture(scope="module")
def sandbox() -> Sandbox:
    return Sandbox(allow_code_execution=True)


def knows_the_answer(item: Item) -> str:
    """A fixed fake model: one character that the published script drops, then the right line."""
    return "▁" + item.reference[0]


def test_the_reference_slice_leaves_nothing_of_156_problems(sandbox: Sandbox) -> None:
    reference = HumanEvalInfilling(sandbox, protocol="reference")
    corrected = HumanEvalInfilling(sandbox, protocol="corrected")
    lost = 0
    for item in reference.items():
        fill, (prefix, suffix) = knows_the_answer(item), item.segments
        source = reference.program(item, fill).source
        if suffix:
            assert source == prefix + item.reference[0] + suffix + "\n"
        else:
            lost += 1
            assert source == prefix + "\n"
        assert corrected.program(item, item.reference[0]).source == prefix + item.reference[0] + suffix + "\n"
    assert lost == 156


def test_the_lost_problems_fail_and_the_others_pass(sandbox: Sandbox) -> None:
    for protocol, expected in (("reference", "suffix"), ("corrected", "all")):
        task = HumanEvalInfilling(sandbox, protocol=protocol, data=PROBLEMS)  # type: ignore[arg-type]
        items = task.items()
        fills = [knows_the_answer(item) if protocol == "reference" else item.reference[0] for item in items]
        filled = [Filled(item, [Sample(texts=(fill,))]) for item, fill in zip(items, fills, strict=True)]
        passed = [values["pass@1"] for values in task.score(filled)]
        assert len(passed) == 12
        assert passed == [float(expected == "all" or bool(item.segments[1])) for item in items]
        assert 0 in passed or expected == "all"


@slow
@pytest.mark.parametrize(("protocol", "passes"), [("reference", 1033 - 156), ("corrected", 1033)])
def test_all_problems_under_both_protocols(sandbox: Sandbox, protocol: Protocol, passes: int) -> None:
    task = HumanEvalInfilling(sandbox, protocol=protocol)
    fill = knows_the_answer if protocol == "reference" else lambda item: item.reference[0]
    filled = [Filled(item, [Sample(texts=(fill(item),))]) for item in task.items()]
    assert sum(values["pass@1"] for values in task.score(filled)) == passes


def test_the_reference_protocol_drops_the_first_character() -> None:
    assert completion("reference", "    return x\n", "tail") == "   return x\n"
    assert completion("corrected", "    return x\n", "tail") == "    return x\n"
    assert completion("reference", "    return x\n", "") == ""


def test_pass_at_k_counts_samples_and_a_program_is_judged_once(sandbox: Sandbox) -> None:
    task = HumanEvalInfilling(sandbox, data=PROBLEMS, ks=(1, 2, 5))
    item = task.items()[0]
    right, wrong = Sample(texts=item.reference), Sample(texts=("    raise KeyError\n",))
    judged: list[int] = []

    def counting(values: object, total: int, label: str) -> object:
        judged.append(total)
        return values

    (values,) = task.score([Filled(item, [right, wrong, wrong, right])], track=counting)  # type: ignore[arg-type]
    assert judged == [2]
    assert values == {"pass@1": 0.5, "pass@2": pytest.approx(1 - 1 / 6), "exact": 0.5}
    other = Sample(texts=("    pass\n",))
    (values,) = task.score([Filled(item, [right, other])], track=counting)  # type: ignore[arg-type]
    assert judged == [2, 1], "the next method's samples are judged only where they are new"
    assert values["pass@1"] == 0.5


def test_multi_line_problems_are_tasks_too(sandbox: Sandbox) -> None:
    task = HumanEvalInfilling(sandbox, benchmark="multi-line", data=PROBLEMS)
    assert len(task.items()) == 28 + 3 + 6
    assert task.describe()["task"] == "humaneval multi-line"
    assert task.describe()["protocol"] == "corrected"
    assert task.describe()["isolation"] == sandbox.isolation


def test_an_unknown_protocol_is_refused(sandbox: Sandbox) -> None:
    with pytest.raises(ValueError, match="corrected and reference, not 'diffullama'"):
        HumanEvalInfilling(sandbox, protocol="diffullama")
