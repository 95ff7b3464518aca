"""The loss of MARS: a clean and a noisy copy of each sequence, both read against the same tokens.

Rows 0 .. L-1 are the clean copy, rows L .. 2L-1 the noisy one, in which every response token is a mask; both stand at
positions 0 .. L-1. Clean row t sees the clean rows up to t. Noisy row t sees the noisy rows of its own block up to t
and the clean rows of earlier blocks, nothing else; blocks of B tokens count from the start of the sequence. The row at
r predicts token r + 1. Only one noisy row of a sequence, that of the last prompt token, sees a fully clean past, so the
loss on the clean copy is what keeps the model autoregressive; it is no regulariser.
No clean row sees a noisy one, so the published pass over all 2L rows is two here: the clean copy, then the noisy one on
its keys and values. That is the same function with a quarter less attention, and where clean rows meet no weight that
trains (a gated LoRA) the first pass needs no gradient, half of the work.
Source: MARS (arXiv 2604.07023), section 3 and figure 2.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from anyorder.adapters.causal.cache import Past
from anyorder.adapters.causal.documents import bounds, causal_mask
from anyorder.adapters.causal.network import CausalModel
from anyorder.sampling import at_least_float32


class Loss(NamedTuple):
    """Mean over sequences of the mean negative log-likelihood of their response tokens, in nats."""

    noisy: Tensor
    clean: Tensor


def noisy_mask(number: Tensor, positions: Tensor, block: int, *, sees_both_ways: bool = False) -> Tensor:
    """Which clean and noisy rows each noisy row may attend to, True where it may.

    Args:
        number: (B, L) int64, the document of each token in its row.
        positions: (B, L) int64, where it stands in it.
        block: B.
        sees_both_ways: let noisy rows see all of their block (block diffusion), for comparison.

    Returns:
        (B, L, 2L) bool: the clean copy, then the noisy one.
    """
    same = number[:, :, None] == number[:, None, :]
    row, column = positions[:, :, None], positions[:, None, :]
    in_block = same & (row // block == column // block)
    noisy = in_block if sees_both_ways else in_block & (column <= row)
    return torch.cat([same & (column // block < row // block), noisy], 2)


def both_copies(
    model: CausalModel, tokens: Tensor, is_response: Tensor, documents: Tensor | None, block: int
) -> tuple[Tensor, Tensor]:
    """Hidden states (B, L, E) of the clean and of the noisy copy.

    Args:
        model: the network.
        tokens: (B, L) int64; padding lies at the end.
        is_response: (B, L) bool, S: what the noisy copy hides.
        documents: (B, L) int64 for packed rows, ``None`` for one sequence a row.
        block: B.
    """
    number, positions = bounds(tokens, documents)
    visible = noisy_mask(number, positions, block, sees_both_ways=model.sees_both_ways)
    positions, past = positions.expand_as(tokens), Past(len(tokens))
    clean = model(tokens, positions, causal_mask(number, positions), past=past)
    return clean, model(tokens, positions, visible, is_response, past=Past(len(tokens), past))


def mars_loss(
    model: CausalModel,
    tokens: Tensor,
    is_response: Tensor,
    *,
    block: int,
    documents: Tensor | None = None,
    per_token: bool = False,
) -> Loss:
    """The two losses of a batch; train on ``noisy + alpha * clean`` with alpha = 1.

    Args:
        model: the network.
        tokens: (B, L) int64; padding lies at the end and is no response.
        is_response: (B, L) bool, the tokens to predict. The first token of a sequence has no row before it and does not
            count.
        block: B.
        documents: (B, L) int64, several sequences in a row; each counts like any other.
        per_token: let every token count alike instead, as packed pieces of documents want it.

    Raises:
        ValueError: if the id that serves as the mask is among the responses.
    """
    targets = _Targets(model, tokens, is_response, documents, per_token=per_token)
    clean, noisy = both_copies(model, tokens, is_response, documents, block)
    loss = targets.loss(noisy)
    if torch.is_grad_enabled() and not loss.requires_grad:
        # Without a mask a LoRA had nothing to say; a step may meet such a batch and wants a gradient all the same.
        loss = loss + sum(weight[:0].sum() for weight in model.parameters() if weight.requires_grad)
    return Loss(loss, targets.loss(clean))


def causal_loss(
    model: CausalModel,
    tokens: Tensor,
    is_response: Tensor,
    *,
    documents: Tensor | None = None,
    per_token: bool = False,
) -> Tensor:
    """Plain autoregressive fine-tuning on the same targets, weighted the same way: the control.

    Args:
        model: the network.
        tokens: (B, L) int64.
        is_response: (B, L) bool.
        documents: (B, L) int64 or ``None``.
        per_token: let every token count alike.

    Raises:
        ValueError: if the id that serves as the mask is among the responses.
    """
    number, positions = bounds(tokens, documents)
    targets = _Targets(model, tokens, is_response, documents, per_token=per_token)
    return targets.loss(model(tokens, positions.expand_as(tokens), causal_mask(number, positions)))


class _Targets:
    """The (T,) response tokens of a batch that some row predicts, and what each counts.

    A token counts one over its sequence's tokens and over the number of sequences that have any, or ``per_token`` one
    over all tokens.
    """

    def __init__(
        self, model: CausalModel, tokens: Tensor, is_response: Tensor, documents: Tensor | None, *, per_token: bool
    ) -> None:
        number, positions = (part.expand_as(tokens) for part in bounds(tokens, documents))
        self._row, self._place = (is_response & (positions > 0)).nonzero(as_tuple=True)
        self._model, self._tokens = model, tokens[self._row, self._place]
        if model.mask_id is not None and bool((self._tokens == model.mask_id).any()):
            raise ValueError(
                f"responses must be free of the mask, which is never written; got its id, {model.mask_id}, among them: "
                f"use an id that no text has, or none, and a learned vector is used"
            )
        sequence = self._row * tokens.shape[1] + number[self._row, self._place]
        if per_token:
            sequence = torch.zeros_like(sequence)
        counts = sequence.bincount()
        self._weights = 1.0 / (counts[sequence] * (counts > 0).sum())

    def loss(self, hidden: Tensor) -> Tensor:
        """The weighted cross-entropy of (B, L, E) hidden states, those of the rows before the targets."""
        logits = at_least_float32(self._model.logits(hidden[self._row, self._place - 1]))
        return (self._weights * F.cross_entropy(logits, self._tokens, reduction="none")).sum()
