"""Which sequences share a batch: those of similar length, as many as memory comfortably holds.

What a sequence becomes does not depend on its batch, so this is only about cost: padding and the memory of the cache.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_POSITIONS = 8192
"""Positions of one batch, padding included: 16 sequences of 512 tokens, 0.6 GB of cache at the XLNet-base shape."""


def batches(lengths: Sequence[int], max_positions: int = MAX_POSITIONS) -> Iterator[list[int]]:
    """The numbers of the sequences of each batch, longest sequences first.

    Args:
        lengths: the length of each sequence.
        max_positions: the largest number of sequences times longest length; a sequence beyond it is a batch of its own.
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        # Longest first: the first sequence of a batch sets its width.
        if batch and (len(batch) + 1) * max(lengths[batch[0]], 1) > max_positions:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch
