"""How a run tells about itself: ``log.csv``, TensorBoard or Weights & Biases, and a bar on the terminal."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger, TensorBoardLogger, WandbLogger
from lightning.pytorch.utilities import rank_zero_only
from tqdm import tqdm

from training.config import RunConfig
from training.files import write_atomically


class CsvLog(Logger):
    """``log.csv`` of a run: a line a report, a column a figure, going on where a killed run's checkpoint was.

    (Lightning's own CSV logger starts a new file whenever a run goes on.)
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name

    @property
    def version(self) -> int:
        """There is one."""
        return 0

    @rank_zero_only
    def log_hyperparams(self, *args: Any) -> None:
        """Nothing: ``config.yaml`` has them."""

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        """Add a line; lines of this step and later ones are of a life that was cut short, and are dropped."""
        rows = [row for row in self.read() if int(row["step"]) < int(step or 0)]
        rows.append({"step": str(step), **{name: f"{value:.6g}" for name, value in metrics.items()}})
        columns = list(dict.fromkeys(name for row in rows for name in row))
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, columns, restval="")
        writer.writeheader()
        writer.writerows(rows)
        write_atomically(self.path, text.getvalue().encode())

    def read(self) -> list[dict[str, str]]:
        """The lines so far, empty cells left out."""
        if not self.path.is_file():
            return []
        with self.path.open(newline="") as file:
            return [{name: value for name, value in row.items() if value} for row in csv.DictReader(file)]


def make_logger(config: RunConfig) -> Logger:
    """The logger a run asked for."""
    if config.logger == "tensorboard":
        return TensorBoardLogger(config.out, name="tensorboard", version=0)
    if config.logger == "wandb":
        return WandbLogger(save_dir=config.out, name=config.out.name)
    return CsvLog(config.out / "log.csv")


def log_text(logger: Logger | None, directory: Path, name: str, text: str, step: int) -> None:
    """Log a text where the logger can show one, and in any case in ``samples/`` of the run."""
    if isinstance(logger, TensorBoardLogger):
        logger.experiment.add_text(name, f"```\n{text}\n```", step)
    if isinstance(logger, WandbLogger):
        logger.log_text(key=name, columns=["step", "text"], data=[[str(step), text]], step=step)
    folder = directory / "samples"
    folder.mkdir(exist_ok=True)
    write_atomically(folder / f"{step:08d}.txt", text.encode())


def open_bar(run: RunConfig) -> tqdm[Any]:
    """A progress bar of a run, over steps or over the time that its clock counts."""
    total = run.max_steps or round(60 * (run.minutes or 0))
    done = "{n_fmt}/{total_fmt} steps" if run.max_steps else f"{{n:.0f}}/{{total}} s of {run.clock} time"
    layout = f"{{desc}}: {{percentage:3.0f}}%|{{bar}}| {done} [{{elapsed}}<{{remaining}}{{postfix}}]"
    return tqdm(total=total, desc=run.out.name, mininterval=1, bar_format=layout)
