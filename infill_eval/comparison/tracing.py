"""How many network passes each token of a text cost, counted at the network itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from infill_eval.comparison.methods import Method, Written
from infill_eval.comparison.pieces import Piece


def trace(method: Method, piece: Piece, *, temperature: float, seed: int = 0) -> tuple[Written, list[float]]:
    """One piece on its own, and how many passes each of its tokens cost.

    The tokens of a pass share it; a pass that decides none is shared by those that the next one decides.
    """
    costs: list[float] = []
    with counted(*method.passes_of()) as passes:
        paid = 0

        def decided(count: int) -> None:
            nonlocal paid
            costs.extend([(passes[0] - paid) / count] * count)
            paid = passes[0]

        written = method.write([piece], temperature=temperature, seed=seed, on_decided=decided)[0]
    return written, costs


@contextmanager
def counted(network: Any, name: str) -> Iterator[list[int]]:
    """Count the calls of a network's method; the list's one number is the count so far."""
    honest, passes = getattr(network, name), [0]

    def counting(*arguments: Any, **options: Any) -> Any:
        passes[0] += 1
        return honest(*arguments, **options)

    setattr(network, name, counting)
    try:
        yield passes
    finally:
        delattr(network, name)
