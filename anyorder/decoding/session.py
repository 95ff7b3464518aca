"""The sequences of a decoding call that are still alive: their tokens, cache and randomness, and how far each has come.

A loop plans on the host, from integers it already has, which rows to ask for; the device computes; one small transfer a
round (``read``) brings back how many drafts were kept. Copies the other way are queued and never waited for. Two
invariants hold between rounds: a sequence's steps below ``num_decoded`` hold its tokens, and those below
``num_encoded`` are in the cache. What lies beyond in either is stale and out of reach of every ``num_visible``.
Finished sequences are dropped once they are half of the batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from anyorder.decoding.generation import Generation, Progress, Round
from anyorder.decoding.ledger import Ledger
from anyorder.decoding.options import DecodeOptions
from anyorder.draft_length import History
from anyorder.drafting import Drafter, Drafts, NGramDrafter, check_drafts
from anyorder.forbidden import Forbidden
from anyorder.model.contract import AnySubsetModel, Cache
from anyorder.order import Order
from anyorder.sampling import at_least_float32, log_density
from anyorder.uniforms import Uniforms
from anyorder.visibility import Rows, content_rows


class Session:
    """The state the decoding loops share. Shapes: A sequences alive of B, L steps; (A,) integers are on the host.

    Attributes:
        tokens: (A, L + 1) int64 on the device; column L is scratch, where rows that take no part write.
        num_decoded: (A,) steps decided, the prompt included.
        num_encoded: (A,) steps in the cache.
        end: (A,) number of real steps.
        survival: (A, M + 1) how probable it is that so many drafts are kept, as far as it matters to the policy.
    """

    def __init__(
        self,
        model: AnySubsetModel,
        tokens: Tensor,
        order: Order,
        *,
        uniforms: Uniforms,
        options: DecodeOptions,
        forbidden: Forbidden,
        on_round: Callable[[Progress], None] | None = None,
    ) -> None:
        device, host = model.device, order.to("cpu")
        self.model, self.options = model, options
        self.order, self.forbidden, self.uniforms = order.to(device), forbidden.to(device), uniforms
        self.num_decoded, self.end = host.num_prompt.clone(), host.length
        self.num_encoded = torch.where(self.num_decoded < self.end, 0, self.end)
        self._history = History.empty(len(tokens), options.policy.max_lag)
        self._uses_policy = options.draft_length is None or options.max_rows is not None
        self.survival = self._expected_survival()
        # What the targets held is none of the decoder's business; it must not even be able to leak.
        step = torch.arange(host.num_steps)
        is_target = (step >= host.num_prompt[:, None]) & (step < host.length[:, None])
        self.tokens = F.pad(torch.where(is_target.to(device), 0, tokens.to(device)), (0, 1))
        self.ledger = Ledger(self.tokens[:, :-1], int(host.num_targets.sum()), on_round)
        self.rows = torch.arange(len(tokens))
        self._log_probs = torch.zeros(self.tokens.shape, device=device)
        self._rounds = torch.zeros_like(self.tokens)
        self._fault = torch.zeros((), dtype=torch.long, device=device)
        self.cache: Cache | None = None
        self._until = self.num_encoded
        self.compact()
        self.cache = model.new_cache(len(self.rows), host.num_steps)

    @property
    def remaining(self) -> Tensor:
        """(A,) steps still to decide."""
        return self.end - self.num_decoded

    @property
    def is_alive(self) -> bool:
        """Whether any step of any sequence is still to be decided."""
        return bool((self.remaining > 0).any())

    def steps(self, counts: Tensor, offset: int = 0) -> Tensor:
        """(A, max(counts)) on the host: the ``counts[a]`` steps from ``num_decoded + offset`` on, then the sentinel."""
        ahead = torch.arange(max(int(counts.max()), 0) if len(counts) else 0)
        steps = self.num_decoded[:, None] + offset + ahead
        return torch.where(ahead < counts[:, None], steps, self.order.num_steps)

    def place(self, tokens: Tensor, counts: Tensor) -> None:
        """Write each row's first ``counts[a]`` of (A, K) tokens at the steps from ``num_decoded`` on, as drafts."""
        width = int(counts.max())
        self.tokens.scatter_(1, self.steps(counts).to(self.tokens.device, non_blocking=True), tokens[:, :width])

    @property
    def drafter(self) -> Drafter | None:
        """The drafter, unless it is the model itself."""
        if self.options.drafter == "ngram":
            return NGramDrafter(forbidden=self.forbidden)
        return None if isinstance(self.options.drafter, str) else self.options.drafter

    def no_drafts(self) -> Drafts:
        """Drafts of width zero."""
        nothing = self.tokens[:, :0]
        q = torch.zeros(*nothing.shape, self.model.vocab_size, device=nothing.device)
        return Drafts(nothing, q, torch.zeros_like(self.num_decoded))

    def propose(self, num_drafts: Tensor) -> Drafts:
        """Ask the drafter, which must not be the model, for (A,) drafts of each sequence, and check what it returns."""
        drafter = self.drafter
        if drafter is None or not bool(num_drafts.any()):
            return self.no_drafts()
        text = self.tokens[:, :-1].clone()
        drafts = drafter.propose(text, self.order, self.num_decoded, num_drafts, self.options.sampling, self.uniforms)
        if not isinstance(drafter, NGramDrafter):
            check_drafts(drafts, num_drafts, self.model.vocab_size)
        self.ledger.count_drafts(self.rows, num_drafts)
        asked = torch.arange(drafts.tokens.shape[1]) < num_drafts[:, None]
        tokens = torch.where(asked.to(self.tokens.device, non_blocking=True), drafts.tokens, 0)
        return Drafts(tokens, drafts.q, drafts.num_exact.cpu())

    def forward(self, encode_until: Tensor, query: Rows) -> tuple[Tensor, Rows]:
        """One pass: encode what is not yet encoded, answer the queries.

        Args:
            encode_until: (A,) steps that have to be in the cache; a sequence's last step never does.
            query: (A, K) rows on the host.

        Returns:
            (A, K, V) logits and the rows on the device.
        """
        device, sentinel = self.tokens.device, self.order.num_steps
        until = torch.minimum(encode_until, self.end - 1)
        fresh = torch.arange(max(int((until - self.num_encoded).max()), 0)) + self.num_encoded[:, None]
        fresh = torch.where(fresh < until[:, None], fresh, sentinel)
        asked = query.steps < sentinel
        self.ledger.count_pass(self.rows, asked.sum(1) + (fresh < sentinel).sum(1), takes_part=asked.any(1))
        there = Rows(
            query.steps.to(device, non_blocking=True),
            torch.where(asked, query.num_visible, 0).to(device, non_blocking=True),
        )
        num_slots = max(int((query.num_visible * asked).max()), int(until.max()))
        logits = self.model.forward(
            self.tokens[:, :-1],
            self.order.sigma,
            self.cache,
            encode=content_rows(self.order, fresh.to(device, non_blocking=True)),
            query=there,
            num_slots=num_slots,
        )
        self._until, self.num_encoded = until, torch.maximum(self.num_encoded, torch.minimum(until, self.num_decoded))
        return logits, there

    def allowed(self, logits: Tensor, query: Rows) -> Tensor:
        """(A, K, V) logits in at least float32, minus infinity at what is forbidden where a row stands."""
        return self.forbidden.mask(at_least_float32(logits), self.tokens[:, :-1], self.order, query)

    def probs(self, allowed: Tensor) -> Tensor:
        """(A, K, V) what tokens are drawn from."""
        return self.options.sampling.probs(allowed)

    def inspect(self, allowed: Tensor, matters: Tensor) -> None:
        """Note rows (A, V) that allow no token, where it ``matters`` (A,); ``read`` and ``finish`` report them."""
        top = allowed.amax(-1)
        fault = torch.where(top == -torch.inf, 1, torch.where(top.isfinite(), 0, 2))
        self._fault = torch.maximum(self._fault, (fault * matters.to(fault.device, non_blocking=True)).max())

    def inspect_after(self, num_kept: Tensor, allowed: Tensor, num_rows: Tensor) -> None:
        """The same for the row after the kept drafts, if it is among the first ``num_rows`` (A,) of (A, K, V)."""
        index = num_kept.clamp(max=allowed.shape[1] - 1)[:, None, None].expand(-1, 1, allowed.shape[2])
        self.inspect(allowed.gather(1, index)[:, 0], num_kept < num_rows.to(num_kept.device, non_blocking=True))

    def read(self, num_kept: Tensor) -> Tensor:
        """(A,) device integers brought to the host: the one transfer of a round.

        Raises:
            ValueError: if some sequence had no token to draw, or the model returned NaN.
        """
        read = torch.cat([num_kept, self._fault[None]]).cpu()
        _report(int(read[-1]))
        return read[:-1]

    def commit(self, tokens: Tensor, allowed: Tensor, done: Round) -> None:
        """Decide the first (A, M) tokens of each row and end the round.

        Args:
            tokens: (A, M) int64 for the steps from ``num_decoded`` on; as many count as the round decided.
            allowed: (A, M, V) the logits of the rows that decided them.
            done: what happened.
        """
        num_new = done.num_kept + done.has_final
        width = int(num_new.max())
        steps = self.steps(num_new).to(tokens.device, non_blocking=True)
        log_probs = log_density(allowed[:, :width], tokens[:, :width])
        self._log_probs = self._log_probs.to(log_probs.dtype).scatter(1, steps, log_probs)
        self._rounds.scatter_(1, steps, self.ledger.num_rounds + 1)
        self.tokens.scatter_(1, steps, tokens[:, :width])
        self.num_decoded = self.num_decoded + num_new
        # Of the drafts that were encoded, the kept ones stay valid; the slot of a corrected one is stale.
        self.num_encoded = torch.maximum(self.num_encoded, torch.minimum(self._until, done.step + done.num_kept))
        self.ledger.enter(done)
        if self._uses_policy:
            self._history = self._history.after(done.num_drafts - done.num_exact, done.num_kept - done.num_exact)
            if self.ledger.num_rounds % self.options.policy.refresh == 0:
                self.survival = self._expected_survival()

    def _expected_survival(self) -> Tensor:
        policy = self.options.policy
        return policy.survival(self._history, max(policy.max_lag, self.options.draft_length or 0))

    def compact(self) -> Tensor | None:
        """Drop the finished sequences once they are half of those alive; returns the (A,) row numbers kept, if so."""
        alive = (self.remaining > 0).nonzero()[:, 0]
        if 2 * len(alive) > len(self.rows):
            return None
        self.ledger.store(self.rows, self.tokens[:, :-1], self._log_probs[:, :-1], self._rounds[:, :-1])
        there = alive.to(self.tokens.device, non_blocking=True)
        self.tokens, self._log_probs = self.tokens[there], self._log_probs[there]
        self._rounds = self._rounds[there]
        self.order, self.forbidden = self.order.select(there), self.forbidden.select(there)
        self.uniforms, self.survival = self.uniforms.select(alive), self.survival[alive]
        self._history = self._history.select(alive)
        self.num_decoded, self.num_encoded = self.num_decoded[alive], self.num_encoded[alive]
        self.end, self.rows = self.end[alive], self.rows[alive]
        if self.cache is not None:
            self.cache = self.cache.select(there)
        return alive

    def finish(self) -> Generation:
        """The finished batch.

        Raises:
            ValueError: if some sequence had no token to draw, or the model returned NaN.
        """
        _report(int(self._fault))
        return self.ledger.close(self.options.effective_method)


def _report(fault: int) -> None:
    if fault == 1:
        raise ValueError(
            "every token is forbidden at some step: forbidden ids and strings must leave at least one token everywhere"
        )
    if fault == 2:
        raise ValueError("the model returned logits that are not numbers (NaN or infinity): are its weights intact?")
