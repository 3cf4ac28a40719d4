"""The version of the package; it imports nothing, so that any module may import it."""

__version__ = "0.2.0"

SOURCE = f"git+https://github.com/refusal-checks/refusal-checks@v{__version__}"
"""Where pip finds this version until a package index has it; templates and docs use it."""
