"""Ratios are taken within a run on the same texts; the published way of decoding is the same model, only slower."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path

import pytest

from anyorder import Model
from infill_eval import speed, stopwatch
from infill_eval.anyorder_infiller import AnyorderInfiller, Decoding
from infill_eval.recompute import Recompute
from infill_eval.speed import SpeedOptions, Timing, measure, requests, table

TEXTS = ["import json\n\n\ndef read(path):\n    return json.load(open(path))\n" * 3, "x = [1, 2, 3]\n" * 20, "y" * 300]
QUICK = SpeedOptions(tokens=4, context=24, batches=(1, 2), repeats=1)


def test_what_falls_into_parts_takes_turns_part_by_part() -> None:
    calls: list[str] = []

    def run(name: str) -> str:
        calls.append(name)
        return name

    runs = {name: [partial(run, name + part) for part in "01"] for name in "ab"}
    turns = stopwatch.take_turns_by_parts(runs, 2)
    assert calls == ["a0", "b0"] + ["a0", "b0", "a1", "b1"] * 2
    assert turns.results == {"a": ["a0", "a1"], "b": ["b0", "b1"]}
    assert [len(seconds) for seconds in turns.seconds.values()] == [4, 4]
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        stopwatch.take_turns_by_parts(runs | {"b": []}, 1)


def test_every_method_is_timed_at_every_batch_on_the_same_texts(tiny: Model) -> None:
    pytest.importorskip("transformers")
    methods = [Decoding(method="sequential"), Decoding(method="one-pass", draft_length=2)]
    timings = measure(tiny, methods, TEXTS, options=QUICK)
    names = ["sequential", "one-pass K=2"]
    assert [(t.method, t.batch) for t in timings] == [
        *((name, 1) for name in [*names, "recompute (transformers)"]),
        *((name, 2) for name in names),
    ]
    assert [t.ratio for t in timings if t.method == "sequential"] == [1.0, 1.0]
    assert [t.tokens_a_pass for t in timings if t.method == "sequential"] == [1.0, 1.0]
    assert all(t.seconds_a_token > 0 and t.ratio > 0 for t in timings)


def test_recomputing_with_transformers_decodes_the_same_tokens(tiny: Model, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    (request,) = requests(TEXTS[:1], AnyorderInfiller(tiny), SpeedOptions(tokens=6, context=40, batches=(1,)))
    baseline = Recompute(tiny, request, tmp_path)
    assert baseline() == 1.0
    baseline._expected = [token + 1 for token in baseline._expected]
    with pytest.raises(RuntimeError, match="two models would be compared"):
        baseline()


def test_ratios_are_medians_of_ratios_within_a_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    # A clock on which the whole machine becomes ten times slower from one repeat to the next.
    ticks = itertools.accumulate([0, 10, 0, 5, 0, 100, 0, 50, 0, 1000, 0, 500])
    monkeypatch.setattr(stopwatch.time, "perf_counter", lambda: next(ticks))
    timings = speed._time(
        {"slow": lambda: 1.0, "fast": lambda: 2.0}, 1, SpeedOptions(repeats=3, tokens=1), speed.untracked
    )
    assert [(t.method, t.ratio, t.seconds_a_token) for t in timings] == [("slow", 1.0, 100), ("fast", 2.0, 50)]


def test_a_window_fits_the_model_and_has_its_blank_inside(tiny: Model) -> None:
    infiller = AnyorderInfiller(tiny)
    for request in requests(TEXTS, infiller, SpeedOptions(tokens=4, context=500, batches=(3,))):
        assert all(request.segments)
        assert sum(len(tiny.codec.encode(segment)) for segment in request.segments) + 4 <= tiny.max_length


def test_too_few_texts_or_too_long_a_blank_are_errors(tiny: Model) -> None:
    with pytest.raises(ValueError, match="a batch of 4 needs as many texts, got 3"):
        requests(TEXTS, AnyorderInfiller(tiny), SpeedOptions(tokens=4, batches=(4,)))
    with pytest.raises(ValueError, match="leave no context"):
        requests(TEXTS, AnyorderInfiller(tiny), SpeedOptions(tokens=tiny.max_length, batches=(1,)))
    with pytest.raises(ValueError, match="at least 1"):
        SpeedOptions(repeats=0)


def test_the_table_says_where_a_method_does_not_pay() -> None:
    timings = [
        Timing(method="sequential", batch=1, seconds_a_token=0.01, tokens_a_pass=1.0, ratio=1.0),
        Timing(method="assd", batch=1, seconds_a_token=0.02, tokens_a_pass=1.2, ratio=0.5),
    ]
    shown = table(timings, "tiny", SpeedOptions())
    assert shown.rows[1] == ("assd", "1", "20.00", "1.20", "0.50")
    assert "Does not pay here: assd at batch 1 (0.50 ×)." in shown.notes
    assert "No method is slower than sequential." in table(timings[:1], "tiny", SpeedOptions()).notes
