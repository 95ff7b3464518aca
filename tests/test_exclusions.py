"""What is never drawn: specials, ids without text, and what the caller forbids."""

from __future__ import annotations

import dataclasses
import gc

import pytest
import torch

import anyorder
from anyorder import exclusions
from anyorder.exclusions import exclude
from anyorder.model.loaded import Model
from anyorder.model.xlnet import XLNet


def excluded(model: Model, *strings: str) -> set[int]:
    return set(exclude(model, strings).ids.nonzero().flatten().tolist())


def test_the_mask_the_specials_and_what_the_checkpoint_names_are_excluded(tiny: Model) -> None:
    assert excluded(tiny) == {tiny.codec.mask_id, *tiny.codec.forbidden_ids}
    named = dataclasses.replace(tiny, settings=dataclasses.replace(tiny.settings, forbidden_ids=(77,)))
    assert excluded(named) == excluded(tiny) | {77}


def test_ids_beyond_the_codecs_vocabulary_are_excluded(tiny: Model) -> None:
    config = dataclasses.replace(tiny.network.config, vocab_size=tiny.codec.vocab_size + 3)
    network = XLNet(config).initialise(torch.Generator().manual_seed(0)).eval()
    padded = dataclasses.replace(tiny, network=network)
    size = tiny.codec.vocab_size
    assert excluded(padded) == excluded(tiny) | {size, size + 1, size + 2}
    fill = anyorder.infill("<mask:40>", model=padded, temperature=1000.0, seed=0, forbidden="e").spans[0]
    assert max(fill.token_ids) < size
    assert "e" not in fill.text


def test_a_token_that_contains_a_forbidden_string_is_excluded(tiny: Model) -> None:
    expected = {token for token in range(tiny.codec.vocab_size) if "e" in tiny.codec.decode([token])}
    assert len(expected) > 10
    assert excluded(tiny, "e") == excluded(tiny) | expected


def test_no_special_token_is_drawn_at_any_temperature(tiny: Model) -> None:
    samples = anyorder.infill("<mask:80>", model=tiny, temperature=1000.0, seed=0, n=10, method="parallel")
    drawn = {token for sample in samples for token in sample.spans[0].token_ids}
    assert len(drawn) > 300, "nearly every token is equally likely here"
    assert not drawn & {tiny.codec.mask_id, *tiny.codec.forbidden_ids}


def test_forbidding_everything_is_an_error_that_says_so(tiny: Model) -> None:
    ascii_letters = [chr(code) for code in range(128)]
    with pytest.raises(ValueError, match="leaves no token to fill a blank with"):
        anyorder.infill("<mask>", model=_without_bytes(tiny), forbidden=ascii_letters)


def _without_bytes(model: Model) -> Model:
    """A checkpoint that forbids the pieces of characters, so that forbidding every character leaves nothing."""
    pieces = tuple(token for token in range(model.codec.vocab_size) if not model.codec.token_bytes(token).isascii())
    return dataclasses.replace(model, settings=dataclasses.replace(model.settings, forbidden_ids=pieces))


def test_forbidding_the_replacement_character_leaves_only_whole_characters(tiny: Model) -> None:
    for seed in range(3):
        free = anyorder.infill("<mask:40>", model=tiny, temperature=1000.0, seed=seed)
        bound = anyorder.infill("<mask:40>", model=tiny, temperature=1000.0, seed=seed, forbidden="\ufffd")
        assert "\ufffd" not in bound.text
        assert "\ufffd" in free.text, "or this test shows nothing"


def test_what_strings_exclude_is_worked_out_once_for_a_model_and_not_kept_beyond_it(
    tiny: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = []
    monkeypatch.setattr(exclusions, "exclusions", lambda model, strings: made.append((model.name, strings)) or "what")
    models = [dataclasses.replace(tiny, name=name) for name in ("one", "other")]
    for model in (*models, *models):
        for strings in (("a",), ("b",)):
            exclude(model, strings)
    assert made == [(name, strings) for name in ("one", "other") for strings in (("a",), ("b",))]
    kept = len(exclusions._KEPT)
    del models, model
    gc.collect()
    assert len(exclusions._KEPT) == kept - 2
