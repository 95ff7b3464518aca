"""Loading holds the weights once, one layer more, and the embedding that a packed tied head copies: no second model."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import transformers

import anyorder
from anyorder.model.linear import can_pack

SHAPE = {"vocab_size": 4000, "d_model": 512, "n_layer": 6, "n_head": 8, "d_inner": 2048}
MEBIBYTE = 2**20

# Anonymous memory, sampled while the network is read: pages of the mapped file are the system's to drop. Tensors come
# and go inside single calls, so the samples are taken by a second thread; and what is freed is to go back at once.
PROBE = """
import ctypes, json, sys, threading, time
from pathlib import Path
import torch
from anyorder.model.config import XLNetConfig
from anyorder.model import hub

def anonymous():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024

def watch():
    global peak
    while watching:
        peak = max(peak, anonymous())
        time.sleep(0.002)

trim = ctypes.CDLL(None).malloc_trim
directory = Path(sys.argv[1])
config = XLNetConfig.from_dict(json.loads((directory / "config.json").read_text()))
small = XLNetConfig(vocab_size=8, d_model=8, n_layer=1, n_head=1, d_inner=8)
measured = {}
for packing in sys.argv[2:]:
    hub.XLNet(small).initialise(torch.Generator()).pack(packing)  # libraries set themselves up
    network = None
    trim(0)
    before = peak = anonymous()
    watching = True
    thread = threading.Thread(target=watch)
    thread.start()
    network = hub._read_network(directory, config, torch.empty(0), packing)
    watching = False
    thread.join()
    trim(0)
    measured[packing] = {"peak": peak - before, "after": anonymous() - before}
print(json.dumps(measured))
"""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random weights that take 90 MiB in float32, stored in bfloat16: none can stay a view of the file."""
    path = tmp_path_factory.mktemp("memory")
    transformers.XLNetLMHeadModel(transformers.XLNetConfig(**SHAPE)).bfloat16().save_pretrained(path)
    return path


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="memory is read from Linux's /proc")
def test_the_peak_of_loading_is_the_weights_one_layer_and_the_embedding_of_a_packed_head(directory: Path) -> None:
    weights = 2 * (directory / "model.safetensors").stat().st_size
    layer = (5 * 512**2 + 2 * 512 * 2048) * 4
    embedding = 4000 * 512 * 4
    slack = 4 * MEBIBYTE  # the allocator's; the file or the plain weights beside the packed ones would be 45 or more
    packings = [p for p in ("plain", "packed", "float16") if can_pack(torch.empty(1, 1), p)]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(directory), *packings],
        env={
            "PYTHONPATH": str(Path(anyorder.__file__).parent.parent),
            "OMP_NUM_THREADS": "1",
            "MALLOC_MMAP_THRESHOLD_": "65536",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    measured = json.loads(done.stdout)
    for packing in packings:
        held = weights / 2 if packing == "float16" else weights
        assert measured[packing]["peak"] < held + layer + embedding + slack, packing
        assert measured[packing]["after"] < held + embedding + slack, packing
