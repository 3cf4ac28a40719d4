"""The options of a gate run: ``--NAME`` in ``refusal-checks gate``, ``--refusal-NAME`` in pytest.

Every pytest session in the environment declares them, so this module imports nothing of the
package.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

GATE = "refusal_checks.plugin.gate_command"
"""The plugin that ``refusal-checks gate`` loads beside this package's own."""

PREFIX = "refusal_checks_"
"""Prefix of configuration keys."""

INI = {
    "thresholds": "run files (--refusal-thresholds)",
    "folder": "folder of the store and of runs; default: .refusal-checks in rootdir",
    "runs": "folder of the runs (--refusal-runs); default: runs in the folder above",
}
"""Keys of a repository's pytest configuration, after ``PREFIX``, with their help. They hold paths,
relative to the configuration file; an option of the same name wins."""


class Option(NamedTuple):
    """An option: its name without dashes, the placeholder of its value, and its help."""

    name: str
    metavar: str  # empty for an option that takes no value
    help: str
    is_repeatable: bool = False

    @property
    def about(self) -> str:
        return f"{self.help} (repeatable)" if self.is_repeatable else self.help

    @property
    def dest(self) -> str:
        """The attribute in which pytest stores its value."""
        return f"refusal_{self.name.replace('-', '_')}"


OPTIONS = (
    Option(
        "candidate",
        "MODEL",
        "the model under test: ORG/MODEL or a folder (starts an engine), a server "
        "(http://HOST/v1#MODEL), PREFIX:NAME of an extension, or replay:FILE (recorded answers)",
    ),
    Option(
        "judge",
        "MODEL",
        "the judge: a model named in the same way, moderation:URL#MODEL, keyword or labels; of "
        "several, the majority decides",
        is_repeatable=True,
    ),
    Option(
        "thresholds",
        "FILE",
        "run file with gates and settings (later ones win), or the name of a shipped one, such as "
        "smoke; default: this folder's thresholds/default.toml, else the shipped one",
        is_repeatable=True,
    ),
    Option(
        "set",
        "TABLE.KEY=VALUE",
        "set any key of the run file, such as judge.max_tokens=2048",
        is_repeatable=True,
    ),
    Option("samples", "N", "answers for each prompt"),
    Option("limit", "N", "maximum prompts of each benchmark, as a stratified sample"),
    Option("seed", "N", "seed for sampling the answers"),
    Option(
        "baseline",
        "PATH",
        "earlier run to compare with: last, an id, a folder, or accepted baselines",
    ),
    Option(
        "human-labels",
        "FILE",
        "people's labels of this run's answers, from sample-for-labels",
        is_repeatable=True,
    ),
    Option("html", "FILE", "write the page with gates, charts and answers"),
    Option("redact", "", "show hashes and lengths in place of texts"),
    Option("fresh", "", "ask for everything again, whatever is stored"),
    Option("store", "FILE", "file of stored answers and verdicts"),
    Option("runs", "DIR", "folder of the runs"),
    Option("data", "DIR", "mirror of public data, from `refusal-checks data pull`"),
)


def declare(parser: pytest.Parser) -> None:
    """Declare the configuration keys, and all options for pytest."""
    for name, text in INI.items():
        parser.addini(
            PREFIX + name, f"refusal-checks: {text}", type="paths", default=[]
        )
    group = parser.getgroup("refusal-checks", "release gates on refusal behaviour")
    for option in OPTIONS:
        settings: dict[str, Any] = {"dest": option.dest, "help": option.about}
        if not option.metavar:
            settings.update(action="store_true", default=None)
        else:
            settings["metavar"] = option.metavar
        if option.metavar == "N":
            settings["type"] = _number
        # Two candidates are refused; of most other options, the last one counts.
        if option.is_repeatable or option.name == "candidate":
            settings["action"] = "append"
        group.addoption(f"--refusal-{option.name}", **settings)


def _number(text: str) -> int | str:
    """A whole number; the run file's rules refuse any other text, in their words."""
    try:
        return int(text)
    except ValueError:
        return text


def prefix(config: pytest.Config) -> str:
    """The prefix of option names in this session."""
    return "--" if config.pluginmanager.has_plugin(GATE) else "--refusal-"


def option_values(config: pytest.Config) -> dict[str, Any]:
    """The values of the options that this session has, by name."""
    values: dict[str, Any] = {}
    for option in OPTIONS:
        value = getattr(config.option, option.dest, None)
        if option.is_repeatable and isinstance(value, str):
            value = [value]  # a conftest.py may set one text
        if value is not None:
            values[option.name] = value
    return values
