"""The files that reports are written to are looked at before an engine starts."""

from pathlib import Path

import pytest

from refusal_checks.config.run_spec import RunSpec
from refusal_checks.config.tables import ReportsTable
from refusal_checks.core.errors import UserError
from refusal_checks.reports import formats


def spec_of(keys: dict[str, str]) -> RunSpec:
    reports = ReportsTable.model_validate(keys)
    return RunSpec.read().model_copy(update={"reports": reports})


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"html": "p.html", "markdown": "./p.html"},
            r"\[reports\] markdown ./p.html: choose another file: \[reports\] html writes",
        ),
        ({"html": "folder"}, r"\[reports\] html folder: name a file: it is a folder"),
        (
            {"html": "report.pdf"},
            "report.pdf: end the name in .html: the report is a web page",
        ),
        ({"htlm": "page"}, r'\[reports\]: no report "htlm"'),
    ],
)
def test_a_report_that_could_not_be_written_is_refused(
    keys: dict[str, str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=message):
        formats.check(spec_of(keys))


def test_a_key_names_a_file_from_the_current_folder_or_what_an_extension_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sink = formats.Format(lambda run, target: None)
    monkeypatch.setattr(formats, "OWN", {**formats.OWN, "sink": sink})
    asked = ReportsTable.model_validate({"markdown": "c.md", "sink": "secret"})
    said = [formats.report_line(*target) for target in formats.targets(asked)]
    assert said == [f"markdown report {tmp_path}/c.md", "sink report written"]
