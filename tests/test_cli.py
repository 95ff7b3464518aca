"""The command line: exact text on standard output, everything else on standard error, 0, 2 or 1 as exit status."""

from __future__ import annotations

import copy
import io
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import anyorder
import anyorder.sample
from anyorder import cli
from anyorder.cli import many
from anyorder.cli.parser import build_parser
from anyorder.cli.values import to_json
from anyorder.filling import infill as infill_function
from anyorder.model.hub import bundled
from anyorder.model.loaded import Model


class Shell:
    """Runs command lines in this process."""

    def __init__(
        self, model: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
    ) -> None:
        self.model, self.monkeypatch, self.capture = model, monkeypatch, capsysbinary

    def __call__(self, *arguments: str, stdin: bytes = b"", model: bool = True) -> tuple[int, bytes, str]:
        """Exit status, standard output and standard error."""
        self.monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        named = ["--model", str(self.model)] if model else []
        try:
            status = cli.main([*arguments[:1], *named, *arguments[1:]])
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        out, err = self.capture.readouterr()
        return status, out, err.decode()


@pytest.fixture
def shell(tiny_checkpoint: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Shell:
    return Shell(tiny_checkpoint, monkeypatch, capsysbinary)


def test_standard_output_is_the_exact_text(shell: Shell, tiny: Model) -> None:
    for text in ("a <mask:3> b", "é\r\n<mask>\n", "<mask:2>"):
        expected = anyorder.infill(text, model=tiny, seed=3).text
        assert shell("infill", "--seed", "3", text)[:2] == (0, expected.encode())


def test_a_newline_is_added_only_on_a_terminal(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell("infill", "no blank")[1] == b"no blank"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    assert shell("infill", "no blank")[1] == b"no blank\n"
    assert shell("infill", "no blank\n")[1] == b"no blank\n"


def test_a_text_without_a_blank_comes_back_with_a_note_in_case_the_marker_was_mistyped(shell: Shell) -> None:
    status, out, err = shell("infill", "x = <mask 3>")
    assert (status, out) == (0, b"x = <mask 3>")
    assert err.startswith("anyorder: note: the text has no blank and stays as it is: write <mask> for one")
    assert err.count("\n") == 1
    assert shell("infill", "x", "--marker", "[GAP]")[2].count("write [GAP] for one") == 1
    assert shell("infill", "<mask:0>")[2] == ""


def test_the_text_comes_from_a_file_or_standard_input_byte_for_byte(shell: Shell, tmp_path: Path) -> None:
    content = "ünïcode\r\n\ttab \0 end".encode()
    (tmp_path / "in.txt").write_bytes(content)
    assert shell("infill", "--file", str(tmp_path / "in.txt"))[:2] == (0, content)
    assert shell("infill", "-", stdin=content)[:2] == (0, content)


def test_spans_and_tokens_say_where_the_blanks_are(shell: Shell, tiny: Model) -> None:
    text = "a <mask> b c"
    by_span = anyorder.infill(text, [(0, 1), slice(-1, None)], model=tiny, seed=1).text
    assert shell("infill", text, "--span", "0:1", "--span=-1:", "--seed", "1")[1] == by_span.encode()
    by_token = anyorder.infill(text, [0, 2, 3, 4], model=tiny, seed=1).text
    assert shell("infill", text, "--tokens", "2-4,0", "--seed", "1")[1] == by_token.encode()


def test_json_is_one_object_a_sample_and_equals_to_dict(shell: Shell, tiny: Model) -> None:
    status, out, _ = shell("infill", "a <mask:3> b", "--json", "--n", "3", "--seed", "5", "--order", "2,0,1")
    assert status == 0
    entries = [json.loads(line) for line in out.splitlines()]
    expected = [
        result.to_dict() for result in anyorder.infill("a <mask:3> b", model=tiny, n=3, seed=5, order=[2, 0, 1])
    ]
    for entry in [*entries, *expected]:
        entry["stats"].pop("seconds")
    assert entries == expected


def test_every_option_of_infill_is_a_flag_with_the_same_default(shell: Shell) -> None:
    parsed = vars(build_parser().parse_args(["infill", "text"]))
    defaults = infill_function.__kwdefaults__
    for name in set(defaults) - {"model", "progress"}:
        assert parsed[name] == defaults[name], name
    assert parsed["progress"] is False
    flags: dict[str, Any] = {
        "--length": "2:5",
        "--method": "parallel",
        "--draft-length": "3",
        "--temperature": "0.5",
        "--top-k": "7",
        "--top-p": "0.9",
        "--n": "2",
        "--seed": "4",
        "--order": "spread",
        "--drafter": "ngram",
        "--forbidden": "\\n",
        "--marker": "[GAP]",
        "--steps": "2",
        "--context": "crop",
    }
    line = ["infill", "text", *(item for pair in flags.items() for item in pair)]
    given = vars(build_parser().parse_args(line))
    assert given["length"] == range(2, 5)
    assert given["forbidden"] == ["\n"]
    assert {name: given[name] for name in ("method", "draft_length", "top_k", "top_p", "marker", "steps")} == {
        "method": "parallel",
        "draft_length": 3,
        "top_k": 7,
        "top_p": 0.9,
        "marker": "[GAP]",
        "steps": 2,
    }
    assert shell(*["infill", "a [GAP] b", *line[2:]])[0] == 0


def test_every_line_without_a_blank_is_remarked_on_by_its_number(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('"none"\n"<mask>"\n"none"\n')
    err = shell("infill", "--jsonl", str(tmp_path / "in.jsonl"), "--out", str(tmp_path / "out.jsonl"))[2]
    assert [line.split(": the text")[0] for line in err.splitlines()] == [
        "anyorder: note: line 1",
        "anyorder: note: line 3",
    ]


def test_a_pipe_gets_no_bar_unless_it_asks_for_one(shell: Shell, lines_file: Path) -> None:
    err = shell("infill", "--jsonl", str(lines_file), "--out", str(lines_file.with_name("quiet.jsonl")))[2]
    assert err == "anyorder: 3 of 8 lines could not be used; their results say why\n"


def test_a_text_longer_than_the_model_is_scored_in_a_window(shell: Shell, tiny: Model) -> None:
    text = "x = 1; " * 60 + "def add(a, b)"
    where = (text.index("add"), text.index("add") + 3)
    line = ["score", text, "--span", f"{where[0]}:{where[1]}"]
    assert shell(*line)[0] == 2
    value = anyorder.log_prob(text, [where], model=tiny, context="crop")
    assert float(shell(*line, "--context", "crop")[1]) == pytest.approx(value, abs=1e-5)
    ranked = shell(*line, "--context", "crop", "--candidate", "add")[1].decode()
    assert float(ranked.split("\t")[0]) == pytest.approx(value, abs=1e-4)


def test_the_trace_goes_to_standard_error_and_accounts_for_every_token(shell: Shell) -> None:
    status, out, err = shell("infill", "a <mask:6> b", "--trace", "--seed", "1", "--draft-length", "2")
    assert status == 0
    assert out.startswith(b"a ")
    rounds = [line.split("  ", 2)[-1] for line in err.splitlines() if line[:5].strip().isdigit()]
    words = " ".join(rounds)
    assert err.startswith("round")
    assert "6 tokens in" in err
    assert any(word in words for word in ("kept", "rejected"))


def test_score_prints_the_density_and_ranks_candidates(shell: Shell, tiny: Model) -> None:
    text = "def add(a, b):"
    value = anyorder.log_prob(text, [(4, 7)], model=tiny)
    assert float(shell("score", text, "--span", "4:7")[1]) == pytest.approx(value, abs=1e-5)
    entry = json.loads(shell("score", text, "--span", "4:7", "--json")[1])
    assert entry["log_prob"] == pytest.approx(value, abs=1e-5)
    per_token = [float(line) for line in shell("score", text, "--span", "4:7", "--per-token")[1].split()]
    assert per_token == pytest.approx(entry["token_log_probs"], abs=1e-5)
    ranked = shell("score", text, "--span", "4:7", "--candidate", "add", "--candidate", "x")[1].decode().splitlines()
    expected = anyorder.rank(text, (4, 7), ["add", "x"], model=tiny)
    assert [line.split("\t")[1] for line in ranked] == [one.text for one in expected]


def test_models_lists_what_load_knows_by_name(shell: Shell) -> None:
    status, out, _ = shell("models", "--json", model=False)
    assert status == 0
    names = {json.loads(line)["name"] for line in out.splitlines()}
    assert {"therealgabeguo/ASARM", *bundled()} <= names


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["infill"], "no text was given"),
        (["infill", "a <mask:x>"], "malformed marker at character 2"),
        (["infill", "abc", "--span", "2:9"], "span (2, 9) is out of range"),
        (["infill", "abc", "--span", "2-9"], "a span is written A:B"),
        (["infill", "abc", "--span", "0:1", "--tokens", "0"], "cannot be mixed"),
        (["infill", "abc", "--tokens", "x"], "token indices are written"),
        (["infill", "abc", "--tokens", "3-1"], "a run of token indices goes up, as in 3-7; got '3-1'"),
        (["infill", "abc", "--tokens", "0,-1-2"], "token indices are written"),
        (["infill", "abc", "--tokens", "0-99999999999"], "at most 6 digits"),
        (["infill", "abc", "--span", "0:1", "--length", "9" * 20], "tokens; this model takes 96"),
        (["infill", "abc", "--span", "0:1", "--length", "1:" + "9" * 20], "tokens; this model takes 96"),
        (["infill", "abc", "--length", "long"], "a length is same"),
        (["infill", "<mask>", "--temperature", "nan"], "temperature must be a finite number"),
        (["infill", "<mask>", "--n", "0"], "n must be at least 1"),
        (["infill", "<mask>", "--method", "fast"], "'fast'"),
        (["infill", "<mask>", "--meth", "assd"], "unrecognized arguments"),
        (["infill", "--file", "/no/such/file"], "/no/such/file: No such file"),
        (["infill", "abc", "--file", "x"], "not allowed with argument"),
        (["infill", "abc", "--out", "x"], "go with --jsonl"),
        (["infill", "\udcff <mask>"], "surrogate"),
        (["score", "abc"], "which part of the text"),
        (["score", "abc", "--span", "0:1", "--span", "1:2", "--candidate", "x"], "exactly one --span"),
        (["infill", "--jsonl", "in"], "needs --out"),
        (["infill", "--jsonl", "/no/such/file", "--out", "x"], "No such file"),
        (["infill", "--jsonl", "-", "--out", "/dev/null"], "--out must name a file, or - for standard output"),
        (["infill", "--jsonl", "-", "--out", "-", "--resume"], "--resume continues a file"),
        (["nonsense"], "invalid choice"),
    ],
)
def test_bad_input_exits_with_2_one_line_and_no_output(shell: Shell, arguments: list[str], message: str) -> None:
    status, out, err = shell(*arguments, model=arguments[0] in ("infill", "score"))
    assert (status, out) == (2, b"")
    assert message in err
    assert "Traceback" not in err


