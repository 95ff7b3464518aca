"""The table of bad inputs: each is a ValueError or TypeError that names what was asked, and none comes from torch."""

from __future__ import annotations

import math
import shutil
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anyorder
from anyorder.drafting import NGramDrafter
from anyorder.model.loaded import Model

TEXT = "def add(a, b): return a + b"
Call = Callable[[Model], object]


def infill(*args: Any, **options: Any) -> Call:
    return lambda model: anyorder.infill(*args, model=model, **options)


def batch(*args: Any, **options: Any) -> Call:
    return lambda model: anyorder.infill_batch(*args, model=model, **options)


def log_prob(*args: Any, **options: Any) -> Call:
    return lambda model: anyorder.log_prob(*args, model=model, **options)


def rank(*args: Any, **options: Any) -> Call:
    return lambda model: anyorder.rank(*args, model=model, **options)


BAD: list[tuple[str, Call, type[Exception], str]] = [
    ("text is a number", infill(5), TypeError, "text must be a string; got int"),
    ("text is bytes", infill(b"a <mask>"), TypeError, "text must be a string; got bytes"),
    ("text is None", infill(None), TypeError, "text must be a string"),
    ("lone surrogate", infill("a \ud800 <mask>"), ValueError, "surrogate.* at position 2"),
    ("bare pair", infill(TEXT, (4, 9)), TypeError, r"write \[\(4, 9\)\]"),
    ("bare slice", infill(TEXT, slice(4, 9)), TypeError, r"write \[slice\(4, 9, None\)\]"),
    ("ints and pairs mixed", infill(TEXT, [(0, 3), 5]), TypeError, "cannot be mixed"),
    ("positions are a string", infill(TEXT, "add"), TypeError, "must be a list of character pairs"),
    ("positions are a dict", infill(TEXT, {4: 9}), TypeError, "must be a list of character pairs"),
    ("span of three", infill(TEXT, [(1, 2, 3)]), TypeError, "a span is a pair"),
    ("span of floats", infill(TEXT, [(1.0, 2.0)]), TypeError, "offsets of a span must be integers"),
    ("span out of range", infill(TEXT, [(0, 99)]), ValueError, "out of range: the text has 27 characters"),
    ("negative span out of range", infill(TEXT, [(-99, 3)]), ValueError, "out of range"),
    ("reversed span", infill(TEXT, [(9, 4)]), ValueError, "reversed"),
    ("overlapping spans", infill(TEXT, [(4, 9), (8, 12)]), ValueError, r"overlap: \(4, 9\) and \(8, 12\)"),
    ("slice with a step", infill(TEXT, [slice(0, 8, 2)]), ValueError, "step"),
    ("token index out of range", infill(TEXT, [500]), ValueError, "token index 500 is out of range"),
    ("token index twice", infill(TEXT, [1, 1]), ValueError, "named twice"),
    ("marker inside a marker", infill("a <mask:<mask>>"), ValueError, "malformed marker at character 2"),
    ("marker with a word", infill("a <mask:two>"), ValueError, "malformed marker at character 2"),
    ("marker with a negative length", infill("a <mask:-1>"), ValueError, "malformed marker"),
    ("marker with a huge length", infill("a <mask:99999999999>"), ValueError, "malformed marker"),
    ("blank longer than the model", infill("a <mask:5000>"), ValueError, "this model takes 96"),
    ("empty marker", infill("a", marker=""), ValueError, "marker must be a non-empty string"),
    ("marker with a backslash", infill("a", marker="\\x"), ValueError, "without a backslash"),
    ("marker is a number", infill("a", marker=3), TypeError, "marker must be a string"),
    ("text too long", infill("x = 1; " * 400 + "<mask>"), ValueError, r'this model takes 96.*context="crop"'),
    ("temperature NaN", infill("<mask>", temperature=math.nan), ValueError, "temperature must be a finite number"),
    ("temperature negative", infill("<mask>", temperature=-1), ValueError, "temperature.*got -1"),
    ("temperature infinite", infill("<mask>", temperature=math.inf), ValueError, "temperature"),
    ("temperature a string", infill("<mask>", temperature="hot"), TypeError, "temperature must be a number"),
    ("top_p 0", infill("<mask>", top_p=0), ValueError, r"top_p must lie in \(0, 1\]"),
    ("top_p 2", infill("<mask>", top_p=2), ValueError, r"top_p must lie in \(0, 1\]"),
    ("top_k 0", infill("<mask>", top_k=0), ValueError, "top_k must be at least 1"),
    ("top_k a float", infill("<mask>", top_k=1.5), TypeError, "top_k must be an integer"),
    ("n 0", infill("<mask>", n=0), ValueError, "n must be at least 1; got 0"),
    ("n a float", infill("<mask>", n=2.0), TypeError, "n must be an integer"),
    ("n a bool", infill("<mask>", n=True), TypeError, "n must be an integer"),
    ("seed negative", infill("<mask>", seed=-1), ValueError, "seed must be from 0"),
    ("seed too large", infill("<mask>", seed=2**64), ValueError, "seed must be from 0"),
    ("seed a string", infill("<mask>", seed="a"), TypeError, "seed must be an integer"),
    ("seed a numpy float", infill("<mask>", seed=np.float32(3)), TypeError, r"seed must be an integer; got .*float32"),
    ("seed an array", infill("<mask>", seed=np.array([1, 2])), TypeError, "seed must be an integer"),
    ("seed a numpy bool", infill("<mask>", seed=np.True_), TypeError, "seed must be an integer"),
    (
        "temperature beyond a float",
        infill("<mask>", temperature=10**400),
        ValueError,
        "temperature must be a finite number",
    ),
    ("unknown method", infill("<mask>", method="fast"), ValueError, "'fast'.*'sequential'"),
    ("draft_length negative", infill("<mask>", draft_length=-1), ValueError, "draft_length must be at least 0"),
    ("draft_length a float", infill("<mask>", draft_length=2.5), TypeError, "draft_length must be an integer"),
    (
        "steps of another method",
        infill("<mask>", steps=2),
        ValueError,
        "method='parallel' takes; got steps=2",
    ),
    ("forbidden 0", infill("<mask>", forbidden=0), TypeError, "a string or a list of strings; got 0"),
    ("forbidden bytes", infill("<mask>", forbidden=b""), TypeError, "a string or a list of strings; got b''"),
    ("steps 0", infill("<mask>", method="parallel", steps=0), ValueError, "steps must be at least 1"),
    ("unknown order", infill("<mask>", order="backwards"), ValueError, "order must be one of 'ascending'"),
    ("order too short", infill("<mask:3>", order=[0, 1]), ValueError, r"permutation of range\(3\)"),
    ("order with a repetition", infill("<mask:3>", order=[0, 1, 1]), ValueError, r"permutation of range\(3\)"),
    ("order a number", infill("<mask:3>", order=3), TypeError, "order must be"),
    ("unknown drafter", infill("<mask>", drafter="magic"), ValueError, "unknown drafter 'magic'"),
    ("drafter without propose", infill("<mask>", drafter=object()), TypeError, r"needs a method propose"),
    (
        "drafter a class",
        infill("<mask>", drafter=NGramDrafter),
        TypeError,
        r"got the class NGramDrafter.*NGramDrafter\(\)",
    ),
    ("forbidden empty string", infill("<mask>", forbidden=[""]), ValueError, "empty string"),
    ("forbidden a number", infill("<mask>", forbidden=5), TypeError, "forbidden must be"),
    ("forbidden lone surrogate", infill("<mask>", forbidden="\ud800"), ValueError, "forbidden string.*Unicode"),
    ("unknown context", infill("<mask>", context="most"), ValueError, "context must be one of 'full', 'crop'"),
    ("length a string", infill(TEXT, [(0, 3)], length="long"), ValueError, "length must be"),
    ("length negative", infill(TEXT, [(0, 3)], length=-1), ValueError, "length must be at least 0"),
    ("length a float", infill(TEXT, [(0, 3)], length=1.5), TypeError, "length must be"),
    ("lengths for other spans", infill(TEXT, [(0, 3)], length=[1, 2]), ValueError, "the text has 1, length 2"),
    ("empty range of lengths", infill(TEXT, [(0, 3)], length=range(3, 3)), ValueError, "range of lengths"),
    ("range of lengths from 0", infill(TEXT, [(0, 3)], length=range(3)), ValueError, "start at 1"),
    ("length 10**9", infill(TEXT, [(0, 3)], length=10**9), ValueError, "hold 1000000000 tokens; .* takes 96"),
    ("length 10**20", infill(TEXT, [(0, 3)], length=10**20), ValueError, "hold 1(0){20} tokens; .* takes 96"),
    ("lengths of 10**20", infill(TEXT, [(0, 3)], length=[10**20]), ValueError, "hold 1(0){20} tokens"),
    (
        "range of lengths to 10**20",
        infill(TEXT, [(0, 3)], length=range(1, 10**20 + 1)),
        ValueError,
        "hold 1(0){20} tok",
    ),
    ("range of lengths down", infill(TEXT, [(0, 3)], length=range(10**20, 0, -1)), ValueError, "hold 1(0){20} tokens"),
    ("range of lengths down to 0", infill(TEXT, [(0, 3)], length=range(9, -1, -1)), ValueError, "start at 1"),
    ("cropped and too long", infill("<mask>", length=10**20, context="crop"), ValueError, "hold 1(0){20} tokens"),
    ("many markers with huge lengths", infill("<mask:999999>" * 9999), ValueError, "hold 9998990001 tokens"),
    ("marker with twelve digits", infill("<mask:999999999999>"), ValueError, "malformed marker.*1 to 6 digits"),
    (
        "length and marker length",
        infill("a <mask:3>", length=5),
        ValueError,
        "contradicts the lengths",
    ),
    ("model is a name", lambda model: anyorder.infill("<mask>", model="tiny"), TypeError, r"anyorder.load\('tiny'\)"),
    ("progress is a string", infill("<mask>", progress="yes"), TypeError, "progress must be"),
    ("batch of a string", batch("a <mask>"), TypeError, "texts must be a list"),
    ("batch options too few", batch(["<mask>", "<mask>"], seed=[1]), ValueError, "seed has 1 values for 2 texts"),
    ("batch options in a tuple", batch(["<mask>"] * 2, seed=(1, 2, 3)), ValueError, "seed has 3 values for 2 texts"),
    ("batch with a pair of pairs", batch(["ab", "cd"], (((0, 1),), None)), TypeError, "text 0: a span is a pair"),
    ("batch names the text", batch(["<mask>", "<mask:x>"]), ValueError, "text 1: malformed marker"),
    ("batch of numbers", batch(["<mask>", 5]), TypeError, "text 1: text must be a string"),
    ("score nothing", log_prob(TEXT), TypeError, "mask_positions must say which part"),
    ("score a number", log_prob(5, [(0, 1)]), TypeError, "text must be a string"),
    ("score too long", log_prob("x = 1; " * 400, [(0, 1)]), ValueError, "this model takes 96"),
    ("rank with a list of spans", rank(TEXT, [(4, 9)], ["a"]), TypeError, "a span is a pair"),
    ("rank a string", rank(TEXT, (4, 9), "abc"), TypeError, "candidates must be a list"),
    ("rank numbers", rank(TEXT, (4, 9), [1, 2]), TypeError, "text must be a string"),
    ("rank out of range", rank(TEXT, (4, 99), ["a"]), ValueError, "out of range"),
    ("unknown model", lambda model: anyorder.load("no-such-model"), ValueError, "unknown model 'no-such-model'"),
    ("model is an empty string", lambda model: anyorder.load(""), ValueError, "name must not be empty"),
    (
        "home of nobody",
        lambda model: anyorder.load("~nobody/x"),
        ValueError,
        "there is no directory ~nobody/x",
    ),
    ("model is a number", lambda model: anyorder.load(5), TypeError, "must be a string or a path"),
    ("directory is no checkpoint", lambda model: anyorder.load(Path(__file__).parent), ValueError, "config.json"),
    ("checkpoint is a file", lambda model: anyorder.load(__file__), ValueError, "is a file"),
]


