"""``fit.py`` as a user meets it: a run, a kill, a second rank, the exports, the errors."""

from __future__ import annotations

import csv
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import anyorder
from training import callbacks
from training.card import make_card
from training.card_figures import five_sentences, sentence_rouge
from training.config import FitConfig, RunConfig
from training.fit import main
from training.flags import CONFIGS, EXAMPLES, build_parser, flat, parse
from training.resume import LAST

SLOW = bool(os.environ.get("ANYORDER_SLOW_TESTS"))
"""Kill ten times instead of three."""


@pytest.fixture
def arguments(folder: Path, vocabulary: Path) -> list[str]:
    """A run of seconds: one thin layer, short sequences, dropout, all orders, validations and checkpoints between."""
    return [
        *("--data", str(folder), "--tokenizer", str(vocabulary), "--held_out_share", "0.2"),
        *("--width", "16", "--layers", "1", "--heads", "1", "--dropout", "0.1"),
        *("--lengths", "{16: 0.5, 32: 0.5}", "--tokens_per_step", "64", "--shuffle_buffer", "20"),
        *("--random_share", "0.2", "--spread_share", "0.2"),
        *("--max_steps", "24", "--validate_every", "9", "--validate_windows", "2", "--log_every", "5"),
        *("--checkpoint_every", "3", "--learning_rate", "1e-2", "--warmup_steps", "4"),
    ]


def weights(run: Path, which: str = "last") -> dict[str, Tensor]:
    return load_file(run / which / "model.safetensors")


def states(run: Path) -> dict[str, Tensor]:
    """All tensors of a checkpoint: weights and what the optimiser remembers."""
    checkpoint = torch.load(run / LAST, weights_only=True)
    optimizer = checkpoint["optimizer_states"][0]["state"]
    return checkpoint["state_dict"] | {f"{p}/{k}": v for p, state in optimizer.items() for k, v in state.items()}


def log(run: Path) -> list[dict[str, str]]:
    with (run / "log.csv").open(newline="") as file:
        clocked = ("minutes", "tokens_per_s")
        return [{k: v for k, v in row.items() if k not in clocked} for row in csv.DictReader(file)]


def start(arguments: list[str], die_at: str = "") -> int:
    """Run in a child (forked, as importing Lightning takes seconds); ``die_at`` is a moment of its first checkpoint."""
    child = os.fork()
    if child:
        return child
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        if die_at == "half a checkpoint":
            callbacks.Trainer.save_checkpoint = _write_half_and_die  # type: ignore[method-assign]
        elif die_at == "before its name":
            callbacks.os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment]
        os._exit(main(arguments))
    finally:
        os._exit(70)


def _write_half_and_die(_: object, path: Path) -> None:
    path.write_bytes(b"PK\x03\x04 half a file")
    os.kill(os.getpid(), signal.SIGKILL)


