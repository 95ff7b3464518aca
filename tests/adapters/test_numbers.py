"""Numbers and prompts of both adapters: numpy's serve wherever Python's do, and what is none is one sentence."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from causal_models import network, with_view

from anyorder.adapters import mars, orthrus
from anyorder.integers import as_integer

INTEGERS: dict[str, Any] = {"block": 3, "chunk": 2, "top_k": 5}


def mars_texts(prompts: Any, **options: Any) -> Any:
    result = mars.generate(network("qwen2"), prompts, **{"max_new_tokens": 5, "eos_ids": (), **options})
    return [each.token_ids for each in result] if isinstance(result, list) else result.token_ids


def orthrus_texts(prompts: Any, **options: Any) -> Any:
    options = {"max_new_tokens": 5, "eos_ids": (), **options}
    result = orthrus.generate(with_view("qwen2", "frozen"), prompts, **options)
    return [each.token_ids for each in result] if isinstance(result, list) else result.token_ids


@pytest.mark.parametrize("texts", [mars_texts, orthrus_texts])
@pytest.mark.parametrize("kind", [np.int64, np.int32, np.uint8, np.array, torch.tensor])
def test_an_integer_of_numpy_or_torch_is_pythons(texts: Any, kind: Any) -> None:
    changed = {name: kind(value) if name != "top_k" else np.int64(value) for name, value in INTEGERS.items()}
    options: dict[str, Any] = {"mode": "verify"} if texts is mars_texts else {}
    expected = texts([1, 2], max_new_tokens=7, eos_ids=(0, 4), seed=3, temperature=1.0, **options, **INTEGERS)
    assert (
        texts(
            [1, 2],
            max_new_tokens=kind(7),
            eos_ids=[kind(0), kind(4)],
            seed=kind(3),
            temperature=np.float32(1.0),
            **options,
            **changed,
        )
        == expected
    )


def test_what_a_result_holds_is_pythons_whatever_was_given() -> None:
    result = mars.generate(
        network("qwen2"),
        np.array([1, 2]),
        max_new_tokens=np.int64(4),
        block=np.int64(3),
        masks=np.int64(2),
        tau=np.float32(0.5),
        seed=np.int64(8),
        eos_ids=np.int64(4),
    )
    assert not isinstance(result, list)
    assert type(result.seed) is int
    json.dumps([result.token_ids, result.seed])


@pytest.mark.parametrize(
    "limits", [[2, 4], (np.int64(2), np.int64(4)), np.array([2, 4]), torch.tensor([2, 4]), range(2, 5, 2)]
)
def test_one_number_a_prompt_comes_in_any_sequence(limits: Any) -> None:
    texts = mars_texts([[1, 2], [3]], max_new_tokens=limits)
    assert [len(text) for text in texts] == [2, 4]


@pytest.mark.parametrize("texts", [mars_texts, orthrus_texts])
def test_a_prompt_of_numpy_is_a_list_of_its_ids(texts: Any) -> None:
    one, many = texts([1, 2]), texts([[1, 2], [3, 4]])
    for prompt in (
        np.array([1, 2]),
        np.array([1, 2], np.uint16),
        [np.int64(1), np.int64(2)],
        [torch.tensor(1), torch.tensor(2)],
        range(1, 3),
    ):
        assert texts(prompt) == one
    for prompts in (
        np.array([[1, 2], [3, 4]]),
        [np.array([1, 2]), np.array([3, 4])],
        [[np.int32(1), 2], torch.tensor([3, 4])],
    ):
        assert texts(prompts) == many
    assert texts([torch.tensor([1]), torch.tensor([3, 4])]) == [texts([1]), many[1]]


def test_an_array_is_padded_by_a_mask_as_a_tensor_is() -> None:
    padded, seen = [[1, 2], [3, 0]], [[1, 1], [1, 0]]
    expected = mars_texts(torch.tensor(padded), attention_mask=torch.tensor(seen))
    assert mars_texts(np.array(padded), attention_mask=np.array(seen)) == expected
    assert expected == mars_texts([[1, 2], [3]])


def test_a_threshold_of_numpy_or_torch_is_pythons() -> None:
    expected = mars_texts([[1, 2], [3]], tau=0.5)
    for tau in (
        np.float32(0.5),
        np.array(0.5),
        torch.tensor(0.5),
        np.array([0.5, 0.5]),
        [np.float64(0.5), 0.5],
        torch.tensor([0.5, 0.5]),
        lambda row, count: torch.tensor(0.5),
    ):
        assert mars_texts([[1, 2], [3]], tau=tau) == expected
    assert mars_texts([1, 2], tau=np.int64(1)) == mars_texts([1, 2], tau=1)
    assert mars_texts([1, 2], tau=10**400) == mars_texts([1, 2], tau=1)


def test_a_confidence_of_numpy_or_torch_is_pythons() -> None:
    expected = orthrus_texts([1, 2], confidence=0.5)
    for confidence in (np.float32(0.5), torch.tensor(0.5), np.array(0.5)):
        assert orthrus_texts([1, 2], confidence=confidence) == expected


def test_neither_a_list_of_one_nor_a_bool_of_torch_is_an_integer() -> None:
    assert as_integer(torch.tensor(3)) == 3
    assert [as_integer(value) for value in (torch.tensor([3]), torch.tensor(True), torch.tensor(3.0))] == [None] * 3


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"max_new_tokens": None}, TypeError, "^max_new_tokens must be an integer, or one a prompt; got None"),
        ({"max_new_tokens": True}, TypeError, "^max_new_tokens must be an integer, or one a prompt; got True"),
        ({"max_new_tokens": "12"}, TypeError, "^max_new_tokens must be an integer, or one a prompt; got '12'"),
        ({"max_new_tokens": [3, 2.5]}, TypeError, r"max_new_tokens must be .* got \[3, 2.5\], where 2.5 is no integer"),
        ({"max_new_tokens": torch.tensor(0.5)}, TypeError, "^max_new_tokens must be an integer, or one a prompt"),
        ({"max_new_tokens": torch.tensor([3])}, ValueError, "max_new_tokens has 1 values for 2 prompts"),
        ({"seed": 2**64}, ValueError, "^seed must be from 0 to 9223372036854775807; got 18446744073709551616"),
        ({"seed": [-1, 2]}, ValueError, "^seed must be from 0 to .* got -1"),
        ({"seed": 1.5}, TypeError, "^seed must be an integer, or one a prompt; got 1.5"),
        (
            {"eos_ids": [0.5]},
            TypeError,
            r"^eos_ids must be ids of the vocabulary; .*, where 0.5 is no integer",
        ),
        ({"eos_ids": True}, TypeError, "^eos_ids must be ids of the vocabulary; got True"),
        ({"eos_ids": [True]}, TypeError, "^eos_ids must be ids of the vocabulary"),
        ({"eos_ids": "ab"}, TypeError, "^eos_ids must be ids of the vocabulary; got 'ab'"),
        ({"eos_ids": [None]}, TypeError, "^eos_ids must be ids of the vocabulary; .* where None is no integer"),
        ({"eos_ids": 0.5}, TypeError, "^eos_ids must be ids of the vocabulary; got 0.5"),
        ({"eos_ids": [13]}, ValueError, r"range\(13\), the vocabulary; got 13"),
    ],
)
@pytest.mark.parametrize("texts", [mars_texts, orthrus_texts])
def test_what_is_no_number_is_one_sentence(
    texts: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        texts([[1, 2], [3]], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tau": None}, "^tau must be a number; got None"),
        ({"tau": True}, "^tau must be a number; got True"),
        ({"tau": [0.5, None]}, "^tau must be a number; got None"),
        ({"tau": torch.tensor(True)}, "^tau must be a number"),
        ({"block": "4"}, "^block must be an integer; got '4'"),
        ({"masks": 1.0}, "^masks must be an integer; got 1.0"),
    ],
)
def test_what_is_no_number_for_mars_is_one_sentence(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        mars_texts([[1, 2], [3]], **options)


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (None, r"^prompts are token ids: one prompt, a list .* got None \(NoneType\)"),
        (3, r"^prompts are token ids: .* got 3 \(int\)"),
        (torch.tensor(3), "^prompts are token ids: one prompt"),
        (np.int64(3), "^prompts are token ids: one prompt"),
        ((token for token in [1, 2]), r"^prompts are token ids: .* \(generator\)"),
        ({"input_ids": [1, 2]}, r"^prompts are token ids: .* \(dict\)"),
        (b"ab", "encode text with the model's tokenizer first"),
        ([1, [2]], r"^prompt 0 must be a sequence of integer ids; got \[1, \[2\]\], where \[2\] is none"),
        ([[1], None], "^prompt 1 must be a sequence of integer ids; got None"),
        ([1.0, 2.0], "^prompt 0 must be a sequence of integer ids; got 1.0"),
        ([1, True], r"^prompt 0 must be a sequence of integer ids; got \[1, True\], where True is none"),
        (np.array([0.5]), r"^prompt 0 must be a sequence of integer ids; got float64 of shape \(1,\)"),
        (np.array([[True]]), r"^prompt 0 must be a sequence of integer ids; got bool"),
        (np.array([None]), r"^prompt 0 must be a sequence of integer ids; got object"),
        (np.ones((1, 1, 2), int), r"^prompt 0 must be a sequence of integer ids; got .* \(1, 2\)"),
    ],
)
def test_what_is_no_prompt_is_one_sentence(prompts: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        mars_texts(prompts)


def test_an_id_that_no_tensor_holds_is_outside_of_the_vocabulary() -> None:
    with pytest.raises(ValueError, match=r"prompt 0 has ids outside range\(13\)"):
        mars_texts([1, 2**70])
