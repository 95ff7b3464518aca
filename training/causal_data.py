"""Micro-batches of a causal run: packed documents by the data code of ``fit.py``, or a file of prompts with responses.

Every token of a document is a response but its first few, a number drawn anew for each sequence, so that prompts end at
every place of a block and runs of every length occur. Of a chat only the response counts; unless it was cut, it is
filled with the end of text up to a multiple of the block, as the paper does.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from anyorder.codec.base import Codec
from training.documents import is_held_out
from training.keyed import keyed_generator, keyed_random
from training.stream import Batch


class CausalBatch(NamedTuple):
    """A micro-batch.

    Attributes:
        tokens: (B, L) int64, padding at the end.
        is_response: (B, L) bool, the tokens to predict.
        documents: (B, L) int64 if several share a row.
        place: where the data goes on behind it.
        keys: what each row is called in the run; whatever is drawn for it is drawn from that.
    """

    tokens: Tensor
    is_response: Tensor
    documents: Tensor | None
    place: tuple[int, Any]
    keys: list[tuple[int, int]]

    def to(self, device: torch.device) -> CausalBatch:
        """The same on a device."""
        documents = None if self.documents is None else self.documents.to(device)
        return self._replace(
            tokens=self.tokens.to(device), is_response=self.is_response.to(device), documents=documents
        )


def from_packed(batch: Batch, separator_id: int, block: int, seed: int) -> CausalBatch:
    """A micro-batch of packed documents, each ended by a separator, which is part of it."""
    tokens, length = batch.tokens, batch.length
    ended = (tokens == separator_id).long()
    documents = ended.cumsum(1) - ended
    heads = [keyed_random(seed, "prompt", *key).randint(1, block) for key in batch.keys]
    place = torch.arange(tokens.shape[1])
    is_response = (place >= torch.tensor(heads)[:, None]) & (place < length[:, None])
    return CausalBatch(tokens, is_response, documents, (batch.shard, batch.place), batch.keys)


class Example(NamedTuple):
    """One prompt with its response, as ids."""

    prompt: list[int]
    response: list[int]


class Chat(NamedTuple):
    """What a file of prompts with responses comes to.

    Attributes:
        train: the examples to train on.
        held_out: those held out, or the first few of the others.
        remarks: what was left out, a line each.
    """

    train: list[Example]
    held_out: list[Example]
    remarks: list[str]


def read_chat(path: Path, codec: Codec, *, eos_id: int, block: int, max_length: int, least: int = 1) -> Chat:
    """The examples of a .jsonl file: those to train on, and those held out by a hash of their text.

    Args:
        path: the file; a mark of the byte order at its start is none of its text.
        codec: text to ids.
        eos_id: ends a response, and fills it up.
        block: what examples are filled up to multiples of.
        max_length: where they are cut.
        least: tokens of response, as cut and filled up, without which an example teaches nothing and is left out.

    Raises:
        ValueError: for a line that is no such object, with its number; for a file that cannot be read, or has nothing
            to train on.
    """
    sides: tuple[list[Example], list[Example]] = ([], [])
    learned: list[int] = []
    for number, line in enumerate(_lines(path), 1):
        if not line.strip():
            continue
        prompt, response = _texts(line, f"{path}:{number}")
        example = Example(list(codec.encode(prompt)), [*codec.encode(response), eos_id])
        learned.append(len(_filled(example, block=block, max_length=max_length, eos_id=eos_id)) - len(example.prompt))
        if learned[-1] >= least:
            sides[is_held_out(prompt + response, 0.05)].append(example)
    reasons = {
        f"their prompts alone fill --max_length {max_length}": sum(count < 1 for count in learned),
        f"a block of {least} tokens needs as long a response, with the end of text that fills it up": sum(
            1 <= count < least for count in learned
        ),
    }
    remarks = [
        f"{path}: {left} of {len(learned)} examples are left out: {why}" for why, left in reasons.items() if left
    ]
    if not sides[0]:
        raise ValueError("; ".join(remarks) or f"{path} has no examples to train on")
    return Chat(sides[0], sides[1] or sides[0][:16], remarks)


def _lines(path: Path) -> list[str]:
    try:
        # Not splitlines: JSON may hold the separators of Unicode, which are no ends of lines.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ValueError(f"--chat {path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"--chat {path} is not in UTF-8: {error}") from error


def _texts(line: str, place: str) -> tuple[str, str]:
    """The prompt and the response of a line."""
    try:
        entry = json.loads(line)
        prompt, response = entry["prompt"], entry["response"]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(f'{place}: a line is {{"prompt": ..., "response": ...}}; got {line[:60]!r}') from error
    if not isinstance(prompt, str) or not isinstance(response, str) or not prompt:
        raise ValueError(f"{place}: prompt and response are text, and the prompt is not empty")
    return prompt, response


def _filled(example: Example, *, block: int, max_length: int, eos_id: int) -> list[int]:
    """The ids of an example, cut at ``max_length`` or else filled up to a multiple of the block."""
    ids = [*example.prompt, *example.response]
    return ids[:max_length] if len(ids) > max_length else [*ids, *[eos_id] * (-len(ids) % block)]


def collate(examples: list[Example], *, block: int, max_length: int, eos_id: int) -> CausalBatch:
    """Cut at ``max_length``, fill up blocks, pad; what is filled up is response, what pads is not."""
    rows = [_filled(example, block=block, max_length=max_length, eos_id=eos_id) for example in examples]
    width = max(map(len, rows))
    tokens = torch.full((len(rows), width), eos_id)
    is_response = torch.zeros(len(rows), width, dtype=torch.bool)
    for row, (ids, example) in enumerate(zip(rows, examples, strict=True)):
        tokens[row, : len(ids)] = torch.tensor(ids)
        is_response[row, len(example.prompt) : len(ids)] = True
    return CausalBatch(tokens, is_response, None, (0, {}), [(0, row) for row in range(len(rows))])


class ChatData(LightningDataModule):
    """Prompts with responses, shuffled anew every epoch; micro-batch m of a run is the same whatever came before.

    Attributes:
        consumed: micro-batches trained on, over all ranks.
    """

    def __init__(self, examples: list[Example], *, rows: int, accumulate: int, seed: int, collate: Any) -> None:
        super().__init__()
        self.examples, self.rows, self.accumulate, self.seed = examples, rows, accumulate, seed
        self.collate = collate
        self.consumed = 0

    def train_dataloader(self) -> ChatSteps:
        """The steps of this rank, from where the run is."""
        ranks, rank = self.trainer.world_size, self.trainer.global_rank  # type: ignore[union-attr]
        return ChatSteps(self, self.consumed + rank, ranks)

    def batch(self, number: int) -> CausalBatch:
        """Micro-batch ``number`` of the run."""
        per_epoch = max(len(self.examples) // self.rows, 1)
        epoch, index = divmod(number, per_epoch)
        order = torch.randperm(len(self.examples), generator=keyed_generator(self.seed, "chat", epoch))
        picked = [self.examples[i] for i in order[index * self.rows : (index + 1) * self.rows].tolist()]
        made: CausalBatch = self.collate(picked)
        return made._replace(place=(0, {"number": number}), keys=[(number, row) for row in range(len(picked))])

    def record(self, places: list[tuple[int, Any]]) -> None:
        """A step was done on these micro-batches."""
        self.consumed += len(places) * self.trainer.world_size  # type: ignore[union-attr]

    def state_dict(self) -> dict[str, Any]:
        """Where the run goes on."""
        return {"consumed": self.consumed}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from there."""
        self.consumed = state_dict["consumed"]


class ChatSteps:
    """Micro-batches, as many at a time as a step takes."""

    def __init__(self, data: ChatData, first: int, ranks: int) -> None:
        self._data, self._number, self._ranks = data, first, ranks

    def __iter__(self) -> Iterator[list[CausalBatch]]:
        number = self._number
        while True:
            numbers = [number + i * self._ranks for i in range(self._data.accumulate)]
            yield [self._data.batch(each) for each in numbers]
            number += self._data.accumulate * self._ranks
