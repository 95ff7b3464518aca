"""What this machine can do at best, the floor that a pass is compared with, and what a run takes: seconds and bytes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, NamedTuple

import torch

from anyorder.model.config import XLNetConfig
from infill_eval import process_memory


class Machine(NamedTuple):
    """Measured rates with the threads now set.

    Attributes:
        bytes_per_second: reading a tensor far larger than any cache.
        flops_per_second: a large float32 matrix product.
    """

    bytes_per_second: float
    flops_per_second: float

    def floor(self, num_bytes: float, flops: float) -> float:
        """Seconds below which no pass over that many bytes of weights and that many operations can come."""
        return max(num_bytes / self.bytes_per_second, flops / self.flops_per_second)


def seconds(run: Callable[[], object], *, repeats: int, warm_up: int = 2) -> float:
    """The median time of ``repeats`` calls, after ``warm_up`` calls that do not count."""
    for _ in range(warm_up):
        run()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def peak_of(prepare: Callable[..., Callable[[], object]], *arguments: Any) -> int:
    """Bytes that a call needs at most beyond what is held before it, in a process of its own, on one thread.

    Args:
        prepare: makes there what is called; it and its arguments can be pickled.
        arguments: of ``prepare``.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_peak_of, prepare, arguments).result()


def _peak_of(prepare: Callable[..., Callable[[], object]], arguments: tuple[Any, ...]) -> int:
    torch.set_num_threads(1)
    run = prepare(*arguments)
    process_memory.reset_peak()
    before = process_memory.held()
    run()
    return process_memory.peak() - before


def measure() -> Machine:
    """Measure this machine; takes a few seconds."""
    large = torch.ones(256 * 1024 * 1024 // 4 * 2)
    left, right = torch.randn(1536, 1536), torch.randn(1536, 1536)
    return Machine(
        bytes_per_second=large.nbytes / seconds(large.sum, repeats=7),
        flops_per_second=2 * 1536**3 / seconds(lambda: left @ right, repeats=9),
    )


def linear_weights(config: XLNetConfig) -> tuple[int, int, int]:
    """Numbers of weights in linear layers that every row, every content row, and every query row is multiplied with."""
    width, inner = config.d_model, config.d_inner
    every = config.n_layer * (2 * width * width + 2 * width * inner)
    return every, config.n_layer * 2 * width * width, config.vocab_size * width


def pass_floor(
    machine: Machine, config: XLNetConfig, *, content: int, query: int, bytes_per_weight: int = 4, cached: int = 0
) -> float:
    """The floor of one pass.

    Args:
        machine: the measured rates.
        config: the shape.
        content: content rows over the whole batch.
        query: query rows over the whole batch.
        bytes_per_weight: of the linear layers.
        cached: slots of the key-value cache, over the whole batch, whose float32 keys and values count as bytes read
            too; with none, the floor is that of the weights alone.
    """
    every, of_content, of_query = linear_weights(config)
    flops = 2 * (every * (content + query) + of_content * content + of_query * query)
    num_bytes = (every + of_content + of_query) * bytes_per_weight + cached * 2 * 4 * config.n_layer * config.d_model
    return machine.floor(num_bytes, flops)
