"""infill and infill_batch: what comes back, and what it may not depend on."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

import anyorder
from anyorder import InfillResult
from anyorder.model.loaded import Model

LOSSLESS = ["sequential", "assd", "one-pass"]
METHODS = [*LOSSLESS, "parallel"]
CODE = "def add(a, b):\n    return a + b\n"

few = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


def filled(result: InfillResult) -> list[list[int]]:
    return [span.token_ids for span in result.spans]


def unfilled(result: InfillResult) -> str:
    """What is outside the fills, with a bar where each was."""
    parts, at = [], 0
    for span in result.spans:
        parts.append(result.text[at : span.start])
        at = span.end
    return "|".join([*parts, result.text[at:]])


@st.composite
def texts_with_spans(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(st.text(max_size=20))
    borders = sorted(draw(st.lists(st.integers(0, len(text)), max_size=6)))
    borders = borders[: len(borders) // 2 * 2]
    return text, list(zip(borders[::2], borders[1::2], strict=True))


@few
@given(texts_with_spans(), st.sampled_from(METHODS), st.integers(0, 100))
def test_everything_outside_the_blanks_comes_back_byte_for_byte(
    tiny: Model, case: tuple[str, list[tuple[int, int]]], method: Any, seed: int
) -> None:
    text, spans = case
    result = anyorder.infill(text, spans, model=tiny, method=method, seed=seed, length=2)
    kept, at = [], 0
    for start, end in spans:
        kept.append(text[at:start])
        at = end
    assert unfilled(result).encode() == "|".join([*kept, text[at:]]).encode()
    for span in result.spans:
        assert result.text[span.start : span.end] == span.text == "".join(span.token_texts)


@few
@given(st.lists(st.text(max_size=8), min_size=2, max_size=4), st.integers(0, 100))
def test_a_marker_is_an_empty_span_with_a_length(tiny: Model, parts: list[str], seed: int) -> None:
    parts = [part.replace("\\", "/") for part in parts]
    marked = "<mask:2>".join(anyorder.escape(part) for part in parts)
    offsets = [len("".join(parts[: number + 1])) for number in range(len(parts) - 1)]
    by_marker = anyorder.infill(marked, model=tiny, seed=seed)
    by_span = anyorder.infill("".join(parts), [(at, at) for at in offsets], model=tiny, seed=seed, length=2)
    assert by_marker.text == by_span.text
    assert filled(by_marker) == filled(by_span)


@pytest.mark.filterwarnings("ignore:the text has no blank")
@pytest.mark.parametrize("text", ["", "no blank", "é\r\n\0"])
def test_a_text_without_a_blank_returns_unchanged_without_a_pass(tiny: Model, text: str) -> None:
    for positions in (None, []):
        result = anyorder.infill(text, positions, model=tiny)
        assert result.text == str(result) == text
        assert (result.stats.nfe, result.stats.tokens, result.log_prob, result.spans) == (0, 0, 0.0, [])


def test_a_blank_of_length_zero_is_legal_and_empty(tiny: Model) -> None:
    result = anyorder.infill("a<mask:0>b<mask>", model=tiny, seed=0)
    assert result.text.startswith("ab")
    assert (result.spans[0].start, result.spans[0].end, result.spans[0].token_ids) == (1, 1, [])
    assert len(result.spans[1].token_ids) == 1
    assert anyorder.infill("a<mask:0>b", model=tiny).stats.nfe == 0


def test_a_text_that_is_all_blank_is_filled(tiny: Model) -> None:
    result = anyorder.infill("<mask:4>", model=tiny, seed=0)
    assert result.text == result.spans[0].text
    assert len(result.spans[0].token_ids) == 4


def test_touching_blanks_stay_separate(tiny: Model) -> None:
    result = anyorder.infill("a<mask:2><mask:3>b", model=tiny, seed=0)
    assert [len(ids) for ids in filled(result)] == [2, 3]
    assert result.spans[0].end == result.spans[1].start


def test_results_come_in_text_order_whatever_the_order_of_the_spans(tiny: Model) -> None:
    spans = [(19, 25), (4, 7)]
    given, turned = (anyorder.infill(CODE, order, model=tiny, seed=1) for order in (spans, spans[::-1]))
    assert given.text == turned.text
    assert given.spans[0].start < given.spans[1].start


def test_token_indices_name_the_characters_of_their_tokens(tiny: Model) -> None:
    tokens = tiny.tokenize(CODE)
    by_index = anyorder.infill(CODE, [2, 3, 6], model=tiny, seed=2)
    spans = [(tokens[2].start, tokens[3].end), (tokens[6].start, tokens[6].end)]
    by_span = anyorder.infill(CODE, spans, model=tiny, seed=2)
    assert by_index.text == by_span.text
    assert len(by_index.spans) == 2


def test_the_same_length_is_that_of_the_replaced_text_with_the_space_that_its_first_token_carries(tiny: Model) -> None:
    result = anyorder.infill(CODE, [(4, 14)], model=tiny, seed=0)
    assert len(result.spans[0].token_ids) == len(tiny.codec.encode(CODE[3:14]))
    result = anyorder.infill(CODE, [(5, 14)], model=tiny, seed=0)
    assert len(result.spans[0].token_ids) == len(tiny.codec.encode(CODE[5:14]))


def test_markers_are_text_where_positions_are_given_or_markers_are_off(tiny: Model) -> None:
    text = "a <mask> b"
    assert unfilled(anyorder.infill(text, [(0, 1)], model=tiny)) == "| <mask> b"
    assert anyorder.infill(text, marker=None, model=tiny).text == text
    assert unfilled(anyorder.infill(text + "[GAP:2]", marker="[GAP]", model=tiny)) == text + "|"
    assert anyorder.infill(r"a \<mask> b", model=tiny).text == text


def test_a_bare_marker_takes_the_length_of_the_call(tiny: Model) -> None:
    result = anyorder.infill("a <mask> b <mask>", model=tiny, length=[3, 1], seed=0)
    assert [len(ids) for ids in filled(result)] == [3, 1]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("order", ["ascending", "random", "spread", [2, 0, 3, 1, 4]])
def test_the_density_of_a_result_is_what_log_prob_gives(tiny: Model, method: Any, order: Any) -> None:
    result = anyorder.infill(
        "x = <mask:3>\ny = <mask:2>\n", model=tiny, method=method, order=order, seed=3, forbidden=["e", "\n"], top_k=50
    )
    assert result.log_prob == pytest.approx(sum(span.log_prob for span in result.spans), abs=1e-9)
    assert anyorder.log_prob(result, model=tiny) == pytest.approx(result.log_prob, abs=1e-5)
    own = [value for span in result.spans for value in span.token_log_probs]
    assert anyorder.token_log_probs(result, model=tiny) == pytest.approx(own, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_sample_j_is_the_one_that_seed_plus_j_gives_and_the_likeliest_comes_first(tiny: Model, method: Any) -> None:
    options: dict[str, Any] = {"model": tiny, "method": method, "order": [3, 1, 0, 2]}
    samples = anyorder.infill("a <mask:4> b", n=4, seed=7, **options)
    assert [sample.log_prob for sample in samples] == sorted((sample.log_prob for sample in samples), reverse=True)
    for sample in samples:
        assert filled(anyorder.infill("a <mask:4> b", seed=sample.seed, **options)) == filled(sample)
    assert sorted(sample.seed for sample in samples) == [7, 8, 9, 10]


def test_a_seed_that_was_drawn_is_recorded_and_repeats_the_result(tiny: Model) -> None:
    drawn = anyorder.infill("a <mask:5> b", model=tiny)
    assert anyorder.infill("a <mask:5> b", model=tiny, seed=drawn.seed).text == drawn.text
    assert anyorder.infill("a <mask:5> b", model=tiny).seed != drawn.seed


def test_a_random_order_is_drawn_once_a_call_and_recorded(tiny: Model) -> None:
    samples = anyorder.infill("<mask:6>", model=tiny, order="random", seed=5, n=3)
    assert {tuple(sample.order) for sample in samples} == {tuple(samples[0].order)}
    assert sorted(samples[0].order) == list(range(6))
    for sample in samples:
        again = anyorder.infill("<mask:6>", model=tiny, order=sample.order, seed=sample.seed)
        assert filled(again) == filled(sample)
    orders = {tuple(anyorder.infill("<mask:6>", model=tiny, order="random", seed=seed).order) for seed in range(10)}
    assert len(orders) > 5


def test_the_numbers_that_draw_a_random_order_are_not_those_that_draw_the_tokens(tiny: Model) -> None:
    orders = [anyorder.infill("<mask:6>", model=tiny, order="random", seed=seed).order for seed in range(5)]
    shared = [torch.randperm(6, generator=torch.Generator().manual_seed(seed)).tolist() for seed in range(5)]
    assert sum(order == same for order, same in zip(orders, shared, strict=True)) < 2


def test_rounds_follow_the_order(tiny: Model) -> None:
    result = anyorder.infill("<mask:4>", model=tiny, order=[2, 0, 3, 1], method="sequential", seed=0)
    assert result.spans[0].rounds == [2, 4, 1, 3]


BATCH: list[dict[str, Any]] = [
    {"text": "a <mask:3> b", "seed": 1},
    {"text": CODE, "mask_positions": [(4, 7), (25, 26)], "seed": 1, "order": "random"},
    {"text": "<mask:7>", "seed": 2, "method": "assd", "draft_length": 3},
    {"text": "nothing"},
    {"text": "x = <mask:2>  # " + "y " * 20, "seed": 3, "temperature": 0.5, "top_k": 20, "n": 3},
    {"text": "a <mask:3> b", "seed": 1, "forbidden": list("abcdefghijklmnop")},
    {"text": "a <mask:3> b", "seed": 1, "method": "sequential"},
    {"text": "if <mask>:", "seed": 4, "length": range(1, 5), "drafter": "ngram"},
    {"text": "a b c", "mask_positions": [1], "seed": 0, "method": "parallel", "steps": 2, "top_p": 0.9},
]
DEFAULTS: dict[str, Any] = {
    "mask_positions": None,
    "seed": 9,
    "order": None,
    "method": "one-pass",
    "draft_length": None,
    "temperature": 1.0,
    "top_k": None,
    "top_p": None,
    "n": 1,
    "forbidden": None,
    "length": "same",
    "drafter": "self",
    "steps": 1,
}


def test_a_text_in_a_batch_becomes_what_it_becomes_alone(tiny: Model) -> None:
    rows = [{**DEFAULTS, **row} for row in BATCH]
    columns = {name: [row[name] for row in rows] for name in DEFAULTS}
    together = anyorder.infill_batch([row["text"] for row in rows], model=tiny, **columns)
    for row, result in zip(rows, together, strict=True):
        alone = anyorder.infill(model=tiny, **row)
        for one, other in zip(*([x] if isinstance(x, InfillResult) else x for x in (result, alone)), strict=True):
            assert filled(one) == filled(other)
            assert (one.text, one.order, one.seed) == (other.text, other.order, other.seed)
            assert one.log_prob == pytest.approx(other.log_prob, abs=1e-4)
            assert one.stats.nfe == other.stats.nfe


def test_a_batch_larger_than_memory_allows_is_cut_without_a_trace(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{'x' * number} <mask:3> y" for number in range(9)]
    whole = [result.text for result in anyorder.infill_batch(texts, model=tiny, seed=0)]
    for limit, value in (("MAX_POSITIONS", 25), ("MAX_LOGITS", 3 * tiny.network.vocab_size)):
        monkeypatch.setattr(f"anyorder.batching.{limit}", value)
        assert [result.text for result in anyorder.infill_batch(texts, model=tiny, seed=0)] == whole


def test_steps_of_a_batch_are_for_those_texts_that_are_filled_in_parallel(tiny: Model) -> None:
    results = anyorder.infill_batch(["<mask:4>"] * 2, model=tiny, method=["parallel", "one-pass"], steps=2, seed=0)
    assert [result.stats.method for result in results] == ["parallel", "one-pass"]


def test_a_text_without_a_blank_is_remarked_on_where_the_caller_is(tiny: Model) -> None:
    with pytest.warns(UserWarning, match="^the text has no blank and stays as it is") as told:
        anyorder.infill("none", model=tiny)
    with pytest.warns(UserWarning, match="^text 1: the text has no blank and stays as it is") as also:
        anyorder.infill_batch(["<mask>", "none"], model=tiny)
    assert {warning.filename for warning in (*told, *also)} == {__file__}


def test_batch_options_are_one_value_for_all_or_one_a_text(tiny: Model) -> None:
    texts = ["abc <mask:2>", "def <mask:2>"]
    one_seed = anyorder.infill_batch(texts, model=tiny, seed=5)
    assert [result.seed for result in one_seed] == [5, 5]
    assert [result.seed for result in anyorder.infill_batch(texts, model=tiny, seed=[5, 6])] == [5, 6]
    spans = anyorder.infill_batch(texts, [(0, 1), (2, 3)], model=tiny, seed=0)
    assert [len(result.spans) for result in spans] == [2, 2]
    spans = anyorder.infill_batch(texts, [[(0, 1)], None], model=tiny, seed=0)
    assert [unfilled(result) for result in spans] == ["|bc <mask:2>", "def |"]
    banned = anyorder.infill_batch(texts, model=tiny, forbidden=["a", "b"], seed=0)
    assert [result.forbidden for result in banned] == [["a", "b"]] * 2
    banned = anyorder.infill_batch(texts, model=tiny, forbidden=[["a"], None], seed=0)
    assert [result.forbidden for result in banned] == [["a"], []]
    ordered = anyorder.infill_batch(texts, model=tiny, order=[1, 0])
    assert [result.order for result in ordered] == [[1, 0]] * 2
    ordered = anyorder.infill_batch(texts, model=tiny, order=[[1, 0], None])
    assert [result.order for result in ordered] == [[1, 0], [0, 1]]
    lengths = anyorder.infill_batch(["<mask>", "<mask>"], model=tiny, length=[1, 4])
    assert [len(result.spans[0].token_ids) for result in lengths] == [1, 4]
    assert anyorder.infill_batch([], model=tiny) == []


def test_of_a_range_of_lengths_the_best_density_per_token_wins(tiny: Model) -> None:
    tried = [anyorder.infill("a <mask> b", model=tiny, length=length, seed=4) for length in range(1, 6)]
    best = max(tried, key=lambda result: result.log_prob / len(result.spans[0].token_ids))
    chosen = anyorder.infill("a <mask> b", model=tiny, length=range(1, 6), seed=4)
    assert filled(chosen) == filled(best)
    assert len({len(result.spans[0].token_ids) for result in tried}) == 5


@pytest.mark.parametrize("method", LOSSLESS)
def test_greedy_gives_the_same_text_by_every_lossless_method(tiny: Model, method: Any) -> None:
    options: dict[str, Any] = {"model": tiny, "temperature": 0, "order": "spread"}
    expected = anyorder.infill("x = <mask:8>\n", method="sequential", **options)
    assert anyorder.infill("x = <mask:8>\n", method=method, **options).text == expected.text


@few
@given(st.integers(0, 1000), st.sampled_from(METHODS))
def test_no_fill_contains_a_forbidden_string(tiny: Model, seed: int, method: Any) -> None:
    forbidden = ["t", "re", "\n", "from"]
    result = anyorder.infill("t <mask:6> re <mask:2>", model=tiny, forbidden=forbidden, seed=seed, method=method)
    for span in result.spans:
        assert not any(string in span.text for string in forbidden)


def test_a_method_that_does_not_draft_says_that_it_ran_as_sequential(tiny: Model) -> None:
    for method, length in (("assd", 1), ("one-pass", 0), ("assd", 0)):
        result = anyorder.infill("<mask:4>", model=tiny, method=method, draft_length=length, seed=0)  # type: ignore[call-overload]
        assert result.stats.method == "sequential"
        assert result.stats.nfe == 4


def test_parallel_decodes_in_so_many_passes_and_says_it_is_lossy(tiny: Model) -> None:
    for steps in (1, 3):
        stats = anyorder.infill("<mask:6>", model=tiny, method="parallel", steps=steps, seed=0).stats
        assert (stats.nfe, stats.lossless) == (steps, False)
    assert anyorder.infill("<mask:6>", model=tiny, seed=0).stats.lossless


class AlwaysTheSame:
    """A user's drafter: proposes one token, which it is certain of."""

    def __init__(self, token: int, vocab_size: int) -> None:
        self.q = torch.zeros(vocab_size)
        self.q[token] = 1
        self.token = token

    def propose(
        self, tokens: Tensor, order: Any, num_decoded: Tensor, k: Tensor, sampling: Any, uniforms: Any
    ) -> anyorder.Drafts:
        shape = (len(k), int(k.max()))
        return anyorder.Drafts(torch.full(shape, self.token), self.q.expand(*shape, -1), torch.zeros_like(k))


