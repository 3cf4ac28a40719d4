"""The judge that asks a model; readers (``judges.readers``) say how it asks and reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from refusal_checks.core import special_tokens
from refusal_checks.core.errors import EndpointError
from refusal_checks.core.judgements import Invalid, Judgement, Reason
from refusal_checks.core.language import other_language
from refusal_checks.core.prompts import Prompt
from refusal_checks.core.records import Completion
from refusal_checks.core.text import join_words, replace_surrogates
from refusal_checks.io.store import content_key
from refusal_checks.judges.judge import Judge, JudgeSetup
from refusal_checks.judges.prompt_metadata import Criterion, Meaning
from refusal_checks.judges.template import UnrenderedError, count_omitted
from refusal_checks.models.client.label_probabilities import LabelError
from refusal_checks.models.client.server_errors import PromptTooLongError

Ask = Callable[[Prompt, str], Awaitable[Judgement]]
"""Asks a model about an answer to a prompt, and reads its reply."""


class Statement(NamedTuple):
    """What a reply says.

    Attributes:
        meaning: of the label or group of what is measured; of probabilities, what is expected.
        rationale: the reply in words.
        category: empty if the reply names none.
        probability: how probable a refusal is, if the reply tells.
        outside: probability outside the labels, in [0, 1].
    """

    meaning: Meaning
    rationale: str = ""
    category: str = ""
    probability: float | None = None
    outside: float = 0.0


@dataclass(frozen=True)
class Form:
    """The form of verdict that a prompt of this project asks for.

    Attributes:
        parse: reads it.
        schemas: JSON schemas, tried in order until the server takes one. The last is the form's
            own; those before it also forbid what the parser refuses, and spare a second attempt.
        version: part of the judge's identity; raise it when ``parse`` changes.
    """

    parse: Callable[[str], Judgement]
    schemas: tuple[Mapping[str, Any], ...]
    version: int


@dataclass(frozen=True)
class Reading:
    """How a way of judging turns models' replies into judgements.

    Attributes:
        prompt: name of its own prompt, which also tells what it measures.
        make_judgement: makes a judgement of what a reply says.
        form: the form that its own prompt asks for; None if that asks for probabilities.
    """

    prompt: str
    make_judgement: Callable[[Statement], Judgement]
    form: Form | None = None


@dataclass(eq=False)
class ModelJudge(Judge):
    """A judge that asks the model of ``--judge``.

    Args:
        key: what verdicts depend on besides the model and its instructions.
        limit: most characters of an answer that the model is shown; None for all.
        rules: gives a verdict without the model, or None to ask it.
        settle: what a verdict is worth for this exchange; applied before it is stored.
    """

    setup: JudgeSetup
    ask: Ask
    key: tuple[object, ...]
    prompt_hash: str
    criterion: Criterion = "refusal"
    languages: tuple[str, ...] = ()
    limit: int | None = None
    samples: int = 1
    max_tokens: int = 0
    expected: str = ""
    gives_probabilities: bool = False
    rules: Callable[[Prompt, Completion], Judgement | None] | None = None
    settle: Callable[[Prompt, Completion, Judgement], Judgement] | None = None

    def __post_init__(self) -> None:
        self.name = self.setup.name
        self.model_identity = self.setup.model_identity
        self.is_attached = self.setup.is_attached
        self.identity = content_key(self.model_identity, self.prompt_hash, *self.key)

    def judge_offline(self, prompt: Prompt, completion: Completion) -> Judgement | None:
        """Apply the rules; Invalid for a language in which the judge was not measured."""
        if self.rules:
            return self.rules(prompt, completion)
        if not self.languages:
            return None
        other = other_language(completion.text, self.languages)
        if not other:
            return None
        return Invalid(
            Reason.OTHER_LANGUAGE,
            f"perhaps {other}; measured on {join_words(self.languages)}",
        )

    async def judge(self, prompt: Prompt, completion: Completion) -> Judgement:
        # Counted before asking, so that a failed request counts as asked for.
        self.setup.client.usage.verdicts += self.samples
        try:
            verdict = await self.ask(prompt, completion.text)
        except EndpointError as fault:
            return handle_failure(fault)
        except UnrenderedError as fault:
            # The answer made the template fail; the rest of the run can go on.
            return Invalid(Reason.JUDGE_ERROR, replace_surrogates(str(fault)[:500]))
        if self.settle:
            verdict = self.settle(prompt, completion, verdict)
        # Told with the verdict: a judge that saw broken tokens saw another text than the user.
        escaped = special_tokens.count(prompt.transcript, completion.text)
        cut = count_omitted(completion.text, self.limit)
        if isinstance(verdict, Invalid) or not (cut or escaped):
            return verdict
        return replace(verdict, cut=cut, escaped=escaped)


def handle_failure(fault: EndpointError, where: str = "") -> Invalid:
    """Return the verdict after a failed request; raise a fault that affects every answer.

    ``where`` describes an exchange that is too long.
    """
    # No answer of this judge can be read: going on would ask for thousands of them in vain.
    if isinstance(fault, LabelError):
        raise fault
    if isinstance(fault, PromptTooLongError):
        return Invalid(Reason.JUDGE_INPUT_TOO_LONG, f"{fault}{where}")
    return Invalid(Reason.JUDGE_ERROR, str(fault))


def prepare_text(text: str) -> str:
    """Break up special tokens in a text for a model that reads no instructions."""
    return replace_surrogates(special_tokens.break_up(text)).strip()


def describe_probability(probability: float) -> str:
    """Write a probability of a refusal, without rounding it to 0 or 1."""
    if probability > 0.995:
        shown = "above 0.99"
    elif probability < 0.005:
        shown = "below 0.01"
    else:
        shown = f"{probability:.2f}"
    return f"refused with probability {shown}"
