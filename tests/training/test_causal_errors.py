"""What a user of ``fit_mars`` and ``fit_orthrus`` can put right is one sentence and status 2, a divergence as well."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock, patch

import pytest
from torch import nn, zeros

from anyorder.adapters import causal, mars
from training.causal_report import CausalReport, Judge
from training.config import RunConfig
from training.fit_mars import main as fit_mars
from training.fit_orthrus import main as fit_orthrus

VOCABULARY = Path("anyorder/pretrained/mini-code/tokenizer.model")
DATA = (
    *("--max_steps", "1", "--validate_every", "100", "--validate_windows", "4"),
    *("--tokens_per_step", "48", "--max_length", "48"),
)
FRESH = (
    *("--objective", "causal", "--width", "16", "--layers", "1", "--heads", "2"),
    *("--tokenizer", str(VOCABULARY), *DATA),
)
VIEW = "models/mini-orthrus-8"


def write_chat(path: Path, *texts: tuple[str, str]) -> str:
    path.write_text("\n".join(json.dumps({"prompt": prompt, "response": response}) for prompt, response in texts))
    return str(path)


@pytest.fixture
def chat(tmp_path: Path) -> str:
    return write_chat(tmp_path / "chat.jsonl", *((f"def f{i}(", f"x):\n    return {i}\n") for i in range(12)))


def save_random_model(directory: Path, vocab_size: int = 4096) -> None:
    """A model without a tokenizer, small, of a vocabulary as large as ours."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=vocab_size, num_key_value_heads=2, eos_token_id=2, **sizes)
    mars.save(causal.wrap(Qwen2ForCausalLM(config)), directory)


@pytest.fixture
def start(tmp_path: Path) -> str:
    """A random model with its tokenizer."""
    save_random_model(tmp_path / "start")
    shutil.copy(VOCABULARY, tmp_path / "start" / "tokenizer.model")
    return str(tmp_path / "start")


