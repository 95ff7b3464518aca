"""Peak memory of a method, measured where nothing else ran before: a process of its own.

The kernel's mark (``infill_eval.process_memory``) is set back once the model is open, so that what decoding adds is
told from what importing and loading took. Elsewhere than on Linux nothing is measured.
"""

from __future__ import annotations

import gc
import multiprocessing
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import NamedTuple

from infill_eval import process_memory
from infill_eval.comparison.models import Source, open_source
from infill_eval.comparison.pieces import Piece


class Memory(NamedTuple):
    """Bytes of a process that opens a model and decodes one batch.

    Attributes:
        peak: the most it ever held: interpreter, torch, weights and all.
        decoding: what decoding took at most beyond what was held when the model was open; ``None`` where the kernel
            does not let the mark be set back.
    """

    peak: int
    decoding: int | None


class Job(NamedTuple):
    """What is to be decoded: a method by its name, and a batch of pieces."""

    source: Source
    draft_length: int | None
    method: str
    pieces: Sequence[Piece]
    temperature: float


def measured(job: Job) -> Memory | None:
    """The memory of a job, in a fresh process; ``None`` where the system does not tell, or ended that process."""
    if not process_memory.STATUS.is_file():
        return None
    context = multiprocessing.get_context("spawn")
    receive, send = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(send, job))
    process.start()
    send.close()  # so that the end of the process is the end of what can be received
    try:
        found: Memory = receive.recv()
    except EOFError:
        return None
    finally:
        process.join()
    return found


def _answer(send: Connection, job: Job) -> None:
    send.send(_run(job))


def _run(job: Job) -> Memory:
    contestant = open_source(job.source, draft_length=job.draft_length)
    method = next(one for one in contestant.methods if one.name == job.method)
    gc.collect()
    peak, before, is_reset = process_memory.peak(), process_memory.held(), process_memory.reset_peak()
    method.write(job.pieces, temperature=job.temperature)
    after = process_memory.peak()
    return Memory(peak=max(peak, after), decoding=after - before if is_reset else None)
