"""The notebooks run from top to bottom, show what they promise, and are stored without outputs."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


class Expected(NamedTuple):
    """What a run must show: texts, pictures, coloured results; and numbers of the source made smaller for the test."""

    texts: tuple[str, ...]
    pictures: int
    views: int
    smaller: dict[str, str]


EXPECTED = {
    "01_infill": Expected(
        (
            " nats   'is' ",  # a table of fills
            "nats together; anyorder.log_prob says",
            "tested drafts kept",  # a trace
            "banana",
        ),
        pictures=1,
        views=7,
        smaller={},
    ),
    "02_lossless_and_fast": Expected(
        ("lossless: True", "lossless: False", "one-pass, K = 7", " ms"),
        pictures=3,
        views=0,
        smaller={"COUNT = 400": "COUNT = 40", "RUNS = 32": "RUNS = 2", "REPEATS = 5": "REPEATS = 1"},
    ),
    "03_train": Expected(
        ("holds the best model", "nats@0.95", "passes", "' elephant'"),
        pictures=0,
        views=0,
        smaller={"STEPS = 150": "STEPS = 15"},
    ),
    "04_left_to_right": Expected(
        ("48 tokens, 48 passes", "4 of 4", "Orthrus, two passes", "times the speed of one at a time"),
        pictures=1,
        views=3,
        smaller={"REPEATS = 3": "REPEATS = 1"},
    ),
}


def test_every_notebook_has_its_row() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(EXPECTED)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_stored_without_outputs(path: Path) -> None:
    cells = nbformat.read(path, as_version=4).cells
    assert all(not cell.outputs and cell.execution_count is None for cell in cells if cell.cell_type == "code")


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a kernel of its own, as a reader would run it."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    notebook, expected = nbformat.read(path, as_version=4), EXPECTED[path.stem]
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for before, after in expected.smaller.items():
        assert sum(before in cell.source for cell in code) == 1, before
        for cell in code:
            cell.source = cell.source.replace(before, after)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
    outputs = [output for cell in code for output in cell.outputs]
    shown = "\n".join(
        output.text if output.output_type == "stream" else output.data.get("text/plain", "") for output in outputs
    )
    assert [text for text in expected.texts if text not in shown] == []
    kinds = [kind for output in outputs for kind in output.get("data", {})]
    assert (kinds.count("image/png"), kinds.count("text/html")) == (expected.pictures, expected.views)
    errors = [output.text for output in outputs if output.get("name") == "stderr"]
    assert errors == []
