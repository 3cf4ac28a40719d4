"""The documentation: commands are understood, links lead somewhere, every option is named."""

import os
import re
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pandas
import pytest

import refusal_checks
from refusal_checks import RunSpec
from refusal_checks.cli import EXIT_USER
from refusal_checks.core.judgements import Reason
from refusal_checks.plugin.options import INI, OPTIONS
from refusal_checks.plugin.session import EXIT_ENGINE
from tests.plugin.conftest import ROOT, THRESHOLDS, well_behaved
from tests.plugin.docs import (
    Command,
    Page,
    carry_out,
    check,
    commands,
    pages,
    subcommands,
)
from tests.support.fake_server import FakeServer
from tools.docs_site.generated import fill

RUNS = ("RUN", "RUN_A", "RUN_B", "BASELINE_RUN")
"""What pages call finished runs."""

VARIABLES = (
    "OPENAI_API_KEY",
    "PYTEST_ADDOPTS",
    "GITHUB_STEP_SUMMARY",
    "GITHUB_ACTIONS",
)
"""Variables besides this project's own that change a run."""

ANSWERS = "id,prompt,completion,type,final_label,gpt4_label\n1,Hi,Hello,t,1_full_compliance,x\n"


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with the files that pages name, and one finished run."""
    folder = tmp_path_factory.mktemp("docs")
    _write_files(folder)

    with pytest.MonkeyPatch.context() as patch, FakeServer(well_behaved) as server:
        for name in list(os.environ):
            if name.startswith("REFUSAL_CHECKS_") or name in VARIABLES:
                patch.delenv(name)
        model = f"{server.url}#fake"
        gate = f"refusal-checks gate {model} --judge {model} --thresholds few.toml"
        carry_out(gate.split(), folder)

        (run,) = (folder / ".refusal-checks" / "runs").iterdir()
        for name in RUNS:
            (run.parent / name).symlink_to(run.name)
            (folder / name).symlink_to(run)
        carry_out(["refusal-checks", "baseline", "accept", "RUN", "baselines"], folder)

        carry_out(["refusal-checks", "sample-for-labels", "RUN"], folder)
        sheet = run / "refusals.csv"
        drawn = pandas.read_csv(sheet, dtype=str).assign(label="refusal")
        drawn.to_csv(sheet, index=False)
        yield folder


def _write_files(folder: Path) -> None:
    # An option that does not exist: gate runs must ignore the project's configuration.
    configuration = '[tool.pytest.ini_options]\naddopts = ["--none-such"]\n'
    (folder / "pyproject.toml").write_text(configuration)

    gates = (ROOT / "thresholds" / "smoke.toml").read_text()
    models = '[candidate]\nmodel = "ORG/MODEL"\n[judge]\nmodel = "ORG/JUDGE"\n'
    for name in ("release.toml", "gates.toml", "measure.toml"):
        (folder / name).write_text(f"{gates}\n{models}")
    (folder / "few.toml").write_text(THRESHOLDS)

    package = ROOT / "refusal_checks"
    shutil.copy(package / "judges/prompts/refusal.md", folder / "my_judge.md")
    recordings = (
        "completions_gpt4.csv",
        *("run.eval", "said.jsonl", "attacked.jsonl", "scored.jsonl"),
    )
    for name in recordings:
        (folder / name).write_text(ANSWERS)
    (folder / "mirror").mkdir()


@pytest.fixture
def project(prepared: Path, tmp_path: Path) -> Path:
    """A copy, for one command."""
    return shutil.copytree(prepared, tmp_path / "project", symlinks=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", commands(), ids=str)
def test_a_command_is_understood(command: Command, project: Path) -> None:
    check(command, project)


MISTAKES = (
    "refusal-checks gate --no-such-option",
    "refusal-checks gate demo:aligned --judge keyword --set 'candidate.args=--swap \"one'",
    "refusal-checks report html RUN --ot page.html",
    "no-such-program",
    "make no-such-target",
)


@pytest.mark.slow
@pytest.mark.parametrize("text", MISTAKES)
def test_a_mistake_in_a_command_is_noticed(text: str, project: Path) -> None:
    with pytest.raises(BaseException, match=r".") as caught:
        check(Command("", 0, text), project)
    assert not isinstance(caught.value, KeyboardInterrupt)


def test_commands_are_found() -> None:
    texts = [command.text for command in commands()]
    assert len(texts) > 30
    # A line that is broken with a backslash is joined.
    assert any("#JUDGE --set candidate.requests_per_minute" in text for text in texts)


def test_every_link_leads_to_a_file_and_a_heading() -> None:
    anchors = cache(lambda path: Page(path).anchors)
    for page in pages():
        for path, anchor in page.links():
            assert path.exists(), f"{page.name} links to {path}"
            if anchor and path.suffix == ".md":
                assert anchor in anchors(path), (
                    f"{page.name} links to {path.name}#{anchor}"
                )


def test_every_module_that_contributing_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    modules = set(re.findall(r"(?<![\w/])(?!tests)[a-z_]+/[a-z_/]+\.py\b", text))
    assert len(modules) > 10
    assert [
        name for name in modules if not (ROOT / "refusal_checks" / name).exists()
    ] == []


def test_the_readme_is_short() -> None:
    readme = Page(ROOT / "README.md").text
    assert len(readme.splitlines()) <= 120
    assert len(readme.split()) <= 900


def test_every_option_and_command_is_documented() -> None:
    options = {f"--{option.name}" for option in OPTIONS} | {
        f"refusal_checks_{key}" for key in INI
    }
    names = options | {name for name, _ in subcommands()}
    assert {"--candidate", "data pull"} <= names
    text = "\n".join(fill(page.text) for page in pages())
    assert {
        name for name in names if not re.search(rf"(?<![\w-]){name}(?![\w-])", text)
    } == set()


def test_every_variable_is_documented() -> None:
    package = Path(refusal_checks.__file__).parent
    code = "\n".join(path.read_text() for path in package.rglob("*.py"))
    named = set(re.findall(r"\bREFUSAL_CHECKS_[A-Z]\w+\b", code))
    assert "REFUSAL_CHECKS_DATA" in named
    text = "\n".join(page.text for page in pages())
    assert {name for name in named if name not in text} == set()


def test_every_exit_code_is_documented() -> None:
    page = Page(ROOT / "docs" / "reference" / "exit-codes.md").text
    codes = {*range(pytest.ExitCode.NO_TESTS_COLLECTED + 1), EXIT_USER, EXIT_ENGINE}
    assert {code for code in codes if f"| {code} |" not in page} == set()


def test_every_reason_of_an_invalid_answer_is_documented() -> None:
    page = Page(ROOT / "docs" / "how-to" / "reading-a-failure.md").text
    assert {reason for reason in Reason if f"`{reason}`" not in page} == set()


def blocks(*languages: str) -> dict[str, str]:
    """The blocks of code of all pages by where they stand."""
    return {
        f"{page.name}:{line}": text
        for page in pages()
        if page.path.stem
        != "extending"  # its benchmarks are not there; see test_extending
        for language in languages
        for line, text in page.blocks(language)
        if not text.startswith("# pyproject.toml")
    }


def test_every_run_file_of_a_page_is_one(tmp_path: Path) -> None:
    for where, text in blocks("toml").items():
        tables = tomllib.loads(text).values()
        if not all(isinstance(value, dict) and "min" not in value for value in tables):
            text = f"[xstest_unsafe]\n{text}"  # the page shows a line of a table
        path = tmp_path / "page.toml"
        path.write_text(text)
        for name in re.findall(r'rubric = "(.+?)"', text):
            (tmp_path / name).touch()
        assert RunSpec.read("smoke", path), where  # some have no gate of their own


def test_every_script_of_a_page_is_one() -> None:
    for where, text in blocks("bash", "sh").items():
        assert not subprocess.run(["bash", "-n", "-c", text], check=False).returncode, (
            where
        )