def wait(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_run_that_is_killed_again_and_again_ends_in_the_same_bits(arguments: list[str], tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    begin = time.monotonic()
    assert wait(start([*arguments, "--out", str(whole)])) == 0
    duration = time.monotonic() - begin
    command = [*arguments, "--out", str(killed)]
    draw = random.Random()
    for number in range(10 if SLOW else 3):
        moment = ("half a checkpoint", "any time", "before its name")[number % 3]
        child = start(command, moment)
        if moment == "any time":
            time.sleep(draw.uniform(0.3, 1.0) * duration)
            os.kill(child, signal.SIGKILL)
        assert wait(child) in (-signal.SIGKILL, 0)
    assert wait(start(command)) == 0
    one, other = states(whole), states(killed)
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert all(torch.equal(value, weights(killed)[name]) for name, value in weights(whole).items())
    assert log(whole) == log(killed)


@pytest.mark.parametrize("end", [("--max_steps", "4"), ("--minutes", "0.002", "--max_steps", "null")])
def test_a_run_at_its_end_takes_no_further_step(arguments: list[str], tmp_path: Path, end: tuple[str, ...]) -> None:
    command = [*arguments, *end, "--out", str(tmp_path)]
    assert wait(start(command)) == 0
    before, rows = states(tmp_path), log(tmp_path)
    assert wait(start(command)) == 0
    after = states(tmp_path)
    assert all(torch.equal(value, after[name]) for name, value in before.items())
    assert log(tmp_path) == rows


def test_two_ranks_equal_one_with_twice_the_batch(arguments: list[str], tmp_path: Path) -> None:
    common = [*arguments, "--dropout", "0", "--shards", "4", "--num_workers", "2", "--max_steps", "20"]
    one, two = tmp_path / "one", tmp_path / "two"
    assert wait(start([*common, "--out", str(one), "--accumulate", "2"])) == 0
    assert wait(start([*common, "--out", str(two), "--devices", "2", "--strategy", "ddp_fork"])) == 0
    worst = max(float((value - weights(two)[name]).abs().max()) for name, value in weights(one).items())
    assert worst <= 1e-5
    assert log(one) == log(two)
    places = [torch.load(run / LAST, weights_only=True)["FitData"] for run in (one, two)]
    assert places[0] == places[1]


@pytest.fixture(scope="module")
def run(folder: Path, vocabulary: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of the ``tiny`` recipe, cut short."""
    out = tmp_path_factory.mktemp("run") / "tiny"
    command = ["--config", "tiny", "--data", str(folder), "--tokenizer", str(vocabulary), "--max_steps", "30"]
    assert main([*command, "--validate_every", "10", "--validate_windows", "2", "--out", str(out)]) == 0
    return out


def test_a_run_learns_logs_and_shows_what_it_writes(run: Path) -> None:
    rows = log(run)
    assert [row["step"] for row in rows] == ["10", "20", "30"]
    costs = [float(row["density"]) for row in rows]
    assert costs[-1] < costs[0] - 0.3
    for name in ("train", "train_draft", "nats@0.15", "nats@0.5", "nats@0.95", "nats@span", "kept1@0.95"):
        assert float(rows[-1][name]) > 0
    infills = (run / "samples" / "00000030.txt").read_text(encoding="utf-8")
    assert infills.count("[[") == infills.count("]]") == 3


def test_exports_load_in_both_libraries_and_agree(run: Path) -> None:
    from transformers import XLNetLMHeadModel

    ours = anyorder.load(run / "best")
    theirs, report = XLNetLMHeadModel.from_pretrained(run / "best", output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    stored = weights(run, "best")["transformer.word_embedding.weight"]
    assert torch.equal(theirs.transformer.word_embedding.weight, stored)
    assert ours.max_length == 128
    assert len(ours.settings.acceptance) == 7
    assert str(anyorder.infill("x = <mask:2>\n", model=ours, seed=0)).startswith("x = ")
    assert "30 steps" in ours.card


def test_a_card_counts_the_run_and_states_what_it_measured(run: Path) -> None:
    model = make_card(anyorder.load(run / "best", weights="plain"), [run, run], "code", "- **Licence**: any.", pieces=2)
    for part in ("60 steps", "2 stage(s)", "- **Licence**: any.", "| 95 %, scattered |", "--width '64'", "seed 9,"):
        assert part in model.card
    assert "restored exactly" in model.card
    assert len(model.settings.acceptance) == 7


def test_rouge_of_a_card_is_of_sentences_inside_five_that_stand_together(run: Path) -> None:
    pytest.importorskip("rouge_score")
    model = anyorder.load(run / "best")
    sentences = [f"The {name} went to the town." for name in ("king", "wife", "boys", "girl", "dogs")]
    text = "No.\n" + " ".join(sentences) + "\nOnly one sentence stands here, and it is alone."
    assert five_sentences(text) == [sentences]
    figures = sentence_rouge(model, [text], 2)
    assert "in 1 held-out pieces" in figures.text
    assert all(0 <= value <= 100 for value in figures.values.values())
    with pytest.raises(ValueError, match="five sentences in a row"):
        sentence_rouge(model, ["x = 1\n"], 2)


def test_a_run_starts_from_anothers_weights_and_vocabulary_with_a_fresh_optimiser(
    run: Path, folder: Path, tmp_path: Path
) -> None:
    command = ["--config", "tiny", "--data", str(folder), "--init_from", str(run), "--max_steps", "1"]
    assert main([*command, "--learning_rate", "0", "--validate_windows", "4", "--out", str(tmp_path / "next")]) == 0
    before, after = weights(run, "best"), weights(tmp_path / "next")
    assert all(torch.equal(before[name], after[name]) for name in before)
    vocabulary, same = (each / "best" / "tokenizer.model" for each in (run, tmp_path / "next"))
    assert vocabulary.read_bytes() == same.read_bytes()


def test_a_finished_run_does_not_go_on_and_a_changed_one_says_so(
    run: Path, folder: Path, vocabulary: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["--config", "tiny", "--data", str(folder), "--tokenizer", str(vocabulary), "--out", str(run)]
    assert main([*command, "--max_steps", "30", "--learning_rate", "0.5"]) == 2
    error = capsys.readouterr().err
    assert "learning_rate was 0.003, is 0.5" in error
    assert "--resume false" in error


def test_time_ends_a_run_and_what_was_used_before_a_kill_counts(arguments: list[str], tmp_path: Path) -> None:
    command = [*arguments, "--max_steps", "null", "--minutes", "0.01", "--clock", "wall", "--out", str(tmp_path)]
    assert wait(start(command)) == 0
    used = torch.load(tmp_path / LAST, weights_only=True)["fit"]
    assert 0.6 <= used["seconds"] < 30
    assert wait(start(command)) == 0  # nothing is left: at most one more step
    assert torch.load(tmp_path / LAST, weights_only=True)["fit"]["steps"] <= used["steps"] + 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--data", "no/such/*.txt"], "no such files"),
        (["--data", "sotu+openwebtext"], "a mixture takes data on this machine"),
        (["--min_characters", "99999"], "0 documents to train on"),
        (["--shards", "3", "--num_workers", "2"], "must be a multiple"),
        (["--init_from", "no-such-model"], "unknown model"),
    ],
)
def test_what_cannot_work_is_one_message_and_exit_code_2(
    arguments: list[str], change: list[str], message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*arguments, "--out", str(tmp_path / "run"), *change]) == 2
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_flags_yaml_and_help_are_the_same_options(tmp_path: Path) -> None:
    text = build_parser().format_help()
    assert set(flat(FitConfig())) <= set(text.replace("--", " ").split())
    for name in flat(FitConfig()):
        assert f"  --{name}" in text
    (tmp_path / "own.yaml").write_text("max_steps: 7\nlengths: {64: 1.0}\n", encoding="utf-8")
    assert parse([]).run.minutes == 60
    config = parse(["--max_steps", "9", "--config", str(tmp_path / "own.yaml"), "--data", "sotu"])
    assert (config.run.max_steps, config.data.lengths, config.data.data) == (9, {64: 1.0}, "sotu")


def test_the_commands_that_the_readme_and_the_help_show_are_ones_the_parser_takes() -> None:
    readme = (CONFIGS.parents[1] / "README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^python training/fit.py (.*)$", readme + EXAMPLES, flags=re.MULTILINE)
    assert len(lines) >= 7
    for line in lines:
        run = parse(shlex.split(line, comments=True)).run
        assert run.max_steps or run.minutes


@pytest.mark.parametrize("recipe", sorted(path.stem for path in CONFIGS.glob("*.yaml")))
def test_every_recipe_is_known_by_its_name_and_says_when_it_ends(recipe: str) -> None:
    run = parse(["--config", recipe]).run
    assert run.max_steps or run.minutes
    assert run.out == RunConfig().out


def test_the_file_runs_from_any_directory(tmp_path: Path) -> None:
    command = [sys.executable, str(CONFIGS.parent / "fit.py"), "--help"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "draft_loss_weight" in result.stdout
