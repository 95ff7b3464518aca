"""A MARS run: tokenizer, network, data, then Lightning until steps or minutes are used up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import LightningDataModule

from anyorder.adapters import causal, mars
from anyorder.adapters.causal import CausalModel
from anyorder.codec import SentencePieceCodec, train_vocabulary
from training.clock import Clock
from training.data import FitData
from training.documents import Documents
from training.files import write_atomically
from training.flags import flat
from training.keyed import keyed_generator, keyed_random
from training.mars_config import FitMarsConfig
from training.mars_data import ChatData, MarsBatch, collate, from_packed, read_chat
from training.mars_module import MarsModule
from training.mars_report import VOCABULARY, MarsReport
from training.pieces import Lengths, packed
from training.resume import open_run
from training.sources import open_documents
from training.stream import Batch
from training.trainer import train


class HubCodec:
    """A tokenizer of transformers as the data code wants it."""

    forbidden_ids: tuple[int, ...] = ()

    def __init__(self, tokenizer: Any) -> None:
        if tokenizer.eos_token_id is None:
            raise ValueError("the tokenizer names no token that ends a text, and documents need one between them")
        self._tokenizer, self.vocab_size, self.separator_id = tokenizer, len(tokenizer), tokenizer.eos_token_id

    def encode(self, text: str) -> Sequence[int]:
        """Text to ids, nothing added."""
        return self._tokenizer(text, add_special_tokens=False, verbose=False).input_ids  # type: ignore[no-any-return]

    def save(self, directory: Path) -> None:
        """Write the tokenizer beside a model."""
        self._tokenizer.save_pretrained(directory)


def fit(config: FitMarsConfig) -> Path:
    """Train; returns the directory of the best model.

    Raises:
        ValueError: if the data, the start or the options do not work.
    """
    from transformers.utils import logging as transformers_logging

    # It shows a bar for every file it writes.
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(config.run.threads)
    clock = Clock(config.run)
    documents = None if config.mars.chat else open_documents(config.data, config.run.seed)
    checkpoint = open_run(config.run, flat(config))
    codec = open_codec(config, documents)
    network = prepare_network(config, codec)
    data, held_out = _data(config, documents, codec)
    to_batch = partial(_to_batch, separator_id=codec.separator_id, block=config.mars.block, seed=config.run.seed)
    report = MarsReport(network, codec, held_out, config)
    train(MarsModule(network, config, clock, to_batch), data, report, config.run, checkpoint)
    return config.run.out / "best"


def open_codec(config: FitMarsConfig, documents: Documents | None) -> Any:
    """The vocabulary: of the model the run starts from, a SentencePiece model that was given, or a fresh one."""
    start = Path(config.run.init_from or "")
    found = [
        path for path in (start / "best" / VOCABULARY, start / VOCABULARY) if config.run.init_from and path.is_file()
    ]
    if found:
        return SentencePieceCodec.from_file(found[0])
    if config.run.init_from:
        from transformers import AutoTokenizer

        return HubCodec(AutoTokenizer.from_pretrained(config.run.init_from))
    path = config.data.tokenizer or config.run.out / VOCABULARY
    if not path.is_file():
        if documents is None:
            raise ValueError("a fresh model on --chat needs a vocabulary: --tokenizer")
        texts = documents.first(config.data.vocabulary_documents, held_out=False)
        write_atomically(path, train_vocabulary(texts, vocab_size=config.data.vocab_size))
    return SentencePieceCodec.from_file(path)


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


def _data(
    config: FitMarsConfig, documents: Documents | None, codec: Any
) -> tuple[LightningDataModule, list[MarsBatch]]:
    """The data of the run, and held-out micro-batches that are always the same."""
    options, eos = config.mars, codec.separator_id
    if options.chat is not None:
        chats, rest = read_chat(options.chat, codec, eos)
        make = partial(collate, block=options.block, max_length=options.max_length, eos_id=eos)
        rows = max(config.data.tokens_per_step // options.max_length, 1)
        data = ChatData(chats, rows=rows, accumulate=config.data.accumulate, seed=config.run.seed, collate=make)
        return data, [make(rest[i : i + rows]) for i in range(0, min(len(rest), config.run.validate_windows), rows)]
    if documents is None:
        raise ValueError("say what to train on: --data or --chat")
    length = max(config.data.lengths)
    texts = documents.first(4 * config.run.validate_windows, held_out=True)
    pieces = packed(texts, Lengths({length: 1.0}), codec, eos, keyed_random("held out", "mars"))
    ids = [piece.ids for piece in pieces if len(piece.ids) == length][: config.run.validate_windows]
    if not ids:
        raise ValueError(f"the held-out documents do not fill one sequence of {length} tokens")
    batches = []
    for start in range(0, len(ids), 16):
        tokens = torch.tensor(ids[start : start + 16])
        keys = [(0, start + row) for row in range(len(tokens))]
        full = torch.full((len(tokens),), length)
        batch = Batch(tokens, torch.zeros_like(tokens, dtype=torch.bool), full, keys, 0, {})
        batches.append(from_packed(batch, eos, options.block, 0))
    return FitData(documents, codec, 1.0, config.fit), batches


def _to_batch(batch: Batch | MarsBatch, *, separator_id: int, block: int, seed: int) -> MarsBatch:
    return batch if isinstance(batch, MarsBatch) else from_packed(batch, separator_id, block, seed)
