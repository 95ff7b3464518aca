"""Turn a finished run into a checkpoint to ship, whose card has figures that are all measured here, on held-out text.

    python -m training.card --run runs/mini-code --kind code --out anyorder/pretrained/mini-code
    python -m training.card --run runs/mini-prose-2 --earlier runs/mini-prose --kind prose --out mini-prose

``--earlier`` names the runs it went on from, so that the card counts all of the compute; ``--notes`` is a file with
what else it should tell (an evaluation's result, the licence of the data). The examples are unselected.
"""

from __future__ import annotations

import argparse
import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import yaml

import anyorder
from anyorder.forbidden import Forbidden
from anyorder.model.loaded import Model
from training.card_figures import Figures, acceptance_by_lag, line_matches, sentence_rouge
from training.config import DataConfig
from training.documents import Documents
from training.sources import open_documents
from training.validation import evaluate, held_out_set

SAMPLES = {
    "code": '''def mean(values):
    """Return the arithmetic mean."""
    total = <mask:1>
    for value in <mask:1>:
        total <mask:2>
    return <mask:4>
''',
    "prose": (
        "The city lies on the river <mask:4>. It was founded in <mask:1> by <mask:3>, and for a long time it was the "
        "<mask:6>. Today it is known for <mask:5>.\n"
    ),
}

CARD = """# {name}

An any-subset autoregressive model of {subject}, trained by anyorder's `training/fit.py`. {parameters:.1f} M parameters
({layers} layers of {width}, {heads} heads), {vocabulary} tokens ({codec}), up to {max_length} tokens, bfloat16.

- **Data**: `{data}`, {characters:.1f} M characters in {documents} documents for training, {held_out} documents held
  out by a hash; every figure below is on those.
- **Compute**: {steps} steps, {tokens:.1f} M tokens, {minutes} minutes on one core in {stages} stage(s).
- **Commands**:
{commands}
{notes}
## Measured on held-out documents

| masked | nats a token | drafts kept at lag 1, 2, 4 |
| --- | --- | --- |
{densities}

Drafts kept by lag in real decoding, given that those before were kept (one-pass, K = 7, half of the pieces 95 % masked,
half with a run of 14 tokens masked): {acceptance}.

{figures}

## Limits

It has seen {tokens:.1f} million tokens: it knows what is common in {subject}, not what a text is for, and its
probabilities are its own, not the world's.

## Ten unselected infills, seeds 0 to 9

```
{prompt}```

{samples}
"""


def counts(runs: list[Path]) -> dict[str, Any]:
    """Steps, tokens and minutes of a chain of runs, and the commands that repeat it."""
    ends = []
    for run in runs:
        with (run / "log.csv").open(newline="") as file:
            ends.append(list(csv.DictReader(file))[-1])
    minutes = [float(end["minutes"]) for end in ends]
    return {
        "steps": sum(int(end["step"]) for end in ends),
        "tokens": sum(float(end["tokens"]) for end in ends) / 1e6,
        "minutes": f"{sum(minutes):.0f} ({' + '.join(f'{each:.0f}' for each in minutes)})",
        "stages": len(runs),
        "commands": "\n".join(f"  `{command(run)}`" for run in runs),
    }


def command(run: Path) -> str:
    """The command that started a run: the options that are not the default."""
    from training.config import FitConfig
    from training.flags import flat

    options = yaml.safe_load((run / "config.yaml").read_text(encoding="utf-8"))
    default = flat(FitConfig())
    changed = {name: value for name, value in options.items() if name in default and value != default[name]}
    return " ".join(["python training/fit.py", *(f"--{name} '{value}'" for name, value in changed.items())])


def densities(model: Model, documents: Documents, characters: float, windows: int) -> str:
    """The rows of the card's table, each on that many windows."""
    sets = held_out_set(model.codec, documents.first(1000, held_out=True), characters, windows)
    forbidden = Forbidden.of(model.network.vocab_size, ids=model.forbidden_ids)
    figures, _ = evaluate(model.network, sets, forbidden)
    names = {"0.15": "15 %, scattered", "0.5": "50 %, scattered", "0.95": "95 %, scattered", "span": "20 %, spans"}
    return "\n".join(
        f"| {label} | {figures[f'nats@{name}']:.2f} | "
        + ", ".join(f"{figures[f'kept{lag}@{name}']:.0%}" for lag in (1, 2, 4))
        + " |"
        for name, label in names.items()
    )


def samples(model: Model, prompt: str) -> str:
    """What the model writes for ten seeds, one block each."""
    blocks = []
    for seed in range(10):
        result = anyorder.infill(prompt, model=model, seed=seed)
        blocks.append(f"seed {seed}, {result.log_prob:.1f} nats:\n\n```\n{result.text}```\n")
    return "\n".join(blocks)


def make_card(model: Model, runs: list[Path], kind: str, notes: str, pieces: int) -> Model:
    """The model with its measured acceptance and its card."""
    options = yaml.safe_load((runs[-1] / "config.yaml").read_text(encoding="utf-8"))
    documents = open_documents(DataConfig(**{n: options[n] for n in DATA_FIELDS if n in options}), options["seed"])
    texts = documents.first(1000, held_out=True)
    model = replace(model, settings=replace(model.settings, acceptance=acceptance_by_lag(model, texts, pieces)))
    config, network = model.network.config, model.network
    measured: Figures = line_matches(model, texts, pieces) if kind == "code" else sentence_rouge(model, texts, pieces)
    train = documents.first(1_000_000, held_out=False)
    characters = sum(map(len, texts[:50])) / sum(len(model.codec.encode(text)) for text in texts[:50])
    card = CARD.format(
        name=model.name,
        subject={"code": "Python", "prose": "English prose"}[kind],
        parameters=sum(parameter.numel() for parameter in network.parameters()) / 1e6,
        layers=config.n_layer,
        width=config.d_model,
        heads=config.n_head,
        vocabulary=config.vocab_size,
        codec=model.codec.name,
        max_length=model.max_length,
        data=options["data"],
        characters=sum(map(len, train)) / 1e6,
        documents=len(train),
        held_out=len(texts),
        notes=f"\n{notes.strip()}\n" if notes else "",
        densities=densities(model, documents, characters, pieces),
        acceptance=", ".join(f"{value:.2f}" for value in model.settings.acceptance),
        figures=measured.text,
        prompt=SAMPLES[kind],
        samples=samples(model, SAMPLES[kind]),
        **counts(runs),
    )
    return replace(model, card=card)


DATA_FIELDS = tuple(DataConfig.__dataclass_fields__)


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--kind", choices=SAMPLES, required=True)
    parser.add_argument("--which", choices=("best", "last"), default="best")
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="the runs it went on from, first to last")
    parser.add_argument("--notes", type=Path, default=None, help="a file with what else the card should tell")
    parser.add_argument("--pieces", type=int, default=200, help="held-out pieces behind each measured figure")
    args = parser.parse_args()
    torch.set_num_threads(1)
    loaded = anyorder.load(args.run / args.which, weights="plain")
    notes = args.notes.read_text(encoding="utf-8") if args.notes else ""
    model = make_card(replace(loaded, name=args.out.name), [*args.earlier, args.run], args.kind, notes, args.pieces)
    model.save_pretrained(args.out, dtype=torch.bfloat16)


if __name__ == "__main__":
    main()
