"""Extensions: the examples of ``docs/how-to/extending.md``, and the formats of ``extensions/``."""

import os
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, UNVERIFIED, Project, refused, shown
from tests.plugin.docs import Page
from tests.support.answers import well_behaved
from tests.support.fake_server import Body

pytestmark = pytest.mark.slow

PAGE = Page(ROOT / "docs" / "how-to" / "extending.md")
FILES = {
    text.splitlines()[0].removeprefix("# "): text for _, text in PAGE.blocks("python")
}
TABLES = [text for _, text in PAGE.blocks("toml")]
OWN_FILE = "gates/apology.py"
WEBHOOK = "CHAT"


def install(
    project: Project, metadata: Mapping[str, str], modules: Mapping[str, str]
) -> None:
    """Let runs find a distribution with these entry points."""
    folder = f"{metadata['name'].replace('-', '_')}-{metadata['version']}.dist-info"
    known = f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    project.write(f"{folder}/METADATA", known)
    lines = [f"{name} = {module}" for name, module in modules.items()]
    project.write(f"{folder}/entry_points.txt", "\n".join(["[refusal_checks]", *lines]))


@pytest.fixture
def installed(project: Project) -> Project:
    """The project, in an environment that has the package of the page."""
    project.write("acme_gates/__init__.py", "")
    for name, text in FILES.items():
        project.write(name, text)
    metadata = tomllib.loads(TABLES[0])["project"]
    names = metadata["entry-points"]["refusal_checks"]
    install(project, metadata, names)
    modules = {f"{module.replace('.', '/')}.py" for module in names.values()}
    assert modules == FILES.keys()
    project.setenv("PYTHONPATH", f"{project.path}{os.pathsep}{ROOT}")
    return project


def test_a_gate_run_uses_what_a_package_adds(installed: Project) -> None:
    first, second = (text for text in TABLES if text.startswith("[office]"))
    metric = second.replace("[office]", "")
    installed.write("office.toml", f"{first}{metric}\n[office_brief]{metric}")
    options = ("--thresholds=office.toml", "--set=reports.outcomes=outcomes.txt")
    installed.gate(*options, "-m", "sanity").assert_outcomes(passed=5)
    assert installed.asked(judge=True), "office_brief alone is judged by its own rule"
    lines = (installed.path / "outcomes.txt").read_text().splitlines()
    assert "pass office-apology_rate" in lines
    assert len(lines) == 5
    summary = (installed.runs[0] / "summary.json").read_text()
    for module in ("apology", "brief", "outcomes"):
        assert f"acme-gates 1.0 (acme_gates.{module})" in summary
    again = installed.command("report", "outcomes", "last", "--out", "again.txt")
    assert again.ret == 0
    assert (installed.path / "again.txt").read_text().splitlines() == lines


def test_a_threshold_file_names_a_file_beside_it(project: Project) -> None:
    (gates,) = (text for text in TABLES if text.startswith("# gates.toml"))
    metric = FILES["acme_gates/apology.py"]
    # This process may know the package's metric, so the file's has another name.
    for name, text in ((OWN_FILE, metric), ("gates.toml", gates)):
        project.write(f"release/{name}", text.replace("apology_rate", "politeness"))
    result = project.gate("--thresholds", "release/gates.toml", "-n2")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*smoke_safe*politeness*"])
    assert not list((project.path / "release").rglob("__pycache__"))
    summary = (project.runs[0] / "summary.json").read_text()
    assert f'release/{OWN_FILE}": "' in summary
    unknown = project.command("runs", "list", "last")
    refused(unknown, "its metric politeness is not known here", OWN_FILE)
    files = ("--thresholds", "release/gates.toml")
    assert "politeness" in shown(project.command(*files, "runs", "list", "last"))


def test_a_guard_of_a_stranger_s_takes_one_file(project: Project) -> None:
    judges = Page(ROOT / "docs" / "reference" / "judges.md")
    (text,) = (text for _, text in judges.blocks("markdown"))
    project.write("my_guard.md", text)

    def guards(body: Body) -> list[str]:
        *_, last = body["messages"]
        if last["role"] != "assistant":
            return well_behaved(body)
        declines = "cannot" in last["content"]
        return ["Verdict: safe" if declines else "Verdict: unsafe\nPolicy: 7"]

    project.server.answer = guards
    options = ("--set", "judge.prompt=my_guard.md", "--limit", "4")
    project.gate(*options, "-k", "smoke_unsafe").assert_outcomes(passed=2)
    asked = [body["messages"] for body in project.server.requests]
    assert any(
        [turn["role"] for turn in turns] == ["user", "assistant"] for turns in asked
    )
    refused(
        project.gate(*options, "-k", "smoke_safe"),
        "smoke_safe: name a judge of refusals",
    )


@pytest.fixture
def exporting(project: Project) -> Project:
    """A project that finds extensions/ as an installed distribution."""
    folder = ROOT / "extensions"
    metadata = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    install(project, metadata, metadata["entry-points"]["refusal_checks"])
    paths = (project.path, folder, ROOT)
    project.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    return project


def test_a_chat_that_is_down_changes_no_exit_code_and_its_url_is_nowhere(
    exporting: Project,
) -> None:
    exporting.setenv(WEBHOOK, "http://127.0.0.1:9/services/SECRET")
    targets = ("markdown=comment.md", "model_card=README.md", f"webhook={WEBHOOK}")
    result = exporting.gate(*(f"--set=reports.{target}" for target in targets))
    assert result.ret == UNVERIFIED
    said = result.stdout.str() + result.stderr.str()
    why = "check the URL in $CHAT: nothing was posted, "
    assert f"webhook report could not be written: {why}" in said
    assert Path("comment.md").read_text().startswith("<!-- refusal-checks -->")
    assert "model-index" in Path("README.md").read_text()
    everywhere = [
        path.read_bytes() for path in exporting.path.rglob("*") if path.is_file()
    ]
    assert not any(b"SECRET" in content for content in [*everywhere, said.encode()])


def test_what_could_not_be_written_is_refused_before_anything_starts(
    exporting: Project,
) -> None:
    if not find_spec("mlflow"):
        result = exporting.gate("--set=reports.mlflow=refusals")
        refused(result, 'pip install "refusal-checks-extensions[[]mlflow]"')
    result = exporting.gate("--set=reports.webhook=http://h/SECRET")
    refused(result, "reports.webhook: name an environment variable that holds a URL")
    assert "SECRET" not in result.stdout.str() + result.stderr.str()
    assert exporting.runs == []
