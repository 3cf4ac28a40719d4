"""Build a run's prompts, candidate and judges from its configuration."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple

from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.text import clean, count
from refusal_checks.core.verdicts import WITHHELD, Valid
from refusal_checks.engines import needs, vllm
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation.config import (
    JudgeConfig,
    NamedJudge,
    RunConfig,
)
from refusal_checks.evaluation.loading import Loaded, load_prompts
from refusal_checks.evaluation.planning import Judges, Plan
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import classifier, kind_of, panel
from refusal_checks.judges.judge import JudgeSetup
from refusal_checks.judges.panel import JudgingMethod
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.metrics.refusal import disagreement_rate
from refusal_checks.models.candidates import Candidate, OptionScorer, ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.identity import model_identity
from refusal_checks.models.model_files import Classes, classes
from refusal_checks.models.names import (
    Attached,
    JudgeModel,
    Model,
    Replay,
    Rule,
    Served,
)
from refusal_checks.models.provided import Weights
from refusal_checks.models.recordings.recording import Recording, ReplayCandidate

Note = Callable[[str], None]
"""Receives one line, for the terminal or as a note on how verdicts came about."""


class Assembly(NamedTuple):
    """A run's prompts, candidate and judges; nothing has started yet.

    Attributes:
        withheld: see ``Task``.
    """

    loaded: Loaded
    candidate: Candidate
    judges: Judges
    withheld: Mapping[str, Valid]


def assemble(
    config: RunConfig, gates: Sequence[Gate], servers: Servers, say: Note, note: Note
) -> Assembly:
    """Check models and judges, then load the prompts; add notes on how verdicts come about.

    Data comes last: what else is wrong is said even where the data is missing.

    Raises:
        UserError: a file cannot be read, or two of the run's settings do not go together.
    """
    if servers.are_live:
        require_loadable(config, say)
    candidate = connect_candidate(config, servers)
    judges = build_judges(config, gates, servers, note)
    loaded = load(config, gates, note)
    if loaded.recording:
        candidate = _recorded(config, loaded.recording, loaded.plan, judges, say, note)
    assert candidate
    return Assembly(loaded, candidate, judges, _withheld(config, loaded.plan))


def load(config: RunConfig, gates: Sequence[Gate], note: Note) -> Loaded:
    """Load the prompts of a run, and its recording if it has one."""
    return load_prompts(
        gates,
        config.measured,
        config.benchmarks,
        config.mirror,
        config.multiple_choice,
        config.answering,
        note,
        redact=config.redact,
    )


def _withheld(config: RunConfig, plan: Plan) -> dict[str, Valid]:
    """How answers count that a content filter withheld, by benchmark; see ``Task``."""
    if config.answering.filtered == "invalid":
        return {}
    verdicts: dict[str, Valid] = {}
    for name in plan:
        verdict = WITHHELD.get(kind_of(config.benchmarks[name]).verdicts)
        if verdict:
            verdicts[name] = verdict
    return verdicts


def build_judges(
    config: RunConfig, gates: Sequence[Gate], servers: Servers, note: Note
) -> Judges:
    """Build the judges of each benchmark and of each check of the judges."""
    names = dict.fromkeys([*(gate.benchmark for gate in gates), *config.measured])
    judged = {name: config.benchmarks[name] for name in names}
    checked = None
    if config.trust.floors:
        # The check alone (-m judge) is for all gates of the run file.
        checked = judged or {name: config.benchmarks[name] for name in config.evaluated}
    usual = config.judging.sampling.max_answer_chars
    ways = panel.ways(judged, checked, usual)
    is_recorded = isinstance(config.answering.model, Replay)
    judges = judge_panels(config.judging, ways, servers, note, is_recorded)
    panel.require_decidable(judged, judges)
    _require_several(gates, judges)
    return judges


def _require_several(gates: Sequence[Gate], judges: Judges) -> None:
    """Refuse a gate on disagreement unless several judges vote."""
    for gate in gates:
        if gate.metric == disagreement_rate.name and len(judges[gate.benchmark]) == 1:
            raise UserError(
                f"{gate.source}: [{gate.benchmark}] {gate.metric}: give --judge more than once; "
                "it compares several judges"
            )


def require_loadable(config: RunConfig, say: Note) -> None:
    """Refuse models that their engine cannot load or query, and say why."""
    named: list[tuple[str, Model]] = [("--candidate", config.answering.model)]
    named += [("--judge", model) for model in config.judging.models]
    for option, model in named:
        if isinstance(model, Served):
            vllm.require_program(model.program)
            needs.require_files(model, option, say)
            missing = needs.require_template(model, option)
            if missing:
                say(missing)


def convert(models: Iterable[Model], say: Note) -> None:
    """Make each set of weights that an extension makes on first use."""
    missing: dict[str, Weights] = {}
    for model in models:
        if isinstance(model, Served) and model.weights:
            vllm.require_program(model.program)
            missing[model.weights.key] = model.weights
    for weights in missing.values():
        weights.make(say)


# The candidate.


def connect_candidate(config: RunConfig, servers: Servers) -> Candidate | None:
    """Connect to the candidate; None for a recording, which is read with the prompts."""
    answering = config.answering
    model = answering.model
    if isinstance(model, Replay):
        return None
    if isinstance(model, Served) and classes(model):
        raise ModelError(
            f"--candidate {model.name}: a classifier writes no answers; name it with --judge"
        )
    client = servers.connect(model, "--candidate")
    is_attached = isinstance(model, Attached)
    is_text = config.multiple_choice.scoring == "text"
    kind = ServedCandidate if is_text else OptionScorer
    return kind(
        model.name,
        client,
        answering.sampling,
        model_identity(model, client.model),
        is_attached=is_attached,
        weighs=answering.weighs,
    )


def _recorded(
    config: RunConfig,
    recording: Recording,
    plan: Plan,
    judges: Judges,
    say: Note,
    note: Note,
) -> Candidate:
    """Refuse a recording that lacks answers or labels, and say how its prompts differ."""
    has_options = any(prompt.options for prompt in chain.from_iterable(plan.values()))
    if config.multiple_choice.scoring == "logprob" and has_options:
        raise ModelError(
            "multiple_choice.scoring=logprob: use multiple_choice.scoring=text; recorded answers "
            "have no probabilities"
        )
    for benchmark, prompts in plan.items():
        recording.require(benchmark, prompts, config.redact)
        where = f"{recording.path}: {benchmark}"
        for judge in judges[benchmark]:
            if isinstance(judge, LabelsJudge):
                blank = recording.require_labels(benchmark, prompts, judge.knows)
                if blank:
                    say(
                        f"{where}: label every row: {count(blank, 'answer')} without a label will "
                        "be invalid"
                    )
        reworded = recording.reworded(prompts)
        if reworded:
            first = ", ".join(clean(prompt.id, 60) for prompt in reworded[:3])
            say(
                f"{where}: {len(reworded)} of {len(prompts)} prompts are worded differently there "
                f"(first: {first})"
            )
    if recording.repeats:
        note(f"{recording.path.name}: {recording.repeats}")
    sampling = config.answering.sampling
    most = max(len(recording.answers(prompt)) for prompt in chain(*plan.values()))
    if "samples" in sampling.model_fields_set and sampling.samples > most:
        say(
            f"{recording.path}: it has {count(most, 'answer')} a prompt, whatever "
            f"sampling.samples = {sampling.samples} says"
        )
    return ReplayCandidate(config.answering.model.name, recording)


# The judges.


def judge_panels(
    judging: JudgeConfig,
    ways: Mapping[str, JudgingMethod],
    servers: Servers,
    note: Note,
    is_recorded: bool,
) -> Judges:
    """Build the judges that ``--judge`` names, by what they judge.

    Args:
        ways: how each benchmark is judged.
        is_recorded: answers come from a recording, which may have labels.
    """
    named: list[JudgeSetup | Rule] = []
    for number, judge in enumerate(judging.judges, 1):
        if isinstance(judge.model, Rule):
            named.append(judge.model)
        else:
            client = servers.connect(judge.model, "--judge", number)
            setup = _setup(
                judging, judge, judge.model, client, note, are_live=servers.are_live
            )
            named.append(setup)
    return panel.panels(ways, named, is_recorded, judging.partial)


def _setup(
    judging: JudgeConfig,
    judge: NamedJudge,
    model: Served | Attached,
    client: Client,
    note: Note,
    *,
    are_live: bool,
) -> JudgeSetup:
    """Settings with which one model is asked for verdicts."""

    def note_of_judge(line: str) -> None:
        note(f"judge {judge.name}: {line}")

    asked: JudgeModel = model
    is_attached = isinstance(model, Attached)
    if isinstance(model, Attached):
        asked = replace(model, model=client.model)  # the server may have named it
    return JudgeSetup(
        name=judge.name,
        client=client,
        model_identity=model_identity(model, client.model),
        sampling=judging.sampling_of(asked),
        template=judge.template,
        is_attached=is_attached,
        running=are_live and is_attached,
        note=note_of_judge,
        classes=_classes(model, client),
        form=judging.form,
        thresholds=judging.thresholds,
        rationales=judging.rationales,
    )


def _classes(model: Served | Attached, client: Client) -> Classes | None:
    """The classes of a judge that is a sequence classifier."""
    if isinstance(model, Attached):
        return Classes() if client.classifies else None
    labels = classes(model)
    if labels is None and classifier.known(model.path):
        labels = Classes()
    return labels
