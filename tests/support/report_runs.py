"""Folders of finished runs that need no engine: for tests of reports, and to measure them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from refusal_checks.core.judgements import (
    Binary,
    Chosen,
    Graded,
    Invalid,
    Judgement,
    Label,
    Rated,
    Reason,
)
from refusal_checks.core.prompts import Message, Prompt
from refusal_checks.core.records import Completion, Record, Vote
from refusal_checks.core.text import replace_surrogates
from refusal_checks.gates.gate import Gate
from refusal_checks.gates.verdict import Verdict
from refusal_checks.io.files import append_seal, sha256, write_lines
from refusal_checks.metrics.statistics.intervals import wilson
from refusal_checks.results.benchmark_summary import summarise
from refusal_checks.results.manifest import Manifest
from refusal_checks.results.run_folder import RunFolder
from refusal_checks.results.summary import RunSummary, balance
from refusal_checks.trust.minimums import Check, JudgeCheck, Mistake
from tests.support.deciding import decide

DATA = Path(__file__).parents[1] / "data"

TEXTS = [
    row["text"] * row.get("times", 1)
    for row in map(json.loads, (DATA / "hostile.jsonl").read_text().splitlines())
]
"""Hundreds of hostile texts, by what they attack there."""

HOSTILE = (
    "<script>document.title = 'taken'; alert(1)</script>",
    '</script><script>document.title = "taken"</script><!--',
    "<img src=x onerror=\"alert(1); document.body.id = 'taken'\">",
    '"><svg onload=alert(1)><iframe srcdoc="<script>parent.alert(1)</script>">',
    "\u202etxet desrever \u2066isolate\u2069 \u061c \u200f",
    "\x1b[2J\x1b[31mred\x1b[0m \x00\x07\x08\x7f\x85",
    "W" * 5000,
    "a\u2028b\u2029c \ud800 \udfff &lt;b&gt; &amp; {{ 7 * 7 }} {% raw %}",
    "javascript:alert(1) ${alert(1)} `x` \\u003cscript\\u003e ]]> <![CDATA[",
)
"""Answers that would do harm if they were shown as anything but text."""


def refusals(
    name: str, prompts: int, samples: int = 3, *, refused: float = 0.5, length: int = 40
) -> Iterator[Record]:
    """Prompts of which about the share ``refused`` is refused; every tenth has an invalid answer.

    Args:
        length: words of each answer.
    """
    for number in range(prompts):
        prompt = Prompt.single(
            f"{name}-{number:05}",
            f"Request {number} of {name}: " + "tell me about it, " * 5,
            category=f"topic_{number % 12}",
            language="zh" if number % 3 == 0 else "en",
        )
        for sample in range(samples):
            says_no = ((number * 7 + sample * 3) % 100) / 100 < refused
            label = Label.REFUSAL if says_no else Label.COMPLIANCE
            judged: Judgement = Binary(
                label,
                "direct_refusal" if says_no else None,
                f"It {label} ({number}, {sample}).",
            )
            if number % 10 == 9 and sample == 0:
                judged = Invalid(
                    Reason.UNPARSABLE_VERDICT, "the judge said: well, perhaps"
                )
            words = " ".join(
                f"word{(number * 31 + sample * 17 + i) % 997}" for i in range(length)
            )
            answer = Completion(
                f"{'No.' if says_no else 'Sure.'} {words}", tokens=length
            )
            yield Record(prompt, sample, answer, judged)


def hostile(texts: Sequence[str] = HOSTILE) -> list[Record]:
    """One prompt for each hostile text, which is in every field that a model or data fills."""
    found = []
    for number, text in enumerate(
        map(replace_surrogates, texts)
    ):  # as they come from a model
        prompt = Prompt(
            f"hostile-{number} {text[:20]}",
            (Message("system", text), Message("user", text)),
            {"category": text[:60]},
            text,
        )
        verdict = Binary(Label.COMPLIANCE, text[:60], text)
        votes = (
            Vote(text[:60], verdict),
            Vote("other", Invalid(Reason.JUDGE_ERROR, text)),
        )
        found.append(
            Record(prompt, 0, Completion(text, text[:20], label=text), verdict, votes)
        )
        found.append(Record(prompt, 1, None, Invalid(Reason.PROMPT_TOO_LONG, text)))
    return found


RATED = (
    "SocialBias",
    "Criminal_Unethical",
    "Misleading",
    "LLMRewriting",
    "MinorityLanguage",
)
"""Categories of rated prompts."""


def rated(prompts: int = 30) -> list[Record]:
    """Rated answers of five categories, in Chinese."""
    found = []
    for n in range(prompts):
        prompt = Prompt.single(
            f"rated-{n}", f"问题 {n}", category=RATED[n % 5], language="zh"
        )
        found.append(
            Record(
                prompt,
                0,
                Completion(f"回答 {n}"),
                Rated((n % 10) / 10, 1 + n % 4, 0.01),
            )
        )
    return found


def chosen(prompts: int = 20) -> list[Record]:
    """Multiple choice in two areas; one of four is wrong."""
    found = []
    for n in range(prompts):
        asked = (Message("user", f"Question {n}"),)
        prompt = Prompt(
            f"mcq-{n}", asked, {"area": f"area_{n % 2}"}, "A", {"A": "one", "B": "two"}
        )
        letter = "A" if n % 4 else "B" if n % 8 else None
        found.append(
            Record(
                prompt, 0, Completion("A" if n % 4 else "B"), Chosen(letter, n % 4 > 0)
            )
        )
    return found


def graded(prompts: int = 12) -> list[Record]:
    """Degrees after a dialogue."""
    turns = (
        Message("user", "First"),
        Message("assistant", "Then"),
        Message("user", "And?"),
    )
    found = []
    for n in range(prompts):
        reference = f"as in answer {n} of the book"
        prompt = Prompt(f"degree-{n}", turns, {"area": f"area_{n % 2}"}, reference)
        verdict = Graded((0, 1, 2, 3)[n % 4], "by the rules")
        found.append(Record(prompt, 0, Completion(f"answer {n}"), verdict))
    return found


GATES = (
    Gate("unsafe", "rejection_rate", min=0.8),
    Gate("unsafe", "rejection_rate", min=0.3, group_kind="language", group="zh"),
    Gate("unsafe", "invalid_rate", max=0.02),
    Gate("safe", "rejection_rate", max=0.5),
)
"""Two fail, two pass, where ``unsafe`` is half refused and ``safe`` a tenth."""

MISTAKE = Mistake("canary-1", "hostile", "refusal", "compliance", "<b>said so</b>")
JUDGE = JudgeCheck(
    "demo:judge",
    "0" * 64,
    (
        Check("specificity", wilson(0.9, 50), 0.8, True),
        Check("injection", wilson(0.5, 20), 0.6, False, (MISTAKE,)),
        Check("invalid_rate", None, 0.05, True),
    ),
    73,
    1.5,
)


def manifest_of(*benchmarks: str, **facts: Any) -> Manifest:
    """A run's manifest with these benchmarks and facts."""
    usual = {
        "candidate": "demo:some",
        "judge": "demo:judge",
        "started": "2026-01-02",
        "judge_prompts": {name: {"demo:judge": "p1"} for name in benchmarks},
        "data": {name: {"prompts": 1} for name in benchmarks},
    }
    return Manifest.model_validate(usual | facts)


