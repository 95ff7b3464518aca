"""What is saved without its base: found with it, told from another in every precision, refused without a trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from causal_models import FAMILIES, VIEWS, make, network, with_view
from safetensors.torch import load_file, save_file

from anyorder.adapters import causal, mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import name_of_base, place_of_base

ONE_EACH = [(family, anchor) for family in FAMILIES for anchor in VIEWS]


@pytest.mark.parametrize(("family", "anchor"), ONE_EACH)
def test_a_saved_view_is_the_same_on_its_base_and_refuses_another(family: str, anchor: Any, tmp_path: Path) -> None:
    model = with_view(family, anchor)
    model.acceptance = (0.5, 0.25, 0.125)
    orthrus.save_view(model, tmp_path, base="somewhere")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["view.json", "view.safetensors"]
    assert json.loads((tmp_path / "view.json").read_text())["anchor"] == anchor
    again = orthrus.load_view(network(family), tmp_path)
    assert (again.block, again.anchor_in_view, again.acceptance) == (4, anchor == "trainable", (0.5, 0.25, 0.125))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name
    other = network(family)
    with torch.no_grad():
        other.norm[0] += 1
    with pytest.raises(ValueError, match="not those this view was trained on"):
        orthrus.load_view(other, tmp_path)


@pytest.mark.parametrize("trained", [torch.float32, torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_a_base_is_told_from_another_whatever_it_was_trained_and_is_opened_in(
    trained: torch.dtype, tmp_path: Path
) -> None:
    """But for one half precision from the other, whose roundings have no hash in common."""
    for seed in (0, 1):
        make("llama", seed=seed).save_pretrained(tmp_path / f"base{seed}")
    for save, name in ((save_new_view, "view"), (save_new_lora, "lora")):
        save(causal.load(tmp_path / "base0", dtype=trained), tmp_path / name, str(tmp_path / "base0"))
    for opened in (torch.float32, torch.bfloat16, torch.float16, torch.float64):
        for load, name in ((orthrus.load, "view"), (mars.load, "lora")):
            assert load(tmp_path / name, dtype=opened).embedding.dtype == opened
            if opened in (torch.float32, torch.float64) or (opened == torch.float16) == (trained == torch.float16):
                with pytest.raises(ValueError, match=r"not those this .* was trained on"):
                    load(tmp_path / name, base=tmp_path / "base1", dtype=opened)


@pytest.mark.parametrize("named", ["int4", "float32", None, ["bfloat16"]])
def test_a_hash_of_weights_in_no_format_that_is_written_is_one_sentence(named: object, tmp_path: Path) -> None:
    make("qwen2").save_pretrained(tmp_path / "base")
    for load, save, name in ((mars.load, save_new_lora, "mars.json"), (orthrus.load, save_new_view, "view.json")):
        save(causal.load(tmp_path / "base"), tmp_path / name, str(tmp_path / "base"))
        settings = json.loads((tmp_path / name / name).read_text()) | {"base_hash_of": named}
        (tmp_path / name / name).write_text(json.dumps(settings))
        with pytest.raises(ValueError, match=r"^base_hash_of of this \w+ must be one of bfloat16, float16; got "):
            load(tmp_path / name)


def save_new_view(model: CausalModel, directory: Path, base: str) -> None:
    orthrus.save_view(orthrus.attach(model, block=3), directory, base=base)


def save_new_lora(model: CausalModel, directory: Path, base: str) -> None:
    mars.save(mars.attach_lora(model, rank=2), directory, base=base)


@pytest.mark.parametrize("reason", ["another base", "a view that lacks a copy"])
def test_a_view_that_is_refused_leaves_the_model_as_it_was(reason: str, tmp_path: Path) -> None:
    orthrus.save_view(with_view("qwen3"), tmp_path, base="somewhere")
    model = network("qwen3").requires_grad_(True)
    model.block, model.sees_both_ways, model.acceptance = 5, False, (0.5,)
    if reason == "another base":
        with torch.no_grad():
            model.norm[0] += 1
    else:
        weights = load_file(tmp_path / "view.safetensors")
        del weights["model.layers.1.self_attn.k_proj_diff.weight"]
        save_file(weights, tmp_path / "view.safetensors")
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with pytest.raises(ValueError, match=r"was trained on|got nothing"):
        orthrus.load_view(model, tmp_path)
    assert model.state_dict().keys() == before.keys()
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
    assert all(parameter.requires_grad for parameter in model.parameters())
    assert (model.block, model.sees_both_ways, model.acceptance, model.routes_masks) == (5, False, (0.5,), False)


@pytest.mark.parametrize("named", ["in full", "from the view", "from the working directory"])
def test_a_view_and_its_base_are_found_by_name(named: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the loading process works, and after both have moved together unless the base was named in full."""
    first = tmp_path / "first"
    make("llama").save_pretrained(first / "base")
    model = orthrus.attach(make("llama"), block=3)
    monkeypatch.chdir(first)
    names = {"in full": str(first / "base"), "from the view": "../base", "from the working directory": "base"}
    orthrus.save_view(model, "view", base=names[named])
    monkeypatch.chdir("/")
    if named != "in full":
        first.rename(tmp_path / "moved")
        (tmp_path / "moved" / "view").rename(tmp_path / "view")
        (tmp_path / "moved" / "base").rename(tmp_path / "base")
    else:
        (first / "view").rename(tmp_path / "view")
    again = orthrus.load(tmp_path / "view")
    assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())
    with pytest.raises(ValueError, match=r"holds no view\.json"):
        orthrus.load(tmp_path)


