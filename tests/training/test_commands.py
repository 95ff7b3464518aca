"""What the three commands have in common: flags beside a config file, and what a user can put right."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from training import fit, fit_mars, fit_orthrus, flags, mars_config, orthrus_config
from training.flags import CONFIGS

Parse = Callable[[list[str]], Any]

PARSERS = pytest.mark.parametrize("parse", [flags.parse, mars_config.parse, orthrus_config.parse])


@PARSERS
@pytest.mark.parametrize("given", [("--config", "own.yaml"), ("--config=own.yaml",)])
def test_flags_win_over_the_config_file_wherever_it_stands(
    parse: Parse, given: Sequence[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("minutes: 9\nclip: 0.5\n", encoding="utf-8")
    own = ["--init_from", "x", "--minutes", "5"]
    for arguments in ([*own, *given], [*given, *own], [*own[:2], *given, *own[2:]]):
        config = parse(arguments)
        assert (config.run.minutes, config.optimizer.clip) == (5, 0.5)


@PARSERS
def test_a_config_file_is_known_by_its_name(parse: Parse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "CONFIGS", tmp_path)
    (tmp_path / "ours.yaml").write_text("minutes: 9\n", encoding="utf-8")
    assert parse(["--init_from", "x", "--config", "ours"]).run.minutes == 9


@pytest.mark.parametrize("main", [fit.main, fit_mars.main, fit_orthrus.main])
def test_a_run_below_a_file_is_one_sentence_and_status_2(
    main: Callable[[list[str]], int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    start = ["--init_from", "models/mini-causal-code"] if main is not fit.main else []
    sizes = ["--max_steps", "1", "--lengths", "{64: 1.0}", "--tokens_per_step", "64"]
    assert main([*start, *sizes, "--out", str(tmp_path / "file" / "run")]) == 2
    error = capsys.readouterr().err
    assert error.startswith("error: ")
    assert str(tmp_path / "file") in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("name", ["fit", "fit_mars", "fit_orthrus"])
def test_a_mistyped_flag_does_not_wait_for_lightning(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-X", "importtime", str(CONFIGS.parent / f"{name}.py"), "--minuets", "5"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "minuets" in result.stderr
    assert "jsonargparse" in result.stderr
    assert "lightning" not in result.stderr