def assert_raised_by_the_library(error: BaseException) -> None:
    """Not merely passed on by it: a message from torch or json says nothing of what the caller asked."""
    raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert raised_in.is_relative_to(Path(anyorder.__file__).parent), f"the error comes from {raised_in}"


@pytest.mark.parametrize(("call", "error", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD])
def test_a_bad_input_gives_an_error_that_says_what_is_allowed(
    call: Call, error: type[Exception], message: str, tiny: Model
) -> None:
    with pytest.raises(error, match=message) as caught:
        call(tiny)
    assert type(caught.value) is error
    assert_raised_by_the_library(caught.value)


def test_the_table_has_no_fewer_rows_than_were_promised() -> None:
    assert len(BAD) >= 40
    assert len({row[0] for row in BAD}) == len(BAD)


def corrupt_config(directory: Path) -> None:
    (directory / "config.json").write_text("{")


def config_of_another_model(directory: Path) -> None:
    (directory / "config.json").write_text('{"model_type": "bert"}')


def truncated_weights(directory: Path) -> None:
    weights = directory / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])


def weights_of_noise(directory: Path) -> None:
    (directory / "model.safetensors").write_bytes(b"\xff" * 1000)


def no_weights(directory: Path) -> None:
    (directory / "model.safetensors").unlink()


