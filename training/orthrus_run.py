"""An Orthrus run: the base with a fresh view, and material, then Lightning until steps or minutes are used up."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from anyorder.adapters import causal, orthrus
from training.causal_report import CausalReport, Judge
from training.causal_run import open_material, prepare_process
from training.clock import Clock
from training.orthrus_config import FitOrthrusConfig
from training.orthrus_module import OrthrusModule, held_out_figures
from training.start import check_vocabulary, find_start, open_codec
from training.trainer import train


def fit(config: FitOrthrusConfig) -> Path:
    """Train; returns the directory of the best view.

    Raises:
        ValueError: if the data, the base or the options do not work.
    """
    clock, options = Clock(config.run), config.orthrus
    prepare_process(config)
    start = find_start(config.run.init_from or "")
    if start.kind == "lora":
        raise ValueError(f"{start.place} holds a LoRA: a view is of a whole model")
    base, codec = start.place, open_codec(start)
    network = orthrus.attach(causal.load(base), block=options.block, anchor=options.anchor).train()
    check_vocabulary(codec, network)
    material = open_material(config, options.block, codec)
    judge = Judge(
        ("loss", "agreement"),
        partial(held_out_figures, network, material.held_out, options),
        lambda figures: figures["kl"],
        partial(orthrus.save_view, network, base=base),
    )
    module = OrthrusModule(network, config, clock, material.to_batch)
    train(module, material.data, CausalReport(network, judge, config.run), config.run, material.checkpoint)
    return config.run.out / "best"
