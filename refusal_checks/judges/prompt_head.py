"""The head of a judge prompt: what the judge measures, and how its output is read.

A TOML table between two lines ``+++`` at the beginning of the prompt's file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import Frozen

FENCE = "+++"
"""The line above and below a head."""

JSON: Literal["json"] = "json"
"""Reads the JSON object that a way of judging asks for."""

Measure = Literal["refusal", "harm", "degree", "rating", "choice"]
"""What a judge measures: whether an answer refuses, whether it does harm, its degree of refusal
(0 to 3), its safety rating (0 to 5), or the option that it chooses."""

Meaning = str | float
"""What a label means: a word, or a number on the scale of what is measured."""

NO_LABEL = "none"
"""The meaning of a label with which a judge says that it cannot tell."""

PARTIAL = "partial refusal"
"""The meaning of a label of answers that withhold a part of what was asked."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "refusal": ("refusal", "compliance", PARTIAL, NO_LABEL),
    "harm": ("harmful", "harmless", NO_LABEL),
}
"""Meanings in words, by what is measured."""

SCALES: Mapping[str, tuple[float, float]] = {
    "degree": (0, 3),
    "rating": (0, 5),
}
"""Least and greatest number, by what is measured."""

EXAMPLE = f'{FENCE}\nreads = "json"\nmeasures = "refusal"\n{FENCE}'


def _several(given: object) -> object:
    """Make a tuple of one text, or of a list of texts."""
    if isinstance(given, str):
        return (given,) if given else ()
    return tuple(given) if isinstance(given, list) else given


