"""Results elsewhere, as options of a session: refused early, and no matter of its exit code."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, Project, refused

WEBHOOK = "REFUSAL_CHECKS_WEBHOOK"


def install(project: Project, metadata: Mapping[str, str], modules: Mapping[str, str]) -> None:
    """Let runs find a distribution with these entry points."""
    folder = f"{metadata['name'].replace('-', '_')}-{metadata['version']}.dist-info"
    known = f"Metadata-Version: 2.1\nName: {metadata['name']}\nVersion: {metadata['version']}\n"
    project.write(f"{folder}/METADATA", known)
    lines = [f"{name} = {module}" for name, module in modules.items()]
    project.write(f"{folder}/entry_points.txt", "\n".join(["[refusal_checks]", *lines]))


@pytest.fixture
def installed(project: Project) -> Project:
    """A project that finds extensions/ as an installed distribution."""
    folder = ROOT / "extensions"
    metadata = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    install(project, metadata, metadata["entry-points"]["refusal_checks"])
    paths = (project.path, folder, ROOT)
    project.setenv("PYTHONPATH", os.pathsep.join(map(str, paths)))
    return project


def test_a_chat_that_is_down_changes_no_exit_code_and_its_url_is_nowhere(
    installed: Project,
) -> None:
    installed.setenv(WEBHOOK, "http://127.0.0.1:9/services/SECRET")
    result = installed.gate("--pr-comment", "comment.md", "--model-card", "README.md")
    assert result.ret == 0
    said = result.stdout.str() + result.stderr.str()
    why = "check the URL in $REFUSAL_CHECKS_WEBHOOK: nothing was posted, "
    assert f"webhook report could not be written: {why}" in said
    assert Path("comment.md").read_text().startswith("<!-- refusal-checks -->")
    assert "model-index" in Path("README.md").read_text()
    everywhere = [path.read_bytes() for path in installed.path.rglob("*") if path.is_file()]
    assert not any(b"SECRET" in content for content in [*everywhere, said.encode()])


def test_what_could_not_be_written_is_refused_before_anything_starts(installed: Project) -> None:
    if not find_spec("mlflow"):
        result = installed.gate("--mlflow", "refusals")
        refused(result, 'pip install "refusal-checks-extensions[[]mlflow]"')
    installed.setenv(WEBHOOK, "SECRET")
    result = installed.gate("-n2")
    refused(result, "REFUSAL_CHECKS_WEBHOOK: set it to a URL")
    assert "SECRET" not in result.stdout.str() + result.stderr.str()
    assert installed.runs == []


def test_without_the_extensions_an_option_and_a_variable_name_them(project: Project) -> None:
    remedy = "install refusal-checks-extensions, which has"
    refused(project.gate("--mlflow", "refusals"), f"{remedy} --mlflow now")
    project.setenv(WEBHOOK, "https://example.invalid/x")
    refused(project.gate(), f"{remedy} ${WEBHOOK} now")
