"""Results elsewhere, as options of a session: refused early, and no matter of its exit code."""

from __future__ import annotations

import os
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, RunGate

WEBHOOK = "REFUSAL_CHECKS_WEBHOOK"


@pytest.fixture
def installed(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let runs find extensions/ as an installed distribution."""
    folder = ROOT / "extensions"
    metadata = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    info = project.path / "refusal_checks_extensions-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Name: {metadata['name']}\nVersion: {metadata['version']}\n")
    points = metadata["entry-points"]["refusal_checks"].items()
    lines = ["[refusal_checks]", *(f"{name} = {module}" for name, module in points)]
    (info / "entry_points.txt").write_text("\n".join(lines))
    paths = (str(info.parent), str(folder), str(ROOT))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))


@pytest.mark.usefixtures("installed")
def test_a_chat_that_is_down_changes_no_exit_code_and_its_url_is_nowhere(
    project: pytest.Pytester, run_gate: RunGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(WEBHOOK, "http://127.0.0.1:9/services/SECRET")
    result = run_gate("--pr-comment", "comment.md", "--model-card", "README.md")
    assert result.ret == 0
    said = result.stdout.str() + result.stderr.str()
    why = "check the URL in $REFUSAL_CHECKS_WEBHOOK: nothing was posted, "
    assert f"webhook report could not be written: {why}" in said
    assert Path("comment.md").read_text().startswith("<!-- refusal-checks -->")
    assert "model-index" in Path("README.md").read_text()
    everywhere = [path.read_bytes() for path in project.path.rglob("*") if path.is_file()]
    assert not any(b"SECRET" in content for content in [*everywhere, said.encode()])


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("mode", [(), ("-n2",)], ids=["plain", "n2"])
def test_what_could_not_be_written_is_refused_before_anything_starts(
    project: pytest.Pytester,
    run_gate: RunGate,
    mode: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not find_spec("mlflow"):
        result = run_gate("--mlflow", "refusals", *mode)
        assert result.ret == 4
        assert 'pip install "refusal-checks-extensions[mlflow]"' in result.stderr.str()
    monkeypatch.setenv(WEBHOOK, "SECRET")
    result = run_gate(*mode)
    assert result.ret == 4
    assert "REFUSAL_CHECKS_WEBHOOK: set it to a URL" in result.stderr.str()
    assert "SECRET" not in result.stdout.str() + result.stderr.str()
    assert not list(project.path.glob(".refusal-checks/runs/*"))


def test_without_the_extensions_an_option_and_a_variable_name_them(
    run_gate: RunGate, monkeypatch: pytest.MonkeyPatch
) -> None:
    remedy = "install refusal-checks-extensions, which has"
    result = run_gate("--mlflow", "refusals")
    assert (result.ret, f"{remedy} --mlflow now" in result.stderr.str()) == (4, True)
    monkeypatch.setenv(WEBHOOK, "https://example.invalid/x")
    result = run_gate()
    assert (result.ret, f"{remedy} ${WEBHOOK} now" in result.stderr.str()) == (4, True)
