"""Documents: split into training and held-out ones by a hash before anything else, dealt into shards, read in blocks.

A block is the documents that are shuffled with each other, and what a run remembers of its place in the data is where
the present block starts and how much of it was used: small enough for a checkpoint, exact after a kill. Documents that
fit into memory are shuffled anew every epoch; streams (``training.hub``) are read in the order they are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from training.keyed import keyed_random

Cursor = Any
"""Where a block starts: plain numbers, strings and containers of them, whatever its source needs to find it again."""


class Block(NamedTuple):
    """Documents that are shuffled with each other, and where they start."""

    cursor: Cursor
    texts: list[str]


class Documents(Protocol):
    """A source of training and held-out documents."""

    def blocks(self, epoch: int, shard: int, num_shards: int, size: int, cursor: Cursor = None, /) -> Iterator[Block]:
        """The training documents of a shard in one epoch, ``size`` at a time, from the start or from a block's cursor.

        The shards of an epoch are disjoint, and together they are everything.
        """
        ...

    def first(self, count: int, *, held_out: bool) -> list[str]:
        """At most ``count`` documents of one side of the split, always the same."""
        ...


def is_held_out(text: str, share: float) -> bool:
    """Whether a document belongs to the held-out side: by a hash of it, so copies of one lie on the same side."""
    return _hash(text) < share


def _hash(text: str) -> float:
    """Of a text, in [0, 1)."""
    digest = hashlib.blake2b(text.encode("utf-8", errors="replace"), digest_size=4).digest()
    return int.from_bytes(digest, "big") / 2**32


@dataclass(frozen=True, kw_only=True)
class LocalDocuments:
    """Documents in memory.

    Attributes:
        train: those of the training side.
        held_out: the others.
        seed: of the order of each epoch.
    """

    train: list[str]
    held_out: list[str]
    seed: int

    @classmethod
    def split(cls, texts: list[str], share: float, seed: int) -> LocalDocuments:
        """Split by a hash of each document; of a few documents the one with the lowest hash is held out."""
        held_out = {text for text in texts if is_held_out(text, share)}
        if not held_out and share and len(set(texts)) > 1:
            held_out = {min(texts, key=_hash)}
        sides: tuple[list[str], list[str]] = ([], [])
        for text in texts:
            sides[text in held_out].append(text)
        return cls(train=sides[0], held_out=sides[1], seed=seed)

    def __add__(self, other: LocalDocuments) -> LocalDocuments:
        """A mixture, document by document."""
        return LocalDocuments(train=self.train + other.train, held_out=self.held_out + other.held_out, seed=self.seed)

    def blocks(self, epoch: int, shard: int, num_shards: int, size: int, cursor: Cursor = None, /) -> Iterator[Block]:
        """See ``Documents.blocks``; every epoch is in another order."""
        order = list(range(len(self.train)))
        keyed_random(self.seed, "documents", epoch).shuffle(order)
        mine = order[shard::num_shards]
        for start in range(cursor or 0, len(mine), size):
            yield Block(start, [self.train[i] for i in mine[start : start + size]])

    def first(self, count: int, *, held_out: bool) -> list[str]:
        """See ``Documents.first``: an even choice, since files that stand together are alike."""
        texts = self.held_out if held_out else self.train
        step = max(len(texts) // count, 1)
        return texts[::step][:count]
