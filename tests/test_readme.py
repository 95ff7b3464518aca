"""The README's examples run, in order, as they stand; its flags and names exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import anyorder
from anyorder.cli import main
from anyorder.cli.parser import build_parser

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_python_examples_run(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```\n(.*?)```)?", README, flags=re.DOTALL)
    assert len(blocks) >= 2
    scope: dict[str, object] = {}
    for block, quoted in blocks:
        exec(block, scope)
        printed = capsys.readouterr().out
        promised = quoted or "".join(f"{line}\n" for line in re.findall(r"^print.*# (.*)$", block, flags=re.MULTILINE))
        words, numbers = _apart(promised)
        assert _apart(printed)[0] == words
        assert _apart(printed)[1] == pytest.approx(numbers, abs=0.02)


def _apart(text: str) -> tuple[list[str], list[float]]:
    """What stands between decimal numbers, and the numbers, which another processor may round otherwise."""
    number = r"-?\d+\.\d+"
    return re.split(number, text), [float(each) for each in re.findall(number, text)]


def test_every_name_of_the_library_that_the_readme_uses_exists() -> None:
    names = set(re.findall(r"anyorder\.(\w+)", README))
    assert {"infill", "infill_batch", "log_prob", "rank", "load"} <= names
    assert all(hasattr(anyorder, name) for name in names)


def test_every_command_line_of_the_readme_is_one_the_parser_takes() -> None:
    (shell,) = re.findall(r"```\n(anyorder infill .*?)```", README, flags=re.DOTALL)
    for line in shell.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "anyorder"
        build_parser().parse_args(arguments)


def test_the_demo_shows_fills_rounds_and_what_they_cost(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capfd.readouterr().out
    assert "<mask:2>" in out
    for method in ("sequential", "one-pass"):
        tokens, passes, seconds = re.search(
            rf"^  {method} +(\d+) +([\d.]+) +([\d.]+)$", out, flags=re.MULTILINE
        ).groups()  # type: ignore[union-attr]
        assert float(passes) <= int(tokens) == 12
        assert float(seconds) > 0
    assert re.search(r"^    1  (sampled|kept|exact)", out, flags=re.MULTILINE)
