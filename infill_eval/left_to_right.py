"""What ``--causal`` and its options mean: the models to run, by method, or what keeps them from being run."""

from __future__ import annotations

import argparse
from typing import cast

from infill_eval.arguments import CAUSAL_METHODS
from infill_eval.infiller import Infiller

_READ_BY = {
    "tau": ("mars",),
    "block": ("mars", "mars-verify", "orthrus"),
    "view": ("orthrus",),
    "temperature": ("sample", "mars-verify", "orthrus"),
}
"""Which methods read an option; it is refused where none does."""
_OTHERS = {"model": None, "infiller": None, "draft_length": None, "order": None, "steps": 1}
"""Options of other models, and what they are when nobody gave them."""


def check(options: argparse.Namespace) -> None:
    """Refuse options of a left-to-right task that do not go together.

    Raises:
        ValueError: saying what was asked for and what is allowed.
    """
    methods: list[str] = options.method or []
    if options.causal is None:
        if options.model is None and options.infiller is None:
            raise ValueError("name a model: --causal NAME_OR_DIR, --infiller MODULE:CALLABLE or --model NAME_OR_DIR")
        given = [f"--{name}" for name in ("tau", "block", "view") if getattr(options, name) is not None]
        given += [f"--method {name}" for name in methods if name in CAUSAL_METHODS]
        if given:
            raise ValueError(f"{given[0]} is for a causal model: name one with --causal NAME_OR_DIR")
        return
    for name, default in _OTHERS.items():
        if getattr(options, name) != default:
            raise ValueError(f"--causal does not go together with --{name.replace('_', '-')}: leave one of them out")
    wrong = [name for name in methods if name not in CAUSAL_METHODS]
    if wrong:
        raise ValueError(f"a causal model has the methods {', '.join(CAUSAL_METHODS)}; got --method {wrong[0]}")
    for option, readers in _READ_BY.items():
        is_given = getattr(options, option) is not None and (option, getattr(options, option)) != ("temperature", 0)
        if is_given and not set(methods) & set(readers):
            got = ", ".join(methods) or "none, which is greedy"
            raise ValueError(f"--{option} is for --method {', '.join(readers)}; got {got}")
    if "orthrus" in methods and options.view is None:
        raise ValueError("--method orthrus drafts through a view: --view DIR names what orthrus.save_view wrote")


def infillers(options: argparse.Namespace) -> dict[str, Infiller]:
    """The causal model of ``--causal`` with each method; Orthrus has a copy, since a view changes where masks go.

    Raises:
        ModuleNotFoundError: without transformers.
        ValueError: for options out of range, or a model or view that cannot be loaded.
    """
    from infill_eval.causal_infiller import CausalDecoding, CausalInfiller, CausalMethod
    from infill_eval.causal_loading import CausalText, load_causal

    decodings: dict[str, CausalDecoding] = {}
    for name in options.method or ["greedy"]:
        is_drawn = name in _READ_BY["temperature"] and options.temperature is not None
        decodings[name] = CausalDecoding(
            method=cast("CausalMethod", name),
            tau=0.95 if options.tau is None else options.tau,
            block=options.block,
            temperature=options.temperature if is_drawn else 0.0,
        )
    loaded: dict[bool, CausalText] = {}
    found: dict[str, Infiller] = {}
    for name, decoding in decodings.items():
        has_view = name == "orthrus"
        if has_view not in loaded:
            view = options.view if has_view else None
            loaded[has_view] = load_causal(options.causal, revision=options.revision, device=options.device, view=view)
        found[name] = CausalInfiller(loaded[has_view], decoding)
    return found
