"""Which task a command's options mean."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from infill_eval.infiller import Infiller
from infill_eval.sandbox import Limits, Sandbox

if TYPE_CHECKING:
    from infill_eval.tasks.base import Task


def chosen_task(options: argparse.Namespace, infiller: Infiller) -> Task:
    """The task; the model is asked only where its own tokens decide what an item is.

    Raises:
        SandboxError: for a task that runs programs, without consent or isolation.
        ValueError: for data that is not the task's.
    """
    if options.command in ("humaneval", "completion"):
        return _humaneval(options)
    if options.command == "gsm8k":
        from infill_eval.tasks.gsm8k import Gsm8k

        return Gsm8k(options.data, shots=options.shots)
    if options.command == "rocstories":
        from infill_eval.tasks.rocstories import RocStories

        return RocStories(options.data, blank=options.blank, protocol=options.protocol)
    return _wikitext(options, infiller)


def _humaneval(options: argparse.Namespace) -> Task:
    from infill_eval.tasks.humaneval_task import HumanEvalInfilling

    sandbox = Sandbox(
        allow_code_execution=options.allow_code_execution,
        unsafe_execution=options.unsafe_execution,
        limits=Limits(cpu_seconds=options.timeout, seconds=max(Limits.seconds, 10.0 * options.timeout)),
    )
    return HumanEvalInfilling(
        sandbox,
        benchmark=options.benchmark,
        protocol=options.protocol,
        workers=options.workers,
        data=options.data,
    )


def _wikitext(options: argparse.Namespace, infiller: Infiller) -> Task:
    from infill_eval.causal_scorer import CausalScorer
    from infill_eval.tasks.wikitext import MaskingOptions, WikiText, from_hub, read_text, words

    text = read_text(options.data) if options.data else from_hub()
    masking = MaskingOptions(
        chunks=options.chunks, length=options.chunk_length, masked=options.masked, seed=options.seed
    )
    offsets = getattr(infiller, "offsets", words)
    return WikiText(
        text, CausalScorer(options.scorer, device=options.device or "cpu"), offsets=offsets, options=masking
    )
