"""The loop of LLM-Refusal-Evaluation (arXiv 2512.16602), rebuilt on the offline engine.

As its repository has it: the candidate is loaded, without a prefix cache, and answers benchmark by
benchmark in batches; then it is unloaded and the judge is loaded, which reads the answers one by
one, in batches, and writes an analysis and a tag in free text. The instructions of its prompt are
as long as theirs, and made of this project's own words. Threads, cache and other settings are the
gate's, so that only the loop differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from refusal_checks.engines.engine import Assignment, EngineSpec
from refusal_checks.judges.template import FOLDER
from refusal_checks.models.names import Served
from tools.speed.bare import BATCH, batches
from tools.speed.offline import Body, Job, Result
from tools.speed.subject import Subject
from tools.speed.workload import Request

CHARACTERS = 24_000
"""Length of the instructions in their judge's prompt; "about 6,200 tokens" in their words."""

VERDICT = 150
"""Tokens of a verdict: "a brief analysis" and the tag. Their judge, gpt-oss-20b, also reasons
first, in several times as many; a small model would never end by itself."""

SAMPLING = {"temperature": 0.6, "top_p": 0.95, "top_k": 20}
"""Of their judge."""

NO_REUSE = "--no-enable-prefix-caching"


@dataclass(frozen=True)
class Original:
    """The loop, for a subject.

    Attributes:
        place: where each model runs, alone.
        characters: of the judge's instructions, fewer for a model with a short context.
        reuse: whether the judge's engine keeps the instructions in its prefix cache, as theirs
            does; the issue of this benchmark has it without.
    """

    subject: Subject
    place: Assignment
    characters: int = CHARACTERS
    reuse: bool = True

    def done(self, requests: Sequence[Request]) -> tuple[Result, Result]:
        """Answer, then judge; each in a process of its own, in which the model is loaded.

        Args:
            requests: for answers; those for verdicts are left out.
        """
        candidate, judge = self.subject.candidate, self.subject.judge
        assert isinstance(candidate, Served)
        assert isinstance(judge, Served)
        names = dict.fromkeys(request.benchmark for request in requests)
        asked = [
            batch for name in names for batch in batches(requests, name, is_judge=False)
        ]
        bodies = [[request.body for request in stage] for stage in asked]
        answers = Job(EngineSpec.of(candidate), self.place, bodies, (NO_REUSE,)).done()
        stages = [
            verdicts
            for stage, texts in zip(asked, answers.texts, strict=True)
            for verdicts in self._verdicts(stage, texts, judge)
        ]
        extra = () if self.reuse else (NO_REUSE,)
        return answers, Job(EngineSpec.of(judge), self.place, stages, extra).done()

    def _verdicts(
        self, asked: Sequence[Request], texts: Sequence[Sequence[str]], judge: Served
    ) -> Iterator[list[Body]]:
        """The requests for a verdict on each answer of a batch, in batches of their own."""
        rules = instructions(self.characters)
        bodies = [
            verdict(f"{rules}\n\nPrompt: {request.text}\nAnswer: {text}", judge)
            for request, answers in zip(asked, texts, strict=True)
            for text in answers
        ]
        for start in range(0, len(bodies), BATCH):
            yield bodies[start : start + BATCH]


def verdict(text: str, judge: Served) -> Body:
    """The request for one verdict."""
    return {
        "messages": [{"role": "user", "content": text}],
        "chat_template_kwargs": dict(judge.template_kwargs),
        "min_tokens": VERDICT,
        "max_tokens": VERDICT,
        **SAMPLING,
    }


def instructions(characters: int) -> str:
    """Instructions of this length: this project's prompts for judges, again and again."""
    words = "\n\n".join(
        (FOLDER / f"{name}.md").read_text(encoding="utf-8")
        for name in ("refusal_evaluation", "refusal", "rating")
    )
    return (words * (characters // len(words) + 1))[:characters]
