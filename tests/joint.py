"""The joint of a tiny model by brute force: every assignment of the targets, one single conditional at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from branches import output_distribution
from table_model import TableModel
from torch import Tensor

from anyorder.decoding import DecodeOptions, Generation, decode
from anyorder.forbidden import Forbidden
from anyorder.order import Order
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.visibility import Rows, content_rows, verify_rows


@dataclass(frozen=True)
class Cases:
    """A small ragged batch whose output distributions are enumerated."""

    tokens: Tensor
    order: Order
    forbidden: Forbidden
    vocab_size: int

    @property
    def num_targets(self) -> int:
        return int(self.order.num_targets.max())

    @property
    def num_outcomes(self) -> int:
        return self.vocab_size**self.num_targets

    def run(self, cases: Tensor, uniforms: Uniforms, model: TableModel, options: DecodeOptions) -> Generation:
        order, forbidden = self.order.select(cases), self.forbidden.select(cases)
        return decode(model, self.tokens[cases], order, uniforms=uniforms, options=options, forbidden=forbidden)

    def outcome(self, cases: Tensor, tokens: Tensor) -> Tensor:
        """(R,) which of the M assignments the targets of (R, L) tokens are; digits base V, first target first."""
        order, code = self.order.select(cases), torch.zeros(len(cases), dtype=torch.long)
        for target in range(self.num_targets):
            step = (order.num_prompt + target).clamp(max=order.num_steps - 1)
            digit = tokens.gather(1, step[:, None])[:, 0]
            code = code * self.vocab_size + torch.where(target < order.num_targets, digit, 0)
        return code


def ragged_cases(vocab_size: int, targets: tuple[int, ...], *, scrambled: bool, width: int = 6) -> Cases:
    """Rows with these numbers of targets; row b has ``b % 3`` prompt tokens, so the first has an empty prompt."""
    generator = torch.Generator().manual_seed(17 + scrambled)
    batch = len(targets)
    is_target = torch.zeros(batch, width, dtype=torch.bool)
    length = torch.tensor([min(width, count + row % 3) for row, count in enumerate(targets)])
    for row, count in enumerate(targets):
        is_target[row, torch.randperm(int(length[row]), generator=generator)[:count]] = True
    order = Order.from_targets(is_target, length)
    if scrambled:
        order = order.rearranged([torch.randperm(count, generator=generator) for count in order.num_targets.tolist()])
    tokens = torch.randint(vocab_size, (batch, width), generator=generator)
    return Cases(tokens, order, Forbidden.of(vocab_size), vocab_size)


def single_conditional(model: TableModel, tokens: Tensor, order: Order, step: Tensor) -> Tensor:
    """(R, V) logits of one step (R,) of each row given exactly the steps before it, from a fresh pass."""
    ahead = torch.arange(order.num_steps)
    encode = content_rows(order, torch.where(ahead < step[:, None], ahead, order.num_steps))
    query = verify_rows(step[:, None])
    return model.forward(tokens, order.sigma, None, encode=encode, query=query)[:, 0]


Ban = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(case, tokens, step) -> (R, V) bool: what a brute-force reading of the rules forbids at that step."""


def exact_joint(model: TableModel, cases: Cases, sampling: Sampling, *, ban: Ban | None = None) -> Tensor:
    """(C, M) the probability of every assignment, as the product of its single conditionals."""
    batch, outcomes, vocab = len(cases.tokens), cases.num_outcomes, cases.vocab_size
    row = torch.arange(batch).repeat_interleave(outcomes)
    code = torch.arange(outcomes).repeat(batch)
    order, tokens = cases.order.select(row), cases.tokens[row].clone()
    joint = torch.ones(len(row), dtype=torch.float64)
    for target in range(cases.num_targets):
        digit = code // vocab ** (cases.num_targets - 1 - target) % vocab
        exists = target < order.num_targets
        step = torch.where(exists, order.num_prompt + target, order.num_steps)
        logits = single_conditional(model, tokens, order, step).nan_to_num()
        banned = cases.forbidden.ids.expand(len(row), -1)
        if ban is not None:
            banned = banned | ban(row, tokens, step)
        probs = sampling.probs(logits.masked_fill(banned, -torch.inf)).nan_to_num()
        chosen = probs.gather(1, digit[:, None])[:, 0]
        # A row with fewer targets has one assignment: zeros where it has no target.
        joint *= torch.where(exists, chosen, (digit == 0).double())
        place = step.clamp(max=order.num_steps - 1)[:, None]
        tokens = tokens.scatter(1, place, torch.where(exists[:, None], digit[:, None], tokens.gather(1, place)))
    return joint.view(batch, outcomes)


def decoded_distribution(model: TableModel, cases: Cases, options: DecodeOptions) -> Tensor:
    """(C, M) what decoding really yields, by walking all its branches; also checks the NFE bound on every branch."""

    def run(rows: Tensor, uniforms: Uniforms) -> Tensor:
        generation = cases.run(rows, uniforms, model, options)
        over = generation.counters.nfe > cases.order.num_targets[rows]
        if bool(over.any()):
            raise AssertionError("a branch took more passes than there are targets")
        return cases.outcome(rows, generation.tokens)

    return output_distribution(run, len(cases.tokens), cases.num_outcomes)


def total_variation(one: Tensor, other: Tensor) -> float:
    """The largest total variation distance among the cases."""
    return float((one - other).abs().sum(1).max()) / 2


__all__ = [
    "Cases",
    "Rows",
    "decoded_distribution",
    "exact_joint",
    "ragged_cases",
    "single_conditional",
    "total_variation",
]
