"""``python -m tools.docs_site``: write the generated tables into the pages of docs/.

With ``--check`` nothing is written; the exit code is 1 if a page is not current.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.docs_site.generated import fill

DOCS = Path(__file__).parents[2] / "docs"


def main() -> int:
    """Renew or check every page."""
    is_check = "--check" in sys.argv[1:]
    stale = []
    for path in [DOCS.parent / "README.md", *sorted(DOCS.rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        if (current := fill(text)) != text:
            stale.append(path)
            if not is_check:
                path.write_text(current, encoding="utf-8")
    for path in stale:
        said = (
            "run python -m tools.docs_site: its tables are old"
            if is_check
            else "renewed"
        )
        print(f"{path.relative_to(DOCS.parent)}: {said}")
    return 1 if stale and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