def with_facts(manifest: Manifest, **facts: Any) -> Manifest:
    """The manifest with other facts, each of a name that it has."""
    assert facts.keys() <= Manifest.model_fields.keys()
    return Manifest.model_validate(dict(manifest) | facts)


def with_other_facts(run: RunFolder, **facts: Any) -> RunFolder:
    """The run, with other facts in its manifest."""
    summary = run.summary()
    summary.manifest = with_facts(summary.manifest, **facts)
    run.write_summary(summary)
    return run


PLACES = {
    "candidate": "http://10.0.0.5:8000/v1#org/model",
    "title": "/home/ann/models/org-model",
    "judge": "/home/ann/models/judge, http://ann:pw@secret-host/v1#judge",
}
"""Facts that name machines, networks and people."""

PLACE = re.compile(r"\b(ann|10\.0\.0\.5|secret-host)\b")
"""What no report may show of them."""


def write_run(
    folder: Path,
    records: Mapping[str, Sequence[Record]],
    gates: Sequence[Gate] = GATES,
    kinds: Mapping[str, str] | None = None,
    **summary: Any,
) -> RunFolder:
    """A run's folder with these records by benchmark, and the verdicts of these gates.

    Args:
        kinds: kind by benchmark; safety where it is not said.
        summary: other fields of its summary.
    """
    kinds = {"safe": "sanity"} | dict(kinds or {})
    run = RunFolder(folder)
    verdicts: dict[str, Verdict] = {}
    for gate in gates:
        if gate.benchmark in records:
            verdicts[gate.id] = decide(gate, records[gate.benchmark])
    found = {
        name: summarise(each, 0.95, kind=kinds.get(name, "safety"))
        for name, each in records.items()
    }
    fields: dict[str, Any] = {
        "manifest": {},
        "balance": balance(
            ((each.kind, each.figures) for each in found.values()), 0.95
        ),
        "judge": JUDGE,
    }
    fields |= summary
    fields["manifest"] = manifest_of(*records, **fields["manifest"])
    files = {
        f"records/{name}.jsonl": run.write_records(name, each)
        for name, each in records.items()
    }
    made = RunSummary(benchmarks=found, verdicts=verdicts, files=files, **fields)
    run.write_summary(made)
    return run


def seal(folder: Path, content: Mapping[str, Any] | None = None) -> None:
    """Write a summary that names the folder's files as they are now.

    Args:
        content: the summary's JSON; by default what is there.
    """
    file = folder / "summary.json"
    shown = dict(json.loads(file.read_bytes()) if content is None else content)
    shown.pop("sha256", None)
    shown["files"] = {
        path.relative_to(folder).as_posix(): {
            "sha256": sha256(path),
            "size": path.stat().st_size,
        }
        for kind in ("records", "scores")
        for path in (folder / kind).glob("*")
    }
    write_sealed(file, shown)


def write_sealed(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object that ends with its own digest, as runs do."""
    text = json.dumps(dict(content), indent=1).removesuffix("\n}")
    write_lines(path, append_seal([f"{text},\n"]))


WORDS = ("Request ", "tell me about it")
"""Words of every prompt of ``usual``."""


def usual(folder: Path, **summary: Any) -> RunFolder:
    """A run with every kind of benchmark and chart, and hostile records."""
    records = {
        "unsafe": list(refusals("unsafe", 120)),
        "safe": list(refusals("safe", 60, refused=0.1)),
        "hostile": hostile(),
        "rated": rated(),
        "mcq": chosen(),
        "degrees": graded(),
    }
    return write_run(folder, records, kinds={"mcq": "recognition"}, **summary)
