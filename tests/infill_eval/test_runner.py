"""A run can be killed at any moment and taken up again: no sample is lost, none is drawn twice, none changes."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from infill_eval.infiller import Budget, Request, Sample
from infill_eval.provenance import provenance
from infill_eval.runner import RunOptions, costs, item_seed, run
from infill_eval.store import StoreError, read_json
from infill_eval.tasks.base import Filled, Item
from infill_eval.tracking import Track, untracked

ROOT = Path(__file__).resolve().parents[2]


class Letters:
    """Twelve items with one letter missing; a fill is right or wrong."""

    name = "letters"
    baselines = True

    def describe(self) -> dict[str, Any]:
        return {"task": self.name, "protocol": "corrected"}

    def items(self) -> list[Item]:
        return [Item(id=f"item-{n}", segments=("<", ">"), reference=(chr(97 + n),)) for n in range(12)]

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        return [{"right": sum(s.texts == item.reference for s in samples) / len(samples)} for item, samples in filled]


def draw(request: Request) -> list[Sample]:
    """Random letters of the request's seed."""
    drawn = [random.Random(request.seed + j).choice("abcdefghijkl") for j in range(request.n)]
    return [Sample(texts=(letter,), log_prob=-2.0, stats={"nfe": 1, "tokens": 2}) for letter in drawn]


def lines(out: Path) -> dict[str, Any]:
    return {record["id"]: record for record in map(json.loads, (out / "samples.jsonl").read_text().splitlines())}


def test_samples_are_on_disk_before_anything_is_scored(tmp_path: Path) -> None:
    class Unscorable(Letters):
        def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
            raise ArithmeticError("scoring failed")

    with pytest.raises(ArithmeticError):
        run(Unscorable(), draw, tmp_path)
    assert len(lines(tmp_path)) == 12
    assert not (tmp_path / "metrics.json").exists()
    metrics = run(Letters(), draw, tmp_path, options=RunOptions(resume=True))
    assert metrics["metrics"]["right"]["n"] == 12


def test_metrics_have_errors_baselines_items_and_settings(tmp_path: Path) -> None:
    class WithCodec:
        def __call__(self, request: Request) -> list[Sample]:
            return draw(request)

        def round_trip(self, text: str) -> str:
            return text.replace("c", "?")  # a codec that loses one letter in twelve

    run(Letters(), WithCodec(), tmp_path, options=RunOptions(samples=3))
    stored = read_json(tmp_path / "metrics.json")
    assert stored["baselines"]["empty"]["right"]["mean"] == 0
    assert stored["baselines"]["oracle"]["right"]["mean"] == 1
    assert stored["baselines"]["oracle after codec"]["right"]["mean"] == pytest.approx(11 / 12)
    assert stored["metrics"]["nfe"] == {"mean": 1.0, "se": 0.0, "n": 12}
    assert stored["metrics"]["log-density a token"]["mean"] == -1.0
    assert stored["metrics"]["tokens a pass"]["mean"] == 2.0
    assert stored["items"]["item-0"]["right"] in (0, 1 / 3, 2 / 3, 1)
    assert stored["settings"]["samples"] == 3


def test_an_item_gets_the_same_samples_in_any_order_batch_or_limit(tmp_path: Path) -> None:
    for name, options in {"a": RunOptions(), "b": RunOptions(batch=5), "c": RunOptions(limit=4)}.items():
        run(Letters(), draw, tmp_path / name, options=options)
    whole = lines(tmp_path / "a")
    assert lines(tmp_path / "b") == whole
    assert lines(tmp_path / "c") == {name: record for name, record in whole.items() if name in lines(tmp_path / "c")}
    assert len(lines(tmp_path / "c")) == 4


def test_seeds_of_items_are_far_apart() -> None:
    seeds = sorted(item_seed(0, f"item-{n}") for n in range(2000))
    assert min(b - a for a, b in pairwise(seeds)) > 1000  # more than anyone's number of samples
    assert item_seed(0, "x") != item_seed(1, "x")


def test_a_finished_run_is_not_overwritten(tmp_path: Path) -> None:
    run(Letters(), draw, tmp_path)
    with pytest.raises(ValueError, match="already holds a run: pass --resume"):
        run(Letters(), draw, tmp_path)


@pytest.mark.parametrize(("change", "named"), [({"seed": 1}, "seed"), ({"samples": 2}, "samples")])
def test_resuming_another_run_is_refused(tmp_path: Path, change: dict[str, int], named: str) -> None:
    run(Letters(), draw, tmp_path)
    before = (tmp_path / "samples.jsonl").read_bytes()
    with pytest.raises(ValueError, match=f"belongs to a run with another {named}"):
        run(Letters(), draw, tmp_path, options=RunOptions(resume=True, **change))  # type: ignore[arg-type]
    assert (tmp_path / "samples.jsonl").read_bytes() == before


@pytest.mark.parametrize("resume", [False, True])
def test_samples_that_no_run_json_explains_are_not_taken_for_ours(tmp_path: Path, resume: bool) -> None:
    run(Letters(), draw, tmp_path, options=RunOptions(seed=1, limit=3))
    (tmp_path / "run.json").unlink()
    before = (tmp_path / "samples.jsonl").read_bytes()
    with pytest.raises(ValueError, match=r"holds samples, and no run\.json says of what"):
        run(Letters(), draw, tmp_path, options=RunOptions(seed=2, resume=resume))
    assert (tmp_path / "samples.jsonl").read_bytes() == before


