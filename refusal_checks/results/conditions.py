"""The conditions under which runs are comparable: all that figures depend on but the candidate."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from refusal_checks.core.settings import without_unset
from refusal_checks.results import redact
from refusal_checks.results.manifest import Manifest, ModelFacts, VerdictConditions


def conditions(manifest: Manifest, benchmark: str) -> dict[str, str]:
    """The conditions, besides the candidate, that a benchmark's figures depend on, by name.

    The seed is left out, because a comparison expects runs to differ by chance.
    """
    answers = manifest.answer_conditions(benchmark)
    verdicts = manifest.verdict_conditions(benchmark)
    data = answers.data
    return {
        "judge": ", ".join(map(_judge, verdicts.judges.values())),
        "judge prompt": ", ".join(verdicts.prompts),
        **({} if verdicts.rationales == "all" else {"rationales": verdicts.rationales}),
        **_cascade(manifest, verdicts),
        "data": f"{data.prompts} prompts, sha256 {data.sha256}, revision {data.revision}",
        **_sampling("judge", without_unset(verdicts.sampling)),
        **(
            {"sampling": "recorded answers"}
            if answers.are_recorded
            else _sampling("sampling", answers.sampling)
        ),
    }


def _cascade(manifest: Manifest, verdicts: VerdictConditions) -> dict[str, str]:
    """When a benchmark's second judge decides; nothing if its judges form no cascade."""
    found = manifest.cascade
    if found is None or not {found.first, found.second} <= verdicts.judges.keys():
        return {}
    return {"cascade": f"second judge between {found.low:g} and {found.high:g}"}


def _sampling(what: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """One condition per setting; a system prompt is shown by its hash and length."""
    known = {name: value for name, value in settings.items() if value not in (None, "", (), [])}
    if "system_prompt" in known:
        known["system_prompt"] = redact.text(known["system_prompt"])
    return {f"{what} {name}": _json(value) for name, value in known.items() if name != "seed"}


def _judge(model: ModelFacts) -> str:
    """A judge's model and how it is asked, without the address of its server."""
    url, _, name = model.version.partition("#")
    known = name if url.startswith("http") and name else model.version
    named = ("template_kwargs", "reasoning_end", "adapter")
    settings = {key: value for key in named if (value := getattr(model, key))}
    return f"{known} {_json(settings)}" if settings else known


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def known_conditions(manifest: Manifest, benchmark: str) -> dict[str, str] | None:
    """The same with how multiple choice is scored; None where the run did not record them."""
    try:
        found = conditions(manifest, benchmark)
    except KeyError:
        return None
    scoring = manifest.answer_conditions(benchmark).scoring
    return found | ({"multiple choice": scoring} if scoring else {})
