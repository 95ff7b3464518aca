"""One command compares any-subset and left-to-right models on the same tokens, and says where a method does not pay."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import anyorder
from anyorder import Model
from anyorder.adapters import causal, mars, orthrus
from anyorder.adapters.causal import CausalModel
from anyorder.adapters.causal.added import added
from anyorder.codec import train_vocabulary
from infill_eval import process_memory
from infill_eval.cli import main
from infill_eval.comparison import memory
from infill_eval.comparison.judging import AnySubsetJudge, causal_logits, compared, distinct, is_greedy, leading, nats
from infill_eval.comparison.measuring import Row, Took, measure
from infill_eval.comparison.models import Contestant, open_source, shared_codec, sources
from infill_eval.comparison.options import CompareOptions
from infill_eval.comparison.pictures import tokens_a_pass
from infill_eval.comparison.pieces import Piece, draw_pieces
from infill_eval.comparison.results import break_even, table
from infill_eval.comparison.tracing import counted, trace
from infill_eval.estimates import Estimate

pytest.importorskip("transformers")

TEXTS = [Path(__file__).read_text(encoding="utf-8"), (Path(__file__).parent / "test_speed.py").read_text("utf-8")]
QUICK = CompareOptions(pieces=3, context=16, tokens=8, batches=(1, 2), repeats=1, memory=False)
SIZES = ["--pieces", "3", "--context", "16", "--tokens", "8", "--batches", "1", "2", "--repeats", "1", "--no-memory"]
TINY: dict[str, Any] = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": 0,
}


def random_network(vocab_size: int, seed: int) -> CausalModel:
    """A tiny Qwen2 with weights far enough apart that its greedy text wanders."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    model, generator = Qwen2ForCausalLM(Qwen2Config(vocab_size=vocab_size, **TINY)), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.normal_(float("norm" in name), 0.3, generator=generator)
    return causal.wrap(model).eval()


def save_view(base: Path, anchor: orthrus.Anchor, directory: Path) -> None:
    view, generator = orthrus.attach(causal.load(base), block=4, anchor=anchor), torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, tensor in added(view).items():
            tensor.normal_(float("_norm" in name), 0.1, generator=generator)
    orthrus.save_view(view, directory, base=str(base))


