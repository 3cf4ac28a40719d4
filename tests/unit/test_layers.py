"""Imports go downward, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import refusal_checks

LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "",
        "errors",
        "collector",
        "guard",
        "report.text",
        "spreadsheet",
        "agreement",
        "distribution",
        "reasoning",
        "pace",
        "demo",
        "filesystem",
    ),
    ("statistics", "paired", "planning", "sequential"),
    ("quality", "correction", "prediction_powered"),
    ("conversation", "config", "settings", "label_probabilities"),
    ("records", "sources", "models", "tables", "subset", "calibration", "database"),
    ("hub",),
    ("metrics", "panel", "gates"),
    ("thresholds",),
    ("faults", "capabilities", "usage", "placement"),
    ("retries", "transport", "choices"),
    ("client", "endpoint", "probing", "engine", "store", "replay", "identity"),
    ("judges", "candidates", "benchmarks", "labelled", "canary", "progress", "saving"),
    ("plan", "evaluate", "mirror", "labelling", "trust"),
    ("batch.files", "batch.results", "batch.transport"),
    ("outcome", "offenders", "baseline", "human_rate", "judge_noise"),
    ("comparison",),
    ("finding", "early"),
    ("gate",),
    ("board", "report"),
    ("run_folder", "run_folders", "export", "redact"),
    ("formats",),
    (
        "options",
        "model_options",
        "judge_options",
        "endpoint_options",
        "batch.options",
        "servers",
        "attaching",
        "accounts",
    ),
    ("engines", "batch.models", "manifest"),
    ("assembly", "earlier", "resumption", "suggest", "concurrency"),
    ("judging", "judge_check"),
    ("decisions", "collecting"),
    ("phases",),
    ("calibrating",),
    ("report.quality",),
    ("run", "batch", "doctor"),
    ("series",),
    ("session",),
    ("plugin", "cli"),
)
"""Modules by layer, lowest first; a package stands for its modules that are not named themselves.

A module imports from lower layers and from its own; a new module must be named here. The modules of
``demo`` make the demo models, and nothing imports them.
"""

HEAVY = {"torch", "vllm", "transformers", "scipy", "diptest", "matplotlib", "py3langid"}
PACKAGE = "refusal_checks"
ROOT = Path(refusal_checks.__file__).parent


def module_name(path: Path) -> str:
    """The module's name within the package, empty for the package itself."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix("__init__").rstrip(".")


MODULES = {
    module_name(path): ast.parse(path.read_text(encoding="utf-8"))
    for path in sorted(ROOT.rglob("*.py"))
}
OWN = [name for name in MODULES if not name.startswith("demo.")]


def layer(module: str) -> int | None:
    """The layer of a module or, where it is not named, of the nearest package around it."""
    if module.startswith("demo."):
        return len(LAYERS)
    for number, names in enumerate(LAYERS):
        if module in names:
            return number
    around = module.rpartition(".")[0]
    return layer(around) if around else None


def imported(nodes: Iterator[ast.AST], module: str) -> Iterator[str]:
    """The full names of the modules, or the things in them, that these nodes import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: write imports in full"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def dependencies(module: str) -> set[str]:
    """The package's modules that a module imports, anywhere in it."""
    found = set()
    for name in imported(ast.walk(MODULES[module]), module):
        if name.split(".")[0] == PACKAGE:
            inner = name.removeprefix(PACKAGE).lstrip(".")
            found.add(inner if inner in MODULES else inner.rpartition(".")[0])
    return found - {module}


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function's body, no type's imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import(node)


def test_the_package_is_read() -> None:
    assert {"", "errors", "plugin", "judges.refusal", "benchmarks.xstest"} <= MODULES.keys()
    assert dependencies("gate") >= {"metrics", "records", "statistics", "thresholds"}


@pytest.mark.parametrize("module", OWN)
def test_a_module_has_a_layer(module: str) -> None:
    assert layer(module) is not None, f"name {module} in LAYERS"


def test_no_layer_names_a_module_that_is_gone() -> None:
    assert {name for names in LAYERS for name in names} <= MODULES.keys()


@pytest.mark.parametrize("module", OWN)
def test_imports_go_downward(module: str) -> None:
    own = layer(module)
    assert own is not None
    upward = {name for name in dependencies(module) if (layer(name) or 0) > own}
    assert not upward


def test_imports_have_no_cycle() -> None:
    TopologicalSorter({module: dependencies(module) for module in OWN}).prepare()


@pytest.mark.parametrize("module", OWN)
def test_nothing_heavy_is_imported_with_a_module(module: str) -> None:
    names = {name.split(".")[0] for name in imported(at_import(MODULES[module]), module)}
    assert not names & HEAVY


def test_the_plugin_loads_nothing_heavy_through_others() -> None:
    script = (
        "import json, sys; import refusal_checks.plugin;"
        "print(json.dumps(sorted({name.split('.')[0] for name in sys.modules})))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert not set(json.loads(loaded.stdout)) & (HEAVY | {"aiohttp", "datasets", "pandas"})
