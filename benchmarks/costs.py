"""Measure what a pass costs by its rows, for the tables in ``anyorder/model/costs.py``.

python -m benchmarks.costs
"""

from __future__ import annotations

import argparse

import torch

from anyorder.model.config import XLNetConfig
from anyorder.model.xlnet import XLNet
from benchmarks.decode import base_config, make_task, pass_seconds

ROWS = (2, 4, 8, 16, 32, 64, 96)
"""Numbers of rows measured; a quarter of them content rows, as in one-pass decoding, and at least one."""


@torch.no_grad()
def main() -> None:
    """Print the tables as they stand in the library."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=41)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    small = XLNetConfig(vocab_size=4096, d_model=192, n_layer=5, n_head=3, d_inner=768, dropout=0.0)
    for name, config, length in (("SMALL_CPU", small, 192), ("BASE_CPU", base_config(), 512)):
        network = XLNet(config).initialise(torch.Generator().manual_seed(0)).eval().pack("packed")
        task = make_task(length, config.vocab_size)
        times = []
        for rows in ROWS:
            content = max(rows // 4, 1)
            times.append(
                pass_seconds(network, task, batch=1, content=content, query=rows - content, repeats=args.repeats)
            )
        costs = ", ".join(f"{time / times[0]:.2f}" for time in times)
        print(f"{name} = PassCosts(rows={ROWS}, costs=({costs}))  # 2 rows: {times[0] * 1e3:.2f} ms")


if __name__ == "__main__":
    main()
