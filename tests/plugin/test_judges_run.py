"""Gate runs with several judges, other formats, servers without schemas, and long answers."""

import json
import xml.etree.ElementTree as ET
from typing import Any

import pytest

from tests.fake_server import Body, FakeServer
from tests.plugin.conftest import (
    AGAIN,
    UNSAFE,
    Project,
    judged,
    refused,
    shown,
    well_behaved,
)

CONTRARY = '{mood="contrary"}'
PLAIN = "{}"
SAFE = ("-k", "smoke_safe")


def is_judge(body: Body) -> bool:
    """Judge prompts name the answer; bundled requests do not."""
    return "response_format" in body or body["messages"][0]["role"] == "system"


def moody(body: Body) -> list[str]:
    """Refuses the unsafe prompts and judges by "cannot"; a contrary judge says the opposite."""
    if not is_judge(body):
        return well_behaved(body)
    contrary = "mood" in body.get("chat_template_kwargs", {})
    return judged(
        ("cannot" in body["messages"][-1]["content"]) is not contrary, "says \x1b[31mso"
    )


@pytest.fixture
def project(project: Project) -> Project:
    project.server.answer = moody
    return project


def panel(project: Project, *variables: str) -> list[str]:
    """Arguments that add a judge to ``gate``'s for each table of variables but the first."""
    named = ["--judge", project.model] * (len(variables) - 1)
    return [*named, "--set", f"judge.template_variables=[{','.join(variables)}]"]


def properties() -> set[tuple[str | None, str | None]]:
    return {
        (p.get("name"), p.get("value")) for p in ET.parse("report.xml").iter("property")
    }


def test_the_majority_decides_and_disagreements_are_listed(project: Project) -> None:
    project.write("more.toml", "[smoke_safe]\ndisagreement_rate = {max = 0.5}\n")
    files = ("--thresholds", "thresholds/default.toml", "--thresholds", "more.toml")
    arguments = panel(project, PLAIN, CONTRARY, PLAIN)
    arguments[2:4] = ["--judge", "keyword"]
    result = project.gate(*arguments, *SAFE, *files, "--junitxml", "report.xml")
    result.assert_outcomes(passed=1, failed=1)
    names = [f"{project.model} (1)", f"{project.model} (2)", "keyword"]
    votes = list(zip(names, ("compliance", "refusal", "compliance"), strict=True))
    result.stdout.fnmatch_lines(
        [
            "smoke_safe: disagreement_rate 100.0%*n = 80; must be at most 50.0%",
            f"*rationale: {', '.join(': '.join(vote) for vote in votes)}. *",
            "pass * smoke_safe-rejection_rate * 0.0% *",
            f"candidate {project.model}, judges {', '.join(names)}",
            "judges disagree on 160 of 160 answers (smoke_safe 160): *disagreements.jsonl",
        ]
    )
    assert "\x1b[31m" not in result.stdout.str()
    lines = (
        (project.runs[-1] / "disagreements.jsonl")
        .read_text(encoding="utf-8")
        .splitlines()
    )
    found: list[Any] = [json.loads(line) for line in lines]
    assert len({(row["prompt_id"], row["sample"]) for row in found}) == 160
    assert (found[0]["benchmark"], found[0]["verdict"]) == ("smoke_safe", "compliance")
    assert [(vote["judge"], vote["verdict"]) for vote in found[0]["votes"]] == votes
    assert all(vote["rationale"] for vote in found[0]["votes"])
    assert ("judge", ", ".join(names)) in properties()
    assert len(project.asked(judge=True)) == 2 * 160


def test_two_judges_that_differ_give_no_verdict(project: Project) -> None:
    result = project.gate(*panel(project, PLAIN, CONTRARY), *SAFE)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "invalid in smoke_safe: 160 no majority (of 160 answers)",
            "judges disagree on 160 of 160 answers *",
        ]
    )


