"""The examples of ``infill_eval/README.md`` are models; that all its code and commands hold is ``test_docs.py``'s."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hostile import HOSTILE

import infill_eval
from infill_eval.infiller import Budget, Request, ask

README = (Path(infill_eval.__file__).parent / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"(<!-- needs network -->\n)?```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", [code for _, code in BLOCKS])
def test_every_example_is_as_short_as_promised(code: str) -> None:
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


def test_it_has_a_command_for_every_task() -> None:
    commands = set(re.findall(r"python -m infill_eval (\w+)", README))
    assert commands == {"humaneval", "rocstories", "wikitext", "completion", "gsm8k", "speed", "compare", "report"}


def test_the_number_of_hostile_programs_is_the_real_one() -> None:
    assert f"what becomes of {len(HOSTILE)} hostile programs" in README
