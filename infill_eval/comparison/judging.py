"""What a text is worth: its density under a named model, and whether it is that model's own greedy text.

A judge gives the logits of every new token of a text in one pass without a cache of slots, so what it finds does not
rest on the loop that wrote the text. Two greedy texts whose first different tokens are both within ``TIE`` of the
likeliest part at rounding: a pass of many rows sums in another order than a pass of one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, Protocol

import torch
from torch import Tensor

from anyorder.adapters.causal import CausalModel
from anyorder.exclusions import exclude
from anyorder.likelihood import query_logits, target_steps
from anyorder.model.loaded import Model
from anyorder.options import InfillOptions
from anyorder.passage import collate
from anyorder.prepare import prepare
from anyorder.visibility import verify_rows
from infill_eval.comparison.pieces import Piece

TIE = 1e-4
"""How near to the likeliest both logits are where texts may part without fault, in float32."""

Verdict = Literal["equal", "tie", "other"]
"""A greedy text beside its reference: the same, parting at a tie, or another."""

LogitsOf = Callable[[Sequence[int]], Tensor]
"""The (N, V) logits of N new tokens, each given what is in front of it."""


class Judge(Protocol):
    """A model that says how likely what was written is."""

    def logits(self, piece: Piece, tokens: Sequence[int]) -> Tensor:
        """(N, V) float32, the logits of each of N tokens in the piece's blank given the tokens before it."""
        ...


class CausalJudge:
    """A left-to-right model, its masks and its view out of play."""

    def __init__(self, network: CausalModel) -> None:
        self._network = network

    def logits(self, piece: Piece, tokens: Sequence[int]) -> Tensor:
        """See ``Judge``; the right context is not seen."""
        return causal_logits(self._network, torch.tensor(piece.left), tokens)


class AnySubsetJudge:
    """An any-subset model in ascending order; tokens it may never write are excluded, as when it writes."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @torch.no_grad()
    def logits(self, piece: Piece, tokens: Sequence[int]) -> Tensor:
        """See ``Judge``."""
        model, new = self._model, iter(tokens)
        request = prepare(piece.text, [piece.blank], InfillOptions(order="ascending"), model)
        passage = request.passages[0]
        ids = [next(new) if blank >= 0 else old for old, blank in zip(passage.tokens, passage.blank, strict=True)]
        batch = collate([passage.filled(ids)], request.permutations, padding_id=model.codec.mask_id)
        forbidden = exclude(model, ()).within(batch.blank, batch.spaced)
        steps = target_steps(batch.order)
        in_order = batch.order.to_steps(batch.tokens)
        rows = query_logits(model.network, in_order, batch.order, query=verify_rows(steps), forbidden=forbidden)
        return rows[0].float()


@torch.no_grad()
def causal_logits(model: CausalModel, prompt: Tensor, tokens: Sequence[int]) -> Tensor:
    """(N, V) float32, the logits of N tokens that continue a (T,) prompt."""
    text = torch.cat([prompt, torch.tensor(list(tokens), dtype=torch.long)])
    place = torch.arange(len(text))
    hidden = model(text[None], place[None], (place[:, None] >= place)[None])
    return model.logits(hidden[:, len(prompt) - 1 : -1])[0].float()


def nats(logits: Tensor, tokens: Sequence[int]) -> float:
    """Negative log-density of N tokens under their (N, V) logits, summed."""
    chosen = torch.tensor(list(tokens), dtype=torch.long)
    return -float(logits.log_softmax(-1).gather(1, chosen[:, None]).double().sum())


def compared(logits_of: LogitsOf, tokens: Sequence[int], wanted: Sequence[int]) -> Verdict:
    """A greedy text beside the reference's; the judge is asked only where they part."""
    if list(tokens) == list(wanted):
        return "equal"
    same = leading(tokens, wanted)
    if same >= min(len(tokens), len(wanted)):
        return "other"
    logits = logits_of(wanted)[same]
    least = logits[[tokens[same], wanted[same]]].min()
    return "tie" if bool(logits.max() - least < TIE) else "other"


def is_greedy(logits: Tensor, tokens: Sequence[int]) -> Verdict:
    """Whether every one of N tokens is the likeliest of its (N, V) logits: what a reference has to be."""
    best = logits.max(-1).values - logits.gather(1, torch.tensor(list(tokens))[:, None])[:, 0]
    if bool((best == 0).all()):
        return "equal"
    return "tie" if bool((best < TIE).all()) else "other"


def leading(tokens: Sequence[int], truth: Sequence[int]) -> int:
    """How many tokens are right before the first that is wrong."""
    pairs = zip(tokens, truth, strict=False)
    shorter = min(len(tokens), len(truth))
    return next((number for number, (own, true) in enumerate(pairs) if own != true), shorter)


def distinct(texts: Sequence[Sequence[int]]) -> float:
    """The share of three-token runs that do not occur twice in the same text; repetition flatters every drafter."""
    runs = [(row, *text[i : i + 3]) for row, text in enumerate(texts) for i in range(len(text) - 2)]
    return len(set(runs)) / max(len(runs), 1)
