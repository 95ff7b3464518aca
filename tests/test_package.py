"""The package: its names, what importing it costs, and what its metadata promise."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import anyorder

ROOT = Path(anyorder.__file__).parent.parent
HEAVY = ("lightning", "pytorch_lightning", "datasets", "transformers", "matplotlib", "pandas", "torchmetrics")


def run(code: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return done.stdout


def test_every_public_name_is_there_and_none_needs_a_heavy_package() -> None:
    loaded = run(
        "import sys, anyorder\n"
        "missing = [name for name in anyorder.__all__ if not hasattr(anyorder, name)]\n"
        f"print(missing, sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    assert loaded == "[] []\n"


def test_importing_the_package_imports_nothing_until_a_name_is_used() -> None:
    assert run("import sys, anyorder; print(anyorder.__version__ != '', 'torch' in sys.modules)") == "True False\n"


def test_public_names_are_the_contract() -> None:
    contract = {"load", "infill", "infill_batch", "log_prob", "log_prob_batch", "token_log_probs", "rank"}
    assert contract <= set(anyorder.__all__) <= set(dir(anyorder))
    assert all(callable(getattr(anyorder, name)) for name in contract)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'fill'"):
        anyorder.fill  # noqa: B018


def test_what_is_pinned_lies_within_the_ranges_that_are_declared() -> None:
    from packaging.requirements import Requirement

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert not any("+" in version for version in pins.values()), "a local version exists on one machine only"
    canonical = {name.lower().replace("_", "-"): version for name, version in pins.items()}
    declared = [
        *project["dependencies"],
        *(line for extra in project["optional-dependencies"].values() for line in extra),
    ]
    for requirement in map(Requirement, declared):
        if requirement.name != "anyorder":
            assert canonical[requirement.name.lower().replace("_", "-")] in requirement.specifier
