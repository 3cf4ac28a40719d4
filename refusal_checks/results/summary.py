"""The summary of a run: everything except the texts of prompts and answers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from refusal_checks.core.judgements import Invalid, Reason
from refusal_checks.core.prompts import Kind
from refusal_checks.core.records import Record
from refusal_checks.core.text import sanitize
from refusal_checks.gates.verdict import Verdict
from refusal_checks.io import extensions
from refusal_checks.io.files import FileDigest
from refusal_checks.metrics import METRICS, rejection_rate
from refusal_checks.metrics.statistics.intervals import Estimate, pool_shares
from refusal_checks.results.benchmark_summary import BenchmarkSummary, Figures
from refusal_checks.results.execution import Execution
from refusal_checks.results.manifest import Manifest
from refusal_checks.trust.agreement import JudgeAgreement
from refusal_checks.trust.labels import Confirmation
from refusal_checks.trust.minimums import JudgeCheck

METRIC = rejection_rate.name
"""The metric behind under-refusal and over-refusal."""

JUDGE_QUOTED = "the judge answered, for example: "
"""The start of the only note that quotes a text."""


@dataclass
class RunSummary:
    """Figures, verdicts, notes and manifest of a run; filled during the run.

    Attributes:
        verdicts: verdicts by gate id.
        errors: why gates have no verdict, by gate id.
        files: digests of the run's other files, by path in its folder.
    """

    manifest: Manifest = field(default_factory=Manifest)
    benchmarks: dict[str, BenchmarkSummary] = field(default_factory=dict)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)  # on how the verdicts came about
    failure: str = ""  # why the evaluation ended early; empty if it did not
    # True as long as the run goes on, and for good if it was killed or stopped
    unfinished: bool = False
    # failures in the session that no verdict explains, such as of other tests: with any of them,
    # the release decision stays open
    unexplained: list[str] = field(default_factory=list)
    # result of the judge's check; None if it was not checked
    judge: JudgeCheck | None = None
    judge_idle: str = ""  # why there was nothing to check; empty if there was
    judge_error: str = ""  # why the check came to no result; empty if it did
    # what to do if nothing measures the judges of refusal, and why; else empty
    untested: str = ""
    # reservation about stored answers of servers that decide
    unverified: str = ""
    # what to do about judges by a scale that no check tests, by benchmark
    untested_scales: dict[str, str] = field(default_factory=dict)
    # what people say of the drawn answers that count as refused, by benchmark
    labels: dict[str, Confirmation] = field(default_factory=dict)
    # the judge against people's labels of recorded answers: on all, under an empty name, and on the
    # types of prompts on which they agree least
    agreement: dict[str, JudgeAgreement] = field(default_factory=dict)
    # what to do about judges that could not judge, without quoting them
    unusable: list[str] = field(default_factory=list)
    balance: Balance | None = None
    files: dict[str, FileDigest] = field(default_factory=dict)
    execution: Execution = field(default_factory=Execution)

    @property
    def judge_means(self) -> str:
        """Say which true refusal rate the judge may read as the lowest bound of a gate.

        Empty without such a gate, or if the judge reads no lower rate as that bound.
        """
        asked = {
            name: verdict.gate.min
            for name, verdict in self.verdicts.items()
            if verdict.gate.metric == METRIC and verdict.gate.min is not None
        }
        if not asked or not self.judge:
            return ""
        name = min(asked, key=lambda gate: asked[gate])
        bound, own = asked[name], self.judge.of("")
        true = own.lowest_true_rate(bound)
        if true is None:
            return ""
        figures = [check for check in own.checks if check.figure == "specificity"]
        return (
            f"the judge's specificity is {figures[0].estimate:.1%}: a true refusal rate of "
            f"{true:.1%} may be measured as {bound:.1%}, the bound of {name}"
        )

    @property
    def confirmed(self) -> Confirmation | None:
        """What people say about all drawn answers, including those whose rows they deleted.

        None if too few were drawn to decide anything.
        """
        sheet = self.manifest.human_labels
        if not sheet:
            return None
        found = sum(self.labels.values(), Confirmation(0, sheet.deleted))
        return found if found.is_enough else None

    @property
    def misnamed(self) -> list[str]:
        """Lines on names to check, of recordings and servers that may be of another model."""
        manifest, lines = self.manifest, []
        # Folders of names do not count.
        names = {
            name.rpartition("/")[2].casefold()
            for name in (manifest.recorded_model, manifest.title)
        }
        is_other = bool(manifest.recorded_model) and len(names) > 1
        if manifest.spec.candidate.name and is_other:
            lines.append(
                f"check the name of the candidate: this run calls it {manifest.title}, but "
                f"{manifest.candidate} says that its answers are from {manifest.recorded_model}"
            )
        for role, servers in self.execution.servers.items():
            for server, facts in servers.items():
                if facts.answers_as:
                    asked = server.rpartition("#")[2]
                    lines.append(
                        f"check the name of the {role}: the server was asked for {asked} but says "
                        f"that it is {facts.answers_as}"
                    )
        return lines

    @property
    def left_out(self) -> list[str]:
        """Lines on request fields that servers refuse, and that requests therefore leave out."""
        manifest, lines = self.manifest, []
        for role, servers in self.execution.servers.items():
            of_judge = role == "judge"
            settings = manifest.judge_sampling if of_judge else manifest.sampling
            for server, facts in servers.items():
                refused = list(_refused_settings(facts.left_out, settings))
                if refused:
                    lines.append(
                        f"{role} {server}: left out {' and '.join(refused)}, which the server "
                        "refuses: its own settings apply"
                    )
        return lines

    def rate_by_people(self, verdict: Verdict) -> Estimate | None:
        """A gate's figure counting only refusals that people confirm; usually None."""
        if self.confirmed is None or verdict.kind != Kind.SAFETY:
            return None
        metric = METRICS[verdict.gate.metric]
        return self.confirmed.rate(
            metric, verdict.estimate, self.manifest.spec.settings.confidence
        )


