"""A checkpoint means the same to anyorder and to Hugging Face, and nothing of it is lost by loading and saving."""

from __future__ import annotations

import copy
import dataclasses
import json
import os
import pickle
import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
import transformers
from networks import all_steps, random_order, random_tokens
from safetensors.torch import load_file
from torch import Tensor
from xlnet_reference import random_reference, reference_logits

import anyorder
from anyorder.codec.load import load_codec
from anyorder.model import hub
from anyorder.model.config import AnyOrderConfig
from anyorder.model.linear import can_pack
from anyorder.model.loaded import Model
from anyorder.model.xlnet import XLNet
from anyorder.visibility import content_rows, verify_rows

OWN = "anyorder-sentencepiece"
ORDER = random_order(3, [16], [5])
TOKENS = random_tokens(3, ORDER, 500)
HALVES = pytest.mark.skipif(not can_pack(torch.empty(1, 1), "float16"), reason="this build has no FBGEMM")


def logits(network: XLNet) -> Tensor:
    steps = all_steps(ORDER)
    with torch.no_grad():
        return network(TOKENS, ORDER.sigma, None, encode=content_rows(ORDER, steps), query=verify_rows(steps))[0, 5:]


def their_logits(model: transformers.XLNetLMHeadModel) -> Tensor:
    with torch.no_grad():
        tokens = ORDER.to_positions(TOKENS)[0]
        return reference_logits(model, tokens, ORDER.sigma[0], 5, steps=torch.arange(5, 16))


def test_every_format_that_hugging_face_writes_gives_its_logits(
    written_by_hugging_face: Path, reference: transformers.XLNetLMHeadModel
) -> None:
    model = anyorder.load(written_by_hugging_face, codec=OWN)
    torch.testing.assert_close(logits(model.network), their_logits(reference), atol=1e-5, rtol=0)
    assert not model.network.training


@pytest.mark.parametrize("tied", [True, False])
def test_hugging_face_reads_what_is_saved_here_and_finds_its_own_tensors_bit_for_bit(
    tied: bool, checkpoint: Path, tmp_path: Path
) -> None:
    """Segment tensors, which the engine never reads, included."""
    wrote = random_reference(vocab_size=500, d_model=32, n_layer=2, n_head=4, d_inner=64, tie_word_embeddings=tied)
    wrote.save_pretrained(checkpoint)
    for weights in ("plain", None):
        anyorder.load(checkpoint, codec=OWN, weights=weights).save_pretrained(tmp_path / "ours")
        read, report = transformers.XLNetLMHeadModel.from_pretrained(tmp_path / "ours", output_loading_info=True)
        assert not report["missing_keys"]
        assert not report["unexpected_keys"]
        assert not report["mismatched_keys"]
        want = wrote.state_dict()
        assert read.state_dict().keys() == want.keys()
        assert all(torch.equal(tensor, want[name]) for name, tensor in read.state_dict().items())
        torch.testing.assert_close(their_logits(read.eval()), their_logits(wrote), atol=0, rtol=0)
        assert "seg_embed" in "".join(load_file(tmp_path / "ours" / "model.safetensors"))


def test_saving_and_loading_changes_no_logit_by_one_bit(checkpoint: Path, tmp_path: Path) -> None:
    for weights in ("plain", "packed"):
        model = anyorder.load(checkpoint, codec=OWN, weights=weights)
        model.save_pretrained(tmp_path / weights)
        again = anyorder.load(tmp_path / weights, weights=weights)
        assert again is not model
        assert torch.equal(logits(again.network), logits(model.network))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_weights_stored_in_half_precision_are_the_rounded_weights_and_nothing_else(
    dtype: torch.dtype, checkpoint: Path, tmp_path: Path
) -> None:
    model = anyorder.load(checkpoint, codec=OWN, weights="plain")
    model.save_pretrained(tmp_path / "half", dtype=dtype)
    stored = load_file(tmp_path / "half" / "model.safetensors")
    assert {tensor.dtype for tensor in stored.values()} == {dtype}
    assert json.loads((tmp_path / "half" / "config.json").read_text())["dtype"] == str(dtype).removeprefix("torch.")

    rounded = anyorder.load(tmp_path / "half", weights="plain")
    assert rounded.dtype == torch.float32
    for name, tensor in rounded.network.state_dict().items():
        assert torch.equal(tensor, model.network.state_dict()[name].to(dtype).float()), name
    # Packed in the fastest layout that keeps them, computed in float32: the same numbers up to rounding.
    torch.testing.assert_close(
        logits(anyorder.load(tmp_path / "half").network), logits(rounded.network), atol=1e-5, rtol=0
    )
    in_half = anyorder.load(tmp_path / "half", dtype=dtype)
    assert in_half.dtype == dtype
    in_half.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        tmp_path / "half" / "model.safetensors"
    ).read_bytes()


