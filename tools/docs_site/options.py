"""The options of a gate run, section by section, as the code declares them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from refusal_checks.evaluation.options import call, command_line, models, recorded
from refusal_checks.evaluation.options.call import INI, PREFIX

from refusal_checks.core import settings
from refusal_checks.plugin.options import Option, Recorder, known
from refusal_checks.reports import formats
from tools.docs_site.markdown import code, sentence, table

DECLARED = {
    "models": models.add,
    "sampling": lambda group: call.declare(group, settings.Sampling),
    "judge-sampling": lambda group: call.declare(group, settings.JudgeSampling, "judge_"),
    "rationales": lambda group: call.declare(group, settings.Writing),
    "cascade": lambda group: call.declare(group, settings.Cascading, "cascade_"),
    "multiple-choice": lambda group: call.declare(group, settings.MultipleChoice, "mcq_"),
    "limits": lambda group: call.declare(group, settings.Limits),
    "replay": recorded.add_replay,
    "trust": command_line.add_trust,
    "batch": recorded.add_batch,
    "placement": models.add_engines,
    "texts": command_line.add_redact,
    "reports": formats.add,
}
"""What declares the options of each section; the section ``run`` holds all others."""

_SORTS = {"paths": "a path, or several", "args": "a name, or several"}


def sections() -> dict[str, list[Option]]:
    """Every option, by section."""
    found = {name: _recorded(add) for name, add in DECLARED.items()}
    placed = {option.name for options in found.values() for option in options}
    return found | {"run": [option for option in known() if option.name not in placed]}


def as_table(options: Iterable[Option]) -> str:
    """The options, with what they take and mean."""
    rows = ((_call(option), _meaning(option.settings)) for option in options)
    return table(("option", "meaning"), rows)


def keys() -> str:
    """The keys of a repository's pytest configuration."""
    rows = ((code(PREFIX + key), _SORTS[kind], sentence(text)) for key, (kind, text) in INI.items())
    return table(("key", "takes", "meaning"), rows)


def _recorded(add: Any) -> list[Option]:
    recorder = Recorder()
    add(recorder)
    return recorder.options


def _call(option: Option) -> str:
    choices = option.settings.get("choices")
    value = "{" + ",".join(choices) + "}" if choices else option.settings.get("metavar", "")
    return code(f"{option.name} {value}".strip())


def _meaning(declared: Mapping[str, Any]) -> str:
    text = sentence(declared["help"])
    return "; ".join([text, *_rest(declared, text)])


def _rest(declared: Mapping[str, Any], text: str) -> Iterator[str]:
    """What the declaration says and the help does not."""
    default = declared.get("default")
    if default not in (None, "", False) and f"{default})" not in text:
        yield f"default: {default}"
    told = ("repeatable", "several times", "once for")
    if declared.get("action") == "append" and not any(word in text for word in told):
        yield "repeatable"
