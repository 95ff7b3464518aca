"""A MARS run: network and material, then Lightning until steps or minutes are used up."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import torch

from anyorder.adapters import causal, mars
from anyorder.adapters.causal import CausalModel
from training.causal_report import CausalReport, Judge
from training.causal_run import open_material
from training.clock import Clock
from training.keyed import keyed_generator
from training.mars_config import FitMarsConfig
from training.mars_module import MarsModule, held_out_figures
from training.trainer import train


def fit(config: FitMarsConfig) -> Path:
    """Train; returns the directory of the best model.

    Raises:
        ValueError: if the data, the start or the options do not work.
    """
    clock, options = Clock(config.run), config.mars
    material = open_material(config, options.block)
    network = prepare_network(config, material.codec)
    judge = Judge(
        ("noisy", "clean"),
        partial(held_out_figures, network, material.held_out, options.block),
        # Where nothing drafts only the clean copy counts.
        lambda figures: figures["density"] + (figures["noisy"] if options.objective == "mars" else 0.0),
        partial(_save, network, material.codec, config.run.init_from if options.lora_rank else None),
    )
    module = MarsModule(network, config, clock, material.to_batch)
    train(module, material.data, CausalReport(network, judge, config.run), config.run, material.checkpoint)
    return config.run.out / "best"


def _save(network: CausalModel, codec: Any, base: str | None, directory: Path) -> None:
    mars.save(network, directory, base=base)
    codec.save(directory)


def prepare_network(config: FitMarsConfig, codec: Any) -> CausalModel:
    """A fresh Qwen2, or the model that ``init_from`` names, ready to train."""
    options, start = config.mars, config.run.init_from
    if start is None:
        network = _fresh(config, codec)
    elif any((found := path).joinpath("mars.json").is_file() for path in (Path(start) / "best", Path(start))):
        network = mars.load(found)
    else:
        network = causal.load(start)
    network.requires_grad_(True).train()
    network.block, network.sees_both_ways = options.block, options.sees_both_ways
    if options.objective == "causal":
        network.block = None
    if options.mask_id is not None:
        network.use_mask_id(options.mask_id)
    if options.lora_rank:
        mars.attach_lora(network, rank=options.lora_rank, alpha=options.lora_alpha)
    return network


def _fresh(config: FitMarsConfig, codec: Any) -> CausalModel:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    options = config.mars
    shape = Qwen2Config(
        vocab_size=codec.vocab_size,
        hidden_size=options.width,
        intermediate_size=options.inner or 3 * options.width,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        num_key_value_heads=options.heads,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=options.initializer_range,
        bos_token_id=codec.separator_id,
        eos_token_id=codec.separator_id,
    )
    network = causal.wrap(Qwen2ForCausalLM(shape))
    generator = keyed_generator(config.run.seed, "weights")
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() == 2 or parameter is network.mask_embedding:
                parameter.normal_(0.0, options.initializer_range, generator=generator)
    return network
