"""The trace as text: every drafted token appears once, under what became of it."""

from __future__ import annotations

import dataclasses

import anyorder
from anyorder.decoding import RoundRecord
from anyorder.model.loaded import Model
from anyorder.trace import render, spell, summary


def traced(model: Model, *records: RoundRecord) -> anyorder.InfillResult:
    return dataclasses.replace(anyorder.infill("<mask>", model=model, seed=0), trace=list(records))


def record(model: Model, drafted: str, **fields: object) -> RoundRecord:
    ids = tuple(token for character in drafted for token in model.codec.encode(character))
    return RoundRecord(step=0, drafted=ids, **fields)  # type: ignore[arg-type]


def test_a_rejected_draft_is_corrected_and_those_after_it_are_dropped(tiny: Model) -> None:
    (final,) = tiny.codec.encode("e")
    made = record(tiny, "abcdf", num_exact=1, num_kept=2, final=final, kind="correction")
    assert render(traced(tiny, made), tiny.codec).splitlines()[1] == (
        "    1  exact 'a'  kept 'b'  rejected 'c'  dropped 'd' 'f'  correction 'e'"
    )


def test_a_round_that_keeps_all_ends_with_a_bonus_or_with_nothing(tiny: Model) -> None:
    (final,) = tiny.codec.encode("e")
    bonus = record(tiny, "ab", num_exact=0, num_kept=2, final=final, kind="bonus")
    last = record(tiny, "ab", num_exact=0, num_kept=2, final=None, kind=None)
    alone = record(tiny, "", num_exact=0, num_kept=0, final=final, kind="sampled")
    lines = render(traced(tiny, bonus, last, alone), tiny.codec).splitlines()
    assert lines[1:4] == ["    1  kept 'a' 'b'  bonus 'e'", "    2  kept 'a' 'b'", "    3  sampled 'e'"]


def test_colours_wrap_the_words_and_change_none(tiny: Model) -> None:
    made = traced(tiny, record(tiny, "ab", num_exact=1, num_kept=1, final=None, kind=None))
    coloured = render(made, tiny.codec, colour=True)
    assert "\x1b[32mexact 'a'\x1b[0m  \x1b[31mrejected 'b'\x1b[0m" in coloured
    assert "\x1b" not in render(made, tiny.codec)


def test_a_token_is_spelled_as_its_text_and_a_piece_of_a_character_as_its_bytes(tiny: Model) -> None:
    assert [spell(token, tiny.codec) for token in tiny.codec.encode("\n")] == ["'\\n'"]
    spelled = [spell(token, tiny.codec) for token in tiny.codec.encode("\u20ac")]
    assert spelled == ["b'\\xe2'", "b'\\x82'", "b'\\xac'"]


def test_the_summary_counts_tokens_passes_and_kept_drafts(tiny: Model) -> None:
    result = anyorder.infill("<mask:6>", model=tiny, draft_length=2, seed=1)
    stats = result.stats
    line = summary(result)
    assert line.startswith(f"6 tokens in {stats.nfe} passes ({6 / stats.nfe:.2f} a pass), {stats.num_accepted} of")
    assert "lossy" not in line
    assert "lossy" in summary(anyorder.infill("<mask:6>", model=tiny, method="parallel", seed=1))
    assert summary(anyorder.infill("none", model=tiny)).startswith("0 tokens in 0 passes, ")
