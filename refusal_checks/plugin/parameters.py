"""The tests of gates: their parameters with markers, and what their ids select."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches

import pytest
from _pytest.mark.structures import ParameterSet

from refusal_checks.benchmarks import Benchmark
from refusal_checks.core.suggestions import near
from refusal_checks.core.text import clean
from refusal_checks.gates.gate import Gate

GATE, FIGURE = "refusal_gate", "refusal_judge_figure"
"""Names of the parameters."""

NAMED_TESTS = pytest.StashKey[list[str]]()
"""The tests that a command names, such as ``test_gate[xstest_safe-rejection_rate]``."""

_JUDGE_TEST = "test_judge["
_NOTE = "gates of refusal-checks"


def of_gates(
    config: pytest.Config,
    gates: Iterable[Gate],
    measured: Mapping[str, str],
    benchmarks: Mapping[str, Benchmark],
) -> list[ParameterSet]:
    """Parameters with a gate for each test, or the name of a benchmark that has none."""
    params = []
    for gate in gates:
        marks = _marks(config, benchmarks[gate.benchmark].kind)
        params.append(pytest.param(gate, id=gate.id, marks=marks))
    for key, name in measured.items():
        marks = _marks(config, benchmarks[name].kind)
        params.append(pytest.param(name, id=key, marks=marks))
    return params


def of_figures(config: pytest.Config, figures: Sequence[str]) -> list[ParameterSet]:
    """Parameters with a figure of the judge's check for each test; None without floors."""
    marks = _marks(config, "judge")
    names = figures or (None,)
    return [pytest.param(name, id=name or "none", marks=marks) for name in names]


def _marks(config: pytest.Config, kind: str) -> list[pytest.MarkDecorator]:
    """The markers of a gate's test: ``refusal_safety`` and ``safety``.

    The short one is left to the repository if its configuration declares it.
    """
    declared = config.getini("markers")
    own = {re.split(r"[:(]", line)[0].strip() for line in declared if _NOTE not in line}
    names = [f"refusal_{kind}"]
    if str(kind) not in own:
        names.append(str(kind))
    for name in names:
        line = f"{name}: {_NOTE} ({kind})"
        if line not in declared:
            config.addinivalue_line("markers", line)
    # A doubt stays a warning in a project that turns warnings into errors.
    visible = pytest.mark.filterwarnings(
        "default::refusal_checks.plugin.InconclusiveWarning"
    )
    return [*(getattr(pytest.mark, name) for name in names), visible]


def lacks_floors(item: pytest.Item) -> bool:
    """True for the judge's test if no floors are set."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get(FIGURE, "") is None


def gate_id(nodeid: str) -> str:
    """The gate in a test's node id: the text in its brackets, without pytest's escapes."""
    # The name of the test is needed, because an IPv6 address has :: and [, too.
    match = re.search(r"::\w+\[(.*)\]", nodeid, re.DOTALL)
    inner = match[1] if match else ""
    return inner.encode("ascii", "backslashreplace").decode("unicode_escape")


def is_named(test: str, named: str) -> bool:
    """True if a node id is the named one, or a variant of it if the name has no brackets."""
    return named in (test, test.partition("[")[0])


def selected(
    nodeids: Collection[str], gates: Iterable[str], figures: Collection[str]
) -> list[str] | None:
    """Gates of these tests; empty if they only check the judge, None if none is of ours.

    Benchmarks that are only measured count as gates.
    """
    ids = {gate_id(nodeid) for nodeid in nodeids}
    chosen = [name for name in gates if name in ids]
    checks_judge = any(
        nodeid.rpartition("::")[2].startswith(_JUDGE_TEST)
        and gate_id(nodeid) in figures
        for nodeid in nodeids
    )
    return chosen if chosen or checks_judge else None


def require_named(
    named: Iterable[str], nodeids: Iterable[str], ids: Collection[str]
) -> None:
    """Raise UsageError if a test named by the command was not collected."""
    tests = [nodeid.partition("::")[2] for nodeid in nodeids]
    for name in named:
        if not any(is_named(test, name) for test in tests):
            hint = near(gate_id(f"::{name}"), ids) or "."
            raise pytest.UsageError(
                f"{clean(name)}: no such gate here{hint} --collect-only -q lists them"
            )


def unselected(keyword: str, markers: str, ids: Sequence[str]) -> Iterator[str]:
    """List the gates that can be selected, if none was."""
    given = {"-k": keyword, "-m": markers}
    asked = " ".join(f"{option} {text!r}" for option, text in given.items() if text)
    if not asked:
        yield "run `refusal-checks init`, which writes the test file of gates: none is here"
        return
    parts = set(ids)
    for name in ids:
        parts.update(name.split("-"))
    close = get_close_matches(keyword, parts)
    meant = f'; did you mean "{close[0]}"?' if close else "."
    yield clean(f"{asked} selects none of {len(ids)} gates{meant} They are:", 500)
    yield from (f"  {name}" for name in ids[:40])
    if ids[40:]:
        yield f"  and {len(ids) - 40} more: --collect-only -q lists them all"