def test_a_line_with_another_number_of_samples_is_refused(tmp_path: Path) -> None:
    run(Letters(), draw, tmp_path, options=RunOptions(limit=1))
    (tmp_path / "samples.jsonl").write_text('{"id": "item-0", "samples": []}\n')
    with pytest.raises(StoreError, match="holds 0 samples of item-0, not 1"):
        run(Letters(), draw, tmp_path, options=RunOptions(resume=True))


def test_a_run_is_not_taken_up_on_other_data(tmp_path: Path) -> None:
    class Upper(Letters):
        def items(self) -> list[Item]:
            return [Item(id=one.id, segments=("<", "]"), reference=one.reference) for one in super().items()]

    run(Letters(), draw, tmp_path, options=RunOptions(limit=3))
    with pytest.raises(ValueError, match="belongs to a run with another items"):
        run(Upper(), draw, tmp_path, options=RunOptions(resume=True))


def test_a_longer_limit_takes_up_a_shorter_run(tmp_path: Path) -> None:
    asked: list[str] = []

    def counted(request: Request) -> list[Sample]:
        asked.append(request.id)
        return draw(request)

    counted.__name__ = "draw"
    run(Letters(), counted, tmp_path, options=RunOptions(limit=5))
    run(Letters(), counted, tmp_path, options=RunOptions(resume=True))
    assert sorted(asked) == sorted(f"item-{n}" for n in range(12))


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[2])
from pathlib import Path
from test_runner import Letters, draw
from infill_eval.runner import RunOptions, run
def slow(request):
    time.sleep(0.02)
    with open(sys.argv[1] + "/asked", "a") as file:
        file.write(request.id + "\\n")
    return draw(request)
slow.__name__ = "draw"
run(Letters(), slow, Path(sys.argv[1]) / "run", options=RunOptions(batch=1, resume=True))
"""


@pytest.mark.parametrize("attempt", range(2))
def test_a_run_killed_at_any_moment_loses_no_sample_and_repeats_none(tmp_path: Path, attempt: int) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    kills = 0
    while not (tmp_path / "run" / "metrics.json").exists():
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
            already = _count(tmp_path / "asked")
            while process.poll() is None and _count(tmp_path / "asked") < already + 3 + attempt:
                time.sleep(0.005)
            kept = lines(tmp_path / "run") if kills else {}
            process.kill()
            kills += 1
        assert kept.items() <= lines_whole(tmp_path / "run").items()
        assert kills < 20
    assert kills > 1, "the run was never interrupted"
    run(Letters(), draw, tmp_path / "once", options=RunOptions(batch=1))
    assert lines(tmp_path / "run") == lines(tmp_path / "once")
    asked = (tmp_path / "asked").read_text().split()
    # An item is drawn again only if the kill came between the model's answer and the disk.
    assert len(asked) - len(set(asked)) < kills
    assert len(read_json(tmp_path / "run" / "run.json")["runs"]) >= kills - 1


def _count(path: Path) -> int:
    return path.read_text().count("\n") if path.exists() else 0


def lines_whole(out: Path) -> dict[str, Any]:
    """The complete lines of a file whose last line may be cut off."""
    text = (out / "samples.jsonl").read_text()
    return {record["id"]: record for record in map(json.loads, text[: text.rfind("\n") + 1].splitlines())}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"samples": 0}, "samples must be at least 1, got 0"),
        ({"batch": 0}, "batch must be at least 1"),
        ({"limit": 0}, "limit must be at least 1"),
        ({"length": "fixed"}, "fixed length is a number of tokens"),
        ({"length": "oracle", "tokens": 3}, "no number of tokens"),
    ],
)
def test_options_are_checked_before_anything_runs(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RunOptions(**wrong)


def test_the_model_sees_the_reference_only_as_a_length(tmp_path: Path) -> None:
    seen: list[Budget] = []

    def watch(request: Request) -> list[str]:
        seen.append(request.budget)
        return ["x"] * request.n

    run(Letters(), watch, tmp_path / "fixed", options=RunOptions(length="fixed", tokens=4, limit=1))
    run(Letters(), watch, tmp_path / "oracle", options=RunOptions(limit=1))
    assert seen == [Budget(policy="fixed", tokens=4), Budget(policy="oracle", like=("a",))]


def test_costs_are_means_over_samples_and_ignore_what_is_no_number() -> None:
    samples = [
        Sample(texts=("",), stats={"nfe": 2, "tokens": 4, "tested by rank": [1]}),
        Sample(texts=("",), stats={"nfe": 4, "tokens": 4}),
    ]
    assert costs(samples) == {"nfe": 3.0, "tokens": 4.0, "tokens a pass": 4 / 3}
    assert costs([Sample(texts=("",))]) == {}


def test_provenance_names_command_versions_and_checkout() -> None:
    facts = provenance(["infill_eval", "humaneval"])
    assert facts["command"] == ["infill_eval", "humaneval"]
    assert facts["versions"]["numpy"]
    assert facts["git"] is None or len(facts["git"]["commit"]) == 40
    json.dumps(facts)


def test_every_request_carries_its_item_s_seed(tmp_path: Path) -> None:
    seeds: dict[str, int] = {}

    def watch(request: Request) -> list[str]:
        seeds[request.id] = request.seed
        return ["x"] * request.n

    run(Letters(), watch, tmp_path, options=RunOptions(seed=7))
    assert seeds == {f"item-{n}": item_seed(7, f"item-{n}") for n in range(12)}
