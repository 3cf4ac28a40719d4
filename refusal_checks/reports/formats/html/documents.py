"""Pages from templates, each one file.

A page fetches nothing and runs only its own scripts: its Content-Security-Policy allows the inline
style and scripts by their hashes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from refusal_checks.core.text import clean, pathless
from refusal_checks.gates.gate import AllowedRange
from refusal_checks.judges.trust.canary import ABOUT
from refusal_checks.metrics import METRICS
from refusal_checks.reports import explain
from refusal_checks.reports.explain import spurious_failures
from refusal_checks.reports.formats.html import charts
from refusal_checks.reports.formats.html.gate_rows import TONES
from refusal_checks.reports.formats.html.visible import visible
from refusal_checks.reports.inline import digest, palette, source

TEMPLATES = Path(__file__).parent / "templates"


def document(template: str, scripts: Sequence[str], **values: Any) -> Iterator[str]:
    """A page in parts.

    Args:
        scripts: names of its scripts, in their order.
        values: what the template shows.
    """
    style = palette() + source(TEMPLATES / "report.css")
    sources = [source(TEMPLATES / name) for name in scripts]
    policy = (
        "default-src 'none'; base-uri 'none'; form-action 'none'; "
        f"style-src {digest(style)}; script-src {' '.join(map(digest, sources))}"
    )
    found = _environment().get_template(template)
    return found.generate(style=style, scripts=sources, policy=policy, **values)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "visible": visible,
        "clean": clean,
        "name": partial(clean, limit=120),
        "pathless": pathless,
        "percent": lambda value: f"{100 * value:.3g}%",
    }
    environment.globals |= {
        "about": ABOUT,
        "drawing": charts.span,
        "limits": AllowedRange,
        "tones": TONES,
        "metrics": METRICS,
        "spurious_failures": spurious_failures,
        "words": explain,
    }
    return environment
