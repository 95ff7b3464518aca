"""Which tokens may not be drawn: ids that never may, and those that would complete a forbidden string where they stand.

A forbidden id has its logit at minus infinity before the softmax, in p and in q alike (zeroing after the softmax
without renormalising, as the published code does, biases the ratio). A forbidden *string* may be assembled from several
tokens in any order, so its ban depends on context: at a step, token x is banned if the bytes of (left neighbours + x +
right neighbours) contain the string across x, the neighbours being the run of positions directly left and right of it
in the same blank that the row sees. That makes the ban a function of the row's prefix, and p with the ban renormalised
is a conditional like any other: speculation stays exact for it. The bookkeeping is a string matcher (Knuth, Morris &
Pratt 1977) run from both sides, tabulated over the vocabulary once a string, so a pass costs tensor operations and no
host loop. A blank that owns the space before it bans, at its first position, the tokens that do not begin with one: the
fill is drawn from the model's distribution given that the space is there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from anyorder.order import Order
from anyorder.visibility import Rows


@dataclass(frozen=True, kw_only=True)
class ForbiddenString:
    """One byte string and what every token does to a partial match of it.

    With ``m`` the length of the string, a *left state* ``l < m`` says that the text so far ends in the first ``l``
    bytes of the string (the longest such), a *right state* that the text to come starts with its last ``r`` bytes.

    Attributes:
        after: (m, V) int64, the left state once a token was appended to a text in left state ``l``.
        before: (m, V) int64, the right state once a token was put before a text in right state ``r``.
        completes: (m, V) bool, whether appending the token completes the string.
        joins: (m * m,) bool, whether a text in left state ``l`` followed by one in right state ``r`` contains the
            string across the seam, at index ``l * m + r``.
        window: how many neighbours on one side can matter; ``None`` if tokens without bytes are allowed between them.
    """

    after: Tensor
    before: Tensor
    completes: Tensor
    joins: Tensor
    window: int | None

    def banned(self, left: Tensor, right: Tensor) -> Tensor:
        """(B, R, V) bool: the tokens that may not stand between texts in these (B, R) left and right states."""
        reached = self.after[left] * len(self.after) + right[..., None]
        return self.completes[left] | self.joins[reached]


@dataclass(frozen=True, kw_only=True)
class Forbidden:
    """What no fill may contain; made once for a vocabulary, then told the blanks of a batch by ``within``.

    Attributes:
        ids: (V,) bool, the tokens that are never drawn.
        strings: the strings that several tokens could assemble.
        unspaced: (V,) bool, the tokens that do not begin with a space.
        blank: (B, L) int64 in position space, the number of the blank a position belongs to, -1 outside; only needed if
            there are strings.
        spaced: (B, L) bool in position space, where only tokens that begin with a space may stand; ``None`` for
            nowhere.
    """

    ids: Tensor
    strings: tuple[ForbiddenString, ...] = ()
    unspaced: Tensor | None = None
    blank: Tensor | None = None
    spaced: Tensor | None = None

    @classmethod
    def of(
        cls,
        vocab_size: int,
        *,
        ids: Iterable[int] = (),
        strings: Iterable[bytes] = (),
        token_bytes: Sequence[bytes] | None = None,
        space_ids: Iterable[int] = (),
    ) -> Forbidden:
        """Forbid token ids (mask, padding, other specials) and byte strings.

        Args:
            vocab_size: V.
            ids: ids never drawn.
            strings: what no fill may contain. One that a single byte makes up is a matter of ids alone.
            token_bytes: the bytes each of the V ids stands for, needed with ``strings``; empty for specials.
            space_ids: the tokens that begin with a space, needed where a blank owns the space before it.

        Raises:
            ValueError: an id outside ``range(vocab_size)``, an empty string, or token bytes that are missing or too
                few.
        """
        banned = torch.zeros(vocab_size, dtype=torch.bool)
        for token in ids:
            if not 0 <= token < vocab_size:
                raise ValueError(f"forbidden ids must lie in range({vocab_size}), the vocabulary; got {token!r}")
            banned[token] = True
        wanted = tuple(dict.fromkeys(strings))
        if wanted and (token_bytes is None or len(token_bytes) != vocab_size):
            got = "none" if token_bytes is None else f"{len(token_bytes)}"
            raise ValueError(f"forbidden strings need the bytes of all {vocab_size} tokens (token_bytes); got {got}")
        if b"" in wanted:
            raise ValueError("a forbidden string must not be empty: every fill contains the empty string")
        for string in wanted:
            banned |= torch.tensor([string in piece for piece in token_bytes or ()])
        made = tuple(_tabulate(string, token_bytes or (), banned) for string in wanted if len(string) > 1)
        unspaced = torch.ones(vocab_size, dtype=torch.bool)
        unspaced[list(space_ids)] = False
        return cls(ids=banned, strings=made, unspaced=unspaced)

    def within(self, blank: Tensor, spaced: Tensor | None = None) -> Forbidden:
        """The same bans for a batch whose blanks are (B, L) ``blank`` and where ``spaced`` asks for spaces."""
        return dataclasses.replace(self, blank=blank, spaced=spaced if spaced is not None and spaced.any() else None)

    def select(self, rows: Tensor) -> Forbidden:
        """The bans of some rows of the batch, ``rows`` being (A,) int64 row numbers."""
        blank, spaced = (None if each is None else each[rows] for each in (self.blank, self.spaced))
        return dataclasses.replace(self, blank=blank, spaced=spaced)

    def to(self, device: torch.device | str) -> Forbidden:
        """The same bans with their tensors on ``device``."""
        strings = tuple(
            ForbiddenString(
                after=string.after.to(device),
                before=string.before.to(device),
                completes=string.completes.to(device),
                joins=string.joins.to(device),
                window=string.window,
            )
            for string in self.strings
        )
        unspaced, blank, spaced = (
            None if each is None else each.to(device) for each in (self.unspaced, self.blank, self.spaced)
        )
        return Forbidden(ids=self.ids.to(device), strings=strings, unspaced=unspaced, blank=blank, spaced=spaced)

    def mask(self, logits: Tensor, tokens: Tensor, order: Order, query: Rows) -> Tensor:
        """Minus infinity at every token that its row may not draw: (B, K, V) as ``logits``; see ``banned``."""
        return logits.masked_fill(self.banned(tokens, order, query), -math.inf)

    def banned(self, tokens: Tensor, order: Order, query: Rows) -> Tensor:
        """Which tokens each row may not draw.

        Args:
            tokens: (B, L) in order space; a row looks only at steps below its ``num_visible``.
            order: where the steps lie.
            query: the (B, K) rows.

        Returns:
            (V,) bool if it is the same for all rows, else (B, K, V).

        Raises:
            ValueError: if there are forbidden strings and ``within`` was not called.
        """
        banned = self.ids
        if self.spaced is not None and self.unspaced is not None:
            position = order.sigma.gather(1, query.steps.clamp(max=order.num_steps - 1))
            banned = banned | (self.spaced.gather(1, position)[..., None] & self.unspaced)
        if self.strings:
            if self.blank is None:
                raise ValueError("forbidden strings need to know the blanks of the batch: use forbidden.within(blank)")
            neighbours = _Neighbours(tokens, order, query, self.blank)
            for string in self.strings:
                left = neighbours.state(string.after, -1, string.window)
                right = neighbours.state(string.before, 1, string.window)
                banned = banned | string.banned(left, right)
        return banned


class _Neighbours:
    """The decided tokens directly beside a row's position, as far as the row sees them and the blank reaches."""

    def __init__(self, tokens: Tensor, order: Order, query: Rows, blank: Tensor) -> None:
        self._width = order.num_steps
        rank = order.rank
        self._tokens = tokens.gather(1, rank)
        self._rank, self._blank, self._visible = rank, blank, query.num_visible
        self._position = order.sigma.gather(1, query.steps.clamp(max=self._width - 1))

    def state(self, transitions: Tensor, direction: int, window: int | None) -> Tensor:
        """(B, K) int64, the matcher's state after the run on one side, read from its far end towards the row."""
        reach = self._width - 1 if window is None else min(window, self._width - 1)
        away = torch.arange(1, reach + 1, device=self._position.device) * direction
        neighbour = self._position[..., None] + away
        inside = (neighbour >= 0) & (neighbour < self._width)
        flat = neighbour.clamp(0, self._width - 1).flatten(1)
        own_blank = self._blank.gather(1, self._position)[..., None]
        same_blank = (self._at(self._blank, flat, neighbour) == own_blank) & (own_blank >= 0)
        seen = self._at(self._rank, flat, neighbour) < self._visible[..., None]
        in_run = (inside & same_blank & seen).long().cumprod(-1).bool()
        token = self._at(self._tokens, flat, neighbour)
        state = torch.zeros_like(self._position)
        for far in range(reach - 1, -1, -1):
            state = torch.where(in_run[..., far], transitions[state, token[..., far]], state)
        return state

    @staticmethod
    def _at(by_position: Tensor, flat: Tensor, like: Tensor) -> Tensor:
        return by_position.gather(1, flat).view_as(like)


