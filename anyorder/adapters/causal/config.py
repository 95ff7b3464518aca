"""The shape of a causal network, read from a transformers config; whatever would change the arithmetic is refused.

Three families are one network with switches: RMS norms before each half of a layer, rotary positions, grouped keys, a
gated feed-forward. Qwen2 has biases on the query, key and value projections, Qwen3 norms the queries and keys of every
head, Llama has neither (its config can ask for biases).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FAMILIES = ("llama", "qwen2", "qwen3")
STEADY_ROTARY = ("default", "linear", "llama3", "yarn")
"""Kinds of rotary frequencies that stay what they are however long the text gets."""


@dataclass(frozen=True, kw_only=True)
class CausalConfig:
    """What the network needs to know.

    Attributes:
        family: the transformers ``model_type``.
        vocab_size: V.
        width: E.
        inner: width of the feed-forward.
        num_layers: how many layers.
        num_heads: H, query heads.
        num_key_heads: heads of the keys and values; it divides ``num_heads``.
        head_width: D.
        eps: of every RMS norm.
        input_bias: whether the query, key and value projections have biases.
        output_bias: whether the attention's output projection has one.
        feed_forward_bias: whether the feed-forward's projections have them.
        has_head_norms: whether queries and keys are normed head by head.
        is_tied: whether the head is the embedding.
        max_length: positions the model was made for.
        eos_ids: the ids that end a text.
    """

    family: str
    vocab_size: int
    width: int
    inner: int
    num_layers: int
    num_heads: int
    num_key_heads: int
    head_width: int
    eps: float
    input_bias: bool
    output_bias: bool
    feed_forward_bias: bool
    has_head_norms: bool
    is_tied: bool
    max_length: int
    eos_ids: tuple[int, ...]

    @classmethod
    def from_transformers(cls, config: Any, eos_ids: tuple[int, ...] = ()) -> CausalConfig:
        """Read a ``LlamaConfig``, ``Qwen2Config`` or ``Qwen3Config``.

        Raises:
            ValueError: for another family, another activation, sliding windows, or frequencies that change with length.
        """
        family = getattr(config, "model_type", None)
        if family not in FAMILIES:
            raise ValueError(f"the causal adapter runs models of type {', '.join(FAMILIES)}; got {family!r}")
        if config.hidden_act != "silu":
            raise ValueError(
                f"the causal adapter knows the activation 'silu'; the config asks for {config.hidden_act!r}"
            )
        windows = [kind for kind in getattr(config, "layer_types", None) or () if kind != "full_attention"]
        if windows:
            raise ValueError(
                f"only full attention is supported; {len(windows)} layers of this model use {windows[0]!r}"
            )
        rotary = (config.rope_parameters or {}).get("rope_type", "default")
        if rotary not in STEADY_ROTARY:
            raise ValueError(f"rotary positions of type {', '.join(STEADY_ROTARY)} are supported; got {rotary!r}")
        bias = bool(getattr(config, "attention_bias", False))
        return cls(
            family=family,
            vocab_size=config.vocab_size,
            width=config.hidden_size,
            inner=config.intermediate_size,
            num_layers=config.num_hidden_layers,
            num_heads=config.num_attention_heads,
            num_key_heads=config.num_key_value_heads or config.num_attention_heads,
            head_width=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
            eps=config.rms_norm_eps,
            input_bias=bias or family == "qwen2",
            output_bias=bias,
            feed_forward_bias=bool(getattr(config, "mlp_bias", False)),
            has_head_norms=family == "qwen3",
            is_tied=bool(config.tie_word_embeddings),
            max_length=config.max_position_embeddings,
            eos_ids=eos_ids,
        )

    @property
    def heads_per_key(self) -> int:
        """G, how many query heads share a key head."""
        return self.num_heads // self.num_key_heads
