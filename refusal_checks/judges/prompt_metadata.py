"""The front matter of a judge prompt: what the judge measures, and how its output is read.

A TOML table between two lines ``+++`` at the beginning of the prompt's file.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from refusal_checks.core.errors import ModelError
from refusal_checks.core.settings import Frozen

FENCE = "+++"
"""The line above and below the front matter."""

Criterion = Literal["refusal", "harm", "degree", "rating", "choice"]
"""What a judge measures: whether an answer refuses, whether it does harm, its degree of refusal
(0 to 3), its safety rating (0 to 5), or the option that it chooses."""

Meaning = str | float
"""What a label means: a word, or a number on the scale of what is measured."""

NO_LABEL = "none"
"""The meaning of a label that says the judge cannot tell."""

PARTIAL = "partial refusal"
"""The meaning of a label for answers that withhold a part of what was asked."""

REFUSING = ("refusal", PARTIAL, "harmless")
"""Meanings that count as a refusal. To do no harm is one only where prompts must be refused."""

WORDS: Mapping[str, tuple[str, ...]] = {
    "refusal": ("refusal", "compliance", PARTIAL, NO_LABEL),
    "harm": ("harmful", "harmless", NO_LABEL),
}
"""Meanings that are words, by what is measured."""

SCALES: Mapping[str, tuple[float, float]] = {"degree": (0, 3), "rating": (0, 5)}
"""Least and greatest number, by what is measured."""

READERS: Mapping[Criterion, tuple[str, ...]] = {
    "refusal": ("json", "label", "pattern", "probability"),
    "harm": ("label", "pattern", "probability"),
    "degree": ("json", "label", "pattern"),
    "rating": ("label", "pattern", "probability"),
    "choice": ("json",),
}
"""Ways to read an output, by what is measured."""

EXAMPLE = f'{FENCE}\nreads = "json"\nmeasures = "refusal"\n{FENCE}'


def _make_tuple(given: object) -> object:
    """Make a tuple of one text, or of a list of texts."""
    if isinstance(given, str):
        return (given,) if given else ()
    return tuple(given) if isinstance(given, list) else given


class PromptMetadata(Frozen):
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
        labels: meaning of each label, or of each text in the group of ``pattern`` for what is
            measured; any letter case of an ASCII label is read.
        pattern: regular expressions in the syntax of RE2, one of which an output matches. Each has
            a named group for what is measured and perhaps ``category`` and ``rationale``.
        template_variables: variables of the model's chat template.
        chat_template: chat template in one line, for an engine that is started for a model whose
            files have none.
    """

    reads: Literal["json", "label", "pattern", "probability"]
    measures: Criterion
    source: str = ""
    version: str = ""
    models: tuple[str, ...] = Field((), strict=False)
    languages: tuple[str, ...] = Field((), strict=False)
    labels: Mapping[str, Meaning] = {}
    pattern: Annotated[tuple[str, ...], BeforeValidator(_make_tuple)] = ()
    template_variables: Mapping[str, JsonValue] = {}
    chat_template: str = ""

    @model_validator(mode="after")
    def _require_consistent_keys(self) -> Self:
        readers = READERS[self.measures]
        if self.reads not in readers:
            raise ValueError(
                f'measures = "{self.measures}": write reads = {" or ".join(readers)}'
            )
        # A pattern finds the numbers of a scale by itself.
        needs_no_labels = self.reads == "pattern" and self.measures in SCALES
        takes = {"labels": self.reads != "json", "pattern": self.reads == "pattern"}
        for key, is_taken in takes.items():
            given = getattr(self, key)
            if is_taken and not given and not (key == "labels" and needs_no_labels):
                raise ValueError(f'{key}: reads = "{self.reads}" needs it')
            if given and not is_taken:
                raise ValueError(f'{key}: leave it out: reads = "{self.reads}"')
        for label, meaning in self.labels.items():
            self._require_meaning(f"labels.{label}", meaning)
        return self

    def _require_meaning(self, where: str, meaning: Meaning) -> None:
        words = WORDS.get(self.measures, (NO_LABEL,))
        if self.reads == "probability":
            # The labels' expected value is the probability of a refusal, so there can only be two.
            words = tuple(word for word in words if word != PARTIAL)
        if isinstance(meaning, str) and meaning in words:
            return
        if not isinstance(meaning, str) and self.is_on_scale(meaning):
            return
        scale = ""
        if self.measures in SCALES:
            least, most = SCALES[self.measures]
            scale = f"a number from {least:g} to {most:g} or "
        raise ValueError(
            f"{where} = {meaning!r}: write {scale}one of {', '.join(words)}"
        )

    @property
    def key(self) -> str:
        """What verdicts depend on, for digests; the form's source is left out."""
        return self.model_dump_json(
            exclude={"source", "version", "models", "languages"}, exclude_defaults=True
        )

    def is_on_scale(self, value: float) -> bool:
        least, most = SCALES.get(self.measures, (1, 0))
        # A probability weighs labels, so harm may have shades.
        if self.measures == "harm" and self.reads == "probability":
            least, most = 0, 1
        is_whole = self.measures != "degree" or value in (0, 1, 2, 3)
        return least <= value <= most and is_whole

    def suits(self, *names: str) -> bool:
        """True if this prompt is for a model with one of these names."""
        own = [part.lower() for name in names for part in model_names(name)]
        return any(
            fnmatchcase(part, pattern.lower())
            for pattern in self.models
            for part in own
        )

    def can_judge(self, criterion: Criterion) -> bool:
        """True if a way of judging by this criterion can ask with this prompt.

        Doing harm or not can stand for compliance or refusal where every prompt must be refused.
        """
        return self.measures == criterion or (
            criterion == "refusal" and self.measures == "harm"
        )


def model_names(name: str) -> list[str]:
    """The model's own name in an id, a URL or a folder, not those of the folders around it."""
    *folders, last = name.replace("\\", "/").rstrip("/").split("/")
    # A snapshot in the Hugging Face cache has a commit as its name.
    return [last, *(part for part in folders if part.startswith("models--"))]


def split_front_matter(text: str, where: str) -> tuple[PromptMetadata, str]:
    """Split a prompt's file into front matter and the rest; ``where`` names the file."""
    beginning, fence, rest = text.partition(f"\n{FENCE}\n")
    if not fence or not beginning.startswith(f"{FENCE}\n"):
        raise ModelError(
            f"{where}: begin it with front matter that says how verdicts are read, such as\n"
            f"{EXAMPLE}"
        )
    try:
        table = tomllib.loads(beginning.removeprefix(f"{FENCE}\n"))
    except tomllib.TOMLDecodeError as fault:
        raise ModelError(f"{where}: its front matter is not TOML: {fault}") from None
    return PromptMetadata.read(table, f"{where}: its front matter", ModelError), rest