def test_a_users_drafter_takes_part_and_changes_no_greedy_text(tiny: Model) -> None:
    expected = anyorder.infill("<mask:6>", model=tiny, temperature=0, method="sequential")
    drafter = AlwaysTheSame(expected.spans[0].token_ids[2], tiny.network.vocab_size)
    result = anyorder.infill("<mask:6>", model=tiny, temperature=0, drafter=drafter, draft_length=2)
    assert filled(result) == filled(expected)
    assert result.stats.draft_nfe > 0
    assert result.stats.num_accepted >= 1


def test_what_json_holds_of_a_result_is_what_the_result_holds(tiny: Model) -> None:
    result = anyorder.infill("é <mask:4> b <mask>", model=tiny, seed=0, forbidden="x", order="random")
    entry = result.to_dict()
    assert json.loads(json.dumps(entry, allow_nan=False)) == entry
    assert entry["text"] == result.text
    assert [span["token_ids"] for span in entry["spans"]] == filled(result)
    assert entry["stats"]["nfe"] == result.stats.nfe
    assert len(entry["trace"]) == result.stats.rounds
    assert (entry["order"], entry["seed"], entry["forbidden"]) == (result.order, 0, ["x"])


def test_progress_ends_with_everything_decided_and_never_goes_back(tiny: Model) -> None:
    seen: list[anyorder.Progress] = []
    texts = ["<mask:5>", "a <mask:3>", "none"]
    anyorder.infill_batch(texts, model=tiny, method=["one-pass", "sequential", "assd"], progress=seen.append)
    assert [state.decided for state in seen] == sorted(state.decided for state in seen)
    assert (seen[-1].decided, seen[-1].targets) == (8, 8)


