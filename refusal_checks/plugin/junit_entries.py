"""Complete the gates' entries in pytest's JUnit file: benchmark, time, source of the bound.

pytest writes an entry when its test ends; facts known only at the end of the session are added.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element  # made by pytest, never read from a file

import pytest

from refusal_checks.core.text import clean
from refusal_checks.judges.trust.floors import JudgeCheck
from refusal_checks.plugin.gate_session import JUDGE_TEST
from refusal_checks.reports.junit import CLASS
from refusal_checks.reports.junit_properties import FILE, LINE, TAG, of_decision
from refusal_checks.reports.wording.release import release_decision
from refusal_checks.results.summary import RunSummary


def keep_whole(config: pytest.Config) -> Iterator[str]:
    """Try whether there is room for pytest's JUnit file; if not, keep the earlier one.

    pytest would leave half a file, and end with an internal error. Yields what to tell the user.
    """
    from _pytest.junitxml import xml_key

    xml: Any = config.stash.get(xml_key, None)
    path = Path(xml.logfile) if xml else None
    if path is None or (path.exists() and not path.is_file()):
        return
    draft = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    xml.logfile = str(draft)
    try:
        xml.pytest_sessionfinish()
        xml.logfile = str(path)
    except OSError as fault:
        xml.logfile = os.devnull  # where pytest writes it in a moment
        # Otherwise it would say that the file was written.
        config.pluginmanager.unregister(xml)
        del config.stash[xml_key]
        yield f"JUnit report could not be written: {clean(str(path))}: {fault.strerror}"
    finally:
        draft.unlink(missing_ok=True)


def complete(
    config: pytest.Config, run: RunSummary | None, stopped: Sequence[str]
) -> None:
    """Complete the entries of gates and of the judge's check; does nothing without a JUnit file.

    The answer to "may it ship?" becomes a property of the suite.

    Args:
        stopped: lines on what is done and what is left, if the session was interrupted. They become
        an entry, since gates without a verdict have none and the file would look green.
    """
    # The fixture record_xml_attribute does not work in workers.
    from _pytest.junitxml import xml_key

    xml: Any = config.stash.get(xml_key, None)
    if xml is None:
        return
    seconds = _seconds(run) if run else {}
    checked = run.judge if run else None
    last: dict[tuple[str, str], Any] = {}
    for reporter in list(xml.node_reporters_ordered):
        element = reporter.to_xml()
        if _complete(element, xml, seconds, checked):
            reporter.to_xml = lambda element=element: element
            key = element.get("classname", ""), element.get("name", "")
            if key in last:  # pytest-rerunfailures ran it again
                xml.node_reporters_ordered.remove(last[key])
            last[key] = reporter
    if run:
        for name, value in of_decision(release_decision(run)).items():
            xml.add_global_property(name, value)
    if stopped:
        entry = xml.node_reporter(f"{CLASS}.stopped")
        entry.attrs = {
            "classname": _class(xml, "run"),
            "name": "stopped",
            "time": "0.000",
        }
        entry._add_simple("error", "stopped before it was complete", "\n".join(stopped))
        xml.stats["error"] += 1


def _complete(
    element: Element, xml: Any, seconds: Mapping[str, float], checked: JudgeCheck | None
) -> bool:
    """Complete one entry; return False if it belongs to another test."""
    properties = {
        entry.get("name"): entry.get("value", "") for entry in element.iter("property")
    }
    name = properties.get("benchmark")
    # A test that is not ours may have a benchmark, and even a "metric".
    if name is not None and TAG.format("metric") in properties:
        took = seconds.get(name, 0.0)
    elif (
        element.get("name", "").startswith(f"{JUDGE_TEST}[")
        and "canary_sha256" in properties
    ):
        name, took = "judge", checked.seconds / len(checked.checks) if checked else 0.0
    else:
        return False
    element.set("classname", _class(xml, name))
    element.set("time", f"{took:.3f}")
    if xml.family == "xunit1" and FILE in properties:  # xunit2 has no such attributes
        element.set("file", properties[FILE])
        element.set("line", properties.get(LINE, "1"))
    return True


def _class(xml: Any, benchmark: str) -> str:
    return ".".join(filter(None, (xml.prefix, CLASS, benchmark)))


def _seconds(run: RunSummary) -> dict[str, float]:
    """Seconds per gate by benchmark: the evaluation's time by share of answers, then by gate."""
    seconds = {}
    gates = Counter(verdict.gate.benchmark for verdict in run.verdicts.values())
    answers = sum(summary.answers for summary in run.benchmarks.values())
    for name, summary in run.benchmarks.items():
        if answers and gates[name]:
            took = (run.manifest.evaluation_s or 0.0) * summary.answers / answers
            seconds[name] = took / gates[name]
    return seconds
