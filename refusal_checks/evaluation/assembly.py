"""The parts of a run, built from what it is told: prompts, candidate, judges and servers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from refusal_checks.core.errors import (
    ModelError,
    UserError,
)
from refusal_checks.core.settings import Cascading, ClassifierForm
from refusal_checks.core.text import clean
from refusal_checks.engines import kinds, needs
from refusal_checks.engines.kinds import require_program
from refusal_checks.engines.servers import Servers
from refusal_checks.evaluation.config import (
    CandidateConfig,
    JudgeConfig,
    NamedJudge,
    RunConfig,
    changed,
)
from refusal_checks.evaluation.loading import load_prompts
from refusal_checks.evaluation.planning import Judges, Plan
from refusal_checks.gates.gate import Gate
from refusal_checks.judges import cascade, classifier, panel
from refusal_checks.judges.judge import JudgeSetup
from refusal_checks.judges.panel import JudgingMethod
from refusal_checks.judges.rules import LabelsJudge
from refusal_checks.metrics.refusal import disagreement_rate
from refusal_checks.models.candidates import Candidate, OptionScorer, ServedCandidate
from refusal_checks.models.client.client import Client
from refusal_checks.models.client.probing import try_prefill
from refusal_checks.models.identity import model_identity
from refusal_checks.models.model_files import Classes, classes
from refusal_checks.models.names import Attached, Model, Replay, Rule, Served
from refusal_checks.models.recordings.recording import Recording, ReplayCandidate
from refusal_checks.models.token_files import special_tokens

Note = Callable[[str], None]
"""Takes one line: for the terminal, or about how the verdicts came about."""


class Parts(NamedTuple):
    """The parts of a run; nothing is started yet. See ``Loaded`` for what comes from there."""

    plan: Plan
    candidate: Candidate
    judges: Judges
    engines: Servers
    left_out: Mapping[str, int] = MappingProxyType({})
    usual: Mapping[str, int] = MappingProxyType({})


def assemble(
    config: RunConfig, gates: Sequence[Gate], engines: Servers, say: Note, note: Note
) -> Parts:
    """Load and check everything that a run needs; notes say how verdicts came about."""
    known, model = config.benchmarks, config.answering.model
    attacked = next((gate for gate in gates if known[gate.benchmark].attack), None)
    if isinstance(model, Replay) and attacked:
        raise UserError(
            f'{model.name}: deselect {attacked.id} and others under attack (-m "not attack"), '
            "or name a model: recorded answers were given to plain prompts"
        )
    if engines.are_live:
        _require_loadable("--candidate", model, say)
        for judge in config.judging.models:
            _require_loadable("--judge", judge, say)
    loaded = load_prompts(
        gates,
        known,
        config.mirror,
        config.multiple_choice,
        config.answering,
        note,
        redact=config.redact,
    )
    plan, recording = loaded.plan, loaded.recording
    scoring = config.multiple_choice.scoring
    if recording:
        candidate = _replayed(
            model.name, recording, plan, scoring, say, redact=config.redact
        )
    else:
        candidate = _served(config.answering, scoring, engines, plan, note)
    names = dict.fromkeys([*plan, *(gate.benchmark for gate in gates)])
    ways = panel.ways({name: known[name] for name in names}, bool(config.trust.floors))
    form, is_recorded = config.trust.form, recording is not None
    judges = judge_panels(config.judging, ways, engines, note, is_recorded, form)
    require_cascade(config.judging.cascade, ways, judges)
    for name, prompts in plan.items():
        if recording and any(isinstance(judge, LabelsJudge) for judge in judges[name]):
            recording.require_labels(name, prompts)
    _require_several(gates, judges)
    if config.limits.stop_early and any(map(cascade.of, judges.values())):
        raise UserError(
            "judges in a cascade: leave out --stop-early, because the second judge's sample is one "
            "of whole benchmarks"
        )
    return Parts(plan, candidate, judges, engines, loaded.left_out, loaded.usual)


def _require_several(gates: Sequence[Gate], judges: Judges) -> None:
    """Refuse a gate on disagreement where one judge, or two of a cascade, decide."""
    for gate in gates:
        if gate.metric != disagreement_rate.name:
            continue
        named = f"{gate.source}: [{gate.benchmark}] {gate.metric}"
        if len(judges[gate.benchmark]) == 1:
            raise UserError(
                f"{named}: give --judge more than once; it compares several judges"
            )
        if cascade.of(judges[gate.benchmark]):
            raise UserError(
                f"{named}: name a third --judge, so that each reads every answer: beside bundled "
                "a second one reads only some"
            )


def _require_loadable(option: str, model: Model, say: Note) -> None:
    """Refuse a model that its engine could not load or ask; say what may be in its way."""
    if isinstance(model, Served):
        missing = needs.require_template(model, option)
        if missing:
            say(missing)


def convert(models: Iterable[Model], say: Note) -> None:
    wanted = [
        model for model in models if isinstance(model, Served) and model.conversion
    ]
    for model in wanted:
        require_program(kinds.get(model.engine), model.program)
    for conversion in dict.fromkeys(model.conversion for model in wanted):
        if conversion:
            conversion.make(say)


# The candidate.


def _served(
    answering: CandidateConfig, scoring: str, engines: Servers, plan: Plan, note: Note
) -> Candidate:
    model = answering.model
    assert not isinstance(model, Replay), "recorded answers are read, not served"
    if isinstance(model, Served) and classes(model):
        raise ModelError(
            f"--candidate {model.name}: a classifier writes no answers; name it with --judge"
        )
    client = engines.connect(model, "--candidate", answering.number)
    continues = any(
        prompt.is_continued for prompts in plan.values() for prompt in prompts
    )
    if continues and engines.are_live and isinstance(model, Attached):
        try_prefill(client)
    identity = model_identity(model, client.model)
    kind = ServedCandidate if scoring == "text" else OptionScorer
    is_attached = engines.are_live and isinstance(model, Attached)
    served = kind(
        model.name, client, answering.sampling, identity, is_attached=is_attached
    )
    lacking = client.capabilities.missing(*(["prefill"] if continues else []))
    for line in (*served.remarks, *lacking.values()):
        note(f"candidate {model.name}: {line}")
    return served


def _replayed(
    name: str,
    recording: Recording,
    plan: Plan,
    scoring: str,
    say: Note,
    *,
    redact: bool,
) -> Candidate:
    if scoring == "logprob" and any(
        p.options for prompts in plan.values() for p in prompts
    ):
        raise ModelError(
            "multiple_choice.scoring=logprob: use multiple_choice.scoring=text; recorded answers "
            "have no probabilities"
        )
    for benchmark, prompts in plan.items():
        recording.require(benchmark, prompts, redact)
        where = f"{recording.path}: {benchmark}"
        if reworded := recording.reworded(prompts):
            first = ", ".join(clean(prompt_id, 60) for prompt_id in reworded[:3])
            say(
                f"{where}: {len(reworded)} of {len(prompts)} prompts are worded differently there "
                f"(first: {first})"
            )
        if unsent := sum(
            one.never_asked for p in prompts for one in recording.answers(p)
        ):
            say(
                f"{where}: {unsent} attacks were given up and nothing was sent: --judge labels "
                "counts them as their label says; for any other judge they are invalid"
            )
    return ReplayCandidate(name, recording)


# The judges.


def judge_panels(
    judging: JudgeConfig,
    ways: Mapping[str, JudgingMethod],
    engines: Servers,
    note: Note,
    is_recorded: bool,
    form: ClassifierForm | None = None,
) -> Judges:
    """The judges that ``--judge`` names, by what they judge; recorded answers may have labels."""

    def setup(number: int, judge: NamedJudge) -> JudgeSetup | Rule:
        model = judge.model
        if isinstance(model, Rule):
            return model
        client = engines.connect(model, "--judge", number)
        return JudgeSetup(
            name=judge.name,
            client=client,
            model_identity=model_identity(model, client.model),
            sampling=judging.sampling_of(judge),
            template=judge.template,
            running=engines.are_live and isinstance(model, Attached),
            note=lambda line: note(f"judge {judge.name}: {line}"),
            special_tokens=special_tokens(model),
            classes=_classes(model, client),
            form=form,
            cascade=judging.cascade,
            rationales=judging.rationales,
        )

    named = [setup(number, judge) for number, judge in enumerate(judging.judges, 1)]
    return panel.panels(ways, named, is_recorded)


def require_cascade(
    given: Cascading, ways: Mapping[str, JudgingMethod], judges: Judges
) -> None:
    """Refuse settings of a cascade where no two judges form one."""
    of_refusal = [judges[name] for name, way in ways.items() if way.judges_refusal]
    if of_refusal and not any(map(cascade.of, of_refusal)):
        for name, value in changed(given):
            raise UserError(
                f"judge.cascade.{name}={value}: leave it out, or give --judge twice, bundled or a "
                "classifier and a model: it says when the model is asked"
            )


def _classes(model: Served | Attached, client: Client) -> Classes | None:
    """Of a judge that is a sequence classifier, on an engine that can serve one."""
    if isinstance(model, Attached):
        return Classes() if client.classifies else None
    found = classes(model) or (Classes() if classifier.known(model.path) else None)
    engine = kinds.get(model.engine)
    if found and not engine.classifies:
        raise ModelError(
            f"--judge {model.name}: use --engine vllm: {engine.title} cannot serve a classifier"
        )
    return found
