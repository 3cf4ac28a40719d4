"""Nothing heavy is imported before it is needed; import-linter checks which way imports go."""

import subprocess
import sys

import pytest

import refusal_checks

HEAVY = {
    "torch",
    "vllm",
    "transformers",
    "datasets",
    "pandas",
    "scipy",
    "matplotlib",
    "py3langid",
    "aiohttp",
}


def loaded(module: str) -> set[str]:
    """What importing a module loads, in a process of its own."""
    script = f"import sys, {module}; print(*sys.modules)"
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("module", ["plugin", "cli.gate", "api"])
def test_what_starts_first_loads_nothing_heavy(module: str) -> None:
    found = {name.partition(".")[0] for name in loaded(f"refusal_checks.{module}")}
    assert not found & HEAVY


def test_the_package_alone_imports_none_of_its_rooms() -> None:
    assert all(getattr(refusal_checks, name) for name in refusal_checks.__all__)
    found = {name for name in loaded("refusal_checks") if "refusal_checks." in name}
    assert found == {"refusal_checks.version"}
