"""What is said of mistakes in run files: each of `mistakes.txt`, with its message.

The messages stand in a golden file, without the lists of all known names, so that a review shows
how one changes. ``pytest tests/unit/gates/test_mistakes.py --snapshot-update`` writes it.
"""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("missing.toml", "no such file; name one of yours"),
        ("smke", 'did you mean "smoke"? If not, name one of yours'),
        ("our.tml", 'did you mean "our.toml"? If not, name one of yours'),
        ("", "name a file: it is a folder"),
    ],
)
def test_a_name_that_is_no_file_s_is_answered_with_one(
    tmp_path: Path, name: str, said: str
) -> None:
    (tmp_path / "our.toml").touch()
    with pytest.raises(ThresholdError, match=f"{tmp_path / name}: .*{re.escape(said)}"):
        RunSpec.read(tmp_path / name)


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"x = " + b"[" * 100_000, b"x = " + b"9" * 5000]
)
def test_a_file_that_no_parser_reads_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "own.toml"
    path.write_bytes(content)
    with pytest.raises(ThresholdError, match=f"{path}: (save|shorten) it"):
        RunSpec.read(path)
