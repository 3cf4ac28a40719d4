"""The private characters that mark options in an answer, and patterns about them."""

from __future__ import annotations

import re
from functools import lru_cache

FIRST = 0xE000
OPTION = "[\ue000-\ue007]"
"""The private characters that stand for options."""

BETWEEN = r"[ .、:;,()\[\]【】《》\"'=→>/·—-]{1,4}(?:(?:即|也就是|也即|that is)[ .:,\"]{0,3})?"
"""What stands between a letter and the text of its option."""


@lru_cache(4096)
def compiled(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """A pattern of options, which thousands of questions share."""
    return re.compile(pattern, flags)
