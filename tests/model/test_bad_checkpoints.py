"""What is wrong with a checkpoint or a call of ``load`` is said before anything is computed, and by this library."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from errors import assert_said_by_the_library
from formats import write_old_pickle, write_pickle, write_shards
from safetensors.torch import load_file, save_file

import anyorder

OWN = "anyorder-sentencepiece"
Damage = Callable[[Path], object]


def with_config(**changes: Any) -> Damage:
    """Change entries of ``config.json``; ``...`` removes one."""

    def damage(directory: Path) -> None:
        path = directory / "config.json"
        values = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({name: value for name, value in values.items() if value is not ...}))

    return damage


def with_own(**changes: Any) -> Damage:
    """Give ``config.json`` an ``"anyorder"`` object with these entries beside the required ones."""
    values: dict[str, Any] = {"version": 1, "codec": OWN, "mask_id": 2, **changes}
    return with_config(anyorder={name: value for name, value in values.items() if value is not ...})


def with_file(name: str, content: bytes | None) -> Damage:
    """Replace a file, or remove it."""

    def damage(directory: Path) -> None:
        (directory / name).unlink(missing_ok=True)
        if content is not None:
            (directory / name).write_bytes(content)

    return damage


def with_tensors(change: Callable[[dict[str, torch.Tensor]], object]) -> Damage:
    def damage(directory: Path) -> None:
        path = directory / "model.safetensors"
        tensors = load_file(path)
        change(tensors)
        save_file(tensors, path)

    return damage


def cut(name: str, share: float) -> Damage:
    """Keep the first part of a file, as an interrupted copy does."""

    def damage(directory: Path) -> None:
        content = (directory / name).read_bytes()
        (directory / name).write_bytes(content[: int(len(content) * share)])

    return damage


Q = "transformer.layer.1.rel_attn.q"
BAD: dict[str, tuple[Damage, str]] = {
    "no config": (with_file("config.json", None), "has no config.json: is it a checkpoint directory"),
    "config is no JSON": (with_file("config.json", b'{"vocab_size": 500,'), "config.json is not valid JSON"),
    "config is no text": (with_file("config.json", b"\xff\xfe\x00"), "config.json is not valid JSON"),
    "config is a list": (with_file("config.json", b"[1]"), "config.json must hold a JSON object, got list"),
    "another architecture": (with_config(model_type="bert"), "model_type must be 'xlnet', got 'bert'"),
    "a missing field": (with_config(d_inner=..., n_layer=...), "missing n_layer, d_inner"),
    "reversed halves": (with_config(bi_data=True), "bi_data=true .* is not supported"),
    "causal attention": (with_config(attn_type="uni"), "attn_type must be 'bi', got 'uni'"),
    "unknown activation": (with_config(ff_activation="silu"), "must be one of gelu, relu, gelu_new, got 'silu'"),
    "heads that do not fit": (with_config(n_head=5), r"d_model \(32\) must be a multiple of n_head \(5\)"),
    "another head width": (with_config(d_head=99), r"d_head must be d_model / n_head \(8\), got 99"),
    "an odd width": (with_config(d_model=33, n_head=3, d_head=11), "d_model must be even"),
    "fewer layers than the weights have": (with_config(n_layer=1), "weights of more layers than config.json says"),
    "the mask of another tokenizer": (with_own(mask_id=77), "mask_id is 77, but codec 'anyorder-sentencepiece' says 2"),
    "no layers": (with_config(n_layer=0), "n_layer must be an integer of at least 1, got 0"),
    "a size in words": (with_config(vocab_size="500"), "vocab_size must be an integer of at least 1, got '500'"),
    "a fractional size": (with_config(d_inner=2.5), "d_inner must be an integer of at least 1, got 2.5"),
    "a size of true": (with_config(n_layer=True), "n_layer must be an integer of at least 1, got True"),
    "a size of null": (with_config(n_layer=None), "n_layer must be an integer of at least 1, got None"),
    "a fractional clamp": (with_config(clamp_len=1.5), "clamp_len must be an integer, got 1.5"),
    "a negative epsilon": (with_config(layer_norm_eps=-1), "layer_norm_eps must be a number of at least 0, got -1"),
    "an infinite epsilon": (with_config(layer_norm_eps=1e999), "layer_norm_eps must be a number"),
    "a tie in words": (with_config(tie_word_embeddings="yes"), "tie_word_embeddings must be true or false, got 'yes'"),
    "a newer format": (with_own(version=2), "format is version 2, this package reads version 1; a newer anyorder"),
    "a format without version": (with_own(version=...), "format is version None"),
    "own settings are a number": (with_config(anyorder=5), '"anyorder" value of config.json must be an object, got 5'),
    "own settings are null": (with_config(anyorder=None), "must be an object, got None"),
    "an unknown setting": (with_own(colour="red"), '"anyorder" object of config.json does not fit.*colour'),
    "no mask": (with_own(mask_id=...), "does not fit.*mask_id"),
    "a mask in words": (with_own(mask_id="<mask>"), "mask_id must be an integer of at least 0, got '<mask>'"),
    "an unknown codec": (with_own(codec="morse"), "unknown codec 'morse'"),
    "a codec that is no name": (with_own(codec=7), "codec must be a name, got 7"),
    "an unknown policy": (with_own(order="backwards"), "order must be one of 'ascending', .* got 'backwards'"),
    "a length of zero": (with_own(max_length=0), "max_length must be an integer of at least 1, got 0"),
    "forbidden ids are one number": (with_own(forbidden_ids=5), "does not fit"),
    "a forbidden id in words": (with_own(forbidden_ids=["a"]), "forbidden_ids must be an integer"),
    "a forbidden id out of range": (with_own(forbidden_ids=[500]), r"must be below vocab_size \(500\), got 500"),
    "acceptance in words": (with_own(acceptance=["high"]), "acceptance must be a number of at least 0, got 'high'"),
    "acceptance above one": (with_own(acceptance=[1.5]), "acceptance holds probabilities, at most 1, got 1.5"),
    "no weights": (with_file("model.safetensors", None), "has no weights: expected model.safetensors or pytorch"),
    "half the weights": (cut("model.safetensors", 0.5), "model.safetensors cannot be read: .* is it complete"),
    "a header cut short": (cut("model.safetensors", 0.001), "model.safetensors cannot be read: .* is it complete"),
    "empty weights": (with_file("model.safetensors", b""), "model.safetensors cannot be read: .* is it complete"),
    "weights of noise": (with_file("model.safetensors", b"\xff" * 999), "model.safetensors cannot be read"),
    "a tensor is missing": (with_tensors(lambda t: t.pop(Q)), f"has no tensor {Q}: is it an XLNetLMHead"),
    "a tensor of another shape": (
        with_tensors(lambda t: t.update({Q: t[Q][:16].clone()})),
        rf"tensor {Q} has shape \(16, 4, 8\), config.json asks for \(32, 4, 8\)",
    ),
    "heads and widths swapped": (
        with_config(n_head=8, d_head=4),
        r"tensor transformer.layer.0.* has shape \(.*4, 8\), config.json asks for \(.*8, 4\)",
    ),
    "a smaller vocabulary": (with_config(vocab_size=400), "the tokenizer has 500 ids, but the model only 400"),
    "a larger vocabulary": (
        with_config(vocab_size=600),
        r"word_embedding.weight has shape \(500, 32\), config.json asks for \(600, 32\)",
    ),
    "no tokenizer": (with_file("tokenizer.model", None), "no tokenizer.model or spiece.model in .*; pass tokenizer="),
    "a tokenizer of noise": (with_file("tokenizer.model", b"noise"), "codec 'anyorder-sentencepiece' cannot use"),
    "an empty tokenizer": (with_file("tokenizer.model", b""), "codec 'anyorder-sentencepiece' cannot use"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_checkpoint_is_a_value_error_that_says_what_is_wrong(case: str, checkpoint: Path) -> None:
    damage, message = BAD[case]
    damage(checkpoint)
    named = "codec" in json.loads(_config(checkpoint)).get("anyorder", {}) if _is_json_object(checkpoint) else False
    with pytest.raises(ValueError, match=message) as caught:
        anyorder.load(checkpoint, codec=None if named else OWN)
    assert type(caught.value) is ValueError
    assert_said_by_the_library(caught.value)


def _config(directory: Path) -> str:
    return (directory / "config.json").read_text()


def _is_json_object(directory: Path) -> bool:
    try:
        return isinstance(json.loads(_config(directory))["anyorder"], dict)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def without_a_shard(directory: Path) -> None:
    sorted(directory.glob("model-*.safetensors"))[1].unlink()


def with_half_a_shard(directory: Path) -> None:
    cut(sorted(directory.glob("model-*.safetensors"))[1].name, 0.5)(directory)


def with_index(content: str) -> Damage:
    return with_file("model.safetensors.index.json", content.encode())


class Payload:
    """What a pickle must not be able to do."""

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return print, ("code ran",)


@pytest.mark.parametrize(
    ("write", "damage", "message"),
    [
        (write_shards, without_a_shard, "safetensors cannot be read: .* is it complete"),
        (write_shards, with_half_a_shard, "safetensors cannot be read: .* is it complete"),
        (write_shards, with_index("{"), "index.json is damaged"),
        (write_shards, with_index("[1]"), "index.json is damaged"),
        (write_shards, with_index('{"weight_map": 3}'), "index.json is damaged"),
        (write_shards, with_index('{"weight_map": {"a": 3}}'), "index.json is damaged"),
        (write_shards, with_index('{"weight_map": {}}'), "index.json has no tensor transformer"),
        (write_pickle, cut("pytorch_model.bin", 0.5), "pytorch_model.bin cannot be read as a checkpoint of plain"),
        (write_old_pickle, cut("pytorch_model.bin", 0.5), "pytorch_model.bin cannot be read as a checkpoint of plain"),
        (write_pickle, with_file("pytorch_model.bin", b""), "pytorch_model.bin cannot be read as a checkpoint"),
        (write_pickle, with_file("pytorch_model.bin", b"noise" * 99), "pytorch_model.bin cannot be read"),
        (
            write_pickle,
            lambda d: torch.save({"a": Payload()}, d / "pytorch_model.bin"),
            "pytorch_model.bin cannot be read as a checkpoint of plain tensors",
        ),
        (
            write_pickle,
            with_file("pytorch_model.bin", pickle.dumps(Payload(), protocol=2)),
            "pytorch_model.bin cannot be read as a checkpoint of plain tensors",
        ),
        (
            write_pickle,
            lambda d: torch.save(torch.zeros(3), d / "pytorch_model.bin"),
            "must hold a dictionary of tensors, got Tensor",
        ),
        (
            write_pickle,
            lambda d: torch.save({"transformer.word_embedding.weight": "x"}, d / "pytorch_model.bin"),
            "has no tensor transformer.word_embedding.weight",
        ),
    ],
)
def test_other_formats_of_weights_are_checked_as_well(
    write: Callable[..., None],
    damage: Damage,
    message: str,
    reference: torch.nn.Module,
    tokenizer_file: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write(reference, tmp_path)
    shutil.copy(tokenizer_file, tmp_path)
    damage(tmp_path)
    with pytest.raises(ValueError, match=message) as caught:
        anyorder.load(tmp_path, codec=OWN)
    assert_said_by_the_library(caught.value)
    assert "code ran" not in capsys.readouterr().out
