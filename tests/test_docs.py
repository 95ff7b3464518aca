"""README, the pages of ``docs/`` and ``infill_eval/README.md``: code runs, output is real, commands and links work.

A page is read as a reader would: its Python blocks run in order, in one scope, in an empty directory, and what they
print is the block quoted below them (or the comment behind a ``print``). A block under ``<!-- needs network -->`` is
compiled only. A shell block's lines are given to the parser of the program they call, which then does not run.
"""

from __future__ import annotations

import argparse
import importlib
import pydoc
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jsonargparse
import pytest

import anyorder
from anyorder.cli import demo, main

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "infill_eval" / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
LINKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]

PROGRAMS = {"anyorder", "python", "make", "pip", "pytest", "git", "cd"}
"""What a shell block may call; a block is one if its first word is among them."""

FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)

NEEDS_NETWORK = "<!-- needs network -->"


class Block(NamedTuple):
    """A fenced block: its language, its text, the line it starts in, the paragraph before it."""

    language: str
    text: str
    line: int
    before: str

    @property
    def is_shell(self) -> bool:
        words = self.text.split()
        return self.language in ("", "sh") and bool(words) and words[0] in PROGRAMS


def fenced(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    text, blocks, end = page.read_text(encoding="utf-8"), [], 0
    for match in FENCED.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        blocks.append(Block(match[1], match[2], line, text[end : match.start()].strip()))
        end = match.end()
    return blocks


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_the_python_blocks_run_and_print_what_the_page_quotes(
    page: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = fenced(page)
    scope: dict[str, object] = {"__name__": "page"}
    for number, block in enumerate(blocks):
        if block.language != "python":
            continue
        # Line numbers in a traceback are those of the page.
        code = compile("\n" * block.line + block.text, str(page), "exec")
        if block.before.endswith(NEEDS_NETWORK):
            continue
        exec(code, scope)
        check(capsys.readouterr().out, promised(block, blocks[number + 1 : number + 2]), f"{page}:{block.line}")


def promised(block: Block, following: list[Block]) -> str:
    """What a page says that a block prints: the block right behind it, else the comments behind its prints."""
    if following and following[0].language in ("", "text") and not following[0].before and not following[0].is_shell:
        return following[0].text
    return "".join(f"{line}\n" for line in re.findall(r"^print.*  # (.*)$", block.text, flags=re.MULTILINE))


def check(printed: str, quoted: str, where: str) -> None:
    assert apart(printed)[0] == apart(quoted)[0], where
    assert apart(printed)[1] == pytest.approx(apart(quoted)[1], abs=0.02), where


def apart(text: str) -> tuple[list[str], list[float]]:
    """What stands between decimal numbers, and the numbers, which another processor may round otherwise."""
    number = r"-?\d+\.\d+"
    return re.split(number, text), [float(each) for each in re.findall(number, text)]


def test_a_page_that_quotes_another_output_fails() -> None:
    check("a -0.10\nb\n", "a -0.11\nb\n", "close enough")
    for quoted in ("", "a -0.20\nb\n", "a -0.10\nc\n", "a -0.10\n"):
        with pytest.raises(AssertionError):
            check("a -0.10\nb\n", quoted, "not that")


def test_the_examples_were_found() -> None:
    counts = {named(page): sum(block.language == "python" for block in fenced(page)) for page in PAGES}
    assert counts["README.md"] >= 2
    assert counts["infill_eval/README.md"] >= 3
    assert counts["docs/quickstart.md"] >= 3


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_name_of_the_library_that_a_page_uses_exists(page: Path) -> None:
    text = re.sub(r"<!--.*?-->", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    names = set(re.findall(r"\banyorder((?:\.[A-Za-z_]\w*)+)", text))
    missing = [name for name in names if pydoc.locate(f"anyorder{name}", forceload=False) is None]
    assert not missing


def commands(page: Path) -> Iterator[str]:
    """The command lines of a page: of its shell blocks, and those that stand as code in its text and tables."""
    for block in fenced(page):
        if block.is_shell:
            lines = block.text.replace("\\\n", " ").splitlines()
            yield from (line for line in lines if line.strip() and not line.startswith("#"))
    for code in re.findall(r"`([^`\n]+)`", FENCED.sub("", page.read_text(encoding="utf-8"))):
        if len(code.split()) > 1 and code.split()[0] in PROGRAMS:
            yield code


COMMANDS = [
    pytest.param(command, id=f"{named(page)}-{number}")
    for page in PAGES
    for number, command in enumerate(commands(page))
]


class Parsed(BaseException):
    """The program has read its command line; it is not to do what it says."""


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_line_is_one_its_program_takes(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program, *arguments = shlex.split(re.split(r"\s[|>]\s", command)[0], comments=True)
    assert program in PROGRAMS
    if program == "make":
        targets = re.findall(r"^([\w-]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert [each for each in arguments if "=" not in each and each not in targets] == []
    elif program == "anyorder":
        read_by(main, arguments, monkeypatch, capsys)
    elif program == "python" and arguments[:2] != ["-m", "pytest"]:
        entry, rest = entry_point(arguments)
        if rest:  # else it is a program's name in a sentence, which exists
            read_by(entry, rest, monkeypatch, capsys)


def entry_point(arguments: list[str]) -> tuple[Callable[[], Any], list[str]]:
    """The ``main`` of ``python -m MODULE ...`` or ``python PATH ...``, and what it is given."""
    if arguments[0] == "-m":
        name, rest = arguments[1], arguments[2:]
        name = f"{name}.cli" if name in ("anyorder", "infill_eval") else name
    else:
        name, rest = arguments[0].removesuffix(".py").replace("/", "."), arguments[1:]
    function: Callable[[], Any] = importlib.import_module(name).main
    return function, rest


def read_by(
    entry: Callable[[], Any], arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Call a program up to where it has read its command line."""
    for kind in (argparse.ArgumentParser, jsonargparse.ArgumentParser):
        monkeypatch.setattr(kind, "parse_args", stopping(kind.parse_args))
    monkeypatch.setattr(sys, "argv", ["program", *arguments])
    monkeypatch.chdir(ROOT)
    try:
        outcome: object = entry()
    except Parsed:
        return
    except SystemExit as error:
        outcome = error.code
    pytest.fail(f"it ends with {outcome}: {capsys.readouterr().err}")


def stopping(parse: Callable[..., Any]) -> Callable[..., Any]:
    def parse_and_stop(self: argparse.ArgumentParser, *arguments: object, **options: object) -> None:
        parse(self, *arguments, **options)
        raise Parsed

    return parse_and_stop


def test_a_wrong_flag_fails(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        "anyorder infill x --sed 1": "unrecognized",
        "python -m infill_eval speed --out x --tempo 2": "unrecognized",
        "python training/fit.py --minuets 5": "minuets",
        "python -m benchmarks.decode --fast": "unrecognized",
    }
    for command, message in wrong.items():
        with monkeypatch.context() as patch, pytest.raises(pytest.fail.Exception, match=message):
            test_every_command_line_is_one_its_program_takes(command, patch, capsys)


def included(page: Path) -> str:
    """The text of a page with the files it is made of."""
    text = page.read_text(encoding="utf-8")
    files = re.findall(r'^--8<-- "([\w./]+)', text, flags=re.MULTILINE)
    return "\n".join([text, *((ROOT / name).read_text(encoding="utf-8") for name in files)])


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as the site's generator makes them."""
    text = FENCED.sub("", included(page))
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


def broken_links(page: Path) -> Iterator[str]:
    """Links of a page to a file or heading that is not there; those to other hosts are not followed."""
    text = re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_name = "::: " in target.read_text(encoding="utf-8") if target.suffix == ".md" and target.is_file() else False
        if not target.exists() or (
            anchor and anchor not in anchors(target) and not (is_name and pydoc.locate(anchor) is not None)
        ):
            yield link


@pytest.mark.parametrize("page", LINKED, ids=named)
def test_every_link_inside_the_repository_leads_somewhere(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# One two\n[a](page.md#one-two) [b](#one) [c](gone.md) [d](https://example.org/x)\n```\n[e](f)\n```\n"
    )
    assert list(broken_links(page)) == ["#one", "gone.md"]


def test_the_home_page_shows_the_demo_as_a_notebook_does() -> None:
    page = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    view = page[page.index('<div class="anyorder-view">') : page.index("\n</div>\n\n## Where to go")]
    result = anyorder.infill(demo.TEXT, seed=5, temperature=demo.TEMPERATURE, draft_length=demo.DRAFT_LENGTH)
    shown, quoted = (re.sub("<[^>]*>", "", html) for html in (result._repr_html_(), view))
    check(shown.strip(), quoted.strip(), "docs/index.md")


def test_the_demo_shows_fills_rounds_and_what_they_cost(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["demo"]) == 0
    out = capfd.readouterr().out
    assert "<mask:2>" in out
    for method in ("sequential", "one-pass"):
        tokens, passes, seconds = re.search(
            rf"^  {method} +(\d+) +([\d.]+) +([\d.]+)$", out, flags=re.MULTILINE
        ).groups()  # type: ignore[union-attr]
        assert float(passes) <= int(tokens) == 12
        assert float(seconds) > 0
    assert re.search(r"^    1  (sampled|kept|exact)", out, flags=re.MULTILINE)
