"""A ban is what a literal reading of the text says, for every split of a string into tokens."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anyorder.forbidden import Forbidden
from anyorder.order import Order
from anyorder.visibility import Rows

PIECES = [b"a", b"b", b"ab", b"ba", b"aab", b"", b"c"]
STRING = st.text("abc", min_size=1, max_size=4).map(str.encode)


@settings(max_examples=50)
@given(
    strings=st.lists(STRING, min_size=1, max_size=3),
    tokens=st.lists(st.integers(0, len(PIECES) - 1), min_size=5, max_size=7),
    blanks=st.lists(st.sampled_from([0, 0, 0, 1, -1]), min_size=7, max_size=7),
    seed=st.integers(0, 999),
    no_empty=st.booleans(),
)
def test_a_token_is_banned_iff_a_new_occurrence_would_cross_it(
    strings: list[bytes], tokens: list[int], blanks: list[int], seed: int, no_empty: bool
) -> None:
    width, generator = len(tokens), torch.Generator().manual_seed(seed)
    sigma = torch.randperm(width, generator=generator)[None]
    order = Order(sigma, torch.zeros(1, dtype=torch.long), torch.tensor([width]))
    steps = torch.arange(width)[None]
    visible = torch.stack([torch.randint(0, step + 1, (), generator=generator) for step in range(width)])[None]
    ids = [5] if no_empty else []
    tokens = [6 if no_empty and token == 5 else token for token in tokens]
    blank = torch.tensor([blanks[:width]])
    forbidden = Forbidden.of(len(PIECES), ids=ids, strings=strings, token_bytes=PIECES).within(blank)
    got = forbidden.mask(torch.zeros(1, width, len(PIECES)), torch.tensor([tokens]), order, Rows(steps, visible))[0]
    for step in range(width):
        position = int(sigma[0, step])
        seen = {int(sigma[0, s]): PIECES[tokens[s]] for s in range(int(visible[0, step]))}

        def side(direction: int, position: int = position, seen: dict[int, bytes] = seen) -> list[bytes]:
            run, place = [], position + direction
            while place in seen and blanks[place] == blanks[position] >= 0:
                run.append(seen[place])
                place += direction
            return run

        left, right = b"".join(reversed(side(-1))), b"".join(side(1))
        for token, piece in enumerate(PIECES):
            banned = token in ids or any(crosses(string, left, piece, right) for string in strings)
            assert (got[step, token] == -torch.inf) == banned, (left, piece, right)


def crosses(string: bytes, left: bytes, piece: bytes, right: bytes) -> bool:
    """Whether the string occurs in ``left + piece + right`` other than wholly inside one of the two sides."""
    text = left + piece + right
    starts = [at for at in range(len(text)) if text.startswith(string, at)]
    return any(at + len(string) > len(left) and at < len(left) + len(piece) for at in starts) or any(
        at < len(left) < at + len(string) for at in starts
    )


@pytest.mark.parametrize("string", [bytes(s) for n in (2, 3, 4) for s in itertools.product(b"ab", repeat=n)])
def test_a_ban_is_the_literal_reading_for_every_text_of_three_tokens(string: bytes) -> None:
    """Every token everywhere, all others seen: the string as long as the text and its seams in every place."""
    pieces = [b"a", b"b", b"ab", b"ba"]
    texts = list(itertools.product(range(4), repeat=3))
    order = Order(torch.tensor([[1, 2, 0], [0, 2, 1], [0, 1, 2]]), torch.zeros(3).long(), torch.full((3,), 3))
    order = order.select(torch.arange(3).repeat_interleave(len(texts)))
    tokens = torch.tensor(texts * 3).gather(1, order.sigma)
    last = torch.full((len(tokens), 1), 2)
    forbidden = Forbidden.of(4, strings=[string], token_bytes=pieces).within(torch.zeros_like(tokens))
    banned = forbidden.banned(tokens, order, Rows(last, last))[:, 0].tolist()
    for row, (place, text) in enumerate(itertools.product(range(3), texts)):
        left, right = (b"".join(pieces[token] for token in side) for side in (text[:place], text[place + 1 :]))
        assert banned[row] == [crosses(string, left, piece, right) for piece in pieces], (left, right)


def test_no_more_neighbours_are_read_than_a_partial_match_has_bytes() -> None:
    def window(token_bytes: list[bytes], *ids: int) -> int | None:
        return Forbidden.of(3, ids=ids, strings=[b"aba"], token_bytes=token_bytes).strings[0].window

    assert window([b"a", b"b", b"ab"]) == 2
    assert window([b"a", b"b", b""]) is None
    assert window([b"a", b"b", b""], 2) == 2, "what is never drawn never stands between two others"


def test_any_id_may_be_forbidden() -> None:
    assert Forbidden.of(3, ids=[0, 2]).ids.tolist() == [True, False, True]


def test_a_row_that_takes_no_part_asks_nothing_of_its_neighbours() -> None:
    """It stands at the step behind the last, which has no position."""
    order = Order(torch.arange(2)[None], torch.tensor([0]), torch.tensor([2]))
    forbidden = Forbidden.of(len(PIECES), strings=[b"ab"], token_bytes=PIECES, space_ids=[0])
    forbidden = forbidden.within(torch.zeros(1, 2).long(), torch.tensor([[True, False]]))
    tokens, alone, beside = torch.zeros(1, 2).long(), torch.tensor([[1]]), torch.tensor([[1, 2]])
    got = forbidden.banned(tokens, order, Rows(beside, torch.tensor([[1, 0]])))
    assert torch.equal(got[:, :1], forbidden.banned(tokens, order, Rows(alone, alone)))


def test_a_string_of_one_byte_is_a_matter_of_ids_alone() -> None:
    forbidden = Forbidden.of(len(PIECES), strings=[b"b"], token_bytes=PIECES)
    assert forbidden.strings == ()
    assert [PIECES[token] for token in forbidden.ids.nonzero()[:, 0].tolist()] == [b"b", b"ab", b"ba", b"aab"]


def test_a_token_that_contains_the_string_is_banned_by_its_id() -> None:
    forbidden = Forbidden.of(len(PIECES), strings=[b"ab"], token_bytes=PIECES)
    assert [PIECES[token] for token in forbidden.ids.nonzero()[:, 0].tolist()] == [b"ab", b"aab"]


def test_a_token_without_bytes_separates_nothing() -> None:
    blank, order = (
        torch.zeros(1, 4, dtype=torch.long),
        Order(torch.arange(4)[None], torch.tensor([0]), torch.tensor([4])),
    )
    tokens, rows = torch.tensor([[0, 2, 2, 0]]), Rows(torch.tensor([[3]]), torch.tensor([[3]]))
    forbidden = Forbidden.of(3, strings=[b"ab"], token_bytes=[b"a", b"b", b""]).within(blank)
    assert torch.isneginf(forbidden.mask(torch.zeros(1, 1, 3), tokens, order, rows)).tolist() == [
        [[False, True, False]]
    ]


def test_selected_rows_keep_their_blanks() -> None:
    blank = torch.tensor([[0, -1], [3, 3]])
    forbidden = Forbidden.of(len(PIECES), strings=[b"ab"], token_bytes=PIECES).within(blank)
    chosen = forbidden.select(torch.tensor([1]))
    assert torch.equal(chosen.blank, blank[1:])  # type: ignore[arg-type]


def test_bans_move_to_another_device_as_a_whole() -> None:
    forbidden = Forbidden.of(len(PIECES), ids=[5], strings=[b"ab", b"bca"], token_bytes=PIECES)
    forbidden = forbidden.within(torch.zeros(2, 3).long(), torch.ones(2, 3).bool())
    before, moved = leaves(forbidden), leaves(forbidden.to("meta"))
    assert before.keys() == moved.keys()
    for name, value in moved.items():
        if isinstance(value, torch.Tensor):
            assert value.device.type == "meta"
            assert (value.shape, value.dtype) == (before[name].shape, before[name].dtype)
        else:
            assert value == before[name]


def leaves(forbidden: Forbidden) -> dict[str, object]:
    """All that a ban is made of, by name."""
    strings = {f"{at}.{name}": value for at, each in enumerate(forbidden.strings) for name, value in vars(each).items()}
    return {name: value for name, value in vars(forbidden).items() if name != "strings"} | strings


@pytest.mark.parametrize(
    ("build", "says"),
    [
        (lambda: Forbidden.of(3, ids=[3]), r"forbidden ids must lie in range\(3\), the vocabulary; got 3"),
        (lambda: Forbidden.of(3, ids=[-1]), "got -1"),
        (lambda: Forbidden.of(3, strings=[b"x"]), r"need the bytes of all 3 tokens \(token_bytes\); got none"),
        (lambda: Forbidden.of(3, strings=[b"x"], token_bytes=[b"y"]), "all 3 tokens .* got 1"),
        (lambda: Forbidden.of(1, strings=[b""], token_bytes=[b"y"]), "must not be empty"),
    ],
)
def test_bad_bans_are_refused(build: object, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        build()  # type: ignore[operator]


def test_strings_need_to_know_the_blanks() -> None:
    forbidden = Forbidden.of(len(PIECES), strings=[b"ab"], token_bytes=PIECES)
    order = Order(torch.arange(2)[None], torch.tensor([0]), torch.tensor([2]))
    rows = Rows(torch.tensor([[0]]), torch.tensor([[0]]))
    with pytest.raises(ValueError, match=r"use forbidden\.within\(blank\)"):
        forbidden.mask(torch.zeros(1, 1, len(PIECES)), torch.zeros(1, 2, dtype=torch.long), order, rows)


@given(seed=st.integers(0, 999), width=st.integers(1, 6), spaces=st.sets(st.integers(0, 4)), batch=st.integers(1, 3))
def test_where_a_space_is_owned_only_tokens_that_begin_with_one_may_stand(
    seed: int, width: int, spaces: set[int], batch: int
) -> None:
    generator = torch.Generator().manual_seed(seed)
    sigma = torch.stack([torch.randperm(width, generator=generator) for _ in range(batch)])
    order = Order(sigma, torch.zeros(batch, dtype=torch.long), torch.full((batch,), width))
    spaced = torch.rand(batch, width, generator=generator) < 0.4
    forbidden = Forbidden.of(5, ids=[4], space_ids=spaces).within(torch.zeros(batch, width).long(), spaced)
    for rows in (torch.arange(batch), torch.tensor([batch - 1])):
        chosen = order.select(rows)
        steps = torch.arange(width).expand(len(rows), width)
        tokens = torch.zeros(len(rows), width, dtype=torch.long)
        got = forbidden.select(rows).mask(torch.zeros(len(rows), width, 5), tokens, chosen, Rows(steps, steps))
        for row, step, token in itertools.product(range(len(rows)), range(width), range(5)):
            needs_space = bool(spaced[rows[row], sigma[rows[row], step]])
            banned = token == 4 or (needs_space and token not in spaces)
            assert (float(got[row, step, token]) == -torch.inf) == banned
