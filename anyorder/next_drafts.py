"""How many next drafts a one-pass round asks for in each outcome of its test, so that a token costs least.

The drafts in hand are the state of a Markov decision process; what is asked for in each outcome is the decision and
fixes the state that follows. All is decided before a test, from probabilities and costs alone.
Source: Howard, "Dynamic Programming and Markov Processes", 1960 (policy iteration, with rewards per unit of time).
"""

from __future__ import annotations

import numpy as np

from anyorder.arrays import Floats, Ints

_GOES_ON = 1 - 1 / 64
"""The chance that a round is not the text's last. Texts that end also keep every state in reach of the first one."""
_LEAST_GAIN = 1e-9
_MOST_REVISIONS = 20
"""Three to six suffice; ties could go round for ever."""


def outcomes(survival: Floats) -> Floats:
    """(W, W) the probability that of w drafts in hand exactly a are kept, from (W,) that at least a of them are."""
    kept = np.pad(np.tril(np.tile(survival, (len(survival), 1))), ((0, 0), (0, 1)))
    return kept[:, :-1] - kept[:, 1:]


def cheapest(survival: Floats, charge: Floats) -> Ints:
    """(W, W) the next drafts by drafts in hand and outcome that make a token cheapest on average.

    Find what each number of drafts in hand is worth under the present decisions, decide anew by it, and stop where that
    changes nothing. The first decision is to draft nothing, so no result is dearer than that.

    Args:
        survival: (W,) the probability that at least 0, 1, ... drafts are kept.
        charge: (W, R) what a pass costs, by drafts in hand and rows that ask for next ones.
    """
    width = len(survival)
    happens, tokens = outcomes(survival), survival.cumsum()
    best = lengths = np.zeros((width, width), np.int64)
    lowest = np.inf
    for _ in range(_MOST_REVISIONS):
        moves = np.zeros((width, width))
        np.add.at(moves, (np.arange(width)[:, None], lengths), happens)
        spent = charge[np.arange(width), lengths.sum(1)]
        totals = np.linalg.solve(np.eye(width) - _GOES_ON * moves, np.stack([spent, tokens], 1))
        price = totals[0, 0] / totals[0, 1]
        if price < lowest - _LEAST_GAIN:
            lowest, best = price, lengths
        # A revision may pay only where drafts are in hand, which the first state does not see until the next one.
        revised = _allot(happens, _GOES_ON * (totals[:, 0] - price * totals[:, 1]), charge)
        if (revised == lengths).all():
            break
        lengths = revised
    return best


def _allot(happens: Floats, worth: Floats, charge: Floats) -> Ints:
    """(W, W) the drafts to ask for in each outcome that minimise what the pass costs and what it leads to.

    Args:
        happens: (W, W) the probability of each outcome, by drafts in hand.
        worth: (W,) the cost still to come, by drafts in hand.
        charge: (W, R) what a pass costs, by drafts in hand and rows that ask.
    """
    width, num_rows = len(worth), charge.shape[1]
    total = np.full_like(charge, np.inf)
    total[:, 0] = 0
    picks = []
    for outcome in range(width):
        # Entry [w, l, r]: r rows are spent so far, l of them in this outcome.
        padded = np.pad(total, ((0, 0), (width - 1, 0)), constant_values=np.inf)
        before = np.lib.stride_tricks.sliding_window_view(padded, num_rows, 1)[:, ::-1]
        options = before + (happens[:, outcome, None] * worth)[:, :, None]
        picks.append(options.argmin(1))
        total = options.min(1)
    left, lengths = (total + charge).argmin(1), []
    for pick in reversed(picks):
        lengths.append(pick[np.arange(width), left])
        left = left - lengths[-1]
    return np.stack(lengths[::-1], 1)


def likeliest(survival: Floats, held: int, most: int, count: int) -> list[int]:
    """The ``count`` next drafts that are kept most probably, by outcome of the test of ``held`` drafts.

    Args:
        survival: (W,) the probability that at least 0, 1, ... drafts are kept, ``held`` and ``most`` being below W.
        held: drafts in hand.
        most: the most next drafts of an outcome.
        count: how many to choose; all there are if fewer.
    """
    use = outcomes(survival[: held + 1])[held][:, None] * survival[1 : most + 1]
    # Within an outcome a later draft is never of more use than an earlier one, so that how many are chosen says which.
    # The sort is stable: ties between outcomes fall alike on every machine.
    chosen = (-use).ravel().argsort(kind="stable")[:count] // most
    return np.bincount(chosen, minlength=held + 1).tolist()  # type: ignore[no-any-return]
