"""What each command does: read the input, call the library, write the result."""

from __future__ import annotations

import argparse
import sys
from math import fsum
from typing import TYPE_CHECKING, Any

from anyorder.cli import many
from anyorder.cli.values import read_positions, read_text, to_json, write_text

if TYPE_CHECKING:
    from anyorder import InfillResult, Model

INFILL_OPTIONS = (
    "length",
    "method",
    "draft_length",
    "temperature",
    "top_k",
    "top_p",
    "n",
    "seed",
    "order",
    "drafter",
    "forbidden",
    "marker",
    "steps",
    "context",
)
"""The flags that are options of ``anyorder.infill``."""


def infill(arguments: argparse.Namespace) -> int:
    """``anyorder infill``."""
    options = {name: getattr(arguments, name) for name in INFILL_OPTIONS}
    positions = read_positions(arguments)
    if arguments.jsonl is not None:
        return many.run(arguments, positions, options)
    if arguments.out is not None or arguments.resume:
        raise ValueError("--out and --resume go with --jsonl IN")
    text = read_text(arguments)
    import anyorder

    model = load_model(arguments)
    found = anyorder.infill(text, positions, model=model, progress=arguments.progress, **options)
    _show(found if isinstance(found, list) else [found], model, arguments)
    return 0


def score(arguments: argparse.Namespace) -> int:
    """``anyorder score``."""
    text, positions = read_text(arguments), read_positions(arguments)
    if positions is None:
        raise ValueError("score needs to know which part of the text: --span A:B or --tokens I,J")
    import anyorder

    model, how = load_model(arguments), {"order": arguments.order, "context": arguments.context}
    if arguments.candidate:
        if arguments.spans is None or len(arguments.spans) != 1:
            raise ValueError("--candidate needs exactly one --span A:B")
        ranked = anyorder.rank(text, arguments.spans[0], arguments.candidate, model=model, **how)
        rows = [{"text": candidate, "log_prob": log_prob} for candidate, log_prob in ranked]
        lines = [to_json(row) if arguments.json else f"{row['log_prob']:.4f}\t{row['text']}" for row in rows]
    else:
        values = anyorder.token_log_probs(text, positions, model=model, **how)
        if arguments.json:
            lines = [to_json({"log_prob": fsum(values), "token_log_probs": values})]
        else:
            lines = [f"{value:.6f}" for value in (values if arguments.per_token else [fsum(values)])]
    sys.stdout.write("".join(line + "\n" for line in lines))
    return 0


def models(arguments: argparse.Namespace) -> int:
    """``anyorder models``."""
    for entry in _known_models():
        revision = f" --revision {entry['revision']}" if entry["revision"] else ""
        line = to_json(entry) if arguments.json else f"{entry['name'] + revision:<54}  {entry['description']}"
        sys.stdout.write(line + "\n")
    return 0


def _known_models() -> list[dict[str, Any]]:
    """The bundled models with the first sentence of their cards, and the published ones that need no further flags."""
    from anyorder.model import hub

    entries: list[dict[str, Any]] = []
    for name in hub.bundled():
        role = "bundled, the default" if name == hub.DEFAULT else "bundled"
        card = (hub.PRETRAINED / name / "README.md").read_text(encoding="utf-8")
        entries.append({"name": name, "revision": None, "description": f"{role}: {_first_sentence(card)}"})
    for (name, revision), known in hub.KNOWN.items():
        description = f"Hugging Face Hub, codec {known.codec}"
        entries.append({"name": name, "revision": revision, "description": description})
    return entries


def _first_sentence(card: str) -> str:
    """What a model card says first: the first sentence of its first paragraph, its metadata and headings left out."""
    body = card.split("\n---\n", 1)[-1] if card.startswith("---\n") else card
    paragraphs = (part.strip() for part in body.split("\n\n"))
    first = next((part for part in paragraphs if part and not part.startswith("#")), "")
    return " ".join(first.split()).partition(". ")[0].rstrip(".")


def demo(arguments: argparse.Namespace) -> int:
    """``anyorder demo``."""
    from anyorder.cli.demo import show

    show(load_model(arguments), seed=arguments.seed)
    return 0


def load_model(arguments: argparse.Namespace) -> Model:
    """The model the flags name."""
    import anyorder

    names = ("revision", "device", "dtype", "weights", "codec", "tokenizer")
    return anyorder.load(arguments.model, **{name: getattr(arguments, name) for name in names})


def _show(results: list[InfillResult], model: Model, arguments: argparse.Namespace) -> None:
    if arguments.trace:
        from anyorder.trace import render

        for result in results:
            sys.stderr.write(render(result, model.codec, colour=sys.stderr.isatty()))
    if arguments.json:
        for result in results:
            sys.stdout.write(to_json(result.to_dict()) + "\n")
    elif len(results) == 1:
        write_text(results[0].text)
    else:
        for number, result in enumerate(results, start=1):
            header = f"=== {number} of {len(results)}, seed {result.seed}, log_prob {result.log_prob:.2f}\n"
            write_text(header + result.text + "\n")
