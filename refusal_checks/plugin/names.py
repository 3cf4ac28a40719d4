"""Names that every pytest session needs, in a module that is quick to import."""

PREFIX = "refusal_checks_"
"""Prefix of configuration keys, and of the attributes in which pytest stores option values."""

INI = {
    "thresholds": "run files (--thresholds)",
    "folder": "folder of the store and of runs; default: .refusal-checks in rootdir",
    "runs": "folder of the runs (--runs); default: runs in the folder above",
}
"""Keys of a repository's pytest configuration, after ``PREFIX``, with their help. They hold paths,
relative to the configuration file; an option of the same name wins."""

CANDIDATE = f"{PREFIX}candidate"
"""The attribute in which pytest stores the models under test."""