def _tabulate(string: bytes, token_bytes: Sequence[bytes], banned: Tensor) -> ForbiddenString:
    """Read every token from every state of the matcher, once."""
    after, completes = _transitions(string, token_bytes)
    before, _ = _transitions(string[::-1], [piece[::-1] for piece in token_bytes])
    size = len(string)
    joins = torch.tensor(
        [string in string[:left] + string[size - right :] for left in range(size) for right in range(size)]
    )
    # A partial match has fewer bytes than the string, so as many neighbours matter, if each has a byte.
    has_bytes = torch.tensor([len(piece) > 0 for piece in token_bytes])
    window = size - 1 if bool((has_bytes | banned).all()) else None
    return ForbiddenString(after=after, before=before, completes=completes, joins=joins, window=window)


def _transitions(string: bytes, token_bytes: Sequence[bytes]) -> tuple[Tensor, Tensor]:
    """(m, V) next state and (m, V) whether the string was completed on the way, for every state and token."""
    step, completing = _automaton(string)
    longest = max(map(len, token_bytes))
    padded = torch.tensor([list(piece.ljust(longest)) for piece in token_bytes])  # what pads is never read
    lengths = torch.tensor([len(piece) for piece in token_bytes])
    state = torch.arange(len(string))[:, None].expand(-1, len(token_bytes)).clone()
    completed = torch.zeros_like(state, dtype=torch.bool)
    for place in range(longest):
        byte = padded[:, place].expand_as(state)
        active = place < lengths
        completed |= completing[state, byte] & active
        state = torch.where(active, step[state, byte], state)
    return state, completed


def _automaton(string: bytes) -> tuple[Tensor, Tensor]:
    """(m, 256) next state and (m, 256) whether the byte completes the string: Knuth, Morris & Pratt's matcher."""
    size = len(string)
    step = torch.zeros(size, 256, dtype=torch.long)
    completing = torch.zeros(size, 256, dtype=torch.bool)
    for state in range(size):
        for byte in set(string):  # any other byte leads back to the start
            text = string[:state] + bytes([byte])
            completing[state, byte] = text == string
            longest = min(len(text), size - 1)
            step[state, byte] = next(n for n in range(longest, -1, -1) if text.endswith(string[:n]))
    return step, completing
