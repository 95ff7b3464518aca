"""``log.csv`` has one line a report, also of a run that was cut off behind its last checkpoint."""

from __future__ import annotations

from pathlib import Path

from training.logs import CsvLog


def test_lines_of_a_life_that_was_cut_short_give_way_to_the_next_lifes(tmp_path: Path) -> None:
    log = CsvLog(tmp_path / "log.csv")
    for step in (5, 10, 15):
        log.log_metrics({"train": step / 10}, step)
    again = CsvLog(tmp_path / "log.csv")  # the checkpoint was at step 9
    again.log_metrics({"train": 7.0, "density": 3.0}, 10)
    assert again.read() == [{"step": "5", "train": "0.5"}, {"step": "10", "train": "7", "density": "3"}]
