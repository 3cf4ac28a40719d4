"""Names that every pytest session needs, in a module that is quick to import."""

PREFIX = "refusal_checks_"
"""Begins the names of configuration keys, and those under which pytest keeps option values."""

INI = {
    "thresholds": "run files (--thresholds)",
    "folder": "folder of the store and of runs; default: .refusal-checks in rootdir",
    "runs": "folder of the runs (--runs); default: runs in the folder above",
}
"""Keys of a repository's pytest configuration, after ``PREFIX``, with their help. They hold paths,
relative to the configuration file; an option of the same name wins."""

CANDIDATE = f"{PREFIX}candidate"
"""The name under which pytest keeps the models under test."""
