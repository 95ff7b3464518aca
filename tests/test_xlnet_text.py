"""The public API on a model with XLNet's vocabulary: lossy for the model, never for what is outside the blanks."""

from __future__ import annotations

import inspect
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from xlnet_vocabulary import train_xlnet

import anyorder
from anyorder.codec import XLNetCodec
from anyorder.model.config import AnyOrderConfig, XLNetConfig
from anyorder.model.loaded import Model
from anyorder.model.xlnet import XLNet


@pytest.fixture(scope="module", params=["xlnet", "xlnet-escaped", "legacy-asarm-code"])
def model(request: pytest.FixtureRequest) -> Model:
    lines = ["0 1 2 3 4 5 6 7 8 9 a b c d e f", *inspect.getsource(textwrap).splitlines()] * 3
    codec = XLNetCodec(train_xlnet(lines, vocab_size=300), name=request.param)
    config = XLNetConfig(
        vocab_size=codec.vocab_size, d_model=32, n_layer=1, n_head=2, d_inner=32, initializer_range=0.4
    )
    network = XLNet(config).initialise(torch.Generator().manual_seed(0)).eval()
    stated = AnyOrderConfig(codec=codec.name, mask_id=codec.mask_id, forbidden_ids=tuple(codec.forbidden_ids))
    return Model(name=codec.name, network=network, codec=codec, settings=stated)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the vocabulary cannot carry is warned about, and tested with the codec."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


TEXTS = st.text(alphabet="ab wrap(text) \n\té\r", max_size=20)


@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, TEXTS, TEXTS, st.integers(0, 50))
def test_everything_outside_the_blanks_comes_back(model: Model, left: str, inside: str, right: str, seed: int) -> None:
    text, span = left + inside + right, (len(left), len(left) + len(inside))
    result = anyorder.infill(text, [span], model=model, seed=seed, length=3)
    # The codec may move the borders of a blank to those of tokens; outside of them nothing changes.
    (blank,), (filled,) = model.codec.layout(text, [span]).blanks, result.spans
    assert result.text[: filled.start] == text[: blank.start]
    assert result.text[filled.end :] == text[blank.end :]
    assert result.text[filled.start : filled.end] == filled.text == "".join(filled.token_texts)
    assert len(filled.token_ids) == 3
    assert anyorder.log_prob(result, model=model) == pytest.approx(result.log_prob, abs=1e-5)


def test_markers_batches_ranks_and_scores_work(model: Model) -> None:
    texts = ["def wrap(<mask:2>):", "return <mask>"]
    together: Any = anyorder.infill_batch(texts, model=model, seed=1)
    alone = [anyorder.infill(text, model=model, seed=1).text for text in texts]
    assert [result.text for result in together] == alone
    ranked = anyorder.rank("def wrap(text):", (9, 13), ["text", "width", "x"], model=model)
    scores = {text: anyorder.log_prob(f"def wrap({text}):", [(9, 9 + len(text))], model=model) for text, _ in ranked}
    assert dict(ranked) == pytest.approx(scores, abs=1e-4)
