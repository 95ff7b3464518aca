"""What a run of a causal model opens: the vocabulary, the data, held-out micro-batches that are always the same."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningDataModule

from training.causal_config import CausalRunConfig
from training.causal_data import CausalBatch, ChatData, collate, from_packed, read_chat
from training.data import FitData
from training.documents import Documents
from training.flags import flat
from training.keyed import keyed_random
from training.pieces import Lengths, packed
from training.prepare import check_tokenizer, fresh_codec
from training.resume import is_first_process, open_run
from training.sources import open_documents
from training.stream import Batch


class Material(NamedTuple):
    """What a run trains on.

    Attributes:
        codec: its vocabulary.
        data: its micro-batches.
        held_out: micro-batches that are never trained on.
        to_batch: makes a micro-batch of what ``data`` yields.
        checkpoint: to go on from, if there is one.
    """

    codec: Any
    data: LightningDataModule
    held_out: list[CausalBatch]
    to_batch: Callable[[Any], CausalBatch]
    checkpoint: Path | None


def prepare_process(config: CausalRunConfig) -> None:
    """Set the threads, quiet transformers, and refuse a file that is not there before the run is opened."""
    from transformers.utils import logging as transformers_logging

    # It shows a bar for every file it writes.
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(config.run.threads)
    if config.chat.chat is not None and not config.chat.chat.exists():
        raise ValueError(f"--chat {config.chat.chat}: there is no such file")


def open_material(config: CausalRunConfig, block: int, codec: Any | None) -> Material:
    """Open the run and its data; a start and a vocabulary that do not work are refused before: it may start over.

    Args:
        config: the options.
        block: how far drafts reach; prompts end anywhere in a block.
        codec: the vocabulary of the model that the run starts from; without one a fresh one is trained.

    Raises:
        ValueError: if the data do not work.
    """
    documents = None if config.chat.chat else open_documents(config.data, config.run.seed)
    if codec is None and documents is None and config.data.tokenizer is None:
        raise ValueError("a fresh model on --chat needs a vocabulary: --tokenizer")
    if codec is None:
        check_tokenizer(config.data)
    checkpoint = open_run(config.run, flat(config))
    if codec is None:
        codec = fresh_codec(config.data, config.run.out, documents)
    data, held_out = _data(config, documents, codec, block)
    to_batch = partial(_to_batch, separator_id=codec.separator_id, block=block, seed=config.run.seed)
    return Material(codec, data, held_out, to_batch, checkpoint)


def _data(
    config: CausalRunConfig, documents: Documents | None, codec: Any, block: int
) -> tuple[LightningDataModule, list[CausalBatch]]:
    """The data of the run, and held-out micro-batches."""
    options, eos = config.chat, codec.separator_id
    if options.chat is not None:
        chat = read_chat(
            options.chat, codec, eos_id=eos, block=block, max_length=options.max_length, least=config.least_response
        )
        if is_first_process():
            sys.stderr.writelines(f"{remark}\n" for remark in chat.remarks)
        make = partial(collate, block=block, max_length=options.max_length, eos_id=eos)
        rows = max(config.data.tokens_per_step // options.max_length, 1)
        data = ChatData(chat.train, rows=rows, accumulate=config.data.accumulate, seed=config.run.seed, collate=make)
        rest = chat.held_out[: config.run.validate_windows]
        return data, [make(rest[i : i + rows]) for i in range(0, len(rest), rows)]
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
        batches.append(from_packed(batch, eos, block, 0))
    return FitData(documents, codec, 1.0, config.fit), batches


def _to_batch(batch: Batch | CausalBatch, *, separator_id: int, block: int, seed: int) -> CausalBatch:
    return batch if isinstance(batch, CausalBatch) else from_packed(batch, separator_id, block, seed)
