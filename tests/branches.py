"""Walk every branch of a randomised algorithm, and so know its output distribution exactly.

``EnumeratedUniforms`` takes the place of ``Uniforms``: instead of drawing, it follows a script of choices and
multiplies up their probabilities. A run that goes beyond its script takes the first possible choice and notes all
others as new scripts; running those in turn visits every branch exactly once. All scripts of a wave are rows of one
batch.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from anyorder.uniforms import Uniforms


class Wave:
    """One batch of scripted runs: the choices to make, those made, and the branches not taken."""

    def __init__(self, cases: Tensor, scripts: Tensor, lengths: Tensor) -> None:
        rows = len(scripts)
        self.cases, self.made, self.lengths = cases, scripts.clone(), lengths
        self.cursor = torch.zeros(rows, dtype=torch.long)
        self.weight = torch.ones(rows, dtype=torch.float64)
        self._branches: list[tuple[Tensor, Tensor, Tensor]] = []

    def choose(self, rows: Tensor, probs: Tensor) -> Tensor:
        """Follow the script of each of the (A,) rows through one choice with (A, V) probabilities."""
        if self.cursor.numel() and int(self.cursor[rows].max()) >= self.made.shape[1]:
            self.made = torch.nn.functional.pad(self.made, (0, 16))
        cursor, possible = self.cursor[rows], probs > 0
        scripted = cursor < self.lengths[rows]
        choice = torch.where(scripted, self.made[rows, cursor], possible.to(torch.uint8).argmax(-1))
        others = possible & ~scripted[:, None]
        others[torch.arange(len(rows)), choice] = False
        at, token = others.nonzero(as_tuple=True)
        self._branches.append((rows[at], cursor[at], token))
        self.made[rows, cursor] = choice
        self.cursor[rows] += 1
        self.weight[rows] *= probs.gather(1, choice[:, None])[:, 0]
        return choice

    def next(self) -> Wave | None:
        """The wave of all branches not taken, if there are any."""
        row, at, token = (torch.cat(parts) for parts in zip(*self._branches, strict=True))
        if not len(row):
            return None
        scripts = self.made[row]
        scripts[torch.arange(len(row)), at] = token
        return Wave(self.cases[row], scripts, at + 1)


class EnumeratedUniforms(Uniforms):
    """Scripted choices for the (A,) ``rows`` of a wave."""

    def __init__(self, wave: Wave, rows: Tensor) -> None:
        super().__init__([])
        self._wave, self._at = wave, rows

    def __len__(self) -> int:
        return len(self._at)

    def select(self, rows: Tensor) -> EnumeratedUniforms:
        return EnumeratedUniforms(self._wave, self._at[rows])

    def draw(self, counts: Tensor) -> Tensor:
        raise AssertionError("an enumerated algorithm may only make categorical and Bernoulli choices")

    def categorical(self, probs: Tensor, where: Tensor) -> Tensor:
        mass = probs.double().sum(-1, keepdim=True)
        return self._walk(probs.double() / mass, where, torch.zeros(where.shape, dtype=torch.long))

    def bernoulli(self, probability: Tensor, where: Tensor) -> Tensor:
        # Strictly below: NaN is False.
        true = torch.where(probability.double() > 0, probability.double().clamp(max=1), 0.0)
        return self._walk(torch.stack([1 - true, true], -1), where, torch.zeros(where.shape, dtype=torch.long)) == 1

    def _walk(self, probs: Tensor, where: Tensor, result: Tensor) -> Tensor:
        for column in range(where.shape[1]):
            taking = where[:, column].nonzero()[:, 0]
            if len(taking):
                result[taking, column] = self._wave.choose(self._at[taking], probs[taking, column])
        return result


def output_distribution(
    run: Callable[[Tensor, EnumeratedUniforms], Tensor], num_cases: int, num_outcomes: int
) -> Tensor:
    """(C, M) the exact probability of every outcome of every case.

    Args:
        run: (cases (R,), uniforms) -> (R,) outcomes in ``range(num_outcomes)``; row r is a run of case ``cases[r]``.
        num_cases: C.
        num_outcomes: M.
    """
    total = torch.zeros(num_cases, num_outcomes, dtype=torch.float64)
    wave: Wave | None = Wave(
        torch.arange(num_cases), torch.zeros(num_cases, 16, dtype=torch.long), torch.zeros(num_cases, dtype=torch.long)
    )
    while wave is not None:
        outcome = run(wave.cases, EnumeratedUniforms(wave, torch.arange(len(wave.cases))))
        total.index_put_((wave.cases, outcome), wave.weight, accumulate=True)
        wave = wave.next()
    return total
