"""numpy's numbers serve wherever Python's do, and come out as Python's."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

import anyorder
from anyorder.integers import as_integer
from anyorder.model.loaded import Model

NUMBERS: dict[str, Any] = {
    "seed": 3,
    "n": 2,
    "draft_length": 2,
    "steps": 1,
    "top_k": 9,
    "temperature": 0.5,
    "top_p": 0.75,
    "length": 3,
}


def test_an_integer_is_what_indexes_and_is_no_bool() -> None:
    assert [as_integer(value) for value in (3, np.int64(3), np.uint8(3), np.array(3))] == [3, 3, 3, 3]
    assert type(as_integer(np.int32(3))) is int
    assert [as_integer(value) for value in (True, np.True_, 3.0, np.float64(3), "3", None, np.array([3, 4]))] == [
        None
    ] * 7


def test_numpy_numbers_give_the_result_of_pythons(tiny: Model) -> None:
    as_numpy = {name: (np.float32 if isinstance(value, float) else np.int32)(value) for name, value in NUMBERS.items()}
    expected = anyorder.infill("ab cd", [(0, 2)], model=tiny, **NUMBERS)
    found = anyorder.infill("ab cd", [(np.int64(0), np.int64(2))], model=tiny, **as_numpy)
    assert [result.text for result in found] == [result.text for result in expected]
    assert [result.seed for result in found] == [result.seed for result in expected]
    assert [json.loads(json.dumps(result.to_dict())) for result in found]


def test_numbers_beyond_every_text_are_as_good_as_the_largest_that_matters(tiny: Model) -> None:
    for method, option in (("assd", "draft_length"), ("one-pass", "draft_length"), ("parallel", "steps")):
        options: dict[str, Any] = {"model": tiny, "method": method, "seed": 1}
        expected = anyorder.infill("a <mask:4>", **options, **{option: 4})
        for huge in (10**9, 10**20):
            found = anyorder.infill("a <mask:4>", **options, **{option: huge})
            assert found.text == expected.text
            assert found.stats.method == expected.stats.method
