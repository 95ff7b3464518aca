"""One command a row: what goes right prints tables and exits 0, what goes wrong says so and exits 2 or 1."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from infill_eval.cli import main

HERE = Path(__file__).parent
STORIES, PROBLEMS = HERE / "stories.csv", HERE / "problems.jsonl"


@pytest.fixture(autouse=True)
def _own_models(own_module: Callable[[str, str], None]) -> None:
    own_module(
        "own_model",
        "def copy(request):\n    return [request.budget.like[0]] * request.n\n\n\n"
        "def broken(request):\n    return 'not a list'\n\n\ndef stop(request):\n    raise KeyboardInterrupt\n\n\n"
        "def costly(request):\n    from infill_eval.infiller import Sample\n"
        "    return [Sample(texts=('x',), stats={'nfe': 1, 'tokens': 2})] * request.n\n",
    )


def stories(*extra: str, out: str = "out", infiller: str = "own_model:copy") -> list[str]:
    return ["rocstories", "--data", str(STORIES), "--infiller", infiller, "--out", out, *extra]


def test_a_model_of_one_s_own_is_evaluated_by_one_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(stories("--blank", "3/5", "--samples", "2")) == 0
    shown = capsys.readouterr().out
    assert "rocstories 3/5" in shown
    assert "100.00" in shown
    assert "corrected" in shown
    assert "oracle" in shown
    assert "empty" in shown
    run = json.loads((tmp_path / "out" / "run.json").read_text())
    assert run["settings"]["task"]["stories"] == 12
    assert run["runs"][0]["versions"]["rouge-score"]
    assert "| model |" in (tmp_path / "out" / "report.md").read_text()


def test_programs_are_judged_only_after_consent(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["humaneval", "--data", str(PROBLEMS), "--infiller", "own_model:copy", "--out", "he"]
    assert main(command) == 2
    assert "--allow-code-execution" in capsys.readouterr().err
    assert main([*command, "--allow-code-execution"]) == 0
    shown = capsys.readouterr().out
    assert "pass@1" in shown
    assert "1.0000 ± 0.0000" in shown


def test_reports_join_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(stories(out="a")) == 0
    assert main(stories(out="b")) == 0
    assert main(["report", "a", "b", "--out", "joined"]) == 0
    assert "against own" in capsys.readouterr().out
    assert Path("joined/report.md").read_text().count("### ") == 2


def test_a_run_goes_on_only_with_resume(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(stories("--limit", "3")) == 0
    assert main(stories()) == 2
    assert "already holds a run: pass --resume" in capsys.readouterr().err
    assert main(stories("--resume")) == 0
    assert len(Path("out/samples.jsonl").read_text().splitlines()) == 12


def test_a_full_disk_keeps_samples_and_exits_1(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Path("out/samples.jsonl").symlink_to("/dev/full")
    assert main(stories()) == 1
    assert "No space left on device" in capsys.readouterr().err


def test_a_full_disk_while_pictures_are_drawn_is_a_clear_error(capsys: pytest.CaptureFixture[str]) -> None:
    Path("out").mkdir()
    Path("out/nfe.png").symlink_to("/dev/full")
    assert main(stories(infiller="own_model:costly")) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert Path("out/metrics.json").exists()


@pytest.mark.parametrize("wrong", [["--alpha", "3"], ["--margin", "0"]])
def test_options_of_the_report_are_checked_before_anything_is_sampled(wrong: list[str]) -> None:
    assert main(stories(*wrong)) == 2
    assert not Path("out").exists()


def test_the_number_of_workers_is_checked_before_anything_is_sampled(capsys: pytest.CaptureFixture[str]) -> None:
    command = ["humaneval", "--data", str(PROBLEMS), "--infiller", "own_model:copy", "--out", "he", "--workers", "0"]
    assert main([*command, "--allow-code-execution"]) == 2
    assert "workers must be at least 1, got 0" in capsys.readouterr().err
    assert not Path("he").exists()


def test_an_interrupt_says_how_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(stories(infiller="own_model:stop")) == 130
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rocstories", "--data", "none.csv", "--infiller", "own_model:copy", "--out", "x"], "none.csv cannot be read"),
        (["rocstories", "--data", "own_model.py", "--infiller", "own_model:copy", "--out", "x"], "lacks the columns"),
        (stories(infiller="own_model:missing"), "--infiller must be module:callable"),
        (stories(infiller="no_such_module:f"), "--infiller must be module:callable"),
        (stories(infiller="own_model:broken"), "returned a single string"),
        (stories("--limit", "0"), "limit must be at least 1"),
        (stories("--protocol", "diffullama", "--blank", "3/5"), "blanks one sentence"),
        (["report", "nowhere"], "nowhere/metrics.json does not exist"),
    ],
)
def test_bad_input_is_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) in (1, 2)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["nothing"], stories("--length", "many"), ["wikitext", "--out", "x"]])
def test_the_parser_exits_2(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2


def model(tiny_checkpoint: Path, *extra: str) -> list[str]:
    data = ["--data", str(STORIES), "--model", str(tiny_checkpoint), "--limit", "2", "--out", "out"]
    return ["rocstories", *data, *extra]


def test_several_methods_are_compared_with_the_first(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(model(tiny_checkpoint, "--method", "sequential", "assd+ngram", "--draft-length", "3")) == 0
    shown = capsys.readouterr().out
    assert "against sequential" in shown
    assert "assd ngram K=3" in shown
    assert "oracle after codec" in shown
    assert sorted(path.name for path in Path("out").iterdir() if path.is_dir()) == ["assd+ngram", "sequential"]
    stored = json.loads(Path("out/sequential/metrics.json").read_text())
    assert stored["metrics"]["nfe"]["mean"] == stored["metrics"]["tokens"]["mean"]


def test_the_reference_protocol_fixes_the_sampling(tiny_checkpoint: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wrong, name in ((["--method", "one-pass"], "method"), (["--draft-length", "3"], "draft_length")):
        assert main(model(tiny_checkpoint, "--protocol", "reference", *wrong)) == 2
        assert f"--protocol reference fixes {name}" in capsys.readouterr().err
    assert main(model(tiny_checkpoint, "--protocol", "reference", "--length", "4")) == 2
    assert main(model(tiny_checkpoint, "--protocol", "reference")) == 0
    settings = json.loads(Path("out/run.json").read_text())["settings"]
    assert settings["model"]["decoding"]["method"] == "assd"
    assert settings["model"]["decoding"]["draft_length"] == 10
    assert settings["length"] == "oracle"


@pytest.mark.parametrize(("given", "stored", "most"), [("3", "fixed 3", 3), ("1-2", "range range(1, 3)", 2)])
def test_length_policies_reach_the_model(tiny_checkpoint: Path, given: str, stored: str, most: int) -> None:
    assert main(model(tiny_checkpoint, "--length", given)) == 0
    assert json.loads(Path("out/run.json").read_text())["settings"]["length"] == stored
    assert 1 <= json.loads(Path("out/metrics.json").read_text())["metrics"]["tokens"]["mean"] <= most
