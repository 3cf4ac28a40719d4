"""Answer keys: the package's own, a user's, and what is wrong with one."""

from pathlib import Path

import pytest

from refusal_checks.benchmarks import answer_key, discover, load_prompts
from refusal_checks.core.errors import DataError
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.settings import MultipleChoice
from tests.support.cases import cases_of
from tests.unit.conftest import Write

CASES = cases_of(__file__)

MCQ = discover()["chisafety_mcq"]


QUESTIONS = [
    Prompt(name, (Message("user", "?"),), options={"A": "是", "B": "否"})
    for name in "123"
]


def marked(path: Path, **settings: str) -> list[str | None]:
    known = MultipleChoice.read({"key": str(path), **settings}, "test")
    return [
        prompt.reference for prompt in answer_key.mark_answers(QUESTIONS, MCQ, known)
    ]


@pytest.mark.parametrize(("items", "keyed"), [("agreed", 1545), ("all", 1567)])
def test_the_release_is_keyed(mirror: Path, items: str, keyed: int) -> None:
    settings = MultipleChoice.read({"items": items}, "test")
    prompts = answer_key.mark_answers(load_prompts(MCQ, mirror), MCQ, settings)
    assert len(prompts) == 1567
    assert sum(prompt.reference in tuple("ABCD") for prompt in prompts) == keyed


def test_a_user_s_key_replaces_the_package_s_and_disputed_answers_count_on_request(
    write: Write,
) -> None:
    path = write("key.csv", "answer,agreed,id\na,1,1\nB,0,2\n")
    assert marked(path) == ["A", None, None]
    assert marked(path, items="all") == ["A", "B", None]


@pytest.mark.parametrize(("text", "words"), CASES["bad"])
def test_a_bad_key_is_named(write: Write, text: str, words: list[str]) -> None:
    path = write("mine.csv", text)
    with pytest.raises(DataError) as caught:
        marked(path)
    for word in ("mine.csv", *words):
        assert word in str(caught.value)


def test_a_key_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match=r"/no/such/key\.csv: no such file"):
        marked(Path("/no/such/key.csv"))
