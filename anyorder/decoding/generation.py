"""What decoding returns: the tokens, their log-density, how many passes they cost, and what happened in every round."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

Method = Literal["sequential", "assd", "one-pass", "parallel"]
"""The decoding methods; all but ``"parallel"`` draw from the model's joint of the declared order."""


@dataclass(frozen=True, kw_only=True)
class Stats:
    """What one sequence cost.

    Attributes:
        nfe: network passes the sequence took part in.
        rounds: rounds, each of which decided at least one token.
        tokens: tokens decided.
        num_drafted: drafts submitted to the test (those that were exact by construction are not).
        num_accepted: drafts the test kept; exact first tokens, corrections and bonus tokens are not counted.
        rows: content and query rows computed for it, over all passes.
        draft_nfe: tokens proposed by a drafter that is not the model.
        score_nfe: passes spent on the log-density alone.
        seconds: from the start of decoding to the sequence's last token.
        method: the method that actually ran.
        lossless: whether the tokens follow the model's joint of the declared order.
        draft_lengths: how many drafts each round had.
    """

    nfe: int
    rounds: int
    tokens: int
    num_drafted: int
    num_accepted: int
    rows: int
    draft_nfe: int
    score_nfe: int
    seconds: float
    method: Method
    lossless: bool
    draft_lengths: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class RoundRecord:
    """What happened to one sequence in one round.

    Attributes:
        step: the first step the round decided.
        drafted: the tokens drafted for the steps from there on.
        num_exact: how many of them were drawn from p itself, so kept without a test.
        num_kept: how many of them were kept.
        final: the token decided after the kept drafts, if any.
        kind: what ``final`` is: ``"sampled"`` (there were no drafts), ``"correction"`` (a draft was rejected),
            ``"bonus"`` (all were kept), or ``None``.
    """

    step: int
    drafted: tuple[int, ...]
    num_exact: int
    num_kept: int
    final: int | None
    kind: Literal["sampled", "correction", "bonus"] | None

    @property
    def num_decided(self) -> int:
        """How many tokens the round decided."""
        return self.num_kept + (self.final is not None)


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a batch has come, given to ``on_round`` after every round.

    Attributes:
        rounds: rounds so far.
        decided: tokens decided so far, over all sequences.
        targets: tokens to decide, over all sequences.
    """

    rounds: int
    decided: int
    targets: int


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of the A sequences then alive.

    Attributes:
        rows: (A,) their numbers in the batch; on the host, as all but ``drafted``.
        step: (A,) the first step that was open.
        drafted: (A, K) int64, the drafts, where they were made.
        num_drafts: (A,) how many of them count.
        num_exact: (A,) how many of those needed no test.
        num_kept: (A,) how many of those were kept.
        has_final: (A,) bool, whether a token after the kept ones was decided.
    """

    rows: Tensor
    step: Tensor
    drafted: Tensor
    num_drafts: Tensor
    num_exact: Tensor
    num_kept: Tensor
    has_final: Tensor


@dataclass(frozen=True, kw_only=True)
class Counters:
    """(B,) running totals of a batch, on the host; the names are those of ``Stats``."""

    nfe: Tensor
    rows: Tensor
    draft_nfe: Tensor
    score_nfe: Tensor
    seconds: Tensor

    @classmethod
    def zero(cls, batch: int) -> Counters:
        """Nothing spent yet."""
        zeros = torch.zeros(5, batch, dtype=torch.long)
        return cls(nfe=zeros[0], rows=zeros[1], draft_nfe=zeros[2], score_nfe=zeros[3], seconds=zeros[4].double())


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A finished batch.

    Attributes:
        tokens: (B, L) int64 in order space; the prompt and the padding as they were given.
        log_probs: (B, L), log-density of every decided token given its prefix, at temperature 1 and with forbidden
            tokens excluded, from the very row that decided it; zero elsewhere.
        rounds: (B, L) int64, the round (from 1) in which a step was decided; zero elsewhere.
        method: the method that actually ran.
        counters: what was spent, a sequence.
        history: every round, in order.
    """

    tokens: Tensor
    log_probs: Tensor
    rounds: Tensor
    method: Method
    counters: Counters
    history: tuple[Round, ...]

    @cached_property
    def trace(self) -> list[list[RoundRecord]]:
        """What happened round by round, one list a sequence."""
        trace: list[list[RoundRecord]] = [[] for _ in range(len(self.tokens))]
        tokens = self.tokens.tolist()
        for done in self.history:
            columns = (
                done.rows,
                done.step,
                done.drafted,
                done.num_drafts,
                done.num_exact,
                done.num_kept,
                done.has_final,
            )
            for row, step, drafted, drafts, exact, kept, has_final in zip(*(c.tolist() for c in columns), strict=True):
                if not (kept or has_final):
                    continue  # a finished sequence that had not left the batch yet
                kind: Literal["sampled", "correction", "bonus"] = "correction" if kept < drafts else "bonus"
                record = RoundRecord(
                    step=step,
                    drafted=tuple(drafted[:drafts]),
                    num_exact=exact,
                    num_kept=kept,
                    final=tokens[row][step + kept] if has_final else None,
                    kind=None if not has_final else kind if drafts else "sampled",
                )
                trace[row].append(record)
        return trace

    @cached_property
    def stats(self) -> list[Stats]:
        """What each sequence cost."""
        spent = self.counters
        return [
            Stats(
                nfe=int(spent.nfe[row]),
                rounds=len(records),
                tokens=sum(record.num_decided for record in records),
                num_drafted=sum(len(record.drafted) - record.num_exact for record in records if self.is_lossless),
                num_accepted=sum(record.num_kept - record.num_exact for record in records if self.is_lossless),
                rows=int(spent.rows[row]),
                draft_nfe=int(spent.draft_nfe[row]),
                score_nfe=int(spent.score_nfe[row]),
                seconds=float(spent.seconds[row]),
                method=self.method,
                lossless=self.is_lossless,
                draft_lengths=tuple(len(record.drafted) for record in records),
            )
            for row, records in enumerate(self.trace)
        ]

    @property
    def is_lossless(self) -> bool:
        """Whether the tokens follow the model's joint of the declared order."""
        return self.method != "parallel"
