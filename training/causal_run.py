"""What a run of a causal model opens: the vocabulary, the data, held-out micro-batches that are always the same."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningDataModule

from anyorder.codec import SentencePieceCodec, train_vocabulary
from training.causal_config import CausalConfig
from training.causal_data import CausalBatch, ChatData, collate, from_packed, read_chat
from training.data import FitData
from training.documents import Documents
from training.files import write_atomically
from training.flags import flat
from training.keyed import keyed_random
from training.pieces import Lengths, packed
from training.resume import is_first_process, open_run
from training.sources import open_documents
from training.start import DIRECTORIES, Start, find_start
from training.stream import Batch

VOCABULARY = "tokenizer.model"
"""The file of a SentencePiece vocabulary in a run and beside its models."""


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


def open_material(config: CausalConfig, block: int) -> Material:
    """Open or refuse; quiet transformers and set the threads before it.

    Args:
        config: the options.
        block: how far drafts reach; prompts end anywhere in a block.

    Raises:
        ValueError: if the data or the start do not work.
    """
    from transformers.utils import logging as transformers_logging

    # It shows a bar for every file it writes.
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    torch.set_num_threads(config.run.threads)
    start = None if config.run.init_from is None else find_start(config.run.init_from)
    if config.chat.chat is not None and not config.chat.chat.exists():  # before open_run, which may start over
        raise ValueError(f"--chat {config.chat.chat}: there is no such file")
    documents = None if config.chat.chat else open_documents(config.data, config.run.seed)
    checkpoint = open_run(config.run, flat(config))
    codec = open_codec(config, documents, start)
    data, held_out = _data(config, documents, codec, block)
    to_batch = partial(_to_batch, separator_id=codec.separator_id, block=block, seed=config.run.seed)
    return Material(codec, data, held_out, to_batch, checkpoint)


def open_codec(config: CausalConfig, documents: Documents | None, start: Start | None) -> Any:
    """The vocabulary: of the model the run starts from, a SentencePiece model that was given, or a fresh one."""
    if start is not None:
        own = [place / VOCABULARY for place in (Path(start.place), Path(config.run.init_from or ""))]
        found = [path for path in own if path.is_file()]
        return SentencePieceCodec.from_file(found[0]) if found else _pretrained_codec(start)
    path = config.data.tokenizer or config.run.out / VOCABULARY
    if not path.is_file():
        if documents is None:
            raise ValueError("a fresh model on --chat needs a vocabulary: --tokenizer")
        texts = documents.first(config.data.vocabulary_documents, held_out=False)
        write_atomically(path, train_vocabulary(texts, vocab_size=config.data.vocab_size))
    return SentencePieceCodec.from_file(path)


def _pretrained_codec(start: Start) -> HubCodec:
    from transformers import AutoTokenizer

    try:
        return HubCodec(AutoTokenizer.from_pretrained(start.place))
    except OSError as error:
        reason = str(error).strip().splitlines()[0]
        if start.kind != "hub":
            raise ValueError(f"{start.place} has no tokenizer: {reason}") from error
        raise ValueError(
            f"--init_from {start.place} is no directory ({DIRECTORIES}), nor could it be fetched from the Hub: {reason}"
        ) from error


def _data(
    config: CausalConfig, documents: Documents | None, codec: Any, block: int
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
