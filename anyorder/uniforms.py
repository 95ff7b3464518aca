"""Where randomness enters: every random choice of decoding is a comparison with a uniform number of its sequence's own.

A sequence owns one generator and a draw consumes exactly as many of its numbers as were asked for it, so what a
sequence becomes depends on its seed and never on the sequences it shares a batch with. Tests replace this one class to
walk every branch of an algorithm and add up its output distribution exactly. The generators live on the host: the
counts are known there before a pass, so that drawing never waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

MAX_SEED = 2**63 - 1
"""The largest seed a caller may give: what an int64 holds."""
_AHEAD = 64


class Uniforms:
    """The random numbers of a batch of sequences, one stream a sequence.

    Args:
        seeds: one seed a sequence, each what ``torch.Generator.manual_seed`` takes.
    """

    def __init__(self, seeds: Sequence[int]) -> None:
        self._generators = [torch.Generator().manual_seed(seed) for seed in seeds]
        # Numbers drawn ahead, since one call a sequence and choice would cost more than the choice.
        self._ahead = np.empty((len(seeds), 0))
        self._used = np.zeros(len(seeds), np.int64)

    def __len__(self) -> int:
        return len(self._generators)

    def select(self, rows: Tensor) -> Uniforms:
        """The streams of some sequences, ``rows`` being (A,) int64 row numbers; they go on where they stood.

        The selection takes the streams over: whoever went on drawing from both would see the same numbers twice.
        """
        chosen = Uniforms([])
        chosen._generators = [self._generators[row] for row in rows.tolist()]
        chosen._ahead, chosen._used = self._ahead[rows.numpy()], self._used[rows.numpy()]
        return chosen

    def draw(self, counts: Tensor) -> Tensor:
        """The next ``counts[b]`` numbers of every sequence.

        Args:
            counts: (B,) int64 on the host.

        Returns:
            (B, max(counts)) float64 in [0, 1), on the host; a row's numbers come first, zeros fill it up.
        """
        wanted = counts.numpy()
        place = np.arange(wanted.max(initial=0))
        if (self._used + wanted > self._ahead.shape[1]).any():
            self._refill(len(place))
        column = np.minimum(self._used[:, None] + place, self._ahead.shape[1] - 1)
        numbers = self._ahead[np.arange(len(wanted))[:, None], column]
        self._used = self._used + wanted
        return torch.from_numpy(np.where(place < wanted[:, None], numbers, 0.0))

    def _refill(self, least: int) -> None:
        """Move what was not used to the front of each row and draw the rest anew."""
        ahead = np.empty((len(self), max(_AHEAD, 2 * least, self._ahead.shape[1])))
        for row, (generator, used) in enumerate(zip(self._generators, self._used, strict=True)):
            left = self._ahead[row, used:]
            ahead[row, : len(left)] = left
            torch.from_numpy(ahead[row, len(left) :]).uniform_(generator=generator)
        self._ahead, self._used = ahead, np.zeros_like(self._used)

    def categorical(self, probs: Tensor, where: Tensor) -> Tensor:
        """Draw tokens by inverting the cumulative distribution in float64; a token of probability 0 never comes out.

        Args:
            probs: (B, N, V), non-negative; a row need not sum to one, it is drawn in proportion.
            where: (B, N) bool on the host, which draws take place. The others consume nothing and return 0.

        Returns:
            (B, N) int64 on the device of ``probs``. A row without any mass (or with NaN) returns some valid id.
        """
        # An impossible token must not be reached even where a parallel sum is off by its last digit.
        cumulative = probs.double().cumsum(-1).where(probs > 0, -1.0)
        # 1 - u lies in (0, 1], so the threshold never exceeds the total and some possible token reaches it.
        threshold = cumulative.amax(-1, keepdim=True) * (1 - self._spread(where, probs.device))[..., None]
        tokens = (cumulative >= threshold).to(torch.uint8).argmax(-1)
        return torch.where(where.to(probs.device, non_blocking=True), tokens, 0)

    def bernoulli(self, probability: Tensor, where: Tensor) -> Tensor:
        """True with the given probability, strictly: ``u < probability``, so never at 0 and always at 1 or more.

        Args:
            probability: (B, N); values above 1 are legal, NaN gives False.
            where: (B, N) bool on the host, which draws take place. The others consume nothing and return False.

        Returns:
            (B, N) bool on the device of ``probability``.
        """
        below = self._spread(where, probability.device) < probability.double()
        return below & where.to(probability.device, non_blocking=True)

    def _spread(self, where: Tensor, device: torch.device) -> Tensor:
        """(B, N) float64: consecutive numbers of each row where a draw takes place, anything elsewhere."""
        count = where.cpu().numpy().cumsum(1)
        numbers = self.draw(torch.from_numpy(count.max(1, initial=0)))
        if not numbers.numel():
            return torch.zeros(where.shape, dtype=torch.float64, device=device)
        spread = numbers.gather(1, torch.from_numpy(np.maximum(count - 1, 0)))
        return spread.to(device, non_blocking=True)
