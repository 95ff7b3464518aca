"""The flags of every command; every option of ``anyorder.infill`` is one, under its own name.

Nothing here imports torch, so that ``--help`` and a wrong flag answer at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from anyorder import __version__
from anyorder.cli import commands
from anyorder.cli.values import parse_forbidden, parse_length, parse_order, parse_span, parse_tokens

_TEXT_HELP = "the text; - reads it from standard input"


def build_parser() -> argparse.ArgumentParser:
    """The parser; each command's function is the default of ``run``."""
    parser = argparse.ArgumentParser(
        prog="anyorder", description="Fill blanks anywhere in text or code, exactly and fast.", allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"anyorder {__version__}")
    add = parser.add_subparsers(required=True, metavar="COMMAND").add_parser
    _infill(add("infill", help="fill the blanks of a text", description=_INFILL, allow_abbrev=False))
    _score(add("score", help="how likely a part of a text is given the rest", description=_SCORE, allow_abbrev=False))
    _models(add("models", help="list the models that load() knows by name", allow_abbrev=False))
    _demo(add("demo", help="fill the blanks of a small program and show how it was decided", allow_abbrev=False))
    return parser


_INFILL = (
    "Fill the blanks of a text: markers such as <mask> (one token) and <mask:5> (five), or --span. "
    "Standard output is the exact text; a newline is added only on a terminal."
)
_SCORE = (
    "Print the joint log-density, in nats, of parts of a text given the rest; "
    "with --candidate, rank what could stand there."
)


def _infill(parser: argparse.ArgumentParser) -> None:
    _add_text(parser)
    _add_spans(parser)
    _add_options(parser)
    output = parser.add_argument_group("output")
    output.add_argument("--json", action="store_true", help="one JSON object a sample and line")
    output.add_argument(
        "--trace", action="store_true", help="show on standard error what was drafted, kept and corrected"
    )
    output.add_argument("--progress", action="store_true", help="show a progress bar on standard error")
    _add_many(parser)
    _add_model(parser, commands.infill)


def _score(parser: argparse.ArgumentParser) -> None:
    _add_text(parser)
    _add_spans(parser)
    parser.add_argument("--order", type=parse_order, help="ascending, random, spread, or a permutation 2,0,1")
    _add_context(parser)
    parser.add_argument("--candidate", action="append", metavar="TEXT", help="rank this for the one --span; repeatable")
    parser.add_argument("--per-token", action="store_true", help="one line a token instead of the sum")
    parser.add_argument("--json", action="store_true", help="one JSON object")
    _add_model(parser, commands.score)


def _models(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON object a model and line")
    parser.set_defaults(run=commands.models)


def _demo(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--seed", type=int, default=5)
    _add_model(parser, commands.demo)


def _add_text(parser: argparse.ArgumentParser) -> None:
    source = parser.add_mutually_exclusive_group()
    source.add_argument("text", nargs="?", metavar="TEXT", help=_TEXT_HELP)
    source.add_argument("--file", metavar="PATH", help="read the text from a file (UTF-8)")


def _add_spans(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("blanks")
    group.add_argument(
        "--span",
        dest="spans",
        type=parse_span,
        action="append",
        metavar="A:B",
        help="characters A to B are a blank; repeatable; markers are text then",
    )
    group.add_argument(
        "--tokens",
        type=parse_tokens,
        metavar="I,J",
        help="token indices instead of --span; runs such as 3-7 are allowed",
    )


def _add_options(parser: argparse.ArgumentParser) -> None:
    options = parser.add_argument_group("options of infill")
    options.add_argument(
        "--length", type=parse_length, default="same", metavar="N", help="tokens a blank: same, 5, 5,3 or a range 2:9"
    )
    options.add_argument("--method", default="one-pass", help="one-pass (default), assd, sequential or parallel")
    options.add_argument(
        "--draft-length", type=int, metavar="K", help="drafts a round; chosen from measured costs by default"
    )
    options.add_argument("--temperature", type=float, default=1.0, help="1 by default, 0 is greedy")
    options.add_argument("--top-k", type=int, metavar="K", help="draw only from the K most likely tokens")
    options.add_argument(
        "--top-p", type=float, metavar="P", help="draw only from the smallest set of tokens that reaches P"
    )
    options.add_argument("--n", type=int, default=1, help="number of samples, best first")
    options.add_argument("--seed", type=int, help="makes the result repeatable; drawn and reported by default")
    options.add_argument("--order", type=parse_order, help="ascending, random, spread, or a permutation 2,0,1")
    options.add_argument("--drafter", default="self", help="self (default) or ngram")
    options.add_argument(
        "--forbidden",
        type=parse_forbidden,
        action="append",
        metavar="STRING",
        help=r"what no fill may contain; \n, \t and \\ are understood",
    )
    marker = options.add_mutually_exclusive_group()
    marker.add_argument("--marker", default="<mask>", help="what marks a blank, <mask> by default")
    marker.add_argument(
        "--no-marker", dest="marker", action="store_const", const=None, help="no markers: they are text"
    )
    options.add_argument("--steps", type=int, default=1, metavar="S", help="groups of the parallel method")
    _add_context(options)


def _add_context(to: argparse._ActionsContainer) -> None:
    to.add_argument("--context", default="full", help="full (default), or crop to keep a window around each blank")


def _add_many(parser: argparse.ArgumentParser) -> None:
    jsonl = parser.add_argument_group("many texts")
    jsonl.add_argument(
        "--jsonl", metavar="IN", help='one JSON string or object {"text": ..., options} a line; - reads standard input'
    )
    jsonl.add_argument(
        "--out",
        metavar="OUT",
        help="where the results go, one object a sample and line, in input order; - is standard output",
    )
    jsonl.add_argument(
        "--resume", action="store_true", help="continue an OUT that an interrupted run with the same options left"
    )
    jsonl.add_argument(
        "--batch-size", type=int, default=16, metavar="B", help="texts decoded together; no effect on results"
    )


def _add_model(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> None:
    group = parser.add_argument_group("model")
    group.add_argument("--model", metavar="NAME", help="a bundled name, a directory or a Hub id; see: anyorder models")
    group.add_argument("--revision", help="revision of a Hub model")
    group.add_argument("--device", help="cpu, cuda, ...")
    group.add_argument("--dtype", help="float32, bfloat16 or float16")
    group.add_argument("--weights", help="float16: half the memory, float32 activations")
    group.add_argument("--codec", help="name of the codec, if the checkpoint does not say")
    group.add_argument("--tokenizer", help="directory or Hub id of the tokenizer, if the checkpoint has none")
    parser.set_defaults(run=run)
