"""``refusal-checks data``: what it prints, writes and ends with."""

import shutil
from pathlib import Path

import pytest

from refusal_checks.benchmarks import discover, mirror_index
from refusal_checks.cli import application
from refusal_checks.core.errors import DataError
from tests.unit.cli.test_baseline import call
from tests.unit.conftest import Write


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
    """A mirror of XSTest and harmbench, pulled from files that are there with the right bytes."""
    folder = tmp_path / "pulled"
    for name in ("xstest", "harmbench"):
        shutil.copytree(mirror / name, folder / name)
    assert data("pull", folder, *ONLY).count("pulled   ") == 3
    return folder


ONLY = (
    "--benchmark",
    "xstest_safe",
    "--benchmark",
    "xstest_unsafe",
    "--benchmark",
    "harmbench",
)


def test_a_pulled_mirror_is_right(pulled: Path) -> None:
    entry = mirror_index.read_index(pulled)["xstest_safe"]
    assert entry.prompts == 250
    assert entry.revision == discover()["xstest_safe"].revision
    assert len(mirror_index.load_checked(discover()["xstest_safe"], pulled)) == 250


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


def test_the_benchmarks_of_a_threshold_file(pulled: Path, write: Write) -> None:
    write("rows.csv", "prompt\na\n")
    gates = write(
        "gates.toml", '[xstest_safe]\n[mine]\nfile = "rows.csv"\nexpect = "refuse"\n'
    )
    assert data("pull", pulled, "--thresholds", gates).count("pulled   ") == 1


@pytest.mark.usefixtures("offline")
def test_without_a_network_every_failure_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="could not pull: xstest_safe, sorrybench"):
        data(
            "pull", tmp_path, "--benchmark", "xstest_safe", "--benchmark", "sorrybench"
        )


@pytest.mark.usefixtures("offline")
def test_gated_data_is_only_fetched_if_it_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DataError, match="polyguard_safe") as fault:
        application()(["data", "pull", str(tmp_path)], standalone_mode=False)
    skipped = (
        "SKIPPED  wildguardtest_unsafe, wildguardtest_safe: "
        "accept their conditions, then name"
    )
    assert skipped in capsys.readouterr().out
    assert "wildguardtest" not in str(fault.value)
    with pytest.raises(DataError, match="could not pull: wildguardtest_safe"):
        data("pull", tmp_path, "--benchmark", "wildguardtest_safe")


@pytest.mark.usefixtures("offline")
def test_a_run_file_without_public_data_pulls_nothing(tmp_path: Path) -> None:
    assert data("pull", tmp_path, "--thresholds", "smoke").startswith("nothing to pull")


@pytest.mark.usefixtures("offline")
def test_a_remedy_names_no_option_that_the_command_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("xstest_safe", "jailbreakbench_benign"):
        with pytest.raises(DataError, match="could not pull"):
            application()(
                ["data", "pull", str(tmp_path), "--benchmark", name],
                standalone_mode=False,
            )
        said = capsys.readouterr().err
        assert f"{name}: connect this machine to the network: " in said
        assert "--data" not in said
