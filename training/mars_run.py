"""A MARS run: network and material, then Lightning until steps or minutes are used up."""

from __future__ import annotations

from functools import partial
from math import isclose
from pathlib import Path
from typing import Any

import torch

from anyorder.adapters import causal, mars
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.mars.checkpoint import base_of
from anyorder.adapters.mars.lora import DEFAULT_ALPHA, GatedLora, freeze_base, loras
from training.causal_report import CausalReport, Judge
from training.causal_run import open_material, prepare_process
from training.clock import Clock
from training.keyed import keyed_generator
from training.mars_config import NO_LORA, FitMarsConfig, check_trains_lora
from training.mars_module import MarsModule, held_out_figures
from training.start import Start, check_vocabulary, find_start, open_codec
from training.trainer import train


def fit(config: FitMarsConfig) -> Path:
    """Train; returns the directory of the best model.

    Raises:
        ValueError: if the data, the start or the options do not work.
    """
    clock, options = Clock(config.run), config.mars
    prepare_process(config)
    start = None if config.run.init_from is None else find_start(config.run.init_from)
    codec = None if start is None else open_codec(start)
    trained = None if start is None else prepare_network(config, codec, start)
    material = open_material(config, options.block, codec)
    network, base = trained or prepare_network(config, material.codec, None)
    judge = Judge(
        ("noisy", "clean"),
        partial(held_out_figures, network, material.held_out, options.block),
        # Where nothing drafts only the clean copy counts.
        lambda figures: figures["density"] + (figures["noisy"] if options.objective == "mars" else 0.0),
        partial(_save, network, material.codec, base),
    )
    module = MarsModule(network, config, clock, material.to_batch)
    train(module, material.data, CausalReport(network, judge, config.run), config.run, material.checkpoint)
    return config.run.out / "best"


def _save(network: CausalModel, codec: Any, base: str | None, directory: Path) -> None:
    mars.save(network, directory, base=base)
    codec.save(directory)


def prepare_network(config: FitMarsConfig, codec: Any, start: Start | None) -> tuple[CausalModel, str | None]:
    """What is to be trained, and the place of its base where a LoRA is saved without it.

    It is the model that the run starts from or a fresh Qwen2; from a LoRA the run goes on with that LoRA.

    Raises:
        ValueError: if the start is no such model, or its vocabulary or the options do not fit it.
    """
    options = config.mars
    network, base = (_fresh(config, codec), None) if start is None else _opened(start)
    check_vocabulary(codec, network)
    network.block, network.sees_both_ways = options.block, options.sees_both_ways
    if options.objective == "causal":
        network.block = None
    if options.mask_id is not None:
        network.use_mask_id(options.mask_id)
        _check_mask_id(options.mask_id, network, codec)
    if network.routes_masks:
        _check_goes_on(config, loras(network)[0])
        freeze_base(network)
    elif options.lora_rank:
        alpha = DEFAULT_ALPHA if options.lora_alpha is None else options.lora_alpha
        generator = keyed_generator(config.run.seed, "lora")
        mars.attach_lora(network, rank=options.lora_rank, alpha=alpha, generator=generator)
    elif options.lora_alpha is not None:
        raise ValueError(NO_LORA)
    else:
        network.requires_grad_(True)
        base = None
    return network.train(), base


def _opened(start: Start) -> tuple[CausalModel, str | None]:
    """The model, and what a LoRA of it is to name as its base."""
    if start.kind in ("hub", "model"):
        return causal.load(start.place), start.place
    network = mars.load(start.place)
    return network, base_of(start.place) if loras(network) else start.place


def _check_mask_id(mask_id: int, network: CausalModel, codec: Any) -> None:
    """Refuse an id that responses have, as far as that is known: a mask is never written, so their loss is infinite."""
    if mask_id == codec.separator_id or mask_id in network.config.eos_ids:
        raise ValueError(f"--mask_id must be an id that no text has; got {mask_id}, which ends every text")
    if codec.forbidden_ids and mask_id < codec.vocab_size and mask_id not in codec.forbidden_ids:
        spare = ", ".join(str(each) for each in codec.forbidden_ids if each != codec.separator_id)
        raise ValueError(f"--mask_id must be an id that no text has, of this vocabulary {spare}; got {mask_id}")


def _check_goes_on(config: FitMarsConfig, lora: GatedLora) -> None:
    """Refuse what a LoRA that is there already cannot be trained with."""
    options, start = config.mars, config.run.init_from
    check_trains_lora(config)
    if options.lora_rank not in (0, lora.rank):
        raise ValueError(
            f"{start} is a LoRA of rank {lora.rank}, which this run goes on with: leave --lora_rank out, or start from "
            f"a base; got --lora_rank {options.lora_rank}"
        )
    if options.lora_alpha is not None and not isclose(options.lora_alpha, lora.alpha):
        raise ValueError(
            f"{start} is a LoRA of alpha {lora.alpha:g}, which this run goes on with: leave --lora_alpha out; "
            f"got --lora_alpha {options.lora_alpha:g}"
        )


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
