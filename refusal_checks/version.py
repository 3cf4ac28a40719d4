"""The package's version; imports nothing, so that any module may import it."""

__version__ = "0.2.0"

SOURCE = f"git+https://github.com/refusal-checks/refusal-checks@v{__version__}"
"""What to give pip until a package index has this version; for templates and docs."""
