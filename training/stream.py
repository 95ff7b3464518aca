"""The endless stream of micro-batches: shards of documents, their pieces shuffled in blocks, one length a micro-batch.

Micro-batch ``m`` of a run comes from shard ``m % num_shards`` and belongs to rank ``m % num_ranks``, so what a step
trains on depends on the number of shards alone. A micro-batch carries its place: where its shard goes on behind it.
A checkpoint keeps the place of each shard's last micro-batch that was *trained on*, whatever loaders have read ahead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from anyorder.codec.base import Codec
from training.blanks import Example, Kind, blank_ids, blank_text
from training.config import DataConfig, ObjectiveConfig
from training.documents import Block, Documents
from training.keyed import keyed_random
from training.pieces import Lengths, Piece, packed, windows
from training.schedule import STRATA, masking_range, quantiles

Place = dict[str, Any]
"""Where a shard goes on: ``epoch``, ``cursor`` of its block, ``used`` micro-batches of it, ``samples`` of the epoch."""


class Batch(NamedTuple):
    """A micro-batch of token ids.

    Attributes:
        tokens: (B, L) int64 in position space.
        is_target: (B, L) bool.
        length: (B,) int64, the tokens of each sequence.
        keys: epoch and global sample index of each sequence.
        shard: where it comes from.
        place: where that shard goes on.
    """

    tokens: Tensor
    is_target: Tensor
    length: Tensor
    keys: list[tuple[int, int]]
    shard: int
    place: Place


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How documents become micro-batches.

    Attributes:
        documents: where they come from.
        codec: text to ids.
        data: lengths, packing, blocks.
        objective: blanks and masking rates.
        num_shards: parts the documents are dealt into.
        step_batches: micro-batches of a step, over all ranks.
        characters_per_token: how wide windows are.
        seed: the run's.
    """

    documents: Documents
    codec: Codec
    data: DataConfig
    objective: ObjectiveConfig
    num_shards: int
    step_batches: int
    characters_per_token: float
    seed: int

    def shard(self, shard: int, number: int, place: Place | None) -> Iterator[Batch]:
        """The micro-batches of a shard from its place on; the first has that number in the run."""
        place = place or {"epoch": 0, "cursor": None, "used": 0, "samples": 0}
        epoch, cursor, used, samples = place["epoch"], place["cursor"], place["used"], place["samples"]
        while True:
            is_empty = True
            for block in self.documents.blocks(epoch, shard, self.num_shards, self.data.shuffle_buffer, cursor):
                for pieces in self.groups(block, epoch, shard)[used:]:
                    is_empty, used = False, used + 1
                    keys = [(epoch, (samples + i) * self.num_shards + shard) for i in range(len(pieces))]
                    samples += len(pieces)
                    place = {"epoch": epoch, "cursor": block.cursor, "used": used, "samples": samples}
                    yield self.batch(pieces, keys, number)._replace(shard=shard, place=place)
                    number += self.num_shards
                is_empty, used = is_empty and not block.texts, 0
            if is_empty and cursor is None:
                raise ValueError(
                    f"shard {shard} of {self.num_shards} has no documents: use more data, or fewer ranks and workers"
                )
            epoch, cursor, samples = epoch + 1, None, 0

    def groups(self, block: Block, epoch: int, shard: int) -> list[list[Piece]]:
        """A block's pieces, shuffled, in groups of one length and as many as fit a micro-batch.

        What is left of a length at the end is filled up with pieces of the block that were used already.
        """
        draw = keyed_random(self.seed, "block", epoch, shard, str(block.cursor))
        texts = list(block.texts)
        draw.shuffle(texts)
        lengths = Lengths(self.data.lengths)
        if self.data.pieces == "packed":
            separator: int = self.codec.separator_id  # type: ignore[attr-defined]
            pieces = list(packed(texts, lengths, self.codec, separator, draw))
        else:
            pieces = [p for text in texts for p in windows(text, lengths, self.characters_per_token, draw)]
        draw.shuffle(pieces)
        groups: list[list[Piece]] = []
        for length in lengths.lengths:
            same = [piece for piece in pieces if piece.length == length]
            size = max(self.data.tokens_per_step // length, 1)
            if same:
                same += [same[i % len(same)] for i in range(-len(same) % size)]
            groups += [same[i : i + size] for i in range(0, len(same), size)]
        draw.shuffle(groups)
        return groups

    def batch(self, pieces: list[Piece], keys: list[tuple[int, int]], number: int) -> Batch:
        """Draw blanks and collate; ``number`` is the micro-batch's in the run."""
        kind = self.kind(number)
        low, high = masking_range(number // self.step_batches, kind == "spans", self.objective)
        group = self.step_batches if self.step_batches > 1 else STRATA
        rows = len(pieces) if self.objective.rates == "row" else 1
        places = quantiles(number, group, rows, self.seed)
        examples = []
        for row, (piece, key) in enumerate(zip(pieces, keys, strict=True)):
            rate = low + (high - low) * places[row % rows]
            draw = keyed_random(self.seed, "blanks", *key)
            examples.append(
                blank_ids(kind, piece.ids, rate, draw)
                if piece.ids
                else blank_text(kind, self.codec, piece.text, rate, draw)
            )
        return collate(examples, pieces[0].length, self.codec.forbidden_ids)._replace(keys=keys)

    def kind(self, number: int) -> Kind:
        """The shape of a micro-batch's blanks."""
        spans, suffix = self.objective.span_share, self.objective.suffix_share
        kinds: tuple[Kind, ...] = ("scattered", "spans", "suffix")
        return keyed_random(self.seed, "kind", number).choices(kinds, (1 - spans - suffix, spans, suffix))[0]


def collate(examples: list[Example], length: int, forbidden_ids: Iterable[int]) -> Batch:
    """Cut to ``length`` tokens and pad; forbidden ids are never targets, and a sequence without targets gets its last.

    (The last token that may be one; a sequence of forbidden ids alone stays without.)
    """
    tokens = torch.zeros(len(examples), length, dtype=torch.long)
    is_target = torch.zeros(len(examples), length, dtype=torch.bool)
    lengths = torch.tensor([min(len(example.ids), length) for example in examples])
    for row, example in enumerate(examples):
        size = int(lengths[row])
        tokens[row, :size] = torch.tensor(example.ids[:size], dtype=torch.long)
        is_target[row, :size] = torch.tensor(example.is_target[:size], dtype=torch.bool)
    possible = ~torch.isin(tokens, torch.tensor(list(forbidden_ids)))
    possible &= torch.arange(length) < lengths[:, None]
    is_target &= possible
    last = possible.long().cumsum(1).argmax(1, keepdim=True)
    needed = possible.any(1, keepdim=True) & ~is_target.any(1, keepdim=True)
    is_target.scatter_(1, last, is_target.gather(1, last) | needed)
    return Batch(tokens, is_target, lengths, [], 0, {})


class RankStream(IterableDataset[Batch]):
    """The micro-batches of one rank, dealt to its loader workers so that the loader returns them in order.

    Args:
        recipe: how they are made.
        rank: this rank.
        num_ranks: how many there are.
        consumed: micro-batches the run has trained on, over all ranks.
        places: where each shard goes on.
    """

    def __init__(self, recipe: Recipe, *, rank: int, num_ranks: int, consumed: int, places: dict[int, Place]) -> None:
        self.recipe, self.rank, self.num_ranks = recipe, rank, num_ranks
        self.consumed, self.places = consumed, places

    def __iter__(self) -> Iterator[Batch]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        number = self.consumed + first * self.num_ranks + self.rank
        shards: dict[int, Iterator[Batch]] = {}
        while True:
            shard = number % self.recipe.num_shards
            if shard not in shards:
                shards[shard] = self.recipe.shard(shard, number, self.places.get(shard))
            yield next(shards[shard])
            number += step * self.num_ranks
