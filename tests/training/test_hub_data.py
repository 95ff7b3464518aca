"""Streams: a copy laid out like the Hub's serves the same command, shards are disjoint, places exact."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from training.config import DataConfig
from training.documents import Documents, is_held_out
from training.fit import main
from training.resume import LAST
from training.sources import open_documents

datasets = pytest.importorskip("datasets")

SHARE = 0.2


@pytest.fixture(scope="module")
def texts(passages: list[str]) -> list[str]:
    return [text for text in passages if len(text) >= 200]


@pytest.fixture(scope="module")
def copy(texts: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OpenWebText in small: three files under ``plain_text`` of ``Skylion007/openwebtext``."""
    root = tmp_path_factory.mktemp("hub")
    inner = root / "Skylion007" / "openwebtext" / "plain_text"
    inner.mkdir(parents=True)
    for part in range(3):
        rows = datasets.Dataset.from_dict({"text": texts[part::3]})
        rows.to_parquet(inner / f"train-{part:05d}-of-00003.parquet")
    return root


@pytest.fixture
def documents(copy: Path, monkeypatch: pytest.MonkeyPatch) -> Documents:
    monkeypatch.chdir(copy)
    return open_documents(DataConfig(data="openwebtext", held_out_share=SHARE), seed=0)


class Shards(IterableDataset[str]):
    """What a loader worker reads."""

    def __init__(self, documents: Documents, size: int) -> None:
        self.documents, self.size = documents, size

    def __iter__(self):  # type: ignore[no-untyped-def]
        worker = get_worker_info()
        assert worker is not None
        for block in self.documents.blocks(0, worker.id, worker.num_workers, self.size):
            yield from block.texts


@pytest.mark.parametrize("workers", [2, 3, 4])  # the copy has three files: by file or by example
def test_loader_workers_read_disjoint_documents_that_are_all_of_the_training_side(
    documents: Documents, texts: list[str], workers: int
) -> None:
    loader = DataLoader(Shards(documents, 5), batch_size=None, num_workers=workers)
    assert sorted(loader) == sorted(text for text in texts if not is_held_out(text, SHARE))


def test_a_block_is_found_again_by_its_cursor(documents: Documents) -> None:
    blocks = list(documents.blocks(0, 1, 2, 4))
    assert len(blocks) >= 4
    for number, block in enumerate(blocks):
        again = [each.texts for each in documents.blocks(0, 1, 2, 4, block.cursor)]
        assert again == [each.texts for each in blocks[number:]]


def test_held_out_documents_are_not_trained_on(documents: Documents) -> None:
    held_out = documents.first(100, held_out=True)
    assert len(held_out) >= 3
    assert not set(held_out) & {text for block in documents.blocks(0, 0, 1, 100) for text in block.texts}


def test_without_the_hub_the_error_names_what_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", _unreachable)
    monkeypatch.setattr("huggingface_hub.snapshot_download", _unreachable)
    with pytest.raises(
        ValueError, match=r"(?s)openwebtext.*no route to host.*python-stdlib.*--data sotu.*path/\*\.txt"
    ):
        open_documents(DataConfig(data="openwebtext"), seed=0)


def test_a_snapshot_that_was_downloaded_before_serves_without_the_hub(
    copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", _unreachable)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: str(copy / "Skylion007" / "openwebtext"))
    documents = open_documents(DataConfig(data="openwebtext", held_out_share=SHARE), seed=0)
    assert documents.first(3, held_out=False)


def _unreachable(*_: object, **__: object) -> None:
    raise OSError("no route to host")


def test_the_command_trains_on_a_local_copy_and_goes_on_in_it(
    copy: Path, vocabulary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream in two workers, packed, cut after 6 of 12 steps: the same end as in one go."""
    monkeypatch.chdir(copy)
    command = [
        *("--data", "openwebtext", "--tokenizer", str(vocabulary), "--held_out_share", str(SHARE)),
        *("--pieces", "packed", "--lengths", "{16: 1.0}", "--tokens_per_step", "64", "--shuffle_buffer", "5"),
        *("--width", "16", "--layers", "1", "--heads", "1", "--num_workers", "2", "--schedule", "constant"),
        *("--validate_every", "12", "--validate_windows", "1", "--checkpoint_every", "6", "--warmup_steps", "1"),
    ]
    assert main([*command, "--max_steps", "12", "--out", str(tmp_path / "whole")]) == 0
    for steps in ("6", "12"):
        assert main([*command, "--max_steps", steps, "--out", str(tmp_path / "cut")]) == 0
    whole, cut = (torch.load(tmp_path / run / LAST, weights_only=True) for run in ("whole", "cut"))
    assert whole["fit"]["steps"] == cut["fit"]["steps"] == 12
    assert all(torch.equal(value, cut["state_dict"][name]) for name, value in whole["state_dict"].items())
    assert whole["FitData"] == cut["FitData"]


def test_without_the_package_that_streams_the_error_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert main(["--data", "openwebtext", "--out", str(tmp_path / "run")]) == 2
    assert "streamed by the package datasets, which is not installed" in capsys.readouterr().err
