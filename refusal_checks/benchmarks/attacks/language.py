"""Another language: the request in its translation, where the benchmark has one.

Translations are prompts of one cluster in different languages (group ``language``), as CFSafety
has them and one's own benchmark can have. Nothing is translated here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from refusal_checks.benchmarks.attacks.base import Attack, Family, Given
from refusal_checks.core.prompts import Message, Prompt

_NAME = "language"
_SOURCE = "Deng et al. 2023, arXiv 2310.06474; Yong et al. 2023, arXiv 2310.02446"


def _attack(parameter: str) -> Attack:
    language = parameter.lower()
    if not re.fullmatch(r"[a-z]{2,3}(-[a-z0-9]+)*", language):
        raise ValueError(parameter)

    def rewrite(prompt: Prompt, given: Given) -> Sequence[Message] | None:
        if prompt.groups.get(_NAME, "").lower() == language:
            return None
        others = given.clusters.get(prompt.cluster, ())
        found = (one for one in others if one.groups.get(_NAME, "").lower() == language)
        translated = next(found, None)
        return translated.messages if translated else None

    return Attack(
        f"{_NAME}_{language}",
        _SOURCE,
        f"asks in the language {language} by the data's own translation",
        rewrite,
        unfit=f"no translation into {language}, or written in it already",
    )


ATTACKS = (
    Family(
        _NAME,
        _SOURCE,
        "asks in another language by the data's own translation",
        "the code of a language that the data has",
        _attack,
        ("language_zh", "language_en", "language_sw"),
    ),
)
