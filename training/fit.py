"""Train an any-subset autoregressive model: ``python training/fit.py --data python-stdlib --minutes 60``.

``--help`` has examples and every option. The directory ``--out`` gets ``last.ckpt`` (run the same command again to go
on after a kill), ``best`` and ``last`` (for ``anyorder.load`` and transformers), ``log.csv``, ``samples`` and
``config.yaml``.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a file: its own directory is on the path, and the packages are beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from training.allocator import keep_freed_memory
from training.command import run
from training.config import FitConfig
from training.flags import parse
from training.sources import open_documents


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 for what the user can put right."""
    return run(arguments, parse, _fit, "model: anyorder.load({})")


def _fit(config: FitConfig) -> Path:
    documents = open_documents(config.data, config.run.seed)
    from training.run import fit  # what a mistyped name of the data need not wait for either

    return fit(config, documents)


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
