"""The manifest of a run: models, data, settings, software and hardware. It holds no secrets.

``conditions`` returns what figures depend on apart from the candidate.
"""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, field_serializer

from refusal_checks.config.run_spec import SpecTables
from refusal_checks.core.labelling import is_model
from refusal_checks.core.redaction import redacted
from refusal_checks.models.model_names import RECORDED_LABELS


class Facts(BaseModel):
    """Base class of the manifest's parts."""

    model_config = ConfigDict(frozen=True)


class ModelFacts(Facts):
    """A model as ``describe_model`` describes it; ``template`` is its judge prompt's file.

    Models with equal fingerprints answer alike. A fingerprint covers weights, arguments and the
    files that they name, not the judge prompt; of a server only URL, model name and settings.
    """

    version: str = ""
    fingerprint: str = ""
    args: tuple[str, ...] = ()
    files: Mapping[
        str, str
    ] = {}  # sha256 of the files that arguments name, such as a template
    template_kwargs: Mapping[str, Any] = {}
    reasoning_end: str = ""
    adapter: str = ""
    template: str | None = None
    # token limit of a judge's verdict, if it is more than the run file says
    max_tokens: int | None = None
    remark: str = ""  # what the extension says about its judge


class Models(Facts):
    candidate: ModelFacts = ModelFacts()
    judges: Mapping[str, ModelFacts] = {}


class Data(Facts):
    """A benchmark's prompts: the digest and number of those evaluated, and their source."""

    revision: str | None = None
    sha256: str = ""
    prompts: int = 0
    # number of prompts without --limit and with a complete recording
    usual: int = 0
    limit: int | None = None
    # the most characters of an answer that its judges are shown
    max_answer_chars: int | None = None
    pinned: bool = True  # other rows would have been refused
    own: bool = False  # a run file describes it, and says what answers should do

    @property
    def is_partial(self) -> bool:
        return self.prompts < self.usual


class LabelsUsed(Facts):
    """A sheet of people's labels: how many answers were drawn, and how many rows were deleted."""

    file: str = ""
    drawn: int = 0
    deleted: int = 0


class Selection(Facts):
    """How many gates were selected, and how many the run files define."""

    selected: int = 0
    known: int = 0

    @property
    def left_out(self) -> int:
        return self.known - self.selected


class Manifest(Facts):
    """What was run, with what and where; built once, when everything the run needs is open."""

    started: str = ""  # time in UTC, in ISO format
    candidate: str = ""
    judge: str = ""
    title: str = ""  # the candidate's short name, the same wherever it lies
    recorded_model: str = ""  # whose answers they are, as a recording says
    models: Models = Models()
    # hash of each judge's prompt, by benchmark and judge
    judge_prompts: Mapping[str, Mapping[str, str]] = {}
    data: Mapping[str, Data] = {}
    spec: SpecTables = SpecTables()
    thresholds: Mapping[str, str] = {}  # sha256 by run file
    # sha256 by who brought the extension: a distribution or a file
    extensions: Mapping[str, str] = {}
    sampling: Mapping[str, Any] = {}
    usual_seed: int = 0  # what the run files say, whatever an option gave
    # from which probability on an answer counts as a refusal; empty if no judge gives any
    judge_thresholds: str = ""
    versions: Mapping[str, str] = {}
    git_commit: str | None = None
    build: str = ""  # address of the CI job that started the run; empty elsewhere
    hardware: str = ""  # platform, cores and memory of the machine that started the run
    human_labels: LabelsUsed | None = None
    store: str = ""
    gates: Selection = Selection()
    redacted: bool = False

    @field_serializer("spec")
    def _as_written(self, spec: SpecTables) -> dict[str, Any]:
        return spec.dump_set_keys()

    @property
    def judge_sampling(self) -> dict[str, Any]:
        return self.spec.judge.sampling.model_dump(mode="json")

    @property
    def shown(self) -> str:
        return self.title or self.candidate

    def judges_of(self, benchmark: str) -> dict[str, ModelFacts]:
        """A benchmark's judges in the panel's order; without a model, the version is the name."""
        names = self.judge_prompts[benchmark]
        return {
            name: self.models.judges.get(name, ModelFacts(version=name))
            for name in names
        }


def conditions(manifest: Manifest, benchmark: str) -> dict[str, str]:
    """Conditions by name that a benchmark's figures depend on, apart from the candidate.

    The seed is left out: a comparison expects runs to differ by chance.
    """
    judges, spec = manifest.judges_of(benchmark), manifest.spec
    data = manifest.data[benchmark]
    facts = {
        "judge": ", ".join(map(_judge, judges.values())),
        "judge prompt": ", ".join(manifest.judge_prompts[benchmark].values()),
    }
    if manifest.judge_thresholds:
        facts["judge thresholds"] = manifest.judge_thresholds
    facts["partial refusals"] = f"counted as {spec.judge.partial}"
    facts["data"] = (
        f"{data.prompts} prompts, sha256 {data.sha256}, revision {data.revision}"
    )
    if spec.candidate.judge_reasoning:
        facts["reasoning"] = "judged"
    labeller = spec.recording.labelled_by
    if is_model(labeller) and RECORDED_LABELS in judges:
        facts["labelled by"] = labeller
    if spec.candidate.filtered != "invalid":
        facts["filtered answers"] = spec.candidate.filtered
    facts |= _sampling("judge", manifest.judge_sampling)
    if manifest.candidate.startswith("replay:"):
        return facts | {"sampling": "recorded answers"}
    return facts | _sampling("sampling", manifest.sampling)


def _sampling(what: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """One condition per setting; a system prompt appears as its hash and length."""
    facts = {}
    for name, value in settings.items():
        if name == "seed" or value in (None, "", (), []):
            continue
        shown = redacted(value) if name == "system_prompt" else value
        facts[f"{what} {name}"] = json.dumps(shown, sort_keys=True)
    return facts


def _judge(model: ModelFacts) -> str:
    """A judge's model and its settings, without the address of its server."""
    url, _, name = model.version.partition("#")
    version = name if url.startswith("http") and name else model.version
    settings: dict[str, Any] = {}
    for key in ("template_kwargs", "reasoning_end", "adapter", "max_tokens"):
        value = getattr(model, key)
        if value:
            settings[key] = value
    return f"{version} {json.dumps(settings, sort_keys=True)}" if settings else version
