"""Which sequences share a batch: those of similar length, as many as a bounded memory holds.

What a sequence becomes does not depend on its batch, so this is only about cost: padding, the cache, and the logits of
a pass with the distributions made of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

MAX_POSITIONS = 8192
"""Positions of one batch, padding included: 16 sequences of 512 tokens, 0.6 GB of cache at the XLNet-base shape."""
MAX_LOGITS = 2**25
"""Numbers in the logits of one pass, padding included: 0.13 GB in float32, of which decoding makes several copies."""


def batches(lengths: Sequence[int], rows: Sequence[int], vocab_size: int) -> Iterator[list[int]]:
    """The numbers of the sequences of each batch, longest sequences first; one too large for any is alone.

    Args:
        lengths: the length of each sequence.
        rows: the most rows of logits that a pass asks for each sequence.
        vocab_size: V, the numbers in a row of logits.
    """
    batch: list[int] = []
    most = 0
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        count, most = len(batch) + 1, max(most, rows[number])
        # Longest first: the first sequence of a batch sets its width.
        if batch and (count * lengths[batch[0]] > MAX_POSITIONS or count * most * vocab_size > MAX_LOGITS):
            yield batch
            batch, most = [], rows[number]
        batch.append(number)
    if batch:
        yield batch
