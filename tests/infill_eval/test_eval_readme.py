"""The examples of ``infill_eval/README.md`` work: those that need no network are run, the others compile."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE

import infill_eval
from infill_eval import arguments
from infill_eval.infiller import Budget, Request, ask

README = (Path(infill_eval.__file__).parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(<!-- needs network -->\n)?```python\n(.*?)```", README, flags=re.DOTALL)
COMMANDS = re.findall(r"^    python -m infill_eval ((?:.*\\\n)*.*)$", README, flags=re.MULTILINE)


@pytest.mark.parametrize("code", [code for _, code in BLOCKS])
def test_every_example_compiles_and_is_as_short_as_promised(code: str) -> None:
    compile(code, "README.md", "exec")
    body = code[code.index("def ") :].strip().splitlines()
    assert len(body) <= 10


def test_examples_without_network_are_models() -> None:
    run = [code for needs_network, code in BLOCKS if not needs_network]
    assert len(run) == 1
    namespace: dict[str, Any] = {}
    exec(run[0], namespace)
    request = Request(id="x", segments=("a\n  b\n", "c"), budget=Budget(policy="oracle", like=("d",)), n=2)
    samples = ask(namespace["copies_the_line_above"], [request])
    assert [sample.texts for sample in samples[0]] == [("  b\n",)] * 2


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_parses(command: str) -> None:
    options = arguments.parser().parse_args(shlex.split(command.replace("\\\n", " ")))
    assert options.out


def test_the_commands_were_found() -> None:
    assert {command.split()[0] for command in COMMANDS} == {"humaneval", "rocstories", "wikitext", "speed", "report"}


def test_the_number_of_hostile_programs_is_the_real_one() -> None:
    assert f"what becomes of {len(HOSTILE)} hostile programs" in README
