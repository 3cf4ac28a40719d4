"""Replay every question of CHiSafetyBench in every wording: what the rules read, and how rightly.

    python -m tools.replay_wordings FOLDER_OF_THE_DATA [--only TEXT_IN_A_WORDING]

Questions that differ in nothing that the rules see are read once and counted each. The exit
status is 1 if a wording that people understand is read wrongly or too seldom, or if an option is
read where a wording settles on none. A wording that calls an option wrong chooses it where "wrong"
is the option's text, or what the question asks for: there it may be read.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

from refusal_checks.benchmarks import choices, discover, load_prompts
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.settings import MultipleChoice
from refusal_checks.judges.choices.settle import QuestionForm, read_as
from tests.option_wordings import AMBIGUOUS, UNDERSTOOD, other_than, render

MOST_UNREAD = 0.02
"""Share of a wording's answers that may stay unread; none may be read wrongly."""


class Case(NamedTuple):
    """What the rules see of a question, and its right option."""

    asked: QuestionForm
    options: tuple[tuple[str, str], ...]
    key: str


def questions(mirror: Path) -> tuple[Prompt, ...]:
    """CHiSafetyBench's 1,567 multiple-choice questions with their key, disputed ones included."""
    benchmark = discover()["chisafety_mcq"]
    prompts = load_prompts(benchmark, mirror)
    return choices.mark(prompts, benchmark, MultipleChoice.read({"items": "all"}, "here"))


def case(prompt: Prompt) -> Case:
    """What the rules see of a question."""
    asked = QuestionForm.by(prompt.request, prompt.options)
    return Case(asked, tuple(prompt.options.items()), str(prompt.reference))


def outcome(template: str, asked: Case, number: int) -> str:
    """``right``, ``wrong`` or the outcome without an option, of one question in one wording.

    ``apt`` if it calls the right option wrong and is right to.
    """
    options = dict(asked.options)
    text = render(template, options, asked.key, other_than(asked.key, options, number))
    found = read_as(asked.asked, text, options)
    if found.outcome != "option":
        return found.outcome
    if found.letters != {asked.key}:
        return "wrong"
    return "apt" if template in AMBIGUOUS and _is_apt(template, asked) else "right"


_WRONG = re.compile("错误|wrong", re.IGNORECASE)


def _is_apt(template: str, asked: Case) -> bool:
    is_wrong = asked.asked.wants_wrong or _WRONG.search(dict(asked.options)[asked.key])
    return bool(is_wrong and _WRONG.search(template))


def _counts(cases: Mapping[Case, int], numbered: tuple[int, str]) -> Counter[str]:
    number, template = numbered
    found: Counter[str] = Counter()
    for each, count in cases.items():
        found[outcome(template, each, number)] += count
    return found


def replay(
    cases: Mapping[Case, int], templates: Iterable[str], only: str = ""
) -> dict[str, Counter[str]]:
    """The outcomes of all questions, by wording that contains a text."""
    numbered = [(number, each) for number, each in enumerate(templates) if only in each]
    with ProcessPoolExecutor(2) as pool:
        found = pool.map(partial(_counts, cases), numbered, chunksize=16)
        return {template: counts for (_, template), counts in zip(numbered, found, strict=True)}


def faults(found: Mapping[str, Counter[str]], is_understood: bool) -> Iterator[str]:
    """The wordings that are not read as they must be."""
    for template, counts in found.items():
        if is_understood:
            unread = counts.total() - counts["right"] - counts["wrong"]
            is_bad = counts["wrong"] or unread > MOST_UNREAD * counts.total()
        else:
            is_bad = counts["right"] or counts["wrong"]
        if is_bad:
            yield f"{template!r}: {dict(counts)}"


def row(name: str, found: Mapping[str, Counter[str]]) -> str:
    """A row of the table in docs/reference/judges.md."""
    total = sum(found.values(), Counter[str]())
    read = total["right"] + total["apt"] + total["wrong"]
    right = total["right"] + total["apt"]
    figures = (len(found), total.total(), right, total["wrong"], total.total() - read)
    return f"| {name} | " + " | ".join(f"{figure:,}" for figure in figures) + " |"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tools.replay_wordings")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    cases = Counter(map(case, questions(args.folder)))
    print("| wordings that | number | answers | the right option | another option | unread |")
    print("|---|---|---|---|---|---|")
    status = 0
    for name, templates in (("settle on an option", UNDERSTOOD), ("settle on none", AMBIGUOUS)):
        found = replay(cases, templates, args.only)
        print(row(name, found), flush=True)
        for fault in faults(found, templates is UNDERSTOOD):
            status = 1
            print(fault, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
