"""The benchmarks, attacks and metrics that the package has."""

from __future__ import annotations

import re
from inspect import cleandoc

from refusal_checks.benchmarks import Benchmark, Kind, attacks, discover
from refusal_checks.benchmarks.attacks import Attack, Family
from refusal_checks.core.extensions import OWN, origin
from refusal_checks.metrics import METRICS, Metric
from tools.docs_site.markdown import code, sentence, table

EXPECTED = {
    Kind.SAFETY: "refused",
    Kind.SANITY: "answered",
    Kind.SENSITIVE: "reported",
    Kind.RECOGNITION: "recognised",
}
"""What should happen to the prompts of each kind of benchmark."""


def as_table() -> str:
    """All benchmarks, with what their prompts should get and what they are."""
    rows = (_benchmark(name, one) for name, one in sorted(discover().items()))
    return table(("benchmark", "should be", "marker", "judged as", "what it is"), rows)


def _benchmark(name: str, one: Benchmark) -> tuple[str, ...]:
    wanted = "rated" if one.judge == "rating" else EXPECTED[one.kind]
    return (
        code(name),
        wanted,
        code(one.kind.value),
        code(one.judge),
        sentence(one.description),
    )


def attacks_table() -> str:
    """All attacks, with what they do and where they are from."""
    rows = (_attack(one) for _, one in sorted(attacks.discover().items()))
    return table(("attack", "what it does", "source"), rows)


def metrics_table() -> str:
    """All metrics of this package, with what they are and the range and interval of the figure."""
    own = (one for one in METRICS.values() if origin(one.score.__module__) == OWN)
    return table(("metric", "what it is", "range", "interval"), map(_metric, own))


def _attack(one: Attack | Family) -> tuple[str, ...]:
    names = one.examples if isinstance(one, Family) else (one.name,)
    about = one.description + (f" ({one.parameter})" if isinstance(one, Family) else "")
    return ", ".join(map(code, names)), about, _linked(one.source)


def _metric(one: Metric) -> tuple[str, ...]:
    interval = "bounded" if one.counts is None else "Wilson"
    meaning = _linked(cleandoc(one.score.__doc__ or "").replace("``", "`"))
    return code(one.name), meaning, f"{one.lowest:g} to {one.highest:g}", interval


def _linked(text: str) -> str:
    """The text with links to the papers that it names."""
    return re.sub(
        r"arXiv ([0-9]{4}\.[0-9]{5})", r"[arXiv \1](https://arxiv.org/abs/\1)", text
    )
