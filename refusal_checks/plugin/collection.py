"""A run's tests, from its spec alone: collection reads no data and asks no model."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches

import pytest
from _pytest.mark.structures import ParameterSet

from refusal_checks.benchmarks import Benchmark
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.text import sanitize
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import kind_of
from refusal_checks.plugin import options
from refusal_checks.trust.minimums import Figure
from refusal_checks.trust.validation_sets import REFUSALS, SETS

FIGURE = "refusal_judge_figure"
"""The parameter of the judge's test."""

_NOTE = "gates of refusal-checks"
_WARNING = "default::refusal_checks.plugin.InconclusiveWarning"


def judge_figures(
    spec: RunSpec, benchmarks: Mapping[str, Benchmark]
) -> tuple[Figure, ...]:
    """Figures with minimums in the judge's check; those of refusals if no gate needs a judge."""
    minimums = spec.judge.check
    if not minimums:
        return ()
    kinds = {kind_of(benchmarks[name]).judgement_type for name in spec.evaluated}
    checks = [SETS[kind] for kind in kinds if kind in SETS] or [REFUSALS]
    checked = {figure for check in checks for figure in check.figures}
    return tuple(figure for figure in minimums.figures if figure in checked)


def gate_parameters(
    config: pytest.Config,
    spec: RunSpec,
    benchmarks: Mapping[str, Benchmark],
    has_measured: bool,
) -> list[ParameterSet]:
    """A parameter for each gate, and for each benchmark without gates if ``has_measured``."""
    tests: list[tuple[Gate | str, str, str]] = []
    for gate in spec.gates:
        tests.append((gate, gate.id, gate.benchmark))
    if has_measured:
        tests += [(name, test_id, name) for test_id, name in spec.measured.items()]
    return [
        _parameter(config, value, test_id, str(benchmarks[benchmark].kind))
        for value, test_id, benchmark in tests
    ]


def figure_parameters(
    config: pytest.Config, figures: Sequence[Figure]
) -> list[ParameterSet]:
    """A parameter for each figure of the judge.

    Without figures it is None: pytest would show a test without parameters as skipped.
    """
    return [
        _parameter(config, figure, figure or "none", "judge")
        for figure in figures or (None,)
    ]


def lacks_figure(item: pytest.Item) -> bool:
    """True for the judge's test if its check has no minimums."""
    callspec = getattr(item, "callspec", None)
    return callspec is not None and callspec.params.get(FIGURE, "") is None


def _parameter(
    config: pytest.Config, value: object, test_id: str, kind: str
) -> ParameterSet:
    """The parameter of one test, with markers of its kind: ``refusal_safety`` and ``safety``."""
    declared = config.getini("markers")
    if options.prefix(config) == "--":
        # -k looks at markers, too: with the long one, "refusal" would select every gate.
        names = [kind]
    else:
        # A repository may use the short name for tests of its own, and then keeps it.
        others = [line for line in declared if _NOTE not in line]
        theirs = {re.split(r"[:(]", line)[0].strip() for line in others}
        names = [f"refusal_{kind}", *({kind} - theirs)]
    for name in names:
        line = f"{name}: {_NOTE} ({kind})"
        if line not in declared:  # --strict-markers refuses unknown ones
            config.addinivalue_line("markers", line)
    marks = [getattr(pytest.mark, name) for name in names]
    # A doubt stays a warning in a project that turns warnings into errors.
    marks.append(pytest.mark.filterwarnings(_WARNING))
    return pytest.param(value, id=test_id, marks=marks)


def gate_id(nodeid: str) -> str:
    """The gate in a test's node id: the text in its brackets, without pytest's escapes."""
    # The name of the test is needed, because an IPv6 address has :: and [, too.
    match = re.search(r"::\w+\[(.*)\]", nodeid, re.DOTALL)
    inner = match[1] if match else ""
    return inner.encode("ascii", "backslashreplace").decode("unicode_escape")


def selected_gates(
    nodeids: Collection[str], spec: RunSpec, figures: Collection[Figure]
) -> list[str] | None:
    """The gates of these tests; empty if they only check the judge, None if none is ours.

    Benchmarks that are only measured count as gates.
    """
    named = {gate_id(nodeid) for nodeid in nodeids}
    chosen = [name for name in spec.ids if name in named]
    tests = {nodeid.rpartition("::")[2] for nodeid in nodeids}
    checks = {f"test_judge[{figure}]" for figure in figures}
    return chosen if chosen or checks & tests else None


def explain_no_tests(keyword: str, markers: str, ids: Sequence[str]) -> Iterator[str]:
    """Yield lines on what can be selected, for a session with nothing selected.

    Args:
        keyword: the value of ``-k``.
        markers: the value of ``-m``.
    """
    given = {"-k": keyword, "-m": markers}
    asked = " ".join(f"{option} {text!r}" for option, text in given.items() if text)
    if not asked:
        yield "run `refusal-checks init`, which writes the gates' test file: there is none here"
        return
    parts = set(ids)
    for name in ids:
        parts.update(name.split("-"))
    close = get_close_matches(keyword, parts)
    meant = f'; did you mean "{close[0]}"?' if close else "."
    yield sanitize(f"{asked} selects none of {len(ids)} gates{meant} They are:", 500)
    yield from (f"  {name}" for name in ids[:40])
    if ids[40:]:
        yield f"  and {len(ids) - 40} more: --collect-only -q lists them all"