def test_what_a_checkpoint_says_about_itself_survives(checkpoint: Path, tmp_path: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN)
    settings = AnyOrderConfig(
        codec=OWN,
        order="spread",
        mask_id=model.codec.mask_id,
        forbidden_ids=(*model.forbidden_ids, 77),
        max_length=123,
        acceptance=(0.5, 0.25),
    )
    dataclasses.replace(model, settings=settings, card="# A card\n").save_pretrained(tmp_path / "saved")
    again = anyorder.load(tmp_path / "saved")
    assert again.settings == settings
    assert (again.order_policy, again.max_length) == ("spread", 123)
    assert again.policy.acceptance == (0.5, 0.25)
    assert again.card == "# A card\n"
    assert again.codec.name == OWN
    assert again.tokenize("def f(x):") == model.tokenize("def f(x):")
    assert again.network.config == model.network.config
    assert again.network.config.other["summary_type"] == "last", "Hugging Face's settings that nothing here reads"
    again.save_pretrained(tmp_path / "twice")
    for file in ("config.json", "model.safetensors", "tokenizer.model", "README.md"):
        assert (tmp_path / "twice" / file).read_bytes() == (tmp_path / "saved" / file).read_bytes()


def test_a_checkpoint_with_nothing_but_weights_gets_a_card_and_the_default_policy(
    checkpoint: Path, tmp_path: Path
) -> None:
    model = anyorder.load(checkpoint, codec=OWN)
    assert (model.order_policy, model.max_length, model.card) == ("ascending", 512, "")
    assert model.policy.acceptance, "a prior of the package's"
    model.save_pretrained(tmp_path / "named")
    assert (tmp_path / "named" / "README.md").read_text().startswith("# named\n")


def test_ids_that_stand_for_no_piece_are_forbidden(tokenizer_file: Path, tmp_path: Path) -> None:
    random_reference(vocab_size=512, d_model=8, n_layer=1, n_head=1, d_inner=8).save_pretrained(tmp_path / "wide")
    shutil.copy(tokenizer_file, tmp_path / "wide")
    model = anyorder.load(tmp_path / "wide", codec=OWN)
    assert set(range(500, 512)) < set(model.forbidden_ids)
    assert set(model.codec.forbidden_ids) < set(model.forbidden_ids)


def test_saving_into_the_directory_it_was_loaded_from_leaves_the_model_as_it_was(checkpoint: Path) -> None:
    """Its tensors may be views of that very file."""
    model = anyorder.load(checkpoint, codec=OWN, weights="plain")
    want = logits(model.network)
    model.save_pretrained(checkpoint, dtype=torch.bfloat16)
    assert torch.equal(logits(model.network), want)
    assert not list(checkpoint.glob("*.partial"))


@HALVES
def test_weights_that_packing_rounded_are_not_saved_over_anything(checkpoint: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN, weights="float16")
    before = {path.name: path.read_bytes() for path in checkpoint.iterdir()}
    with pytest.raises(ValueError, match="rounded these weights; load the checkpoint without it"):
        model.save_pretrained(checkpoint)
    assert {path.name: path.read_bytes() for path in checkpoint.iterdir()} == before


