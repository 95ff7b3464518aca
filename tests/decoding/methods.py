"""Every way of decoding whose output must follow the joint, and a drafter nobody in the library knows."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from table_model import TableModel
from torch import Tensor

from anyorder.decoding import DecodeOptions
from anyorder.draft_length import DraftLengthPolicy, PassCosts
from anyorder.drafting import Drafts
from anyorder.order import Order
from anyorder.sampling import Sampling
from anyorder.uniforms import Uniforms
from anyorder.visibility import draft_rows


@dataclass(frozen=True)
class StubbornDrafter:
    """A user's drafter: q is an arbitrary table of the step alone, ignorant of the model and of ``sampling``."""

    vocab_size: int

    def propose(
        self, tokens: Tensor, order: Order, num_decoded: Tensor, k: Tensor, sampling: Sampling, uniforms: Uniforms
    ) -> Drafts:
        where = torch.arange(int(k.max())) < k[:, None]
        steps = torch.where(where, num_decoded[:, None] + torch.arange(where.shape[1]), 0)
        identity = torch.arange(order.num_steps).expand(len(k), -1)
        rows = draft_rows(steps, torch.zeros_like(k))
        table = TableModel(self.vocab_size, seed=99)
        q = table.forward(identity, identity, None, encode=None, query=rows).softmax(-1)
        return Drafts(uniforms.categorical(q, where), q, torch.zeros_like(k))


EAGER = DraftLengthPolicy(costs=PassCosts(rows=(1, 40), costs=(1.0, 2.0)), acceptance=(0.4, 0.3, 0.3), prior_weight=0.5)
"""A policy under which one more test or rejection changes the draft length."""

LOSSLESS: dict[str, dict[str, object]] = {
    "sequential": {"method": "sequential"},
    "assd K=2": {"method": "assd", "draft_length": 2},
    "assd K=3": {"method": "assd", "draft_length": 3},
    "assd K=5": {"method": "assd", "draft_length": 5},
    "assd adaptive": {"method": "assd", "policy": EAGER},
    "assd ngram K=2": {"method": "assd", "draft_length": 2, "drafter": "ngram"},
    "one-pass K=0": {"method": "one-pass", "draft_length": 0},
    "one-pass K=1": {"method": "one-pass", "draft_length": 1},
    "one-pass K=2": {"method": "one-pass", "draft_length": 2},
    "one-pass K=3": {"method": "one-pass", "draft_length": 3},
    "one-pass K=2, 3 rows": {"method": "one-pass", "draft_length": 2, "max_rows": 3},
    "one-pass K=3, 5 rows": {"method": "one-pass", "draft_length": 3, "max_rows": 5},
    "one-pass adaptive": {"method": "one-pass", "policy": EAGER},
    "one-pass adaptive, 4 rows": {"method": "one-pass", "policy": EAGER, "max_rows": 4},
    "one-pass ngram K=1": {"method": "one-pass", "draft_length": 1, "drafter": "ngram"},
    "one-pass ngram K=3": {"method": "one-pass", "draft_length": 3, "drafter": "ngram"},
    "one-pass ngram adaptive": {"method": "one-pass", "drafter": "ngram", "policy": EAGER},
    "user's drafter K=2": {"method": "one-pass", "draft_length": 2, "drafter": StubbornDrafter(3)},
}

CORE = (
    "sequential",
    "assd K=3",
    "assd adaptive",
    "assd ngram K=2",
    "one-pass K=1",
    "one-pass K=2",
    "one-pass K=3, 5 rows",
    "one-pass adaptive",
    "one-pass ngram K=1",
    "user's drafter K=2",
)
"""One of each kind, for laws that are checked under many settings."""

SAMPLINGS = {
    "plain": Sampling(),
    "temperature": Sampling(temperature=0.6),
    "top-k": Sampling(top_k=2),
    "top-p": Sampling(top_p=0.75),
    "all three": Sampling(temperature=1.7, top_k=2, top_p=0.9),
    "greedy": Sampling(temperature=0.0),
}


def options(method: str, sampling: str = "plain") -> DecodeOptions:
    return DecodeOptions(**LOSSLESS[method], sampling=SAMPLINGS[sampling])  # type: ignore[arg-type]