@pytest.mark.parametrize("linked", ["view", "base", "folder"])
def test_a_base_is_found_where_links_lead_to_it_or_to_its_view(
    linked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, home = tmp_path / "far" / "away" / "disk", tmp_path / "home"
    for place in (home / "models" / "base", home / "runs" / "x"):
        place.mkdir(parents=True)
    moved = {"view": home / "runs", "base": home / "models", "folder": home}[linked]
    disk.parent.mkdir(parents=True)
    moved.rename(disk)
    moved.symlink_to(disk)
    monkeypatch.chdir(tmp_path)
    directory, base = Path("home/runs/x"), Path("home/models/base")
    found = place_of_base(directory, name_of_base(directory, str(base)))
    assert Path(found).is_dir()
    assert Path(found).samefile(base)


@pytest.mark.parametrize("content", ["{}", "[]", '{"block": 4}', "{"])
def test_settings_that_say_too_little_are_one_sentence_that_names_the_file(content: str, tmp_path: Path) -> None:
    for load, save, name in ((mars.load, save_new_lora, "mars.json"), (orthrus.load, save_new_view, "view.json")):
        directory = tmp_path / name
        save(network("qwen2"), directory, "somewhere")
        (directory / name).write_text(content)
        with pytest.raises(ValueError, match=rf"{name} (lacks .*base|is no JSON).*(mars\.save|orthrus\.save_view)"):
            load(directory)


def test_a_base_that_is_not_where_it_was_is_one_sentence_and_may_be_named(tmp_path: Path) -> None:
    make("qwen2").save_pretrained(tmp_path / "base")
    for load, save in ((mars.load, save_new_lora), (orthrus.load, save_new_view)):
        save(causal.load(tmp_path / "base"), tmp_path / "added", "../gone")
        with pytest.raises(ValueError, match=r"added names '\.\./gone' as its base, which is not there"):
            load(tmp_path / "added")
        load(tmp_path / "added", base=tmp_path / "base")


def test_an_acceptance_that_was_never_measured_may_be_null(tmp_path: Path) -> None:
    make("qwen2").save_pretrained(tmp_path / "base")
    for load, save, name in ((mars.load, save_new_lora, "mars.json"), (orthrus.load, save_new_view, "view.json")):
        save(causal.load(tmp_path / "base"), tmp_path / "added", str(tmp_path / "base"))
        settings = json.loads((tmp_path / "added" / name).read_text()) | {"acceptance": None}
        (tmp_path / "added" / name).write_text(json.dumps(settings))
        assert load(tmp_path / "added").acceptance == ()


def test_what_was_added_cut_off_or_gone_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    make("qwen2").save_pretrained(tmp_path / "base")
    for load, save, name in ((mars.load, save_new_lora, "mars"), (orthrus.load, save_new_view, "view")):
        save(causal.load(tmp_path / "base"), tmp_path / name, str(tmp_path / "base"))
        path = tmp_path / name / f"{name}.safetensors"
        for damage in (lambda path=path: path.write_bytes(path.read_bytes()[:50]), path.unlink):
            damage()
            with pytest.raises(ValueError, match=rf"{name}\.safetensors holds no weights as (mars|orthrus)\.save"):
                load(tmp_path / name)
