"""pytest's JUnit file: classes of gates, the suite's properties, no half file on a full disk."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.junitxml import xml_key

from refusal_checks.core.text import clean
from refusal_checks.reports import junit
from refusal_checks.results.summary import RunSummary


def complete(
    config: pytest.Config, run: RunSummary | None, stopped: Sequence[str]
) -> None:
    """Add what is known at the end of the session; does nothing without a JUnit file.

    Args:
        stopped: lines on what is done and what is left, if the session was interrupted. They become
        an entry, since gates without a verdict have none and the file would look green.
    """
    # pytest's fixtures for attributes and properties of the suite do not work in workers.
    xml: Any = config.stash.get(xml_key, None)
    if xml is None:
        return
    for reporter in xml.node_reporters_ordered:
        entry = reporter.to_xml()
        name = junit.class_of(
            {item.get("name"): item.get("value") for item in entry.iter("property")}
        )
        if name:  # pytest's own is the path of the installed package
            entry.set("classname", ".".join(filter(None, (xml.prefix, name))))
    for name, value in junit.of_run(run).items() if run else ():
        xml.add_global_property(name, value)
    if stopped:
        entry = xml.node_reporter("stopped")
        entry.attrs = {"classname": junit.CLASS, "name": "stopped", "time": "0.000"}
        entry._add_simple("error", "stopped before it was complete", "\n".join(stopped))
        xml.stats["error"] += 1


def keep_whole(config: pytest.Config) -> Iterator[str]:
    """Try whether there is room for pytest's JUnit file; if not, keep the earlier one.

    pytest would leave half a file, and end with an internal error. Yields what to tell the user.
    """
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
