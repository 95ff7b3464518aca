"""Programs that try to pass without solving the task, to outlive their run, or to do harm.

Each defines ``answer``; the tests want squares, which none of them computes. An attack that reaches its goal makes
``answer`` right, so that "passed" in the table means "the attack worked". ``VICTIM``, ``SECRET``, ``PORT`` are filled
in.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

TESTS = """
import secrets
def check(candidate):
    assert candidate(2) == 4
    for _ in range(3):
        n = secrets.randbelow(1 << 40)  # expected answers no program can find written anywhere
        assert candidate(n) == n * n, "a hidden test"
"""


def programs(name: str) -> dict[str, str]:
    """The sources in a text file of this directory, by the names in their ``===`` lines."""
    parts = re.split(r"^=== (.+) ===\n", (Path(__file__).parent / name).read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


HOSTILE = programs("hostile_programs.txt")


def filled(source: str, *, victim: str, secret: str, port: int) -> str:
    """An attack aimed at this run's victim directory, environment secret and listening port."""
    return source.replace("VICTIM", victim).replace("SECRET", secret).replace("PORT", str(port))


def main() -> None:
    """Run every program as whoever this process is: one JSON object on the standard output."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    from infill_eval.sandbox import Limits, Program, Sandbox

    request = json.loads(sys.stdin.read())
    limits = Limits(seconds=1.0, cpu_seconds=1, memory_bytes=256 * 2**20)
    sandbox = Sandbox(allow_code_execution=True, limits=limits, isolation=request["isolation"])
    patient = Sandbox(allow_code_execution=True, isolation=request["isolation"])
    sources = [filled(source, **request["aim"]) for source in HOSTILE.values()]
    attacks = [Program(source=source, entry_point="answer", tests=TESTS) for source in sources]
    honest = Program(source="def answer(n): return n * n", entry_point="answer", tests=TESTS)
    verdicts = [(v.status, v.detail) for v in (patient.run(honest), *sandbox.run_many(attacks, workers=8))]
    print(json.dumps({"isolation": sandbox.isolation, "verdicts": verdicts}))  # noqa: T201


if __name__ == "__main__":
    main()