@pytest.fixture
def old_run(tmp_path: Path) -> Path:
    """Where a run lies that ``--resume false`` would start over."""
    out = tmp_path / "run"
    out.mkdir()
    (out / "last.ckpt").touch()
    return out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--block", "0"), "--block must be at least 1; got 0"),
        (("--block", "-1"), "--block must be at least 1; got -1"),
        (("--max_length", "0"), "--max_length must be at least 2; got 0"),
        (("--tokens_per_step", "0"), "--tokens_per_step must be at least 1; got 0"),
        (("--max_steps", "0"), "--max_steps must be at least 1; got 0"),
        (("--minutes", "0"), "--minutes must be more than 0; got 0"),
        (("--validate_windows", "0"), "--validate_windows must be at least 1; got 0"),
        (("--heads", "0"), "--heads must be at least 1; got 0"),
        (("--width", "15", "--heads", "5"), "--width must be a multiple of twice --heads"),
        (("--lora_rank", "2"), "a LoRA is of a trained model, whose weights it freezes: name it with --init_from"),
        (("--lora_rank", "-1"), "--lora_rank must be at least 0; got -1"),
    ],
)
def test_a_number_out_of_range_is_named_before_anything_is_written(
    flags: tuple[str, ...], message: str, chat: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert fit_mars([*FRESH[2:], "--chat", chat, "--out", str(tmp_path / "run"), *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_view_of_less_than_two_tokens_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert fit_orthrus(["--init_from", "x", "--block", "1", "--out", str(tmp_path / "run")]) == 2
    assert "--block must be at least 2; got 1" in capsys.readouterr().err


@pytest.mark.parametrize("main", [fit_mars, fit_orthrus])
def test_a_start_that_is_none_is_one_sentence_and_starts_nothing_over(
    main: Callable[[list[str]], int], chat: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, old_run: Path
) -> None:
    (tmp_path / "empty").mkdir()
    for name, message in (
        (VIEW, f"{VIEW} holds a view, which is no model of its own"),
        (str(tmp_path / "empty"), "holds no model: a run's directory has best/config.json"),
        (str(tmp_path / "nothing"), "is no directory (a run's directory has best/config.json"),
        ("README.md", "--init_from README.md is no directory: a run's directory has best/config.json"),
        ("", "--init_from (nothing) is no directory"),
    ):
        flags = ["--init_from", name, "--chat", chat, "--resume", "false", *DATA, "--out", str(old_run)]
        assert main(flags) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1
        assert (old_run / "last.ckpt").exists()


@pytest.mark.parametrize("main", [fit_mars, fit_orthrus])
@pytest.mark.parametrize(
    ("tokenizer", "vocab_size", "message"),
    [
        (
            {},
            4096,
            "start has no tokenizer (tokenizer.model of ours, or tokenizer.json or",
        ),
        ({"tokenizer_config.json": b"{}"}, 4096, "cannot be used: it knows no letter: there is no vocabulary"),
        ({"tokenizer.model": VOCABULARY.read_bytes()}, 4000, "the tokenizer has 4096 tokens and the model knows 4000"),
    ],
    ids=["none", "blank", "another's"],
)
def test_a_start_without_its_tokenizer_is_one_sentence_and_starts_nothing_over(
    main: Callable[[list[str]], int],
    tokenizer: dict[str, bytes],
    vocab_size: int,
    message: str,
    chat: str,
    capsys: pytest.CaptureFixture[str],
    old_run: Path,
) -> None:
    start = old_run.with_name("start")
    save_random_model(start, vocab_size)
    for file, content in tokenizer.items():
        (start / file).write_bytes(content)
    flags = ["--init_from", str(start), "--chat", chat, "--resume", "false", *DATA, "--out", str(old_run)]
    assert main(flags) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert (old_run / "last.ckpt").exists()


def test_alpha_without_a_lora_is_refused(
    start: str, chat: str, capsys: pytest.CaptureFixture[str], old_run: Path
) -> None:
    flags = ["--init_from", start, "--chat", chat, "--resume", "false", *DATA, "--out", str(old_run)]
    assert fit_mars([*flags, "--lora_alpha", "8"]) == 2
    assert "--lora_alpha is of a LoRA, and this run trains none: give --lora_rank too" in capsys.readouterr().err
    assert (old_run / "last.ckpt").exists()
    assert fit_mars([*flags, "--lora_rank", "2", "--lora_alpha", "0"]) == 2
    assert "--lora_alpha must be more than 0; got 0" in capsys.readouterr().err


@pytest.mark.parametrize("option", [("--tokenizer", "nowhere.model"), ("--lora_alpha", "8")])
def test_a_fresh_model_is_refused_for_its_options_before_the_old_run_goes(
    option: tuple[str, str], chat: str, capsys: pytest.CaptureFixture[str], old_run: Path
) -> None:
    assert fit_mars([*FRESH, "--chat", chat, "--resume", "false", "--out", str(old_run), *option]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert (old_run / "last.ckpt").exists()


def test_weights_that_a_kill_cut_off_are_one_sentence(
    start: str, chat: str, capsys: pytest.CaptureFixture[str], old_run: Path
) -> None:
    path = Path(start) / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    flags = ["--init_from", start, "--chat", chat, "--resume", "false", *DATA, "--out", str(old_run)]
    assert fit_mars(flags) == 2
    assert f"{start} holds no causal model" in capsys.readouterr().err
    assert (old_run / "last.ckpt").exists()


def test_what_the_hub_does_not_have_is_one_sentence(
    chat: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers import AutoTokenizer

    def fetch(name: str) -> None:
        raise OSError(f"{name} is not there\nand a second line")

    monkeypatch.setattr(AutoTokenizer, "from_pretrained", fetch)
    assert fit_mars(["--init_from", "runs/nothing", "--chat", chat, *DATA, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert "--init_from runs/nothing is no directory" in error
    assert error.endswith("nor could it be fetched from the Hub: runs/nothing is not there\n")


@pytest.mark.parametrize("main", [fit_mars, fit_orthrus])
def test_a_chat_that_is_not_there_is_one_sentence(
    main: Callable[[list[str]], int], start: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--init_from", start, "--chat", str(tmp_path / "nope.jsonl"), *DATA, "--out", str(tmp_path / "run")]
    assert main(flags) == 2
    assert f"--chat {tmp_path / 'nope.jsonl'}: there is no such file" in capsys.readouterr().err


def test_a_chat_without_a_single_anchor_is_refused(
    start: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    short = write_chat(tmp_path / "short.jsonl", *((f"{i}+{i}=", "2") for i in range(4)))
    flags = ["--init_from", start, "--block", "16", "--chat", short, *DATA, "--out", str(tmp_path / "run")]
    assert fit_orthrus(flags) == 2
    assert "4 of 4 examples are left out: a block of 16 tokens needs as long a response" in capsys.readouterr().err


def test_a_run_that_is_over_announces_its_own_model_and_one_that_diverges_none(
    chat: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = [*FRESH, "--chat", chat, "--out", str(tmp_path / "run")]
    for _ in range(2):  # the second time there is nothing left to do
        assert fit_mars(flags) == 0
        assert f"{tmp_path / 'run' / 'best'} holds the best model" in capsys.readouterr().err
    assert fit_mars([*flags, "--resume", "false", "--learning_rate", "1e30", "--warmup_steps", "0"]) == 2
    error = capsys.readouterr().err
    assert "training has diverged: at step 1 the held-out figures are density" in error
    assert "lower --learning_rate" in error
    assert "holds the best model" not in error


def test_a_run_whose_best_a_kill_left_under_another_name_announces_it_under_its_own(
    chat: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags, best = [*FRESH, "--chat", chat, "--out", str(tmp_path / "run")], tmp_path / "run" / "best"
    assert fit_mars(flags) == 0
    best.rename(best.with_name("best.old"))
    assert fit_mars(flags) == 0
    assert f"{best} holds the best model" in capsys.readouterr().err
    assert (best / "config.json").exists()


class Recorder:
    """What a report asks of Lightning's trainer."""

    should_stop = True
    logger = None

    def __init__(self, *, is_global_zero: bool = True) -> None:
        self.is_global_zero = is_global_zero


def report(out: Path, score: float) -> CausalReport:
    judge = Judge(("a", "b"), lambda: {"kl": score}, lambda figures: figures["kl"], lambda path: path.mkdir())
    return CausalReport(nn.Linear(1, 1), judge, RunConfig(out=out, max_steps=1))  # type: ignore[arg-type]


def a_step() -> Any:
    """What a report asks of the module after a step."""
    return SimpleNamespace(clock=SimpleNamespace(seconds=1.0), train_loss=zeros(2), steps=7, tokens_seen=0)


@pytest.mark.parametrize("is_first", [True, False])
def test_one_process_of_a_run_shows_a_bar_and_writes(is_first: bool, tmp_path: Path) -> None:
    with patch("training.causal_report.open_bar", return_value=MagicMock(total=1)) as open_bar:
        trainer: Any = Recorder(is_global_zero=is_first)
        report(tmp_path, 1.0).on_train_batch_end(trainer, a_step(), None, None, 0)
    assert open_bar.called == is_first
    assert {path.name for path in tmp_path.iterdir()} == ({"best", "last"} if is_first else set())


@pytest.mark.parametrize("score", [float("nan"), float("inf"), float("-inf")])
def test_a_score_that_is_no_number_ends_the_run_and_writes_nothing(tmp_path: Path, score: float) -> None:
    with pytest.raises(ValueError, match=f"at step 7 the held-out figures are kl {score}; start over with a lower"):
        report(tmp_path, score).on_train_batch_end(Recorder(), a_step(), None, None, 0)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_the_best_model_of_an_earlier_run_is_not_taken_for_this_ones(tmp_path: Path) -> None:
    (tmp_path / "best").mkdir()
    with pytest.raises(ValueError, match=r"wrote no .*best: what lies there is of an earlier one"):
        report(tmp_path, 1.0).on_train_end(Recorder(), None)  # type: ignore[arg-type]
    (tmp_path / "best").rmdir()
    went_on = report(tmp_path, 1.0)
    went_on.load_state_dict({"best": 1.0, "next": 0.0})
    with pytest.raises(ValueError, match=r"wrote no .*best; start over"):
        went_on.on_train_end(Recorder(), None)  # type: ignore[arg-type]
    (tmp_path / "best").mkdir()
    went_on.on_train_end(Recorder(), None)  # type: ignore[arg-type]