def test_two_threads_that_ask_for_the_same_get_the_same(checkpoint: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        models = list(pool.map(lambda _: anyorder.load(checkpoint, codec=OWN), range(4)))
    assert len(set(map(id, models))) == 1


def test_a_load_that_takes_long_keeps_no_other_waiting(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def fetch(*_: object) -> str:
        begun.set()
        assert go_on.wait(60)
        return str(checkpoint)

    monkeypatch.setattr("anyorder.model.hub._fetch", fetch)
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(anyorder.load, "owner/slow", codec=OWN)
        assert begun.wait(60)
        try:
            anyorder.load(checkpoint, codec=OWN)
        finally:
            go_on.set()
        assert slow.result().name == "owner/slow"


def test_a_model_is_loaded_once(checkpoint: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN)
    assert anyorder.load(str(checkpoint), codec=OWN, device="cpu", dtype="float32") is model
    assert anyorder.load(checkpoint, codec=OWN, dtype=torch.float32) is model
    assert anyorder.load(checkpoint, codec=OWN, weights="plain") is not model
    assert anyorder.load(checkpoint, codec=OWN, dtype="bfloat16") is not model
    assert anyorder.load() is anyorder.load("mini-code")


def test_a_checkpoint_that_was_saved_anew_is_read_anew(checkpoint: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN, weights="plain")
    with torch.no_grad():
        model.network.head.bias.add_(1.0)
    model.save_pretrained(checkpoint)
    again = anyorder.load(checkpoint, codec=OWN, weights="plain")
    assert again is not model
    assert torch.equal(again.network.head.bias, model.network.head.bias)
    assert anyorder.load(checkpoint, codec=OWN, weights="plain") is again


def test_a_relative_name_is_another_model_in_another_directory(
    checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "elsewhere" / checkpoint.name
    shutil.copytree(checkpoint, other)
    monkeypatch.chdir(checkpoint.parent)
    first = anyorder.load(checkpoint.name, codec=OWN)
    os.chdir(other.parent)
    assert anyorder.load(checkpoint.name, codec=OWN) is not first


def test_a_model_loaded_under_inference_mode_can_be_trained(checkpoint: Path) -> None:
    """It is loaded once for all callers, so the first one's mode must not stay with it."""
    with torch.inference_mode():
        model = anyorder.load(checkpoint, codec=OWN, weights="plain")
        logits(model.network)
    steps = all_steps(ORDER)
    out = model.network(TOKENS, ORDER.sigma, None, encode=content_rows(ORDER, steps), query=verify_rows(steps))
    out.sum().backward()
    torch.optim.SGD(model.network.parameters(), lr=0.1).step()
    assert model.network.embedding.grad is not None


def test_only_plain_weights_have_gradients(checkpoint: Path) -> None:
    assert all(p.requires_grad for p in anyorder.load(checkpoint, codec=OWN, weights="plain").network.parameters())
    assert not any(p.requires_grad for p in anyorder.load(checkpoint, codec=OWN, weights="packed").network.parameters())


def test_a_codec_or_tokenizer_that_is_given_wins(
    checkpoint: Path, tokenizer_file: Path, xlnet_tokenizer_file: Path, tmp_path: Path
) -> None:
    anyorder.load(checkpoint, codec=OWN).save_pretrained(tmp_path / "ours")
    assert anyorder.load(tmp_path / "ours", codec="xlnet", tokenizer=xlnet_tokenizer_file).codec.name == "xlnet"
    shutil.copy(xlnet_tokenizer_file, tmp_path / "spiece.model")
    directory = anyorder.load(tmp_path / "ours", codec="xlnet-escaped", tokenizer=str(xlnet_tokenizer_file.parent))
    assert directory.codec.name == "xlnet-escaped"
    mine = load_codec(OWN, tokenizer_file)
    assert anyorder.load(tmp_path / "ours", codec=mine).codec is mine
    # What the codec says of ids holds, not what the checkpoint said for another one.
    assert directory.settings.mask_id == directory.codec.mask_id
    assert directory.settings.codec == "xlnet-escaped"


@pytest.mark.parametrize(
    ("revision", "codec"),
    [("code", "legacy-asarm-code"), ("nlp", "xlnet"), ("nlp_210k_plus_75k", "xlnet")],
)
def test_published_checkpoints_that_hold_weights_alone_are_known(
    revision: str,
    codec: str,
    reference: transformers.XLNetLMHeadModel,
    xlnet_tokenizer_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Laid out as on the Hub: config and weights in one repository, XLNet's vocabulary in another."""
    weights = tmp_path / f"asarm-{revision}"
    reference.save_pretrained(weights)
    asked = []

    def fetch(repository: str, asked_revision: str | None, patterns: list[str], offer: str) -> str:
        asked.append((repository, asked_revision))
        return str({"therealgabeguo/ASARM": weights, "xlnet/xlnet-base-cased": xlnet_tokenizer_file.parent}[repository])

    monkeypatch.setattr(hub, "_fetch", fetch)
    model = anyorder.load("therealgabeguo/ASARM", revision=revision)
    assert asked == [("therealgabeguo/ASARM", revision), ("xlnet/xlnet-base-cased", None)]
    assert model.codec.name == codec
    assert set(model.codec.forbidden_ids) <= set(model.forbidden_ids)
    torch.testing.assert_close(logits(model.network), their_logits(reference), atol=1e-5, rtol=0)
    model.save_pretrained(tmp_path / "local")
    assert anyorder.load(tmp_path / "local").codec.name == codec, "once saved, it says so itself"


def test_a_model_says_what_it_is(checkpoint: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN)
    assert isinstance(model, Model)
    assert "2 layers of 32, vocabulary 500" in repr(model)
    assert f"codec {OWN!r}, up to 512 tokens, torch.float32 on cpu" in repr(model)


@pytest.mark.parametrize("weights", ["plain", "packed", "float16"])
def test_a_pickled_or_copied_model_is_the_same_model(weights: str, checkpoint: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN, weights=weights)
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(logits(again.network), logits(model.network))
        assert anyorder.infill("a <mask:3> b", model=again, seed=3).text == (
            anyorder.infill("a <mask:3> b", model=model, seed=3).text
        )


def test_saving_where_it_cannot_be_read_back_is_refused_before_anything_is_written(
    checkpoint: Path, tmp_path: Path
) -> None:
    model = anyorder.load(checkpoint, codec=OWN)
    with pytest.raises(ValueError, match=r"dtype must be one of float32.*got torch.int8"):
        model.save_pretrained(tmp_path / "new", dtype=torch.int8)
    assert not (tmp_path / "new").exists()
    (tmp_path / "file").write_text("mine")
    for place in (tmp_path / "file", tmp_path / "file" / "inside"):
        with pytest.raises(ValueError, match="a file stands there; give a directory"):
            model.save_pretrained(place)
    assert (tmp_path / "file").read_text() == "mine"


def test_a_precision_may_be_named_and_the_default_one_does_not_matter(checkpoint: Path, tmp_path: Path) -> None:
    model = anyorder.load(checkpoint, codec=OWN)
    model.save_pretrained(tmp_path / "half", dtype="bfloat16")
    half = anyorder.load(tmp_path / "half")
    torch.set_default_dtype(torch.float64)
    try:
        half.save_pretrained(tmp_path / "again", dtype="bfloat16")
    finally:
        torch.set_default_dtype(torch.float32)
    assert (tmp_path / "again" / "model.safetensors").read_bytes() == (
        tmp_path / "half" / "model.safetensors"
    ).read_bytes()


def test_a_card_that_is_no_text_does_not_stop_loading(checkpoint: Path) -> None:
    (checkpoint / "README.md").write_bytes(b"caf\xe9")
    assert anyorder.load(checkpoint, codec=OWN).card == "caf\ufffd"


def test_a_callers_autocast_changes_nothing(checkpoint: Path) -> None:
    for weights in ("plain", "packed"):
        model = anyorder.load(checkpoint, codec=OWN, weights=weights)
        want = anyorder.infill("a <mask:6> b", model=model, seed=3)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            got = anyorder.infill("a <mask:6> b", model=model, seed=3)
            scored = anyorder.log_prob(got, model=model)
        assert (got.text, got.log_prob) == (want.text, want.log_prob)
        assert scored == anyorder.log_prob(want, model=model)
