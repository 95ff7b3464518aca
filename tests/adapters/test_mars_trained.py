"""MARS on a corpus that a tiny model learns in seconds: drafts are kept, the text is greedy, a LoRA spares the base."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from causal_models import FAMILIES, causal_logits, greedy_by_transformers, make, network, ragged_prompts, with_view

from anyorder.adapters import mars
from anyorder.adapters.causal import CausalModel, wrap
from anyorder.adapters.mars.lora import GatedLora
from training import templated


def fit(model: CausalModel, *, steps: int, rate: float, seed: int = 0) -> CausalModel:
    """A few steps of MARS with blocks of four."""
    draw = random.Random(seed)
    optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=rate)
    for step in range(steps):
        tokens, is_response = templated.draw_batch(draw, 8, 64)
        loss = mars.mars_loss(model, tokens, is_response, block=4)
        (loss.noisy + loss.clean).backward()
        for group in optimiser.param_groups:
            group["lr"] = rate * min(1.0, (step + 1) / 10, (steps - step) / (steps / 2))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    return model.requires_grad_(False)


@pytest.fixture(scope="module")
def trained() -> CausalModel:
    model = network(
        "qwen3", vocab_size=templated.VOCAB_SIZE, width=64, inner=128, num_heads=2, num_key_heads=2, head_width=32
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.fill_(1.0) if "norm" in name else parameter.normal_(0.0, 0.1)
    return fit(model.requires_grad_(True), steps=220, rate=5e-3)


def test_verify_mode_decides_almost_two_tokens_a_pass_and_writes_what_greedy_writes(trained: CausalModel) -> None:
    prompts = templated.draw_prompts(1, 12)
    greedy = mars.generate(trained, prompts, tau=1.0, max_new_tokens=70)
    for lookahead, least in (("linear", 1.8), ("quadratic", 1.9)):
        lossless = mars.generate(trained, prompts, mode="verify", lookahead=lookahead, max_new_tokens=70)
        assert [result.token_ids for result in lossless] == [result.token_ids for result in greedy]
        assert sum(r.stats.tokens for r in lossless) / sum(r.stats.nfe for r in lossless) >= least
    assert len({result.token_ids for result in greedy}) > 6


def test_threshold_mode_decides_more_tokens_a_pass_the_lower_tau_is(trained: CausalModel) -> None:
    prompts = templated.draw_prompts(1, 12)
    rates = []
    for tau in (1.0, 0.9, 0.5):
        results = mars.generate(trained, prompts, tau=tau, max_new_tokens=70)
        rates.append(sum(result.stats.tokens for result in results) / sum(result.stats.nfe for result in results))
    assert rates[0] == 1.0
    assert 1.3 < rates[1] < rates[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_lora_leaves_what_the_base_says_bit_by_bit_and_trains_nothing_else(family: str) -> None:
    base, model = (network(family, vocab_size=templated.VOCAB_SIZE) for _ in range(2))
    mars.attach_lora(model.requires_grad_(True), rank=3)
    learning = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    added = {name for name, _ in model.named_parameters()} - {name for name, _ in base.named_parameters()}
    assert learning == added | {"mask_embedding"}
    assert len(added) == 2 * 4 * model.config.num_layers
    fit(model, steps=3, rate=1e-2)
    assert all(bool(module.up.abs().max() > 0) for module in model.modules() if isinstance(module, GatedLora))
    ours = dict(model.named_parameters())
    for name, parameter in base.named_parameters():
        assert torch.equal(parameter, ours[name]) == (name != "mask_embedding"), name
    tokens = torch.randint(templated.VOCAB_SIZE, (2, 9))
    assert torch.equal(causal_logits(model, tokens), causal_logits(base, tokens))
    prompts = templated.draw_prompts(0, 3)
    for options in ({"tau": 1.0}, {"mode": "verify"}, {"mode": "verify", "lookahead": "quadratic"}):
        results = [mars.generate(each, prompts, max_new_tokens=12, **options) for each in (base, model)]
        assert [r.token_ids for r in results[0]] == [r.token_ids for r in results[1]]


def test_clean_rows_beside_masks_are_the_bases_and_mask_rows_are_not() -> None:
    """The same pass, with and without a LoRA that does something."""
    model, place = network("llama"), torch.arange(6)
    tokens, is_mask = torch.randint(1, 9, (2, 6)), torch.tensor([[0, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1]]).bool()
    visible = (place[:, None] >= place)[None]
    before = model(tokens, place.expand(2, 6), visible, is_mask)
    mars.attach_lora(model, rank=2)
    assert torch.equal(model(tokens, place.expand(2, 6), visible, is_mask), before)
    with torch.no_grad():
        for module in model.modules():
            if isinstance(module, GatedLora):
                module.up.normal_()
    after = model(tokens, place.expand(2, 6), visible, is_mask)
    assert torch.equal(after[~is_mask], before[~is_mask])
    assert bool((after[is_mask] != before[is_mask]).any(-1).all())


def test_a_lora_needs_a_rank_and_plain_weights() -> None:
    with pytest.raises(ValueError, match="rank must be at least 1; got 0"):
        mars.attach_lora(network("qwen2"), rank=0)
    packed = network("qwen2").pack("packed")
    if packed.head.packing == "packed":
        with pytest.raises(ValueError, match="attached before the weights are packed"):
            mars.attach_lora(packed)


@pytest.mark.parametrize(
    ("make_model", "kind"),
    [(lambda: mars.attach_lora(network("qwen2")), "a LoRA"), (lambda: with_view("qwen2"), "a view")],
)
def test_mask_rows_that_have_weights_of_their_own_keep_them(make_model: Callable[[], CausalModel], kind: str) -> None:
    model = make_model()
    before = dict(model.named_parameters())
    with pytest.raises(ValueError, match=f"no weights of their own yet; this one has {kind}"):
        mars.attach_lora(model, rank=2)
    after = dict(model.named_parameters())
    assert after.keys() == before.keys()
    assert all(after[name] is parameter for name, parameter in before.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_model_is_the_same_here_and_in_transformers(family: str, tmp_path: Path) -> None:
    import transformers

    model, prompts = wrap(make(family)), ragged_prompts(4)
    with torch.no_grad():
        model.mask_embedding.normal_()
    model.block, model.mask_id = 3, 5
    mars.save(model, tmp_path)
    again = mars.load(tmp_path)
    assert (again.block, again.mask_id, again.sees_both_ways) == (3, 5, False)
    for (name, tensor), (other, loaded) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert name == other
        assert torch.equal(tensor, loaded), name
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    model.mask_id = again.mask_id = None
    wanted = greedy_by_transformers(theirs, prompts, 8)
    assert [list(r.token_ids) for r in mars.generate(again, prompts, mode="verify", max_new_tokens=8)] == wanted


def test_a_lora_is_saved_without_its_base_and_refuses_another(tmp_path: Path) -> None:
    base, other = tmp_path / "base", tmp_path / "other"
    make("qwen2").save_pretrained(base)
    make("qwen2", seed=1).save_pretrained(other)
    model = mars.attach_lora(wrap(make("qwen2")), rank=2, alpha=6.0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.normal_()
    model.block = 4
    mars.save(model, tmp_path / "lora", base="../base")
    assert sorted(path.name for path in (tmp_path / "lora").iterdir()) == ["mars.json", "mars.safetensors"]
    assert json.loads((tmp_path / "lora" / "mars.json").read_text())["lora"] == {"rank": 2, "alpha": 6.0}
    again = mars.load(tmp_path / "lora")
    prompts = ragged_prompts(3)
    for options in ({"tau": 0.0}, {"mode": "verify"}):
        runs = [mars.generate(each, prompts, max_new_tokens=6, **options) for each in (model, again)]
        assert [r.token_ids for r in runs[0]] == [r.token_ids for r in runs[1]]
    with pytest.raises(ValueError, match="not those this LoRA was trained on"):
        mars.load(tmp_path / "lora", base=other)
    with pytest.raises(ValueError, match="only a LoRA can be saved without its base"):
        mars.save(wrap(make("qwen2")), tmp_path / "full", base=str(base))
    with pytest.raises(ValueError, match=r"holds no mars\.json"):
        mars.load(base)


def test_a_lora_is_saved_before_its_weights_are_packed_or_with_its_base(tmp_path: Path) -> None:
    make("qwen2").save_pretrained(tmp_path / "base")
    model = mars.attach_lora(wrap(make("qwen2")), rank=2).pack("packed")
    if model.head.packing == "plain":
        pytest.skip("this build packs nothing")
    with pytest.raises(ValueError, match="saved before the weights are packed"):
        mars.save(model, tmp_path / "lora", base="../base")
    assert not (tmp_path / "lora").exists()
    mars.save(model, tmp_path / "whole")
    assert len(mars.load(tmp_path / "whole").state_dict()) > len(wrap(make("qwen2")).state_dict())
