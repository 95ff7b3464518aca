"""A corpus of three templates with random names and operators: what a very small model can learn in a minute.

Natural code is too much for a model of a million parameters: it drafts nothing worth keeping, and every comparison of
drafters comes out equal. Here most tokens follow from the template and a few (names, operators, numbers) do not, so
drafts can be right, and can be wrong. Ids are characters; id 0 ends a text.
"""

from __future__ import annotations

import random
import string

import torch
from torch import Tensor

END = 0
ALPHABET = "\0" + string.ascii_lowercase + string.digits + "+-*<>=:()[], \n"
VOCAB_SIZE = len(ALPHABET)

_NAMES = ("total", "index", "value", "count", "left", "right", "item", "size")
_VERBS = ("add", "find", "scale", "merge", "clip", "join")
_OPERATORS = ("+", "-", "*")


def draw_text(draw: random.Random) -> str:
    """One small function."""
    verb, (first, second) = draw.choice(_VERBS), draw.sample(_NAMES, 2)
    operator, number = draw.choice(_OPERATORS), draw.randrange(10)
    kind = draw.randrange(3)
    if kind == 0:
        return f"def {verb}({first}, {second}):\n    return {first} {operator} {second}\n"
    if kind == 1:
        return (
            f"def {verb}({first}):\n    {second} = {number}\n    for x in {first}:\n"
            f"        {second} = {second} {operator} x\n    return {second}\n"
        )
    return f"def {verb}({first}, {second}):\n    if {first} < {second}:\n        return {first}\n    return {second}\n"


def encode(text: str) -> list[int]:
    """Characters to ids."""
    return [ALPHABET.index(character) for character in text]


def decode(ids: list[int] | tuple[int, ...]) -> str:
    """Ids to characters."""
    return "".join(ALPHABET[token] for token in ids if token != END)


def draw_batch(draw: random.Random, count: int, length: int) -> tuple[Tensor, Tensor]:
    """Texts one after the other, cut at ``length``, and which tokens are responses: all but a prompt of 1 to 8.

    Returns:
        (B, L) int64 ids and (B, L) bool.
    """
    tokens = torch.zeros(count, length, dtype=torch.long)
    is_response = torch.zeros(count, length, dtype=torch.bool)
    for row in range(count):
        ids: list[int] = []
        while len(ids) < length:
            ids += [*encode(draw_text(draw)), END]
        tokens[row] = torch.tensor(ids[:length])
        is_response[row, draw.randint(1, 8) :] = True
    return tokens, is_response


def draw_prompts(seed: int, count: int) -> list[Tensor]:
    """The heads of functions: everything up to the first colon."""
    draw = random.Random(f"prompts {seed}")
    texts = [draw_text(draw) for _ in range(count)]
    return [torch.tensor(encode(text[: text.index(":") + 1])) for text in texts]
