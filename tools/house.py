"""How large the package is and how its parts hang together: ``python -m tools.house``.

Prints lines and files, the signatures that take all options, imports between and within rooms (the
folders of the package), and names of classes that are defined more than once.
"""

from __future__ import annotations

import ast
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import grimp

PACKAGE = "refusal_checks"
WHOLE = ("RunConfig", "PreparedRun", "Parts")
"""Classes that hold everything of a run; few functions should take all of it."""


def main() -> None:
    """Print one figure a line."""
    package, tests = files(PACKAGE), files("tests")
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in package}
    print(f"package: {lines(package)} lines, {len(package)} files")
    for room, inside in sorted(by_room(package).items()):
        print(f"  {room}: {lines(inside)} lines, {len(inside)} files")
    print(f"tests: {lines(tests)} lines, {len(tests)} files")
    for name in WHOLE:
        print(
            f"signatures with {name}: {sum(takes(tree, name) for tree in trees.values())}"
        )
    graph = grimp.build_graph(PACKAGE)
    found = arrows(graph)
    print(
        f"rooms: {len({end for arrow in found for end in arrow})}, arrows: {len(found)}"
    )
    circles = [circle for circle in components(graph) if len(circle) > 1]
    print(f"circles of modules: {len(circles)}")
    for circle in circles:
        print(f"  {', '.join(sorted(circle))}")
    names = Counter(name for tree in trees.values() for name in public_classes(tree))
    several = sorted(name for name, count in names.items() if count > 1)
    print(
        f"public class names defined more than once: {len(several)} ({', '.join(several)})"
    )


def files(folder: str) -> list[Path]:
    """The Python files of a folder that git knows."""
    listed = subprocess.run(
        ["git", "ls-files", folder],  # noqa: S607 (the user's own git)
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    return [
        Path(name)
        for name in listed.split()
        if name.endswith(".py") and Path(name).exists()
    ]


def lines(paths: Iterable[Path]) -> int:
    """Lines of all of these files."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in paths)


def by_room(paths: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of each folder of the package."""
    rooms = defaultdict(list)
    for path in paths:
        rooms[path.parts[1] if len(path.parts) > 2 else "(top)"].append(path)
    return rooms


def takes(tree: ast.AST, name: str) -> int:
    """How many functions have a parameter of this class."""
    return sum(
        any(
            isinstance(part, ast.Name) and part.id == name
            for argument in (
                *node.args.posonlyargs,
                *node.args.args,
                *node.args.kwonlyargs,
            )
            if argument.annotation
            for part in ast.walk(argument.annotation)
        )
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def arrows(graph: grimp.ImportGraph) -> set[tuple[str, str]]:
    """Which room imports which; imports for type checking count, too."""
    return {
        (room(importer), room(imported))
        for importer in graph.modules
        for imported in graph.find_modules_directly_imported_by(importer)
        if room(importer) != room(imported)
    }


def room(module: str) -> str:
    """The part of a module's name after the package's."""
    return module.partition(".")[2].partition(".")[0]


def components(graph: grimp.ImportGraph) -> Iterator[set[str]]:
    """Modules that import each other in a circle, and each other module by itself (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    for start in sorted(graph.modules):
        if start in index:
            continue
        todo: list[tuple[str, Iterator[str]]] = []

        def enter(module: str, todo: list[tuple[str, Iterator[str]]] = todo) -> None:
            index[module] = low[module] = len(index)
            stack.append(module)
            todo.append((module, iter(graph.find_modules_directly_imported_by(module))))

        enter(start)
        while todo:
            module, following = todo[-1]
            for imported in following:
                if imported not in index:
                    enter(imported)
                    break
                if imported in stack:
                    low[module] = min(low[module], index[imported])
            else:
                todo.pop()
                if todo:
                    low[todo[-1][0]] = min(low[todo[-1][0]], low[module])
                if low[module] == index[module]:
                    cut = stack.index(module)
                    yield set(stack[cut:])
                    del stack[cut:]


def public_classes(tree: ast.Module) -> Iterator[str]:
    """The public classes that a module defines."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


if __name__ == "__main__":
    main()