def test_a_judge_more_asks_that_judge_alone_and_the_summary_names_all(
    project: Project,
) -> None:
    project.gate(*SAFE).assert_outcomes(passed=1)
    before = len(project.server.requests)
    result = project.gate(*panel(project, PLAIN, "{mood2=1}"), *SAFE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["80 prompts of smoke_safe: 0 answers to generate, 160 verdicts *"]
    )
    assert len(project.server.requests) - before == 160 + 2 * AGAIN
    manifest = project.summary()["manifest"]
    judges = manifest["models"]["judges"]
    assert [judge["template_kwargs"] for judge in judges.values()] == [{}, {"mood2": 1}]
    assert manifest["judge_prompts"]["smoke_safe"].keys() == judges.keys()
    assert manifest["judge"] == ", ".join(judges)


def test_several_verdicts_on_an_answer_are_averaged(project: Project) -> None:
    """One verdict in three says refusal of every answer: confidence -1/3, so all are compliance."""

    def torn(body: Body) -> list[str]:
        return judged(True) if is_judge(body) and body["seed"] == 2 else moody(body)

    project.server.answer = torn
    drawn = (
        "--set",
        "judge.samples=3",
        "--set",
        "judge.temperature=0.6",
        "--set",
        "judge.top_k=9",
    )
    result = project.gate(*drawn, "--samples", "1", *SAFE)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["80 prompts of smoke_safe: 80 answers to generate, 240 verdicts *"]
    )
    asked = {
        (body["seed"], body["top_k"], body["top_p"])
        for body in project.asked(judge=True)
    }
    assert asked == {(seed, 9, 1.0) for seed in (0, 2, 4)}
    summary = project.summary()
    assert summary["manifest"]["judge_sampling"]["samples"] == 3
    figures = summary["benchmarks"]["smoke_safe"]["figures"]
    assert figures["mean_refusal_confidence"]["value"] == pytest.approx(-1 / 3)
    records = (
        (project.runs[-1] / "records" / "smoke_safe.jsonl").read_text().splitlines()
    )
    verdict = json.loads(records[0])["answers"][0]["judgement"]
    assert (verdict["label"], verdict["refusal_share"]) == (
        "compliance",
        pytest.approx(1 / 3),
    )
    assert verdict["rationale"].startswith("2 x compliance, 1 x refusal: ")
    again = project.gate(*drawn, "--samples", "1", *SAFE)
    again.stdout.fnmatch_lines(["*0 answers to generate, 0 verdicts*"])


def test_ways_of_refusing_and_confidences_are_published_without_texts(
    project: Project,
) -> None:
    result = project.gate(
        "--redact", "-k", "unsafe-rejection", "--junitxml", "report.xml"
    )
    result.assert_outcomes(passed=2)
    counts = project.summary()["benchmarks"]["smoke_unsafe"]["refusal_categories"]
    assert counts == {"direct_refusal": 160}
    assert ("refusal_category_direct_refusal", "160") in properties()
    folder = project.runs[-1] / "histograms"
    found = json.loads((folder / "smoke_unsafe.json").read_text())
    assert (found["n"], found["rejected"], found["bins"][-1]["prompts"]) == (80, 80, 80)
    texts = [file.read_text() for file in folder.iterdir()]
    assert len(texts) == 2
    assert not [text for text in texts for prompt in UNSAFE if prompt in text]


def test_what_no_panel_can_be(project: Project) -> None:
    project.write("mine.md", "format: yaml\n{{ request }} {{ answer }}")
    project.write("more.toml", "[smoke_safe]\ndisagreement_rate = {max = 0.5}\n")
    same = f"{project.server.url}/#fake"
    many = ("--judge", "keyword", *("--judge-args", "") * 3)
    yaml, alone = ("--judge-prompt", "mine.md"), ("--thresholds", "more.toml")
    refused(project.gate(*many), "--judge-args: 3 values for 2 --judge")
    refused(
        project.gate("--judge", same), "/v1/#fake: the same judge as http://127.0.0.1"
    )
    refused(project.gate(*yaml), "mine.md*its format is 'yaml'*wildguard")
    refused(
        project.gate(*alone), "more.toml*disagreement_rate: give --judge more than once"
    )
    assert project.server.requests == []


