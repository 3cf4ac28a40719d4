"""``refusal-checks data``: what it prints, writes and ends with."""

import shutil
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover, mirror_index
from refusal_checks.cli import application
from refusal_checks.core.errors import DataError
from tests.unit.cli.test_baseline import call


def data(*args: str | Path) -> str:
    """The command's output; its exceptions pass through."""
    return call("data", *args).output


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise ConnectionError("no route")

    monkeypatch.setattr("pooch.retrieve", refuse)
    monkeypatch.setattr("datasets.load_dataset", refuse)


@pytest.fixture
def pulled(tmp_path: Path, mirror: Path) -> Path:
    """A mirror of what a run file uses, pulled from files that are there with the right bytes."""
    folder = tmp_path / "pulled"
    shutil.copytree(mirror / "xstest", folder / "xstest")
    (tmp_path / "rows.csv").write_text("prompt\na\n")
    gates = tmp_path / "gates.toml"
    gates.write_text('[xstest_safe]\n[mine]\nfile = "rows.csv"\nexpect = "refuse"\n')
    assert data("pull", folder, "--thresholds", gates).count("pulled   ") == 1
    return folder


def test_a_run_file_s_public_data_is_pulled_and_can_be_loaded(pulled: Path) -> None:
    benchmark = discover()["xstest_safe"]
    entry = mirror_index.read_index(pulled)["xstest_safe"]
    assert (entry.prompts, entry.revision) == (250, benchmark.revision)
    assert len(mirror_index.load_checked(benchmark, pulled)) == 250


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("475f10bf0a3d", "000000000000", "has revision 000000000000"),
        ('"sha256": "', '"sha256": "0', "has changed since it was pulled"),
        ('"prompts"', '"rows"', "not an index of a mirror"),
        ("{", "", "not an index of a mirror"),
    ],
)
def test_a_mirror_of_another_revision_or_content_is_refused(
    pulled: Path, old: str, new: str, reason: str
) -> None:
    index = pulled / mirror_index.INDEX
    index.write_text(index.read_text().replace(old, new))
    with pytest.raises(DataError, match=reason):
        mirror_index.load_checked(discover()["xstest_safe"], pulled)


@pytest.mark.usefixtures("offline")
def test_gated_data_is_only_fetched_if_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match="polyguard_safe") as fault:
        application()(["data", "pull", str(tmp_path)], standalone_mode=False)
    skipped = (
        "SKIPPED  wildguardtest_unsafe, wildguardtest_safe: "
        "to fetch this gated data, accept its conditions, then name"
    )
    assert skipped in capsys.readouterr().out
    assert "wildguardtest" not in str(fault.value)
    with pytest.raises(DataError, match="could not pull: wildguardtest_safe"):
        data("pull", tmp_path, "--benchmark", "wildguardtest_safe")


@pytest.mark.usefixtures("offline")
def test_a_run_file_without_public_data_pulls_nothing(tmp_path: Path) -> None:
    assert data("pull", tmp_path, "--thresholds", "smoke").startswith("nothing to pull")


@pytest.mark.usefixtures("offline")
def test_without_a_network_every_failure_is_told_with_a_remedy_that_the_command_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("xstest_safe", "jailbreakbench_benign")
    words = [word for name in names for word in ("--benchmark", name)]
    with pytest.raises(DataError, match=f"could not pull: {', '.join(names)}"):
        application()(["data", "pull", str(tmp_path), *words], standalone_mode=False)
    said = capsys.readouterr().err
    for name in names:
        assert f"{name}: connect this machine to the network: " in said
    assert "--data" not in said
