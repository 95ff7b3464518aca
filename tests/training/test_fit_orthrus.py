"""Orthrus runs: the base stays, a killed run goes on as if nothing had been, anchors are a row's own, bad options."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from anyorder.adapters import causal, orthrus
from anyorder.adapters.causal.added import added
from training.causal_data import CausalBatch
from training.fit_mars import main as fit_mars
from training.fit_orthrus import main
from training.orthrus_config import OrthrusConfig, parse
from training.orthrus_module import anchors_of

DATA = (
    *("--lengths", "{64: 1.0}", "--tokens_per_step", "128", "--validate_windows", "2", "--validate_every", "100"),
    *("--schedule", "constant"),
)
TINY = (*("--objective", "causal", "--width", "32", "--layers", "1", "--heads", "2", "--vocab_size", "400", *DATA),)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few steps of plain training."""
    out = tmp_path_factory.mktemp("runs") / "base"
    assert fit_mars([*TINY, "--max_steps", "3", "--out", str(out)]) == 0
    return out


def view_of(directory: Path) -> dict[str, Tensor]:
    return added(orthrus.load(directory))


def test_a_run_writes_the_view_alone_and_a_cut_one_goes_on_as_if_it_had_not_been(base: Path, tmp_path: Path) -> None:
    flags = ["--init_from", str(base), "--block", "4", "--anchors", "5", *DATA]
    assert main([*flags, "--max_steps", "4", "--out", str(tmp_path / "whole")]) == 0
    for steps in ("2", "4"):
        assert main([*flags, "--max_steps", steps, "--out", str(tmp_path / "cut")]) == 0
    whole, cut = view_of(tmp_path / "whole" / "last"), view_of(tmp_path / "cut" / "last")
    fresh = added(orthrus.attach(causal.load(base / "best"), block=4))
    for name, tensor in whole.items():
        assert torch.equal(tensor, cut[name]), name
        assert not torch.equal(tensor, fresh[name]), name
    last = tmp_path / "whole" / "last"
    assert sorted(path.name for path in last.iterdir()) == ["view.json", "view.safetensors"]
    settings = json.loads((last / "view.json").read_text())
    assert (settings["block"], settings["anchor"], settings["base"]) == (4, "frozen", str(base / "best"))
    assert len(settings["acceptance"]) == 3
    with (tmp_path / "whole" / "log.csv").open() as file:
        assert {"train_loss", "train_agreement", "kl", "block", "kept1", "kept3"} <= set(
            file.readline().strip().split(",")
        )
    model = orthrus.load(last)
    assert (
        len(orthrus.generate(model, [3, 4, 5], max_new_tokens=5, eos_ids=(), policy=orthrus.adaptive(model)).token_ids)
        == 5
    )  # type: ignore[union-attr]


@pytest.mark.parametrize("precision", ["bf16-true", "64-true"])
def test_a_view_trained_in_any_precision_is_loaded_on_its_base(base: Path, precision: str, tmp_path: Path) -> None:
    flags = ["--init_from", str(base), "--block", "4", "--precision", precision, *DATA, "--max_steps", "1"]
    assert main([*flags, "--out", str(tmp_path / "run")]) == 0
    for dtype in (torch.float32, torch.bfloat16):
        assert orthrus.load(tmp_path / "run" / "best", dtype=dtype).embedding.dtype == dtype


def test_a_published_view_learns_from_labels_on_a_chat(base: Path, tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    lines = [json.dumps({"prompt": f"def f{i}(", "response": f"x):\n    return {i} + x\n"}) for i in range(30)]
    chat.write_text("\n".join(lines))
    flags = ["--init_from", str(base), "--anchor", "trainable", "--hard_labels", "true", "--chat", str(chat)]
    flags += ["--block", "3", "--max_length", "64", "--max_steps", "2", *DATA]
    assert main([*flags, "--out", str(tmp_path / "run")]) == 0
    assert orthrus.load(tmp_path / "run" / "best").anchor_in_view


def test_anchors_belong_to_a_row_and_not_to_its_batch() -> None:
    tokens, options = torch.zeros(3, 40, dtype=torch.long), OrthrusConfig(block=4, anchors=6)
    keys = [(0, 5), (0, 6), (2, 5)]
    batch = CausalBatch(tokens, torch.ones_like(tokens).bool(), None, (0, {}), keys)
    anchors = anchors_of(batch, options, seed=1)
    assert len({tuple(row) for row in anchors.tolist()}) == 3
    alone = batch._replace(tokens=tokens[:1], is_response=batch.is_response[:1], keys=keys[1:2])
    assert torch.equal(anchors_of(alone, options, seed=1)[0], anchors[1])
    assert not torch.equal(anchors_of(batch, options, seed=2), anchors)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "name it with --init_from"),
        (("--init_from", "x", "--pieces", "windows"), "--pieces packed"),
        (("--init_from", "x", "--optimizer", "muon"), "--optimizer adamw"),
        (("--init_from", "x", "--anchors", "0"), "--anchors must be at least 1; got 0"),
    ],
)
def test_options_that_contradict_each_other_are_one_sentence(
    flags: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["--out", str(tmp_path / "run"), *flags]) == 2
    assert message in capsys.readouterr().err


def test_a_lora_is_no_base(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mars.json").write_text("{}")
    assert main(["--init_from", str(tmp_path), "--out", str(tmp_path / "run")]) == 2
    assert "holds a LoRA" in capsys.readouterr().err


def test_the_flags_are_those_of_fit_mars_and_a_few() -> None:
    config = parse(
        ["--init_from", "x", "--block", "16", "--learning_rate", "0.002", "--data", "x.txt", "--minutes", "3"]
    )
    assert (config.orthrus.block, config.optimizer.learning_rate, config.data.data, config.run.minutes) == (
        16,
        0.002,
        "x.txt",
        3,
    )
    assert config.fit.data.pieces == "packed"
