"""Huge pages under packed weights: what they hold stays, and where they are not to be had nothing happens."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch

from anyorder.model import huge_pages
from anyorder.model.huge_pages import HUGE_PAGE, use_huge_pages
from anyorder.model.linear import Linear

SETTING = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def in_huge_pages() -> int:
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages"))


def test_memory_keeps_its_content_and_moves_only_whole_pages() -> None:
    values = torch.arange(5 * HUGE_PAGE // 8, dtype=torch.float64)
    moved = use_huge_pages(values.data_ptr(), values.nbytes)
    assert moved in (0, 4 * HUGE_PAGE, 5 * HUGE_PAGE)
    assert torch.equal(values, torch.arange(5 * HUGE_PAGE // 8, dtype=torch.float64))
    assert use_huge_pages(values.data_ptr() + 64, HUGE_PAGE - 64) == 0


@pytest.mark.skipif(not SETTING.exists() or "[never]" in SETTING.read_text(), reason="the system has no huge pages")
def test_packing_a_weight_puts_it_into_huge_pages() -> None:
    before = in_huge_pages()
    layer = Linear(1024, 4096)
    layer.pack("packed")
    if layer.packing != "packed":
        pytest.skip("this build of PyTorch has no oneDNN")
    if not use_huge_pages(torch.ops.mkldnn.data_ptr(layer._packed), torch.ops.mkldnn._nbytes(layer._packed)):
        pytest.skip("the system gives no huge pages")
    assert in_huge_pages() >= before + 6 * HUGE_PAGE


def test_a_system_without_huge_pages_keeps_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    huge_pages._madvise.cache_clear()
    values = torch.zeros(HUGE_PAGE)
    assert use_huge_pages(values.data_ptr(), values.nbytes) == 0
    huge_pages._madvise.cache_clear()
