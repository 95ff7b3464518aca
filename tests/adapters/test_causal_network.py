"""The network is the one of transformers; what the cache holds is what a fresh pass computes; masks leave no trace."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from causal_models import FAMILIES, VOCAB, causal_logits, make, network, ragged_prompts
from torch import Tensor

from anyorder.adapters import causal
from anyorder.adapters.causal import CausalConfig, CausalModel, load, to_transformers, wrap
from anyorder.adapters.causal.cache import SlotCache
from anyorder.adapters.causal.plan import Blocks, Stand, plan_pass
from anyorder.adapters.causal.rows import clean_rows
from anyorder.model.linear import can_pack

TOLERANCE = 1e-5
"""Of the largest number: what two orders of summing in float32 differ by."""


def close(ours: Tensor, wanted: Tensor) -> bool:
    return bool((ours - wanted).abs().max() <= TOLERANCE * wanted.abs().max())


VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{family: (family, {}) for family in FAMILIES},
    "tied": ("qwen2", {"tie_word_embeddings": True}),
    "ungrouped": ("qwen3", {"num_key_value_heads": 4}),
    "one key head": ("qwen2", {"num_key_value_heads": 1}),
    "biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama3 positions": (
        "llama",
        {
            "rope_parameters": {
                "rope_type": "llama3",
                "rope_theta": 100.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
    ),
    "yarn positions": (
        "qwen3",
        {
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 100.0,
                "factor": 4.0,
                "original_max_position_embeddings": 16,
            }
        },
    ),
}


@pytest.mark.parametrize("variant", VARIANTS)
@torch.no_grad()
def test_a_pass_equals_the_one_of_transformers(variant: str) -> None:
    family, options = VARIANTS[variant]
    theirs = make(family, **options)
    tokens = torch.randint(VOCAB, (3, 70))
    assert close(causal_logits(wrap(theirs), tokens), theirs(tokens).logits)


@torch.no_grad()
def test_half_precision_is_no_rougher_than_that_of_transformers() -> None:
    theirs = make("qwen3", dtype=torch.bfloat16)
    tokens = torch.randint(VOCAB, (2, 20))
    ours, rounded = causal_logits(wrap(theirs), tokens), theirs(tokens).logits
    exact = make("qwen3")(tokens).logits
    assert ours.dtype == torch.bfloat16
    assert (ours - exact).abs().mean() < 1.1 * (rounded - exact).abs().mean()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_weights_change_their_precision_and_angles_of_far_positions_do_not(dtype: torch.dtype, tmp_path: Path) -> None:
    make("llama").save_pretrained(tmp_path)
    opened, wanted = load(tmp_path, dtype=dtype), load(tmp_path).frequencies
    turned = load(tmp_path).to(dtype)
    for model in (opened, turned, copy.deepcopy(turned)):
        assert model.embedding.dtype == dtype
        assert torch.equal(model.frequencies, wanted)
    tokens = torch.randint(VOCAB, (1, 3))
    far = torch.tensor([[1000, 1001, 2000]])
    sees = torch.ones(1, 3, 3).bool()
    assert torch.equal(turned(tokens, far, sees), opened(tokens, far, sees))


def encode_in_pieces(model: CausalModel, prompts: list[Tensor], cut: int) -> tuple[SlotCache, Tensor]:
    """Every prompt read in two passes, with masks in the first; the last token's logits."""
    lengths = torch.tensor([len(prompt) for prompt in prompts])
    cache = model.new_cache(len(prompts), int(lengths.max()) + 8)
    tokens = torch.zeros(len(prompts), cache.num_slots + 1, dtype=torch.long)
    for row, prompt in enumerate(prompts):
        tokens[row, : len(prompt)] = prompt
    first = torch.minimum(lengths - 1, torch.tensor(cut)).clamp(min=0)
    none = torch.zeros_like(lengths)
    for decided, encoded, masks in ((first, none, 3), (lengths, first, 2)):
        plan = plan_pass(
            Stand(decided, encoded, none),
            (masks * (decided > 0))[:, None],
            sentinel=cache.num_slots,
            chunk=64,
            blocks=Blocks(),
        )
        slots = torch.where(plan.rows.is_mask, cache.num_slots, plan.rows.slots)
        logits = model.step(tokens.gather(1, slots), plan.rows, cache, asked=plan.asked)
    return cache, logits[:, 0]


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_what_the_cache_holds_is_what_a_fresh_pass_computes(family: str) -> None:
    model, prompts = network(family), ragged_prompts(7)
    cache, logits = encode_in_pieces(model, prompts, cut=4)
    for row, prompt in enumerate(prompts):
        fresh = model.new_cache(1, len(prompt))
        rows = clean_rows(torch.arange(len(prompt))[None], len(prompt))
        answer = model.step(prompt[None], rows, fresh, asked=torch.tensor([[len(prompt) - 1]]))
        assert close(answer[0, 0], logits[row])
        assert close(causal_logits(model, prompt[None])[0, -1], logits[row])
        for layer in range(model.config.num_layers):
            for held, wanted in zip(cache.read(layer, len(prompt)), fresh.read(layer, len(prompt)), strict=True):
                assert close(held[row], wanted[0])


