"""A loaded model: network, codec and what the checkpoint says about itself; what ``anyorder.load`` returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from anyorder.codec import Codec, Token
from anyorder.draft_length import DraftLengthPolicy
from anyorder.model.config import AnyOrderConfig
from anyorder.model.costs import stored_costs
from anyorder.model.xlnet import XLNet


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    """An any-subset autoregressive model ready to fill blanks and to score text.

    Attributes:
        name: what it was loaded as.
        network: the network behind ``anyorder.model.contract.AnySubsetModel``.
        codec: text to token ids and back.
        settings: what the checkpoint says about itself: order policy, ids, trained length.
        card: the text of its README.md, empty if it has none.
    """

    name: str
    network: XLNet
    codec: Codec
    settings: AnyOrderConfig
    card: str = ""

    @property
    def max_length(self) -> int:
        """The longest sequence, in tokens, that the checkpoint was trained on."""
        return self.settings.max_length

    @property
    def order_policy(self) -> str:
        """The order of the targets when the caller names none."""
        return self.settings.order

    @property
    def forbidden_ids(self) -> tuple[int, ...]:
        """Ids that no distribution gives mass to: the mask, what codec or checkpoint forbid, and ids of no token."""
        masks = (self.settings.mask_id, self.codec.mask_id)
        padding = range(self.codec.vocab_size, self.network.vocab_size)
        return tuple(sorted({*masks, *self.codec.forbidden_ids, *self.settings.forbidden_ids, *padding}))

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.network.device

    @property
    def dtype(self) -> torch.dtype:
        """In which precision the network computes."""
        return self.network.embedding.dtype

    @property
    def policy(self) -> DraftLengthPolicy:
        """How ``draft_length=None`` chooses: stored costs for this device, this checkpoint's measured acceptance."""
        costs = stored_costs(self.network.config, self.device)
        policy = DraftLengthPolicy(costs=costs.one_pass, two_pass_costs=costs.two_pass)
        return replace(policy, acceptance=self.settings.acceptance) if self.settings.acceptance else policy

    def tokenize(self, text: str) -> list[Token]:
        """The tokens of a text with the characters they cover; ``mask_positions`` may be indices into this list."""
        return self.codec.tokenize(text)

    def save_pretrained(self, directory: str | Path, *, dtype: str | torch.dtype | None = None) -> None:
        """Write a checkpoint that ``anyorder.load`` and ``XLNetLMHeadModel.from_pretrained`` both read.

        Args:
            directory: created if needed; existing files of a checkpoint in it are replaced.
            dtype: precision of the stored weights, the present one when omitted.

        Raises:
            ValueError: if packing rounded the weights that were loaded, the directory is a file, or ``dtype`` is not
                one of float32, bfloat16, float16, float64.
        """
        from anyorder.model.hub import save

        save(self, Path(directory), dtype=dtype)

    def __repr__(self) -> str:
        config = self.network.config
        return (
            f"Model({self.name!r}, {config.n_layer} layers of {config.d_model}, vocabulary {config.vocab_size}, "
            f"codec {self.codec.name!r}, up to {self.max_length} tokens, {self.dtype} on {self.device})"
        )
