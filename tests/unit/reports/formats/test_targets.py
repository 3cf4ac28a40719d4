"""The files that reports are written to are looked at before an engine starts."""

from pathlib import Path

import pytest

from refusal_checks.core.errors import UserError
from refusal_checks.reports import formats
from refusal_checks.spec import ReportsTable


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"html": "page", "pr_comment": "./page"},
            "reports.pr_comment .*page: name another file: --html is written to this one",
        ),
        ({"html": "folder"}, "--html .*folder: name a file: it is a folder"),
        (
            {"pr_comment": "x" * 300},
            "reports.pr_comment .*: name a file: File name too long",
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
        formats.check(ReportsTable.model_validate(keys))


def test_reports_in_files_of_their_own_are_fine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    formats.check(ReportsTable(html="new/page.html", pr_comment="new/comment.md"))
    assert (tmp_path / "new").is_dir()
