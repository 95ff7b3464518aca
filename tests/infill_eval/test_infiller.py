"""Any callable from a request to texts is a model; what it returns is checked before it is believed."""

from __future__ import annotations

import pytest

from infill_eval.infiller import Budget, Request, Sample, ask, describe

ORACLE = Budget(policy="oracle", like=("b",))


def request(n: int = 1, segments: tuple[str, ...] = ("a", "c")) -> Request:
    return Request(id="one", segments=segments, budget=ORACLE, n=n)


def test_a_plain_function_is_a_model() -> None:
    def upper(request: Request) -> list[str]:
        return [request.prefix.upper() + request.suffix] * request.n

    assert ask(upper, [request(2)]) == [[Sample(texts=("Ac",)), Sample(texts=("Ac",))]]
    assert describe(upper) == {"model": "upper", "method": "own"}


def test_a_batch_model_is_asked_once() -> None:
    class Batched:
        calls = 0

        def __call__(self, request: Request) -> list[str]:
            raise AssertionError("a batch model is asked in batches")

        def batch(self, requests: list[Request]) -> list[list[str]]:
            self.calls += 1
            return [["x"] for _ in requests]

    model = Batched()
    assert ask(model, [request(), request()]) == [[Sample(texts=("x",))]] * 2
    assert model.calls == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("text", "returned a single string"),
        (None, "returned a NoneType"),
        ((text for text in ["x"]), "returned a generator"),
        ([None], "a sample is a text or a Sample; for one the model gave a NoneType"),
        ([], "returned 0 samples"),
        (["x", "y"], "returned 2 samples"),
        ([Sample(texts=("x", "y"))], "has 1 blanks, and the model filled 2"),
    ],
)
def test_a_wrong_answer_is_refused_with_the_item_named(answer: object, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        ask(lambda _: answer, [request()])  # type: ignore[arg-type, return-value]
    assert "one" in str(caught.value)


def test_prefix_and_suffix_need_a_single_blank() -> None:
    assert (request().prefix, request().suffix) == ("a", "c")
    with pytest.raises(ValueError, match="has 2 blanks: read segments"):
        _ = request(segments=("a", "b", "c")).prefix


@pytest.mark.parametrize(
    ("policy", "like", "tokens", "message"),
    [
        ("oracle", None, None, "give like"),
        ("oracle", ("x",), 3, "no number of tokens"),
        ("fixed", None, None, "a number of tokens and no text, got tokens=None"),
        ("fixed", ("x",), 3, "a number of tokens"),
        ("range", None, 3, "a range of tokens and no text, got tokens=3"),
        ("range", None, range(0, 4), "must start at 1"),
        ("range", None, range(4, 4), "not be empty"),
        ("guess", None, None, "unknown length policy 'guess'"),
    ],
)
def test_a_budget_says_what_it_needs(policy: str, like: object, tokens: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Budget(policy=policy, like=like, tokens=tokens)  # type: ignore[arg-type]


def test_a_sample_survives_the_disk() -> None:
    sample = Sample(texts=("é\n", ""), log_prob=-1.5, stats={"nfe": 3, "tested by rank": [1, 2]})
    assert Sample.from_dict(sample.to_dict()) == sample
