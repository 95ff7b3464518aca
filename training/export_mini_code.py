"""Turn a finished ``train_mini_code`` run into a checkpoint with a card whose figures are measured here.

    python -m training.export_mini_code --run runs/mini-code

A run that went on from others (``--start``) names them with ``--earlier``, so that the card counts all of the compute.
"""

from __future__ import annotations

import argparse
import csv
import platform
import random
from dataclasses import replace
from pathlib import Path

import torch

import anyorder
from anyorder.codec import SentencePieceCodec
from anyorder.forbidden import Forbidden
from anyorder.model.config import AnyOrderConfig, XLNetConfig
from anyorder.model.loaded import Model
from anyorder.model.xlnet import XLNet
from training.corpus import draw_window, load_texts
from training.train_mini_code import validate

SAMPLE = '''def mean(values):
    """Return the arithmetic mean."""
    total =<mask:1>
    for value in<mask:1>:
        total<mask:2>
    return<mask:4>
'''

CARD = """# mini-code

A small any-subset autoregressive model of Python, bundled with anyorder so that its first command works without a
download. {parameters:.1f} M parameters ({layers} layers of {width}, {heads} heads), its own BPE vocabulary of
{vocabulary} tokens (SentencePiece, identity normalisation, byte fallback), up to {max_length} tokens, bfloat16.

- **Data**: the standard library of CPython {python} without its tests (PSF licence), {files} files for training and
  {held_out} held out by a hash of their names. HumanEval problems are not part of it.
- **Objective**: the teacher-forced joint loss over random prompts (scattered blanks, spans at character borders,
  suffixes; 85 % ascending, 10 % spread, 5 % random orders) plus 0.5 times the draft loss at lags 1 to 7.
- **Compute**: {steps} steps, {tokens:.1f} M tokens, {minutes} minutes on one core, by
  `python -m training.train_mini_code` in {stages} stage(s) ({stage_minutes} minutes), each going on from the one before
  with a fresh optimiser, and `python -m training.export_mini_code`.
{history}- **Licence**: MIT, like the code; the training text is under the PSF licence.

## Measured on held-out files

| masked | nats a token | nats a token of drafts at lags 1 to 7 |
| --- | --- | --- |
{densities}

Drafts kept by lag, given that those before were kept (one-pass, K = 7, half of the pieces 95 % masked, half with a
run of 14 tokens masked): {acceptance}.

## Limits

It has seen {tokens:.1f} million tokens of one code base. It knows Python's syntax and common idioms, not what a program
is for; probabilities are its own, not the world's. A word's token holds the space before the word, so a blank does best
to start before that space: `return<mask:3>`, not `return <mask:3>`. It will be replaced by a longer trained one.

## Ten unselected infills, seeds 0 to 9

```python
{prompt}```

{samples}
"""


def acceptance_by_lag(model: Model, pieces: int, seed: int) -> tuple[float, ...]:
    """Share of tested drafts kept at lags 1 to 7 on held-out text, from the traces of real decoding."""
    draw = random.Random(seed)
    texts = load_texts(held_out=True)
    tested, kept = torch.zeros(7), torch.zeros(7)
    for number in range(pieces):
        text = draw_window(texts, 400, draw)
        tokens = model.tokenize(text)
        if number % 2:
            positions = sorted(draw.sample(range(len(tokens)), round(0.95 * len(tokens))))
        else:
            start = draw.randrange(max(len(tokens) - 14, 1))
            positions = list(range(start, min(start + 14, len(tokens))))
        result = anyorder.infill(text, positions, model=model, draft_length=7, seed=number, marker=None)
        for record in result.trace:
            reached = min(record.num_kept + 1, len(record.drafted))
            tested[:reached] += 1
            kept[: record.num_kept] += 1
    return tuple(round(float(value), 3) for value in kept / tested.clamp(min=1))


def last_entry(run: Path) -> dict[str, str]:
    """The last line of a run's log."""
    with (run / "log.csv").open() as file:
        return list(csv.DictReader(file))[-1]


def samples(model: Model) -> str:
    """What the model writes for ten seeds, one block each."""
    blocks = []
    for seed in range(10):
        result = anyorder.infill(SAMPLE, model=model, seed=seed)
        blocks.append(f"seed {seed}, {result.log_prob:.1f} nats:\n\n```python\n{result.text}```\n")
    return "\n".join(blocks)


def main() -> None:
    """Convert, measure, write; see the module's docstring."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", type=Path, default=Path("runs/mini-code"))
    parser.add_argument("--out", type=Path, default=Path("anyorder/pretrained/mini-code"))
    parser.add_argument("--earlier", type=Path, nargs="*", default=[], help="the runs it went on from, first to last")
    parser.add_argument("--history", type=Path, default=None, help="a file with what else the card should tell of them")
    parser.add_argument("--pieces", type=int, default=100, help="held-out pieces behind the acceptance rates")
    args = parser.parse_args()

    codec = SentencePieceCodec.from_file(args.run / "tokenizer.model")
    weights = torch.load(args.run / "weights.pt", weights_only=True)
    width = weights["embedding"].shape[1]
    layers = sum(name.endswith("attention.relative") for name in weights)
    config = XLNetConfig(
        vocab_size=codec.vocab_size,
        d_model=width,
        n_layer=layers,
        n_head=len(weights["layers.0.attention.segment_bias"]),
        d_inner=len(weights["layers.0.expand.bias"]),
        dropout=0.0,
    )
    network = XLNet(config).eval()
    network.load_state_dict(weights)
    settings = AnyOrderConfig(
        codec=codec.name, mask_id=codec.mask_id, forbidden_ids=codec.forbidden_ids, max_length=512
    )
    draft = Model(name="mini-code", network=network, codec=codec, settings=settings)
    settings = replace(settings, acceptance=acceptance_by_lag(draft, args.pieces, seed=0))
    model = replace(draft, settings=settings)

    logs = [last_entry(run) for run in (*args.earlier, args.run)]
    scores = validate(
        network, codec, load_texts(held_out=True), Forbidden.of(codec.vocab_size, ids=codec.forbidden_ids)
    )
    densities = "\n".join(
        f"| {float(rate):.0%} | {scores[f'nats@{rate}']:.2f} | {scores[f'draft@{rate}']:.2f} |"
        for rate in ("0.15", "0.5", "0.95")
    )
    card = CARD.format(
        parameters=sum(p.numel() for p in network.parameters()) / 1e6,
        layers=layers,
        width=width,
        heads=config.n_head,
        vocabulary=codec.vocab_size,
        max_length=settings.max_length,
        python=platform.python_version(),
        files=len(load_texts(held_out=False)),
        held_out=len(load_texts(held_out=True)),
        steps=sum(int(log["step"]) for log in logs),
        tokens=sum(int(log["tokens"]) for log in logs) / 1e6,
        minutes=round(sum(float(log["minutes"]) for log in logs)),
        stages=len(logs),
        stage_minutes=" + ".join(f"{float(log['minutes']):.0f}" for log in logs),
        history=args.history.read_text(encoding="utf-8") if args.history else "",
        densities=densities,
        acceptance=", ".join(f"{value:.2f}" for value in settings.acceptance),
        prompt=SAMPLE,
        samples=samples(model),
    )
    replace(model, card=card).save_pretrained(args.out, dtype=torch.bfloat16)


if __name__ == "__main__":
    main()