def test_an_unknown_model_exits_with_2(shell: Shell) -> None:
    status, _, err = shell("infill", "<mask>", "--model", "no-such-model", model=False)
    assert (status, err.startswith("anyorder: unknown model 'no-such-model'")) == (2, True)


def test_text_that_is_not_utf8_exits_with_2_and_says_where(shell: Shell) -> None:
    status, _, err = shell("infill", "-", stdin=b"abc\xff")
    assert (status, err) == (2, "anyorder: standard input is not UTF-8: byte 3 is 0xff\n")


def test_what_is_no_fault_of_the_input_exits_with_1(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(anyorder, "infill", out_of_memory)
    assert shell("infill", "<mask>")[::2] == (1, "anyorder: RuntimeError: out of memory\n")


LINES = [
    '"a <mask:2> b"',
    '{"text": "foo bar", "mask_positions": [[0, 3]], "n": 2, "seed": 4}',
    '{"text": "foo bar", "mask_positions": [0], "forbidden": "e"}',
    '{"text": "x <mask>", "forbidden": "a", "temperature": 0.5}',
    "not json",
    '{"text": "x <mask:oops>"}',
    '{"text": "x", "colour": "red"}',
    '"the <mask:3> end"',
]


def read_out(path: Path) -> list[dict[str, Any]]:
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for entry in entries:
        entry.get("stats", {}).pop("seconds", None)
    return entries


def densities(entry: dict[str, Any]) -> list[float]:
    """Taken out of an entry of an output file."""
    spans = entry.get("spans", [])
    return [
        entry.pop("log_prob", 0.0),
        *(span.pop("log_prob") for span in spans),
        *(value for span in spans for value in span.pop("token_log_probs")),
    ]


@pytest.fixture
def lines_file(tmp_path: Path) -> Path:
    path = tmp_path / "in.jsonl"
    path.write_text("\n".join(LINES) + "\n")
    return path


def test_many_texts_are_filled_in_order_and_bad_lines_say_why(shell: Shell, tiny: Model, lines_file: Path) -> None:
    out = lines_file.with_name("out.jsonl")
    status, printed, err = shell("infill", "--jsonl", str(lines_file), "--out", str(out), "--seed", "1", "--progress")
    assert (status, printed) == (2, b"")
    assert "8/8" in err
    assert err.endswith("anyorder: 3 of 8 lines could not be used; their results say why\n")
    entries = read_out(out)
    assert [(entry["index"], entry["sample"]) for entry in entries] == [
        (0, 0), (1, 0), (1, 1), (2, 0), (3, 0), (4, 0), (5, 0), (6, 0), (7, 0)
    ]  # fmt: skip
    errors = {entry["index"]: entry["error"] for entry in entries if "error" in entry}
    assert set(errors) == {4, 5, 6}
    assert "line 5 is not JSON" in errors[4]
    assert "malformed marker" in errors[5]
    assert "unknown options ['colour']" in errors[6]
    assert entries[0]["text"] == anyorder.infill("a <mask:2> b", model=tiny, seed=1).text
    expected = anyorder.infill("foo bar", [(0, 3)], model=tiny, seed=4, n=2)
    assert [entry["text"] for entry in entries[1:3]] == [result.text for result in expected]
    assert entries[3]["forbidden"] == ["e"]
    assert entries[4]["forbidden"] == ["a"]


@pytest.mark.parametrize("batch_size", ["1", "3"])
def test_a_run_cut_anywhere_resumes_to_the_same_file(
    shell: Shell, lines_file: Path, tmp_path: Path, batch_size: str
) -> None:
    whole, cut = tmp_path / "whole.jsonl", tmp_path / "cut.jsonl"
    line = ["infill", "--jsonl", str(lines_file), "--seed", "1", "--batch-size", batch_size]
    shell(*line, "--out", str(whole))
    content, expected = whole.read_bytes(), read_out(whole)
    for length in range(0, len(content), max(len(content) // 12, 1)):
        cut.write_bytes(content[:length])
        assert shell(*line, "--out", str(cut), "--resume")[0] == 2
        for entry, same in zip(read_out(cut), copy.deepcopy(expected), strict=True):
            # Other neighbours in a batch may move a density in its last digits, nothing else.
            assert densities(entry) == pytest.approx(densities(same), abs=1e-4)
            assert entry == same


def test_resuming_what_is_complete_changes_nothing(shell: Shell, lines_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    line = ["infill", "--jsonl", str(lines_file), "--out", str(out), "--resume"]
    assert shell(*line)[0] == 2
    before = out.read_bytes()
    assert shell(*line)[0] == 2
    assert out.read_bytes() == before


def test_an_existing_output_is_never_overwritten(shell: Shell, lines_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    out.write_text("precious\n")
    line = ["infill", "--jsonl", str(lines_file), "--out", str(out)]
    assert "exists: pass --resume" in shell(*line)[2]
    status, _, err = shell(*line, "--resume")
    assert (status, "is not the output of --jsonl" in err) == (2, True)
    assert out.read_text() == "precious\n"


def test_the_output_of_another_input_is_refused(lines_file: Path, shell: Shell, tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    shell("infill", "--jsonl", str(lines_file), "--out", str(out))
    lines_file.write_text("\n".join(LINES[:3]))
    assert "not its output" in shell("infill", "--jsonl", str(lines_file), "--out", str(out), "--resume")[2]
    out.write_text(out.read_text().split("\n", 1)[1])
    with pytest.raises(ValueError, match="line 0 is followed by line 1"):
        many.recover(out, [])


def fill_lines(shell: Shell, tmp_path: Path, *lines: str) -> tuple[int, list[dict[str, Any]]]:
    """Exit status and results of a file of these lines."""
    source, out = tmp_path / "lines.jsonl", tmp_path / "results.jsonl"
    source.write_text("".join(line + "\n" for line in lines))
    status = shell("infill", "--jsonl", str(source), "--out", str(out), "--seed", "0")[0]
    return status, read_out(out)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            ['{"text": "x =<mask>", "mask_positions": 0}', '{"text": "a = b + c", "mask_positions": 2}'],
            "mask_positions must be a list",
        ),
        (['{"text": "<mask:2>", "order": 1}', '{"text": "<mask:2>", "order": 0}'], "order must be"),
    ],
)
def test_a_value_of_one_line_is_never_taken_for_a_list_with_one_a_line(
    shell: Shell, tmp_path: Path, lines: list[str], message: str
) -> None:
    # Together the bare integers would be a list of token indices, or a permutation, for every text.
    status, entries = fill_lines(shell, tmp_path, *lines)
    assert status == 2
    assert [entry["index"] for entry in entries] == [0, 1]
    assert all(message in entry["error"] for entry in entries)


def test_one_line_that_asks_for_the_impossible_costs_no_other_its_result(shell: Shell, tmp_path: Path) -> None:
    bad = {
        "[" * 100_000: "not JSON",
        '{"text": "a", "length": ' + "[" * 500 + "]" * 500 + "}": "every length must be an integer",
        '{"text": "ab", "mask_positions": [[0, 1]], "length": 1000000000}': "takes 96",
        '{"text": "<mask>", "length": 100000000000000000000}': "takes 96",
        '{"text": "<mask>", "temperature": 1' + "0" * 400 + "}": "temperature must be a finite number",
        '{"text": "<mask>", "forbidden": "a", "length": 2, "seed": 1e400}': "seed must be an integer",
        "": "line 8 is empty",
    }
    good = '"a <mask>"'
    status, entries = fill_lines(shell, tmp_path, good, *bad, good)
    assert status == 2
    assert [entry["index"] for entry in entries] == list(range(9))
    assert entries[0]["text"] == entries[-1]["text"]
    for entry, message in zip(entries[1:-1], bad.values(), strict=True):
        assert message in entry["error"]


@pytest.mark.parametrize("error", [OverflowError("too large"), MemoryError(), RecursionError("too deep")])
def test_what_python_raises_for_one_line_is_that_lines_error(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    decode = anyorder.sample._decode_batch

    def decode_or_fail(jobs: Any, requests: Any, *rest: Any) -> Any:
        if any("bad" in request.text for request in requests):
            raise error
        return decode(jobs, requests, *rest)

    monkeypatch.setattr("anyorder.sample._decode_batch", decode_or_fail)
    status, entries = fill_lines(shell, tmp_path, '"good <mask>"', '"bad <mask>"', '"good <mask>"')
    assert status == 2
    assert [type(error).__name__ in entry.get("error", "") for entry in entries] == [False, True, False]


def test_a_file_of_nothing_has_no_lines_and_an_empty_line_is_one(shell: Shell, tmp_path: Path) -> None:
    assert fill_lines(shell, tmp_path) == (0, [])
    (tmp_path / "results.jsonl").unlink()
    status, entries = fill_lines(shell, tmp_path, "")
    assert (status, len(entries)) == (2, 1)
    assert "line 1 is empty" in entries[0]["error"]


def test_jsonl_reads_standard_input_and_writes_standard_output(shell: Shell, tmp_path: Path) -> None:
    lines = ['"a <mask:2>"', '"b <mask>"']
    _, expected = fill_lines(shell, tmp_path, *lines)
    for out in ("-", "/dev/stdout"):
        content = "\n".join(lines).encode()
        status, printed, _ = shell("infill", "--jsonl", "-", "--out", out, "--seed", "0", stdin=content)
        entries = [json.loads(line) for line in printed.splitlines()]
        assert status == 0
        assert [entry["text"] for entry in entries] == [entry["text"] for entry in expected]
    assert not Path("-").exists()


@pytest.mark.parametrize(
    ("changed", "line"),
    [(["--temperature", "0.5"], 0), (["--no-marker"], 0), (["--codec", "anyorder-sentencepiece"], 0), ([], 2)],
)
def test_resume_refuses_what_was_filled_in_another_way(
    shell: Shell, tmp_path: Path, changed: list[str], line: int
) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    lines = ['"a <mask>"', '"b <mask>"', '"c <mask>"']
    source.write_text("\n".join(lines))
    command = ["infill", "--jsonl", str(source), "--out", str(out), "--seed", "0"]
    assert shell(*command)[0] == 0
    before = out.read_bytes()
    assert shell(*command, "--resume", "--batch-size", "2", "--device", "cpu")[0] == 0
    if not changed:
        source.write_text("\n".join([*lines[:2], '"d <mask>"']))
    status, _, err = shell(*command, *changed, "--resume")
    assert status == 2
    assert f"answers line {line + 1} for another text, other options or another model" in err
    assert out.read_bytes() == before


def test_json_has_null_where_a_number_is_not_finite(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert json.loads(to_json({"a": [math.nan, (1.5, -math.inf)], "b": 2})) == {"a": [None, [1.5, None]], "b": 2}
    monkeypatch.setattr(anyorder, "token_log_probs", lambda *_, **__: [-1.0, -math.inf])
    entry = json.loads(shell("score", "ab", "--span", "0:1", "--json")[1], parse_constant=pytest.fail)
    assert entry == {"log_prob": None, "token_log_probs": [-1.0, None]}
    monkeypatch.setattr(anyorder, "rank", lambda *_, **__: [("x", -math.inf)])
    printed = shell("score", "ab", "--span", "0:1", "--json", "--candidate", "x")[1]
    assert json.loads(printed, parse_constant=pytest.fail) == {"text": "x", "log_prob": None}


def test_a_killed_process_loses_and_repeats_no_text(tiny_checkpoint: Path, tmp_path: Path) -> None:
    source, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    source.write_text("".join(f'"text {number} <mask:8>"\n' for number in range(60)))
    command = [sys.executable, "-m", "anyorder", "infill", "--model", str(tiny_checkpoint)]
    command += ["--jsonl", str(source), "--out", str(out), "--seed", "0", "--batch-size", "2", "--resume"]
    environment = {**os.environ, "PYTHONPATH": str(Path(anyorder.__file__).parent.parent)}
    with subprocess.Popen(command, env=environment, stderr=subprocess.DEVNULL) as process:
        until = time.monotonic() + 60
        while time.monotonic() < until and not (out.exists() and out.read_bytes().count(b"\n") >= 3):
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
    killed_at = out.read_bytes().count(b"\n")
    assert 3 <= killed_at < 60
    assert subprocess.run(command, env=environment, stderr=subprocess.DEVNULL, check=False).returncode == 0
    entries = read_out(out)
    assert [entry["index"] for entry in entries] == list(range(60))
    assert all(entry["text"].startswith(f"text {entry['index']} ") for entry in entries)


def test_help_answers_without_torch() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(anyorder.__file__).parent.parent)}
    code = (
        "import sys; from anyorder.cli import main\n"
        "try: main(['infill', '--help'])\n"
        "except SystemExit: print('torch' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert shown.stdout.startswith("usage: anyorder infill")
    assert shown.stdout.endswith("False\n")
