"""What MARS is compared with: its own published batching, and Jacobi decoding of a model that was trained for neither.

Both run on the same network, cache and packed weights as ours, so that a comparison is one of schedules alone.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.plan import Blocks, Stand, plan_pass
from anyorder.adapters.causal.session import Layout, Session, Task
from anyorder.drafting import Drafts
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms


class Run(NamedTuple):
    """What a baseline came to: new tokens of each prompt, and passes made."""

    tokens: list[list[int]]
    num_passes: int


@torch.no_grad()
def published_batch(
    model: CausalModel, prompts: list[Tensor], *, max_new_tokens: int, tau: float, block: int, cache_block: int
) -> Run:
    """Threshold decoding with the published block cache: all rows wait at every ``cache_block`` tokens.

    Within a block of the cache nothing is kept: every pass encodes it again from its start, for every row of the batch.
    A row that has reached the block's end waits there for the slowest. (Two favours: padding is not computed, and rows
    that ended leave at the next block.)
    """
    book = _Book(model, prompts, max_new_tokens, scratch=block - 1)
    passes = 0
    while len(book.rows):
        limit = torch.minimum(book.decided + cache_block, book.end)
        encoded = book.decided
        while bool((book.decided < limit).any()):
            is_active = book.decided < limit
            masks = (limit - book.decided - 1).clamp(min=0, max=block - 1)
            logits, num_masks = book.forward(masks)
            passes, encoded = passes + 1, book.decided
            sure = logits[:, 1:].softmax(-1).amax(-1) >= tau
            sure &= torch.arange(sure.shape[1]) < num_masks[:, None]
            kept = sure.long().cumprod(1).sum(1)
            book.decide(logits.argmax(-1), (kept + 1) * is_active, limit)
        # The row that waited last encoded its newest token too, whose row has to answer in the next pass.
        book.encoded = torch.minimum(encoded, book.decided - 1)
        book.drop_finished()
    return Run(book.result, passes)


class _Book:
    """Tokens and cursors of a batch that decodes block by block."""

    def __init__(self, model: CausalModel, prompts: list[Tensor], max_new_tokens: int, *, scratch: int) -> None:
        self.model = model
        self.decided = torch.tensor([len(prompt) for prompt in prompts])
        self.encoded = torch.zeros_like(self.decided)
        self.end = self.decided + max_new_tokens
        self.sentinel = int(self.end.max()) + scratch
        self.tokens = torch.zeros(len(prompts), self.sentinel + 1, dtype=torch.long)
        for row, prompt in enumerate(prompts):
            self.tokens[row, : len(prompt)] = prompt
        self.rows = torch.arange(len(prompts))
        self.result: list[list[int]] = [[] for _ in prompts]
        self.cache = model.new_cache(len(prompts), self.sentinel)
        self._eos = torch.tensor(model.config.eos_ids)

    def forward(self, masks: Tensor) -> tuple[Tensor, Tensor]:
        """One pass from where the cache ends; the logits of the last token's row and of the masks."""
        plan = plan_pass(
            Stand(self.decided, self.encoded, torch.zeros_like(masks)),
            masks[:, None],
            sentinel=self.sentinel,
            chunk=self.sentinel,
            blocks=Blocks(sees_both_ways=self.model.sees_both_ways),
        )
        slots = torch.where(plan.rows.is_mask, self.sentinel, plan.rows.slots)
        logits = self.model.step(self.tokens.gather(1, slots), plan.rows, self.cache, asked=plan.asked)
        return logits, plan.lengths[:, 0]

    def decide(self, tokens: Tensor, counts: Tensor, limit: Tensor) -> None:
        """Take the first ``counts`` tokens, up to one that ends the text and not beyond the block."""
        counts = torch.minimum(counts, limit - self.decided)
        is_eos = torch.isin(tokens, self._eos) & (torch.arange(tokens.shape[1]) < counts[:, None])
        counts = torch.where(is_eos.any(1), is_eos.long().argmax(1) + 1, counts)
        for row, count, new in zip(self.rows.tolist(), counts.tolist(), tokens.tolist(), strict=True):
            self.result[row] += new[:count]
        column = torch.arange(tokens.shape[1])
        steps = torch.where(column < counts[:, None], self.decided[:, None] + column, self.sentinel)
        self.tokens.scatter_(1, steps, tokens)
        self.decided = self.decided + counts
        ended = is_eos.any(1)
        self.end[ended] = self.decided[ended]
        limit[ended] = self.decided[ended]

    def drop_finished(self) -> None:
        """Rows that are at their end leave."""
        alive = (self.decided < self.end).nonzero()[:, 0]
        self.tokens, self.rows, self.end = self.tokens[alive], self.rows[alive], self.end[alive]
        self.decided, self.encoded = self.decided[alive], self.encoded[alive]
        self.cache = self.cache.select(alive)


@torch.no_grad()
def jacobi(model: CausalModel, prompts: list[Tensor], max_new_tokens: int, *, width: int) -> Run:
    """Greedy decoding that guesses ``width`` tokens ahead and keeps what turns out to be right.

    A guess is what the last pass said there, given guesses that may have been wrong; new places repeat the last token.
    Source: Santilli et al. 2023, "Accelerating Transformer Inference for Translation via Parallel Decoding".
    """
    limits = torch.full((len(prompts),), max_new_tokens)
    task = Task(prompts, limits, model.config.eos_ids, Sampling(temperature=0.0))
    session = Session(model, task, Layout(scratch=0, max_lag=width), uniforms=Uniforms([0] * len(prompts)))
    num_drafts = torch.zeros_like(session.num_decoded)
    drafts = session.no_drafts()
    while session.is_alive:
        no_masks = torch.zeros(len(num_drafts), drafts.tokens.shape[1] + 1, dtype=torch.long)
        plan, logits = session.forward(drafts, num_drafts, no_masks)
        best = logits.argmax(-1)
        verdict = session.test(drafts, logits, num_drafts, num_drafts < session.remaining)
        done = session.commit(
            verdict.applied_to(drafts.tokens),
            verdict.num_kept,
            logits=logits,
            plan=plan,
            num_drafts=num_drafts,
            encoded=True,
        )
        best, kept = best[done.alive], done.num_kept[done.alive]
        column = (kept[:, None] + 1 + torch.arange(width)).clamp(max=best.shape[1] - 1)
        num_drafts = (session.remaining - 1).clamp(max=width)
        drafts = Drafts(best.gather(1, column), session.no_drafts().q, torch.zeros_like(num_drafts))
    return Run(session.books.tokens, session.books.num_passes)
