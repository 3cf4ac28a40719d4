"""What is said of mistakes in run files: each of `mistakes.txt`, with its message.

The messages stand in a golden file, without the lists of all known names, so that a review shows
how one changes. ``pytest tests/unit/gates/test_mistakes.py --snapshot-update`` writes it.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from refusal_checks.config import toml_file
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.errors import ThresholdError
from refusal_checks.core.prompts import Kind
from tests.unit.conftest import Write
from tests.unit.gates.conftest import BENCHMARKS, cases, known

KNOWN = BENCHMARKS | {
    "sensitive": replace(
        BENCHMARKS["xstest_safe"], name="sensitive", kind=Kind.SENSITIVE
    )
}
SECTIONS = cases("mistakes.txt")


@pytest.mark.parametrize("section", SECTIONS, ids=[name for name, _ in SECTIONS])
def test_messages(
    section: tuple[str, list[str]],
    write: Write,
    tmp_path: Path,
    snapshot: SnapshotAssertion,
) -> None:
    told = []
    for mistake in section[1]:
        texts = mistake.split("---\n")
        paths = [
            write(f"gates{number}.toml", text) for number, text in enumerate(texts, 1)
        ]
        with known(KNOWN), pytest.raises(ThresholdError) as caught:
            RunSpec.read(*paths)
        message = str(caught.value)
        assert message.startswith(f"{tmp_path}/gates"), "it names the file"
        assert "nput" not in message, "no words of pydantic's"
        assert message.isprintable()
        message = re.sub(
            r"(nown): [^)]+", r"\1: ...", message.replace(f"{tmp_path}/", "")
        )
        told.append(f"{mistake.strip()}\n    -> {message}")
    assert "\n\n".join(told) == snapshot


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    missing = tmp_path / "nowhere.toml"
    with pytest.raises(ThresholdError, match=r"nowhere\.toml: no such file"):
        toml_file.read(missing)


@pytest.mark.parametrize(
    ("name", "meant"), [("smke", "smoke"), ("our.tml", "our.toml")]
)
def test_a_misspelt_file_is_guessed(tmp_path: Path, name: str, meant: str) -> None:
    (tmp_path / "our.toml").touch()
    with pytest.raises(
        ThresholdError, match=f'did you mean "{meant}"\\? If not, name one of yours'
    ):
        toml_file.find(tmp_path / name)


def test_a_folder_and_a_file_of_other_bytes_are_no_threshold_files(
    tmp_path: Path,
) -> None:
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ThresholdError, match="not TOML"):
        RunSpec.read(binary)
    with pytest.raises(ThresholdError, match="name a file: it is a folder"):
        RunSpec.read(tmp_path)


@pytest.mark.parametrize(
    "content",
    ["x = " + "[" * 100_000, "x = " + "9" * 5000, "[x]\nlimit = " + "9" * 4000, "\x00"],
)
def test_a_file_that_toml_s_parser_chokes_on_is_named(
    write: Write, content: str
) -> None:
    with pytest.raises(ThresholdError, match=r"own\.toml"):
        RunSpec.read(write("own.toml", content))
