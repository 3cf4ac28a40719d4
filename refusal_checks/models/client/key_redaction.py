"""Takes API keys out of what servers say."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    pass


class Keys:
    """Takes the keys of the server and the environment out of what servers say and reports show."""

    def __init__(self, own: str = "") -> None:
        named = re.compile(r"REFUSAL_CHECKS_.*API_KEY|OPENAI_API_KEY|HF_TOKEN")
        theirs = (value for name, value in os.environ.items() if named.fullmatch(name))
        keys = {key.strip() for key in (own, *theirs)}
        self._in_errors = _pattern({key for key in keys if len(key) >= 4})
        # Short words that people give to servers without keys, such as EMPTY, may be in answers.
        self._in_answers = _pattern(
            {k for k in keys if len(k) >= 8 and not k.isalpha()}
        )

    def hidden(self, text: str, is_answer: bool = False) -> str:
        """The text with each key replaced, also where JSON spells it with escapes."""
        pattern = self._in_answers if is_answer else self._in_errors
        if pattern is None:
            return text
        text = pattern.sub("[API key]", text)
        if "\\u" in text or "\\/" in text:
            try:
                plain = json.dumps(json.loads(text), ensure_ascii=False)
            except (ValueError, RecursionError):
                return text
            if pattern.search(plain):
                return pattern.sub("[API key]", plain)
        return text


def _pattern(keys: set[str]) -> re.Pattern[str] | None:
    spelled = {
        form
        for key in keys
        for form in (key, quote(key, safe=""), json.dumps(key)[1:-1])
    }
    forms = sorted(spelled, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, forms)), re.IGNORECASE) if forms else None
