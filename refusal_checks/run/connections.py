"""Connect to a run's candidate and judges, and check that they suit its prompts."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain

from refusal_checks.config.tables import JudgeTable
from refusal_checks.core.errors import ModelError, UserError
from refusal_checks.core.judgements import WITHHELD, Valid
from refusal_checks.core.text import count, sanitize
from refusal_checks.engines import model_requirements, vllm
from refusal_checks.engines.servers import Servers
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import classifier, kind_of
from refusal_checks.judges.judge import JudgeSetup
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.refusal_rates import disagreement_rate
from refusal_checks.models.candidates import Candidate, OptionScorer, ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.identity import model_identity
from refusal_checks.models.model_files import (
    ClassifierConfig,
    classifier_config,
    writes_reasoning,
)
from refusal_checks.models.model_names import (
    Attached,
    JudgeModel,
    Model,
    Replay,
    Rule,
    Served,
)
from refusal_checks.models.provided_models import Weights
from refusal_checks.models.recordings.recording import Recording, ReplayCandidate
from refusal_checks.run import panels
from refusal_checks.run.inputs import Inputs
from refusal_checks.run.named_models import NamedJudge
from refusal_checks.run.plan import Judges, Plan

Note = Callable[[str], None]
"""Receives one line, for the terminal or as a note on how verdicts came about."""


def require_loadable(inputs: Inputs, say: Note) -> None:
    """Refuse models that their engine cannot load or query, and say why."""
    named: list[tuple[str, Model]] = [("--candidate", inputs.candidate)]
    named += [("--judge", judge.model) for judge in inputs.judges]
    for option, model in named:
        if isinstance(model, Served):
            vllm.require_program(model.program)
            model_requirements.require_files(model, option, say)
            missing = model_requirements.require_template(model, option)
            if missing:
                say(missing)


def make_weights(models: Iterable[Model], say: Note) -> None:
    """Make the weights that extensions make on first use."""
    missing: dict[str, Weights] = {}  # by key: two models may need the same
    for model in models:
        if isinstance(model, Served) and model.weights:
            vllm.require_program(model.program)
            missing[model.weights.key] = model.weights
    for weights in missing.values():
        weights.make(say)


# The candidate.


def connect_candidate(inputs: Inputs, servers: Servers) -> Candidate | None:
    """Connect to the candidate; None for a recording, which is read with the prompts."""
    model, spec = inputs.candidate, inputs.spec
    if isinstance(model, Replay):
        return None
    if isinstance(model, Served) and classifier_config(model):
        raise ModelError(
            f"--candidate {model.name}: a classifier writes no answers; name it with --judge"
        )
    client = servers.connect(model, "--candidate", inputs.sampling, spec.candidate.pace)
    kind = ServedCandidate if spec.multiple_choice.scoring == "text" else OptionScorer
    return kind(
        model.name,
        client,
        inputs.sampling,
        model_identity(model, client.model),
        is_attached=isinstance(model, Attached),
        # Of all gates: those that are left out must not change the keys of stored answers.
        weighs=any(METRICS[gate.metric].weighs for gate in spec.gates),
    )


def use_recording(
    inputs: Inputs,
    recording: Recording,
    plan: Plan,
    judges: Judges,
    say: Note,
    note: Note,
) -> Candidate:
    """Refuse a recording that lacks answers or labels, and say how its prompts differ."""
    has_options = any(prompt.options for prompt in chain.from_iterable(plan.values()))
    if inputs.spec.multiple_choice.scoring == "logprob" and has_options:
        raise ModelError(
            "multiple_choice.scoring=logprob: use multiple_choice.scoring=text; recorded answers "
            "have no probabilities"
        )
    for benchmark, prompts in plan.items():
        recording.require_answers(benchmark, prompts, inputs.redaction.is_on)
        where = f"{recording.path}: {benchmark}"
        for judge in judges[benchmark]:
            if isinstance(judge, LabelsJudge):
                blank = recording.require_labels(benchmark, prompts, judge.knows)
                if blank:
                    say(
                        f"{where}: label every row: {count(blank, 'answer')} without a label will "
                        "be invalid"
                    )
        reworded = recording.find_reworded(prompts)
        if reworded:
            first = ", ".join(sanitize(prompt.id, 60) for prompt in reworded[:3])
            say(
                f"{where}: {len(reworded)} of {len(prompts)} prompts are worded differently there "
                f"(first: {first})"
            )
    if recording.repeats:
        note(f"{recording.path.name}: {recording.repeats}")
    sampling = inputs.sampling
    most = max(len(recording.answers_to(prompt)) for prompt in chain(*plan.values()))
    if "samples" in sampling.model_fields_set and sampling.samples > most:
        note(
            f"{recording.path.name}: samples = {most} is used, not {sampling.samples}: the "
            f"recording has {count(most, 'answer')} a prompt at most"
        )
    return ReplayCandidate(inputs.candidate.name, recording)


def withheld_verdicts(inputs: Inputs, plan: Plan) -> dict[str, Valid]:
    """How answers withheld by a content filter count, by benchmark; see ``Task``."""
    if inputs.spec.candidate.filtered == "invalid":
        return {}
    verdicts: dict[str, Valid] = {}
    for name in plan:
        verdict = WITHHELD.get(kind_of(inputs.benchmarks[name]).judgement_type)
        if verdict:
            verdicts[name] = verdict
    return verdicts


# The judges.


def build_judges(inputs: Inputs, servers: Servers, note: Note) -> Judges:
    """Build the judges of each benchmark and of each check of the judges.

    Raises:
        ModelError: a judge cannot be reached, or cannot judge a benchmark of the run.
    """
    benchmarks, table = inputs.benchmarks, inputs.spec.judge
    judged = {name: benchmarks[name] for name in inputs.benchmark_names}
    checked = None
    if table.minimums:
        # The check alone (-m judge) is for all gates of the run file.
        checked = judged or {name: benchmarks[name] for name in inputs.spec.evaluated}
    named: list[JudgeSetup | Rule] = []
    for number, judge in enumerate(inputs.judges, 1):
        if isinstance(judge.model, Rule):
            named.append(judge.model)
        else:
            client = servers.connect(
                judge.model, "--judge", table.sampling, table.pace, number
            )
            is_live = servers.are_live
            named.append(_setup(table, judge, judge.model, client, note, is_live))
    judges = panels.choose_panels(
        panels.judging_methods(judged, checked, table.max_answer_chars),
        named,
        is_recorded=isinstance(inputs.candidate, Replay),
        partial=table.partial,
    )
    panels.require_decidable(judged, judges)
    setups = [judge for judge in named if isinstance(judge, JudgeSetup)]
    if table.classifier and servers.are_live and not any(one.classes for one in setups):
        raise UserError(
            "leave out [judge.classifier], or name a classifier with --judge: no judge of this run "
            "is one"
        )
    _require_several(inputs.gates, judges)
    return judges


def _require_several(gates: Sequence[Gate], judges: Judges) -> None:
    """Refuse a gate on disagreement unless several judges vote."""
    for gate in gates:
        if gate.metric == disagreement_rate.name and len(judges[gate.benchmark]) == 1:
            raise UserError(
                f"{gate.source}: [{gate.benchmark}] {gate.metric}: give --judge more than once; "
                "it compares several judges"
            )


def _setup(
    table: JudgeTable,
    judge: NamedJudge,
    model: Served | Attached,
    client: Client,
    note: Note,
    is_live: bool,
) -> JudgeSetup:
    """What is needed to ask one model for verdicts."""

    def note_of_judge(line: str) -> None:
        note(f"judge {judge.name}: {line}")

    asked: JudgeModel = model
    is_attached = isinstance(model, Attached)
    if isinstance(model, Attached):
        asked = replace(model, model=client.model)  # the server may have named it
    # A judge that reasons gets more room: else its reasoning would leave none for the verdict.
    sampling = table.sampling
    return JudgeSetup(
        name=judge.name,
        client=client,
        model_identity=model_identity(model, client.model),
        sampling=sampling.of_reasoning if writes_reasoning(asked) else sampling,
        template=judge.template,
        is_attached=is_attached,
        running=is_live and is_attached,
        note=note_of_judge,
        classes=_classes(model, client),
        settings=table,
    )


def _classes(model: Served | Attached, client: Client) -> ClassifierConfig | None:
    """The classes of a judge that is a sequence classifier."""
    if isinstance(model, Attached):
        return ClassifierConfig() if client.classifies else None
    labels = classifier_config(model)
    if labels is None and classifier.find_known_form(model.path):
        labels = ClassifierConfig()
    return labels
