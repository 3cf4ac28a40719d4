"""Extensions: who may be imported, and what is said of one that cannot be used."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from refusal_checks import benchmarks, judges
from refusal_checks.cli import report
from refusal_checks.config.run_spec import RunSpec
from refusal_checks.core.errors import ThresholdError, UserError
from refusal_checks.io import extensions
from refusal_checks.io.extensions import ExtensionError
from refusal_checks.metrics import METRICS
from refusal_checks.reports import formats
from tests.unit.cli.test_baseline import call

BENCHMARK = """
from refusal_checks import Benchmark, Prompt
from refusal_checks.benchmarks import Kind
PROMPTS = [Prompt.single("a", "b")]
BENCHMARKS = [Benchmark("{name}", Kind.SANITY, "some", lambda mirror: PROMPTS, "1")]
"""
METRIC = """
from refusal_checks.metrics.metric import LABELS, mean
@mean(LABELS)
def {name}(answers): return 0.0
"""

Install = Callable[..., None]


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(extensions, "_LOADED", extensions._Loaded())
    monkeypatch.setattr(extensions, "entry_points", lambda group: [])
    before = dict(METRICS)
    yield
    METRICS.clear()
    METRICS.update(before)


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Install:
    """Installs modules, given by the names of their entry points."""

    def make(**texts: str) -> None:
        monkeypatch.syspath_prepend(tmp_path)
        for name, text in texts.items():
            (tmp_path / f"words_{name}.py").write_text(text)
            monkeypatch.delitem(
                __import__("sys").modules, f"words_{name}", raising=False
            )
        points = [EntryPoint(name, f"words_{name}", extensions.GROUP) for name in texts]
        monkeypatch.setattr(extensions, "entry_points", lambda group: points)

    return make


def test_what_a_module_defines_is_found(install: Install) -> None:
    install(
        acme=BENCHMARK.format(name="acme")
        + METRIC.format(name="acme_rate")
        + "def build(setup): ...\n"
        + "def write(run, path): ...\n"
    )
    assert "acme" in benchmarks.discover()
    assert judges.discover()["acme"].judges_refusal is False
    assert formats.discover()["acme"].usual_file == ""
    assert METRICS["acme_rate"].score.__module__ == "words_acme"
    (one,) = extensions.load_all()
    assert one.origin == "an installed package (words_acme)"


def test_functions_that_a_module_imports_are_not_its_own(install: Install) -> None:
    install(
        acme="from words_other import write, build",
        other="def write(a, b): ...\nbuild = write",
    )
    acme, other = extensions.load_all()
    assert not acme.has("write")
    assert not acme.has("build")
    assert other.has("write")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "import no_such_module",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("def broken(:", "SyntaxError: "),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_an_import_error_names_the_extension_and_spares_the_others(
    install: Install, text: str, reason: str
) -> None:
    install(acme=text, good=BENCHMARK.format(name="good"))
    (said,) = extensions.faults()
    assert said.startswith("extension an installed package (words_acme): ")
    assert reason in said
    assert "good" in benchmarks.discover()
    with pytest.raises(ExtensionError, match="words_acme"):
        extensions.require_sound()


SAME = BENCHMARK.format(name="same")
REPORT = "def write(run, path): ..."
RATE = METRIC.format(name="rejection_rate")
OWN = "one of refusal-checks"


@pytest.mark.parametrize(
    ("texts", "discover", "reason"),
    [
        (
            *({"one": SAME, "two": SAME}, benchmarks.discover),
            'benchmarks are called "same", one of .*words_one.*, one of .*words_two',
        ),
        (
            *({"refusal": "def build(setup): ..."}, judges.discover),
            f'ways of judging are called "refusal", {OWN}, one of .*words_refusal',
        ),
        (
            {"html": REPORT},
            formats.discover,
            f'report formats are called "html", {OWN}, one of .*words_html',
        ),
        (
            {"one": "BENCHMARKS = ['smoke']"},
            benchmarks.discover,
            "Benchmark values, not str",
        ),
        (
            *({"one": RATE}, extensions.require_sound),
            f'metrics are called "rejection_rate", {OWN}, one of .*words_one',
        ),
    ],
)
def test_a_name_that_is_taken_names_both_origins(
    install: Install, texts: dict[str, str], discover: Callable[[], object], reason: str
) -> None:
    install(**texts)
    with pytest.raises(ExtensionError, match=reason):
        discover()


def test_a_report_format_is_a_kind_of_report_that_is_told_what_to_write(
    install: Install,
) -> None:
    install(card=REPORT)
    assert report.kinds() == ["html", "markdown", "junit", "card"]
    with pytest.raises(UserError, match="report card: add --out TARGET: this report"):
        call("report", "card", ".")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('"own.py"', 'write a list of files: ["gates/own.py"]'),
        ('["missing.py"]', "missing.py: name an existing Python file (.py)"),
        ('["own.txt"]', "own.txt: name an existing Python file (.py)"),
        (
            '["/etc/own.py"]',
            "/etc/own.py: write its path relative to the run file's folder",
        ),
        ('["../outside.py"]', "../outside.py: move it below"),
        ('["link.py"]', "link.py: move it below"),
        ('["broken.py"]', "broken.py, line 2)"),
    ],
)
def test_only_python_files_of_the_project_are_imported(
    tmp_path: Path, value: str, reason: str
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside.py").write_text("raise AssertionError")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    (folder / "own.txt").write_text("raise AssertionError")
    (folder / "broken.py").write_text("\nnothing\n")
    gates = folder / "gates.toml"
    gates.write_text(f"extensions = {value}\n")
    with pytest.raises(ThresholdError) as caught:
        RunSpec.read(gates)
    assert str(caught.value).startswith(f"{gates}: extensions: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_elsewhere_in_the_project_is_gated(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    own = tmp_path / "own.py"
    own.write_text(BENCHMARK.format(name="own") + METRIC.format(name="own_rate"))
    gates = tmp_path / "thresholds" / "gates.toml"
    gates.parent.mkdir()
    gates.write_text('extensions = ["../own.py"]\n[own]\nown_rate = { max = 0.5 }\n')
    for _ in range(2):
        read = RunSpec.read(gates)
        assert [gate.id for gate in read.gates] == ["own-own_rate", "own-invalid_rate"]
    assert [Path(one.origin).resolve() for one in extensions.load_all()] == [own]
