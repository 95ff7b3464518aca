"""XLNet in order space: content and query rows of any steps, one static cache, every mask a prefix.

Equal to Hugging Face's ``XLNetLMHeadModel`` with ``perm_mask`` and ``target_mapping`` on the same weights, except
that a row that may see nothing attends to nothing (Hugging Face lets it see everything). A pass costs its rows, not
the length of the text, which is the whole speed-up over recomputing the sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from anyorder.model.attention import Geometry, RelativeAttention, geometry
from anyorder.model.cache import KeyValueCache
from anyorder.model.contract import Cache
from anyorder.model.linear import Linear, Packing
from anyorder.model.ragged import Parts, parts_worth_leaving
from anyorder.visibility import Rows, concat

if TYPE_CHECKING:
    from anyorder.model.config import XLNetConfig


class _Tables(NamedTuple):
    """Distance tables with what they were computed from: the weights are kept so that no other takes their address."""

    state: tuple[tuple[int, int, torch.device, torch.dtype], ...]
    weights: list[Tensor]
    num_steps: int
    tables: list[Tensor]


class Layer(nn.Module):
    """One post-norm layer: relative attention, then the feed-forward, each added to its input and normalised."""

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        self.attention = RelativeAttention(config)
        self.attention_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.expand = Linear(config.d_model, config.d_inner)
        self.contract = Linear(config.d_inner, config.d_model)
        self.feed_forward_norm = nn.LayerNorm(config.d_model, eps=config.layer_norm_eps)
        self.activation = config.ff_activation
        self.dropout = config.dropout

    def forward(self, rows: Tensor, key: Tensor, value: Tensor, table: Tensor, seen: Geometry) -> Tensor:
        """(B, R, E) -> (B, R, E), given the keys and values (B, H, S, D) the rows may see."""
        rows = self.attention_norm(
            rows + F.dropout(self.attention(rows, key, value, table, seen), self.dropout, self.training)
        )
        inner = self.expand(rows)
        inner = F.relu(inner) if self.activation == "relu" else F.gelu(inner, approximate=self._approximate)
        out: Tensor = self.feed_forward_norm(
            rows + F.dropout(self.contract(F.dropout(inner, self.dropout, self.training)), self.dropout, self.training)
        )
        return out

    def pack(self, packing: Packing) -> None:
        """Pack every linear layer in place."""
        attention = self.attention
        for linear in (attention.query, attention.key_value, attention.output, self.expand, self.contract):
            linear.pack(packing)

    @property
    def _approximate(self) -> str:
        return "tanh" if self.activation == "gelu_new" else "none"


class XLNet(nn.Module):
    """The two-stream network behind ``AnySubsetModel``; see ``anyorder.model.contract`` for ``forward``.

    Attributes:
        config: the shape.
        embedding: (V, E), shared with the head when the config ties them.
        mask_embedding: (E,), what a query row starts from at every position.
        layers: the layers.
        head: E -> V.
    """

    def __init__(self, config: XLNetConfig) -> None:
        super().__init__()
        self.config = config
        self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
        self.mask_embedding = nn.Parameter(torch.empty(config.d_model))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.n_layer))
        self.head = Linear(config.d_model, config.vocab_size)
        if config.tie_word_embeddings:
            self.head.weight = self.embedding
        self._tables: _Tables | None = None

    def initialise(self, generator: torch.Generator) -> XLNet:
        """Fresh weights: normal with the config's standard deviation, zero biases, unit norms (Hugging Face's rule)."""
        with torch.no_grad():
            for parameter in self.parameters():
                if parameter.dim() > 1 or parameter is self.mask_embedding:
                    parameter.normal_(0.0, self.config.initializer_range, generator=generator)
                else:
                    parameter.zero_()
            for module in self.modules():
                if isinstance(module, nn.LayerNorm):
                    module.weight.fill_(1.0)
        return self

    @property
    def vocab_size(self) -> int:
        """V, the number of token ids."""
        return self.config.vocab_size

    @property
    def device(self) -> torch.device:
        """Where the weights lie."""
        return self.embedding.device

    def pack(self, packing: Packing) -> XLNet:
        """Pack every linear layer in place for fast few-row passes without gradients; see ``anyorder.model.linear``."""
        for depth in range(self.config.n_layer):
            self.layer(depth).pack(packing)
        self.head.pack(packing, self.embedding if self.config.tie_word_embeddings else None)
        return self.requires_grad_(packing == "plain")

    def layer(self, depth: int) -> Layer:
        """The layer at ``depth``, counted from the input."""
        return cast("Layer", self.layers[depth])

    def new_cache(self, batch: int, num_steps: int) -> KeyValueCache:
        """An empty cache for ``batch`` sequences of at most ``num_steps`` steps."""
        shape = (batch, self.config.n_head, num_steps, self.config.d_head)
        return KeyValueCache.empty(self.config.n_layer, shape, self.embedding)

    def forward(
        self,
        tokens: Tensor,
        positions: Tensor,
        cache: Cache | None,
        *,
        encode: Rows | None,
        query: Rows | None,
        num_slots: int | None = None,
    ) -> Tensor:
        """One network pass: encode some steps, answer some queries; see ``AnySubsetModel.forward``."""
        if cache is not None and not isinstance(cache, KeyValueCache):
            raise TypeError(f"cache must come from this model's new_cache, got {type(cache).__name__}")
        num_steps = tokens.shape[1]
        nothing = Rows(tokens.new_empty(tokens.shape[0], 0), tokens.new_empty(tokens.shape[0], 0))
        encode, query = encode or nothing, query or nothing
        rows = concat(encode, query)
        row_positions = _at(positions, rows.steps)
        if cache is not None:
            num_slots = min(max(num_steps if num_slots is None else num_slots, 1), cache.num_steps)
            slot_steps = torch.arange(num_slots, device=tokens.device)[None]
            slot_positions = positions[:, :num_slots]
        else:
            slot_steps, slot_positions = encode.steps, row_positions[:, : encode.steps.shape[1]]
        parts = self._parts(encode.steps < num_steps, query.steps < num_steps)
        seen = geometry(rows, row_positions, slot_steps, slot_positions, num_steps)
        content, asked = _at(tokens, encode.steps), query.steps
        if parts is not None:
            seen = seen._replace(there=parts.every)
            content, asked = parts.content.gather(content), parts.query.gather(asked)
        queries = self.mask_embedding.expand(*asked.shape, -1)
        hidden = torch.cat([F.embedding(content, self.embedding), queries], 1)
        hidden = F.dropout(hidden, self.config.dropout, self.training)
        answers = self._layers(hidden, encode.steps, cache, seen, num_steps, parts)
        logits: Tensor = self.head(F.dropout(answers, self.config.dropout, self.training))
        return logits if parts is None else parts.query.pad(logits)

    def _parts(self, encodes: Tensor, asks: Tensor) -> Parts | None:
        """Which of the (B, T) and (B, K) rows are computed, ``None`` if all are.

        Only where a row costs what it computes and no gradient is asked for: elsewhere moving rows costs more, and an
        accelerator would have to be waited for to learn how many there are.
        """
        if len(encodes) == 1 or encodes.device.type != "cpu" or torch.is_grad_enabled():
            return None
        return parts_worth_leaving(encodes, asks)

    def _layers(
        self,
        hidden: Tensor,
        steps: Tensor,
        cache: KeyValueCache | None,
        seen: Geometry,
        num_steps: int,
        parts: Parts | None,
    ) -> Tensor:
        """Run all layers over the rows, content (at ``steps``) first, and return the query rows (B, K, E).

        Content rows write the cache that all rows of the pass then read. Above the last layer's keys nobody reads them.
        """
        if hidden.shape[1] == 0:  # an empty prompt to encode, and nothing asked
            return hidden
        encoding, asking = (None, None) if parts is None else (parts.content, parts.query)
        num_content = steps.shape[1] if encoding is None else len(encoding.places)
        tables = self.distance_tables(num_steps)
        slots = cache.slots(steps) if cache is not None else None
        for depth in range(self.config.n_layer):
            layer = self.layer(depth)
            key, value = layer.attention.keys_values(hidden[:, :num_content], encoding)
            if cache is not None and slots is not None:
                cache.write(depth, slots, key, value)
                key, value = cache.read(depth, seen.distance.shape[2])
            if depth == self.config.n_layer - 1:
                hidden, seen = hidden[:, num_content:], seen.from_row(steps.shape[1], asking)
                if hidden.shape[1] == 0:
                    return hidden
            hidden = layer(hidden, key, value, tables[depth], seen)
        return hidden

    def distance_tables(self, num_steps: int) -> list[Tensor]:
        """r(d) / sqrt(D) of every layer for all distances among ``num_steps`` positions: (H, D, 2 num_steps) each.

        They depend on the weights alone, so without gradients they are computed once and kept until a weight changes.
        """
        attentions = [self.layer(depth).attention for depth in range(self.config.n_layer)]
        if torch.is_grad_enabled() and any(attention.relative.requires_grad for attention in attentions):
            # An optimiser is about to change the weights, and fused ones do so without a new tensor version.
            self._tables = None
            return [attention.distance_table(num_steps) for attention in attentions]
        weights = [attention.relative.detach() for attention in attentions]
        state = tuple((w.data_ptr(), _version(w), w.device, w.dtype) for w in weights)
        kept = self._tables  # read once: another thread may replace it meanwhile
        if kept is None or kept.state != state or kept.num_steps < num_steps:
            with torch.inference_mode(False), torch.no_grad():  # a later pass with gradients may use them too
                tables = [attention.distance_table(num_steps).contiguous() for attention in attentions]
            kept = self._tables = _Tables(state, weights, num_steps, tables)
        surplus = kept.num_steps - num_steps
        # Any column at index 2 num_steps - 1 serves as the spare one: no distance among num_steps positions reaches it.
        return [table[..., surplus : surplus + 2 * num_steps] for table in kept.tables]


def _version(weight: Tensor) -> int:
    """How often a weight was changed in place; tensors made under inference mode do not count."""
    return 0 if weight.is_inference() else weight._version


def _at(by_step: Tensor, steps: Tensor) -> Tensor:
    """Values (B, L) at (B, R) steps; rows that take no part read the last step, and nothing of it is kept."""
    return by_step.gather(1, steps.clamp(max=by_step.shape[1] - 1))