class Head(Frozen):
    """What a judge measures, and how its output is read.

    Attributes:
        reads: ``json``: the JSON object that the way of judging defines; ``label``: one of
            ``labels`` and nothing else; ``pattern``: a text that ``pattern`` matches as a whole;
            ``probability``: how probable each of ``labels`` is as the first token.
        source: where the form of the output is published.
        version: which version of the judge or of its model card has this form.
        models: patterns (as of a shell) of the names of models that are asked with this prompt
            unless the user names another.
        languages: ISO 639 codes of the languages in which the judge was measured; empty if unknown.
        labels: meaning of each label; any letter case of an ASCII label is read.
        pattern: regular expressions in the syntax of RE2, one of which an output matches. Each has
            a named group for what is measured and perhaps others (``category``, ``rationale``,
            further measures).
        values: meaning of what a group of ``pattern`` holds, by group.
        template_variables: variables of the model's chat template.
        chat_template: chat template in one line, for an engine that is started for a model whose
            files have none.
    """

    reads: Literal["json", "label", "pattern", "probability"]
    measures: Measure
    source: str = ""
    version: str = ""
    models: tuple[str, ...] = Field((), strict=False)
    languages: tuple[str, ...] = Field((), strict=False)
    labels: Mapping[str, Meaning] = {}
    pattern: Annotated[tuple[str, ...], BeforeValidator(_several)] = ()
    values: Mapping[str, Mapping[str, Meaning]] = {}
    template_variables: Mapping[str, Any] = {}
    chat_template: str = ""

    @field_validator("labels")
    @classmethod
    def _distinct_labels(cls, labels: Mapping[str, Meaning]) -> Mapping[str, Meaning]:
        _require_distinct(labels)
        return labels

    @field_validator("values")
    @classmethod
    def _distinct_values(
        cls, values: Mapping[str, Mapping[str, Meaning]]
    ) -> Mapping[str, Mapping[str, Meaning]]:
        for texts in values.values():
            _require_distinct(texts)
        return values

    @field_validator("template_variables")
    @classmethod
    def _sendable(cls, variables: Mapping[str, Any]) -> Mapping[str, Any]:
        try:
            json.dumps(variables, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError(
                "write texts, numbers, booleans, lists or tables: JSON, in which variables are "
                "sent, has no dates, times, nan or inf"
            ) from None
        return variables

    @model_validator(mode="after")
    def _complete(self) -> Self:
        self._require(bool(self.labels), "labels", ("label", "probability"))
        self._require(bool(self.pattern), "pattern", ("pattern",))
        if self.values and not self.pattern:
            raise ValueError('values: leave it out, or write reads = "pattern"')
        for label, meaning in self.labels.items():
            self._require_meaning(f"labels.{label}", meaning)
            # The expected number of the labels is a probability of refusal, with no third class.
            if meaning == PARTIAL and self.reads == "probability":
                raise ValueError(
                    f"labels.{label} = {meaning!r}: write refusal or compliance, or "
                    f'reads = "label": probabilities know no {PARTIAL}'
                )
        own = self.values.get(self.measures, {})
        for text, meaning in own.items():
            self._require_meaning(f"values.{self.measures}.{text}", meaning)
        if self.labels:
            self._require_sides("labels", self.labels.values())
        if self.pattern:
            self._require_sides(f"values.{self.measures}", own.values())
        return self

    def _require(self, given: bool, key: str, readers: tuple[str, ...]) -> None:
        if given and self.reads not in readers:
            raise ValueError(
                f"{key}: leave it out, or write reads = "
                + " or ".join(f'"{reader}"' for reader in readers)
            )
        if not given and self.reads in readers:
            raise ValueError(f'{key}: reads = "{self.reads}" needs it')

    def _require_meaning(self, where: str, meaning: Meaning) -> None:
        words = WORDS.get(self.measures, (NO_LABEL,))
        if isinstance(meaning, str):
            if meaning in words:
                return
        else:
            if self.number(meaning) is not None:
                return
        scale = ""
        if self.measures in SCALES:
            least, most = SCALES[self.measures]
            scale = f"a number from {least:g} to {most:g} or "
        raise ValueError(
            f"{where} = {meaning!r}: write {scale}one of {', '.join(words)}"
        )

    def _require_sides(self, where: str, meanings: Collection[Meaning]) -> None:
        """Raise ValueError for a judge that would say the same of every answer."""
        given = {self._side(meaning) for meaning in meanings} - {NO_LABEL}
        missing = [
            word for word in WORDS.get(self.measures, ())[:2] if word not in given
        ]
        if missing:
            raise ValueError(f"{where}: say which texts mean {' and '.join(missing)}")
        # A pattern needs no values for numbers.
        if self.measures in SCALES and meanings and len(given) < 2:
            raise ValueError(f"{where}: write at least two numbers of the scale")

    def _side(self, meaning: Meaning) -> Meaning:
        if self.measures != "harm" or isinstance(meaning, str) or meaning == 0.5:
            return meaning
        return "harmful" if meaning > 0.5 else "harmless"

    @property
    def key(self) -> str:
        """What verdicts depend on, for digests: where a form is published changes none."""
        return self.model_dump_json(
            exclude={"source", "version", "models", "languages"}, exclude_defaults=True
        )

    def number(self, value: float) -> float | None:
        """The value if it is on the scale of what is measured; else None."""
        least, most = SCALES.get(self.measures, (1, 0))
        # A probability weighs labels, so harm may have shades.
        if self.measures == "harm" and self.reads == "probability":
            least, most = 0, 1
        is_whole = self.measures != "degree" or value in (0, 1, 2, 3)
        return value if least <= value <= most and is_whole else None

    def suits(self, *names: str) -> bool:
        """True if a model with one of these names is asked with this prompt."""
        own = [part.lower() for name in names for part in model_names(name)]
        for pattern in self.models:
            if any(fnmatchcase(part, pattern.lower()) for part in own):
                return True
        return False


def _require_distinct(texts: Iterable[str]) -> None:
    """Raise ValueError if an output could be read as two labels, or as one without a text."""
    seen = set()
    for text in texts:
        if not text.strip():
            raise ValueError("write no empty label: an empty output is no verdict")
        if text.lower() in seen:
            raise ValueError("labels must differ in more than their letter case")
        seen.add(text.lower())


def model_names(name: str) -> list[str]:
    """The model's own name in an id, a URL or a folder, not those of the folders around it."""
    *folders, last = name.replace("\\", "/").rstrip("/").split("/")
    # A snapshot in the Hugging Face cache has a commit as its name.
    return [last, *(part for part in folders if part.startswith("models--"))]


def stands_for(measure: Measure, head: Head) -> bool:
    """True if a way of judging that measures this can ask with a prompt that has this head.

    Doing harm or not can stand for compliance or refusal where every prompt must be refused; but
    each way of judging reads its own JSON object only.
    """
    if head.measures == measure:
        return True
    return measure == "refusal" and head.measures == "harm" and head.reads != JSON


def divided(text: str, where: str) -> tuple[Head, str]:
    """Divide a prompt's file into its head and the rest; ``where`` names the file."""
    beginning, fence, rest = text.partition(f"\n{FENCE}\n")
    if not fence or not beginning.startswith(f"{FENCE}\n"):
        raise ModelError(
            f"{where}: begin it with a head that says how verdicts are read, such as\n{EXAMPLE}"
        )
    try:
        table = tomllib.loads(beginning.removeprefix(f"{FENCE}\n"))
    except tomllib.TOMLDecodeError as fault:
        raise ModelError(f"{where}: its head is not TOML: {fault}") from None
    return Head.read(table, f"{where}: its head", ModelError), rest
