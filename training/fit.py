"""Train an any-subset autoregressive model: ``python training/fit.py --data python-stdlib --minutes 60``.

    python training/fit.py --config mini-code                  # a recipe of training/configs, by name or by path
    python training/fit.py --config mini-code --minutes 30     # every option is a flag, a YAML key, a line of --help
    python training/fit.py --config paper --data openwebtext   # a dataset of the Hub, streamed
    python training/fit.py --data 'notes/*.txt' --init_from mini-code --max_steps 2000

The directory ``--out`` gets ``last.ckpt`` (run the same command again to go on after a kill), ``best`` and ``last``
(for ``anyorder.load`` and transformers), ``log.csv``, ``samples`` and ``config.yaml``.
"""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a file: its own directory is on the path, and the packages are beside it
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import torch
from lightning.pytorch import Trainer

from anyorder.forbidden import Forbidden
from training.allocator import keep_freed_memory
from training.callbacks import Checkpoint, Report
from training.clock import Clock
from training.config import FitConfig
from training.data import FitData
from training.flags import parse
from training.logs import make_logger
from training.module import FitModule
from training.prepare import measure_characters_per_token, prepare_model
from training.resume import open_run
from training.sources import open_documents


def fit(config: FitConfig) -> Path:
    """Train; returns the directory of the best model.

    Raises:
        ValueError: if the data, the start or the options do not work.
    """
    torch.set_num_threads(config.run.threads)
    clock = Clock(config.run)
    documents = open_documents(config.data, config.run.seed)
    checkpoint = open_run(config)
    model = prepare_model(config, documents)
    characters = config.data.characters_per_token or measure_characters_per_token(
        documents, model.codec, config.run.out / "data.json"
    )
    forbidden = Forbidden.of(model.network.vocab_size, ids=model.settings.forbidden_ids)
    held_out = documents.first(1000, held_out=True)
    trainer = Trainer(
        accelerator=config.run.accelerator,
        devices=config.run.devices,
        strategy=config.run.strategy,
        precision=config.run.precision,
        max_epochs=-1,
        logger=make_logger(config.run),
        callbacks=[Report(model, held_out, characters, config.run), Checkpoint(config.run)],
        default_root_dir=config.run.out,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        use_distributed_sampler=False,
    )
    trainer.fit(
        FitModule(model.network, forbidden, config, clock),
        datamodule=FitData(documents, model.codec, characters, config),
        ckpt_path=checkpoint,
    )
    return config.run.out / "best"


def main(arguments: list[str] | None = None) -> int:
    """The command; 2 for what the user can put right."""
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", module="lightning")
    config = parse(sys.argv[1:] if arguments is None else arguments)
    try:
        best = fit(config)
    except ValueError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stderr.write(f"{best} holds the best model: anyorder.load({str(best)!r})\n")
    return 0


if __name__ == "__main__":
    keep_freed_memory()
    sys.exit(main())
