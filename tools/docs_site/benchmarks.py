"""The benchmarks that the package has."""

from __future__ import annotations

from refusal_checks.benchmarks import Benchmark, Kind, discover
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
    return code(name), wanted, code(one.kind.value), code(one.judge), sentence(one.description)