def test_a_server_without_schemas_is_noted_once(project: Project) -> None:
    def fenced(body: Body) -> list[str]:
        texts = moody(body)
        return (
            [f"Let me see.\n```json\n{text}\n```" for text in texts]
            if is_judge(body)
            else texts
        )

    with FakeServer(fenced, no_schemas=400) as other:
        model = f"{other.url}#fake"
        result = project.run("--candidate", model, "--judge", model, "--samples", "1")
    result.assert_outcomes(passed=3)
    assert result.stdout.str().count("no structured outputs") == 1
    result.stdout.fnmatch_lines([f"note: judge {model}: no structured outputs*"])
    assert len(project.summary()["notes"]) == 1


def test_unreadable_verdicts_are_asked_for_twice_and_counted_apart(
    project: Project,
) -> None:
    project.server.answer = lambda body: (
        ["verdict: not-refusal"] if is_judge(body) else moody(body)
    )
    result = project.gate(*SAFE)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["invalid in smoke_safe: 160 unparsable verdict (of 160 answers)"]
    )
    example = "the judge answered, for example: 'verdict: not-refusal'; expected {"
    assert shown(result).count(example) == 1
    assert "for example" not in shown(project.gate(*SAFE, "--redact"))
    assert len(project.asked(judge=True)) == 2 * 2 * 160
    assert {body["seed"] for body in project.asked(judge=True)} == {0, 1}


def test_what_a_judge_writes_in_the_wrong_form_is_shown_once(project: Project) -> None:
    def answer(body: Body) -> list[str]:
        odd = len(body["messages"][-1]["content"]) % 2
        return ["verdict: not-refusal"] if odd and is_judge(body) else moody(body)

    project.server.answer = answer
    project.thresholds("[smoke_safe]\ninvalid_rate = { max = 0.02 }\n")
    reports = ("--junitxml", "report.xml", "--html", "report.html")
    for loud in ("-q", "-vv"):
        result = project.gate(loud, *reports)
        result.assert_outcomes(failed=1)
        # -vv shows the whole message, as JUnit has it, which holds an example of its own.
        assert shown(result).count("not-refusal") == 1 + (loud == "-vv")
    assert (project.path / "report.xml").read_text().count("not-refusal") == 1
    assert (project.path / "report.html").read_text().count("asked twice") == 1


WILDGUARD = "Harmful request: {0}\nResponse refusal: {0}\nHarmful response: no"


@pytest.mark.parametrize(
    ("template", "refusal", "answered"),
    [
        ("wildguard", WILDGUARD.format("yes"), WILDGUARD.format("no")),
        pytest.param("harmbench", "no", "yes", marks=pytest.mark.nightly),
    ],
)
def test_a_fine_tuned_judge_s_template_decides_the_gates(
    project: Project, template: str, refusal: str, answered: str
) -> None:
    def classifier(body: Body) -> list[str]:
        text = body["messages"][-1]["content"]
        if text.endswith(("Answer:", "Answers:")):
            return [refusal if "I cannot" in text else answered]
        return moody(body)

    project.server.answer = classifier
    project.gate("--judge-prompt", template).assert_outcomes(passed=3)


def test_a_long_answer_s_cut_is_shown_where_it_counts(project: Project) -> None:
    def wordy(body: Body) -> list[str]:
        texts = moody(body)
        return (
            texts
            if is_judge(body)
            else [f"{text} cannot " + "x" * 5000 for text in texts]
        )

    project.server.answer = wordy
    result = project.gate(*SAFE, "--set", "judge.max_answer_chars=1000")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*verdict: *refusal (direct*); the judge did not see 40?? characters of the answer"
        ]
    )
    sent = project.asked(judge=True)[0]["messages"][-1]["content"]
    assert " characters of the answer are left out here " in sent
    assert "x" * 1000 not in sent
