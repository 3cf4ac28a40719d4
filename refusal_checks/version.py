"""The version of the package; it imports nothing, so that any module may import it."""

__version__ = "0.2.0"
