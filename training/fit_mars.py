"""Train a causal model to draft its next tokens (MARS): ``python training/fit_mars.py --init_from DIR --block 4``.

    python training/fit_mars.py --objective causal --minutes 62 --out runs/mini-causal-code
    python training/fit_mars.py --init_from models/mini-causal-code --block 4 --minutes 45 --out runs/mars-4
    python training/fit_mars.py --init_from HuggingFaceTB/SmolLM2-135M --lora_rank 16 --chat chat.jsonl --minutes 60

The first makes a small Qwen2 by plain autoregressive training, the second teaches it to draft, the third teaches only
the mask rows of a model from the Hub, whose own output stays what it was. Options of the run, the data and the
optimiser are those of ``fit.py``; the same command goes on after a kill. ``best`` and ``last`` are for ``mars.load``
and, but for a LoRA, for transformers.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a file: its own directory is on the path, and the packages are beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from training.allocator import keep_freed_memory
from training.command import run
from training.mars_config import FitMarsConfig, parse


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 for what the user can put right."""
    return run(arguments, parse, _fit, "model: anyorder.adapters.mars.load({})")


def _fit(config: FitMarsConfig) -> Path:
    from training.mars_run import fit

    return fit(config)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
