"""Names that every pytest session needs, in a module that is quick to import."""

PREFIX = "refusal_checks_"
"""Prefix of configuration keys."""

INI = {
    "thresholds": "run files (--refusal-thresholds)",
    "folder": "folder of the store and of runs; default: .refusal-checks in rootdir",
    "runs": "folder of the runs (--refusal-runs); default: runs in the folder above",
}
"""Keys of a repository's pytest configuration, after ``PREFIX``, with their help. They hold paths,
relative to the configuration file; an option of the same name wins."""
