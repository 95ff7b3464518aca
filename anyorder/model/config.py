"""The shape of an XLNet checkpoint and what anyorder stores beside it: codec, order policy, ids, trained length.

``config.json`` stays a Hugging Face ``XLNetConfig`` that ``XLNetLMHeadModel.from_pretrained`` reads; one extra object,
``"anyorder"``, carries what Hugging Face has no field for. Settings this engine does not implement are errors, never
silence: a checkpoint that loads gives the numbers its authors saw.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, get_args

from anyorder.order import OrderName

FORMAT_VERSION = 1
"""Version of the ``"anyorder"`` object; a checkpoint with a newer one is refused."""

ACTIVATIONS = ("gelu", "relu", "gelu_new")
"""The feed-forward activations the engine implements, by their Hugging Face names."""


@dataclass(frozen=True, kw_only=True)
class AnyOrderConfig:
    """What a checkpoint says about itself beyond its weights; every field survives save and load.

    Attributes:
        codec: name of the codec that turns text into ids.
        order: the order of the targets when the caller names none.
        mask_id: id of the mask token.
        forbidden_ids: ids that no distribution gives mass to (mask, padding, specials the codec does not use).
        max_length: the longest sequence, in tokens, the checkpoint was trained on.
        acceptance: measured share of drafts kept at lag 1, 2, ... on held-out text; the prior of ``draft_length=None``.
    """

    codec: str
    order: str = "ascending"
    mask_id: int
    forbidden_ids: tuple[int, ...] = ()
    max_length: int = 512
    acceptance: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what would fail only later, or silently do something else.

        Raises:
            ValueError: naming the field, what is allowed and what was got.
        """
        if not isinstance(self.codec, str):
            raise ValueError(f"config: codec must be a name, got {self.codec!r}")
        if self.order not in get_args(OrderName):
            names = ", ".join(map(repr, get_args(OrderName)))
            raise ValueError(f"config: order must be one of {names}, got {self.order!r}")
        _check_number("mask_id", self.mask_id, int, at_least=0)
        _check_number("max_length", self.max_length, int, at_least=1)
        for token_id in self.forbidden_ids:
            _check_number("forbidden_ids", token_id, int, at_least=0)
        for rate in self.acceptance:
            _check_number("acceptance", rate, float, at_least=0)
            if rate > 1:
                raise ValueError(f"config: acceptance holds probabilities, at most 1, got {rate!r}")

    def to_dict(self) -> dict[str, Any]:
        """The object written under ``"anyorder"`` in ``config.json``."""
        return {"version": FORMAT_VERSION, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> AnyOrderConfig:
        """Read the ``"anyorder"`` object of a ``config.json``.

        Raises:
            ValueError: if its version is newer than this package understands, or a field is missing or unknown.
        """
        if not isinstance(values, dict):
            raise ValueError(f'the "anyorder" value of config.json must be an object, got {values!r}')
        values = dict(values)
        version = values.pop("version", None)
        if version != FORMAT_VERSION:
            raise ValueError(
                f"this checkpoint's anyorder format is version {version!r}, this package reads version "
                f"{FORMAT_VERSION}; a newer anyorder may be needed"
            )
        try:
            for name in ("forbidden_ids", "acceptance"):
                values[name] = tuple(values.get(name, ()))
            return cls(**values)
        except TypeError as error:
            raise ValueError(f'the "anyorder" object of config.json does not fit: {error}') from None


@dataclass(frozen=True, kw_only=True)
class XLNetConfig:
    """The hyperparameters of the network, under Hugging Face's names.

    Attributes:
        vocab_size: V, number of token ids.
        d_model: E, embedding width.
        n_layer: number of layers.
        n_head: H, attention heads; ``d_model`` is a multiple of it.
        d_inner: width of the feed-forward layer.
        ff_activation: one of ``ACTIVATIONS``.
        layer_norm_eps: epsilon of the layer norms.
        dropout: probability used in training mode only.
        clamp_len: relative distances beyond it count as it; negative means no clamp.
        initializer_range: standard deviation of freshly initialised weights.
        tie_word_embeddings: whether the head shares the embedding matrix.
        other: every other key of ``config.json`` but ``"anyorder"``, kept so that saving loses nothing.
    """

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_inner: int
    ff_activation: str = "gelu"
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1
    clamp_len: int = -1
    initializer_range: float = 0.02
    tie_word_embeddings: bool = True
    other: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what the engine would silently compute differently.

        Raises:
            ValueError: naming the setting, what is allowed and what was got.
        """
        for name in ("vocab_size", "d_model", "n_layer", "n_head", "d_inner"):
            _check_number(name, getattr(self, name), int, at_least=1)
        _check_number("clamp_len", self.clamp_len, int)
        for name in ("layer_norm_eps", "dropout", "initializer_range"):
            _check_number(name, getattr(self, name), float, at_least=0)
        if not isinstance(self.tie_word_embeddings, bool):
            raise ValueError(f"config: tie_word_embeddings must be true or false, got {self.tie_word_embeddings!r}")
        self._check_shape()

    def _check_shape(self) -> None:
        if self.d_model % self.n_head:
            raise ValueError(f"config: d_model ({self.d_model}) must be a multiple of n_head ({self.n_head})")
        if self.d_model % 2:
            raise ValueError(f"config: d_model must be even (sines and cosines), got {self.d_model}")
        if self.other.get("d_head") not in (None, self.d_head):
            raise ValueError(f"config: d_head must be d_model / n_head ({self.d_head}), got {self.other['d_head']!r}")
        if self.ff_activation not in ACTIVATIONS:
            raise ValueError(
                f"config: ff_activation must be one of {', '.join(ACTIVATIONS)}, got {self.ff_activation!r}"
            )
        if self.other.get("bi_data"):
            raise ValueError("config: bi_data=true (reversed half batches) is not supported; only bi_data=false is")
        if self.other.get("attn_type", "bi") != "bi":
            raise ValueError(f"config: attn_type must be 'bi', got {self.other['attn_type']!r}")

    @property
    def d_head(self) -> int:
        """D, the width of one head."""
        return self.d_model // self.n_head

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> XLNetConfig:
        """Read a Hugging Face ``config.json`` of an XLNet model.

        Raises:
            ValueError: if it is another architecture's, lacks a field, or asks for what the engine does not implement.
        """
        model_type = values.get("model_type", "xlnet")
        if model_type != "xlnet":
            raise ValueError(f"config: model_type must be 'xlnet', got {model_type!r}")
        names = [name for name in cls.__dataclass_fields__ if name != "other"]
        missing = [name for name in ("vocab_size", "d_model", "n_layer", "n_head", "d_inner") if name not in values]
        if missing:
            raise ValueError(f"config: missing {', '.join(missing)}: is this the config.json of an XLNet model?")
        known = {name: values[name] for name in names if name in values}
        return cls(**known, other={name: value for name, value in values.items() if name not in (*names, "anyorder")})

    def to_dict(self) -> dict[str, Any]:
        """The Hugging Face ``config.json`` of this shape."""
        values = asdict(self)
        other = values.pop("other")
        return {"architectures": ["XLNetLMHeadModel"], "model_type": "xlnet", **other, **values}


def _check_number(name: str, value: object, kind: type[int] | type[float], *, at_least: int | None = None) -> None:
    """Raise ValueError unless ``value`` is a finite number of that kind (an integer is a float, a bool neither)."""
    fits = isinstance(value, int if kind is int else (int, float)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or (at_least is not None and value < at_least):  # type: ignore[arg-type,operator]
        wanted = "an integer" if kind is int else "a number"
        bound = "" if at_least is None else f" of at least {at_least}"
        raise ValueError(f"config: {name} must be {wanted}{bound}, got {value!r}")
