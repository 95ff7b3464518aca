"""Measure what a round costs by its rows, everything around the network included, for ``anyorder/model/costs.py``.

    python -m benchmarks.costs          # about three minutes on two cores

Decoding of one sequence with fixed draft lengths, on random weights (which keep nearly every draft, so that every round
has the rows its draft length asks for), relative to sequential decoding. The lengths take turns, so that a slow moment
of the machine meets them all.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import torch

from anyorder.decoding import DecodeOptions, Method, Stats
from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from benchmarks.decode import Task, base_config, make_task, run


class Way(NamedTuple):
    """A method, its draft length and the most rows that test or ask."""

    method: Method
    draft_length: int
    max_rows: int | None = None


SEQUENTIAL = Way("sequential", 0)
ONE_PASS = (
    SEQUENTIAL,
    Way("one-pass", 1, max_rows=2),  # the fewest rows of a round that drafts at all
    *(Way("one-pass", length) for length in (1, 2, 3, 4, 6, 8)),
)
TWO_PASS = (SEQUENTIAL, *(Way("assd", length) for length in (2, 3, 4, 6, 8)))


def as_table(rows: Sequence[int], seconds: Sequence[float]) -> str:
    """Costs as they stand in the library; more rows never cost less: where the clock says so it is noise."""
    relative = tuple(round(cost / seconds[0], 2) for cost in accumulate(seconds, max))
    return f"PassCosts(rows={tuple(rows)}, costs={relative})"


def print_table(label: str, ways: tuple[Way, ...], found: dict[Way, list[Stats]]) -> None:
    """One table as it stands in the library."""
    rows = [round(found[way][0].rows / found[way][0].rounds) for way in ways]
    costs = [statistics.median(stats.seconds / stats.rounds for stats in found[way]) for way in ways]
    print(f"    {label}={as_table(rows, costs)},")


def measure(network: XLNet, task: Task, repeats: int) -> dict[Way, list[Stats]]:
    """Decode in every way, again and again; the first time does not count."""
    ways = tuple(dict.fromkeys((*ONE_PASS, *TWO_PASS)))
    found: dict[Way, list[Stats]] = {way: [] for way in ways}
    for number in range(repeats + 1):
        for way in ways:
            options = DecodeOptions(method=way.method, draft_length=way.draft_length, max_rows=way.max_rows)
            generation = run(network, task, options, seed=number)
            if number:
                found[way].append(generation.stats[0])
    return found


@torch.no_grad()
def main() -> None:
    """Print the tables as they stand in the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=9)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    small = XLNetConfig(vocab_size=4096, d_model=192, n_layer=5, n_head=3, d_inner=768, dropout=0.0)
    for name, config, packing, length in (
        ("SMALL_CPU", small, "float16", 128),
        ("BASE_CPU", base_config(), "packed", 64),
    ):
        network = XLNet(config).initialise(torch.Generator().manual_seed(0)).eval().pack(packing)  # type: ignore[arg-type]
        found = measure(network, make_task(length, config.vocab_size), args.repeats)
        a_pass = statistics.median(stats.seconds / stats.rounds for stats in found[SEQUENTIAL])
        print(f"{name} = StoredCosts(  # sequential: {a_pass * 1e3:.2f} ms a pass")
        print_table("one_pass", ONE_PASS, found)
        print_table("two_pass", TWO_PASS, found)
        print(")", flush=True)


if __name__ == "__main__":
    main()
