"""Nothing heavy is imported before it is needed; import-linter checks which way imports go."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import refusal_checks

HEAVY = {
    "torch",
    "vllm",
    "transformers",
    "scipy",
    "matplotlib",
    "py3langid",
    "aiohttp",
}
ROOT = Path(refusal_checks.__file__).parent


def at_import(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when the module is imported: no function's body, no type's imports."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from at_import(node)


def imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    """The top-level packages that these nodes import."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.module, "write imports in full"
            yield node.module.split(".")[0]


def test_nothing_heavy_is_imported_with_a_module() -> None:
    found = {
        (path.name, name)
        for path in ROOT.rglob("*.py")
        for name in imported(at_import(ast.parse(path.read_text(encoding="utf-8"))))
    }
    assert not [pair for pair in found if pair[1] in HEAVY]


def loaded(module: str) -> set[str]:
    """What importing a module loads, in a process of its own."""
    script = f"import sys, {module}; print(*sys.modules, sep='\\n')"
    command = [sys.executable, "-c", script]
    return set(
        subprocess.run(
            command, capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_the_plugin_loads_nothing_heavy_through_others() -> None:
    found = {name.partition(".")[0] for name in loaded("refusal_checks.plugin")}
    assert not found & (HEAVY | {"datasets", "pandas"})


def test_the_package_alone_imports_none_of_its_rooms() -> None:
    assert all(getattr(refusal_checks, name) for name in refusal_checks.__all__)
    found = {name for name in loaded("refusal_checks") if "refusal_checks." in name}
    assert found == {"refusal_checks.version"}
