"""Distil a causal model into a view of it that drafts (Orthrus): ``python training/fit_orthrus.py --init_from DIR``.

    python training/fit_orthrus.py --init_from models/mini-causal-code --block 8 --minutes 45 --out runs/orthrus-8
    python training/fit_orthrus.py --init_from models/mini-causal-code --anchor trainable --minutes 45   # as published
    python training/fit_orthrus.py --init_from HuggingFaceTB/SmolLM2-135M --chat chat.jsonl --minutes 60

The model it starts from is the teacher and stays as it is, bit for bit; only a copy of its attention projections and a
mask vector learn. Options of the run, the data and the optimiser are those of ``fit.py``; the same command goes on
after a kill. ``best`` and ``last`` hold the view alone, for ``orthrus.load`` or ``orthrus.load_view``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a file: its own directory is on the path, and the packages are beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from training.allocator import keep_freed_memory
from training.command import run
from training.orthrus_config import FitOrthrusConfig, parse


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 for what the user can put right."""
    return run(arguments, parse, _fit, "view: anyorder.adapters.orthrus.load({})")


def _fit(config: FitOrthrusConfig) -> Path:
    from training.orthrus_run import fit

    return fit(config)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
