"""Measure what a pass costs by its rows, everything around the network included, for ``anyorder/model/costs.py``.

    python -m benchmarks.costs          # about two minutes on two cores

One-pass decoding of one sequence with fixed draft lengths, on random weights (which keep nearly every draft, so that
every pass has the rows its draft length asks for), relative to sequential decoding.
"""

from __future__ import annotations

import argparse
import statistics
from itertools import accumulate

import torch

from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from benchmarks.decode import base_config, make_task, run

DRAFT_LENGTHS = (0, 1, 2, 3, 4, 6, 8)


@torch.no_grad()
def main() -> None:
    """Print the tables as they stand in the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    small = XLNetConfig(vocab_size=4096, d_model=192, n_layer=5, n_head=3, d_inner=768, dropout=0.0)
    for name, config, packing, length in (
        ("SMALL_CPU", small, "float16", 128),
        ("BASE_CPU", base_config(), "packed", 64),
    ):
        network = XLNet(config).initialise(torch.Generator().manual_seed(0)).eval().pack(packing)  # type: ignore[arg-type]
        task = make_task(length, config.vocab_size)
        rows, costs = [], []
        for draft_length in DRAFT_LENGTHS:
            runs = [run(network, task, "one-pass", draft_length).stats[0] for _ in range(args.repeats + 1)][1:]
            rows.append(round(runs[0].rows / runs[0].nfe))
            costs.append(statistics.median(stats.seconds / stats.nfe for stats in runs))
        # More rows never cost less: where the clock says so it is noise.
        relative = tuple(round(cost / costs[0], 2) for cost in accumulate(costs, max))
        print(f"{name} = PassCosts(rows={tuple(rows)}, costs={relative})  # sequential: {costs[0] * 1e3:.2f} ms a pass")


if __name__ == "__main__":
    main()
