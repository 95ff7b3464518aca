r"""Fill blanks anywhere in text or code with any-subset autoregressive models, exactly and fast.

    import anyorder

    print(anyorder.infill("def add(a, b):\n    return <mask:3>\n", seed=0))

Names are imported on first use, so that the command line can answer ``--help`` without waiting for torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0.dev0"

if TYPE_CHECKING:
    from anyorder.codec import Token
    from anyorder.decoding import Progress
    from anyorder.drafting import Drafter, Drafts
    from anyorder.filling import infill
    from anyorder.filling_batch import infill_batch
    from anyorder.markers import escape
    from anyorder.model.hub import load
    from anyorder.model.loaded import Model
    from anyorder.result import FilledSpan, InfillResult, Samples
    from anyorder.scoring import Ranked, log_prob, log_prob_batch, rank, token_log_probs

_HOMES = {
    "Drafter": "anyorder.drafting",
    "Drafts": "anyorder.drafting",
    "FilledSpan": "anyorder.result",
    "InfillResult": "anyorder.result",
    "Model": "anyorder.model.loaded",
    "Progress": "anyorder.decoding",
    "Ranked": "anyorder.scoring",
    "Samples": "anyorder.result",
    "Token": "anyorder.codec",
    "escape": "anyorder.markers",
    "infill": "anyorder.filling",
    "infill_batch": "anyorder.filling_batch",
    "load": "anyorder.model.hub",
    "log_prob": "anyorder.scoring",
    "log_prob_batch": "anyorder.scoring",
    "rank": "anyorder.scoring",
    "token_log_probs": "anyorder.scoring",
}

__all__ = [
    "Drafter",
    "Drafts",
    "FilledSpan",
    "InfillResult",
    "Model",
    "Progress",
    "Ranked",
    "Samples",
    "Token",
    "__version__",
    "escape",
    "infill",
    "infill_batch",
    "load",
    "log_prob",
    "log_prob_batch",
    "rank",
    "token_log_probs",
]


def __getattr__(name: str) -> object:
    """Import a public name from its module the first time it is asked for."""
    if name not in _HOMES:
        raise AttributeError(f"module 'anyorder' has no attribute {name!r}")
    value: object = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
