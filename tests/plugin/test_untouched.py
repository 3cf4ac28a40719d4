"""Tests that change a file of the machine's fail their session."""

import sys
from pathlib import Path

import pytest

from tests.plugin.conftest import ROOT, Project, in_both_modes, shown
from tests.support.untouched import changes, snapshot, watched_folders

pytestmark = pytest.mark.slow

CONFTEST = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from tests.support.untouched import watch

def pytest_configure(config):
    watch(config, [Path({folder!r})])
    watch(config, [Path({folder!r})])
"""


@in_both_modes
def test_a_session_that_overwrites_a_program_fails_and_names_it(
    project: Project, tmp_path: Path, mode: tuple[str, ...]
) -> None:
    program = tmp_path / "pip"
    program.write_text("the system's")
    project.write("conftest.py", CONFTEST.format(root=str(ROOT), folder=str(tmp_path)))
    test = "from pathlib import Path\ndef test_it(): Path({!r}).write_text({!r})\n"
    project.write("test_one.py", test.format(str(program), "a stub's 456"))
    project.write("test_two.py", "def test_nothing(): pass\n")
    careful = project.run("test_two.py", *mode)
    assert (careful.ret, "outside" in shown(careful)) == (0, False)
    careless = project.run("test_one.py", *mode)
    careless.assert_outcomes(passed=1)
    assert careless.ret == pytest.ExitCode.TESTS_FAILED
    assert shown(careless).count(f"{program} was changed") == 1


def test_each_kind_of_change_is_named(tmp_path: Path) -> None:
    for name in ("same", "rewritten", "removed", "program"):
        (tmp_path / name).write_text(name)
    (tmp_path / "link").symlink_to("same")
    (tmp_path / "folder").mkdir()
    before = snapshot([tmp_path, tmp_path / "absent"])
    (tmp_path / "rewritten").write_text("rewrittEn")
    (tmp_path / "removed").unlink()
    (tmp_path / "program").chmod(0o755)
    (tmp_path / "link").unlink()
    (tmp_path / "link").symlink_to("program")
    (tmp_path / "new").mkdir()
    (tmp_path / "folder" / "inside").touch()
    assert changes(before, snapshot([tmp_path])) == [
        f"{tmp_path / name} {what}"
        for name, what in (
            ("link", "was changed"),
            ("new", "is new"),
            ("program", "was changed"),
            ("removed", "is gone"),
            ("rewritten", "was changed"),
        )
    ]


def test_programs_are_watched_in_this_session(
    request: pytest.FixtureRequest,
) -> None:
    folders = watched_folders()
    assert {Path("/usr/bin"), Path(sys.executable).parent} <= {*folders}
    is_worker = hasattr(request.config, "workerinput")
    assert (
        request.config.pluginmanager.has_plugin("tests.support.untouched")
        is not is_worker
    )
