"""Runs are compared where they answer the same question, every row names its protocol, and pictures are pictures."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from infill_eval.estimates import Estimate
from infill_eval.plots import acceptance_by_rank, draw
from infill_eval.report import ReportOptions, Run, tables
from infill_eval.runner import summarise
from infill_eval.store import StoreError
from infill_eval.tables import Table


def written(
    path: Path, method: str, *, shift: float = 0.0, protocol: str = "corrected", nfe: int = 4, data: str = "d"
) -> Run:
    """A finished run of 60 items whose log-perplexity is ``shift`` above the first one's."""
    path.mkdir(parents=True)
    generator = random.Random(0)
    items = {}
    for n in range(60):
        base = 3 + generator.random()
        own = base + shift + random.Random(f"{method}{n}").gauss(0, 0.01)
        items[f"i{n}"] = {"log-perplexity": own, "nfe": float(nfe + n % 2), "log-density a token": -own}
    settings = {
        "task": {"task": "wikitext 64 tokens", "protocol": protocol, "scorer": "judge"},
        "model": {"model": "m|1", "method": method},
        "length": "oracle",
        "samples": 1,
        "seed": 0,
        "items": data,
    }
    stored = {
        "settings": settings,
        "metrics": summarise(list(items.values())),
        "baselines": {"oracle": {"log-perplexity": {"mean": 1.0, "se": 0.1, "n": 60}}},
        "items": items,
    }
    (path / "metrics.json").write_text(json.dumps(stored))
    stats = {"tested by rank": [0, 4, 2], "kept by rank": [0, 3, 1]}
    record = {"id": "i0", "samples": [{"texts": ["x"], "log_prob": -1.0, "stats": stats}]}
    (path / "samples.jsonl").write_text(json.dumps(record) + "\n")
    return Run.load(path)


def column(table: Table, name: str) -> list[str]:
    return [row[table.header.index(name)] for row in table.rows]


def test_results_name_protocol_length_and_baselines(tmp_path: Path) -> None:
    (table,) = tables([written(tmp_path / "a", "sequential")])
    assert column(table, "protocol") == ["corrected", "corrected"]
    assert column(table, "length") == ["oracle", "–"]
    assert column(table, "model") == ["m|1", "oracle"]
    assert column(table, "perplexity")[1] == f"{math.e:.2f} ± {math.e * 0.1:.2f}"
    assert "scorer judge" in table.notes[0]


def test_a_cost_nobody_paid_has_no_column(tmp_path: Path) -> None:
    (table,) = tables([written(tmp_path / "a", "sequential")])
    assert "nfe" in table.header
    assert "aux nfe" not in table.header


def test_a_faster_method_that_is_as_good_is_shown_to_be_not_worse(tmp_path: Path) -> None:
    first, fast = written(tmp_path / "a", "sequential", nfe=8), written(tmp_path / "b", "one-pass", shift=0.001)
    _, comparison = tables([first, fast])
    verdicts = dict(zip(column(comparison, "metric"), column(comparison, "verdict"), strict=True))
    assert verdicts["log-perplexity"].startswith("no difference shown; not worse (bound +0.0")
    assert verdicts["nfe"] == "differs"
    assert column(comparison, "difference")[column(comparison, "metric").index("nfe")] == "-4.0000"
    assert "p < 0.001" in comparison.notes[0]
    assert "margin of 0.05 nats" in comparison.notes[1]


def test_a_worse_method_is_shown_to_differ_and_not_to_be_not_worse(tmp_path: Path) -> None:
    runs = [written(tmp_path / "a", "sequential"), written(tmp_path / "b", "parallel", shift=0.2)]
    _, comparison = tables(runs)
    verdict = column(comparison, "verdict")[column(comparison, "metric").index("log-perplexity")]
    assert verdict.startswith("differs; not shown to be not worse (bound +0.2")


def test_runs_under_different_protocols_are_never_compared(tmp_path: Path) -> None:
    runs = [written(tmp_path / "a", "assd"), written(tmp_path / "b", "assd", protocol="reference")]
    found = tables(runs)
    assert [table.title for table in found] == ["wikitext 64 tokens"] * 2
    assert column(found[1], "protocol") == ["reference", "reference"]


def test_only_common_items_are_compared(tmp_path: Path) -> None:
    first, second = written(tmp_path / "a", "sequential"), written(tmp_path / "b", "assd")
    fewer = {name: second.items[name] for name in list(second.items)[:7]}
    _, comparison = tables([first, Run(**{**vars(second), "items": fewer})])
    assert set(column(comparison, "items")) == {"7"}


def test_markdown_and_terminal_hold_the_same_cells() -> None:
    table = Table(title="t", header=("a|b", "n"), rows=(("x|y", "1.5"), ("z", "–")), notes=("A note.",))
    markdown, text = table.markdown(), table.text()
    assert "| x\\|y | 1.5 |" in markdown
    assert markdown.splitlines()[3] == "| --- | --: |"
    for cell in ("x|y", "1.5", "z", "A note."):
        assert cell in text
    lines = text.splitlines()
    assert lines[2].rstrip().endswith("n")
    assert lines[4].endswith("1.5")


def test_an_unfinished_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="directory of a finished run"):
        Run.load(tmp_path)
    (tmp_path / "metrics.json").write_text("{}")
    with pytest.raises(StoreError, match="holds no finished run"):
        Run.load(tmp_path)


@pytest.mark.parametrize("wrong", [{"alpha": 0.0}, {"alpha": 1e-9}, {"level": 1.0}, {"margin": 0.0}])
def test_report_options_are_checked(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must"):
        ReportOptions(**wrong)


def test_kept_drafts_are_counted_by_their_place(tmp_path: Path) -> None:
    run = written(tmp_path / "a", "assd")
    rates = acceptance_by_rank(run)
    assert [tests for tests, _ in rates] == [0, 4, 2]
    assert math.isnan(rates[0][1])
    assert [share for _, share in rates[1:]] == [0.75, 0.5]


def test_pictures_are_written_for_what_there_is(tmp_path: Path) -> None:
    runs = [written(tmp_path / "a", "sequential"), written(tmp_path / "b", "one-pass")]
    drawn = draw(runs, tmp_path)
    assert [path.name for path in drawn] == ["nfe.png", "density.png", "perplexity.png", "accepted_by_rank.png"]
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 5000


def test_runs_on_other_data_are_not_paired(tmp_path: Path) -> None:
    runs = [written(tmp_path / "a", "sequential"), written(tmp_path / "b", "one-pass", data="other")]
    assert [len(table.rows) for table in tables(runs)] == [2, 2]
    assert not any("against" in table.title for table in tables(runs))


def test_every_codec_has_its_own_baseline_and_equal_ones_are_shown_once(tmp_path: Path) -> None:
    runs = [written(tmp_path / name, name) for name in ("a", "b", "c")]
    codec = {"log-perplexity": Estimate(mean=2.0, se=0.1, n=60)}
    runs[1] = replace(runs[1], baselines=runs[1].baselines | {"oracle after codec": codec})
    table = tables(runs)[0]
    assert column(table, "model") == ["m|1", "m|1", "m|1", "oracle", "oracle after codec (m|1)"]


def test_a_run_without_any_perplexity_has_a_dash(tmp_path: Path) -> None:
    empty = {"oracle": {}, "empty": {"log-perplexity": Estimate(mean=2.0, se=0.1, n=60)}}
    (table,) = tables([replace(written(tmp_path / "a", "sequential"), baselines=empty)])
    assert column(table, "perplexity")[1] == "–"
