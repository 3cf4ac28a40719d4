"""What a session ends with: its exit code, shortened failures, pytest's JUnit file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from refusal_checks.plugin import outcomes
from refusal_checks.reports.junit_properties import (
    CLASS,
    class_name,
    run_properties,
)
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary

if TYPE_CHECKING:
    from refusal_checks.api.result import RunResult


def set_exit_code(session: pytest.Session, result: RunResult | None) -> None:
    """Let the answer decide the exit code; if pytest itself failed, leave the answer open."""
    code = int(session.exitstatus)
    if result is None:
        # A command that names a model must not end with 0 if none of its gates was evaluated.
        words = session.config.invocation_params.args
        is_named = any(word.startswith("--refusal-candidate") for word in words)
        if is_named and not code and not session.config.option.collectonly:
            session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED
        return
    if not result.summary.manifest.gates.selected:
        return  # only the judge was checked
    if not RunFolder(result.folder).has_begun:
        result.leave_open([f"run it again: its folder {result.folder} was removed"])
    elif code == pytest.ExitCode.INTERRUPTED:
        result.leave_open(["run it again: it was interrupted"])
    elif code and result.decision.exit_code != pytest.ExitCode.TESTS_FAILED:
        # A test of the repository's own, or a plugin: a yes beside it would be read as all is well.
        result.leave_open(
            [f"see above why pytest ended with exit code {code}: no gate failed"]
        )
    if not code:
        # Gates that were skipped or left out failed no test, but may leave the answer open.
        session.exitstatus = result.decision.exit_code


def shorten_messages(config: pytest.Config, summary: RunSummary) -> None:
    """Shorten the failures that pytest is about to print, unless ``-v`` asks for all of them."""
    reporter: Any = config.pluginmanager.get_plugin("terminalreporter")
    # Only the terminal reporter defines the option.
    if reporter and config.option.verbose < 1:
        outcomes.say_once(reporter.stats.get("error", ()), summary.errors)
        failed = reporter.stats.get("failed", ())
        if outcomes.shorten(failed, summary.verdicts):
            # Without it, in CI pytest repeats whole messages in its short summary.
            config.option.force_short_summary = True


def complete_junit(
    xml: Any, result: RunResult | None, unfinished: Sequence[str]
) -> None:
    """Add classes of gates and properties of the run to pytest's JUnit file.

    pytest has fixtures for both, but not in xdist's workers.

    Args:
        xml: pytest's writer of the file.
        unfinished: what an interrupted run has left to do. It becomes an entry, because gates
            without a verdict have none, and the file would look green.
    """
    for reporter in xml.node_reporters_ordered:
        entry = reporter.to_xml()
        properties = {
            item.get("name"): item.get("value") for item in entry.iter("property")
        }
        name = class_name(properties)
        if name:  # pytest's own is the path of the installed package
            entry.set("classname", ".".join(filter(None, (xml.prefix, name))))
    if result:
        for name, value in run_properties(result.summary).items():
            xml.add_global_property(name, value)
    if unfinished:
        entry = xml.node_reporter("stopped")
        entry.attrs = {"classname": CLASS, "name": "stopped", "time": "0.000"}
        entry._add_simple(
            "error", "stopped before it was complete", "\n".join(unfinished)
        )
