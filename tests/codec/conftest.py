"""Tiny vocabularies, trained once a session, on text written here and on a module of the standard library."""

from __future__ import annotations

import argparse
import inspect
from pathlib import Path

import pytest
from xlnet_vocabulary import train_xlnet

from anyorder.codec import SentencePieceCodec, train_vocabulary

CODE = '''def area(width, height):
    """Return the area of a rectangle."""
    if width < 0 or height < 0:
        raise ValueError(f"sides must not be negative: {width}, {height}")
    return width * height


class Shape:
    sides = 4

    def describe(self, unit="cm"):
        for side in range(self.sides):
            print(side, "of", self.sides, unit)
        return {"sides": self.sides, "unit": unit}
'''
PROSE = """The happy cat sat on the mat, and the unhappy dog barked at the happier birds.
It was a bright cold day in April; the clocks were striking thirteen (nobody minded).
"Happiness," she said, "costs £3 or €4 – or nothing at all." The price fell again.
Words and letters: a b c d e f g h i j k l m n o p q r s t u v w x y z 0 1 2 3 4 5 6 7 8 9
A B C D E F G H I J K L M N O P Q R S T U V W X Y Z ! ? ; : / + = < > [ ] { } _ * & % $ # @ ~ ` ' \\ ^ |
"""


@pytest.fixture(scope="session")
def vocabulary_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("vocabulary") / "tokenizer.model"
    train_vocabulary([CODE, PROSE] * 3, path, vocab_size=640)
    return path


@pytest.fixture(scope="session")
def codec(vocabulary_file: Path) -> SentencePieceCodec:
    return SentencePieceCodec.from_file(vocabulary_file)


@pytest.fixture(scope="session")
def xlnet_model() -> bytes:
    return train_xlnet([*(CODE + PROSE).splitlines() * 5, *inspect.getsource(argparse).splitlines()], vocab_size=600)