def no_tokenizer(directory: Path) -> None:
    (directory / "tokenizer.model").unlink()


def tokenizer_of_noise(directory: Path) -> None:
    (directory / "tokenizer.model").write_bytes(b"not a model")


def another_shape(directory: Path) -> None:
    config = directory / "config.json"
    config.write_text(config.read_text().replace('"d_inner": 64', '"d_inner": 128'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (corrupt_config, "not valid JSON"),
        (config_of_another_model, "model_type must be 'xlnet', got 'bert'"),
        (truncated_weights, "model.safetensors"),
        (weights_of_noise, "model.safetensors"),
        (no_weights, "weights|safetensors"),
        (no_tokenizer, "tokenizer.model"),
        (tokenizer_of_noise, "not a SentencePiece model"),
        (another_shape, "shape"),
    ],
)
def test_a_damaged_checkpoint_is_a_value_error_that_names_what_is_wrong(
    damage: Callable[[Path], None], message: str, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    directory = tmp_path / "damaged"
    shutil.copytree(tiny_checkpoint, directory)
    damage(directory)
    with pytest.raises(ValueError, match=message) as caught:
        anyorder.load(directory)
    assert_raised_by_the_library(caught.value)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"dtype": "float12"}, ValueError, "dtype must be one of"),
        ({"device": "toaster"}, ValueError, "device must be one this torch has, such as 'cpu'; got 'toaster'"),
        ({"device": "cpu:x"}, ValueError, "device must be one"),
        ({"weights": "int2"}, ValueError, "weights must be"),
        ({"codec": "morse"}, ValueError, "unknown codec 'morse'"),
        ({"tokenizer": "/no/such/file"}, ValueError, "tokenizer"),
        ({"tokenizer": "~no-such-user/x"}, ValueError, "tokenizer: ~no-such-user/x"),
    ],
)
def test_a_bad_option_of_load_is_an_error(
    options: dict[str, Any], error: type[Exception], message: str, tiny_checkpoint: Path
) -> None:
    with pytest.raises(error, match=message) as caught:
        anyorder.load(tiny_checkpoint, **options)
    assert_raised_by_the_library(caught.value)
