"""The manifest of a run: models, data, settings, software and hardware. It holds no secrets.

``conditions`` returns what figures depend on besides the candidate.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, field_serializer

from refusal_checks.config.run_spec import SpecTables
from refusal_checks.core.labelling import is_model
from refusal_checks.core.redaction import redacted
from refusal_checks.models.client.usage import Usage
from refusal_checks.models.model_names import RECORDED_LABELS


class _Facts(BaseModel):
    """Base class of the manifest's parts."""

    model_config = ConfigDict(frozen=True)


class ModelFacts(_Facts):
    """A model as ``describe_model`` describes it; ``template`` is the file of a judge's prompt.

    Models with equal fingerprints answer alike: it covers weights, arguments and template.
    """

    version: str = ""
    fingerprint: str = ""
    args: tuple[str, ...] = ()
    files: Mapping[
        str, str
    ] = {}  # sha256 of the files that arguments name, such as a template
    template_kwargs: Mapping[str, Any] = {}
    reasoning_end: str = ""
    judge_reasoning: bool = False
    adapter: str = ""
    template: str | None = None
    # token limit of a judge's verdict, if it is more than the run file says
    max_tokens: int | None = None
    is_classifier: bool = False  # a judge of an extension that writes no text
    remark: str = ""  # what the extension says about its judge
    engine_command: tuple[str, ...] = ()


class Models(_Facts):
    candidate: ModelFacts = ModelFacts()
    judges: Mapping[str, ModelFacts] = {}


class Data(_Facts):
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


class Hardware(_Facts):
    """The machine that the run was started on."""

    platform: str = ""
    cores: int | None = None
    memory_gib: float = 0.0


class LabelsUsed(_Facts):
    """A sheet of people's labels: how many answers were drawn, and how many rows were deleted."""

    file: str = ""
    drawn: int = 0
    deleted: int = 0


class Selection(_Facts):
    """Numbers of gates selected and of gates that the run files define."""

    selected: int = 0
    known: int = 0

    @property
    def left_out(self) -> int:
        return self.known - self.selected


class EnginesUsed(_Facts):
    """Models by how they were reached."""

    started: tuple[str, ...] = ()
    attached: tuple[str, ...] = ()


class Effort(_Facts):
    """Work left when the run started: answers and verdicts to ask for, and stored answers."""

    answers: int = 0
    verdicts: int = 0
    reused: int = 0
    # when the first and the last of the reused answers were stored, as dates in UTC; empty for
    # recorded answers
    stored_from: str = ""
    stored_until: str = ""


class ServerFacts(_Facts):
    """Request fields that a server refuses, and the other model that it says it is, if any."""

    left_out: tuple[str, ...] = ()
    answers_as: str = ""


class Manifest(_Facts):
    """What was run, with what and where; ``extended`` adds facts during the run."""

    # started, finished: times in UTC, in ISO format
    started: str = ""
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
    hardware: Hardware = Hardware()
    human_labels: LabelsUsed | None = None
    store: str = ""
    gates: Selection = Selection()
    # where the engines ran, as ``Placement.describe`` returns it
    placement: Mapping[str, Any] = {}
    engines: EnginesUsed | None = None
    asked: Effort | None = None
    # seconds that the evaluation took, from when the candidate could be asked; the judge's engine
    # may have loaded meanwhile
    evaluation_s: float | None = None
    tokens: Mapping[str, Usage] = {}  # cost by role: candidate, judge
    # by role, then by URL and model
    servers: Mapping[str, Mapping[str, ServerFacts]] = {}
    finished: str = ""
    redacted: bool = False

    @field_serializer("spec")
    def _as_written(self, spec: SpecTables) -> dict[str, Any]:
        return spec.recorded()

    @property
    def judge_sampling(self) -> dict[str, Any]:
        return self.spec.judge.sampling.model_dump(mode="json")

    @property
    def stored(self) -> str:
        """How many answers came from the store, in words; empty if none did."""
        asked = self.asked
        if not asked or not asked.reused or not asked.stored_from:
            return ""
        share = f"{asked.reused} of {asked.reused + asked.answers}"
        if not asked.answers:
            share = f"all {asked.reused}"
        dates = " to ".join(dict.fromkeys((asked.stored_from, asked.stored_until)))
        return f"{share} answers from the store, of {dates}"

    @property
    def misnamed(self) -> list[str]:
        """Lines on names to check: recordings and servers that are, or may be, of another model."""
        lines = []
        if self.spec.candidate.name and self._is_of_another_model:
            lines.append(
                f"check the name of the candidate: this run calls it {self.title}, and "
                f"{self.candidate} says that its answers are of {self.recorded_model}"
            )
        for role, servers in self.servers.items():
            for server, facts in servers.items():
                if facts.answers_as:
                    asked = server.rpartition("#")[2]
                    lines.append(
                        f"check the name of the {role}: the server was asked for {asked} and says "
                        f"that it is {facts.answers_as}"
                    )
        return lines

    @property
    def _is_of_another_model(self) -> bool:
        """True if a recording names another model than the run; folders of names do not count."""
        names = {
            name.rpartition("/")[2].casefold()
            for name in (self.recorded_model, self.title)
        }
        return bool(self.recorded_model) and len(names) > 1

    @property
    def left_out(self) -> list[str]:
        """Lines on what servers refuse and requests leave out; the run goes on without it."""
        lines = []
        for role, servers in self.servers.items():
            settings = self.judge_sampling if role == "judge" else self.sampling
            for server, facts in servers.items():
                refused = list(_settings_refused(facts.left_out, settings))
                if refused:
                    lines.append(
                        f"{role} {server}: {' and '.join(refused)} left out, because the server "
                        "refuses this: its own settings apply"
                    )
        return lines

    @property
    def shown(self) -> str:
        return self.title or self.candidate

    def extended(self, **facts: Any) -> Self:
        """Return this manifest with facts added or replaced; all are validated."""
        unknown = facts.keys() - type(self).model_fields.keys()
        assert not unknown, unknown
        return self.model_validate(dict(self) | facts)

    def judges_of(self, benchmark: str) -> dict[str, ModelFacts]:
        """A benchmark's judges in the panel's order; without a model, the version is the name."""
        names = self.judge_prompts[benchmark]
        return {
            name: self.models.judges.get(name, ModelFacts(version=name))
            for name in names
        }


def _settings_refused(
    names: Iterable[str], settings: Mapping[str, Any]
) -> Iterator[str]:
    """The refused fields that figures depend on, each with its value."""
    for name in names:
        if name == "logprobs" or (name in settings and name != "max_tokens"):
            value = settings.get(name, "")
            # Servers that know no top_k set no limit.
            if name != "top_k" or value:
                yield f"{name} {value}".strip()


def conditions(manifest: Manifest, benchmark: str) -> dict[str, str]:
    """Conditions that a benchmark's figures depend on besides the candidate, by name.

    The seed is left out, because a comparison expects runs to differ by chance.
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
    """One condition per setting; a system prompt is shown by its hash and length."""
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