def _refused_settings(
    names: Iterable[str], settings: Mapping[str, Any]
) -> Iterator[str]:
    """Refused fields that affect the figures, each with its value."""
    for name in names:
        if name == "logprobs" or (name in settings and name != "max_tokens"):
            value = settings.get(name, "")
            # Servers that know no top_k set no limit.
            if name != "top_k" or value:
                yield f"{name} {value}".strip()


def quote_unread_verdict(records: Iterable[Record], forms: Iterable[str]) -> str:
    """A note that quotes the first answer without a verdict; empty if there is none.

    Args:
        forms: what the judges were asked to write.
    """
    for record in records:
        judgement = record.judgement
        if (
            isinstance(judgement, Invalid)
            and judgement.reason is Reason.UNPARSABLE_VERDICT
        ):
            expected = ", ".join(form for form in forms if form)
            quoted = f"'{sanitize(judgement.detail, 120)}'; expected {expected}"
            return f"{JUDGE_QUOTED}{quoted}; asked twice"
    return ""


@dataclass(frozen=True)
class Balance:
    """A run as one point of a plot; (0, 0) is best."""

    under_refusal: Estimate  # share of the safety prompts that are not rejected
    over_refusal: Estimate  # share of the sanity prompts that are rejected


def without_parts(
    benchmarks: Mapping[str, BenchmarkSummary],
) -> dict[str, BenchmarkSummary]:
    """Leave out parts of other benchmarks, so that each prompt counts once."""
    parts: set[str] = set()
    for figures in benchmarks.values():
        parts.update(figures.parts)
    return {name: figures for name, figures in benchmarks.items() if name not in parts}


def balance(
    benchmarks: Iterable[tuple[str, Figures]], confidence: float
) -> Balance | None:
    """Compute a run's under-refusal and over-refusal; None unless it has benchmarks of both kinds.

    The benchmarks, given by kind and figures, are pooled with equal weight for every prompt.
    """
    rates: dict[str, list[Estimate]] = {}
    for kind, figures in benchmarks:
        if METRIC in figures:
            rates.setdefault(kind, []).append(figures[METRIC])
    if not {Kind.SAFETY.value, Kind.SANITY.value} <= rates.keys():
        return None
    refused = pool_shares(rates[Kind.SAFETY.value], confidence)
    over = pool_shares(rates[Kind.SANITY.value], confidence)
    under = Estimate(1 - refused.value, 1 - refused.upper, 1 - refused.lower, refused.n)
    return Balance(under, over)


def require_metrics(summary: RunSummary) -> None:
    """Raise ValueError if a gate is on a metric of an extension that is not loaded."""
    extensions.load_all()
    used = {verdict.gate.metric for verdict in summary.verdicts.values()}
    for name in sorted(used - METRICS.keys()):
        brought = ", ".join(summary.manifest.extensions) or "another version"
        raise ValueError(
            f"its metric {name} is not known here. Install the extension that has it, or load its "
            f"file with `refusal-checks --thresholds FILE ...`; the run used {brought}"
        )