def test_a_progress_bar_goes_to_standard_error_alone(tiny: Model, capsys: pytest.CaptureFixture[str]) -> None:
    anyorder.infill("<mask:5>", model=tiny, progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "5/5" in captured.err


def test_a_long_text_is_cropped_for_the_model_and_returned_whole(tiny: Model) -> None:
    text = "".join(f"value{number} = {number}\n" for number in range(60))
    spans = [(text.index("= 20\n") + 2, text.index("= 20\n") + 4), (len(text) - 3, len(text))]
    result = anyorder.infill(text, spans, model=tiny, context="crop", seed=0)
    assert unfilled(result) == text[: spans[0][0]] + "|" + text[spans[0][1] : spans[1][0]] + "|"
    assert len(result.passage.tokens) == tiny.max_length
    assert anyorder.log_prob(result, model=tiny) == pytest.approx(result.log_prob, abs=1e-5)


def test_a_text_that_fits_is_the_same_with_and_without_cropping(tiny: Model) -> None:
    full = anyorder.infill("a <mask:3> b", model=tiny, seed=0)
    assert anyorder.infill("a <mask:3> b", model=tiny, seed=0, context="crop").text == full.text


def test_a_result_shows_in_a_notebook_with_its_text_escaped(tiny: Model) -> None:
    result = anyorder.infill("<b>&<mask:3></b>", model=tiny, seed=0)
    page = result._repr_html_()
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page
    assert page.count("round ") == sum(bool(text) for text in result.spans[0].token_texts)


def test_a_token_that_is_named_is_replaced_by_one_token_wherever_it_stands(tiny: Model) -> None:
    text = "def add(a, b):\n    return  a + 1\n"
    tokens = tiny.tokenize(text)
    for number, token in enumerate(tokens):
        (span,) = anyorder.infill(text, [number], model=tiny, seed=0).spans
        assert len(span.token_ids) == 1
        assert anyorder.token_log_probs(text, [number], model=tiny) == pytest.approx(
            anyorder.token_log_probs(text, [number], model=tiny, order=[0])
        )
        assert span.start == token.start


def test_a_space_before_a_blank_stays_and_its_first_token_carries_it(tiny: Model) -> None:
    for seed in range(20):
        result = anyorder.infill("x = <mask:2> y <mask:0>z\n", model=tiny, seed=seed)
        first, empty = result.spans
        assert result.text == f"x = {first.text} y z\n"
        assert tiny.codec.decode(first.token_ids) == " " + first.text
        assert "".join(first.token_texts) == first.text
        assert empty.token_ids == []
        assert anyorder.log_prob(result, model=tiny) == pytest.approx(result.log_prob, abs=1e-5)


def test_a_forbidden_space_is_about_what_is_filled_in_and_not_about_the_space_before_it(tiny: Model) -> None:
    for seed in range(20):
        result = anyorder.infill("x = <mask:2>\n", model=tiny, seed=seed, forbidden=" ")
        assert " " not in result.spans[0].text
        assert result.text.startswith("x = ")
        assert anyorder.log_prob(result, model=tiny) == pytest.approx(result.log_prob, abs=1e-5)


def test_candidates_are_compared_given_the_space_before_them(tiny: Model) -> None:
    text = "return "
    allowed = tiny.codec.space_ids - set(tiny.settings.forbidden_ids)
    fills = [tiny.codec.decode([token])[1:] for token in allowed]
    whole = [fill for fill in fills if len(tiny.codec.encode(" " + fill)) == 1 and fill]
    scores = dict(anyorder.rank(text, (7, 7), whole, model=tiny))
    samples = anyorder.infill("return <mask>", model=tiny, seed=0, n=9)
    drawn = next(result for result in samples if result.spans[0].text in scores)
    assert scores[drawn.spans[0].text] == pytest.approx(drawn.log_prob, abs=1e-4)
    assert 0 < sum(map(math.exp, scores.values())) <= 1 + 1e-4
