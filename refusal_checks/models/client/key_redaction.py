"""Remove API keys from what servers say."""

from __future__ import annotations

import json
import os
import re
from urllib.parse import quote

_KEY_VARIABLE = re.compile(r"REFUSAL_CHECKS_.*API_KEY|OPENAI_API_KEY|HF_TOKEN")


class Keys:
    """Removes API keys of server and environment from what servers say and reports show."""

    def __init__(self, own: str = "") -> None:
        keys = {own.strip()}
        for name, value in os.environ.items():
            if _KEY_VARIABLE.fullmatch(name):
                keys.add(value.strip())
        self._in_errors = _pattern({key for key in keys if len(key) >= 4})
        # Short words that people give to servers without keys, such as EMPTY, may be in answers.
        unlikely = {key for key in keys if len(key) >= 8 and not key.isalpha()}
        self._in_answers = _pattern(unlikely)

    def hidden(self, text: str, is_answer: bool = False) -> str:
        """Replace each key in a text, also where JSON escapes it."""
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
    """A pattern of all keys, also as URLs and JSON encode them; None without keys."""
    spellings = set(keys)
    for key in keys:
        spellings.add(quote(key, safe=""))
        spellings.add(json.dumps(key)[1:-1])
    if not spellings:
        return None
    longest_first = sorted(spellings, key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)), re.IGNORECASE)
