"""Write the generated tables into the pages of docs/: ``python -m tools.docs_site``.

With ``--check``, it writes nothing, and the exit code is 1 if a page is out of date.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tools.docs_site.generated import fill

ROOT = Path(__file__).parents[2]


def main() -> int:
    """Renew or check every page."""
    is_check = "--check" in sys.argv[1:]
    outdated = []

    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        text = path.read_text(encoding="utf-8")
        current = fill(text)
        if current == text:
            continue

        outdated.append(path)
        if not is_check:
            path.write_text(current, encoding="utf-8")

    for path in outdated:
        remark = "renewed"
        if is_check:
            remark = "run python -m tools.docs_site, its tables are out of date"
        print(f"{path.relative_to(ROOT)}: {remark}")
    return 1 if outdated and is_check else 0


if __name__ == "__main__":
    sys.exit(main())