@torch.no_grad()
def test_slots_a_row_may_not_see_do_not_matter_whatever_they_hold() -> None:
    model, prompt = network("qwen3"), torch.randint(VOCAB, (1, 5))
    rows, asked = clean_rows(torch.arange(5)[None], 12), torch.arange(5)[None]
    clean, stale = model.new_cache(1, 12), model.new_cache(1, 12)
    for buffer in (*stale.keys, *stale.values):
        buffer.fill_(1e4)
    assert torch.equal(model.step(prompt, rows, clean, asked=asked), model.step(prompt, rows, stale, asked=asked))


@torch.no_grad()
def test_rows_that_take_no_part_are_not_computed_and_answer_nothing() -> None:
    model = network("qwen2")
    seen: list[int] = []
    model.layer(0).register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    slots = torch.tensor([[0, 1, 2], [0, 9, 9]])
    answers = model.step(
        torch.ones(2, 3, dtype=torch.long),
        clean_rows(slots, 9),
        model.new_cache(2, 9),
        asked=torch.tensor([[0, 2], [0, 3]]),
    )
    assert seen == [4]
    assert bool((answers[1, 1] == 0).all())
    assert bool(answers[0].any(-1).all())


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_packed_weights_are_the_same_function_and_go_back_bit_by_bit(family: str) -> None:
    theirs, tokens = make(family), torch.randint(VOCAB, (1, 9))
    packed = wrap(theirs).pack("packed")
    if can_pack(torch.zeros(2, 2), "packed"):
        assert packed.layer(0).expand.base.packing == "packed" == packed.head.packing
    assert close(causal_logits(packed, tokens), theirs(tokens).logits)
    for model in (packed, wrap(theirs)):
        back = to_transformers(model)
        assert back.generation_config.eos_token_id == [0]
        for (name, tensor), again in zip(theirs.state_dict().items(), back.state_dict().values(), strict=True):
            assert torch.equal(tensor, again), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "gpt2"}, "llama, qwen2, qwen3; got 'gpt2'"),
        ({"hidden_act": "gelu"}, "asks for 'gelu'"),
        ({"layer_types": ["full_attention", "sliding_attention"]}, "1 layers of this model use 'sliding_attention'"),
        ({"rope_parameters": {"rope_type": "dynamic"}}, "got 'dynamic'"),
    ],
)
def test_what_would_change_the_arithmetic_is_refused(change: dict[str, Any], message: str) -> None:
    import transformers

    config = transformers.Qwen2Config()
    for name, value in change.items():
        object.__setattr__(config, name, value)
    with pytest.raises(ValueError, match=message):
        CausalConfig.from_transformers(config)


def test_only_a_language_model_can_be_wrapped() -> None:
    with pytest.raises(TypeError, match="got Linear"):
        wrap(torch.nn.Linear(2, 2))


def test_a_mask_id_beyond_the_vocabulary_is_a_sentence_and_no_index_error() -> None:
    with pytest.raises(ValueError, match=r"range\(13\).*a learned vector is used"):
        network("qwen2").use_mask_id(VOCAB)


def test_the_adapters_import_without_transformers() -> None:
    code = (
        "import sys; sys.modules['transformers'] = None\n"
        "from anyorder.adapters import causal, mars, orthrus\n"
        "try: causal.load('somewhere')\n"
        "except ImportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip().endswith("pip install 'transformers>=5'")


def test_a_name_that_means_nothing_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import AutoModelForCausalLM

    def fetch(name: str, **_: object) -> None:
        raise OSError(f"cannot find {name}\nand a second line")

    monkeypatch.setattr(AutoModelForCausalLM, "from_pretrained", fetch)
    with pytest.raises(
        ValueError, match=r"^nope is no directory, and the Hub gave none by that name: cannot find nope$"
    ):
        causal.load("nope")
    with pytest.raises(ValueError, match="holds no causal model: cannot find"):
        causal.load(tmp_path)
