"""Nothing a hostile program does makes it pass, hang, survive, or harm; whoever runs it, at whatever isolation."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hostile import HOSTILE, TESTS, programs

import infill_eval.sandbox
from infill_eval.sandbox import Limits, Program, Sandbox, SandboxError, strongest_isolation

AS_ROOT = os.geteuid() == 0
ORDINARY_USER = 65534
SQUARE = Program(source="def answer(n):\n    return n * n\n", entry_point="answer", tests=TESTS)
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="isolation needs Linux")


@dataclass(frozen=True)
class Target:
    """What the programs try to reach: a directory anyone may change, a secret in the environment, a listening port."""

    victim: Path
    secret: str
    port: int


@pytest.fixture
def target() -> Iterator[Target]:
    victim = Path(tempfile.mkdtemp(prefix="victim-"))
    victim.chmod(0o777)
    (victim / "kept").write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        port = server.getsockname()[1]
        with socket.socket(socket.AF_UNIX) as local:  # an address that only a network namespace or a filter guards
            local.bind(f"\0infill-eval-{port}")
            local.listen()
            local.setblocking(False)
            yield Target(victim, "s3cret-of-the-parent", port)
            for one in (server, local):
                with pytest.raises(BlockingIOError):  # nobody connected
                    one.accept()
    shutil.rmtree(victim)


def interpreter_for(user: int) -> str | None:
    """An interpreter (3.11 or newer) that another user may start; the tests' own may lie in a closed home directory."""
    for python in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        try:
            check = [python, "-I", "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
            if subprocess.run(check, user=user, group=user, extra_groups=[], check=False, cwd="/").returncode == 0:
                return python
        except OSError:
            continue
    return None


def survivors(patience: float = 20.0) -> dict[int, str]:
    """Processes of sandboxes that go on and on; those of another test that runs beside this one end soon."""
    left, end = processes(), time.monotonic() + patience
    while left and time.monotonic() < end:
        time.sleep(0.1)
        left = {pid: command for pid, command in left.items() if Path(f"/proc/{pid}").exists()}
    return left


def processes() -> dict[int, str]:
    """Every process of a sandbox on this machine, with its command."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if "infill_eval.jail" in command:
                found[int(entry.name)] = command
    return found


def run_hostile(target: Target, isolation: str, user: int | None) -> dict[str, tuple[str, str]]:
    python = sys.executable if user is None else interpreter_for(user)
    if python is None:
        pytest.skip("no interpreter that an ordinary user may start")
    aim = {"victim": str(target.victim), "secret": target.secret, "port": target.port}
    who = {} if user is None else {"user": user, "group": user, "extra_groups": []}
    script = Path(__file__).parent / "hostile.py"
    with tempfile.TemporaryDirectory() as scratch:
        os.chmod(scratch, 0o777)
        done = subprocess.run(
            [python, str(script)],
            input=json.dumps({"isolation": isolation, "aim": aim}),
            env={"PATH": "/usr/bin:/bin", "SECRET": target.secret, "TMPDIR": scratch, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=170,
            check=False,
            **who,
        )
        assert os.listdir(scratch) == [], "a program or its sandbox left files behind"
    if "could not be set up" in done.stderr:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    (status, detail), *verdicts = json.loads(done.stdout)["verdicts"]
    assert (status, detail) == ("passed", ""), "an honest program has to pass beside the hostile ones"
    return dict(zip(HOSTILE, verdicts, strict=True))


LEVELS = [
    pytest.param("namespaces", None, id="namespaces-as-this-user"),
    pytest.param("user", None, id="user-from-root", marks=pytest.mark.skipif(not AS_ROOT, reason="needs root")),
    pytest.param(
        "namespaces",
        ORDINARY_USER,
        id="namespaces-from-ordinary",
        marks=pytest.mark.skipif(not AS_ROOT, reason="needs root"),
    ),
]


@pytest.mark.parametrize(("isolation", "user"), LEVELS)
def test_no_hostile_program_passes_hangs_survives_or_harms(target: Target, isolation: str, user: int | None) -> None:
    if isolation == "user":
        target.victim.chmod(0o755)  # this level protects what other users may not change
    verdicts = run_hostile(target, isolation, user)
    for name, (status, detail) in verdicts.items():
        sys.stdout.write(f"{name:52} {status:8} {detail[:90]}\n")  # the table; shown with -rA or -s
    assert {name for name, (status, _) in verdicts.items() if status == "passed"} == set()
    assert {status for status, _ in verdicts.values()} <= {"failed", "error", "timeout", "crashed"}
    assert sorted(os.listdir(target.victim)) == ["kept"]
    assert (target.victim / "kept").read_text() == "kept"
    assert survivors() == {}


def test_the_attacks_are_real_outside_the_sandbox(target: Target) -> None:
    # A check of the checks: with no sandbox the same sources do what they say, so that a refusal above means something.
    for name in ("writes outside", "deletes outside", "10 GB of memory", "searches memory for the tests"):
        assert name in HOSTILE
    source = HOSTILE["deletes outside"].replace("VICTIM", str(target.victim))
    done = subprocess.run([sys.executable, "-c", source], check=False)
    assert done.returncode == 0
    assert not target.victim.exists()
    target.victim.mkdir()


@pytest.mark.parametrize("isolation", ["namespaces", "user"])
def test_the_same_attack_is_counted_as_worked_when_it_works(isolation: str) -> None:
    if isolation == "user" and not AS_ROOT:
        pytest.skip("needs root")
    sandbox = Sandbox(allow_code_execution=True, isolation=isolation)
    inside = HOSTILE["writes outside"].replace("VICTIM/new", "new")  # its own directory, where writing is allowed
    assert sandbox.run(Program(source=inside, entry_point="answer", tests=TESTS)).passed


def test_right_answers_pass_and_wrong_ones_fail() -> None:
    sandbox = Sandbox(allow_code_execution=True)
    wrong = Program(source="def answer(n):\n    return 4\n", entry_point="answer", tests=TESTS)
    assert sandbox.run(SQUARE).passed
    assert sandbox.run(wrong).status == "failed"


HONEST = programs("honest_programs.txt")


@pytest.mark.parametrize("isolation", ["namespaces", "user"])
@pytest.mark.parametrize("name", HONEST)
def test_what_honest_programs_do_works_inside(isolation: str, name: str) -> None:
    if isolation == "user" and (not AS_ROOT or name == "the standard library"):
        pytest.skip("needs root, and at this level only preloaded modules are sure to be readable")
    sandbox = Sandbox(allow_code_execution=True, isolation=isolation)
    verdict = sandbox.run(Program(source=HONEST[name], entry_point="answer", tests=TESTS))
    assert verdict.passed, verdict


def test_an_exception_of_the_program_reaches_the_tests_as_the_same_builtin() -> None:
    tests = """
def check(f):
    try:
        f(1)
    except KeyError as error:
        assert 'gone' in str(error)
    else:
        raise AssertionError
"""
    program = Program(source="def answer(n):\n    raise KeyError('gone')\n", entry_point="answer", tests=tests)
    assert Sandbox(allow_code_execution=True).run(program).passed


@pytest.mark.parametrize("caught", ["Exception", "BaseException"])
def test_a_test_that_swallows_every_exception_does_not_hide_that_the_program_died(caught: str) -> None:
    tests = f"def check(f):\n    try:\n        f(1)\n    except {caught}:\n        pass\n"
    program = Program(source="import os\ndef answer(n):\n    os._exit(0)\n", entry_point="answer", tests=tests)
    assert Sandbox(allow_code_execution=True).run(program).status == "crashed"


def test_an_answer_that_cannot_be_printed_is_a_failed_test() -> None:
    tests = "def check(f):\n    answer = f(1)\n    assert answer == 1, answer\n"
    program = Program(source="def answer(n): return 10 ** 5000\n", entry_point="answer", tests=tests)
    verdict = Sandbox(allow_code_execution=True).run(program)
    assert verdict.status == "failed"
    assert "unprintable" in verdict.detail


FINDS_PACKAGES = """
import glob, os
here = os.path.dirname(os.__file__)
found = [name for place in (here, "/usr/lib/python3*", "/usr/local/lib/python3*")
         for name in glob.glob(place + "/*-packages/*")]
def answer(n):
    if found: raise LookupError(str(found[:9]))
    return n * n
"""


@pytest.mark.parametrize("python", [sys.executable, "/usr/bin/python3"])
def test_no_installed_package_is_visible_as_one_may_hold_the_tests(python: str) -> None:
    if interpreter_for(os.geteuid()) is None or not os.access(python, os.X_OK):
        pytest.skip("no such interpreter")
    try:
        sandbox = Sandbox(allow_code_execution=True, isolation="namespaces", python=python)
        verdict = sandbox.run(Program(source=FINDS_PACKAGES, entry_point="answer", tests=TESTS))
    except SandboxError as error:
        pytest.skip(str(error))
    assert verdict.passed, verdict


def test_a_program_too_long_to_cross_is_a_failed_program() -> None:
    program = Program(source="x = 1\n" * 2**21, entry_point="answer", tests=TESTS)
    verdict = Sandbox(allow_code_execution=True).run(program)
    assert verdict.status == "error"
    assert "too long" in verdict.detail


def test_an_interrupt_starts_no_further_program(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(allow_code_execution=True)
    started: list[Program] = []

    def run(self: Sandbox, program: Program) -> object:
        started.append(program)
        time.sleep(0.01)
        return program

    monkeypatch.setattr(Sandbox, "run", run)
    verdicts = sandbox.run_many([SQUARE] * 200, workers=2)
    next(verdicts)
    verdicts.close()  # type: ignore[attr-defined]
    assert len(started) < 100


def test_nothing_runs_without_consent() -> None:
    with pytest.raises(SandboxError, match="--allow-code-execution"):
        Sandbox(allow_code_execution=False)


def test_limits_alone_need_a_second_consent() -> None:
    with pytest.raises(SandboxError, match="--unsafe-execution"):
        Sandbox(allow_code_execution=True, isolation="none")
    assert Sandbox(allow_code_execution=True, unsafe_execution=True, isolation="none").run(SQUARE).passed


def test_an_isolation_that_cannot_be_set_up_is_an_error_not_a_verdict(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = ("refused", "unshare: Operation not permitted")
    monkeypatch.setattr(infill_eval.sandbox, "_execute", lambda *_: refused)
    with pytest.raises(SandboxError, match=r"namespaces.*could not be set up: unshare: Operation not permitted"):
        Sandbox(allow_code_execution=True, isolation="namespaces").run(SQUARE)
    with pytest.raises(SandboxError, match=r"namespaces: unshare: Operation not permitted.*--unsafe-execution"):
        Sandbox(allow_code_execution=True)


@pytest.mark.parametrize("python", ["/bin/cat", "/bin/false"])
def test_an_interpreter_that_is_none_is_an_error_not_a_verdict(python: str) -> None:
    with pytest.raises(SandboxError, match=f"{python} ended with exit status 1 and no verdict"):
        Sandbox(allow_code_execution=True, isolation="namespaces", python=python).run(SQUARE)


def test_limits_are_checked_once() -> None:
    with pytest.raises(ValueError, match="cpu_seconds must be positive, got 0"):
        Limits(cpu_seconds=0)


def test_the_strongest_isolation_is_found_by_trying() -> None:
    reasons: list[str] = []
    level = strongest_isolation(reasons=reasons)
    assert level in ("namespaces", "user", "none")
    assert (level == "namespaces") == (not any(reason.startswith("namespaces") for reason in reasons))
