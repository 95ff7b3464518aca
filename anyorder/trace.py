"""The trace of a result as text: round by round, which drafts were kept, which was corrected, which were dropped.

A round tests its drafts from left to right. The first one may be exact (drawn from p itself, so kept without a test);
the first rejected one is replaced by a correction, and the drafts after it are dropped; if all are kept, the same pass
yields one token more, the bonus.
"""

from __future__ import annotations

from anyorder.codec import Codec
from anyorder.decoding import RoundRecord
from anyorder.result import InfillResult

_COLOURS = {
    "exact": "32",
    "kept": "32",
    "rejected": "31",
    "dropped": "90",
    "correction": "33",
    "bonus": "36",
    "sampled": "0",
}
"""ANSI colours: green stays, red goes, yellow replaces."""


def render(result: InfillResult, codec: Codec, *, colour: bool = False) -> str:
    """The rounds of a result, one a line, and a summary.

    Args:
        result: what ``anyorder.infill`` returned.
        codec: the codec of the model that made it, to spell rejected drafts.
        colour: whether to use ANSI colours, for a terminal.
    """
    lines = [
        f"{number:>5}  {_describe(record, codec, colour=colour)}" for number, record in enumerate(result.trace, start=1)
    ]
    return "\n".join(["round  tokens", *lines, summary(result), ""])


def summary(result: InfillResult) -> str:
    """One line: tokens against passes, drafts kept, time."""
    stats = result.stats
    rate = f" ({stats.tokens / stats.nfe:.2f} a pass)" if stats.nfe else ""
    tested = f", {stats.num_accepted} of {stats.num_drafted} tested drafts kept" if stats.num_drafted else ""
    lossy = "" if stats.lossless else ", lossy"
    return (
        f"{stats.tokens} tokens in {stats.nfe} passes{rate}{tested}, {1000 * stats.seconds:.0f} ms, "
        f"{stats.method}{lossy}, log-density {result.log_prob:.2f}, seed {result.seed}"
    )


def spell(token: int, codec: Codec) -> str:
    """A token as a quoted string; a piece of a character, which is no text of its own, as its bytes."""
    content = codec.token_bytes(token)
    try:
        return repr(content.decode())
    except UnicodeDecodeError:
        return repr(content)


def _describe(record: RoundRecord, codec: Codec, *, colour: bool) -> str:
    groups: dict[str, list[int]] = {
        "exact": list(record.drafted[: record.num_exact]),
        "kept": list(record.drafted[record.num_exact : record.num_kept]),
        "rejected": list(record.drafted[record.num_kept : record.num_kept + 1]),
        "dropped": list(record.drafted[record.num_kept + 1 :]),
    }
    if record.final is not None and record.kind is not None:
        groups[record.kind] = [record.final]
    parts = [f"{name} {' '.join(spell(token, codec) for token in tokens)}" for name, tokens in groups.items() if tokens]
    if colour:
        names = [name for name, tokens in groups.items() if tokens]
        parts = [f"\x1b[{_COLOURS[name]}m{part}\x1b[0m" for name, part in zip(names, parts, strict=True)]
    return "  ".join(parts)