@pytest.fixture(scope="session")
def models(tiny_checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A plain model, one for MARS and two views, with the vocabulary of the tiny any-subset model."""
    root = tmp_path_factory.mktemp("causal")
    vocab_size = anyorder.load(tiny_checkpoint).codec.vocab_size
    for name, seed, block in (("plain/best", 0, None), ("mars-4", 1, 4)):
        network = random_network(vocab_size, seed)
        network.block = block
        mars.save(network, root / name)
        shutil.copy(tiny_checkpoint / "tokenizer.model", root / name)
    for anchor in ("frozen", "trainable"):
        save_view(root / "plain" / "best", anchor, root / f"orthrus-{anchor}" / "best")
    return root


@pytest.fixture(scope="session")
def contestants(models: Path, tiny_checkpoint: Path) -> list[Contestant]:
    named = sources(
        model=str(tiny_checkpoint),
        causal=models / "plain",
        mars=[models / "mars-4"],
        orthrus=[models / "orthrus-frozen", models / "orthrus-trainable"],
    )
    return [open_source(source) for source in named]


@pytest.fixture(scope="session")
def pieces(contestants: list[Contestant]) -> list[Piece]:
    return draw_pieces(TEXTS, shared_codec(contestants), count=3, context=16, tokens=8, seed=0)


def arguments(models: Path, checkpoint: Path, out: Path, *extra: str) -> list[str]:
    views = [str(models / "orthrus-frozen"), str(models / "orthrus-trainable")]
    named = ["--model", str(checkpoint), "--causal", str(models / "plain"), "--mars", str(models / "mars-4")]
    return ["compare", *named, "--orthrus", *views, "--data", __file__, *SIZES, "--out", str(out), *extra]


METHODS = ["AR", "AS-ARM sequential", "AS-ARM assd", "AS-ARM one-pass", "mars-4 tau=1", "mars-4 tau=0.95"]
METHODS += ["mars-4 verify", "orthrus-frozen one-pass", "orthrus-frozen two-pass", "orthrus-trainable two-pass"]


def test_one_command_writes_both_tables_and_both_pictures(
    models: Path, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    assert main(arguments(models, tiny_checkpoint, tmp_path)) == 0
    record = json.loads((tmp_path / "compare.json").read_text())
    completion, infilling = record["rows"].values()
    assert [row["method"] for row in completion] == METHODS
    assert [row["method"] for row in infilling] == METHODS[1:4]
    assert [row["method"] for row in completion if not row["is_lossless"]] == ["mars-4 tau=0.95"]
    for row in (*completion, *infilling):
        assert sum(row["verdicts"].values()) == 3
        assert row["verdicts"]["other"] == 0 or not row["is_lossless"]
        assert set(row["took"]) == {"1", "2"}
        assert len(row["costs"]) == 8
    assert completion[0]["took"]["2"]["ratio"] == completion[0]["took"]["2"]["pass_cost"] == 1.0
    # What stood there is worth one thing under one model, whoever decodes with it.
    assert len({(row["model"], row["truth_nats"]) for row in completion}) == 5
    assert [path.read_bytes()[:4] for path in sorted(tmp_path.glob("*.png"))] == [b"\x89PNG"] * 2
    shown = capsys.readouterr().out
    assert (tmp_path / "report.md").read_text().count("### ") == 3
    assert "T(R) / T(1) of a left-to-right pass at batch 1: 1 rows 1.00" in shown
    assert "lossless, yet" not in shown


def test_every_model_is_given_the_same_tokens(contestants: list[Contestant], pieces: list[Piece], tiny: Model) -> None:
    assert len({piece.text for piece in pieces}) == 3
    for piece in pieces:
        assert (len(piece.truth), len(piece.right)) == (8, 16)
        assert 8 <= len(piece.left) <= 16
        assert tuple(tiny.codec.encode(piece.texts[0])) == piece.left
        for given in (piece, piece.unfinished()):
            result = anyorder.infill(given.text, [given.blank], model=tiny, seed=0, marker=None)
            outside = [token for token, blank in zip(result.passage.tokens, result.passage.blank) if blank < 0]  # noqa: B905
            assert tuple(outside) == given.left + given.right
            assert len(result.spans[0].token_ids) == len(piece.truth)
    assert pieces[0].unfinished().right == ()


def test_a_blank_that_would_own_a_space_or_part_a_token_is_no_piece(tiny: Model) -> None:
    for piece in draw_pieces(TEXTS, tiny.codec, count=20, context=12, tokens=4, seed=3):
        assert not piece.texts[0].endswith(" ")
        assert tiny.codec.encode("".join(piece.texts[:2])) == [*piece.left, *piece.truth]


def test_texts_too_short_for_the_pieces_are_refused(tiny: Model) -> None:
    with pytest.raises(ValueError, match=r"3 pieces of 16 \+ 8 \+ 16 tokens are wanted, and the 1 texts gave 0"):
        draw_pieces(["short\n" * 4], tiny.codec, count=3, context=16, tokens=8, seed=0)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_the_passes_of_a_text_are_shared_out_among_its_tokens(
    contestants: list[Contestant], pieces: list[Piece], temperature: float
) -> None:
    seen = set()
    for one in contestants:
        for method in one.methods:
            if temperature and not method.can_sample:
                continue
            for piece in pieces:
                given = piece if method.can_infill else piece.unfinished()
                written, costs = trace(method, given, temperature=temperature)
                assert len(written.tokens) == len(costs) == len(piece.truth)
                assert sum(costs) == pytest.approx(written.passes)
                seen.add(method.name)
                batched = method.write([given] * 2, temperature=temperature)
                assert [each.tokens for each in batched] == [written.tokens] * 2
    assert seen == {name for name in METHODS if not temperature or name != "mars-4 tau=0.95"}


def test_counting_passes_leaves_a_network_as_it_was(contestants: list[Contestant], pieces: list[Piece]) -> None:
    for one in contestants:
        network, name = one.reference.passes_of()
        with counted(network, name) as passes:
            one.reference.write([pieces[0].unfinished()], temperature=0.0)
        assert passes[0] == 8
        assert name not in vars(network)


def test_a_judge_says_what_the_library_says(tiny: Model, pieces: list[Piece]) -> None:
    for piece in (pieces[0], pieces[0].unfinished()):
        logits = AnySubsetJudge(tiny).logits(piece, piece.truth)
        wanted = anyorder.log_prob(piece.text, [piece.blank], model=tiny, order="ascending")
        assert nats(logits, piece.truth) == pytest.approx(-wanted, abs=1e-3)


def test_a_left_to_right_judge_says_what_transformers_says(contestants: list[Contestant], models: Path) -> None:
    from transformers import AutoModelForCausalLM

    reference = AutoModelForCausalLM.from_pretrained(models / "plain" / "best")
    text = torch.tensor([5, 9, 300, 41, 7, 8])
    with torch.no_grad():
        wanted = torch.nn.functional.cross_entropy(reference(text[None]).logits[0, 1:-1], text[2:], reduction="sum")
    network = contestants[0].reference.passes_of()[0]
    assert nats(causal_logits(network, text[:2], text[2:].tolist()), text[2:].tolist()) == pytest.approx(
        float(wanted), abs=1e-3
    )


def test_texts_that_part_at_a_tie_are_told_from_those_that_do_not() -> None:
    flat, steep = torch.zeros(3, 5), torch.eye(5)[:3]
    assert compared(lambda _: steep, [0, 1, 2], [0, 1, 2]) == "equal"
    assert compared(lambda _: flat, [0, 1, 2], [0, 3, 2]) == "tie"
    # The two likeliest are tied, and a text that wrote a third token did not part at rounding.
    assert compared(lambda _: flat - torch.eye(5)[3], [0, 3, 2], [0, 1, 2]) == "other"
    assert compared(lambda _: flat, [0, 1], [0, 1, 2]) == "other"
    assert compared(lambda _: steep, [0, 1, 2], [0, 3, 2]) == "other"
    assert [is_greedy(steep, text) for text in ([0, 1, 2], [0, 1, 3])] == ["equal", "other"]
    assert is_greedy(steep - 0.99995 * torch.eye(5)[1:2], [0, 4, 2]) == "tie"


def test_what_a_text_is_worth_to_a_reader() -> None:
    assert [leading([1, 2, 3], other) for other in ([1, 2, 3], [1, 9, 3], [9, 2, 3], [1, 2])] == [3, 1, 0, 2]
    assert distinct([[1, 2, 3, 4], [1, 2, 3, 4]]) == 1.0
    assert distinct([[1, 1, 1, 1, 1]]) == pytest.approx(1 / 3)


def test_above_temperature_0_what_is_greedy_alone_is_left_out_and_references_stay_greedy(
    contestants: list[Contestant], pieces: list[Piece]
) -> None:
    rows = measure(contestants[:3], pieces, replace(QUICK, temperature=1.0, batches=(1,)))
    assert [row.method for row in rows] == [name for name in METHODS[:7] if name != "mars-4 tau=0.95"]
    assert all(row.verdicts["other"] == 0 for row in rows)
    greedy = measure(contestants[:1], pieces, QUICK)
    assert rows[0].nats > greedy[0].nats


def test_no_two_pieces_are_drawn_by_the_same_random_numbers(contestants: list[Contestant], pieces: list[Piece]) -> None:
    asked: list[Any] = []

    def recording(*arguments: Any, **options: Any) -> Any:
        if options["temperature"] > 0:
            asked.append(options["seed"])
        return mars.generate(*arguments, **options)

    method = replace(contestants[0].methods[0], generate=recording)
    alone = replace(contestants[0], methods=[method], reference=method)
    measure([alone], pieces, replace(QUICK, temperature=1.0, seed=5, batches=(2,)))
    assert asked == [[5, 6], [5, 6], [7], 5, 6, 7]


def test_a_method_that_writes_another_text_than_its_reference_is_found_out(
    contestants: list[Contestant], pieces: list[Piece], monkeypatch: pytest.MonkeyPatch
) -> None:
    lossy = next(one for one in contestants if one.source.kind == "mars")
    hasty = replace(lossy.methods[1], name="hasty", options={"tau": 0.0})
    rows = measure([replace(lossy, methods=[lossy.reference, hasty])], pieces, QUICK)
    assert rows[1].verdicts["other"] == 3
    assert rows[1].tokens_a_pass > 2
    assert rows[1].nats > rows[0].nats
    assert (rows[0].is_lossless, rows[1].is_lossless) == (True, False)
    claimed = table("task", [rows[0], replace(rows[1], is_lossless=True)], QUICK)
    assert "Declared lossless, yet with greedy texts of their own: hasty (3)." in claimed.notes
    assert not any("Declared lossless" in note for note in table("task", rows, QUICK).notes)


def test_completion_is_blind_to_what_stands_behind_the_blank_and_infilling_is_not(
    contestants: list[Contestant], pieces: list[Piece], tiny: Model
) -> None:
    one = contestants[1]
    alone = replace(one, methods=[one.reference])
    for infill in (False, True):
        given = pieces if infill else [piece.unfinished() for piece in pieces]
        wanted = anyorder.log_prob_batch([p.text for p in given], [[p.blank] for p in given], model=tiny)
        (row,) = measure([alone], pieces, replace(QUICK, batches=(2,)), infill=infill)
        assert row.truth_nats == pytest.approx(-sum(wanted) / 24, abs=1e-4)


def test_a_piece_longer_than_a_model_takes_is_refused(contestants: list[Contestant], pieces: list[Piece]) -> None:
    long = replace(pieces[0], left=pieces[0].left * 20)
    with pytest.raises(ValueError, match="AR takes 128 tokens, and a piece has"):
        measure(contestants, [long], QUICK)
    # What is too long for infilling is refused before completion is measured.
    behind = replace(pieces[0], right=pieces[0].right * 5)
    with pytest.raises(ValueError, match="AS-ARM takes 96 tokens, and a piece has"):
        measure(contestants, [behind], QUICK)


def a_row(name: str, took: Took, right: float = 1.0) -> Row:
    return Row(
        method=name,
        model="m",
        tokens_a_pass=1.5,
        rows_a_pass=4.0,
        costs=(1.0, 0.5, 0.5),
        nats=1.0,
        truth_nats=2.0,
        right=Estimate(mean=right, se=0.1, n=3),
        exact=0.0,
        verdicts={"equal": 2, "tie": 1, "other": 0},
        distinct=1.0,
        is_lossless=True,
        took={1: took},
        memory=memory.Memory(peak=2**28, decoding=2**20),
    )


def test_where_a_method_does_not_pay_the_table_says_so_with_its_numbers() -> None:
    baseline = a_row("AR", Took(0.01, 1.0, 1.0))
    rows = [baseline, a_row("slow", Took(0.02, 0.75, 1.5)), a_row("fast", Took(0.005, 2.0, 2.5))]
    assert rows[1].took[1].pass_cost == 2.0
    said = "slow does not pay here, against AR. batch 1: 1.50 times fewer passes, each of 2.00 times the cost (0.75 ×)."
    assert break_even(rows) == (said,)
    assert break_even([baseline]) == ("No method is slower than AR.",)
    shown = table("task", rows, replace(QUICK, batches=(1,)))
    assert [row[shown.header.index("pays at")] for row in shown.rows] == ["–", "none", "1"]
    assert shown.rows[1][shown.header.index("as reference")] == "2 + 1 ties of 3"
    assert shown.rows[1][-2:] == ("256", "1.0")


def test_tokens_a_pass_by_place_are_tokens_over_passes() -> None:
    assert tokens_a_pass([1.0, 0.5, 0.5]) == [(1.0, 1.0), (2.0, 2.0), (3.0, 2.0)]
    places = tokens_a_pass([1.0, 0.5] * 16)
    assert len(places) == 16
    assert places[0] == (1.5, pytest.approx(4 / 3))


@pytest.mark.skipif(not process_memory.STATUS.is_file(), reason="only Linux tells")
def test_memory_is_that_of_a_process_of_its_own(contestants: list[Contestant], pieces: list[Piece]) -> None:
    ballast = torch.ones(2**27)
    one = contestants[1]
    found = memory.measured(memory.Job(one.source, None, "AS-ARM one-pass", pieces[:2], 0.0))
    assert found is not None
    assert 2**26 < found.peak < process_memory.peak() - ballast.nbytes // 2
    assert found.decoding is None or 0 <= found.decoding < found.peak


def test_left_to_right_models_alone_need_no_any_subset_model(
    models: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["compare", "--no-model", "--data", __file__, *SIZES, "--out", str(tmp_path)]
    assert main(command) == 2
    assert "nothing to compare with: name a plain model with --causal" in capsys.readouterr().err
    command += ["--causal", str(models / "plain")]
    with pytest.raises(SystemExit):
        main([*command, "--model", "mini-code"])
    assert "--model: not allowed with argument --no-model" in capsys.readouterr().err
    assert main(command) == 0
    assert "AS-ARM sequential" not in capsys.readouterr().out
    assert list(json.loads((tmp_path / "compare.json").read_text())["rows"]) == ["left-to-right completion"]


def other_vocabulary(directory: Path) -> Path:
    directory.mkdir()
    train_vocabulary([TEXTS[0]] * 3, directory / "tokenizer.model", vocab_size=480)
    return directory / "tokenizer.model"


def test_models_of_another_vocabulary_are_refused(
    models: Path, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    differs = "AS-ARM has another vocabulary (500 tokens) than AR (480)"
    for name, tokenizer, message in (
        ("other", other_vocabulary(tmp_path / "vocabulary"), differs),
        ("none", None, "holds no tokenizer.model, so nobody can tell whether AR has the vocabulary"),
    ):
        changed = tmp_path / name
        shutil.copytree(models / "plain" / "best", changed)
        (changed / "tokenizer.model").unlink()
        if tokenizer is not None:
            shutil.copy(tokenizer, changed)
        command = ["compare", "--model", str(tiny_checkpoint), "--causal", str(changed), "--data", __file__, *SIZES]
        assert main([*command, "--out", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        (["--causal", "nowhere"], "--causal nowhere: no such directory"),
        (["--causal", "mars-4"], "is no plain left-to-right model; it is one for --mars"),
        (["--causal", "orthrus-frozen"], "is no plain left-to-right model; it is one for --orthrus"),
        (["--causal", "tiny"], "is no plain left-to-right model; it is one for --model"),
        (["--mars", "plain"], "was not written by mars.save; it is one for --causal"),
        (["--mars", "orthrus-frozen/best"], "was not written by mars.save; it is one for --orthrus"),
        (["--orthrus", "mars-4"], "was not written by orthrus.save_view; it is one for --mars"),
        (["--mars", "."], "--mars . was not written by mars.save\n"),
        (["--mars", "mars-4", "mars-4"], "would both be called 'mars-4'"),
        (["--causal", "plain", "--data", "no/*.py"], "--data no/*.py: no such file"),
        (["--batches", "4"], "a batch of 4 needs as many pieces, got --pieces 3"),
        (["--repeats", "0"], "must be at least 1"),
        (["--temperature", "-1"], "temperature must be a finite number of at least 0 (0 is greedy); got -1.0"),
        (["--causal", "nowhere", "--temperature", "nan"], "temperature must be a finite number"),
        (["--causal", "nowhere", "--draft-length", "-2"], "draft_length must be at least 0; got -2"),
    ],
)
def test_what_cannot_be_compared_is_named(
    extra: Sequence[str],
    message: str,
    models: Path,
    tiny_checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for path in (*models.iterdir(), tiny_checkpoint):
        (tmp_path / path.name).symlink_to(path)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--model", "tiny", "--data", __file__, *SIZES, "--out", "out", *extra]) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


DAMAGE = {
    "--causal": ("plain/best", "model.safetensors", "noise"),
    "--mars": ("mars-4", "mars.json", '{"block": 4}'),
    "--orthrus": ("orthrus-frozen/best", "view.json", '{"block": 4}'),
}


@pytest.mark.parametrize("option", DAMAGE)
def test_a_damaged_model_is_a_sentence(
    option: str, models: Path, tiny_checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, file, content = DAMAGE[option]
    place = shutil.copytree(models / name, tmp_path / "damaged")
    (place / file).write_text(content)
    command = ["compare", "--model", str(tiny_checkpoint), "--data", __file__, *SIZES, "--out", str(tmp_path / "out")]
    assert main([*command, option, str(place)]) == 2
    assert f"{option} {place} is no causal model that can be loaded: " in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_what_cannot_be_written_is_not_measured_first(
    models: Path, tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.delattr("infill_eval.comparison.command.measure")
    assert main(arguments(models, tiny_checkpoint, tmp_path / "file")) == 1
