"""What a card says a model can do with held-out text: lines it restores, sentences it writes, drafts it keeps."""

from __future__ import annotations

import random
import re
from typing import NamedTuple

import torch

import anyorder
from anyorder.model.loaded import Model
from infill_eval.estimates import Estimate
from training.corpus import draw_window


class Figures(NamedTuple):
    """Measured values and the sentence that states them."""

    values: dict[str, float]
    text: str


def acceptance_by_lag(model: Model, texts: list[str], pieces: int) -> tuple[float, ...]:
    """Share of tested drafts kept at lags 1 to 7 on held-out text, from the traces of real decoding."""
    draw = random.Random(0)
    tested, kept = torch.zeros(7), torch.zeros(7)
    for number in range(pieces):
        text = draw_window(texts, min(400, model.max_length), draw)  # a character is at most a token, or nearly
        count = len(model.tokenize(text))
        if number % 2:
            positions = sorted(draw.sample(range(count), max(round(0.95 * count), 1)))
        else:
            start = draw.randrange(max(count - 14, 1))
            positions = list(range(start, min(start + 14, count)))
        result = anyorder.infill(text, positions, model=model, draft_length=7, seed=number, marker=None)
        for record in result.trace:
            reached = min(record.num_kept + 1, len(record.drafted))
            tested[:reached] += 1
            kept[: record.num_kept] += 1
    return tuple(round(float(value), 3) for value in kept / tested.clamp(min=1))


def line_matches(model: Model, texts: list[str], pieces: int) -> Figures:
    """How often the likeliest fill of a masked line, its length in tokens given, is the line; by line length."""
    draw = random.Random(1)
    short: list[float] = []
    long: list[float] = []
    while len(short) + len(long) < pieces:
        text = draw_window(texts, 600, draw)
        lines = [match for match in re.finditer(r"^ *(\S.*)$", text, re.MULTILINE) if 100 < match.start() < 500]
        if not lines:
            continue
        start, end = draw.choice(lines).span(1)
        filled = anyorder.infill(text, [(start, end)], model=model, temperature=0, marker=None, context="crop", seed=0)
        matches = filled.spans[0].text.strip() == text[start:end].strip()
        (short if len(filled.spans[0].token_ids) <= 8 else long).append(float(matches))
    values = {"all": short + long, "up to 8 tokens": short, "longer": long}
    rates = {name: Estimate.of([100 * each for each in hits]) for name, hits in values.items() if hits}
    stated = ", ".join(f"{name} {rate.mean:.1f} ± {rate.se:.1f} % (of {rate.n})" for name, rate in rates.items())
    return Figures(
        {name: sum(hits) / max(len(hits), 1) for name, hits in values.items()},
        "Masked lines restored exactly (temperature 0, the number of tokens and about 600 characters around them "
        f"given): {stated}.",
    )


def sentence_rouge(model: Model, texts: list[str], pieces: int) -> Figures:
    """ROUGE of the middle sentence, and of the middle three, of five consecutive held-out sentences."""
    from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"], use_stemmer=False)
    draw = random.Random(2)
    stories = [
        story
        for text in texts
        for story in five_sentences(text)
        if len(model.tokenize(" ".join(story))) <= model.max_length
    ]
    if not stories:
        raise ValueError("no held-out text has five sentences in a row that the model takes: is it prose?")
    chosen = draw.sample(stories, min(pieces, len(stories)))
    values: dict[str, float] = {}
    parts = []
    for label, first, last in (("one of five", 2, 3), ("three of five", 1, 4)):
        scores: list[dict[str, float]] = []
        for seed, story in enumerate(chosen):
            before, blank, after = (" ".join(story[a:b]) for a, b in ((0, first), (first, last), (last, 5)))
            span = (len(before), len(before) + 1 + len(blank))
            text = f"{before} {blank} {after}"
            filled = anyorder.infill(text, [span], model=model, seed=seed, marker=None, context="crop").spans[0].text
            scores.append({name: 100 * each.fmeasure for name, each in scorer.score(blank, filled).items()})
        means = {name: Estimate.of([score[name] for score in scores]) for name in scores[0]}
        parts.append(f"{label} " + " / ".join(f"{mean.mean:.1f} ± {mean.se:.1f}" for mean in means.values()))
        values |= {f"{label} {name}": sum(s[name] for s in scores) / len(scores) for name in means}
    return Figures(
        values,
        f"ROUGE-1 / 2 / L (F-measure, percent) of sampled sentences in {len(chosen)} held-out pieces of five, the "
        f"number of tokens given: {'; '.join(parts)}.",
    )


def five_sentences(text: str) -> list[list[str]]:
    """Runs of five sentences of ordinary length that stand together in a paragraph."""
    found = []
    for paragraph in text.split("\n"):
        sentences = [part.strip() for part in re.split(r"(?<=[.!?]) (?=[A-Z])", paragraph)]
        for start in range(0, len(sentences) - 4, 5):
            story = sentences[start : start + 5]
            if all(20 <= len(sentence) <= 250 for sentence in story):
                found.append(story)
    return found
