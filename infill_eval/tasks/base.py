"""What every task offers: items with a reference, and values for samples of an item; no model in sight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from infill_eval.infiller import Sample
from infill_eval.tracking import Track, untracked


@dataclass(frozen=True, kw_only=True)
class Item:
    """A text with blanks and what stood in them.

    Attributes:
        id: unique in the task.
        segments: the text around the blanks.
        reference: what stood in each blank.
    """

    id: str
    segments: tuple[str, ...]
    reference: tuple[str, ...]

    def filled(self, texts: Sequence[str]) -> str:
        """The whole text with ``texts`` in the blanks."""
        pieces = [self.segments[0]]
        for text, segment in zip(texts, self.segments[1:], strict=True):
            pieces += [text, segment]
        return "".join(pieces)


class Filled(NamedTuple):
    """An item and its samples."""

    item: Item
    samples: Sequence[Sample]


class Task(Protocol):
    """Items and how to score what a model puts into their blanks."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    @property
    def baselines(self) -> bool:
        """Whether rows for an empty fill and the reference make sense and are affordable."""
        ...

    def describe(self) -> dict[str, Any]:
        """Settings that change numbers, the protocol first; two runs are comparable if these are equal."""
        ...

    def items(self) -> Sequence[Item]:
        """All items, in a fixed order."""
        ...

    def score(self, filled: Sequence[Filled], *, track: Track[Any] = untracked) -> list[dict[str, float]]:
        """Values by metric for each item, its samples already averaged."""
        ...
