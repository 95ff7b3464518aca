"""The sequences of a causal generation that are still alive: tokens, cache, randomness, and how far each has come.

Every sequence has its own cursor; none waits for another. A pass encodes, for each, what was decided since the last one
and the drafts in hand, and answers; the next pass starts from wherever that left it. Long prompts are read in chunks,
in the same passes in which other sequences decode. A finished sequence leaves the batch at once: what a selection of
the cache copies is about what one pass reads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from anyorder.adapters.causal.generation import Books, NewTokens
from anyorder.adapters.causal.network import Network
from anyorder.adapters.causal.plan import Blocks, Plan, Stand, plan_pass
from anyorder.drafting import Drafts
from anyorder.sampling import Sampling, at_least_float32
from anyorder.uniforms import Uniforms
from anyorder.verify import Verdict, verify


class Task(NamedTuple):
    """What is to be generated.

    Attributes:
        prompts: one (T,) int64 tensor a sequence, none empty.
        max_new_tokens: (B,) int64.
        eos_ids: the ids that end a text.
        sampling: how tokens are drawn.
    """

    prompts: list[Tensor]
    max_new_tokens: Tensor
    eos_ids: tuple[int, ...]
    sampling: Sampling


class Layout(NamedTuple):
    """How passes are laid out.

    Attributes:
        scratch: the most mask rows a pass can have for a sequence.
        max_lag: the most drafts a sequence can have in hand.
        chunk: rows of a prompt read in one pass.
        blocks: how masks are grouped.
    """

    scratch: int
    max_lag: int
    chunk: int = 512
    blocks: Blocks = Blocks()


class Committed(NamedTuple):
    """What a round came to: (A,) drafts kept, on the host, and the (A',) row numbers of those still alive."""

    num_kept: Tensor
    alive: Tensor


class Session:
    """The state the decoding loops share. Shapes: A sequences alive of B; (A,) integers are on the host.

    Attributes:
        tokens: (A, S + 1) int64 on the device; column S is scratch, where rows that take no part point.
        num_decoded: (A,) tokens decided, the prompt included.
        num_encoded: (A,) tokens in the cache.
        end: (A,) where the sequence must stop.
        rows: (A,) numbers in the full batch.
        books: what it all cost.
    """

    def __init__(
        self,
        model: Network,
        task: Task,
        layout: Layout,
        *,
        uniforms: Uniforms,
        on_tokens: Callable[[NewTokens], None] | None = None,
    ) -> None:
        self.model, self.layout, self.uniforms, self.sampling = model, layout, uniforms, task.sampling
        device = model.device
        self.num_decoded = torch.tensor([len(prompt) for prompt in task.prompts])
        self.num_encoded = torch.zeros_like(self.num_decoded)
        self.end = self.num_decoded + task.max_new_tokens
        self.num_slots = int(self.end.max()) + layout.scratch
        self.tokens = torch.zeros(len(task.prompts), self.num_slots + 1, dtype=torch.long)
        for row, prompt in enumerate(task.prompts):
            self.tokens[row, : len(prompt)] = prompt
        self.tokens = self.tokens.to(device)
        self._eos = torch.tensor(sorted(task.eos_ids), dtype=torch.long)
        self.rows = torch.arange(len(task.prompts))
        self._is_draft_wrong = torch.zeros(len(task.prompts), dtype=torch.bool, device=device)
        self.books = Books(len(task.prompts), layout.max_lag, on_tokens)
        self.books.prefill_rows += self.num_decoded * (task.max_new_tokens > 0)
        self.cache = model.new_cache(len(task.prompts), self.num_slots)
        self.keep((self.num_decoded < self.end).nonzero()[:, 0])

    @property
    def is_alive(self) -> bool:
        """Whether any sequence is unfinished."""
        return len(self.rows) > 0

    @property
    def remaining(self) -> Tensor:
        """(A,) tokens still to decide."""
        return self.end - self.num_decoded

    @property
    def is_greedy(self) -> bool:
        """Whether tokens are arg maxima."""
        return self.sampling.temperature == 0

    def no_drafts(self) -> Drafts:
        """Drafts of width zero."""
        nothing = self.tokens[:, :0]
        return Drafts(nothing, self._no_q(0), torch.zeros_like(self.num_decoded))

    def forward(self, drafts: Drafts, num_drafts: Tensor, lengths: Tensor) -> tuple[Plan, Tensor]:
        """One pass.

        Args:
            drafts: (A, W) in hand.
            num_drafts: (A,) how many each sequence has.
            lengths: (A, W + 1) masks wanted in each outcome.

        Returns:
            The plan, and (A, Q, V) logits of its asked rows in at least float32.
        """
        stand = Stand(self.num_decoded, self.num_encoded, num_drafts)
        plan = plan_pass(stand, lengths, sentinel=self.num_slots, chunk=self.layout.chunk, blocks=self.layout.blocks)
        self.place(drafts.tokens, num_drafts)
        slots = torch.where(plan.rows.is_mask, self.num_slots, plan.rows.slots).to(
            self.tokens.device, non_blocking=True
        )
        logits = self.model.step(self.tokens.gather(1, slots), plan.rows, self.cache, asked=plan.asked)
        self.books.count_pass(self.rows, plan.num_clean, plan.num_in_view, prefills=plan.prefills)
        return plan, at_least_float32(logits)

    def place(self, tokens: Tensor, counts: Tensor) -> None:
        """Write the first ``counts[a]`` of (A, K) tokens at the steps from ``num_decoded`` on."""
        if tokens.shape[1]:
            ahead = torch.arange(tokens.shape[1])
            steps = torch.where(ahead < counts[:, None], self.num_decoded[:, None] + ahead, self.num_slots)
            self.tokens.scatter_(1, steps.to(tokens.device, non_blocking=True), tokens)

    def test(self, drafts: Drafts, testing: Tensor, num_drafts: Tensor, has_final: Tensor) -> Verdict:
        """Which drafts stay and what follows them: rejection sampling, or equality where tokens are arg maxima.

        Args:
            drafts: (A, W).
            testing: (A, W + 1, V) logits of the rows before each draft and after the last.
            num_drafts: (A,).
            has_final: (A,) bool, whether a token may follow the last draft.
        """
        if self.is_greedy:
            return verify_greedy(drafts.tokens, testing.argmax(-1), num_drafts)
        return verify(drafts, self.sampling.probs(testing), num_drafts, has_final, uniforms=self.uniforms)

    def draw(self, logits: Tensor, counts: Tensor) -> Drafts:
        """The first ``counts[a]`` of (A, K) tokens, each from its own row, and the q they come from."""
        exact = torch.zeros_like(counts)
        if self.is_greedy:  # equality tests them: nobody needs a q
            return Drafts(logits.argmax(-1), self._no_q(0), exact)
        q, is_drawn = self.sampling.probs(logits), torch.arange(logits.shape[1]) < counts[:, None]
        is_wrong = ~logits.amax(-1).isfinite() & is_drawn.to(logits.device, non_blocking=True)
        self._is_draft_wrong = self._is_draft_wrong | is_wrong.any(1)  # read with the next round
        return Drafts(self.uniforms.categorical(q, is_drawn), q, exact)

    def commit(
        self, tokens: Tensor, num_kept: Tensor, *, logits: Tensor, plan: Plan, num_drafts: Tensor, encoded: bool
    ) -> Committed:
        """End a round: the kept drafts and one token more are decided, up to one that ends the text, and streamed.

        Args:
            tokens: (A, M) for the steps from ``num_decoded`` on.
            num_kept: (A,) drafts kept, on the device.
            logits: (A, M, V) of the rows that decided them, looked at for NaN as far as they did.
            plan: of the pass.
            num_drafts: (A,) drafts that were offered.
            encoded: whether the drafts were in the pass as tokens, so that those kept are in the cache.

        Raises:
            ValueError: if some sequence had no token to draw, or the model returned NaN.
        """
        no_token = ~logits.amax(-1).isfinite()
        decided_it = torch.arange(logits.shape[1], device=num_kept.device) <= num_kept[:, None]
        fault = (no_token & decided_it).any(1) | self._is_draft_wrong
        read = torch.cat([fault[:, None], num_kept[:, None], tokens], 1).cpu()  # the one transfer of a round
        fault, num_kept, decided = read[:, 0].bool() & plan.decides, read[:, 1], read[:, 2:]
        if bool(fault.any()):
            raise ValueError(
                "the model gave no token to draw: its logits are NaN, infinite or forbidden; are its weights intact?"
            )
        self.books.count_drafts(self.rows, num_drafts * plan.decides, num_kept)
        # Without room for a token after the last draft there is none.
        counts = torch.minimum(num_kept + 1, self.remaining) * plan.decides
        is_eos = torch.isin(decided, self._eos) & (torch.arange(decided.shape[1]) < counts[:, None])
        has_eos = is_eos.any(1)
        counts = torch.where(has_eos, is_eos.long().argmax(1) + 1, counts)
        self.place(tokens, counts)
        in_cache = self.num_decoded + num_kept if encoded else self.num_decoded
        self.num_encoded = torch.minimum(self.num_encoded + plan.num_clean, in_cache)
        self.num_decoded = self.num_decoded + counts
        is_over = has_eos | (self.num_decoded >= self.end)
        columns = (self.rows, counts, has_eos, is_over, decided)
        for row, count, eos, over, new in zip(*(column.tolist() for column in columns), strict=True):
            if count:
                self.books.decide(row, new[:count], ("eos" if eos else "length") if over else None)
        alive = (~is_over).nonzero()[:, 0]
        self.keep(alive)
        return Committed(num_kept, alive)

    def keep(self, alive: Tensor) -> None:
        """Go on with some of the sequences, ``alive`` being their (A',) row numbers."""
        if len(alive) == len(self.rows):
            return
        on_device = alive.to(self.tokens.device, non_blocking=True)
        self.tokens, self.rows, self.end = self.tokens[on_device], self.rows[alive], self.end[alive]
        self.num_decoded, self.num_encoded = self.num_decoded[alive], self.num_encoded[alive]
        self._is_draft_wrong = self._is_draft_wrong[on_device]
        self.uniforms, self.cache = self.uniforms.select(alive), self.cache.select(on_device)

    def _no_q(self, width: int) -> Tensor:
        return torch.zeros(len(self.tokens), width, self.model.vocab_size, device=self.tokens.device)


def verify_greedy(drafted: Tensor, best: Tensor, num_drafts: Tensor) -> Verdict:
    """``verify`` where every distribution is certain: a draft stays if it is the arg max, and what follows is the next.

    Args:
        drafted: (A, W).
        best: (A, W + 1) the arg max at each draft and after the last.
        num_drafts: (A,) on the host; drafts beyond are ignored.
    """
    width = drafted.shape[1]
    is_draft = torch.arange(width) < num_drafts[:, None]
    kept = (drafted == best[:, :width]) & is_draft.to(drafted.device, non_blocking=True)
    num_kept = kept.long().cumprod(1).sum(1)
    return Verdict(num_kept, best.gather(1, num_kept[:, None])[:, 0])
