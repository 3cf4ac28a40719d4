"""Write the page of a run.

Model output reaches the page as escaped template values, or as JSON that the script shows as text.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from markupsafe import Markup

from refusal_checks.core.prompts import Kind
from refusal_checks.core.text import count, sanitize
from refusal_checks.gates.gate import AllowedRange
from refusal_checks.io.files import write_lines
from refusal_checks.metrics import METRICS
from refusal_checks.metrics.refusal_rates import DECISIVE
from refusal_checks.reports.page import charts, gate_rows
from refusal_checks.reports.page.manifest_facts import facts
from refusal_checks.reports.page.payload import Payload
from refusal_checks.reports.page.render import document, embed
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary
from refusal_checks.wording import failures, gate_sentences
from refusal_checks.wording.release import release_decision
from refusal_checks.wording.remarks import more_remarks, remarks


def write(folder: RunFolder, path: Path) -> None:
    """Write the page of an ended run atomically.

    Raises:
        OSError, DataError: the file cannot be written, or the run's folder is damaged.
    """
    write_lines(path, _document(folder, folder.summary()))


def _document(folder: RunFolder, summary: RunSummary) -> Iterator[str]:
    """The page in parts; the template itself adds what is the same for every run."""
    decision = release_decision(summary)
    candidate = summary.manifest.shown or folder.path.name
    benchmarks, gates = summary.benchmarks, list(summary.verdicts.values())
    names = sorted(benchmarks, key=lambda name: _kind_order(benchmarks[name].kind))
    payloads = [
        Payload(name, benchmarks[name].kind, gates, folder.records(name))
        for name in names
    ]
    for name in sorted(set(folder.benchmarks) - benchmarks.keys()):
        payloads.append(Payload(name, "", gates, folder.records(name)))
    against: Counter[int] = Counter()
    for payload in payloads:
        against.update(payload.against)
    bars = {
        name: list(charts.bars(name, benchmarks[name], [v.gate for v in gates]))
        for name in names
    }
    shapes = [charts.histogram(p.name, p.kind, p.confidences) for p in payloads]
    reasons = [*dict.fromkeys(decision.reasons), decision.stored]
    if decision.answer == "no":  # the first says how many failed: the page lists them
        reasons = [*decision.decisive[1:], decision.stored]
    return document(
        title=f"{candidate}: {decision.headline}",
        candidate=candidate,
        summary=summary,
        answer=decision,
        wrong=[
            gate_sentences.line(v) for v in gate_sentences.worst_first(gates) if v.fails
        ],
        reasons=[reason for reason in reasons if reason],
        notes=[*remarks(summary), *more_remarks(summary)],
        sections=gate_rows.sections(summary),
        # by the numbers that records have for gates
        numbers={
            sanitize(gate): number for number, gate in enumerate(summary.verdicts)
        },
        against=against,
        gates=Markup(  # noqa: S704  # embed() makes it safe
            embed([(name, not v.passed) for name, v in summary.verdicts.items()])
        ),
        payloads=payloads,
        histograms=[shape for shape in shapes if shape],
        radars=charts.radars(benchmarks),
        bars={name: found for name, found in bars.items() if found},
        invalid=sum(sum(each.invalid.values()) for each in benchmarks.values()),
        count=count,
        details=gate_sentences.details,
        drawing=charts.span,
        facts=facts,
        limits=AllowedRange,
        metrics=METRICS,
        moved=failures.moved_prompts,
        needs_attention=gate_rows.needs_attention,
        reasons_of=gate_sentences.reasons,
        tones=gate_rows.TONES,
        bin_tones=charts.TONES,
        decisive=DECISIVE,
    )


def _kind_order(kind: str) -> int:
    """Sort key: benchmarks whose prompts must be refused come first."""
    kinds = [*Kind, kind]
    return kinds.index(kind)
