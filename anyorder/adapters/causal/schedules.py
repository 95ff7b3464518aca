"""Schedules: how many drafts the lossless loop asks for, round by round."""

from __future__ import annotations

from typing import Literal, Protocol

import torch
from torch import Tensor

from anyorder.adapters.causal.policy import one_pass_lengths, two_pass_length
from anyorder.adapters.causal.session import Session
from anyorder.draft_length import DraftLengthPolicy, History

Lookahead = Literal["linear", "quadratic"]
"""Masks after the drafts, or after every number of drafts that might be kept."""

Rounds = Literal["one-pass", "two-pass", "anchored"]
"""Test and draft in one pass; in two, the drafting one deciding a token; or in two, the drafting one deciding none."""


class Schedule(Protocol):
    """Says how many drafts to ask for; it knows what was decided, not what was drawn."""

    def lengths(self, session: Session, num_drafts: Tensor, width: int) -> Tensor:
        """(A, width + 1) drafts to ask for in each outcome of the test of (A,) ``num_drafts``, of which W are held."""
        ...

    def observe(self, num_tested: Tensor, num_kept: Tensor, alive: Tensor) -> None:
        """A round tested (A,) drafts and kept (A,) of them; the (A',) sequences ``alive`` go on."""
        ...


def room(session: Session, width: int, most: int) -> Tensor:
    """(A, W + 1) drafts that an outcome has use for: its own token takes a step of those left."""
    return (session.remaining[:, None] - 1 - torch.arange(width + 1)).clamp(min=0, max=most)


class Constant:
    """As many drafts every time.

    Args:
        masks: drafts asked for in every outcome that is prepared.
        lookahead: which outcomes those are; ``"alternate"`` prepares for one, and only while no draft is in hand.
    """

    def __init__(self, masks: int, lookahead: Lookahead | Literal["alternate"]) -> None:
        self._masks, self._lookahead = masks, lookahead

    def lengths(self, session: Session, num_drafts: Tensor, width: int) -> Tensor:
        """See ``Schedule.lengths``."""
        outcome, held = torch.arange(width + 1), num_drafts[:, None]
        prepared = outcome <= held if self._lookahead == "quadratic" else outcome == held
        if self._lookahead == "alternate":
            prepared = prepared & (held == 0)
        return room(session, width, self._masks) * prepared

    def observe(self, num_tested: Tensor, num_kept: Tensor, alive: Tensor) -> None:
        """Nothing changes."""


class TwoDenoisings:
    """Half of the drafts from masks alone, the rest from masks that see the first half, in a pass of its own.

    Only for blocks that begin with the anchor. The halves are drawn left to right, so that each q is conditional on
    what was drawn before it and on nothing else: tests stay exact.

    Args:
        masks: drafts of a round.
        num_sequences: A.
    """

    def __init__(self, masks: int, num_sequences: int) -> None:
        self._masks, self._began = masks, torch.zeros(num_sequences, dtype=torch.bool)

    def lengths(self, session: Session, num_drafts: Tensor, width: int) -> Tensor:
        """See ``Schedule.lengths``."""
        most, is_new = room(session, width, self._masks)[:, 0], num_drafts == 0
        wanted = torch.where(is_new, (most + 1) // 2, torch.where(self._began, most - num_drafts, 0))
        self._began = is_new
        return torch.nn.functional.pad(wanted[:, None], (0, width))

    def observe(self, num_tested: Tensor, num_kept: Tensor, alive: Tensor) -> None:  # noqa: ARG002
        """See ``Schedule.observe``."""
        self._began = self._began[alive]


class Adaptive:
    """As many drafts as pay, see ``policy``.

    Args:
        policy: costs of a causal pass by its rows, the expected acceptance.
        most: the most drafts of an outcome.
        rounds: what a round consists of.
        num_sequences: A.
    """

    def __init__(self, policy: DraftLengthPolicy, most: int, rounds: Rounds, num_sequences: int) -> None:
        self._policy, self._most, self._rounds = policy, most, rounds
        self._history = History.empty(num_sequences)

    def lengths(self, session: Session, num_drafts: Tensor, width: int) -> Tensor:
        """See ``Schedule.lengths``."""
        levels, held = self._policy.levels(self._history), num_drafts.tolist()
        if self._rounds == "one-pass":
            made = [one_pass_lengths(self._policy, level, self._most)[w] for level, w in zip(levels, held, strict=True)]
            wanted = torch.tensor([row[: width + 1] for row in made], dtype=torch.long).view(len(made), width + 1)
        else:
            counts = [two_pass_length(self._policy, level, self._most, self._rounds == "anchored") for level in levels]
            wanted = torch.zeros(len(counts), width + 1, dtype=torch.long)
            wanted[:, 0] = torch.tensor(counts, dtype=torch.long) * (num_drafts == 0)
        return torch.minimum(wanted, room(session, width, self._most))

    def observe(self, num_tested: Tensor, num_kept: Tensor, alive: Tensor) -> None:
        """See ``Schedule.observe``."""
        history = self._policy.after(self._history, num_tested.numpy(), num_kept.numpy())
        self._history = history.select(alive.numpy())
