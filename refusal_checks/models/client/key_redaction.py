"""Remove API keys from what servers say."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from urllib.parse import quote

_KEY_VARIABLE = re.compile(r"REFUSAL_CHECKS_.*API_KEY|OPENAI_API_KEY|HF_TOKEN")


class KeyRedactor:
    """Removes API keys of server and environment from what servers say and reports show.

    Words that people give to servers without keys, such as EMPTY, may be in answers: there they
    stay (``are_in_answers``).
    """

    def __init__(self, own: str, *, are_in_answers: bool) -> None:
        keys = {own.strip()}
        for name, value in os.environ.items():
            if _KEY_VARIABLE.fullmatch(name):
                keys.add(value.strip())
        spellings = set()
        for key in keys:
            is_word = are_in_answers and (len(key) < 8 or key.isalpha())
            # Shorter ones are in every other text. URLs and JSON spell special characters anew.
            if len(key) >= 4 and not is_word:
                spellings |= {key, quote(key, safe=""), json.dumps(key)[1:-1]}
        self._spellings = {spelling.lower() for spelling in spellings}
        # One key may begin with another, which would leave the rest of it.
        longest_first = sorted(spellings, key=len, reverse=True)
        self._pattern = re.compile(
            "|".join(map(re.escape, longest_first)), re.IGNORECASE
        )

    def redact(self, text: str) -> str:
        """Replace each key in a text, also if JSON escapes it."""
        # A server may escape any letter (\u0061), as PHP does each slash.
        if self._spellings and ("\\u" in text or "\\/" in text):
            with suppress(ValueError, RecursionError):
                plain = json.dumps(json.loads(text), ensure_ascii=False)
                if self._has_key(plain):
                    text = plain
        return self._pattern.sub("[API key]", text) if self._has_key(text) else text

    def _has_key(self, text: str) -> bool:
        lowered = (
            text.lower()
        )  # far faster than the pattern, which rarely finds anything
        return any(spelling in lowered for spelling in self._spellings)
