"""A bad argument of ``load`` is an error that says what was asked, what is allowed and what was got."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from errors import assert_said_by_the_library

import anyorder

OWN = "anyorder-sentencepiece"
CUDA = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"device": "nonsense"}, ValueError, "device must be one this torch has, such as 'cpu'; got 'nonsense'"),
        ({"device": "meta"}, ValueError, "device must be one this torch has, such as 'cpu'; got 'meta'"),
        pytest.param({"device": "cuda"}, ValueError, "device must be one this torch has.*got 'cuda'", marks=CUDA),
        ({"device": "cuda:99"}, ValueError, "device must be one this torch has.*got 'cuda:99'"),
        ({"device": ["cpu"]}, TypeError, "device must be a string or a torch.device, got list"),
        ({"device": 0}, TypeError, "device must be a string or a torch.device, got int"),
        ({"dtype": "float8"}, ValueError, "dtype must be one of float32, bfloat16, float16, float64, got 'float8'"),
        ({"dtype": torch.int8}, ValueError, "dtype must be one of float32, .*, got torch.int8"),
        ({"dtype": 32}, ValueError, "dtype must be one of float32, .*, got 32"),
        ({"weights": "int8"}, ValueError, "weights must be one of 'plain', 'packed', 'float16', .*got 'int8'"),
        ({"weights": 8}, ValueError, "weights must be one of .*got 8"),
        (
            {"weights": "float16", "dtype": "bfloat16"},
            ValueError,
            "weights='float16' needs the CPU and float32, got cpu and torch.bfloat16",
        ),
        ({"codec": "morse"}, ValueError, "unknown codec 'morse': use one of 'anyorder-sentencepiece'"),
        ({"codec": 5}, TypeError, "codec must be a codec or the name of one, got int"),
        ({"tokenizer": 5}, TypeError, "tokenizer must be a string or a path, got int"),
        ({"tokenizer": "/no/such/file"}, ValueError, "/no/such/file is neither a file, a directory nor a Hub id"),
        ({"revision": 3}, TypeError, "revision must be a string, got int"),
    ],
)
def test_a_bad_argument_of_load_says_what_is_allowed_and_what_was_got(
    options: dict[str, Any], error: type[Exception], message: str, checkpoint: Path
) -> None:
    with pytest.raises(error, match=message) as caught:
        anyorder.load(checkpoint, **{"codec": OWN, **options})
    assert type(caught.value) is error
    assert_said_by_the_library(caught.value)


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("no-such-model", ValueError, r"unknown model 'no-such-model' \(bundled: .*mini-code.*Hub id 'owner/name'\)"),
        ("/no/such/place", ValueError, "there is no directory /no/such/place"),
        ("./no/such", ValueError, "there is no directory ./no/such"),
        ("a/b/c", ValueError, "there is no directory a/b/c"),
        ("", ValueError, "name must not be empty"),
        ("x" * 5000, ValueError, "cannot look for a checkpoint at 'xxx"),
        ("null\0byte", ValueError, "unknown model"),
        (__file__, ValueError, "is a file; a checkpoint is a directory with config.json and weights"),
        (Path(__file__).parent, ValueError, "has no config.json: is it a checkpoint directory"),
        (5, TypeError, "the model's name must be a string or a path, got int"),
        (b"mini-code", TypeError, "the model's name must be a string or a path, got bytes"),
    ],
)
def test_a_name_that_is_no_model_says_which_there_are(name: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message) as caught:
        anyorder.load(name)
    assert_said_by_the_library(caught.value)
