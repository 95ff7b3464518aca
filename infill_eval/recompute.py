"""Sequential decoding as it was published: Hugging Face's XLNet sees the whole sequence again for every token.

The weights, tokens and order are ours, so that only the way of computing differs; greedy, so that this can be checked.
Source: Guo & Ermon 2025, the published sequential decoder (no cache).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import anyorder
from infill_eval.infiller import Request


class Recompute:
    """Decodes one request token by token with ``XLNetLMHeadModel``; a call does it once and returns 1 token a pass.

    Args:
        model: the model, whose weights are handed to transformers.
        request: one blank with a fixed number of tokens.
        scratch: an empty directory for the checkpoint.
    """

    def __init__(self, model: anyorder.Model, request: Request, scratch: Path) -> None:
        from transformers import XLNetLMHeadModel

        model.save_pretrained(scratch)
        network: Any = XLNetLMHeadModel.from_pretrained(scratch)
        self._network = network.eval()
        text, place = "".join(request.segments), len(request.segments[0])
        length = int(str(request.budget.tokens))
        ours = anyorder.infill(text, [(place, place)], model=model, length=length, method="sequential", temperature=0.0)
        self._expected = [token for span in ours.spans for token in span.token_ids]
        self._tokens = torch.tensor(ours.passage.tokens)
        self._blank = torch.tensor(ours.passage.blank) >= 0
        self._targets = self._blank.nonzero()[:, 0][torch.tensor(ours.order)]
        self._hidden = _hidden(self._blank, self._targets)
        self._mask_id = model.codec.mask_id
        self._forbidden = torch.tensor(model.forbidden_ids)

    @torch.no_grad()
    def __call__(self) -> float:
        """One decoding.

        Raises:
            RuntimeError: if its tokens are not those of greedy sequential decoding here.
        """
        tokens = self._tokens.masked_fill(self._blank, self._mask_id)
        for target in self._targets:
            mapping = torch.nn.functional.one_hot(target, len(tokens)).float()[None, None]
            logits = self._network(tokens[None], perm_mask=self._hidden, target_mapping=mapping).logits[0, 0]
            logits[self._forbidden] = -torch.inf
            tokens[target] = logits.argmax()
        if tokens[self._blank].tolist() != self._expected:
            raise RuntimeError("transformers decodes other tokens than this library: two models would be compared")
        return 1.0


def _hidden(blank: Tensor, targets: Tensor) -> Tensor:
    """(1, L, L) float, transformers' ``perm_mask``: 1 where a row may not attend.

    A row sees the steps before its own, and the prompt sees itself in both directions.
    """
    prompt = (~blank).nonzero()[:, 0]
    rank = torch.empty(len(blank), dtype=torch.long)
    rank[torch.cat([prompt, targets])] = torch.arange(len(blank))
    return (rank[None, :] >= rank.clamp(min=len(prompt))[:, None]).float()[None]
