"""Which sequences are one value for all texts of a batch, and which are one value a text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anyorder
from anyorder.model.loaded import Model
from anyorder.per_text import spread


@pytest.mark.parametrize("name", ["seed", "n", "temperature", "top_k", "top_p", "draft_length", "steps"])
@pytest.mark.parametrize("values", [[1, 2], (1, 2), range(1, 3)])
def test_any_sequence_of_what_is_no_sequence_itself_is_one_value_a_text(name: str, values: Any) -> None:
    assert spread(name, values, 2) == [1, 2]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("marker", "ab"),
        ("method", "assd"),
        ("order", "spread"),
        ("order", (1, 0)),
        ("order", range(2)),
        ("order", [np.int64(1), np.int64(0)]),
        ("forbidden", ("a", "b")),
        ("forbidden", {"a", "b"}),
        ("length", (1, 2)),
        ("length", range(1, 3)),
        ("mask_positions", ((0, 1), (2, 3))),
        ("mask_positions", [0, 2]),
        ("mask_positions", range(2)),
        ("mask_positions", []),
    ],
)
def test_what_a_text_may_have_on_its_own_is_one_value_for_all(name: str, value: Any) -> None:
    assert spread(name, value, 2) == [value, value]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("order", ((1, 0), None)),
        ("order", ("random", [0, 1])),
        ("forbidden", (["a"], None)),
        ("length", [1, 4]),
        ("length", [range(1, 3), "same"]),
        ("mask_positions", ([(0, 1)], None)),
        ("mask_positions", [[0], range(2)]),
    ],
)
def test_a_sequence_of_such_values_is_one_value_a_text(name: str, value: Any) -> None:
    assert spread(name, value, 2) == list(value)


def test_a_batch_takes_seeds_in_any_sequence(tiny: Model) -> None:
    for seeds in ([5, 6], (5, 6), range(5, 7)):
        results = anyorder.infill_batch(["a <mask>", "b <mask>"], model=tiny, seed=seeds)
        assert [result.seed for result in results] == [5, 6]
