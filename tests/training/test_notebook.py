"""``notebooks/03_train.ipynb`` runs from top to bottom, and is stored without outputs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "03_train.ipynb"


def test_the_training_notebook_runs(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code cells in order, with a tenth of the steps."""
    monkeypatch.chdir(NOTEBOOK.parent)
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(not cell["outputs"] and cell["execution_count"] is None for cell in cells if "outputs" in cell)
    assert sum("STEPS = 150" in source for source in sources) == 1
    scope: dict[str, object] = {}
    for source in sources:
        exec(source.replace("STEPS = 150", "STEPS = 15"), scope)
    shown = capsys.readouterr().out
    assert "holds the best model" in shown
    assert shown.count("nats@0.95") == 3
    assert "The" in shown
    assert "passes" in shown
    assert "' elephant'" in shown
